"""Expectations E_{N(m, V)}[log p(y | z)] of a likelihood of a vector of predictors: by draws,
bounded, or from the derivatives at the mean alone.

Laplace, the delta method and the bound of Blei and Lafferty take no draws. Each leaves something
out, and so `vector_monte_carlo` is better. With any of them, proximal-gradient steps on N(m, V) end
where the method of that name does (Wang and Blei 2013)."""

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
            return VectorMoments(
                *jax.vmap(functools.partial(_of_slopes, likelihood))(y, z, m, factor)
            )
        each = lambda y, z: jax.vmap(lambda x: derivatives_at(likelihood, y, x))(z)
        averages = likelihood.averages or (lambda y, z: tuple(jnp.mean(x, 0) for x in each(y, z)))  # type: ignore[return-value]
        return VectorMoments(*jax.vmap(averages)(y, z))


def _of_slopes(
    likelihood: VectorLikelihood,
    y: Any,
    z: Float[Array, "samples K"],
    m: Array,
    factor: Float[Array, "K K"],
) -> tuple[Array, Array, Array]:
    """Averages of l and its gradient g, and the curvature V^-1 E[(z - m) g'] = L'^-1 E[e g'], z = m
    + L e."""
    each = likelihood.slopes or (
        lambda y, z: jax.vmap(jax.value_and_grad(lambda x: likelihood.log_prob(y, x)))(z)
    )
    values, slopes = each(y, z)
    noise = solve_triangular(factor, (z - m[None]).T, lower=True)
    both = solve_triangular(
        factor, jnp.matmul(noise, slopes, precision="highest") / len(z), lower=True, trans=1
    )
    return jnp.mean(values), jnp.mean(slopes, 0), 0.5 * (both + both.T)


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
      antithetic: draws in pairs m + e, m - e: functions that are odd about m then average to their
        expectation exactly, which makes the slope much more accurate.
      matched: draws whose average (z - m)(z - m)' is V itself (of fewer pairs than dimensions,
          draws at right angles):
        quadratic functions then average to their expectation exactly, others with a bias of order 1
        / num_samples.
      curvature: "hessians" averages these; "slopes" has their average from the gradients g at the
        same draws, as V^-1 E[(z - m) g'] (Stein 1981): K times fewer numbers. With draws that are
        antithetic and matched it is exact where l is quadratic; so it needs both, and takes at
        least 2 K draws. For words of topics, with 64 draws, standard deviations are then 2 % off,
        by Hessians .3 %, and means as good (`benchmarks/results_ctm.md`).

    Raises:
      ValueError: an odd number of draws in pairs, slopes without `antithetic` and `matched`.
    """
    require_integers(num_samples=num_samples)
    require(
        not antithetic or num_samples % 2 == 0,
        "num_samples",
        "an even number, for pairs",
        num_samples,
    )
    require(
        curvature in ("hessians", "slopes"), "curvature", "'hessians' or 'slopes'", repr(curvature)
    )
    by_slopes, paired = curvature == "slopes", antithetic and matched
    require(
        paired or not by_slopes,
        "curvature",
        "'hessians', or draws that are antithetic and matched",
        "'slopes'",
    )
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
      key: one key for all sites, whose draws then depend on their places; or a key for each site.
      m: the means.
      factor: L, the factors of the covariances.
      num_samples: number of draws.
    """
    count = num_samples // 2 if antithetic else num_samples
    size = m.shape[1]
    if jnp.ndim(key):
        noise = jax.vmap(lambda own: jax.random.normal(own, (count, size), m.dtype))(key)
    else:
        noise = jax.random.normal(key, (m.shape[0], count, size), m.dtype)
    return _placed(noise, m, factor, antithetic, matched)


def common_draws(
    key: PRNGKeyArray,
    m: Float[Array, "sites K"],
    factor: Float[Array, "sites K K"],
    num_samples: int,
) -> Float[Array, "sites samples K"]:
    """Draws from N(m, L L') of each site by the same noise for all, antithetic and matched: what is
    averaged for a site does not depend on the other sites, nor on its place among them. An average
    over sites has the error of one site."""
    noise = jax.random.normal(key, (1, num_samples // 2, m.shape[1]), m.dtype)
    return _placed(noise, m, factor, antithetic=True, matched=True)


def _placed(
    noise: Float[Array, "sites count K"], m: Array, factor: Array, antithetic: bool, matched: bool
) -> Float[Array, "sites samples K"]:
    """m + L e for the noise e of each site; one row of noise is that of all sites."""
    noise = _matched(noise) if matched else noise
    noise = jnp.broadcast_to(noise, (m.shape[0], *noise.shape[1:]))
    shift = jnp.einsum("dsj,dij->dsi", noise, factor, precision="highest")
    return m[:, None, :] + (jnp.concatenate([shift, -shift], 1) if antithetic else shift)


def _matched(noise: Float[Array, "sites count K"]) -> Float[Array, "sites count K"]:
    """The noise, changed so that its average e e' is the identity; with fewer draws than
    dimensions, orthogonal."""
    count, size = noise.shape[1:]
    if count < size:
        return size**0.5 * jnp.linalg.qr(noise.mT)[0].mT
    return count**0.5 * jnp.linalg.qr(noise)[0]


@cache_by_value
def bohning() -> VectorExpectation:
    """A lower bound on E[l] (Bohning 1992): log sum e^z has Hessian at most A = (I - 11'/K)/2, so

    E[log sum e^z] <= log sum e^m + tr(A V)/2,

    and the convex part of l is at least its tangent at m, whose expectation is its value there. The
    curvature is constant, hence steps of size 1 on full data never lower the bound of `softmax`.

    Raises:
      ValueError: a likelihood that is not convex apart from W log sum e^z
          (`VectorLikelihood.total`).
    """

    def one(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array) -> VectorMoments:
        total = _total(likelihood, y, "Bohning's bound")
        a = 0.5 * (jnp.eye(m.size, dtype=m.dtype) - 1.0 / m.size)
        value, slope = jax.value_and_grad(likelihood.log_prob, 1)(y, m)
        return VectorMoments(value - 0.5 * total * jnp.sum(a * cov), slope, -total * a)

    return _by_site(one)


def _by_site(
    one: Callable[[VectorLikelihood, Any, Array, Array], VectorMoments],
) -> VectorExpectation:
    """The expectation that `one` gives for each site, without draws."""
    return lambda likelihood, y, m, cov, key: jax.vmap(lambda *site: one(likelihood, *site))(
        y, m, cov
    )


def _total(likelihood: VectorLikelihood, y: Any, bound: str) -> Float[Array, ""]:
    """W, where log p(y | z) + W log sum_k e^{z_k} is convex in z; else ValueError."""
    expected = f"softmax or softmax_mixture for {bound}"
    require(likelihood.total is not None, "likelihood", expected, likelihood.name)
    return likelihood.total(y)  # type: ignore[misc]


def derivatives_at(likelihood: VectorLikelihood, y: Any, z: Array) -> tuple[Array, Array, Array]:
    """l, its gradient and its Hessian at z."""
    if likelihood.averages is not None:
        return likelihood.averages(y, z[None])
    log_lik = lambda x: likelihood.log_prob(y, x)
    return log_lik(z), jax.grad(log_lik)(z), jax.hessian(log_lik)(z)


@cache_by_value
def laplace() -> VectorExpectation:
    """l, its gradient and its Hessian at m: the fixed point is the posterior mode, with V^-1 the
    negative Hessian of the log joint there.

    >>> from vijax.inference.likelihood import softmax
    >>> y, m, cov = jnp.array([[1.0, 0.0]]), jnp.zeros((1, 2)), jnp.eye(2)[None]
    >>> laplace()(softmax(2), y, m, cov, None).slope.tolist()
    [[0.5, -0.5]]
    """

    return _by_site(lambda likelihood, y, m, cov: VectorMoments(*derivatives_at(likelihood, y, m)))


@cache_by_value
def delta_method() -> VectorExpectation:
    """E[l] = l(m) + tr(H(m) V) / 2, H the Hessian: the second-order Taylor expansion about m. No
    bound."""

    def one(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array) -> VectorMoments:
        def value(m: Array) -> tuple[Array, Array]:
            here, _, hessian = derivatives_at(likelihood, y, m)
            return here + 0.5 * jnp.einsum("ij,ij->", hessian, cov, precision="highest"), hessian

        (expected, hessian), slope = jax.value_and_grad(value, has_aux=True)(m)
        return VectorMoments(expected, slope, hessian)

    return _by_site(one)


@cache_by_value
def blei_lafferty() -> VectorExpectation:
    """The lower bound of Blei and Lafferty (2007), with zeta = sum_k E e^{z_k} and q(topics) at
    their optima,

    E[log sum_k e^{z_k}] <= log sum_k e^{m_k + V_kk / 2},

    and the convex part of l is at least its tangent at m. It reads the variances only.

    Raises:
      ValueError: a likelihood that is not convex apart from W log sum e^z
          (`VectorLikelihood.total`).
    """

    def one(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array) -> VectorMoments:
        raised, total = (
            m + 0.5 * jnp.diagonal(cov),
            _total(likelihood, y, "Blei and Lafferty's bound"),
        )
        value, slope = jax.value_and_grad(likelihood.log_prob, 1)(y, m)
        share = jax.nn.softmax(raised)
        value += total * (jax.nn.logsumexp(m) - jax.nn.logsumexp(raised))
        return VectorMoments(
            value, slope + total * (jax.nn.softmax(m) - share), -total * jnp.diag(share)
        )

    return _by_site(one)
