"""Feature space: z = X w, w ~ N(0, I) (Khan et al. 2016, appendix E). A GP whitened by K = L L' is the case X = L.

    P = I + X' diag(g) X,   w = P^-1 X' a,   m = X w,   v_n = |C^-1 x_n|^2   with P = C C'

Every variance is a sum of squares, and sites may have negative precision as long as P is positive definite.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Bool, Float, Int

from vijax.inference.sites.base import TALL, Factor, Sites, finite, log_det_from, root_of
from vijax.tree import register


@register
@dataclasses.dataclass(frozen=True)
class FeatureForm:
    """z = features @ w, w ~ N(0, I)."""

    features: Float[Array, "sites dim"]

    @property
    def num_sites(self) -> int:
        """N."""
        return self.features.shape[0]

    def condition(self, sites: Sites) -> Factor:
        """One Cholesky factorisation of P."""
        return factorised(_precision(self.features, sites.precision), self.features.T @ sites.linear)

    def marginals(self, factor: Factor, rows: Int[Array, " rows"] | None = None) -> tuple[Array, Array]:
        """See `Prior`."""
        return self.predict(factor, self.features if rows is None else self.features[rows])

    def predict(self, factor: Factor, new: Any) -> tuple[Array, Array]:
        """Mean and variance of predictors with features `new`, (T, D)."""
        return new @ factor.weights, jnp.sum(_whitened(factor.cholesky, new) ** 2, 1)

    def predict_jointly(self, factor: Factor, new: Any, own: Array | None) -> tuple[Array, Float[Array, "T dim"]]:
        """See `Prior`."""
        whitened = solve_triangular(factor.cholesky, new.T, lower=True)
        mean = new @ factor.weights
        return mean, whitened.T if own is None else root_of(whitened.T @ whitened + own - new @ new.T)

    def joint(self, factor: Factor, rows: Int[Array, " rows"]) -> tuple[Array, Float[Array, "rows dim"]]:
        """See `Prior`."""
        return self.predict_jointly(factor, self.features[rows], None)

    def covariance(self, factor: Factor, rows: Int[Array, " rows"]) -> Float[Array, "rows rows"]:
        """X P^-1 X', of these rows."""
        whitened = solve_triangular(factor.cholesky, self.features[rows].T, lower=True)
        return whitened.T @ whitened

    def in_domain(self, sites: Sites) -> Bool[Array, ""]:
        """P has a Cholesky factor, which need not be tried while g >= 0."""
        return positive_definite(sites, lambda: _precision(self.features, sites.precision))


def _whitened(cholesky: Float[Array, "dim dim"], new: Float[Array, "T dim"]) -> Float[Array, "T dim"]:
    """Vectors C^-1 x, one a row. For many rows C^-1 is worked out first: a product takes a third of a solve's time."""
    if len(new) < TALL * len(cholesky):
        return solve_triangular(cholesky, new.T, lower=True).T
    inverse = solve_triangular(cholesky, jnp.eye(len(cholesky), dtype=cholesky.dtype), lower=True)
    return jnp.matmul(new, inverse.T, precision="highest")


def _precision(features: Array, g: Array) -> Float[Array, "dim dim"]:
    return jnp.eye(features.shape[1], dtype=features.dtype) + features.T @ (g[:, None] * features)


def factorised(precision: Float[Array, "dim dim"], linear: Float[Array, " dim"]) -> Factor:
    """The factor of a posterior over weights N(P^-1 linear, P^-1)."""
    cholesky = jnp.linalg.cholesky(precision)
    w = cho_solve((cholesky, True), linear)
    return Factor(cholesky, w, log_det_from(cholesky), w @ w)


def positive_definite(sites: Sites, precision: Any) -> Bool[Array, ""]:
    """True where P is positive definite; computed only where some site has negative precision."""
    tried = jax.lax.cond(
        jnp.all(sites.precision >= 0),
        lambda: jnp.array(True),
        lambda: jnp.all(jnp.isfinite(jnp.linalg.cholesky(precision()))),
    )
    return finite(sites) & tried
