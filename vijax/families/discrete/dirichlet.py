"""Dirichlet distributions: q(x; c) = 1 / prod_v x_v  exp{<c, log x> - A(c)}, on the last axis of the concentration.

    A = sum_v log Gamma(c_v) - log Gamma(C),   mu_v = psi(c_v) - psi(C),   F = diag psi'(c) - psi'(C) 1 1',

with C = sum_v c_v. Every closed form below is arranged so that its terms of size C cancel on paper, not in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, as_float, family, positive_and_finite
from vijax.families.construction import on_host
from vijax.families.discrete.dirichlet_divergence import dirichlet_divergence, expected_log
from vijax.families.numeric import special
from vijax.families.numeric.densities import log_gamma_kernel, total_log_density
from vijax.families.numeric.elasticity import elasticity_minus_one
from vijax.families.numeric.excess import product_difference
from vijax.families.numeric.pathwise import log_gamma_from_offset, sample_offset
from vijax.families.univariate import BetaLaw


class DirichletStats(NamedTuple):
    """t(x) = log x."""

    log: Float[Array, "*batch v"]

    @property
    def by_word(self) -> Float[Array, "v k"]:
        """Statistics in the layout of `TransposedDirichlet`: for K Dirichlets over words, word by word."""
        return jnp.swapaxes(self.log, -1, -2)


@family
class Dirichlet(Family):
    """A Dirichlet distribution over the simplex.

    log h(x) = -sum(log(x));  t = (log(x),);  natural parameters (concentration,).

    >>> import jax
    >>> q = Dirichlet.from_concentration([0.5, 2.5, 1.0])
    >>> q.mean().round(3).tolist()
    [0.125, 0.625, 0.25]
    >>> q.sample(jax.random.key(0), (4,)).shape
    (4, 3)
    """

    concentration: Float[Array, "*batch v"]

    Stats: ClassVar[type[tuple]] = DirichletStats
    event_ndims: ClassVar[tuple[int, ...]] = (1,)

    @classmethod
    def from_concentration(cls, concentration: Any) -> Self:
        """Dirichlets of these concentrations; ValueError unless all are positive and finite, with an event axis."""
        c = as_float(concentration)
        require(c.ndim >= 1 and c.shape[-1] >= 1, "concentration", "at least one component on the last axis", c.shape)
        remedy = "Give empty components a small positive pseudo-count."
        require(positive_and_finite(c), "concentration", "positive finite numbers", c, remedy)
        return cls(c)

    # --- the law ----------------------------------------------------------------------------------------------
    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A(c) = log of the multivariate beta function."""
        return log_multivariate_beta(self.concentration)

    def stats(self, x: Float[Array, "*batch v"]) -> DirichletStats:
        """log x, with log 0 floored at the log of the dtype's smallest normal number (-87.3 in float32)."""
        return DirichletStats(floored_log(x))

    def log_base_measure(self, stats: DirichletStats) -> Float[Array, "*batch"]:
        """log h(x) = -sum_v log x_v."""
        return -jnp.sum(stats.log, axis=-1)

    def mean(self) -> Float[Array, "*batch v"]:
        """c / C."""
        xp, c = on_host(self.concentration)
        return jnp.asarray(c / xp.sum(c, axis=-1, keepdims=True))

    def marginal_laws(self) -> BetaLaw:
        """Beta(c_v, C - c_v) for component v."""
        c = self.concentration
        before, after = (_sum_of_earlier(x) for x in (c, jnp.flip(c, -1)))
        return BetaLaw(c, before + jnp.flip(after, -1))  # not C - c_v, which cancels

    def mode(self) -> Float[Array, "*batch v"]:
        """max(c - 1, 0), normalised: zero for the components with c_v <= 1, towards which the density does not fall.
        If no c_v exceeds 1 there is no unique maximum and the uniform point is returned."""
        excess = jnp.maximum(self.concentration - 1.0, 0.0)
        total = jnp.sum(excess, axis=-1, keepdims=True)
        uniform = 1.0 / self.concentration.shape[-1]
        share = jnp.minimum(excess / jnp.where(total > 0, total, 1.0), 1.0)  # compiled division rounds past one
        return jnp.where(total > 0, share, uniform)

    def in_domain(self) -> Self:
        """c > 0 and finite, componentwise."""
        return type(self)(positive_and_finite(self.concentration))

    def flat(self) -> Self:
        """c = 1."""
        return type(self)(jnp.ones_like(self.concentration))

    # --- closed forms -----------------------------------------------------------------------------------------
    def expected_stats(self) -> DirichletStats:
        """mu = psi(c) - psi(C)."""
        return DirichletStats(expected_log(self.concentration))

    def entropy(self) -> Float[Array, "*batch"]:
        """sum_v [g(c_v) + psi(c_v) - psi(C)] - g(C), where g is `special.legendre_gap`."""
        c = self.concentration
        total = jnp.sum(c, axis=-1)
        each = special.legendre_gap(c) + special.digamma(c) - special.digamma(total)[..., None]
        return jnp.sum(each, axis=-1) - special.legendre_gap(total)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL(self || other), right in float32 at any mixture of sizes, never negative: see `dirichlet_divergence`."""
        return dirichlet_divergence(self.concentration, other.concentration)

    def log_prob(self, x: Float[Array, "*batch v"]) -> Float[Array, "*batch"]:
        """log q of x / sum(x), since float32 numbers seldom sum to one; right in float32 at all concentrations.

        -inf off the simplex: where an x is negative, or the sum is not within 1e-4 of one. At x_v = 0 the limit, which
        is infinite for c_v < 1."""
        x, c = as_float(x), self.concentration
        ratio = jnp.sum(x, axis=-1, keepdims=True)
        on_simplex = jnp.abs(ratio - 1.0) <= 1e-4
        ratio = jnp.where(on_simplex, ratio, 1.0)
        total = jnp.sum(c, axis=-1, keepdims=True)
        excess = product_difference(x, total, c, ratio) / (c * ratio)
        kernels = log_gamma_kernel(x / ratio, c, total, excess)
        gaps = jnp.sum(special.stirling_gap(c), axis=-1) - special.stirling_gap(total[..., 0])
        return jnp.where(on_simplex[..., 0], total_log_density(kernels) - gaps, -jnp.inf)

    def fisher_solve(self, cotangent: DirichletStats) -> Self:
        """F^-1 g = w g + w (sum w g) / D with w = 1 / psi'(c) (Sherman-Morrison); see `_curvature` for D."""
        w, inverse_d = _curvature(self.concentration)
        scaled = w * cotangent.log
        return type(self)(scaled + w * (_sum_of_draws(scaled) * inverse_d))

    # --- sampling ---------------------------------------------------------------------------------------------
    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape_batch v"]:
        """x ~ q: normalised gammas. Small components underflow to 0; `sample_stats` gives their logarithms."""
        return jnp.exp(self.sample_stats(key, shape).log)

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> DirichletStats:
        """log x of a draw, in log space throughout and differentiable in the concentration."""
        return DirichletStats(normalized_gammas(self.concentration, sample_offset(key, self.concentration, shape))[0])

    def pathwise_sample(self, key: PRNGKeyArray) -> tuple[DirichletStats, Callable[[DirichletStats], Self]]:
        """log x of a draw, and V: eta -> F^-1 J^T eta (Hoffman and Blei 2015, eq. 8 and 23) by Dirichlet algebra.

        With S = sum eta, rho = eta - x S (which sums to zero), h = w d log gamma / dc - 1 for the unnormalised
        gammas: V eta = rho + h rho + w (sum h rho) / D. The direction that F^-1 amplifies, by about C, never appears.
        """
        c = self.concentration
        offset = lax.optimization_barrier(sample_offset(key, c))
        log_x, x = normalized_gammas(c, offset)

        def v(eta: DirichletStats):
            rho = eta.log - x * jnp.sum(eta.log, axis=-1, keepdims=True)
            w, inverse_d = _curvature(c)
            h_rho = lax.optimization_barrier(scaled_derivative_minus_one(c, offset) * rho)
            return type(self)(rho + h_rho + w * (_sum_of_draws(h_rho) * inverse_d))

        return DirichletStats(log_x), v


