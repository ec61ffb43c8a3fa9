"""Prior plus sites as an exponential family: natural parameters (a, g), statistics (z, -z^2/2),
base measure p(z)."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax.families.base import Family, context_field, family
from vijax.families.laws import NormalLaw
from vijax.families.vector.matrices import excess_of_triangle, solve
from vijax.inference.sites.forms import TALL, Factor, Prior, Sites


class SiteStats(NamedTuple):
    """t(z) = (z, -z^2 / 2)."""

    value: Float[Array, " sites"]
    minus_half_square: Float[Array, " sites"]


class Marginals(NamedTuple):
    """Mean and variance of the predictors of some sites, which the bound of Gaussian predictors
    reads. Mean statistics would need v = E[z^2] - m^2, a difference of large numbers."""

    mean: Float[Array, " rows"]
    variance: Float[Array, " rows"]


@family
class SitePosterior(Family):
    """q(z) = p(z) exp{<a, z> - <g, z^2>/2 - A(a, g)},   A = a' m / 2 - log |I + K diag(g)| / 2,   m = V a.

    Natural parameters are relative to a prior p(z), for which they are zero. The prior and its
    hyperparameters are the context, so the posterior follows the prior when hyperparameters change.
    Densities, entropies and the base measure of the statistics are relative to p(z)."""

    linear: Float[Array, " sites"]
    precision: Float[Array, " sites"]
    prior: Prior = context_field()
    hyper: Any = context_field()

    Stats: ClassVar = SiteStats
    event_ndims: ClassVar = (1, 1)
    _factor: ClassVar[Factor | None] = None
    _marginals: ClassVar[Marginals | None] = None

    @classmethod
    def zeros(cls, num_sites: int, dtype: Any = None, prior: Prior | None = None) -> SitePosterior:
        """The prior, with zero sites."""
        return cls(*Sites.zeros(num_sites, dtype), prior)  # type: ignore[arg-type]

    def with_context(self, context: Any) -> Self:
        """The same sites on another prior: a pair (prior, hyperparameters), or the prior alone."""
        if not isinstance(context, tuple):
            context = (context, None)
        prior, hyper = context
        return dataclasses.replace(self, prior=prior, hyper=hyper)

    @property
    def sites(self) -> Sites:
        """The natural parameters alone."""
        return Sites(self.linear, self.precision)

    def prepare(self, means: bool = True) -> Self:
        """This posterior with its factor, and all its marginals if `means`, computed once: XLA
        would factorise again for each use. Arithmetic on it returns an object without them."""
        q = self.with_naturals(self)
        object.__setattr__(q, "_factor", self.condition())
        object.__setattr__(q, "_marginals", self._marginals)
        if means:
            object.__setattr__(q, "_marginals", q.marginals())
        return q

    def condition(self) -> Factor:
        """The factorised posterior."""
        return self.prior.condition(self.sites) if self._factor is None else self._factor

    def marginals(self) -> Marginals:
        """m and v = diag V."""
        if self._marginals is not None:
            return self._marginals
        return Marginals(*self.prior.marginals(self.condition()))

    def log_normalizer(self) -> Float[Array, ""]:
        """A = log of the integral of p(z) prod exp(a z - g z^2 / 2)."""
        factor = self.condition()
        shrunk = jnp.sum(self.precision * self._mean(factor) ** 2)
        return 0.5 * (factor.quadratic + shrunk - factor.log_det)

    def expected_stats(self) -> SiteStats:
        """(m, -(v + m^2)/2)."""
        m, v = self.marginals()
        return SiteStats(m, -0.5 * (v + m**2))

    def kl(self, other: Self) -> Float[Array, ""]:
        """KL(self || other), both on the same prior. Usually `other` is the prior, with zero sites.

        Accuracy in float32 for smooth kernels and precisions up to 1e4 over the prior variance:
        2e-4 (and 1e-8) if the other is the prior; else 2e-2, and 2e-3 for precisions up to 1e2 over
        the prior variance."""
        return self._kl_to_zero_sites() + self._from_zero_sites(other)

    def kl_to_prior(self, prior: Self) -> Float[Array, ""]:
        """KL(self || prior) = (log |I + K diag(g)| - <g, v> + m' K^-1 m) / 2, for a prior with zero
        sites.

        It reads the marginals, which a step on full data has anyway. Its error is the rounding of
        the sum of terms, which cancel near the prior. With few features it is `kl`, which costs
        less than the marginals."""
        factor = self.condition()
        if TALL * len(factor.cholesky) <= self.prior.num_sites:
            return self.kl(prior)
        v = self.marginals().variance
        kl = 0.5 * (factor.log_det - jnp.sum(self.precision * v) + factor.quadratic)
        return kl + self._from_zero_sites(prior)

    def fisher_product(self, tangent: Self) -> SiteStats:
        """dm = V (da - m dg),   d(-z^2/2) = (V o V) dg / 2 - m dm."""
        m, cov = self._mean_cov()
        dm = cov @ (tangent.linear - m * tangent.precision)
        return SiteStats(dm, 0.5 * cov**2 @ tangent.precision - m * dm)

    def fisher_solve(self, cotangent: SiteStats) -> Self:
        """dg = 2 (V o V)^-1 (ds + m dm),   da = V^-1 dm + m dg.

        In float32 the error of V o V is 6e-8 of the squared prior variance; the error of its
        inverse is this over its least eigenvalue: 0.5 % at condition number 1e4, 10 % if the data
        leave 1e-4 of the prior variance."""
        m, cov = self._mean_cov()
        dm, ds = cotangent
        dg = 2.0 * jnp.linalg.solve(cov**2, ds + m * dm)
        return self.with_naturals([jnp.linalg.solve(cov, dm) + m * dg, dg])

    def stats(self, x: Any) -> SiteStats:
        return SiteStats(x, -0.5 * x**2)

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape sites"]:
        """m + R e, R a root of V, which may be singular."""
        m, root = self.prior.joint(self.condition(), jnp.arange(self.prior.num_sites))
        return m + jax.random.normal(key, (*shape, root.shape[1]), m.dtype) @ root.T

    def mean(self) -> Float[Array, " sites"]:
        return self._mean(self.condition())

    def marginal_laws(self) -> NormalLaw:
        mean, variance = self.marginals()
        return NormalLaw(mean, jnp.sqrt(variance))

    def mode(self) -> Float[Array, " sites"]:
        return self.mean()

    def in_domain(self) -> Self:
        """One answer for all the sites, because the domain couples them."""
        ok: Bool[Array, ""]
        ok = self.sites.finite() if self.prior is None else self.prior.in_domain(self.sites)
        return self.with_naturals([ok[None], ok[None]])

    def flat(self) -> Self:
        """Zero sites. Their density is not constant in z, because the prior is the base measure;
        but no member is nearer to a constant."""
        return self.with_naturals(Sites.zeros(len(self.linear), self.linear.dtype))

    def retreat(self, target: Self) -> Self:
        """The target without its messages of negative precision. A step towards it is a convex
        combination of a point of the domain, and of the prior plus points of its recession cone: so
        it stays in the domain."""
        return self.with_naturals([jnp.where(target.precision < 0, 0.0, x) for x in target.sites])

    # --- some of the sites ------------------------------------------------------------------------
    def entries(self, rows: Int[Array, " rows"]) -> Marginals:
        """Mean and variance of the predictors of these sites."""
        if self._marginals is not None and len(rows) >= self.prior.num_sites:
            return Marginals(*(x[rows] for x in self._marginals))
        return Marginals(*self.prior.marginals(self.condition(), rows))

    def entry_messages(self, entries: Marginals, slope: Marginals) -> Sites:
        """The messages of sites, from the gradient of their bounds in mean and variance. In the
        mean parameters (m_n, -(v_n + m_n^2)/2) the gradient is

            (E l' - m E l'',  -E l''),    E l' = d/dm,   E l'' = 2 d/dv    (Bonnet and Price),

        the pseudo-observation that replaces the likelihood (conjugate-computation VI)."""
        curvature = 2.0 * slope.variance
        return Sites(slope.mean - entries.mean * curvature, -curvature)

    def take_sites(self, rows: Int[Array, " rows"]) -> Sites:
        """The natural parameters of these sites."""
        return self.sites.take(rows)

    def scatter(self, rows: Int[Array, " rows"], sites: Sites) -> Self:
        """Zero sites plus these values at these rows; a repeated row gets the sum."""
        zeros = Sites.zeros(len(self.linear), self.linear.dtype)
        return self.with_naturals(zeros.add(rows, sites))

    # --- plumbing ---------------------------------------------------------------------------------
    def _kl_to_zero_sites(self) -> Float[Array, ""]:
        """KL to the prior as a sum of nonnegative terms, at the price of an inverse factor: -<g, v>
        = tr B^-1 - dim, for both kinds of factorised matrices B."""
        factor = self.condition()
        inverse = solve(
            factor.cholesky, jnp.eye(factor.cholesky.shape[-1], dtype=factor.cholesky.dtype)
        )
        return 0.5 * (excess_of_triangle(inverse) + factor.quadratic)

    def _from_zero_sites(self, other: Self) -> Float[Array, ""]:
        """KL(self || other) - KL(self || prior). Nothing is factorised if the other is the
        prior."""
        same_prior = self.with_naturals(other)  # other.prior may be left out
        gap = lambda: same_prior.log_normalizer() - same_prior.dot(self.expected_stats())
        is_prior = jnp.all((other.linear == 0) & (other.precision == 0))
        return jax.lax.cond(is_prior, lambda: jnp.zeros((), self.linear.dtype), gap)

    def _mean(self, factor: Factor) -> Float[Array, " sites"]:
        if self._marginals is not None:
            return self._marginals.mean
        return self.prior.marginals(factor)[0]

    def _mean_cov(self) -> tuple[Array, Array]:
        factor = self.condition()
        return self._mean(factor), self.prior.covariance(factor, jnp.arange(self.prior.num_sites))
