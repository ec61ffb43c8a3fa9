"""The multivariate normal in precision form: q(x) = exp{<P m, x> + <-P / 2, x x'> - A}, P the
precision, m the mean.

All formulas use one Cholesky factor L of the precision L L'. Only the symmetric part of the matrix
parameter matters, so a gradient in `stats.outer` that is not symmetric (x' B x has gradient B) may
be added to it. The results of methods are symmetric. On antisymmetric matrices F is zero, and
`fisher_solve` gives zero.

In float32 the precision form holds variances to 3e-8 times the condition number of the
correlations, and means to 6e-8 |mean| / sd times it, in standard deviations. Divergences, entropies
and densities are right to 1e-3 if the condition number, and its product with |mean| / sd, are at
most 3e3. Constructors raise if rounding changes a variance by more than 1e-3, or a mean by more
than 1e-3 standard deviations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, as_float, as_floats, domain_mask, family, finite
from vijax.families.construction import (
    RESCALE,
    constructor,
    mean_error,
    numpy_or_jax,
    require_accuracy,
    spread_error,
)
from vijax.families.laws import NormalLaw
from vijax.families.vector.matrices import (
    excess_of_ratio,
    half_log_det,
    inverse,
    invert_positive_definite,
    matvec,
    outer,
    outer_statistic,
    positive_definite,
    solve,
    solve_lower,
    solve_upper,
    symmetric,
)


class MultivariateNormalStats(NamedTuple):
    """t(x) = (x, x x')."""

    value: Float[Array, "*batch D"]
    outer: Float[Array, "*batch D D"]


@family
class MultivariateNormal(Family):
    """Normal over R^D, natural parameters (precision @ mean, -precision / 2).

    log h(x) = 0;  t = (x, outer(x, x));  natural parameters (precision @ mean, -precision / 2).

    >>> q = MultivariateNormal.from_mean_cov([1.0, 0.0], [[2.0, 0.0], [0.0, 0.5]])
    >>> print(q.precision_times_mean.round(4), jnp.diag(q.precision).round(4), jnp.diag(q.cov).round(4))
    [0.5 0. ] [0.5 2. ] [2.  0.5]
    """

    precision_times_mean: Float[Array, "*batch D"]
    negative_half_precision: Float[Array, "*batch D D"]

    Stats: ClassVar = MultivariateNormalStats
    event_ndims: ClassVar = (1, 2)

    @classmethod
    @constructor
    def from_mean_precision(cls, mean: Any, precision: Any) -> Self:
        """Normals from mean (*batch, D) and precision matrix (*batch, D, D), broadcast over the
        batch axes.

        Raises:
          ValueError: shapes that do not fit, a mean that is not finite, a matrix that is not
            symmetric positive definite, or a mean that rounding precision @ mean changes.
        """
        return cls._from_precision(*_check_parameters(mean, precision, "precision"))

    @classmethod
    @constructor
    def from_mean_cov(cls, mean: Any, cov: Any) -> Self:
        """Normals from mean (*batch, D) and covariance matrix (*batch, D, D), broadcast over the
        batch axes.

        Raises:
          ValueError: as for `from_mean_precision`, or a covariance that rounding its inverse
            changes: in float32 from a condition number of the correlations of some 1e5.
        """
        mean, cov = _check_parameters(mean, cov, "cov")
        _, precision = numpy_or_jax(invert_positive_definite(cov))
        require_accuracy("cov", spread_error, cov, precision, remedy=RESCALE)
        return cls._from_precision(mean, precision)

    @classmethod
    def _from_precision(cls, mean: Array, precision: Array) -> Self:
        _, mean, precision = numpy_or_jax(mean, precision)
        linear = matvec(precision, mean)
        require_accuracy("mean", mean_error, linear, precision, mean, remedy=RESCALE)
        return cls(linear, -0.5 * precision)

    @property
    def precision(self) -> Float[Array, "*batch D D"]:
        """The precision matrix: the inverse of the covariance."""
        return -(self.negative_half_precision + self.negative_half_precision.mT)

    @property
    def cov(self) -> Float[Array, "*batch D D"]:
        """Cov_q[x]."""
        return inverse(self._cholesky())

    @property
    def dim(self) -> int:
        """D."""
        return self.precision_times_mean.shape[-1]

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = |L' m|^2 / 2 - log |L| + D log(2 pi) / 2, with L' m = L^-1 (precision @ mean)."""
        factor = self._cholesky()
        whitened = solve_lower(factor, self.precision_times_mean)
        constant = 0.5 * self.dim * math.log(2 * math.pi)
        return 0.5 * jnp.sum(whitened**2, -1) - half_log_det(factor) + constant

    def stats(self, x: Any) -> MultivariateNormalStats:
        x = as_float(x)
        return MultivariateNormalStats(x, outer_statistic(x, x))

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch D"]:
        dtype = jnp.result_type(self.precision_times_mean)
        noise = jax.random.normal(key, (*self.batch_shape, self.dim, math.prod(shape)), dtype)
        factor = self._cholesky()
        draws = self._mean(factor)[..., None] + solve(factor, noise, trans=1)
        return jnp.moveaxis(draws, -1, 0).reshape(shape + self.precision_times_mean.shape)

    @property
    def noise_size(self) -> int:
        return math.prod(self.precision_times_mean.shape)

    def from_noise(self, noise: Float[Array, " noise"]) -> Float[Array, "*batch D"]:
        factor = self._cholesky()
        e = jnp.reshape(noise, (*self.precision_times_mean.shape, 1))
        return self._mean(factor) + solve(factor, e, trans=1)[..., 0]

    def mean(self) -> Float[Array, "*batch D"]:
        return self._mean(self._cholesky())

    def marginal_laws(self) -> NormalLaw:
        return NormalLaw(self.mean(), jnp.sqrt(jnp.diagonal(self.cov, axis1=-2, axis2=-1)))

    def mode(self) -> Float[Array, "*batch D"]:
        return self.mean()

    def in_domain(self) -> Self:
        ok = jnp.all(jnp.isfinite(self._cholesky()), (-2, -1))
        return domain_mask(ok & jnp.all(jnp.isfinite(self.precision_times_mean), -1), self)

    def expected_stats(self) -> MultivariateNormalStats:
        factor = self._cholesky()
        mean = self._mean(factor)
        return MultivariateNormalStats(mean, outer(mean, mean) + inverse(factor))

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), without a difference of large numbers."""
        factor = self._cholesky()
        whitened = matvec(factor.mT, x - self._mean(factor))
        constant = 0.5 * self.dim * math.log(2 * math.pi)
        return -0.5 * jnp.sum(whitened**2, -1) + half_log_det(factor) - constant

    def entropy(self) -> Float[Array, "*batch"]:
        return 0.5 * self.dim * (1 + math.log(2 * math.pi)) - half_log_det(self._cholesky())

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """[tr S - D - log|S| + |L''(m - m')|^2] / 2 with S = P' P^-1, P' and m' the precision and
        mean of `other` and L' the factor of P'."""
        p, q = self._cholesky(), other._cholesky()
        shift = matvec(q.mT, self._mean(p) - other._mean(q))
        return 0.5 * (excess_of_ratio(p, q) + jnp.sum(shift**2, -1))

    def fisher_product(self, tangent: Self) -> MultivariateNormalStats:
        """The differential of the mean parameters: dm = cov (d eta_1 - dP m), dcov = -cov dP cov, P
        the precision."""
        factor = self._cholesky()
        mean = self._mean(factor)
        dp = tangent.precision
        slope = tangent.precision_times_mean - matvec(dp, mean)
        dm = cho_solve((factor, True), slope[..., None])[..., 0]
        dcov = -cho_solve((factor, True), cho_solve((factor, True), dp).mT)
        return MultivariateNormalStats(dm, outer(dm, mean) + outer(mean, dm) + dcov)

    def fisher_solve(self, cotangent: MultivariateNormalStats) -> Self:
        """The inverse of `fisher_product`, without a linear system: dP = -P dcov P, d eta_1 = P dm
        + dP m."""
        p, dm, mean = self.precision, cotangent.value, self.mean()
        dcov = symmetric(cotangent.outer) - outer(dm, mean) - outer(mean, dm)
        dp = -p @ dcov @ p
        return type(self)(matvec(p, dm) + matvec(dp, mean), -0.5 * symmetric(dp))

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[MultivariateNormalStats, Callable[[MultivariateNormalStats], Self]]:
        """A draw's statistics and V along the transport dx = dm + dcov P (x - m) / 2, which needs
        no derivative of a Cholesky factor. With a = eta_1 + (eta_2 + eta_2') x the slope at the
        draw, d/dcov = sym(a (P (x - m))') / 2 =: C, and V eta = (a - 2 C m, C)."""
        mean = self.mean()
        x = self.sample(key)
        score = matvec(self.precision, x - mean)

        def v_product(eta: MultivariateNormalStats) -> Any:
            slope = eta.value + 2 * matvec(symmetric(eta.outer), x)
            curvature = 0.5 * symmetric(outer(slope, score))
            return type(self)(slope - 2 * matvec(curvature, mean), curvature)

        return self.stats(x), v_product

    def _cholesky(self) -> Float[Array, "*batch D D"]:
        return jnp.linalg.cholesky(self.precision)

    def _mean(self, factor: Float[Array, "*batch D D"]) -> Float[Array, "*batch D"]:
        return solve_upper(factor, solve_lower(factor, self.precision_times_mean))


def _check_parameters(mean: Any, matrix: Any, name: str) -> tuple[Array, Array]:
    """Mean and matrix of one dtype, broadcast to common batch axes; ValueError naming the argument
    if they do not fit."""
    xp, mean, matrix = numpy_or_jax(*as_floats(mean, matrix))
    fits = mean.ndim >= 1 and matrix.ndim >= 2 and matrix.shape[-2:] == 2 * mean.shape[-1:]
    expected = "a matrix (..., D, D) for a mean (..., D)"
    require(fits, name, expected, f"shapes {matrix.shape} and {mean.shape}")
    require(finite(mean), "mean", "finite numbers", mean)
    matrix = positive_definite(matrix, name)
    batch = jnp.broadcast_shapes(mean.shape[:-1], matrix.shape[:-2])
    mean = xp.broadcast_to(mean, batch + mean.shape[-1:])
    return mean, xp.broadcast_to(matrix, batch + matrix.shape[-2:])