# --- shared with Gamma and Beta ---------------------------------------------------------------------------------------
def _sum_of_earlier(c: Float[Array, "*batch v"]) -> Float[Array, "*batch v"]:
    """For each component the sum of those before it."""
    total = jnp.cumsum(c, axis=-1)
    return jnp.concatenate([jnp.zeros_like(c[..., :1]), total[..., :-1]], axis=-1)


@jax.custom_jvp
def log_multivariate_beta(concentration: Float[Array, "*batch v"]) -> Float[Array, "*batch"]:
    """sum_v log Gamma(c_v) - log Gamma(C), as sum_v [g(c_v) + c_v mu_v] - g(C)."""
    c = concentration
    each = special.legendre_gap(c) + c * expected_log(c)
    return jnp.sum(each, axis=-1) - special.legendre_gap(jnp.sum(c, axis=-1))


@log_multivariate_beta.defjvp
def _log_multivariate_beta_jvp(primals: tuple, tangents: tuple) -> tuple:
    (c,), (dc,) = primals, tangents
    return log_multivariate_beta(c), jnp.sum(expected_log(c) * dc, axis=-1)


def normalized_gammas(
    c: Float[Array, "*batch v"], offset: Float[Array, "*batch v"], axis: int = -1
) -> tuple[Array, Array]:
    """log x and x of the Dirichlet draw whose gammas have these offsets L = log gamma - log(c + 2/3).

    A softmax, but of L and not of log gamma: where c is large L is small, so x is right to rounding, and V, which
    multiplies the error of x by sqrt(c), with it.
    """
    largest = lax.stop_gradient(jnp.max(offset, axis=axis, keepdims=True))
    scaled = lax.optimization_barrier((c + 2 / 3) * jnp.exp(offset - largest))  # saves a second exp
    total = _sum_of_draws(scaled, axis)
    return log_gamma_from_offset(c, offset - largest) - jnp.log(total), scaled / total


