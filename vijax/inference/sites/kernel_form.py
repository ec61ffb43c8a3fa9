"""Kernel space: the prior by its covariance matrix (Khan et al. 2016, eq. 19 and appendix E; sites of nonnegative
precision).

    B = I + S K S,  S = diag(g)^(1/2);   alpha = a - S B^-1 S K a,   m = K alpha,   V = K - K S B^-1 S K

which is the paper's A = K + diag(g)^-1 without the division by g. K itself is never factorised or inverted, so it may
be singular. Where a site outweighs the prior, alpha is a small difference of large numbers: there it is S B^-1 S^-1 a.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Bool, Float, Int

from vijax.inference.sites.base import Factor, Sites, finite, log_det_from, root_of
from vijax.tree import register


@register
@dataclasses.dataclass(frozen=True)
class KernelForm:
    """z ~ N(0, kernel).

    Its variances are differences, K_nn - ..., which float32 cannot resolve where data leave little of the prior
    variance: see `FeatureForm`.
    """

    kernel: Float[Array, "sites sites"]

    @property
    def num_sites(self) -> int:
        """N."""
        return self.kernel.shape[0]

    def condition(self, sites: Sites) -> Factor:
        """One Cholesky factorisation of B."""
        root = jnp.sqrt(sites.precision)
        b = jnp.eye(self.num_sites, dtype=self.kernel.dtype) + root[:, None] * self.kernel * root
        cholesky = jnp.linalg.cholesky(b)
        strong = sites.precision * jnp.diagonal(self.kernel) > 1.0
        weak = jnp.where(strong, 0.0, sites.linear)
        divided = jnp.where(strong, sites.linear / jnp.where(strong, root, 1.0), 0.0)
        alpha = weak + root * cho_solve((cholesky, True), divided - root * (self.kernel @ weak))
        quadratic = alpha @ (self.kernel @ alpha)
        # The root is kept too: every variance needs rows of C^-1 S.
        return Factor(cholesky, jnp.stack([alpha, root]), log_det_from(cholesky), quadratic)

    def marginals(self, factor: Factor, rows: Int[Array, " rows"] | None = None) -> tuple[Array, Array]:
        """See `Prior`."""
        cross, variance = self.kernel, jnp.diagonal(self.kernel)
        return self.predict(factor, (cross, variance) if rows is None else (cross[:, rows], variance[rows]))

    def predict(self, factor: Factor, new: Any) -> tuple[Array, Array]:
        """Mean and variance of predictors with covariances `new = (K(X, X*), diag K(X*, X*))`."""
        cross, variance = new
        alpha, root = factor.weights
        whitened = solve_triangular(factor.cholesky, root[:, None] * cross, lower=True)
        return cross.T @ alpha, variance - jnp.sum(whitened**2, 0)

    def predict_jointly(self, factor: Factor, new: Any, own: Array | None) -> tuple[Array, Float[Array, "T dim"]]:
        """See `Prior`."""
        (cross, _), (alpha, root) = new, factor.weights
        whitened = solve_triangular(factor.cholesky, root[:, None] * cross, lower=True)
        assert own is not None  # a kernel has no features
        return cross.T @ alpha, root_of(own - whitened.T @ whitened)

    def joint(self, factor: Factor, rows: Int[Array, " rows"]) -> tuple[Array, Float[Array, "rows dim"]]:
        """See `Prior`."""
        cross = self.kernel[:, rows]
        return self.predict_jointly(factor, (cross, jnp.diagonal(self.kernel)[rows]), cross[rows])

    def covariance(self, factor: Factor, rows: Int[Array, " rows"]) -> Float[Array, "rows rows"]:
        """See `Prior`."""
        root, cross = factor.weights[1], self.kernel[:, rows]
        whitened = solve_triangular(factor.cholesky, root[:, None] * cross, lower=True)
        return cross[rows] - whitened.T @ whitened

    def in_domain(self, sites: Sites) -> Bool[Array, ""]:
        """g >= 0."""
        return finite(sites) & jnp.all(sites.precision >= 0)
