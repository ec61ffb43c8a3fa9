"""Constructors of families and their checks. Concrete numbers are handled in NumPy, because a
compiled program for each operation would cost more. `require_proper` checks a family that was
passed in: raw constructors check nothing.

The information form stores precision @ mean beside the precision, and location^2 beside the spread.
The parameters of the law are a difference or an inverse of these, so the condition number and (mean
/ standard deviation)^2 of a law cost digits: float32 has seven. By `require_accuracy` constructors
compute in float64 the law that the stored numbers stand for, and raise where more than `LIMIT` of
it is lost. Traced values have no numbers yet, and pass."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from vijax import tree
from vijax.checks import brief, require
from vijax.families.base import Family, as_float
from vijax.tree import to_device
from vijax.xla.compiler import quick_jit

Make = TypeVar("Make", bound=Callable)
LIMIT = 1e-3
"""Largest accepted loss: relative for rates and for variances in any direction, in standard
deviations for means."""

_DOUBLE = "work in float64: jax.config.update('jax_enable_x64', True)"
CENTRE = f"Centre the data (subtract the location from them), or {_DOUBLE}."
RESCALE = f"Measure each coordinate in units of its own spread, or {_DOUBLE}."


def numpy_or_jax(*values: Any) -> tuple[Any, ...]:
    """NumPy and the values in it; `jax.numpy` and the values as they are, where one of them is
    traced.

    >>> xp, x = numpy_or_jax(jnp.ones(3))
    >>> xp.sum(x)
    np.float32(3.0)
    """
    if any(isinstance(x, jax.core.Tracer) for x in values):
        return jnp, *values
    return np, *map(np.asarray, values)


def constructor(make: Make) -> Make:
    """Decorator of a function that makes a family `numpy_or_jax`: the arrays become JAX's and, as in
    JAX, overflow gives no warning."""

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return jax.tree.map(to_device, make(*args, **kwargs))

    return made  # type: ignore[return-value]


def _unchanged(q: Any, x: Any) -> Any:
    return x


def delegate(
    name: str,
    law: Callable[[Any], Family],
    give: Callable = _unchanged,
    take: Callable = _unchanged,
) -> Callable[..., Any]:
    """The method `name` of another law of q, `law(q)`: q's arguments x go there as `take(q, x)`,
    and results y come back as `give(q, y)`."""

    @functools.wraps(getattr(Family, name), updated=())  # without the mark of abstract methods
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = {key: take(self, x) for key, x in kwargs.items()}
        return give(self, getattr(law(self), name)(*(take(self, x) for x in args), **given))

    return method


def require_proper(argument: str, q: Any) -> None:
    """Raises ValueError unless the natural parameters of a family are arrays inside their domain.
    Each family of a mapping is checked; traced values pass, and values that are no `Family`.

    >>> from vijax.families import Normal
    >>> require_proper("prior", Normal(0.0, 1.0))
    Traceback (most recent call last):
    ...
    ValueError: prior: expected natural parameters inside their domain, got Normal(0.0, 1.0). Did you mean \
