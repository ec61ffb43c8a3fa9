"""Prior plus sites as an exponential family: natural parameters (a, g), statistics (z, -z^2/2), base measure p(z)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from vijax.families.base import Family
from vijax.families.matrices import excess_of_triangle, solve
from vijax.sites.base import Factor, Prior, Sites


class SiteStats(NamedTuple):
    """t(z) = (z, -z^2 / 2)."""

    value: Float[Array, " sites"]
    minus_half_square: Float[Array, " sites"]


class SitePosterior(Family):
    """q(z) = p(z) exp{<a, z> - <g, z^2>/2 - A(a, g)},   A = a' m / 2 - log |I + K diag(g)| / 2,   m = V a.

    A pytree of the two site parameters alone: the prior comes along as a constant, so that arithmetic on natural
    parameters, gradients and every divergence of `vijax.update` apply to the sites. It lives within one traced
    function; what is stored is `Sites`.
    """

    Stats: ClassVar = SiteStats
    event_ndims: ClassVar = (1, 1)

    def __init__(self, sites: Sites, prior: Prior):
        self.sites, self.prior = sites, prior

    def condition(self) -> Factor:
        """The factorised posterior."""
        return self.prior.condition(self.sites)

    def marginals(self) -> tuple[Float[Array, " sites"], Float[Array, " sites"]]:
        """m and v = diag V."""
        return self.prior.marginals(self.condition(), jnp.arange(self.prior.num_sites))

    def log_normalizer(self) -> Float[Array, ""]:
        """A = log of the integral of p(z) prod exp(a z - g z^2 / 2)."""
        factor = self.condition()
        shrunk = jnp.sum(self.sites.precision * self._mean(factor) ** 2)
        return 0.5 * (factor.quadratic + shrunk - factor.log_det)

    def expected_stats(self) -> SiteStats:
        """(m, -(v + m^2)/2)."""
        m, v = self.marginals()
        return SiteStats(m, -0.5 * (v + m**2))

    def kl(self, other: Self) -> Float[Array, ""]:
        """KL(self || other), both on the same prior; other sites are usually the prior's, all zero.

        In float32, smooth kernels and precisions up to 1e4 over the prior variance: within 2e-4 of it (and 1e-8) where
        the other is the prior; where it is not, within 2e-2, and 2e-3 up to 1e2 over it."""
        factor = self.condition()
        return _kl_to_prior_alone(factor) - other.dot(self.expected_stats()) + other.log_normalizer()

    def fisher_product(self, tangent: Self) -> SiteStats:
        """dm = V (da - m dg),   d(-z^2/2) = (V o V) dg / 2 - m dm."""
        m, cov = self._mean_cov()
        dm = cov @ (tangent.sites.linear - m * tangent.sites.precision)
        return SiteStats(dm, 0.5 * cov**2 @ tangent.sites.precision - m * dm)

    def fisher_solve(self, cotangent: SiteStats) -> Self:
        """dg = 2 (V o V)^-1 (ds + m dm),   da = V^-1 dm + m dg.

        In float32 V o V is good to 6e-8 of the prior variance squared, its inverse no better than that over its least
        eigenvalue: 0.5 % with condition number 1e4, 10 % where the data leave 1e-4 of the prior variance."""
        m, cov = self._mean_cov()
        dm, ds = cotangent
        dg = 2.0 * jnp.linalg.solve(cov**2, ds + m * dm)
        return self.with_naturals([jnp.linalg.solve(cov, dm) + m * dg, dg])

    def stats(self, x: Any) -> SiteStats:
        """(z, -z^2/2)."""
        return SiteStats(x, -0.5 * x**2)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape sites"]:
        """m + V^(1/2) e, the root symmetric: V may be singular."""
        m, cov = self._mean_cov()
        values, vectors = jnp.linalg.eigh(cov)
        noise = jax.random.normal(key, (*shape, len(m)), m.dtype)
        return m + (noise * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T

    def mean(self) -> Float[Array, " sites"]:
        """m."""
        return self._mean(self.condition())

    def mode(self) -> Float[Array, " sites"]:
        """m."""
        return self.mean()

    def in_domain(self) -> Self:
        """One verdict for all the sites, which the domain couples."""
        ok: Bool[Array, ""] = self.prior.in_domain(self.sites)
        return self.with_naturals([ok[None], ok[None]])

    def flat(self) -> Self:
        """Not a member: the prior is the base measure. Zero sites are as near as one comes."""
        return jax.tree.map(jnp.zeros_like, self)

    def _mean(self, factor: Factor) -> Float[Array, " sites"]:
        return self.prior.marginals(factor, jnp.arange(self.prior.num_sites))[0]

    def _mean_cov(self) -> tuple[Array, Array]:
        factor = self.condition()
        return self._mean(factor), self.prior.covariance(factor, jnp.arange(self.prior.num_sites))


def kl_to_prior(factor: Factor, sites: Sites, v: Float[Array, " sites"]) -> Float[Array, ""]:
    """KL(q || p) = (log |I + K diag(g)| - <g, v> + m' K^-1 m) / 2."""
    return 0.5 * (factor.log_det - jnp.sum(sites.precision * v) + factor.quadratic)


def _kl_to_prior_alone(factor: Factor) -> Float[Array, ""]:
    """The same as a sum of terms none of which is negative, at the price of an inverse factor: -<g, v> = tr B^-1 - dim
    for either of the matrices B that are factorised."""
    inverse = solve(factor.cholesky, jnp.eye(factor.cholesky.shape[-1], dtype=factor.cholesky.dtype))
    return 0.5 * (excess_of_triangle(inverse) + factor.quadratic)


class _Held:
    """A prior as a constant of a tree's structure: equal to itself alone."""

    def __init__(self, prior: Any):
        self.prior = prior

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and self.prior is other.prior

    def __hash__(self) -> int:
        return id(self.prior)


_KEYS = (jax.tree_util.GetAttrKey("linear"), jax.tree_util.GetAttrKey("precision"))


def _flatten(q: SitePosterior) -> tuple[tuple, _Held]:
    return (q.sites.linear, q.sites.precision), _Held(q.prior)


def _flatten_with_keys(q: SitePosterior) -> tuple[tuple, _Held]:
    children, held = _flatten(q)
    return tuple(zip(_KEYS, children, strict=True)), held


jax.tree_util.register_pytree_with_keys(
    SitePosterior,
    _flatten_with_keys,
    lambda held, leaves: SitePosterior(Sites(*leaves), held.prior),
    _flatten,
)
