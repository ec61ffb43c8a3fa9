"""The normal distribution with covariance diag(s^2) + U U': no exponential family in its parameters.

Its parameters (mean, log s, U) are its leaves (`vijax.families.by_optimiser`). With W = S^-1 U, S = diag(s), and C = I
+ W' W = L L', everything costs O(D r^2) operations and O(D r) numbers (Woodbury; Ong, Nott and Smith 2018):

    Sigma^-1 v = S^-1 (v~ - W C^-1 W' v~),  v~ = S^-1 v,       log |Sigma| = 2 sum log s + 2 sum log L_ii.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families.base import family
from vijax.families.by_optimiser import ByOptimiser, Value
from vijax.families.univariate import NormalLaw


@family
class LowRankNormal(ByOptimiser):
    """N(mean, diag(exp(2 log_sd)) + factor factor'), of a vector.

    >>> q = LowRankNormal(jnp.zeros(3), jnp.zeros(3), jnp.array([[1.0], [2.0], [0.0]]))
    >>> print(q.variance(), round(float(q.entropy()), 3))
    [2. 5. 1.] 5.153
    """

    center: Float[Array, " D"]
    log_sd: Float[Array, " D"]
    factor: Float[Array, "D r"]

    event_ndims: ClassVar = (1, 1, 2)

    def variance(self) -> Float[Array, " D"]:
        """Of each coordinate."""
        return jnp.exp(2 * self.log_sd) + jnp.sum(self.factor**2, -1)

    def marginal_laws(self) -> NormalLaw:
        """Normal, of the means and variances."""
        return NormalLaw(self.mean(), self.std())

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape D"]:
        """mean + s e + U f, e and f standard normal: pathwise differentiable."""
        own, shared = jax.random.split(key)
        dim, rank = self.factor.shape
        e = jax.random.normal(own, (*shape, dim), self.center.dtype)
        f = jax.random.normal(shared, (*shape, rank), self.center.dtype)
        return self.center + jnp.exp(self.log_sd) * e + f @ self.factor.T

    @property
    def noise_size(self) -> int:
        """Those of the columns of U first, on which most depends, and one a coordinate."""
        return self.factor.size // self.center.size + self.center.size

    def from_noise(self, noise: Float[Array, " noise"]) -> Float[Array, " D"]:
        """mean + U f + s e."""
        f, e = jnp.split(noise, [self.factor.shape[1]])
        return self.center + self.factor @ f + jnp.exp(self.log_sd) * e

    def entropy(self) -> Float[Array, ""]:
        """D log(2 pi e) / 2 + log |Sigma| / 2."""
        half_log_det = jnp.sum(self.log_sd) + jnp.sum(jnp.log(jnp.diagonal(self._core())))
        return 0.5 * self.center.size * (1 + math.log(2 * math.pi)) + half_log_det

    def log_prob(self, x: Any) -> Float[Array, "*shape"]:
        """log q(x)."""
        gap = jnp.asarray(x) - self.center
        square = jnp.einsum("...i,...i->...", gap, self._solved(gap))
        return 0.5 * (self.center.size - square) - self.entropy()

    def kl(self, other: Self) -> Float[Array, ""]:
        """KL(self || other), with the trace by Woodbury."""
        sd, core = jnp.exp(other.log_sd), other._core()
        ratio, factor, scaled = jnp.exp(self.log_sd) / sd, self.factor / sd[:, None], other.factor / sd[:, None]
        whitened = solve_triangular(core, scaled.T, lower=True)
        trace = jnp.sum(ratio**2) + jnp.sum(factor**2)
        trace = trace - jnp.sum((whitened * ratio) ** 2) - jnp.sum((whitened @ factor) ** 2)
        gap = self.center - other.center
        return 0.5 * (trace + gap @ other._solved(gap) - gap.size) + other.entropy() - self.entropy()

    def slope(self, stats: Any, prior: Self) -> Value:
        """Gradient of log q at a draw, minus Sigma^-1 (x - mean); the prior is a term of the energy."""
        del prior
        return Value(-self._solved(stats.value - self.center))

    def _core(self) -> Float[Array, "r r"]:
        """L."""
        scaled = self.factor * jnp.exp(-self.log_sd)[:, None]
        return jnp.linalg.cholesky(jnp.eye(scaled.shape[1], dtype=scaled.dtype) + scaled.T @ scaled)

    def _solved(self, gap: Float[Array, "*shape D"]) -> Float[Array, "*shape D"]:
        """Sigma^-1 v."""
        inverse_sd = jnp.exp(-self.log_sd)
        scaled, whitened = self.factor * inverse_sd[:, None], gap * inverse_sd
        shared = jnp.reshape(whitened @ scaled, (-1, scaled.shape[1]))
        solved = cho_solve((self._core(), True), shared.T).T.reshape((*jnp.shape(gap)[:-1], -1))
        return inverse_sd * (whitened - solved @ scaled.T)
