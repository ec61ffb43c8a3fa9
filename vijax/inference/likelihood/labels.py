"""Labels y = -1 or +1, ordered classes y = 0, ..., C - 1, and counts over categories given a vector
of predictors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import as_float
from vijax.families.numeric.log_factorial import deviance, log_factorial_gap
from vijax.families.numeric.logistic import log_sigmoid
from vijax.inference.likelihood.base import Likelihood, Moments, support
from vijax.inference.likelihood.log_sigmoid import log_sigmoid_moments
from vijax.inference.likelihood.normal_tail import log_ndtr
from vijax.xla.by_value import cache_by_value

FAR = 1e30
"""Largest predictor: further out, every class but one is as good as impossible."""


@cache_by_value
def bernoulli_logit() -> Likelihood:
    """p(y | z) = 1 / (1 + exp(-y z)), y = -1 or +1.

    >>> float(bernoulli_logit().log_prob(1, jnp.array(0.0)))
    -0.6931471824645996
    """

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        value, slope, curvature = log_sigmoid_moments(y * m, v)
        return Moments(value, y * slope, curvature)

    return Likelihood(
        lambda y, z: log_sigmoid(y * z),
        name="bernoulli_logit",
        analytic=True,
        log_concave=True,
        closed_form=closed_form,
        density=lambda y, m, v: log_sigmoid_moments(-y * m, v).slope,
        check=_labels("bernoulli_logit"),
        mean=jax.nn.sigmoid,
        sample=lambda key, z: _signs(z + jax.random.logistic(key, z.shape, z.dtype)),
    )


@cache_by_value
def bernoulli_probit() -> Likelihood:
    """p(y | z) = Phi(y z), y = -1 or +1; accurate in both tails and in both precisions."""
    return Likelihood(
        lambda y, z: log_ndtr(y * z),
        name="bernoulli_probit",
        analytic=True,
        log_concave=True,
        density=lambda y, m, v: jax.scipy.special.ndtr(y * m * jax.lax.rsqrt(1.0 + v)),
        check=_labels("bernoulli_probit"),
        mean=jax.scipy.special.ndtr,
        sample=lambda key, z: _signs(z + jax.random.normal(key, z.shape, z.dtype)),
    )


def noisy_labels(flip: Any, clean: Likelihood | None = None) -> Likelihood:
    """Labels y, each wrong with an unknown probability e: p(y | z, e) = (1 - e) p(y | z) + e p(-y |
    z).

    It is for a posterior of e beside that of z (`others` of `vijax.models.gp` and `glm`). A local
    variable t marks wrong labels; its q(t | z) is exact, so the bound is

        E_z[log sum_t exp(E log p(t | e) + log p(t y | z))]  <=  E[log p(y | z, e)].

    Its gradient in (log e, log(1 - e)) is the expected number of wrong and of right labels: the
    message of a Beta.

    Args:
      flip: statistics of a `vijax.Beta`, (E log e, E log(1 - e)).
      clean: p(y | z) of correct labels; `bernoulli_logit()` if None.

    >>> import vijax as vi
    >>> rate = vi.Beta.from_alpha_beta(1e6, 9e6).expected_stats()  # e = 0.1
    >>> lik = noisy_labels(rate)
    >>> [round(float(jnp.exp(lik.log_prob(y, jnp.array(9.0)))), 2) for y in (1, -1)]
    [0.9, 0.1]
    """
    clean = bernoulli_logit() if clean is None else clean

    def log_prob(y: Any, z: Array) -> Array:
        return jnp.logaddexp(flip.log1m + clean.log_prob(y, z), flip.log + clean.log_prob(-y, z))

    def kinks(y: Any) -> Float[Array, " kinks"]:
        """The bends: 0, and the points where a wrong label is as likely as a right one."""
        turn = jnp.abs(flip.log1m - flip.log)
        return jnp.concatenate([clean.kinks(y), jnp.stack([-turn, turn])])

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        key_clean, key_flip = jax.random.split(key)
        wrong = jax.random.uniform(key_flip, z.shape) < jnp.exp(flip.log)
        right: Any = clean.sample
        return jnp.where(wrong, -1.0, 1.0) * right(key_clean, z)

    return Likelihood(
        log_prob,
        name="noisy_labels",
        kinks=kinks,
        width=clean.width,
        analytic=clean.analytic,
        check=_labels("noisy_labels"),
        mean=clean.mean,
        sample=None if clean.sample is None else sample,
    )


def _signs(z: Array) -> Array:
    return jnp.where(z > 0, 1.0, -1.0).astype(z.dtype)


def _labels(name: str) -> Callable[[Any], None]:
    expected = "labels -1 or +1 (2*y - 1 makes them of 0 and 1)"
    return support(name, expected, lambda y: (y == 1) | (y == -1))


@cache_by_value
def ordinal_logit(cutpoints: Any) -> Likelihood:
    """p(y | z) = sigma(c_{y+1} - z) - sigma(c_y - z), with c_0 = -inf and c_C = inf.

    It is computed as log sigma(b - z) + log sigma(z - a) + log(1 - e^(a-b)), without cancellation.

    Args:
      cutpoints: increasing, shape (C - 1,).

    >>> three = ordinal_logit([-1.0, 1.0])
    >>> [round(float(jnp.exp(three.log_prob(y, jnp.array(0.0)))), 3) for y in range(3)]
    [0.269, 0.462, 0.269]
    """
    inner = as_float(cutpoints)
    is_vector = inner.ndim == 1 and inner.size > 0
    require(is_vector, "cutpoints", "a vector of at least one number", inner)
    require(jnp.diff(inner) > 0, "cutpoints", "increasing numbers", inner)
    num_classes = inner.size + 1

    def edges(y: Any) -> tuple[Array, Array]:
        k = jnp.asarray(y).astype(jnp.int32)
        return inner[jnp.clip(k - 1, 0, num_classes - 2)], inner[jnp.clip(k, 0, num_classes - 2)]

    def parts(y: Any) -> tuple[Array, Array, Array]:
        """True if the class has a lower edge; True if it has an upper edge; log(1 - e^(a-b)) if it
        has both, else 0."""
        lower, upper = edges(y)
        has_lower = y != 0
        has_upper = y != num_classes - 1
        width = jnp.where(has_lower & has_upper, upper - lower, 1.0)
        log_gap = jnp.where(has_lower & has_upper, jnp.log(-jnp.expm1(-width)), 0.0)
        return has_lower, has_upper, log_gap

    def log_prob(y: Any, z: Array) -> Array:
        (lower, upper), (has_lower, has_upper, log_gap) = edges(y), parts(y)
        z = jnp.clip(z, -FAR, FAR)  # 0 times infinity would be NaN
        return has_lower * log_sigmoid(z - lower) + has_upper * log_sigmoid(upper - z) + log_gap

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        (lower, upper), (has_lower, has_upper, log_gap) = edges(y), parts(y)
        lower_moments = log_sigmoid_moments(m - lower.astype(m.dtype), v)
        value, slope, curvature = (jnp.where(has_lower, x, 0.0) for x in lower_moments)
        upper_moments = log_sigmoid_moments(upper.astype(m.dtype) - m, v)
        value2, slope2, curvature2 = (jnp.where(has_upper, x, 0.0) for x in upper_moments)
        value = value + value2 + log_gap.astype(m.dtype)
        return Moments(value, slope - slope2, curvature + curvature2)

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        noisy = z + jax.random.logistic(key, z.shape, z.dtype)
        is_above = noisy[..., None] > inner[(None,) * z.ndim]
        return jnp.sum(is_above, -1).astype(z.dtype)

    return Likelihood(
        log_prob,
        name="ordinal_logit",
        kinks=lambda y: jnp.stack(edges(y)),
        log_concave=True,
        check=support(
            "ordinal_logit",
            f"classes 0, ..., {num_classes - 1}",
            lambda y: (y >= 0) & (y < num_classes) & (y == np.floor(y)),
        ),
        closed_form=closed_form,
        sample=sample,
    )


Averages = tuple[Float[Array, ""], Float[Array, " K"], Float[Array, "K K"]]
Slopes = tuple[Float[Array, " draws"], Float[Array, "draws K"]]


@dataclasses.dataclass(frozen=True)
class VectorLikelihood:
    """p(y | z) of one observation given a *vector* z, for `vijax.expectation.vector_monte_carlo`
    and `bohning`.

    Attributes:
      log_prob: (y, z) -> log p(y | z), z of shape (K,).
      name: its name in messages.
      check: raises ValueError for observations outside the support, naming the first such site.
      total: y -> W, if log_prob is convex in z apart from -W log sum_k e^{z_k}; else None.
      averages: (y, draws of z) -> means over the draws of log_prob, its gradient and its Hessian,
        if there is a faster way than automatic differentiation at each draw; else None.
      slopes: (y, draws of z) -> log_prob and its gradient at each draw, in the same case.
    """

    log_prob: Callable[[Any, Float[Array, " K"]], Float[Array, ""]]
    name: str
    check: Callable[[Any], None]
    total: Callable[[Any], Float[Array, ""]] | None = None
    averages: Callable[[Any, Float[Array, "draws K"]], Averages] | None = None
    slopes: Callable[[Any, Float[Array, "draws K"]], Slopes] | None = None


def softmax(num_categories: int) -> VectorLikelihood:
    """p(y | z) = Multinomial(y; softmax(z)), y a vector of K counts: one 1 among zeros for a single
    label.

    log p(y | z) = <y, z> - W log sum_k e^{z_k} + log W! - sum_k log y_k!,   W = sum_k y_k.

    >>> round(float(jnp.exp(softmax(3).log_prob(jnp.array([1.0, 0.0, 0.0]), jnp.zeros(3)))), 4)
    0.3333
    """

    def log_prob(y: Any, z: Array) -> Array:
        """Without a difference of terms of the size of W log W."""
        counts = jnp.asarray(y, z.dtype)
        total = jnp.sum(counts)
        log_mean = jax.nn.log_softmax(z) + jnp.log(jnp.maximum(total, jnp.finfo(z.dtype).tiny))
        terms = deviance(counts, log_mean) + log_factorial_gap(counts)
        return log_factorial_gap(total) - jnp.sum(terms)

    are_counts = lambda y: (y >= 0) & (y == np.floor(y)) & (y.shape[-1] == num_categories)
    check = support("softmax", f"{num_categories} counts 0, 1, 2, ...", are_counts, num_axes=None)
    return VectorLikelihood(log_prob, "softmax", check, total=jnp.sum)


def softmax_mixture() -> VectorLikelihood:
    """Words of a document whose topics have shares softmax(z) (Khan et al. 2016, appendix A.3, eq.
    34); y = (rows, counts):

    log p(y | z) = sum_n c_n log sum_k rows_nk softmax(z)_k,

    rows_nk is the probability of word n in topic k, up to a factor per word, and positive; c_n = 0
    in padding.

    >>> rows, counts = jnp.array([[1.0, 0.5]]), jnp.array([2.0])
    >>> round(float(softmax_mixture().log_prob((rows, counts), jnp.zeros(2))), 4)  # 2 log 0.75
    -0.5754
    """

    def log_prob(y: Any, z: Array) -> Array:
        rows, counts = y
        p = jnp.einsum("nk,k->n", rows, jax.nn.softmax(z), precision="highest")
        log_p = jnp.log(jnp.where(counts > 0, p, 1.0))
        return jnp.einsum("n,n->", counts, log_p, precision="highest")

    are_counts = lambda x: (x >= 0) & np.isfinite(x)
    are_positive = lambda x: (x > 0) & np.isfinite(x)

    def check(y: Any) -> None:
        rows, counts = y
        support("softmax_mixture", "counts >= 0", are_counts, None)(counts)
        support("softmax_mixture", "positive word probabilities", are_positive, None)(rows)

    num_words = lambda y: jnp.sum(y[1])
    return VectorLikelihood(
        log_prob, "softmax_mixture", check, total=num_words, averages=_averages, slopes=_slopes
    )


class _WordDraws(NamedTuple):
    """The words of a document at draws of z, with the rows of each word divided by its maximum."""

    rows: Float[Array, "n K"]
    share: Float[Array, "draws K"]  # at least 6e-16 in float32, so that no 1 / p^2 overflows
    p: Float[Array, "draws n"]
    value: Float[Array, " draws"]
    slope: Float[Array, "draws K"]


def _evaluate_words(y: Any, z: Float[Array, "draws K"]) -> _WordDraws:
    rows, counts = y
    is_word = counts > 0
    scale = jnp.where(is_word, jnp.max(rows, -1), 1.0)
    rows = rows / scale[:, None]
    share = jax.nn.softmax(z)

    def mix(share: Array) -> Array:
        p = jnp.einsum("nk,sk->sn", rows, share, precision="highest")
        return jnp.where(is_word[None], p, 1.0)

    log_p = jnp.log(mix(share)) + jnp.log(scale)[None]
    value = jnp.einsum("sn,n->s", log_p, counts, precision="highest")
    positive = jnp.maximum(share, jnp.finfo(z.dtype).tiny ** 0.4)
    p = mix(positive)
    topic_sums = jnp.einsum("sn,nk->sk", counts[None] / p, rows, precision="highest")
    slope = positive * topic_sums - jnp.sum(counts) * share
    return _WordDraws(rows, positive, p, value, slope)


def _slopes(y: Any, z: Float[Array, "draws K"]) -> Slopes:
    """`softmax_mixture` and its gradient at each draw."""
    draws = _evaluate_words(y, z)
    return draws.value, draws.slope


def _averages(y: Any, z: Float[Array, "draws K"]) -> Averages:
    """Averages of the derivatives of `softmax_mixture`, with pi = softmax(z), p_n = rows_n pi,
    phi_n = rows_n pi / p_n:

    gradient  sum_n c_n phi_n - W pi
    Hessian   sum_n c_n (diag phi_n - phi_n phi_n') - W (diag pi - pi pi')

    The sum over words of phi_n phi_n' = (rows_n rows_n') (pi pi') / p_n^2 is a product of a matrix
    (draws, words) and a matrix (words, pairs of topics)."""
    draws, counts = _evaluate_words(y, z), y[1]
    rows, positive = draws.rows, draws.share
    i, j = np.triu_indices(z.shape[1])
    row_pairs = rows[:, i] * rows[:, j]
    pair_sums = jnp.einsum("sn,np->sp", counts[None] / draws.p**2, row_pairs, precision="highest")
    share_pairs = positive[:, i] * positive[:, j]
    pairs = jnp.einsum("sp,sp->p", share_pairs, pair_sums, precision="highest") / len(z)
    pair_index = np.zeros(2 * z.shape[1:], int)
    pair_index[i, j] = pair_index[j, i] = np.arange(len(i))
    second = pairs[pair_index]
    share, gradient = jax.nn.softmax(z), jnp.mean(draws.slope, 0)
    outer = jnp.einsum("sk,sl->kl", share, share, precision="highest") / len(z)
    hessian = jnp.diag(gradient) - second + jnp.sum(counts) * outer
    return jnp.mean(draws.value), gradient, hessian
