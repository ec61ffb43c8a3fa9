"""The multivariate normal in precision form: q(x) = exp{<P m, x> + <-P / 2, x x'> - A}, P the precision, m the mean.

One Cholesky factor L of the precision L L' serves every formula. The matrix parameter is read through its symmetric
part, so a gradient in `stats.outer` that is not symmetric (x' B x has gradient B) may be added to it as it is; what
the methods return is always symmetric. On the antisymmetric matrices F is zero, and `fisher_solve` gives zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families.base import Family, as_float, as_floats, domain_mask, family, require


class MultivariateNormalStats(NamedTuple):
    """t(x) = (x, x x')."""

    value: Float[Array, "*batch D"]
    outer: Float[Array, "*batch D D"]


@family
class MultivariateNormal(Family):
    """Normal over R^D, natural parameters (precision @ mean, -precision / 2).

    >>> q = MultivariateNormal.from_mean_cov([1.0, 0.0], [[2.0, 0.0], [0.0, 0.5]])
    >>> print(q.precision_times_mean.round(4), jnp.diag(q.precision).round(4), jnp.diag(q.cov).round(4))
    [0.5 0. ] [0.5 2. ] [2.  0.5]
    """

    precision_times_mean: Float[Array, "*batch D"]
    negative_half_precision: Float[Array, "*batch D D"]

    Stats: ClassVar = MultivariateNormalStats
    event_ndims: ClassVar = (1, 2)

    @classmethod
    def from_mean_precision(cls, mean: Any, precision: Any) -> Self:
        """From mean (*batch, D) and precision matrix (*batch, D, D), broadcast over the batch axes.

        Raises:
          ValueError: shapes that do not fit, a mean that is not finite, a matrix that is not symmetric positive
            definite.
        """
        mean, precision = _checked(mean, precision, "precision")
        return cls(_matvec(precision, mean), -0.5 * precision)

    @classmethod
    def from_mean_cov(cls, mean: Any, cov: Any) -> Self:
        """From mean (*batch, D) and covariance matrix (*batch, D, D). Raises as `from_mean_precision` does."""
        mean, cov = _checked(mean, cov, "cov")
        precision = _inverse(jnp.linalg.cholesky(cov))
        return cls(_matvec(precision, mean), -0.5 * precision)

    @property
    def precision(self) -> Float[Array, "*batch D D"]:
        """The precision matrix: the inverse of the covariance."""
        return -(self.negative_half_precision + _transpose(self.negative_half_precision))

    @property
    def cov(self) -> Float[Array, "*batch D D"]:
        """Cov_q[x]."""
        return _inverse(self._cholesky())

    @property
    def dim(self) -> int:
        """D."""
        return self.precision_times_mean.shape[-1]

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = |L' m|^2 / 2 - log |L| + D log(2 pi) / 2, with L' m = L^-1 (precision @ mean)."""
        factor = self._cholesky()
        whitened = _solve_lower(factor, self.precision_times_mean)
        return 0.5 * jnp.sum(whitened**2, -1) - _log_det(factor) + 0.5 * self.dim * math.log(2 * math.pi)

    def stats(self, x: Any) -> MultivariateNormalStats:
        """(x, x x')."""
        x = as_float(x)
        return MultivariateNormalStats(x, _outer(x, x))

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape *batch D"]:
        """m + L'^-1 e, e standard normal: pathwise differentiable."""
        dtype = jnp.result_type(self.precision_times_mean)
        noise = jax.random.normal(key, (*self.batch_shape, self.dim, math.prod(shape)), dtype)
        factor = self._cholesky()
        draws = self._mean(factor)[..., None] + _solve(factor, noise, trans=1)
        return jnp.moveaxis(draws, -1, 0).reshape(shape + self.precision_times_mean.shape)

    def mean(self) -> Float[Array, "*batch D"]:
        """E_q[x]."""
        return self._mean(self._cholesky())

    def mode(self) -> Float[Array, "*batch D"]:
        """The mean."""
        return self.mean()

    def in_domain(self) -> Self:
        """The Cholesky factor of the precision exists, and the location is finite."""
        ok = jnp.all(jnp.isfinite(self._cholesky()), (-2, -1))
        return domain_mask(ok & jnp.all(jnp.isfinite(self.precision_times_mean), -1), self)

    def flat(self) -> Self:
        """Zero precision."""
        return jax.tree.map(jnp.zeros_like, self)

    def expected_stats(self) -> MultivariateNormalStats:
        """(m, m m' + cov)."""
        factor = self._cholesky()
        mean = self._mean(factor)
        return MultivariateNormalStats(mean, _outer(mean, mean) + _inverse(factor))

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), with no difference of large numbers."""
        factor = self._cholesky()
        whitened = _matvec(_transpose(factor), x - self._mean(factor))
        return -0.5 * jnp.sum(whitened**2, -1) + _log_det(factor) - 0.5 * self.dim * math.log(2 * math.pi)

    def entropy(self) -> Float[Array, "*batch"]:
        """D log(2 pi e) / 2 - log |L|."""
        return 0.5 * self.dim * (1 + math.log(2 * math.pi)) - _log_det(self._cholesky())

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """(|L^-1 L'|_F^2 - D + |L''(m - m')|^2) / 2 + log |L| - log |L'|, with L' the factor of `other`."""
        p, q = self._cholesky(), other._cholesky()
        ratio = _solve(p, q)
        shift = _matvec(_transpose(q), self._mean(p) - other._mean(q))
        spread = jnp.sum(ratio**2, (-2, -1)) - self.dim + jnp.sum(shift**2, -1)
        return 0.5 * spread + _log_det(p) - _log_det(q)

    def fisher_product(self, tangent: Self) -> MultivariateNormalStats:
        """The differential of the mean parameters: dm = cov (d eta_1 - dP m), dcov = -cov dP cov, P the precision."""
        factor = self._cholesky()
        mean, dp = self._mean(factor), tangent.precision
        dm = cho_solve((factor, True), (tangent.precision_times_mean - _matvec(dp, mean))[..., None])[..., 0]
        dcov = -cho_solve((factor, True), _transpose(cho_solve((factor, True), dp)))
        return MultivariateNormalStats(dm, _outer(dm, mean) + _outer(mean, dm) + dcov)

    def fisher_solve(self, cotangent: MultivariateNormalStats) -> Self:
        """Its inverse, with no linear system: dP = -P dcov P, d eta_1 = P dm + dP m."""
        p, dm, mean = self.precision, cotangent.value, self.mean()
        dcov = _symmetric(cotangent.outer) - _outer(dm, mean) - _outer(mean, dm)
        dp = -p @ dcov @ p
        return type(self)(_matvec(p, dm) + _matvec(dp, mean), -0.5 * _symmetric(dp))

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[MultivariateNormalStats, Callable[[MultivariateNormalStats], Self]]:
        """A draw's statistics and V, along the transport dx = dm + dcov P (x - m) / 2, which needs no derivative of
        a Cholesky factor. With a = eta_1 + (eta_2 + eta_2') x the slope at the draw, d/dcov = sym(a (P (x - m))') / 2
        =: C, and V eta = (a - 2 C m, C)."""
        mean, x = self.mean(), self.sample(key)
        score = _matvec(self.precision, x - mean)

        def v_product(eta: MultivariateNormalStats) -> Any:
            slope = eta.value + 2 * _matvec(_symmetric(eta.outer), x)
            curvature = 0.5 * _symmetric(_outer(slope, score))
            return type(self)(slope - 2 * _matvec(curvature, mean), curvature)

        return self.stats(x), v_product

    def _cholesky(self) -> Float[Array, "*batch D D"]:
        return jnp.linalg.cholesky(self.precision)

    def _mean(self, factor: Float[Array, "*batch D D"]) -> Float[Array, "*batch D"]:
        return _solve_upper(factor, _solve_lower(factor, self.precision_times_mean))


def _checked(mean: Any, matrix: Any, name: str) -> tuple[Array, Array]:
    """Mean and matrix of one dtype, broadcast to common batch axes, or a ValueError."""
    mean, matrix = as_floats(mean, matrix)
    fits = mean.ndim >= 1 and matrix.ndim >= 2 and matrix.shape[-2:] == 2 * mean.shape[-1:]
    require(fits, name, "a matrix (..., D, D) for a mean (..., D)", f"shapes {matrix.shape} and {mean.shape}")
    require(jnp.isfinite(mean), "mean", "finite numbers", mean)
    require(jnp.isfinite(matrix), name, "finite numbers", matrix)
    gap = jnp.max(jnp.abs(matrix - _transpose(matrix)), initial=0.0)
    symmetric = gap <= 1e-4 * jnp.max(jnp.abs(matrix), initial=0.0)
    require(symmetric, name, "a symmetric matrix", f"entries that differ by {gap}", "Average it with its transpose.")
    matrix = _symmetric(matrix)
    definite = jnp.isfinite(jnp.linalg.cholesky(matrix))
    require(definite, name, "a positive definite matrix", matrix, "Add jitter to its diagonal.")
    batch = jnp.broadcast_shapes(mean.shape[:-1], matrix.shape[:-2])
    return jnp.broadcast_to(mean, batch + mean.shape[-1:]), jnp.broadcast_to(matrix, batch + matrix.shape[-2:])


def _transpose(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)


def _symmetric(x: Array) -> Array:
    return 0.5 * (x + _transpose(x))


def _matvec(matrix: Array, x: Array) -> Array:
    return jnp.einsum("...ij,...j->...i", matrix, x)


def _outer(x: Array, y: Array) -> Array:
    return x[..., :, None] * y[..., None, :]


def _log_det(factor: Array) -> Array:
    return jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), -1)


def _inverse(factor: Array) -> Array:
    """(L L')^-1, exactly symmetric."""
    root = _solve(factor, jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape))
    return _transpose(root) @ root


def _solve_lower(factor: Array, x: Array) -> Array:
    """L^-1 x for vectors x."""
    return _solve(factor, x[..., None])[..., 0]


def _solve_upper(factor: Array, x: Array) -> Array:
    """L'^-1 x for vectors x."""
    return _solve(factor, x[..., None], trans=1)[..., 0]


def _solve(factor: Array, x: Array, trans: int = 0) -> Array:
    """L^-1 x, or L'^-1 x, for the columns of x; batch axes broadcast."""
    batch = jnp.broadcast_shapes(factor.shape[:-2], x.shape[:-2])
    factor, x = (jnp.broadcast_to(a, batch + a.shape[-2:]) for a in (factor, x))
    return solve_triangular(factor, x, lower=True, trans=trans)
