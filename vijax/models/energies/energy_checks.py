"""Checks of the arguments of `energy_model`: names, families, and the energy at random statistics
and data.

Second differences at random statistics show if an energy is multilinear, and which variables it
couples. For independent perturbations a, b of two fields of statistics,

    f(s + a + b) - f(s + a) - f(s + b) + f(s)

is zero for every s exactly if no term of f contains both fields. So two fields of *one* variable
(or one field twice) must give zero, else its complete conditional is not a gradient. Two variables
with another result are coupled, and coordinate ascent must visit them in turn."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from vijax.checks import require, require_arrays, traceable
from vijax.families import Family, Product
from vijax.families.construction import require_proper
from vijax.families.product import unknown_name
from vijax.inference.guides import Z
from vijax.models.energies.examples import POSITIVE
from vijax.xla.compiler import quick_jit

Blocks = tuple[tuple[str, ...], ...]


def check_families(prior: Product, local: Mapping[str, Any]) -> None:
    """Raises ValueError for a name that is global and local, a local that is not a family, and an
    improper family."""
    shared_names = sorted(set(prior) & set(local))
    require(not shared_names, "locals", "names that are not those of globals", shared_names)
    for name, q in local.items():
        require(
            isinstance(q, Family),
            f"locals[{name!r}]",
            "a family (vijax.families)",
            type(q).__name__,
        )
    require_proper("locals", local)


def check_points(hyper: Mapping[str, Any], points: Mapping[str, Any]) -> None:
    """Raises ValueError for a name that is a hyperparameter and a point, since the energy reads
    both from one dict; and for a module with functions among its leaves."""
    shared_names = sorted(set(hyper) & set(points))
    require(
        not shared_names,
        "points",
        "names that are not those of hyper",
        shared_names,
        "Rename one of them.",
    )
    for name, value in [*hyper.items(), *points.items()]:
        require_arrays(f"points[{name!r}]" if name in points else f"hyper[{name!r}]", value)


def check_free(
    names: Collection[str], guide: Any, prior: Product, local: Mapping[str, Any]
) -> None:
    """Raises ValueError for a guide without free variables, and for a name with two meanings."""
    if not names:
        remedy = "Declare them by vijax.free, or leave guide out."
        require(
            guide is None, "guide", "none for an energy without free globals", repr(guide), remedy
        )
        return
    shared_names = sorted(set(names) & set(local))
    require(not shared_names, "locals", "names that are not those of globals", shared_names)
    for argument, families in (("globals", prior), ("locals", local)):
        expected = f"names other than {Z!r}, which all free variables {sorted(names)} have together"
        require(Z not in families, argument, expected, repr(Z), "Rename it.")


def check_plates(
    plates: Sequence[str], local: Mapping[str, Any], joint: Sequence[Sequence[str]]
) -> None:
    """Raises ValueError for a plate that is not a local, has no axis of entries, or is kept
    joint."""
    unknown = sorted(set(plates) - set(local))
    require(not unknown, "plates", f"names among the locals {list(local)}", unknown)
    shared_names = sorted(set(plates) & {name for group in joint for name in group})
    require(
        not shared_names,
        "plates",
        "locals that are not in `joint`, under which their entries are one variable",
        shared_names,
    )
    for name in plates:
        shape = local[name].batch_shape
        require(
            len(shape) > 0,
            "plates",
            f"{name!r} with a first axis of entries",
            f"batch shape {shape}",
        )


def readable(energy: Callable[..., Any], argument: str) -> Callable[..., Any]:
    """The energy with clear errors: for an unknown variable or statistic the error lists the known
    names; for operations that JAX cannot trace it names the line."""

    @functools.wraps(energy)
    def read(stats: Mapping[str, Any], *rest: Any) -> Any:
        try:
            with traceable(argument):
                return energy(stats, *rest)
        except KeyError as error:
            key = error.args[0] if error.args else None
            if not isinstance(key, str) or key in stats:
                raise
            data = f" (the data: {list(rest[0])})" if rest and isinstance(rest[0], Mapping) else ""
            text = unknown_name(key, stats).replace("factor named", "variable named", 1)
            raise ValueError(
                f"{argument}: expected the name of a variable, but there is {text}{data}"
            ) from error
        except AttributeError as error:
            of = [name for name, t in stats.items() if t is error.obj]
            if not of:
                raise
            known = list(getattr(error.obj, "_fields", ()))
            raise ValueError(
                f"{argument}: expected a statistic of {of[0]!r}, {known}, got "
                f"stats[{of[0]!r}].{error.name}."
            ) from error

    return read


def find_blocks(
    fn: Callable,
    count: Callable | None,
    prior_fn: Callable | None,
    prior: Product,
    local: Mapping[str, Any],
    example: PyTree,
    groups: PyTree,
    hyper: Mapping[str, Any],
    order: Sequence[str] | None,
    plates: Sequence[str] = (),
) -> tuple[Blocks, Blocks]:
    """Checks the energies and returns the variables that can be updated together: blocks of
    globals, and blocks of locals.

    `fn` and `count` are functions of (stats, group, hyper), `prior_fn` is one of (stats, hyper).
    `groups` has the example and other groups like it (`values_like`)."""
    order = [*prior, *local] if order is None else list(order)
    require(
        sorted(order) == sorted([*prior, *local]),
        "order",
        f"a permutation of {[*prior, *local]}",
        order,
    )
    families = {**prior, **local}
    stats = jax.eval_shape(lambda: mean_statistics(families))
    coupled: set[frozenset[str]] = set()
    for argument, term in (("energy", fn), ("impossible", count)):
        if term is not None:
            shape = jnp.shape(jax.eval_shape(lambda s: term(s, example, hyper), stats))  # noqa: B023
            require(
                shape == (),
                argument,
                "a scalar for one group",
                f"shape {shape}",
                "Sum over the axes of the group.",
            )
            everywhere = lambda s: jax.vmap(lambda y: term(s, y, hyper))(groups)  # noqa: B023
            coupled |= _couplings(everywhere, stats, families, argument, plates)
            if term is count:
                _require_counts(everywhere, families)
    if prior_fn is not None:
        of_globals = {name: stats[name] for name in prior}
        coupled |= _couplings(lambda s: prior_fn(s, hyper)[None], of_globals, prior, "prior_energy")
    return tuple(
        update_order([n for n in order if n in group], coupled) for group in (prior, local)
    )  # type: ignore[return-value]


def _couplings(
    fn: Callable,
    stats: Mapping[str, Any],
    families: Mapping[str, Any],
    argument: str,
    plates: Sequence[str] = (),
) -> set[frozenset[str]]:
    """`coupled_variables` with separate errors for an energy that is not a function of statistics,
    and for one that is infinite or NaN even at the mean statistics."""
    try:
        coupled, finite = coupled_variables(fn, zeros(stats), plates)
    except ValueError as error:
        if isinstance(error, NowhereFiniteError):
            _refuse_infinite(fn, families, argument, every=True)
        raise ValueError(_message(argument, error)) from error
    if len(finite) > 1 and not finite[list(POSITIVE)].any():
        _refuse_infinite(fn, families, argument, every=False)
    return coupled


def _message(argument: str, error: ValueError) -> str:
    """The message of `coupled_variables`, with the name of this argument."""
    text = str(error)
    if text.startswith("energy: "):
        return text.replace("energy: ", f"{argument}: ", 1)
    return text


def _refuse_infinite(fn: Callable, families: Mapping[str, Any], argument: str, every: bool) -> None:
    """Raises ValueError if the energy is -inf or NaN at mean statistics: for all data if `every`,
    else for all positive data."""
    values = np.asarray(quick_jit(fn)(mean_statistics(families)))
    if not every:
        values = values[list(POSITIVE)]
    if np.isfinite(values).any():
        return
    if np.isneginf(values).all() or (every and np.isneginf(values).any()):
        raise ValueError(
            f"{argument}: expected a finite number, got -inf, which times a statistic of 0 is "
            "NaN. Where an event is "
            "impossible use jnp.where(possible, log_probability, 0.0), before it is multiplied by "
            "a statistic, and "
            "count such events in vijax.Structure(impossible=...)."
        )
    if every:
        raise ValueError(
            f"{argument}: expected a finite number, got {values[0]} at the mean statistics of its "
            "variables, at the "
            "values of the example and at random values of its shapes. Look for the logarithm or "
            "root of a negative "
            "number, a division by 0, or 0 times infinity."
        )


def _require_counts(count: Callable, families: Mapping[str, Any]) -> None:
    """Raises ValueError if the number of impossible events is negative at the example and the mean
    statistics."""
    number = np.asarray(quick_jit(count)(mean_statistics(families)))[0]
    expected = "a number of impossible events, 0 or more, at the mean statistics of the variables"
    require(
        ~(number < 0), "impossible", expected, number, "It is no log probability: count the events."
    )


def mean_statistics(families: Mapping[str, Any]) -> dict[str, Any]:
    """Expected statistics by name."""
    return {name: q.expected_stats() for name, q in families.items()}


def zeros(shapes: PyTree) -> PyTree:
    """Zeros of these shapes."""
    return jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)


Statistics = Mapping[str, Any]
Field = tuple[str, int]
_ENTRIES = 8
# of the largest term; rounding in float32 stays a hundred times below, a real product far above
_TOLERANCE = 1e-3


class NowhereFiniteError(ValueError):
    """No value is finite at random statistics: the function takes the logarithm, root or quotient
    of a statistic."""


def coupled_variables(
    fn: Callable[[Statistics], Float[Array, " places"]],
    stats: Statistics,
    plates: Collection[str] = (),
) -> tuple[set[frozenset[str]], np.ndarray]:
    """The pairs of variables that share a term of `fn`, after a check that it is multilinear; and a
    mask of the groups at which it is finite.

    Args:
      fn: statistics by variable -> its value at each of several groups. Groups at which it is not
        finite are ignored; a term counts if any other group has it.
      stats: statistics of the right shapes; the values do not matter.
      plates: names of variables whose entries along the first axis count as separate variables:
        terms may multiply two entries. Up to `_ENTRIES` entries are checked for terms that multiply
        an entry by itself.

    Raises:
      ValueError: a term is not linear in a variable; the message names the variable and its
        statistics.
      NowhereFiniteError: `fn` is finite at no group, so it is not a polynomial.
    """
    fields = [(name, i) for name in stats for i in range(len(stats[name]))]
    value = quick_jit(fn)
    rng = np.random.default_rng(0)
    base = _random(rng, stats)
    at_base = np.asarray(value(base), np.float64)
    is_finite = np.isfinite(at_base)
    if not is_finite.any():
        raise NowhereFiniteError(
            "energy: expected a polynomial in the sufficient statistics, but at arbitrary real "
            "values of them "
            "it is not finite: it takes a logarithm, root or quotient of one. Declare that as a "
            "statistic of its own."
        )
    value_at = lambda *moves: np.asarray(value(_sum(base, *moves)), np.float64)[is_finite]
    pairs: set[frozenset[str]] = set()
    for first, second in itertools.combinations_with_replacement(fields, 2):
        moves: list[tuple] = [(_perturbation(rng, base, first), _perturbation(rng, base, second))]
        if first[0] == second[0]:
            moves += _across_kinks(base, first, second)
        if first[0] == second[0] and first[0] in plates:
            size = jax.tree.leaves(stats[first[0]])[0].shape[0]
            entries = rng.choice(size, min(size, _ENTRIES), replace=False)
            moves = [
                tuple(_restrict_to_entry(move, int(i)) for move in pair)
                for pair in moves
                for i in entries
            ]
        gap = any(
            _is_gap(np.stack([value_at(a, b), value_at(a), value_at(b), at_base[is_finite]]))
            for a, b in moves
        )
        if gap and first[0] == second[0]:
            raise ValueError(_nonlinear(stats, first, second))
        if gap:
            pairs.add(frozenset((first[0], second[0])))
    return pairs, is_finite


def update_order(
    names: Sequence[str], coupled: Iterable[frozenset[str]]
) -> tuple[tuple[str, ...], ...]:
    """Groups of variables that are not coupled, so that each group can be updated at once. They are
    formed greedily, in this order.

    >>> update_order(["a", "b", "c"], [frozenset("ab")])
    (('a', 'c'), ('b',))
    """
    coupled = set(coupled)
    blocks: list[list[str]] = []
    for name in names:
        free = (
            block
            for block in blocks
            if not any(frozenset((name, member)) in coupled for member in block)
        )
        block = next(free, None)
        if block is None:
            blocks.append([name])
        else:
            block.append(name)
    return tuple(map(tuple, blocks))


def _random(rng: np.random.Generator, tree: Any) -> Any:
    """Standard normal values in the shape of every leaf, in the working precision."""
    dtype = jnp.result_type(float)
    return jax.tree.map(lambda x: np.asarray(rng.normal(size=jnp.shape(x)), dtype), tree)


def _perturbation(rng: np.random.Generator, stats: Statistics, field: Field) -> Statistics:
    """A perturbation: random in one field of one variable, zero elsewhere."""
    zeros = jax.tree.map(np.zeros_like, dict(stats))
    name, i = field
    leaves, structure = jax.tree.flatten(zeros[name])
    leaves[i] = _random(rng, leaves[i])
    return {**zeros, name: jax.tree.unflatten(structure, leaves)}


def _across_kinks(base: Statistics, first: Field, second: Field) -> list[tuple]:
    """Pairs of perturbations that lead to the other side of zero, and far out in both directions: a
    function such as `abs` or `maximum` is linear between its kinks."""
    rng = np.random.default_rng(1)
    mirror = jax.tree.map(np.zeros_like, dict(base))
    leaves, structure = jax.tree.flatten(mirror[first[0]])
    leaves[first[1]] = -2 * jax.tree.leaves(base[first[0]])[first[1]]
    mirror = {**mirror, first[0]: jax.tree.unflatten(structure, leaves)}
    far_moves = [
        jax.tree.map(lambda x: FAR * x, _perturbation(rng, base, field))
        for field in (first, second)
    ]
    return [(mirror, _perturbation(rng, base, second)), (far_moves[0], far_moves[1])]


FAR = 100.0
"""Times as far as a standard normal perturbation, where kinks are looked for."""


def _restrict_to_entry(move: Statistics, entry: int) -> Statistics:
    """The perturbation of one entry of a plate. Other variables have a perturbation of zero, which
    is returned as it is."""
    keep_entry = lambda x: np.where(np.arange(len(x)) == entry, x.T, 0).T
    return jax.tree.map(lambda x: keep_entry(x) if np.any(x) else x, dict(move))


def _sum(*trees: Statistics) -> Statistics:
    return jax.tree.map(lambda *xs: sum(xs), *trees)


def _is_gap(terms: Float[np.ndarray, "4 places"]) -> bool:
    """True if a second difference differs from zero by more than rounding anywhere, or is NaN."""
    gap = np.array([1.0, -1.0, -1.0, 1.0]) @ terms
    return bool(np.any(~(np.abs(gap) <= _TOLERANCE * np.max(np.abs(terms), axis=0))))


def _nonlinear(stats: Statistics, first: Field, second: Field) -> str:
    name = first[0]
    fields = getattr(stats[name], "_fields", tuple(map(str, range(len(stats[name])))))
    first_field, second_field = fields[first[1]], fields[second[1]]
    term = f"is not linear in stats[{name!r}].{first_field}"
    if first_field != second_field:
        term = f"multiplies stats[{name!r}].{first_field} by stats[{name!r}].{second_field}"
    return (
        "energy: expected a function linear in the sufficient statistics of each variable, but "
        f"it {term}. Use the "
        f"statistic that is the product in its place, or split {name!r} into variables that are "
        "independent under q; "
        "where it is a plate whose entries multiply each other (nodes of a graph), "
        f"vijax.Structure(plates=[{name!r}])."
    )