Normal.from_mean_variance(0.0, 1.0)? A family called by its bare name takes natural parameters.
    """
    if isinstance(q, Mapping):
        known = {
            name: factor
            for name, factor in q.items()
            if _is_concrete(factor) and _holds_arrays(factor)
        }
        if known and bool(_all_proper(list(known.values()))):  # one program for all of them
            q = {name: factor for name, factor in q.items() if name not in known}
        for name, factor in q.items():
            require_proper(f"{argument}[{name!r}]", factor)
        return
    if not _is_concrete(q):
        return
    arrays = _holds_arrays(q)
    if arrays and bool(_all_proper([q])):
        return
    expected = (
        "natural parameters inside their domain" if arrays else "natural parameters that are arrays"
    )
    shown = f"{type(q).__name__}({', '.join(map(brief, _values(q, static=True)))})"
    raise ValueError(
        f"{argument}: expected {expected}, got {shown}. Did you mean {_meant(q)}? A family called "
        "by its bare name takes natural parameters."
    )


def is_proper(q: Family) -> Bool[Array, ""]:
    """True where all natural parameters of a family are in their domain."""
    return jnp.all(jnp.array([jnp.all(mask) for mask in tree.parameters(q.in_domain())]))


def _is_concrete(q: Any) -> bool:
    return isinstance(q, Family) and not any(
        isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(q)
    )


def _holds_arrays(q: Family) -> bool:
    return all(
        isinstance(x, jax.Array | np.ndarray | np.generic | int | float)
        for x in _values(q, static=False)
    )


@quick_jit
def _proper(families: list[Family]) -> Bool[Array, ""]:
    return jnp.all(jnp.array([is_proper(q) for q in families]))


def _all_proper(families: list[Family]) -> Bool[Array, ""]:
    """True where all are in their domain; a prior of constants may be made in a trace too."""
    return _proper([tree.apply(as_float, q) for q in families])


def _values(q: Family, static: bool) -> list[Any]:
    """The values of a family's fields without the context, with static ones or without."""
    own = [field for field in dataclasses.fields(q) if not field.metadata.get("context")]  # type: ignore[arg-type]
    return [getattr(q, field.name) for field in own if static or not field.metadata.get("static")]


def _meant(q: Family) -> str:
    """Constructors that take as many parameters as were given; all of them where none does."""
    found = inspect.getmembers(type(q), inspect.ismethod)
    makers = [name for name, method in found if name.startswith("from_") and name in vars(type(q))]
    makers.sort(key=list(vars(type(q))).index)
    values = [brief(value) for value in _values(q, static=True)]
    fitting = {name: list(inspect.signature(getattr(type(q), name)).parameters) for name in makers}
    same = {name: names for name, names in fitting.items() if len(names) == len(values)} or fitting
    short = all(len(value) <= 30 for value in values)
    shown = {
        name: values if short and len(names) == len(values) else names
        for name, names in same.items()
    }
    return " or ".join(
        f"{type(q).__name__}.{name}({', '.join(given)})" for name, given in shown.items()
    )


def require_accuracy(name: str, lost: Callable[..., Any], *arrays: Any, remedy: str) -> None:
    """ValueError naming the argument where `lost` of the arrays, in float64, exceeds `LIMIT`.

    >>> require_accuracy("rate", lambda wanted, got: abs(got / wanted - 1), 1e-3, 0.0, remedy=CENTRE)
    Traceback (most recent call last):
    ...
    ValueError: rate: expected a value that rounding the natural parameters changes by less than 0.1 %, got one that \
it changes by 100 %. Centre the data (subtract the location from them), or work in float64: \
jax.config.update('jax_enable_x64', True).
    """
    if any(isinstance(x, jax.core.Tracer) for x in arrays):
        return
    with np.errstate(all="ignore"):
        worst = float(np.max(lost(*(np.asarray(x, np.float64) for x in arrays)), initial=0.0))
    expected = (
        f"a value that rounding the natural parameters changes by less than {100 * LIMIT:g} %"
    )
    got = f"one that it changes by {100 * worst:.3g} %"
    require(worst <= LIMIT, name, expected, got, remedy)


def rate_error(wanted: np.ndarray, got: np.ndarray) -> np.ndarray:
    """The relative change of a rate."""
    return np.abs(got / wanted - 1.0)


def spread_error(cov: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """|C' P C - I| (Frobenius) for cov = C C': the relative change of variances, in any direction;
    1 where cov is singular."""
    try:
        root = np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        return np.ones(cov.shape[:-2])
    return np.linalg.norm(
        root.swapaxes(-1, -2) @ precision @ root - np.eye(cov.shape[-1]), axis=(-2, -1)
    )


def mean_error(linear: np.ndarray, precision: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The distance of P^-1 linear from the mean, in standard deviations: |F^-1 (linear - P mean)|,
    P = F F'."""
    try:
        root = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        return np.ones(mean.shape[:-1])
    gap = linear - np.einsum("...ij,...j->...i", precision, mean)
    return np.linalg.norm(np.linalg.solve(root, gap[..., None])[..., 0], axis=-1)
