"""Simulation-based calibration: data simulated from the prior are fitted, and the parameters ranked among the draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from vijax.checks import require, require_integers
from vijax.trust.numbers import finite_array
from vijax.trust.ranks import symmetry, uniformity
from vijax.xla.compiler import quick_jit

_split = quick_jit(jax.random.split, static_argnums=1)


class Calibration(NamedTuple):
    """The result of `sbc`, in the structure of the parameters; an array of parameters is treated entry by entry.

    Attributes:
      ranks: number of draws below the true value, 0..L, leading axis of simulations.
      num_draws: L.
      uniformity: p-values of the hypothesis that the posterior is right. Small: too narrow, too wide or shifted.
      symmetry: p-values of the hypothesis that the posterior's centre is right (VSBC). An approximation that is too
        narrow, but has the right centre, passes.
    """

    ranks: PyTree
    num_draws: int
    uniformity: PyTree
    symmetry: PyTree


def sbc(
    draw_prior: Callable[[PRNGKeyArray], PyTree],
    simulate: Callable[[PRNGKeyArray, PyTree], Any],
    fit_and_sample: Callable[[PRNGKeyArray, Any], PyTree],
    *,
    key: PRNGKeyArray,
    num_simulations: int,
) -> Calibration:
    """Simulation-based calibration (SBC) of posteriors, and of their centres alone (VSBC).

    Every simulation is a fit: some hundred give a verdict. There is one p-value for each parameter; compare the
    smallest of m with .05 / m. Draws that depend on each other must be thinned. Draws equal to the true value, as with
    discrete parameters, are ranked at random.

    Args:
      draw_prior: key -> parameters, an array or a pytree of arrays.
      simulate: (key, parameters) -> data.
      fit_and_sample: (key, data) -> draws of the posterior, parameters with a leading axis of L draws.
      key: random key of all of this.
      num_simulations: number of simulations n.

    Raises:
      ValueError: draws unlike the parameters or not finite, fewer than 20 simulations.

    Source: Talts, Betancourt, Simpson, Vehtari and Gelman 2018, algorithm 1; Yao, Vehtari, Simpson and Gelman 2018,
    algorithm 2.

    >>> def normal(key, *shape):
    ...     return np.random.default_rng(np.asarray(jax.random.key_data(key))).normal(size=shape)
    >>> found = sbc(  # mu ~ N(0, 1), y ~ N(mu, 1): the posterior is N(y / 2, 1 / 2)
    ...     normal, lambda key, mu: mu + normal(key), lambda key, y: y / 2 + normal(key, 19) / 2**0.5,
    ...     key=jax.random.key(0), num_simulations=60)
    >>> found.ranks.shape, found.num_draws, bool(found.uniformity > 0.01), bool(found.symmetry > 0.01)
    ((60,), 19, True, True)
    """
    require_integers(20, num_simulations=num_simulations)
    *keys, last = _keys(key, 3 * num_simulations + 1)
    ties = np.random.default_rng(np.asarray(jax.random.key_data(last)))
    found = []
    for number in range(num_simulations):
        key_truth, key_data, key_fit = keys[3 * number : 3 * number + 3]
        truth = draw_prior(key_truth)
        draws = fit_and_sample(key_fit, simulate(key_data, truth))
        found.append(_ranks(truth, draws, ties, f"of simulation {number}"))
    counts = {count for _, count in found}
    require(len(counts) == 1, "fit_and_sample", "the same number of draws each time", sorted(counts))
    ranks = jax.tree.map(lambda *each: np.stack(each), *(each for each, _ in found))
    (num,) = counts
    return Calibration(ranks, num, *(jax.tree.map(lambda r, t=t: t(r, num), ranks) for t in (uniformity, symmetry)))


def _keys(key: PRNGKeyArray, num: int) -> list[PRNGKeyArray]:
    """This many keys, split without a program for each place."""
    data = np.asarray(jax.random.key_data(_split(key, num)))
    return [jax.random.wrap_key_data(x, impl=jax.random.key_impl(key)) for x in data]


def _ranks(truth: PyTree, draws: PyTree, ties: np.random.Generator, which: str) -> tuple[PyTree, int]:
    """Ranks of the true values, and the number of draws."""
    wanted, structure = str(jax.tree.structure(truth)), str(jax.tree.structure(draws))
    require(wanted == structure, "fit_and_sample", f"draws like the parameters, {wanted}", structure)
    truth = jax.tree.map(lambda x: finite_array(f"draw_prior, {which}", x), truth)
    draws = jax.tree.map(lambda x: finite_array(f"fit_and_sample, {which}", x), draws)
    num = _num_draws([x.shape for x in jax.tree.leaves(truth)], [x.shape for x in jax.tree.leaves(draws)])
    return jax.tree.map(lambda x, d: _rank(x, d, ties), truth, draws), num


def _num_draws(wanted: list[tuple[int, ...]], shapes: list[tuple[int, ...]]) -> int:
    """L, the leading axis of all draws; ValueError where there is none."""
    num = shapes[0][0] if shapes and shapes[0] else 0
    fits = num > 0 and shapes == [(num, *shape) for shape in wanted]
    require(fits, "fit_and_sample", f"one axis of draws before the shapes {wanted}", shapes)
    return num


def _rank(truth: np.ndarray, draws: np.ndarray, ties: np.random.Generator) -> np.ndarray:
    return np.sum(draws < truth, 0) + ties.integers(0, np.sum(draws == truth, 0), endpoint=True)
