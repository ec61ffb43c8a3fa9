"""Is an energy multilinear in the statistics of its variables, and which pairs of variables does it couple?

Both by second differences at random statistics. For independent perturbations a, b of two fields of statistics,

    f(s + a + b) - f(s + a) - f(s + b) + f(s)

is zero for every s exactly when no term of f contains both fields. So two fields of *one* variable (or one field
twice) must give zero, else its complete conditional is no gradient; two variables that give anything else are coupled,
and coordinate ascent must visit them in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Statistics = Mapping[str, Any]
Field = tuple[str, int]
_TOLERANCE = 1e-3  # of the largest term; rounding in float32 stays a hundred times below, a real product far above


def coupled_variables(fn: Callable[[Statistics], Float[Array, ""]], stats: Statistics) -> set[frozenset[str]]:
    """The pairs of variables that share a term of `fn`, after checking that it is multilinear.

    Args:
      fn: statistics by variable -> scalar.
      stats: statistics of the right shapes; the values do not matter.

    Raises:
      ValueError: a term is not linear in the statistics of one variable, which is named with its fields; or `fn` is
        not finite everywhere, so no polynomial.
    """
    fields = [(name, i) for name in stats for i in range(len(stats[name]))]
    value, rng = jax.jit(fn), np.random.default_rng(0)
    base = _random(rng, stats)
    if not np.isfinite(value(base)):
        raise ValueError(
            "energy: expected a polynomial in the sufficient statistics, but at arbitrary real values of them "
            "it is not finite: it takes a logarithm, root or quotient of one. Declare that as a statistic of its own."
        )
    pairs: set[frozenset[str]] = set()
    for first, second in itertools.combinations_with_replacement(fields, 2):
        gap = _second_difference(value, base, _moved(rng, base, first), _moved(rng, base, second))
        if gap and first[0] == second[0]:
            raise ValueError(_nonlinear(stats, first, second))
        if gap:
            pairs.add(frozenset((first[0], second[0])))
    return pairs


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
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=jnp.shape(x)), jnp.result_type(float)), tree)


def _moved(rng: np.random.Generator, stats: Statistics, field: Field) -> Statistics:
    """A perturbation: random in one field of one variable, zero elsewhere."""
    zeros = jax.tree.map(jnp.zeros_like, dict(stats))
    name, i = field
    leaves, structure = jax.tree.flatten(zeros[name])
    leaves[i] = _random(rng, leaves[i])
    return {**zeros, name: jax.tree.unflatten(structure, leaves)}


def _second_difference(value: Callable, base: Statistics, a: Statistics, b: Statistics) -> bool:
    """Whether it differs from zero by more than rounding, or is not even a number."""
    add = lambda *trees: jax.tree.map(lambda *xs: sum(xs), *trees)
    terms = np.array([float(value(s)) for s in (add(base, a, b), add(base, a), add(base, b), base)])
    gap = terms @ np.array([1.0, -1.0, -1.0, 1.0])
    return not np.abs(gap) <= _TOLERANCE * np.max(np.abs(terms))


def _nonlinear(stats: Statistics, first: Field, second: Field) -> str:
    name = first[0]
    fields = getattr(stats[name], "_fields", tuple(map(str, range(len(stats[name])))))
    one, two = fields[first[1]], fields[second[1]]
    term = f"is not linear in stats[{name!r}].{one}"
    if one != two:
        term = f"multiplies stats[{name!r}].{one} by stats[{name!r}].{two}"
    return (
        f"energy: expected a function linear in the sufficient statistics of each variable, but it {term}. Use the "
        f"statistic that is the product in its place, or split {name!r} into variables that are independent under q."
    )
