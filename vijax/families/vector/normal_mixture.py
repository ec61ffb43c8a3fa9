"""A mixture of normals as a density of free coordinates. It is not an exponential family.

Its draws are differentiable in all parameters, weights included, by implicit reparameterisation
(Figurnov, Mohamed and Mnih 2018, section 3.3). Let e_k = L_k^-1 (x - m_k), whose entry d depends
only on x_1, ..., x_d. The conditional quantiles

    F_d(x) = P(X_d <= x_d | x_1, ..., x_(d-1)) = sum_k w_kd Phi(e_kd),    w_kd ~ w_k prod_(j<d) phi(e_kj) / L_kjj

stay fixed as the parameters move, so dx = -(dF / dx)^-1 dF, a lower triangular system."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import ndtr
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families.base import family
from vijax.families.laws import NormalMixtureLaw
from vijax.families.numeric import draws as quasi
from vijax.families.numeric.draws import moving
from vijax.families.vector.by_optimiser import ByDraws, Value
from vijax.families.vector.free_normals import TriangularNormal

POINTS = 64
"""Number of points of each component in `weighted_points`."""


@family
class NormalMixture(ByDraws):
    """sum_k w_k N(center_k, L_k L_k'), w the softmax of `logits`, L_k as in `TriangularNormal`.

    >>> q = NormalMixture(jnp.zeros(2), jnp.array([[-3.0], [3.0]]), jnp.zeros((2, 1, 1)))
    >>> print(q.mean(), q.variance(), round(float(q.entropy()), 1))  # nearly ln 2 more than a standard normal
    [0.] [10.] 2.1
    """

    logits: Float[Array, " K"]
    center: Float[Array, "K D"]
    triangle: Float[Array, "K D D"]

    event_ndims: ClassVar = (1, 2, 3)

    @property
    def weights(self) -> Float[Array, " K"]:
        """w."""
        return jax.nn.softmax(self.logits)

    @property
    def components(self) -> TriangularNormal:
        """The components, as one law with a leading axis."""
        return TriangularNormal(self.center, self.triangle)

    @property
    def cov(self) -> Float[Array, "D D"]:
        """Cov_q[x]."""
        within = jnp.tensordot(self.weights, jax.vmap(lambda q: q.cov)(self.components), 1)
        gap = self.center - self.mean()[None]
        return within + (gap * self.weights[:, None]).T @ gap

    def mean(self) -> Float[Array, " D"]:
        return self.weights @ self.center

    def expected_stats(self) -> Value:
        return Value(self.mean())

    def mode(self) -> Float[Array, " D"]:
        """The centre with the highest density, which is near the mode."""
        return self.center[jnp.argmax(self.log_prob(self.center))]

    def variance(self) -> Float[Array, " D"]:
        variances = jax.vmap(lambda q: q.variance())(self.components)
        return self.weights @ (variances + (self.center - self.mean()) ** 2)

    def marginal_laws(self) -> NormalMixtureLaw:
        scales = jnp.sqrt(jax.vmap(lambda q: q.variance())(self.components))
        weights = jnp.broadcast_to(self.weights, scales.T.shape)
        return NormalMixtureLaw(weights, self.center.T, scales.T)

    def log_prob(self, x: Any) -> Float[Array, "*shape"]:
        return jax.nn.logsumexp(self._joint(jnp.asarray(x)), 0)

    def weighted_points(self) -> tuple[Float[Array, "points D"], Float[Array, " points"]]:
        noise = quasi.fixed_normals(POINTS, self.center.shape[1], self.center.dtype)
        x = jax.vmap(lambda q: q.center[None] + noise @ q.factor.T)(self.components)
        return jnp.reshape(x, (-1, x.shape[-1])), jnp.repeat(self.weights / POINTS, POINTS)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape D"]:
        constant = jax.lax.stop_gradient(self)
        key_component, key_noise = jax.random.split(key)
        k = jax.random.categorical(key_component, constant.logits, shape=shape)
        noise = jax.random.normal(key_noise, (*shape, self.center.shape[1]), self.center.dtype)
        factors = jax.vmap(lambda q: q.factor)(constant.components)
        x = constant.center[k] + jnp.einsum("...ij,...j->...i", factors[k], noise)
        if not shape:
            return moving(x, self, _velocity)
        flat = jnp.reshape(x, (math.prod(shape), -1))
        return jnp.reshape(jax.vmap(lambda x: moving(x, self, _velocity))(flat), x.shape)

    @property
    def noise_size(self) -> int:
        """One number for the component, and one for each coordinate."""
        return 1 + self.center.shape[1]

    def from_noise(self, noise: Float[Array, " noise"]) -> Float[Array, " D"]:
        """A draw of the component at the quantile of the first number, from the other numbers."""
        constant = jax.lax.stop_gradient(self)
        k = jnp.searchsorted(jnp.cumsum(constant.weights)[:-1], ndtr(noise[0]))
        component = jax.tree.map(lambda x: x[k], constant.components)
        return moving(component.from_noise(noise[1:]), self, _velocity)

    def kl(self, other: NormalMixture) -> Float[Array, ""]:
        """An upper bound on KL(self || other), which has no closed form: the mean divergence of the
        components plus that of the weights; exact for one component. `vijax.update.within` keeps
        this bound within its radius."""
        divergences = jax.vmap(lambda p, q: p.kl(q))(self.components, other.components)
        log_ratio = jax.nn.log_softmax(self.logits) - jax.nn.log_softmax(other.logits)
        return self.weights @ (log_ratio + divergences)

    def _joint(self, x: Float[Array, "*shape D"]) -> Array:
        """log w_k + log N_k(x)."""
        log_probs = jax.vmap(lambda q: q.log_prob(x))(self.components)
        return jax.nn.log_softmax(self.logits).reshape((-1,) + (1,) * (x.ndim - 1)) + log_probs

    def _quantiles(self, x: Float[Array, " D"], upper: Any) -> Float[Array, " D"]:
        """F(x); for entries in `upper` F(x) - 1, which keeps the digits of an upper tail."""
        factors = jax.vmap(lambda q: q.factor)(self.components)
        whiten = jax.vmap(lambda factor, gap: solve_triangular(factor, gap, lower=True))
        noise = whiten(factors, x[None] - self.center)
        log_scale = jnp.diagonal(self.triangle, axis1=1, axis2=2)
        log_probs = jnp.cumsum(-0.5 * noise**2 - log_scale, 1)
        before = jnp.concatenate([jnp.zeros_like(log_probs[:, :1]), log_probs[:, :-1]], 1)
        weights = jax.nn.softmax(self.logits[:, None] + before, 0)
        sign = jnp.where(jnp.broadcast_to(upper, (1, x.size)), -1.0, 1.0).astype(x.dtype)
        return jnp.sum(weights * sign * ndtr(sign * noise), 0)


def _velocity(x: Array, q: NormalMixture, change: NormalMixture) -> Array:
    """dx for a change of the parameters at fixed quantiles."""
    upper = jax.lax.stop_gradient(q._quantiles(x, False)) > 0.5
    quantile_change = jax.jvp(lambda q: q._quantiles(x, upper), (q,), (change,))[1]
    slopes = jax.jacfwd(lambda x: q._quantiles(x, upper))(x)
    return -solve_triangular(slopes, quantile_change, lower=True)
