"""E-steps of models written as energies: local variables of one group, known by their complete conditionals.

The locals come in blocks, in each of which no variable depends on another. With one block its conditional is the exact
posterior of the locals given the globals, and nothing iterates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families import Family

Factors = dict[str, Family]
Stats = dict[str, Any]


class Conditionals(NamedTuple):
    """The locals of one group.

    Attributes:
      start: where an iteration starts, by name.
      given: (names, statistics of all locals) -> the complete conditionals of those names.
      blocks: names that can be updated at once, in order.
    """

    start: Factors
    given: Callable[[tuple[str, ...], Stats], Factors]
    blocks: tuple[tuple[str, ...], ...]


def coordinate_ascent(problem: Conditionals, max_iters: int, tol: float) -> tuple[Factors, Stats]:
    """Mean field by blocks (seed 002, Algorithm 1): each conditional at the others' mean statistics, until a sweep
    moves no statistic by more than `tol` of its scale. Returns the factors and their mean statistics."""
    if len(problem.blocks) <= 1:
        factors, _ = _sweep(problem, problem.start, _means(problem.start))
        return factors, _means(factors)

    def unfinished(carry: Any) -> Any:
        _, change, iteration = carry
        return (change > tol) & (iteration < max_iters)

    def body(carry: Any) -> Any:
        factors, _, iteration = carry
        old = _means(factors)
        factors, means = _sweep(problem, factors, old)
        return factors, _change(old, means), iteration + 1

    factors, _, _ = jax.lax.while_loop(unfinished, body, (problem.start, jnp.array(jnp.inf), 0))
    return factors, _means(factors)


def gibbs_sweeps(problem: Conditionals, key: PRNGKeyArray, num_sweeps: int, burn_in: int) -> tuple[Factors, Stats]:
    """Draws of the locals, their statistics averaged over `num_sweeps` sweeps after `burn_in`; returns the last
    conditionals too. A single block needs no burn-in: its draws are independent."""
    burn_in = burn_in if len(problem.blocks) > 1 else 0
    draws = {name: q.sample_stats(k) for (name, q), k in zip(problem.start.items(), _keys(key, problem), strict=True)}

    def body(i: Array, carry: Any) -> Any:
        factors, draws, kept = carry
        factors, draws = _sweep(problem, factors, draws, jax.random.fold_in(key, i))
        share = jnp.where(i >= burn_in, 1.0 / num_sweeps, 0.0)
        return factors, draws, jax.tree.map(lambda k, d: k + share * d, kept, draws)

    start = problem.start, draws, jax.tree.map(jnp.zeros_like, draws)
    factors, _, kept = jax.lax.fori_loop(0, burn_in + num_sweeps, body, start)
    return factors, kept


def _sweep(
    problem: Conditionals, factors: Factors, stats: Stats, key: PRNGKeyArray | None = None
) -> tuple[Factors, Stats]:
    """Every block once; statistics are means, or with a key those of draws."""
    factors, stats = dict(factors), dict(stats)
    for i, block in enumerate(problem.blocks):
        new = problem.given(block, stats)
        factors.update(new)
        if key is None:
            stats.update(_means(new))
        else:
            keys = jax.random.split(jax.random.fold_in(key, i), len(new))
            stats.update({name: q.sample_stats(k) for (name, q), k in zip(new.items(), keys, strict=True)})
    return factors, stats


def _means(factors: Mapping[str, Family]) -> Stats:
    return {name: q.expected_stats() for name, q in factors.items()}


def _keys(key: PRNGKeyArray, problem: Conditionals) -> PRNGKeyArray:
    return jax.random.split(jax.random.fold_in(key, 2**31 - 1), max(len(problem.start), 1))


def _change(old: Stats, new: Stats) -> Float[Array, ""]:
    """The largest change of a statistic, relative to the size of its array."""
    gaps = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - b)) / (1e-6 + jnp.max(jnp.abs(b))), old, new)
    return jnp.max(jnp.array(jax.tree.leaves(gaps)))
