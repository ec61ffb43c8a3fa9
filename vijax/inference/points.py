"""Points beside the globals: hyperparameters, networks. They are `Model.hyper`, by name, each a pytree under a
constraint; some may be learnt, by gradient steps in free coordinates."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, PyTree

from vijax.checks import require
from vijax.constrain import Constraint, positive
from vijax.contract.model import Hyper, Model


@dataclasses.dataclass(frozen=True)
class Learn:
    """Points to learn, and the optimiser of optax that moves them; None is Adam at rate 0.01."""

    names: tuple[str, ...]
    optimizer: optax.GradientTransformation | None = None


def learn(*names: str, optimizer: optax.GradientTransformation | None = None) -> Learn:
    """Names of points to learn, with the optimiser that moves them: `compose(learn=learn("alpha", optimizer=...))`.

    Args:
      *names: of the points, as in `Model.hyper`.
      optimizer: of optax. It sees a dict of the points by name, so that `optax.multi_transform` can tell them apart;
        None is Adam at rate 0.01.

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
    """Raises ValueError where what is to be learnt is no point of the model, or does not satisfy its constraint."""
    strange = sorted(set(names) - set(model.hyper))
    require(not strange, "learn", f"names among {sorted(model.hyper)}", strange)
    for name in names:
        constraint = constraint_of(model, name)
        for leaf in jax.tree.leaves(model.hyper[name]):
            require(constraint.holds(jnp.asarray(leaf)), f"hyper[{name!r}]", f"{constraint!r} numbers", leaf)


def free_points(model: Model, hyper: Hyper, names: tuple[str, ...]) -> dict[str, PyTree]:
    """Those named, in free coordinates: what is learnt."""
    return {name: jax.tree.map(constraint_of(model, name).free, hyper[name]) for name in names}


def with_points(model: Model, hyper: Hyper, free: dict[str, PyTree]) -> Hyper:
    """All points, those in free coordinates in the place of their former values."""
    return {**hyper, **{name: jax.tree.map(constraint_of(model, name).point, x) for name, x in free.items()}}


def underflow(model: Model, free: dict[str, PyTree]) -> Bool[Array, ""]:
    """Whether a positive point is below the smallest number of its type: as far off as one above the largest, which is
    not finite."""
    leaves = [x for name in free if constraint_of(model, name) == positive() for x in jax.tree.leaves(free[name])]
    return jnp.any(jnp.array([jnp.any(x < jnp.log(jnp.finfo(x.dtype).tiny)) for x in leaves], bool))
