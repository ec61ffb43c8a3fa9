"""Points beside the globals: hyperparameters, networks. They are `Model.hyper` by name, pytrees
under constraints.

Some may be learnt, by steps of an optax optimiser on the objective in free coordinates.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree

from vijax.checks import require
from vijax.constrain import Constraint, positive
from vijax.contract.model import Hyper, Model
from vijax.inference.spec import Spec
from vijax.inference.state import State
from vijax.inference.update.descend import ascended


@dataclasses.dataclass(frozen=True)
class Learn:
    """Points to learn, and the optimiser of optax that moves them; None is Adam at rate 0.01."""

    names: tuple[str, ...]
    optimizer: optax.GradientTransformation | None = None


def learn(*names: str, optimizer: optax.GradientTransformation | None = None) -> Learn:
    """Names of points to learn, with the optimiser that moves them: `compose(learn=learn("alpha",
    optimizer=...))`.

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


def constraint_of(model: Model, name: str) -> Constraint:
    """The constraint of a point; hyperparameters are positive unless the model says otherwise."""
    return (model.constraints or {}).get(name, positive())


def check_learnt(model: Model, names: tuple[str, ...]) -> None:
    """Raises ValueError at names that are no points of the model, and at points that do not satisfy
    their constraint."""
    strange = sorted(set(names) - set(model.hyper))
    require(not strange, "learn", f"names among {sorted(model.hyper)}", strange)
    for name in names:
        constraint = constraint_of(model, name)
        for leaf in jax.tree.leaves(model.hyper[name]):
            require(
                constraint.holds(jnp.asarray(leaf)),
                f"hyper[{name!r}]",
                f"{constraint!r} numbers",
                leaf,
            )


def free_points(model: Model, hyper: Hyper, names: tuple[str, ...]) -> dict[str, PyTree]:
    """The points of these names, in free coordinates."""
    return {name: jax.tree.map(constraint_of(model, name).free, hyper[name]) for name in names}


def with_points(model: Model, hyper: Hyper, free: dict[str, PyTree]) -> Hyper:
    """All points, with the values that the free coordinates give for some."""
    return {
        **hyper,
        **{name: jax.tree.map(constraint_of(model, name).point, x) for name, x in free.items()},
    }


def penalty_of(spec: Spec, state: State, theta: PyTree) -> tuple[Float[Array, ""], PyTree]:
    """The number that the objective subtracts, and its gradient in the points that are learnt."""

    def penalty(theta: PyTree) -> Float[Array, ""]:
        return spec.penalty(state.posterior, with_points(spec.model, state.hyper, theta))

    if spec.penalty_every == 1:
        return jax.value_and_grad(penalty)(theta)
    due = state.step % spec.penalty_every == 0
    return jax.lax.cond(due, lambda: penalty(theta), lambda: state.penalty), theta


def ascend(
    spec: Spec, ascent: PyTree, theta: PyTree, state: State
) -> tuple[Hyper, PyTree, Bool[Array, ""]]:
    """One ascent step on the objective in the free coordinates of the points that are learnt; and
    True where a positive point has gone further down than its type has numbers."""
    new, opt_state = ascended(spec.optimizer, ascent, state.opt_state, theta)
    # A positive point below the smallest number of its type is as far off as one above the largest:
    # not finite.
    leaves = [
        x
        for name in new
        if constraint_of(spec.model, name) == positive()
        for x in jax.tree.leaves(new[name])
    ]
    too_far = jnp.any(
        jnp.array([jnp.any(x < jnp.log(jnp.finfo(x.dtype).tiny)) for x in leaves], bool)
    )
    return with_points(spec.model, state.hyper, new), opt_state, too_far
