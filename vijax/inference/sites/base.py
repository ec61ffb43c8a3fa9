"""Sites, and the operations on them that a prior of Gaussian predictors z ~ N(0, K) must offer (Khan et al. 2016,
appendix D).

    q(z) ∝ p(z) prod_n exp(a_n z_n - g_n z_n^2 / 2):    V^-1 = K^-1 + diag(g),   m = V a

(a, g) are natural parameters of q relative to the prior, whose own are zero; g is the paper's gamma tilde.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

TALL = 4
"""Rows for each feature from which the inverse of a factor of the features pays."""


class Sites(NamedTuple):
    """One Gaussian factor per predictor, exp(linear z - precision z^2 / 2)."""

    linear: Float[Array, " sites"]
    precision: Float[Array, " sites"]

    @classmethod
    def zeros(cls, num_sites: int, dtype: Any = None) -> Sites:
        """Sites without any observation: q is the prior."""
        return cls(jnp.zeros(num_sites, dtype), jnp.zeros(num_sites, dtype))

    def at_add(self, rows: Int[Array, " rows"], values: Sites) -> Sites:
        """All sites, with values added to these."""
        return Sites(self.linear.at[rows].add(values.linear), self.precision.at[rows].add(values.precision))

    def at(self, rows: Int[Array, " rows"]) -> Sites:
        """These sites alone."""
        return Sites(self.linear[rows], self.precision[rows])


class Factor(NamedTuple):
    """A prior conditioned on sites, factorised once for every question about it.

    Attributes:
      cholesky: lower factor of a matrix with the determinant of I + K diag(g).
      weights: a vector in which the mean is linear.
      log_det: log |I + K diag(g)|.
      quadratic: m' K^-1 m.
    """

    cholesky: Float[Array, "dim dim"]
    weights: Float[Array, " dim"]
    log_det: Float[Array, ""]
    quadratic: Float[Array, ""]


class Prior(Protocol):
    """z ~ N(0, K), in one of several forms: a pytree of arrays."""

    @property
    def num_sites(self) -> int:
        """N."""

    def condition(self, sites: Sites) -> Factor:
        """Factorises the posterior; its arrays are NaN outside the domain."""

    def marginals(self, factor: Factor, rows: Int[Array, " rows"] | None = None) -> tuple[Array, Array]:
        """Mean and variance of the predictors of these sites; of all without a copy of the features, if None."""

    def predict(self, factor: Factor, new: Any) -> tuple[Array, Array]:
        """Mean and variance of new predictors, in the prior's own terms."""

    def predict_jointly(self, factor: Factor, new: Any, own: Array | None) -> tuple[Array, Float[Array, "T dim"]]:
        """Mean of new predictors, and a root R of their covariance R R'; `own` is their prior covariance, None where
        features explain all of it."""

    def joint(self, factor: Factor, rows: Int[Array, " rows"]) -> tuple[Array, Float[Array, "rows dim"]]:
        """Mean, and a root of the covariance, of the predictors of these sites."""

    def covariance(self, factor: Factor, rows: Int[Array, " rows"]) -> Float[Array, "rows rows"]:
        """The block of V that belongs to these sites."""

    def in_domain(self, sites: Sites) -> Bool[Array, ""]:
        """True where every site is finite and K^-1 + diag(g) is positive definite (or, stricter, g >= 0)."""


def log_det_from(cholesky: Float[Array, "dim dim"]) -> Float[Array, ""]:
    """log |C C'|."""
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))


def root_of(cov: Float[Array, "T T"]) -> Float[Array, "T T"]:
    """A root of a covariance that may be singular."""
    values, vectors = jnp.linalg.eigh(0.5 * (cov + cov.T))
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))


def finite(sites: Sites) -> Bool[Array, ""]:
    """True where every number of every site is finite."""
    return jnp.all(jnp.isfinite(sites.linear) & jnp.isfinite(sites.precision))
