"""Constructors of families and their checks. Concrete numbers are handled in NumPy, because
compiling a program for each operation would cost more. `require_proper` checks a family that a user
passes in; raw constructors check nothing.

The information form stores precision @ mean beside the precision, and location^2 beside the spread.
The parameters of the law are differences or inverses of these, so a large condition number and a
large (mean / standard deviation)^2 cost digits, and float32 has seven. With `require_accuracy` a
constructor computes in float64 the law of the stored numbers, and raises if it differs from the
intended law by more than `LIMIT`. Traced values have no numbers yet, and pass."""

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
    """NumPy and the values as its arrays; if one of them is traced, `jax.numpy` and the values.

    >>> xp, x = numpy_or_jax(jnp.ones(3))
    >>> xp.sum(x)
    np.float32(3.0)
    """
    if any(isinstance(x, jax.core.Tracer) for x in values):
        return jnp, *values
    return np, *map(np.asarray, values)


def constructor(make: Make) -> Make:
    """Decorator of a function that makes a family by `numpy_or_jax`: the result has JAX arrays and,
    as in JAX, overflow gives no warning."""

    @functools.wraps(make)
    def make_on_device(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return jax.tree.map(to_device, make(*args, **kwargs))

    return make_on_device  # type: ignore[return-value]


def _second(q: Any, x: Any) -> Any:
    return x


def delegate(
    name: str,
    law: Callable[[Any], Family],
    give: Callable = _second,
    take: Callable = _second,
) -> Callable[..., Any]:
    """A method that calls `name` of another law, `law(q)`: each argument x is passed as `take(q,
    x)`, and the result y is returned as `give(q, y)`."""

    @functools.wraps(getattr(Family, name), updated=())  # without the mark of abstract methods
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        options = {key: take(self, x) for key, x in kwargs.items()}
        arguments = [take(self, x) for x in args]
        return give(self, getattr(law(self), name)(*arguments, **options))

    return method


def require_proper(argument: str, q: Any) -> None:
    """Raises ValueError unless the natural parameters of a family are arrays inside their domain.
    Each family of a mapping is checked; traced values and values other than a `Family` pass.

    >>> from vijax.families import Normal
    >>> require_proper("prior", Normal(0.0, 1.0))
    Traceback (most recent call last):
    ...
    ValueError: prior: expected natural parameters inside their domain, got Normal(0.0, 1.0). Did you mean \
Normal.from_mean_variance(0.0, 1.0)? A family called by its bare name takes natural parameters.
    """
    if isinstance(q, Mapping):
        _require_proper_factors(argument, q)
        return
    if not _is_concrete(q):
        return
    arrays = _holds_arrays(q)
    if arrays and bool(_all_proper([q])):
        return
    condition = "inside their domain" if arrays else "that are arrays"
    call = f"{type(q).__name__}({', '.join(map(brief, _values(q, static=True)))})"
    raise ValueError(
        f"{argument}: expected natural parameters {condition}, got {call}. Did you mean "
        f"{_suggest(q)}? A family called by its bare name takes natural parameters."
    )


def _require_proper_factors(argument: str, factors: Mapping[str, Any]) -> None:
    concrete = {name: q for name, q in factors.items() if _is_concrete(q) and _holds_arrays(q)}
    if concrete and bool(_all_proper(list(concrete.values()))):  # one program for all of them
        factors = {name: q for name, q in factors.items() if name not in concrete}
    for name, q in factors.items():
        require_proper(f"{argument}[{name!r}]", q)


def is_proper(q: Family) -> Bool[Array, ""]:
    """True if all natural parameters of a family are in their domain."""
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
    """True if all families are in their domain; also within a trace, for priors of constants."""
    return _proper([tree.apply(as_float, q) for q in families])


def _values(q: Family, static: bool) -> list[Any]:
    """The values of a family's fields without the context, with static ones or without."""
    fields = [field for field in dataclasses.fields(q) if not field.metadata.get("context")]  # type: ignore[arg-type]
    if not static:
        fields = [field for field in fields if not field.metadata.get("static")]
    return [getattr(q, field.name) for field in fields]


def _suggest(q: Family) -> str:
    """Calls of the constructors that take as many parameters as q has, or of all constructors if
    none takes as many."""
    signatures = _constructor_parameters(type(q))
    values = [brief(value) for value in _values(q, static=True)]
    fitting = [name for name, names in signatures.items() if len(names) == len(values)]
    show_values = bool(fitting) and all(len(value) <= 30 for value in values)
    calls = []
    for name in fitting or signatures:
        arguments = values if show_values else signatures[name]
        calls.append(f"{type(q).__name__}.{name}({', '.join(arguments)})")
    return " or ".join(calls)


def _constructor_parameters(cls: type) -> dict[str, list[str]]:
    """The parameters of each `from_` constructor of a class, in the order of the class body."""
    methods = [name for name, _ in inspect.getmembers(cls, inspect.ismethod)]
    makers = [name for name in methods if name.startswith("from_") and name in vars(cls)]
    makers.sort(key=list(vars(cls)).index)
    return {name: list(inspect.signature(getattr(cls, name)).parameters) for name in makers}


def require_accuracy(name: str, error: Callable[..., Any], *arrays: Any, remedy: str) -> None:
    """ValueError naming the argument if `error` of the arrays, in float64, exceeds `LIMIT`.

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
        worst = float(np.max(error(*(np.asarray(x, np.float64) for x in arrays)), initial=0.0))
    limit = f"{100 * LIMIT:g} %"
    expected = f"a value that rounding the natural parameters changes by less than {limit}"
    actual = f"one that it changes by {100 * worst:.3g} %"
    require(worst <= LIMIT, name, expected, actual, remedy)


def rate_error(wanted: np.ndarray, got: np.ndarray) -> np.ndarray:
    """The relative change of a rate."""
    return np.abs(got / wanted - 1.0)


def spread_error(cov: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """|C' P C - I| (Frobenius) for cov = C C': the relative change of variances, in any direction;
    1 if cov is singular."""
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
