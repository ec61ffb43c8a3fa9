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
from vijax.inference.likelihood.log_sigmoid import of_log_sigmoid
from vijax.inference.likelihood.normal_tail import log_ndtr
from vijax.xla.by_value import cache_by_value

FAR = 1e30
"""Predictors further out count as if they were here, where each class but one is as good as
impossible."""


@cache_by_value
def bernoulli_logit() -> Likelihood:
    """p(y | z) = 1 / (1 + exp(-y z)), y = -1 or +1.

    >>> float(bernoulli_logit().log_prob(1, jnp.array(0.0)))
    -0.6931471824645996
    """

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        value, slope, curvature = of_log_sigmoid(y * m, v)
        return Moments(value, y * slope, curvature)

    return Likelihood(
        lambda y, z: log_sigmoid(y * z),
        name="bernoulli_logit",
        analytic=True,
        log_concave=True,
        closed_form=closed_form,
        density=lambda y, m, v: of_log_sigmoid(-y * m, v).slope,
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

    This serves a posterior of e beside the one of z (`others` of `vijax.models.gp` and `glm`). A
    local variable says which labels are wrong; its q(t | z) is found exactly, so that the bound is

        E_z[log sum_t exp(E log p(t | e) + log p(t y | z))]  <=  E[log p(y | z, e)],

    and its gradient in (log e, log(1 - e)) the expected number of wrong and of right labels: the
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
        """The bends: at 0, and where a wrong label becomes as likely as a right one."""
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
    return support(
        name, "labels -1 or +1 (2*y - 1 makes them of 0 and 1)", lambda y: (y == 1) | (y == -1)
    )


@cache_by_value
def ordinal_logit(cutpoints: Any) -> Likelihood:
    """p(y | z) = sigma(c_{y+1} - z) - sigma(c_y - z), with c_0 = -inf and c_C = inf.

    Computed as log sigma(b - z) + log sigma(z - a) + log(1 - e^(a-b)), in which nothing cancels.

    Args:
      cutpoints: increasing, shape (C - 1,).

    >>> three = ordinal_logit([-1.0, 1.0])
    >>> [round(float(jnp.exp(three.log_prob(y, jnp.array(0.0)))), 3) for y in range(3)]
    [0.269, 0.462, 0.269]
    """
    inner = as_float(cutpoints)
    require(
        inner.ndim == 1 and inner.size > 0, "cutpoints", "a vector of at least one number", inner
    )
    require(jnp.diff(inner) > 0, "cutpoints", "increasing numbers", inner)
    num_classes = inner.size + 1

    def edges(y: Any) -> tuple[Array, Array]:
        k = jnp.asarray(y).astype(jnp.int32)
        return inner[jnp.clip(k - 1, 0, num_classes - 2)], inner[jnp.clip(k, 0, num_classes - 2)]

    def parts(y: Any) -> tuple[Array, Array, Array]:
        """True where there is an edge below, where there is one above; and log(1 - e^(a-b)) where
        there are both."""
        lower, upper = edges(y)
        has_lower, has_upper = y != 0, y != num_classes - 1
        width = jnp.where(has_lower & has_upper, upper - lower, 1.0)
        return (
            has_lower,
            has_upper,
            jnp.where(has_lower & has_upper, jnp.log(-jnp.expm1(-width)), 0.0),
        )

    def log_prob(y: Any, z: Array) -> Array:
        (lower, upper), (has_lower, has_upper, known) = edges(y), parts(y)
        z = jnp.clip(z, -FAR, FAR)  # 0 times infinity would be NaN
        return has_lower * log_sigmoid(z - lower) + has_upper * log_sigmoid(upper - z) + known

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        (lower, upper), (has_lower, has_upper, known) = edges(y), parts(y)
        above = [jnp.where(has_lower, x, 0.0) for x in of_log_sigmoid(m - lower.astype(m.dtype), v)]
        below = [jnp.where(has_upper, x, 0.0) for x in of_log_sigmoid(upper.astype(m.dtype) - m, v)]
        return Moments(
            above[0] + below[0] + known.astype(m.dtype), above[1] - below[1], above[2] + below[2]
        )

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        above = (z + jax.random.logistic(key, z.shape, z.dtype))[..., None] > inner[
            (None,) * z.ndim
        ]
        return jnp.sum(above, -1).astype(z.dtype)

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
    """p(y | z) of one observation given a *vector* z: see `vijax.expectation.vector_monte_carlo`
    and `bohning`.

    Attributes:
      log_prob: (y, z) -> log p(y | z), z of shape (K,).
      name: its name in messages.
      check: raises ValueError for observations outside the support, naming the first such site.
      total: y -> W, where log_prob is convex in z apart from -W log sum_k e^{z_k}; else None.
      averages: (y, draws of z) -> means over the draws of log_prob, its gradient and its Hessian,
        where there is a faster way than automatic differentiation at each; else None.
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
        return log_factorial_gap(total) - jnp.sum(
            deviance(counts, log_mean) + log_factorial_gap(counts)
        )

    inside = lambda y: (y >= 0) & (y == np.floor(y)) & (y.shape[-1] == num_categories)
    check = support("softmax", f"{num_categories} counts 0, 1, 2, ...", inside, num_axes=None)
    return VectorLikelihood(log_prob, "softmax", check, total=jnp.sum)


def softmax_mixture() -> VectorLikelihood:
    """Words of a document whose topics have shares softmax(z) (Khan et al. 2016, appendix A.3, eq.
    34); y = (rows, counts):

    log p(y | z) = sum_n c_n log sum_k rows_nk softmax(z)_k,

    rows_nk being the probability, up to a factor per word, of word n in topic k, positive; c_n = 0
    in padding.

    >>> rows, counts = jnp.array([[1.0, 0.5]]), jnp.array([2.0])
    >>> round(float(softmax_mixture().log_prob((rows, counts), jnp.zeros(2))), 4)  # 2 log 0.75
    -0.5754
    """

    def log_prob(y: Any, z: Array) -> Array:
        rows, counts = y
        mixed = jnp.einsum("nk,k->n", rows, jax.nn.softmax(z), precision="highest")
        return jnp.einsum(
            "n,n->", counts, jnp.log(jnp.where(counts > 0, mixed, 1.0)), precision="highest"
        )

    def check(y: Any) -> None:
        rows, counts = y
        support("softmax_mixture", "counts >= 0", lambda x: (x >= 0) & np.isfinite(x), None)(counts)
        support(
            "softmax_mixture",
            "positive word probabilities",
            lambda x: (x > 0) & np.isfinite(x),
            None,
        )(rows)

    words = lambda y: jnp.sum(y[1])
    return VectorLikelihood(
        log_prob, "softmax_mixture", check, total=words, averages=_averages, slopes=_slopes
    )


class _Mixed(NamedTuple):
    """Words of a document at draws of z, the rows of each word divided by its largest."""

    rows: Float[Array, "n K"]
    share: Float[Array, "draws K"]  # no less than 6e-16 in float32, so that no 1 / p^2 overflows
    p: Float[Array, "draws n"]
    value: Float[Array, " draws"]
    slope: Float[Array, "draws K"]


def _mixed(y: Any, z: Float[Array, "draws K"]) -> _Mixed:
    rows, counts = y
    is_word = counts > 0
    scale = jnp.where(is_word, jnp.max(rows, -1), 1.0)
    rows, share = rows / scale[:, None], jax.nn.softmax(z)
    mixed = lambda share: jnp.where(
        is_word[None], jnp.einsum("nk,sk->sn", rows, share, precision="highest"), 1.0
    )
    value = jnp.einsum(
        "sn,n->s", jnp.log(mixed(share)) + jnp.log(scale)[None], counts, precision="highest"
    )
    some = jnp.maximum(share, jnp.finfo(z.dtype).tiny ** 0.4)
    p = mixed(some)
    of_topic = jnp.einsum("sn,nk->sk", counts[None] / p, rows, precision="highest")
    return _Mixed(rows, some, p, value, some * of_topic - jnp.sum(counts) * share)


def _slopes(y: Any, z: Float[Array, "draws K"]) -> Slopes:
    """`softmax_mixture` and its gradient at each draw."""
    at = _mixed(y, z)
    return at.value, at.slope


def _averages(y: Any, z: Float[Array, "draws K"]) -> Averages:
    """Averages of the derivatives of `softmax_mixture`, with pi = softmax(z), p_n = rows_n pi,
    phi_n = rows_n pi / p_n:

    gradient  sum_n c_n phi_n - W pi
    Hessian   sum_n c_n (diag phi_n - phi_n phi_n') - W (diag pi - pi pi')

    Of phi_n phi_n' = (rows_n rows_n') (pi pi') / p_n^2 the sum over words is a product of draws by
    words with words by pairs of topics."""
    at, counts = _mixed(y, z), y[1]
    rows, some = at.rows, at.share
    i, j = np.triu_indices(z.shape[1])
    of_pair = jnp.einsum(
        "sn,np->sp", counts[None] / at.p**2, rows[:, i] * rows[:, j], precision="highest"
    )
    pairs = jnp.einsum("sp,sp->p", some[:, i] * some[:, j], of_pair, precision="highest") / len(z)
    place = np.zeros(2 * z.shape[1:], int)
    place[i, j] = place[j, i] = np.arange(len(i))
    second = pairs[place]
    share, gradient = jax.nn.softmax(z), jnp.mean(at.slope, 0)
    both = jnp.einsum("sk,sl->kl", share, share, precision="highest") / len(z)
    return jnp.mean(at.value), gradient, jnp.diag(gradient) - second + jnp.sum(counts) * both
