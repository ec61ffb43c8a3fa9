"""Expectations E_{N(m, V)}[log p(y | z)] of a likelihood of a vector of predictors: by draws, by a
bound, or from the derivatives at the mean.

Laplace, the delta method and the bound of Blei and Lafferty take no draws. They are approximations,
and `vector_monte_carlo` is better. With each of them, proximal-gradient steps on N(m, V) end at the
result of the method of that name (Wang and Blei 2013)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require, require_integers
from vijax.inference.likelihood import VectorLikelihood
from vijax.xla.by_value import cache_by_value


class VectorMoments(NamedTuple):
    """Expectations of l(z) = log p(y | z), z ~ N(m, V) of K dimensions."""

    value: Float[Array, "*sites"]  # E[l]
    slope: Float[Array, "*sites K"]  # E[grad l] = dE[l]/dm
    curvature: Float[Array, "*sites K K"]  # E[hessian l] = 2 dE[l]/dV


VectorExpectation = Callable[
    [
        VectorLikelihood,
        Any,
        Float[Array, "sites K"],
        Float[Array, "sites K K"],
        PRNGKeyArray | None,
    ],
    VectorMoments,
]


@dataclasses.dataclass(frozen=True)
class VectorMonteCarlo:
    """Averages over draws; see `vector_monte_carlo`."""

    num_samples: int
    antithetic: bool
    matched: bool
    by_slopes: bool = False

    def __call__(
        self, likelihood: VectorLikelihood, y: Any, m: Array, cov: Array, key: PRNGKeyArray | None
    ) -> VectorMoments:
        """See `VectorMoments`; ValueError without a key."""
        if key is None:
            raise ValueError("key: expected a random key for a Monte Carlo expectation, got None.")
        factor = jnp.linalg.cholesky(cov)
        count = max(self.num_samples, 2 * m.shape[1]) if self.by_slopes else self.num_samples
        z = gaussian_draws(key, m, factor, count, self.antithetic, self.matched)
        if self.by_slopes:
            average = functools.partial(_average_slopes, likelihood)
            return VectorMoments(*jax.vmap(average)(y, z, m, factor))
        averages: Any = likelihood.averages or functools.partial(_average_derivatives, likelihood)
        return VectorMoments(*jax.vmap(averages)(y, z))


def _average_derivatives(
    likelihood: VectorLikelihood, y: Any, z: Float[Array, "samples K"]
) -> tuple[Array, ...]:
    """Averages of l, its gradient and its Hessian over draws."""
    derivatives = jax.vmap(lambda x: evaluate_derivatives(likelihood, y, x))(z)
    return tuple(jnp.mean(x, 0) for x in derivatives)


def _average_slopes(
    likelihood: VectorLikelihood,
    y: Any,
    z: Float[Array, "samples K"],
    m: Array,
    factor: Float[Array, "K K"],
) -> tuple[Array, Array, Array]:
    """Averages of l and its gradient g over draws z = m + L e, and the curvature V^-1 E[(z - m) g']
    = L'^-1 E[e g']."""
    differentiate = jax.vmap(jax.value_and_grad(lambda x: likelihood.log_prob(y, x)))
    values, slopes = differentiate(z) if likelihood.slopes is None else likelihood.slopes(y, z)
    noise = solve_triangular(factor, (z - m[None]).T, lower=True)
    product = jnp.matmul(noise, slopes, precision="highest") / len(z)
    curvature = solve_triangular(factor, product, lower=True, trans=1)
    return jnp.mean(values), jnp.mean(slopes, 0), 0.5 * (curvature + curvature.T)


def vector_monte_carlo(
    num_samples: int = 100,
    antithetic: bool = False,
    matched: bool = False,
    curvature: Literal["hessians", "slopes"] = "hessians",
) -> VectorMonteCarlo:
    """Averages of l, its gradient and its Hessian over draws (Bonnet, Price): Khan et al. 2016,
    appendix A.3.

    Args:
      num_samples: draws a site.
      antithetic: True for draws in pairs m + e, m - e. Functions that are odd about m then average
        to their expectation exactly, which makes the slope much more accurate.
      matched: True for draws whose average (z - m)(z - m)' is V itself (with fewer pairs than
        dimensions, draws at right angles). Quadratic functions then average to their expectation
        exactly, others with a bias of order 1 / num_samples.
      curvature: "hessians" averages Hessians; "slopes" computes their average from the gradients g
        at the same draws, as V^-1 E[(z - m) g'] (Stein 1981), with K times fewer numbers. With
        antithetic and matched draws it is exact for quadratic l; so it needs both, and takes at
        least 2 K draws. For words of topics and 64 draws, standard deviations have an error of 2 %,
        with Hessians .3 %, and means are as good (`benchmarks/results_ctm.md`).

    Raises:
      ValueError: an odd number of draws in pairs, slopes without `antithetic` and `matched`.
    """
    require_integers(num_samples=num_samples)
    is_paired = not antithetic or num_samples % 2 == 0
    require(is_paired, "num_samples", "an even number, for pairs", num_samples)
    is_kind = curvature in ("hessians", "slopes")
    require(is_kind, "curvature", "'hessians' or 'slopes'", repr(curvature))
    by_slopes = curvature == "slopes"
    serves = not by_slopes or (antithetic and matched)
    expected = "'hessians', or draws that are antithetic and matched"
    require(serves, "curvature", expected, "'slopes'")
    return VectorMonteCarlo(int(num_samples), bool(antithetic), bool(matched), by_slopes)


def gaussian_draws(
    key: PRNGKeyArray,
    m: Float[Array, "sites K"],
    factor: Float[Array, "sites K K"],
    num_samples: int,
    antithetic: bool = True,
    matched: bool = False,
) -> Float[Array, "sites samples K"]:
    """Draws from N(m, L L') of each site; `antithetic` and `matched` as in `vector_monte_carlo`.

    Args:
      key: one key for all sites, whose draws then depend on their order; or a key for each site.
      m: the means.
      factor: L, the factors of the covariances.
      num_samples: number of draws.
    """
    count = num_samples // 2 if antithetic else num_samples
    size = m.shape[1]
    if jnp.ndim(key):
        noise = jax.vmap(lambda site: jax.random.normal(site, (count, size), m.dtype))(key)
    else:
        noise = jax.random.normal(key, (m.shape[0], count, size), m.dtype)
    return _transform_noise(noise, m, factor, antithetic, matched)


def common_draws(
    key: PRNGKeyArray,
    m: Float[Array, "sites K"],
    factor: Float[Array, "sites K K"],
    num_samples: int,
) -> Float[Array, "sites samples K"]:
    """Draws from N(m, L L') of each site by the same noise for all sites, antithetic and matched.

    The average of a site does not depend on the other sites, nor on their order. An average over
    sites has the error of one site."""
    noise = jax.random.normal(key, (1, num_samples // 2, m.shape[1]), m.dtype)
    return _transform_noise(noise, m, factor, antithetic=True, matched=True)


def _transform_noise(
    noise: Float[Array, "sites count K"], m: Array, factor: Array, antithetic: bool, matched: bool
) -> Float[Array, "sites samples K"]:
    """m + L e for the noise e of each site. A single row of noise serves all sites."""
    if matched:
        noise = _orthogonalise(noise)
    noise = jnp.broadcast_to(noise, (m.shape[0], *noise.shape[1:]))
    shift = jnp.einsum("dsj,dij->dsi", noise, factor, precision="highest")
    if antithetic:
        shift = jnp.concatenate([shift, -shift], 1)
    return m[:, None, :] + shift


def _orthogonalise(noise: Float[Array, "sites count K"]) -> Float[Array, "sites count K"]:
    """The noise, changed so that its average e e' is the identity; with fewer draws than
    dimensions, so that the draws are orthogonal."""
    count, size = noise.shape[1:]
    if count < size:
        return size**0.5 * jnp.linalg.qr(noise.mT)[0].mT
    return count**0.5 * jnp.linalg.qr(noise)[0]


@cache_by_value
def bohning() -> VectorExpectation:
    """A lower bound on E[l] (Bohning 1992): log sum e^z has Hessian at most A = (I - 11'/K)/2, so

    E[log sum e^z] <= log sum e^m + tr(A V)/2,

    and the convex part of l is at least its tangent at m, whose expectation is its value at m. The
    curvature is constant, so steps of size 1 on full data never lower the bound of `softmax`.

    Raises:
      ValueError: a likelihood that is not convex apart from W log sum e^z
        (`VectorLikelihood.total`).
    """

    def estimate(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array) -> VectorMoments:
        total = _total(likelihood, y, "Bohning's bound")
        a = 0.5 * (jnp.eye(m.size, dtype=m.dtype) - 1.0 / m.size)
        value, slope = jax.value_and_grad(likelihood.log_prob, 1)(y, m)
        return VectorMoments(value - 0.5 * total * jnp.sum(a * cov), slope, -total * a)

    return _map_sites(estimate)


def _map_sites(
    estimate: Callable[[VectorLikelihood, Any, Array, Array], VectorMoments],
) -> VectorExpectation:
    """The expectation that applies `estimate` to each site, without draws."""

    def expectation(
        likelihood: VectorLikelihood, y: Any, m: Array, cov: Array, key: PRNGKeyArray | None
    ) -> VectorMoments:
        return jax.vmap(functools.partial(estimate, likelihood))(y, m, cov)

    return expectation


def _total(likelihood: VectorLikelihood, y: Any, bound: str) -> Float[Array, ""]:
    """W such that log p(y | z) + W log sum_k e^{z_k} is convex in z. ValueError if there is
    none."""
    expected = f"softmax or softmax_mixture for {bound}"
    require(likelihood.total is not None, "likelihood", expected, likelihood.name)
    return likelihood.total(y)  # type: ignore[misc]


def evaluate_derivatives(
    likelihood: VectorLikelihood, y: Any, z: Array
) -> tuple[Array, Array, Array]:
    """l, its gradient and its Hessian at z."""
    if likelihood.averages is not None:
        return likelihood.averages(y, z[None])
    log_lik = lambda x: likelihood.log_prob(y, x)
    return log_lik(z), jax.grad(log_lik)(z), jax.hessian(log_lik)(z)


@cache_by_value
def laplace() -> VectorExpectation:
    """l, its gradient and its Hessian at m. The fixed point is the posterior mode, with V^-1 the
    negative Hessian of the log joint at the mode.

    >>> from vijax.inference.likelihood import softmax
    >>> y, m, cov = jnp.array([[1.0, 0.0]]), jnp.zeros((1, 2)), jnp.eye(2)[None]
    >>> laplace()(softmax(2), y, m, cov, None).slope.tolist()
    [[0.5, -0.5]]
    """

    def estimate(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array) -> VectorMoments:
        return VectorMoments(*evaluate_derivatives(likelihood, y, m))

    return _map_sites(estimate)


@cache_by_value
def delta_method() -> VectorExpectation:
    """E[l] = l(m) + tr(H(m) V) / 2 with the Hessian H, the second-order Taylor expansion about m.
    It is no bound."""

    def estimate(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array) -> VectorMoments:
        def value(m: Array) -> tuple[Array, Array]:
            at_mean, _, hessian = evaluate_derivatives(likelihood, y, m)
            trace = jnp.einsum("ij,ij->", hessian, cov, precision="highest")
            return at_mean + 0.5 * trace, hessian

        (expected, hessian), slope = jax.value_and_grad(value, has_aux=True)(m)
        return VectorMoments(expected, slope, hessian)

    return _map_sites(estimate)


@cache_by_value
def blei_lafferty() -> VectorExpectation:
    """The lower bound of Blei and Lafferty (2007), with zeta = sum_k E e^{z_k} and q(topics) at
    their optima,

    E[log sum_k e^{z_k}] <= log sum_k e^{m_k + V_kk / 2},

    and the convex part of l is at least its tangent at m. It reads only the variances.

    Raises:
      ValueError: a likelihood that is not convex apart from W log sum e^z
        (`VectorLikelihood.total`).
    """

    def estimate(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array) -> VectorMoments:
        log_means = m + 0.5 * jnp.diagonal(cov)
        total = _total(likelihood, y, "Blei and Lafferty's bound")
        value, slope = jax.value_and_grad(likelihood.log_prob, 1)(y, m)
        share = jax.nn.softmax(log_means)
        value += total * (jax.nn.logsumexp(m) - jax.nn.logsumexp(log_means))
        slope = slope + total * (jax.nn.softmax(m) - share)
        return VectorMoments(value, slope, -total * jnp.diag(share))

    return _map_sites(estimate)
