"""Tests whether an energy is multilinear in the statistics of its variables, and finds the pairs that it couples.

Both use second differences at random statistics. For independent perturbations a, b of two fields of statistics,

    f(s + a + b) - f(s + a) - f(s + b) + f(s)

is zero for every s exactly when no term of f contains both fields. So two fields of *one* variable (or one field twice)
must give zero, else its complete conditional is no gradient; two variables with another result are coupled, and
coordinate ascent must visit them in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.xla.compiler import quick_jit

Statistics = Mapping[str, Any]
Field = tuple[str, int]
_ENTRIES = 8
_TOLERANCE = 1e-3  # of the largest term; rounding in float32 stays a hundred times below, a real product far above


class NowhereFiniteError(ValueError):
    """No value is finite at random statistics: the function takes a logarithm, root or quotient of one."""


def coupled_variables(
    fn: Callable[[Statistics], Float[Array, " places"]], stats: Statistics, plates: Collection[str] = ()
) -> tuple[set[frozenset[str]], np.ndarray]:
    """The pairs of variables that share a term of `fn`, after a check that it is multilinear; and the data at which it
    is finite.

    Args:
      fn: statistics by variable -> its value at each of several data. Data at which it is not finite are ignored, as
        long as there are others; a term at any of the others counts.
      stats: statistics of the right shapes; the values do not matter.
      plates: names of variables whose entries along the first axis are variables of their own: terms may multiply two
        of them. Up to `_ENTRIES` of them are checked for terms that multiply an entry by itself.

    Raises:
      ValueError: a term is not linear in the statistics of one variable, which is named with its fields.
      NowhereFiniteError: `fn` is finite nowhere, so no polynomial.
    """
    fields = [(name, i) for name in stats for i in range(len(stats[name]))]
    value, rng = quick_jit(fn), np.random.default_rng(0)
    base = _random(rng, stats)
    at_base = np.asarray(value(base), np.float64)
    known = np.isfinite(at_base)
    if not known.any():
        raise NowhereFiniteError(
            "energy: expected a polynomial in the sufficient statistics, but at arbitrary real values of them "
            "it is not finite: it takes a logarithm, root or quotient of one. Declare that as a statistic of its own."
        )
    at = lambda *moves: np.asarray(value(_sum(base, *moves)), np.float64)[known]
    pairs: set[frozenset[str]] = set()
    for first, second in itertools.combinations_with_replacement(fields, 2):
        moves: list[tuple] = [(_moved(rng, base, first), _moved(rng, base, second))]
        if first[0] == second[0] and first[0] in plates:
            size = jax.tree.leaves(stats[first[0]])[0].shape[0]
            entries = rng.choice(size, min(size, _ENTRIES), replace=False)
            moves = [tuple(_at_entry(move, int(i)) for move in moves[0]) for i in entries]
        gap = any(_is_gap(np.stack([at(a, b), at(a), at(b), at_base[known]])) for a, b in moves)
        if gap and first[0] == second[0]:
            raise ValueError(_nonlinear(stats, first, second))
        if gap:
            pairs.add(frozenset((first[0], second[0])))
    return pairs, known


def update_order(names: Sequence[str], coupled: Iterable[frozenset[str]]) -> tuple[tuple[str, ...], ...]:
    """Groups of variables of which no two are coupled, so that each group can be updated at once: greedily, in the
    order given.

    >>> update_order(["a", "b", "c"], [frozenset("ab")])
    (('a', 'c'), ('b',))
    """
    coupled = set(coupled)
    blocks: list[list[str]] = []
    for name in names:
        free = (block for block in blocks if not any(frozenset((name, other)) in coupled for other in block))
        block = next(free, None)
        if block is None:
            blocks.append([name])
        else:
            block.append(name)
    return tuple(map(tuple, blocks))


def _random(rng: np.random.Generator, tree: Any) -> Any:
    """Standard normal values in the place of every leaf; 1-float leaves of the working precision."""
    return jax.tree.map(lambda x: np.asarray(rng.normal(size=jnp.shape(x)), jnp.result_type(float)), tree)


def _moved(rng: np.random.Generator, stats: Statistics, field: Field) -> Statistics:
    """A perturbation: random in one field of one variable, zero elsewhere."""
    zeros = jax.tree.map(np.zeros_like, dict(stats))
    name, i = field
    leaves, structure = jax.tree.flatten(zeros[name])
    leaves[i] = _random(rng, leaves[i])
    return {**zeros, name: jax.tree.unflatten(structure, leaves)}


def _at_entry(move: Statistics, entry: int) -> Statistics:
    """The perturbation of one entry of a plate; other variables are left out, because they are not moved."""
    return jax.tree.map(lambda x: np.where(np.arange(len(x)) == entry, x.T, 0).T if np.any(x) else x, dict(move))


def _sum(*trees: Statistics) -> Statistics:
    return jax.tree.map(lambda *xs: sum(xs), *trees)


def _is_gap(terms: Float[np.ndarray, "4 places"]) -> bool:
    """True where a second difference differs from zero by more than rounding anywhere, or is not even a number."""
    gap = np.array([1.0, -1.0, -1.0, 1.0]) @ terms
    return bool(np.any(~(np.abs(gap) <= _TOLERANCE * np.max(np.abs(terms), axis=0))))


def _nonlinear(stats: Statistics, first: Field, second: Field) -> str:
    name = first[0]
    fields = getattr(stats[name], "_fields", tuple(map(str, range(len(stats[name])))))
    one, two = fields[first[1]], fields[second[1]]
    term = f"is not linear in stats[{name!r}].{one}"
    if one != two:
        term = f"multiplies stats[{name!r}].{one} by stats[{name!r}].{two}"
    return (
        f"energy: expected a function linear in the sufficient statistics of each variable, but it {term}. Use the "
        f"statistic that is the product in its place, or split {name!r} into variables that are independent under q; "
        f"where it is a plate whose entries multiply each other (nodes of a graph), energy_model(plates=[{name!r}])."
    )
