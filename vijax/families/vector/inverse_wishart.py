"""Inverse Wishart distributions, the law of X = Y^-1 for a Wishart Y with the inverse scale:

    q(X) = |X|^{-(D+1)/2} exp{<-scale / 2, X^-1> - degrees / 2 log|X| - A}

The float32 limits are those of the Wishart (vijax/families/vector/wishart.py). Densities also need
that, with scale = F F', the condition number of F^-1 X F'^-1 times that of the scale's correlations
is at most 3e3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families.base import Family, as_float, domain_mask, family
from vijax.families.construction import constructor, delegate
from vijax.families.vector.matrices import inverse, solve, symmetric
from vijax.families.vector.wishart import (
    Wishart,
    WishartStats,
    check_degrees,
    floored_log_det,
    gram,
)


class InverseWishartStats(NamedTuple):
    """t(X) = (X^-1, log|X|)."""

    inverse: Float[Array, "*batch D D"]
    log_det: Float[Array, "*batch"]


@family
class InverseWishart(Family):
    """An inverse Wishart distribution: the conjugate prior of a covariance matrix.

    log h(x) = -(dim + 1) / 2 * logdet(x);  t = (inv(x), logdet(x));  natural parameters (-scale / 2, -degrees / 2).

    >>> q = InverseWishart.from_degrees_scale(6.0, [[3.0, 0.0], [0.0, 6.0]])
    >>> print(q.mean().round(3).tolist())
    [[1.0, 0.0], [0.0, 2.0]]
    """

    negative_half_scale: Float[Array, "*batch D D"]
    negative_half_degrees: Float[Array, "*batch"]

    Stats: ClassVar[type[tuple]] = InverseWishartStats
    event_ndims: ClassVar[tuple[int, ...]] = (2, 0)

    @classmethod
    @constructor
    def from_degrees_scale(cls, degrees: Any, scale: Any) -> Self:
        """Inverse Wisharts from degrees of freedom (*batch,) and scale matrix (*batch, D, D),
        broadcast over batches.

        Raises:
          ValueError: degrees that do not exceed D - 1, or a scale that is not symmetric positive
              definite.
        """
        degrees, scale = check_degrees(degrees, scale, "scale")
        return cls(-0.5 * scale, -0.5 * degrees)

    @property
    def degrees(self) -> Float[Array, "*batch"]:
        """Degrees of freedom."""
        return -2.0 * self.negative_half_degrees

    @property
    def scale(self) -> Float[Array, "*batch D D"]:
        """The scale matrix."""
        return -2.0 * symmetric(self.negative_half_scale)

    @property
    def dim(self) -> int:
        """D."""
        return self.negative_half_scale.shape[-1]

    def as_wishart(self) -> Wishart:
        """The law of X^-1."""
        return Wishart(self.negative_half_scale, -self.negative_half_degrees)

    log_normalizer = delegate("log_normalizer", as_wishart)
    kl = delegate("kl", as_wishart, take=lambda q, other: other.as_wishart())
    expected_stats = delegate("expected_stats", as_wishart, lambda q, y: _invert_stats(y))
    sample_stats = delegate("sample_stats", as_wishart, lambda q, y: _invert_stats(y))
    fisher_solve = delegate(
        "fisher_solve",
        as_wishart,
        lambda q, y: _as_inverse_wishart(y),
        lambda q, g: _as_wishart_stats(g),
    )

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[InverseWishartStats, Callable[[InverseWishartStats], Self]]:
        stats, v = self.as_wishart().pathwise_sample(key)
        return _invert_stats(stats), lambda eta: _as_inverse_wishart(v(_as_wishart_stats(eta)))

    def stats(self, x: Any) -> InverseWishartStats:
        """(X^-1, log|X|) of a positive definite matrix; NaN for other matrices."""
        x = as_float(x)
        return InverseWishartStats(inverse(jnp.linalg.cholesky(x)), floored_log_det(x))

    def log_base_measure(self, stats: InverseWishartStats) -> Float[Array, "*batch"]:
        return -0.5 * (self.dim + 1) * stats.log_det

    def mean(self) -> Float[Array, "*batch D D"]:
        """scale / (degrees - D - 1); infinite, with the signs of the scale, if degrees <= D + 1."""
        excess = jnp.maximum(self.degrees - (self.dim + 1), 0.0)[..., None, None]
        return jnp.where(self.scale == 0, 0.0, self.scale / excess)

    def variance(self) -> Float[Array, "*batch D D"]:
        """((f + 1) s_ij^2 + (f - 1) s_ii s_jj) / (f (f - 1)^2 (f - 3)) with f = degrees - D;
        infinite for f <= 3."""
        f = (self.degrees - self.dim)[..., None, None]
        s = self.scale
        diagonal = jnp.diagonal(s, axis1=-2, axis2=-1)
        is_finite = f > 3.0
        g = jnp.where(is_finite, f, 4.0)
        squares = (g + 1) * s**2 + (g - 1) * diagonal[..., :, None] * diagonal[..., None, :]
        return jnp.where(is_finite, squares / (g * (g - 1) ** 2 * (g - 3)), jnp.inf)

    def mode(self) -> Float[Array, "*batch D D"]:
        return self.scale / (self.degrees + self.dim + 1)[..., None, None]

    def in_domain(self) -> Self:
        """True if the scale is positive definite, and degrees > D - 1 are finite."""
        return domain_mask(self.as_wishart().in_domain().half_degrees, self)

    def flat(self) -> Self:
        degrees = jnp.full_like(self.negative_half_degrees, 0.5 * (self.dim + 1))
        return type(self)(jnp.zeros_like(self.negative_half_scale), degrees)

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(X), without a difference of large numbers; -inf if X is not positive definite in
        its precision."""
        factor = jnp.linalg.cholesky(0.5 * self.scale)
        # X in the coordinates where half the scale is the identity
        ratio = symmetric(solve(factor, solve(factor, symmetric(as_float(x))).mT))
        definite = jnp.all(jnp.isfinite(jnp.linalg.cholesky(lax.stop_gradient(ratio))), (-2, -1))
        safe = jnp.where(definite[..., None, None], ratio, jnp.eye(self.dim, dtype=ratio.dtype))
        whitened = inverse(jnp.linalg.cholesky(safe))
        density = self.as_wishart().log_density(whitened, 0.5 * (self.dim + 1))
        return jnp.where(definite, density, -jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        """The entropy of Y = X^-1 plus E[log |dX / dY|] = -(D + 1) E[log|Y|]."""
        q = self.as_wishart()
        return q.entropy() - (self.dim + 1) * q.expected_stats().log_det

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch D D"]:
        """X ~ q from the triangular factor of a Wishart draw: X = (T^-1 C')' (T^-1 C')."""
        draw = self.as_wishart().bartlett(key, shape)
        return gram(solve(draw.triangle, draw.factor.mT).mT)


def _as_inverse_wishart(q: Wishart) -> Any:
    return InverseWishart(q.negative_rate, -q.half_degrees)


def _invert_stats(stats: WishartStats) -> InverseWishartStats:
    """The statistics of Y^-1 from those of Y."""
    return InverseWishartStats(stats.value, -stats.log_det)


def _as_wishart_stats(stats: InverseWishartStats) -> WishartStats:
    return WishartStats(stats.inverse, -stats.log_det)
