"""Random walks of log weights of words, given counts: the variational posterior of a dynamic topic.

The log weights of word v in slice t of a topic are a random walk, whose softmax over words is the
law of the words of the slice (Blei and Lafferty 2006):

    beta_1v ~ N(0, 1 / tau_1),   beta_tv ~ N(beta_t-1,v, 1 / tau_t),
    n_t ~ Multinomial(N_t, softmax(beta_t))

q makes the words independent and each a Gaussian chain with sites: q(beta_v) is proportional to
p(beta_v) prod_t exp(a_tv beta_tv - g_tv beta_tv^2 / 2), of means m and variances s. The expected
log normaliser is bounded by Jensen's inequality,

    E log sum_w exp(beta_tw)  <=  log sum_w exp(m_tw + s_tw / 2),

which is the bound of Blei and Lafferty, log zeta + sum_w exp(m_tw + s_tw / 2) / zeta - 1, at its
best zeta. The gap is about sum_w pi_w^2 (e^(s_w) - 1) / 2, pi the shares of the sum: small where no
word of a large share is uncertain, in any number of words. (Quadratic bounds with a fixed
curvature, such as Bohning's, have a gap of about sum_w s_w / 4, which grows with the vocabulary.)
The objective, jointly concave in means and variances, is

    F = sum_tv n_tv (m_tv - log sum_w exp(m_tw + s_tw / 2)) - KL(q || p).

At its maximum, with lambda_tv = N_t pi_tv,

    g = lambda,    a = n - lambda + g m,

a fixed point in which every pass costs O(T) for each word: a Kalman filter and a smoother for
scalars. A plain Newton step would overshoot where n is far from lambda: a word that a topic gains
wants m to rise by log(n / lambda), not by n / lambda - 1. So the passes take as curvature of the
means the logarithmic mean of n and lambda, the slope of the secant to that point. Steps of g are
shortened by 1 + s / 2, because an increase of g lowers s, and with it lambda, by up to this factor.
A pass that lowers F is undone, and the next one is shorter.

Arrays are of shape (T, K, V): slices first, topics side by side."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp
from jaxtyping import Array, Float

Table = Float[Array, "T K V"]
Precisions = Float[Array, "T K"]

LEAST_SITE = 1e-20
"""Least precision of a site, whose logarithm is taken."""
SHORTER = 0.25
"""Factor by which a pass that lowers F shortens the next one of its topic."""
NEAR = 1e-2
"""Ratio, less one, of two numbers whose logarithmic mean is taken from a series."""


class Start(NamedTuple):
    """A place from which passes begin: means, and precisions of sites."""

    mean: Table
    site: Table


class Walk(NamedTuple):
    """q of the log weights of all words.

    Attributes:
      mean: m.
      variance: s.
      site: g, the precisions of sites.
      filtered: variances given the sites up to t.
      predicted: variances given the sites before t.
      objective: F of each topic.
    """

    mean: Table
    variance: Table
    site: Table
    filtered: Table
    predicted: Table
    objective: Float[Array, " K"]


@functools.partial(jax.jit, static_argnums=(3, 4))  # so that calls of one shape share a program
def solve_walks(
    counts: Table, precision: Precisions, start: Start | None, passes: int, cold_passes: int
) -> Walk:
    """q of the log weights given expected counts, after some passes.

    Args:
      counts: n, nonnegative.
      precision: tau, positive: of the first slice, and of the steps to the others.
      start: where passes begin; None takes the counts pooled over slices.
      passes: number of passes from a `start`.
      cold_passes: number of passes without one.

    >>> counts = jnp.array([[[8.0, 2.0]], [[2.0, 8.0]]])
    >>> moving = solve_walks(counts, jnp.array([[0.1], [1.0]]), None, 5, 30)
    >>> still = solve_walks(counts, jnp.array([[0.1], [1e4]]), None, 5, 30)
    >>> print(*(mean_shares(walk)[:, 0, 0].round(2) for walk in (moving, still)))
    [0.7  0.29] [0.5 0.5]
    """
    number = passes
    if start is None:
        start, number = pooled_start(counts, precision), cold_passes
    first = _walk(counts, precision, start.mean, start.site)
    size = jnp.ones_like(first.objective)
    one_pass = functools.partial(_pass, counts, precision)
    return lax.fori_loop(0, number, lambda _, carry: one_pass(carry), (first, size))[0]


@jax.jit
def pooled_start(counts: Table, precision: Precisions) -> Start:
    """Walks that stand still at the counts of all slices together. A word without counts has the
    expected count that the prior gives it, about 2 tau_1 in all slices."""
    average = jnp.mean(counts, 0, keepdims=True) + _least_counts(counts, precision)
    site = jnp.broadcast_to(average, counts.shape)
    variance = _smooth_variances(precision, site)[0]
    mean = jnp.log(site) - 0.5 * variance
    return Start(_centre(mean), site)


def log_shares(walk: Walk) -> Table:
    """m - log sum_w exp(m_w + s_w / 2): a lower bound of E[log softmax(beta)]."""
    return walk.mean - logsumexp(walk.mean + 0.5 * walk.variance, -1, keepdims=True)


def mean_shares(walk: Walk) -> Table:
    """Expected weights E[exp(beta)], divided by their sum: probabilities of words."""
    return jax.nn.softmax(walk.mean + 0.5 * walk.variance, axis=-1)


def squared_steps(walk: Walk, precision: Precisions) -> Precisions:
    """sum_v E[beta_1v^2], and sum_v E[(beta_tv - beta_t-1,v)^2], as sums of positive terms."""
    steps = jnp.concatenate([walk.mean[:1], jnp.diff(walk.mean, axis=0)])
    return jnp.sum(steps**2 + _step_variances(walk, precision), -1)


def _step_variances(walk: Walk, precision: Precisions) -> Table:
    """Var[beta_1], and Var[beta_t - beta_t-1]. Given beta_t, beta_t-1 has mean f + J (beta_t - f)
    and variance F q / P, J = 1 - q / P; so the difference has variance (q / P)^2 s_t + F q / P."""
    share = 1 / (precision[1:, :, None] * walk.predicted[1:])
    later = share**2 * walk.variance[1:] + walk.filtered[:-1] * share
    return jnp.concatenate([walk.variance[:1], later])


def divergence(walk: Walk, precision: Precisions, other: Precisions) -> Float[Array, " K"]:
    """KL(q || p) of each topic; q has steps of the precisions `precision`, and p of `other`."""
    num_words = walk.mean.shape[-1]
    ratio = other * squared_steps(walk, precision) / num_words
    excess = 0.5 * num_words * jnp.sum(ratio - 1 - jnp.log(other / precision), 0)
    return excess + 0.5 * jnp.sum(jnp.log1p(walk.site * walk.predicted), (0, 2))


def entropy(walk: Walk, precision: Precisions) -> Float[Array, " K"]:
    """The entropy of q of each topic, in nats."""
    slices, _, num_words = walk.mean.shape
    gain = jnp.sum(jnp.log1p(walk.site * walk.predicted), (0, 2))
    free = jnp.sum(jnp.log(precision), 0) * num_words
    return 0.5 * (slices * num_words * (1 + jnp.log(2 * jnp.pi)) - gain - free)


@jax.jit
def sample_walks(walk: Walk, precision: Precisions, noise: Float[Array, "*shape T K V"]) -> Array:
    """Draws of beta from q by backward sampling, of standard normal `noise`."""
    centred = jnp.moveaxis(noise, -3, 0)
    share = 1 / (precision[1:, :, None] * walk.predicted[1:])
    last = jnp.sqrt(walk.filtered[-1]) * centred[-1]

    def back(later: Array, inputs: Any) -> tuple[Array, Array]:
        gain, variance, noise = inputs
        offset = gain * later + jnp.sqrt(variance) * noise
        return offset, offset

    inputs = 1 - share, walk.filtered[:-1] * share, centred[:-1]
    offsets = lax.scan(back, last, inputs, reverse=True)[1]
    return jnp.moveaxis(jnp.concatenate([offsets, last[None]]), 0, -3) + walk.mean


# --- passes ---------------------------------------------------------------------------------------
def _pass(
    counts: Table, precision: Precisions, carry: tuple[Walk, Float[Array, " K"]]
) -> tuple[Walk, Float[Array, " K"]]:
    """One pass, from a walk; and the size of the next one of each topic."""
    walk, size = carry
    mean, site = _target(counts, precision, walk)
    weight = size[None, :, None]
    mean = walk.mean + weight * (mean - walk.mean)
    site = walk.site * (site / walk.site) ** weight
    proposal = _walk(counts, precision, mean, site)
    slack = 8 * jnp.finfo(size.dtype).eps * (1 + jnp.abs(walk.objective))
    ok = proposal.objective >= walk.objective - slack
    pairs = zip(proposal[:-1], walk[:-1], strict=True)
    tables = [jnp.where(ok[:, None], new, former) for new, former in pairs]
    better: Walk = Walk._make([*tables, jnp.where(ok, proposal.objective, walk.objective)])
    return better, jnp.where(ok, jnp.minimum(2 * size, 1.0), SHORTER * size)


def _target(counts: Table, precision: Precisions, walk: Walk) -> tuple[Table, Table]:
    """The means and sites that a full pass leads to."""
    expected = jnp.sum(counts, -1, keepdims=True) * mean_shares(walk) + LEAST_SITE
    secant = _logarithmic_mean(counts + _least_counts(counts, precision), expected)
    larger, smaller = jnp.maximum(secant, expected), jnp.minimum(secant, expected)
    curvature = jnp.where(counts > expected, larger, smaller)
    linear = counts - expected + curvature * walk.mean
    mean = _smooth_means(precision, linear, curvature)
    forecast = expected + curvature * (mean - walk.mean)  # counts that the new means expect
    forecast = jnp.clip(forecast, 0.25 * expected, 4 * expected)
    site = walk.site * (forecast / walk.site) ** (1 / (1 + 0.5 * walk.variance))
    return _centre(mean), site


def _walk(counts: Table, precision: Precisions, mean: Table, site: Table) -> Walk:
    """The walk of these means and sites, with its objective."""
    variance, filtered, predicted = _smooth_variances(precision, site)
    walk = Walk(mean, variance, site, filtered, predicted, jnp.zeros(counts.shape[1], mean.dtype))
    fit = jnp.sum(counts * log_shares(walk), (0, 2))
    return walk._replace(objective=fit - divergence(walk, precision, precision))


def _least_counts(counts: Table, precision: Precisions) -> Float[Array, "1 K 1"]:
    """The expected count in a slice that the prior gives a word without counts."""
    return 2 * precision[:1, :, None] / len(counts)


def _centre(mean: Table) -> Table:
    """Means that sum to zero over words. Softmax does not read a common constant of a slice, whose
    best value under the prior is zero."""
    return mean - jnp.mean(mean, -1, keepdims=True)


def _logarithmic_mean(x: Table, y: Table) -> Table:
    """(x - y) / log(x / y)."""
    ratio = jnp.log(x / y)
    is_near = jnp.abs(ratio) < NEAR
    series = jnp.sqrt(x * y) * (1 + ratio**2 / 24)
    return jnp.where(is_near, series, (x - y) / jnp.where(is_near, 1.0, ratio))


def _smooth_means(precision: Precisions, linear: Table, curvature: Table) -> Table:
    """The means of chains with sites exp(linear x - curvature x^2 / 2): filter and smoother."""

    def forward(carry: tuple[Array, Array], inputs: Any) -> tuple[tuple[Array, Array], Any]:
        mean, filtered = carry
        precision, linear, curvature = inputs
        predicted = filtered + 1 / precision[:, None]
        filtered = predicted / (1 + curvature * predicted)
        mean = mean + filtered * (linear - curvature * mean)
        return (mean, filtered), (mean, filtered)

    zeros = jnp.zeros_like(linear[0])
    inputs = precision, linear, curvature
    (last, _), (means, filtered) = lax.scan(forward, (zeros, zeros), inputs)

    def backward(later: Array, inputs: Any) -> tuple[Array, Array]:
        mean, filtered, precision = inputs
        gain = filtered / (filtered + 1 / precision[:, None])
        smoothed = mean + gain * (later - mean)
        return smoothed, smoothed

    inputs = means[:-1], filtered[:-1], precision[1:]
    smoothed = lax.scan(backward, last, inputs, reverse=True)[1]
    return jnp.concatenate([smoothed, last[None]])


def _smooth_variances(precision: Precisions, site: Table) -> tuple[Table, Table, Table]:
    """The variances of chains with these sites: given all, given those up to t, and given those
    before t."""

    def forward(filtered: Array, inputs: Any) -> tuple[Array, tuple[Array, Array]]:
        precision, site = inputs
        predicted = filtered + 1 / precision[:, None]
        filtered = predicted / (1 + site * predicted)
        return filtered, (filtered, predicted)

    zeros = jnp.zeros_like(site[0])
    last, (filtered, predicted) = lax.scan(forward, zeros, (precision, site))

    def backward(later: Array, inputs: Any) -> tuple[Array, Array]:
        filtered, predicted, precision = inputs
        share = 1 / (precision[:, None] * predicted)
        gain = filtered / predicted
        smoothed = filtered * share + gain**2 * later
        return smoothed, smoothed

    inputs = filtered[:-1], predicted[1:], precision[1:]
    smoothed = lax.scan(backward, last, inputs, reverse=True)[1]
    return jnp.concatenate([smoothed, last[None]]), filtered, predicted
