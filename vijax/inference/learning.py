"""Points beside the globals (`Model.hyper`): hyperparameters and networks, learnt by steps of an
optax optimiser on the objective in free coordinates."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree

from vijax.checks import require
from vijax.constrain import Constraint, positive
from vijax.contract.model import Hyper, Model
from vijax.inference.spec import Spec
from vijax.inference.state import State
from vijax.inference.update.descend import ascent_step


@dataclasses.dataclass(frozen=True)
class Learn:
    """Names of points to learn, and their optimiser of optax; None is Adam at rate 0.01."""

    names: tuple[str, ...]
    optimizer: optax.GradientTransformation | None = None


def learn(*names: str, optimizer: optax.GradientTransformation | None = None) -> Learn:
    """Points to learn, and their optimiser: `compose(learn=learn("alpha", optimizer=...))`.

    Args:
      *names: names of points in `Model.hyper`.
      optimizer: an optimiser of optax. It sees a dict of the points by name, so that
        `optax.multi_transform` can tell them apart; None is Adam at rate 0.01.

    >>> import optax, vijax as vi
    >>> alg = vi.svi(vi.models.lda(3, 20), learn=learn("alpha", optimizer=optax.adam(0.1)))
    >>> alg.spec.learn
    ('alpha',)
    """
    return Learn(names, optimizer)


def point_constraint(model: Model, name: str) -> Constraint:
    """The constraint of a point; without one in `Model.constraints` it is positive."""
    return (model.constraints or {}).get(name, positive())


def check_learnt(model: Model, names: tuple[str, ...]) -> None:
    """Raises ValueError at a name that is no point of the model, and at a point that does not
    satisfy its constraint."""
    strange = sorted(set(names) - set(model.hyper))
    require(not strange, "learn", f"names among {sorted(model.hyper)}", strange)
    for name in names:
        constraint = point_constraint(model, name)
        expected = f"{constraint!r} numbers"
        for leaf in jax.tree.leaves(model.hyper[name]):
            is_inside = constraint.holds(jnp.asarray(leaf))
            require(is_inside, f"hyper[{name!r}]", expected, leaf)


def free_points(model: Model, hyper: Hyper, names: tuple[str, ...]) -> dict[str, PyTree]:
    """The free coordinates of the points of these names."""
    return {name: jax.tree.map(point_constraint(model, name).free, hyper[name]) for name in names}


def with_points(model: Model, hyper: Hyper, free: dict[str, PyTree]) -> Hyper:
    """All points; those with free coordinates in `free` have their values from these."""
    points = {
        name: jax.tree.map(point_constraint(model, name).point, x) for name, x in free.items()
    }
    return {**hyper, **points}


def evaluate_penalty(spec: Spec, state: State, theta: PyTree) -> tuple[Float[Array, ""], PyTree]:
    """The penalty that the objective subtracts, and its gradient in the learnt points."""

    def penalty(theta: PyTree) -> Float[Array, ""]:
        hyper = with_points(spec.model, state.hyper, theta)
        return spec.penalty(state.posterior, hyper, state.memory)

    if spec.penalty_every == 1:
        return jax.value_and_grad(penalty)(theta)
    due = state.step % spec.penalty_every == 0
    return jax.lax.cond(due, lambda: penalty(theta), lambda: state.penalty), theta


def ascend(
    spec: Spec, ascent: PyTree, theta: PyTree, state: State
) -> tuple[Hyper, PyTree, Bool[Array, ""]]:
    """One ascent step on the objective, in the free coordinates of the learnt points.

    Returns:
      All points; the memory of the optimiser; True if a positive point fell below the smallest
      number of its type.
    """
    new, opt_state = ascent_step(spec.optimizer, ascent, state.opt_state, theta)
    # Below the smallest number of its type a positive point counts as not finite, as it does above
    # the largest.
    positives = [name for name in new if point_constraint(spec.model, name) == positive()]
    leaves = [x for name in positives for x in jax.tree.leaves(new[name])]
    underflows = [jnp.any(x < jnp.log(jnp.finfo(x.dtype).tiny)) for x in leaves]
    # No array of them: where there are none, jaxlib 0.11.2 ends the process at an empty constant
    # inside `jax.shard_map`.
    too_far = functools.reduce(jnp.logical_or, underflows, jnp.array(False))
    return with_points(spec.model, state.hyper, new), opt_state, too_far
