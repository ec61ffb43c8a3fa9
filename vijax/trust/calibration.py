"""Calibration: ranks of true parameters among draws (simulation-based calibration), and coverage of
intervals.

The ranks are uniform where the posterior is right, and symmetric where its centre is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray, PyTree
from scipy import special

from vijax.checks import finite_array, require, require_integers
from vijax.xla.compiler import quick_jit

_split = quick_jit(jax.random.split, static_argnums=1)


class Calibration(NamedTuple):
    """The result of `sbc`, in the structure of the parameters, entry by entry of arrays.

    Attributes:
      ranks: number of draws below the true value, 0..L, leading axis of simulations.
      num_draws: L.
      uniformity: p-values of the hypothesis that the posterior is right. If small, it is too
          narrow, too wide or shifted.
      symmetry: p-values of the hypothesis that the posterior's centre is right (VSBC). An
        approximation that is too narrow, but has the right centre, passes.
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

    Every simulation is a fit; a verdict needs some hundred. There is one p-value for each
    parameter: compare the smallest of m with .05 / m. Thin draws that depend on each other. Draws
    equal to the true value, as with discrete parameters, are ranked at random.

    Args:
      draw_prior: key -> parameters, an array or a pytree of arrays.
      simulate: (key, parameters) -> data.
      fit_and_sample: (key, data) -> draws of the posterior, parameters with a leading axis of L
          draws.
      key: random key of all draws.
      num_simulations: number of simulations n.

    Raises:
      ValueError: draws unlike the parameters or not finite, fewer than 20 simulations.

    Source: Talts, Betancourt, Simpson, Vehtari and Gelman 2018, algorithm 1; Yao, Vehtari, Simpson
    and Gelman 2018, algorithm 2.

    >>> def normal(key, *shape):
    ...     return np.random.default_rng(np.asarray(jax.random.key_data(key))).normal(size=shape)
    >>> result = sbc(  # mu ~ N(0, 1), y ~ N(mu, 1): the posterior is N(y / 2, 1 / 2)
    ...     normal, lambda key, mu: mu + normal(key), lambda key, y: y / 2 + normal(key, 19) / 2**0.5,
    ...     key=jax.random.key(0), num_simulations=60)
    >>> result.ranks.shape, result.num_draws
    ((60,), 19)
    >>> bool(result.uniformity > 0.01), bool(result.symmetry > 0.01)
    (True, True)
    """
    require_integers(20, num_simulations=num_simulations)
    *keys, key_ties = _split_key(key, 3 * num_simulations + 1)
    ties = np.random.default_rng(np.asarray(jax.random.key_data(key_ties)))
    all_ranks = []
    counts = set()
    for number in range(num_simulations):
        key_truth, key_data, key_fit = keys[3 * number : 3 * number + 3]
        truth = draw_prior(key_truth)
        draws = fit_and_sample(key_fit, simulate(key_data, truth))
        ranks, count = _ranks(truth, draws, ties, f"of simulation {number}")
        all_ranks.append(ranks)
        counts.add(count)
    is_same = len(counts) == 1
    require(is_same, "fit_and_sample", "the same number of draws each time", sorted(counts))
    (num_draws,) = counts
    ranks = jax.tree.map(lambda *leaves: np.stack(leaves), *all_ranks)
    return Calibration(
        ranks,
        num_draws,
        uniformity=jax.tree.map(lambda x: uniformity(x, num_draws), ranks),
        symmetry=jax.tree.map(lambda x: symmetry(x, num_draws), ranks),
    )


def _split_key(key: PRNGKeyArray, num: int) -> list[PRNGKeyArray]:
    """The keys of `jax.random.split`, indexed on the host: JAX would compile each index."""
    data = np.asarray(jax.random.key_data(_split(key, num)))
    return [jax.random.wrap_key_data(x, impl=jax.random.key_impl(key)) for x in data]


def _ranks(
    truth: PyTree, draws: PyTree, ties: np.random.Generator, label: str
) -> tuple[PyTree, int]:
    """Ranks of the true values, and the number of draws."""
    structure = str(jax.tree.structure(truth))
    actual = str(jax.tree.structure(draws))
    expected = f"draws like the parameters, {structure}"
    require(structure == actual, "fit_and_sample", expected, actual)
    truth = jax.tree.map(lambda x: finite_array(f"draw_prior, {label}", x), truth)
    draws = jax.tree.map(lambda x: finite_array(f"fit_and_sample, {label}", x), draws)
    truth_shapes = [x.shape for x in jax.tree.leaves(truth)]
    shapes = [x.shape for x in jax.tree.leaves(draws)]
    num = shapes[0][0] if shapes and shapes[0] else 0
    fits = num > 0 and shapes == [(num, *shape) for shape in truth_shapes]
    require(fits, "fit_and_sample", f"one axis of draws before the shapes {truth_shapes}", shapes)
    return jax.tree.map(lambda x, d: _rank(x, d, ties), truth, draws), num


def _rank(truth: np.ndarray, draws: np.ndarray, ties: np.random.Generator) -> np.ndarray:
    return np.sum(draws < truth, 0) + ties.integers(0, np.sum(draws == truth, 0), endpoint=True)


# --- tests of the ranks ---------------------------------------------------------------------------
PER_BIN = 10
MOST_BINS = 20


def uniformity(ranks: Any, num_draws: int) -> Float[np.ndarray, "*shape"]:
    """Chi-square p-values of the hypothesis that the ranks are uniform.

    Args:
      ranks: ranks from n simulations, 20 or more: integers 0..L, (n, *shape).
      num_draws: L.

    Returns:
      p-values, (*shape): n / 10 bins, but 20 at most.

    Source: Talts, Betancourt, Simpson, Vehtari and Gelman 2018, theorem 1 and section 4.1.

    >>> print(uniformity(np.arange(100), 99))
    1.0
    """
    ranks = _check_ranks(ranks, num_draws)
    num = len(ranks)
    bins = np.array_split(np.arange(num_draws + 1), min(num // PER_BIN, MOST_BINS, num_draws + 1))
    observed = np.stack([np.sum((ranks >= b[0]) & (ranks <= b[-1]), 0) for b in bins])
    expected = num * np.array([b.size for b in bins]) / (num_draws + 1)
    expected = expected.reshape(-1, *[1] * (ranks.ndim - 1))
    return special.chdtrc(len(bins) - 1, np.sum((observed - expected) ** 2 / expected, 0))


def symmetry(ranks: Any, num_draws: int) -> Float[np.ndarray, "*shape"]:
    """Kolmogorov-Smirnov p-values of the hypothesis that the ranks are symmetric about L / 2.

    The largest |F(x) - (1 - F(-x))| of the centred ranks is compared with its law under symmetry:
    the law of the largest distance of a random walk of n steps (Butler 1969), here of Brownian
    motion. Yao et al. compare p with 1 - p as if they were two independent samples; this rejects a
    right centre more than twice as often as its level says.

    Args:
      ranks, num_draws: as for `uniformity`.

    Source: Yao, Vehtari, Simpson and Gelman 2018, algorithm 2.

    >>> print(symmetry(np.repeat([0, 99], 50), 99), symmetry(np.arange(100) // 2, 99).round(6))
    1.0 0.0
    """
    ranks = _check_ranks(ranks, num_draws)
    centred = (2 * ranks - num_draws).reshape(len(ranks), -1)
    p_values = [_brownian_tail(_largest_distance(column)) for column in centred.T]
    return np.reshape(p_values, ranks.shape[1:])


def _largest_distance(x: Int[np.ndarray, " n"]) -> float:
    """Largest distance from zero of the walk of the signs, largest |x| first, over sqrt(n); ties
    are one step."""
    x = x[x != 0]
    sizes, places = np.unique(-np.abs(x), return_inverse=True)
    steps = np.bincount(places, np.sign(x), len(sizes))
    return float(np.max(np.abs(np.cumsum(steps)), initial=0.0) / np.sqrt(max(x.size, 1)))


def _brownian_tail(distance: float) -> float:
    """The probability that Brownian motion reaches this distance from zero before time 1 (Feller
    1971, X.5)."""
    if distance < 0.1:  # it is 1 to rounding, and the series would need more terms
        return 1.0
    odd = 2 * np.arange(50) + 1
    signs = (-1.0) ** np.arange(50)
    terms = signs / odd * np.exp(-((np.pi * odd / distance) ** 2) / 8)
    return float(np.clip(1 - 4 / np.pi * np.sum(terms), 0.0, 1.0))


def _check_ranks(ranks: Any, num_draws: int) -> Int[np.ndarray, " n *shape"]:
    """The ranks as integers. Raises ValueError where they are not, or too few, or out of range."""
    require_integers(num_draws=num_draws)
    ranks = np.asarray(ranks)
    require(ranks.dtype.kind in "iu", "ranks", "integers", f"numbers of type {ranks.dtype}")
    enough = ranks.ndim > 0 and len(ranks) >= 2 * PER_BIN
    require(enough, "ranks", f"{2 * PER_BIN} simulations or more", f"shape {ranks.shape}")
    require((ranks >= 0) & (ranks <= num_draws), "ranks", f"integers from 0 to {num_draws}", ranks)
    return ranks.astype(np.int64)


# --- predictive intervals -------------------------------------------------------------------------
class Coverage(NamedTuple):
    """Shares of observations within central predictive intervals.

    Attributes:
      levels: the expected shares, (levels,).
      share: the observed shares, (levels,).
      standard_error: standard error of a share whose true value is its level, for independent
          observations, (levels,).
    """

    levels: Float[np.ndarray, " levels"]
    share: Float[np.ndarray, " levels"]
    standard_error: Float[np.ndarray, " levels"]

    def __str__(self) -> str:
        rows = zip(self.levels, self.share, self.standard_error, strict=True)
        return ", ".join(
            f"{share:.3f} of {level:g} (± {error:.3f})" for level, share, error in rows
        )


def coverage(draws: Any, observed: Any, *, levels: Sequence[float] = (0.5, 0.8, 0.95)) -> Coverage:
    """The share of observations within central intervals of predictive draws.

    Intervals are closed, between quantiles at p (S + 1): they hold exactly their share of
    continuous data, however few the draws, and more than their share of counts. Observations that
    were fitted lie inside too often: hold some out.

    Args:
      draws: S predictive draws of the observations, (S, *shape).
      observed: the observations, (*shape).
      levels: probabilities of the intervals, between 0 and 1.

    Raises:
      ValueError: shapes that do not fit, numbers that are not finite, a level for which there are
          too few draws.

    Source: Gelman et al. 2013, Bayesian Data Analysis, section 6.3; the quantiles by Weibull's rule
    (Hyndman and Fan 1996, type 6).

    >>> rng = np.random.default_rng(0)
    >>> print(coverage(rng.normal(size=(999, 1000)), rng.normal(size=1000)))
    0.522 of 0.5 (± 0.016), 0.796 of 0.8 (± 0.013), 0.949 of 0.95 (± 0.007)
    """
    draws = finite_array("draws", draws)
    observed = finite_array("observed", observed)
    fits = draws.ndim > 0 and draws.shape[1:] == observed.shape and observed.size
    expected = f"an axis of draws before {observed.shape}, not empty"
    require(fits, "draws", expected, f"shape {draws.shape}")
    p = np.asarray(levels, np.float64)
    is_probability = (p > 0) & (p < 1) & (p.ndim == 1)
    require(is_probability, "levels", "numbers between 0 and 1", levels)
    fewest = 2 / (1 - p.max()) - 1
    expected = f"{fewest:.0f} draws or more for level {p.max():g}"
    require(len(draws) >= fewest - 1e-6, "draws", expected, len(draws), "Draw more.")
    low = np.quantile(draws, (1 - p) / 2, axis=0, method="weibull")
    high = np.quantile(draws, (1 + p) / 2, axis=0, method="weibull")
    is_covered = (low <= observed) & (observed <= high)
    share = is_covered.reshape(p.size, -1).mean(1)
    return Coverage(p, share, np.sqrt(p * (1 - p) / observed.size))