def _sum_of_draws(x: Float[Array, "*batch v"], axis: int = -1) -> Float[Array, "*batch 1"]:
    """The sum over the event axis, the last or the one before it, as a product with ones.

    XLA's CPU compiler (jaxlib 0.10.2) miscompiles `o / jnp.sum(c * o, axis=-1, keepdims=True)` when o has more axes
    than c, by sample axes or by `vmap`: shape (20000, 3, 2) with (3, 2) comes out wrong in 70 % of its elements, and
    no optimisation barrier prevents it. A matrix product is not fused that way.
    """
    ones = jnp.ones((x.shape[axis], 1), x.dtype)
    product = (x, ones) if axis == -1 else (ones.T, x)
    return jnp.matmul(*product, precision=lax.Precision.HIGHEST)


def scaled_derivative_minus_one(c: Array, offset: Array) -> Array:
    """h = w d log gamma / dc - 1, of mean zero, w = 1 / psi'(c): from G - 1 and r / c = 1 - w / c, which keep their
    digits where h is small (large c), and from w / c where that is (small c)."""
    excess = elasticity_minus_one(c, offset)
    large = excess - special.relative_trigamma_deficit(c) * (1.0 + excess)
    return jnp.where(c < 1.0, special.inverse_trigamma(c) / c * (1.0 + excess) - 1.0, large)


def floored_log(x: Array) -> Array:
    """log x, where zero (and what float arithmetic may flush to it) counts as the smallest normal number."""
    x = as_float(x)
    tiny = jnp.finfo(x.dtype).tiny
    return jnp.log(jnp.where((x >= 0) & (x < tiny), tiny, x))


def _curvature(c: Float[Array, "*batch v"]) -> tuple[Array, Array]:
    """w = 1 / psi'(c), and 1 / D with D = w(C) - sum_v w(c_v), of shape (*batch, 1).

    D is a difference of terms of size C; written with r = c - w as sum_v r(c_v) - r(C) it is one of terms below 1/2.
    For C < 1, where r(c) is nearly c, the first form is the accurate one. Where D vanishes (a single component, or
    one that dwarfs the others beyond rounding) the law has no curvature left, and 1 / D is taken to be 0.
    """
    total = jnp.sum(c, axis=-1, keepdims=True)
    term = lambda x: jnp.where(total < 1.0, -special.inverse_trigamma(x), special.trigamma_deficit(x))
    d = jnp.sum(term(c), axis=-1, keepdims=True) - term(total)
    usable = (d > 0) & (c.shape[-1] > 1)
    return special.inverse_trigamma(c), jnp.where(usable, 1.0 / jnp.where(usable, d, 1.0), 0.0)
