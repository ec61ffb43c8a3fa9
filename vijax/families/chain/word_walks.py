"""The law of the words of topics that move in time, by expected counts.

Given expected counts n of the words of a topic in each slice, the law of its log weights beta is

    q(beta) is proportional to
        exp{<n, log softmax(beta)> - sum_t tau_t sum_v (beta_tv - beta_t-1,v)^2 / 2},

an exponential family with natural parameters (n, tau) and statistics (log softmax(beta), -sum_v
(beta_tv - beta_t-1,v)^2 / 2), beta_0 = 0. At n = 0 it is the random walk, the prior. So the message
of a document is what it is for a Dirichlet, the expected counts of its words, and the stochastic
steps average counts. The log-normaliser has no closed form. It is replaced by its best Gaussian
lower bound (`vijax.families.chain.walks`),

    A(n, tau) = max over m, g of
        <n, m - log sum_w exp(m_w + s_w / 2)> - <tau, squared steps> / 2 + entropy,

which is convex in (n, tau), as a maximum of linear functions. Its gradient is the statistics at the
maximum, and `kl` to the prior is that of the Gaussian: so the objective of a fit stays a lower
bound of the evidence."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families.base import Family, context_field, domain_mask, family, positive_and_finite
from vijax.families.chain import walks
from vijax.families.discrete.dirichlet import Dirichlet
from vijax.families.laws import NormalLaw

PASSES = 3
"""Passes from the start, in a step or at a question; see `walks.solve_walks`."""
COLD_PASSES = 30
"""Passes of a law without a start."""


class WordWalkStats(NamedTuple):
    """t(beta) = (log softmax(beta), -sum_v (beta_tv - beta_t-1,v)^2 / 2)."""

    log: Float[Array, "*shape K T V"]
    minus_half_squares: Float[Array, "*shape K T"]


@family
class WordWalks(Family):
    """K topics over V words in T slices of time; x are log weights beta of words, up to a constant
    of each slice.

    log h(x) = 0;  t = (log softmax(x), -half the sums of squared steps);
    natural parameters (counts, precision).

    Attributes:
      counts: n, expected counts of words; nonnegative, and zero for the prior.
      precision: tau: of the log weights of the first slice, and of the steps to the others.
      start: means and precisions of sites from which passes begin (`walks.Start`); None begins at
        counts pooled over slices.

    >>> counts = jnp.array([[[8.0, 1.0, 1.0], [1.0, 1.0, 8.0]]])
    >>> q = WordWalks(counts, jnp.array([[0.1, 1.0]]))
    >>> print(np.asarray(q.probabilities()[0], float).round(2))
    [[0.67 0.11 0.22]
     [0.22 0.1  0.68]]
    """

    counts: Float[Array, "K T V"]
    precision: Float[Array, "K T"]
    start: walks.Start | None = context_field()

    Stats: ClassVar[type[tuple]] = WordWalkStats
    event_ndims: ClassVar[tuple[int, ...]] = (2, 1)
    _walk: ClassVar[walks.Walk | None] = None

    # --- words ------------------------------------------------------------------------------------
    def probabilities(self) -> Float[Array, "K T V"]:
        """Probabilities of words, exp(m + s / 2) divided by its sum over words."""
        return jnp.moveaxis(walks.mean_shares(self.walk()), 1, 0)

    def bands(self, level: Any = 0.9) -> tuple[Array, Array]:
        """The lower and upper ends of intervals of the probabilities of words. The log of a
        probability is taken for normal, of the variance s_v (1 - 2 pi_v) + sum_w pi_w^2 s_w: the
        first order in the deviations of all words."""
        walk = self.walk()
        shares = walks.mean_shares(walk)
        common = jnp.sum(shares**2 * walk.variance, -1, keepdims=True)
        variance = jnp.maximum(walk.variance * (1 - 2 * shares) + common, 0.0)
        half_width = jax.scipy.stats.norm.ppf(0.5 + 0.5 * level) * jnp.sqrt(variance)
        middle = jnp.log(shares) - 0.5 * variance  # the mean of a lognormal is above its median
        low, high = jnp.exp(middle - half_width), jnp.minimum(jnp.exp(middle + half_width), 1.0)
        return jnp.moveaxis(low, 1, 0), jnp.moveaxis(high, 1, 0)

    def merge_slices(self) -> Dirichlet:
        """A Dirichlet of the words of all slices together: its concentrations are expected
        counts."""
        totals = jnp.sum(self.counts, -1, keepdims=True)
        return Dirichlet(jnp.sum(totals * self.probabilities(), 1))

    def beyond(self, drift: Float[Array, " K"], gap: Any) -> Self:
        """The law with one slice more, after a step of variance `drift` times `gap`: the forecast
        of the words. Means are those of the last slice, variances larger."""
        counts = jnp.concatenate([self.counts, jnp.zeros_like(self.counts[:, :1])], 1)
        step = 1 / (drift[:, None] * gap).astype(self.precision.dtype)
        precision = jnp.concatenate([self.precision, step], 1)
        walk = self.walk()
        mean = jnp.concatenate([walk.mean, walk.mean[-1:]])
        site = jnp.concatenate([walk.site, jnp.full_like(walk.site[-1:], walks.LEAST_SITE)])
        return dataclasses.replace(
            self, counts=counts, precision=precision, start=walks.Start(mean, site)
        )

    # --- the Gaussian -----------------------------------------------------------------------------
    def walk(self) -> walks.Walk:
        """The Gaussian, slices first."""
        if self._walk is not None:
            return self._walk
        start = self.start
        counts = jnp.moveaxis(self.counts, 1, 0)
        return walks.solve_walks(counts, self.precision.T, start, PASSES, COLD_PASSES)

    def prepare(self, means: bool = True) -> Self:
        """This law with its Gaussian computed once, from which later laws begin."""
        walk = self.walk()
        q = dataclasses.replace(self, start=walks.Start(walk.mean, walk.site))
        object.__setattr__(q, "_walk", walk)
        return q

    def with_start(self) -> Self:
        """This law with a start, found without one."""
        walk = dataclasses.replace(self, start=None).walk()
        return dataclasses.replace(self, start=walks.Start(walk.mean, walk.site))

    # --- the family -------------------------------------------------------------------------------
    def log_normalizer(self) -> Float[Array, " K"]:
        """The Gaussian lower bound of A."""
        q = self.prepare()  # both terms are of one Gaussian
        return q.dot(q.expected_stats()) + q.entropy()

    def expected_stats(self) -> WordWalkStats:
        walk = self.walk()
        squares = walks.squared_steps(walk, self.precision.T)
        return WordWalkStats(jnp.moveaxis(walks.log_shares(walk), 1, 0), -0.5 * squares.T)

    def entropy(self) -> Float[Array, " K"]:
        return walks.entropy(self.walk(), self.precision.T)

    def negative_conjugate(self, mean: WordWalkStats) -> Float[Array, " K"]:
        return self.entropy()

    def kl(self, other: Self) -> Float[Array, " K"]:
        """KL(self || other), exact for Gaussians if the other has no counts, as a prior has."""
        gaussian = walks.divergence(self.walk(), self.precision.T, other.precision.T)

        def from_counts() -> Float[Array, " K"]:
            free = dataclasses.replace(other, counts=jnp.zeros_like(other.counts), start=None)
            gained = other.log_normalizer() - free.log_normalizer()
            expected = jnp.sum(other.counts * self.expected_stats().log, (1, 2))
            return gained - expected

        none = lambda: jnp.zeros_like(gaussian)
        return gaussian + jax.lax.cond(jnp.any(other.counts > 0), from_counts, none)

    def kl_to_prior(self, prior: Self) -> Float[Array, " K"]:
        """KL to a law without counts."""
        return walks.divergence(self.walk(), self.precision.T, prior.precision.T)

    def stats(self, x: Float[Array, "*shape K T V"]) -> WordWalkStats:
        before = jnp.concatenate([jnp.zeros_like(x[..., :1, :]), x[..., :-1, :]], -2)
        return WordWalkStats(jax.nn.log_softmax(x, -1), -0.5 * jnp.sum((x - before) ** 2, -1))

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Array:
        """Draws of log weights; `jax.nn.softmax` of them are draws of probabilities."""
        walk = self.walk()
        noise = jax.random.normal(key, (*shape, *walk.mean.shape), walk.mean.dtype)
        return jnp.moveaxis(walks.sample_walks(walk, self.precision.T, noise), -2, -3)

    def mean(self) -> Float[Array, "K T V"]:
        """Means of log weights; see `probabilities`."""
        return jnp.moveaxis(self.walk().mean, 1, 0)

    def mode(self) -> Float[Array, "K T V"]:
        """The mode of the Gaussian."""
        return self.mean()

    def marginal_laws(self) -> NormalLaw:
        walk = self.walk()
        deviation = jnp.sqrt(jnp.moveaxis(walk.variance, 1, 0))
        return NormalLaw(jnp.moveaxis(walk.mean, 1, 0), deviation)

    def valid_parameters(self) -> Self:
        """See `Family.in_domain`."""
        counts = jnp.all(jnp.isfinite(self.counts) & (self.counts >= 0), (1, 2))
        return domain_mask(counts & jnp.all(positive_and_finite(self.precision), 1), self)

    in_domain = valid_parameters


def steps_precision(
    spread: Any, drift: Any, gaps: Float[np.ndarray, " S"], num_topics: int
) -> Float[Array, "K T"]:
    """tau of topics whose first log weights have variance `spread`, and whose steps have variance
    `drift` (one number, or one for each topic) times the gap.

    >>> steps_precision(5.0, 0.5, np.array([1.0, 2.0]), 1).tolist()
    [[0.20000000298023224, 2.0, 1.0]]
    """
    drift = jnp.broadcast_to(jnp.asarray(drift), (num_topics,))
    first = jnp.broadcast_to(1 / jnp.asarray(spread, drift.dtype), (num_topics, 1))
    later = 1 / (drift[:, None] * jnp.asarray(gaps, drift.dtype)[None])
    return jnp.concatenate([first, later], 1)


def words_of_topics(topics: Any) -> Any:
    """The law of the words of topics, over all slices together if they move in time."""
    if isinstance(topics, WordWalks):
        return topics.merge_slices()
    return topics
