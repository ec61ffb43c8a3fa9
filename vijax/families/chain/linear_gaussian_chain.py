"""A chain of T Gaussian vectors as one family: the posterior of a linear-Gaussian state-space
model.

A is the Kalman filter in information form, and its gradient the smoother
(`vijax.families.chain.gaussian_chains`). All methods are O(T D^3), and no array has the size of the
joint covariance. Sequences of unequal lengths are padded to T steps; `mask` (*batch, T) is true on
the steps that exist, which come first. Padded steps have no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import (
    Family,
    as_float,
    as_floats,
    context_field,
    domain_mask,
    family,
    map_batch,
)
from vijax.families.chain import gaussian_chains as chains
from vijax.families.laws import NormalLaw
from vijax.families.vector.matrices import (
    matvec,
    outer,
    outer_statistic,
    positive_definite,
    symmetric,
)

Mask = Bool[Array, "*batch T"] | None


class LinearGaussianChainStats(NamedTuple):
    """t(x) = (x_t, x_t x_t', x_t x_{t+1}') of every step."""

    value: Float[Array, "*batch T D"]
    outer: Float[Array, "*batch T D D"]
    cross: Float[Array, "*batch S D D"]


@family
class LinearGaussianChain(Family):
    """A Gaussian Markov chain; its natural parameters are the blocks of its information form, event
    axes last.

    log h(x) = 0;  t = (x, outers(x, x), outers(x[:-1], x[1:]));
    natural parameters (linear, negative_half_precision, coupling).

    Only the symmetric part of `negative_half_precision` matters; F is zero on its complement.

    >>> q = LinearGaussianChain.from_dynamics([0.0], [[1.0]], transition=[[0.5]], noise_cov=[[0.75]], num_steps=3)
    >>> print(q.cov[..., 0, 0].round(4).tolist(), f"{q.entropy():.4f}")
    [1.0, 1.0, 1.0] 3.9691
    """

    linear: Float[Array, "*batch T D"]
    negative_half_precision: Float[Array, "*batch T D D"]
    coupling: Float[Array, "*batch S D D"]
    mask: Mask = context_field()

    Stats: ClassVar[type[tuple]] = LinearGaussianChainStats
    event_ndims: ClassVar[tuple[int, ...]] = (2, 3, 3)

    @classmethod
    def from_potentials(cls, linear: Any, negative_half_precision: Any, coupling: Any) -> Self:
        """Chains from the information form: (*batch, T, D), (*batch, T, D, D) and (*batch, T-1, D,
        D), the last with the coefficients of x_t x_{t+1}'.

        Raises:
          ValueError: shapes that do not fit, or a joint precision that is not positive definite.
        """
        h, square, cross = as_floats(linear, negative_half_precision, coupling)
        require(h.ndim >= 2 and h.size, "linear", "shape (*batch, T, D)", f"shape {h.shape}")
        *batch, t, d = h.shape
        for name, value, shape in (
            ("negative_half_precision", square, (*batch, t, d, d)),
            ("coupling", cross, (*batch, t - 1, d, d)),
        ):
            require(value.shape == shape, name, f"shape {shape}", value.shape)
        require(jnp.isfinite(h), "linear", "finite numbers", h)
        require(jnp.isfinite(cross), "coupling", "finite numbers", cross)
        q = cls(h, symmetric(square), cross)
        expected = "blocks whose joint precision is positive definite"
        require(q.in_domain().linear, "negative_half_precision", expected, square)
        return q

    @classmethod
    def from_dynamics(
        cls, initial_mean: Any, initial_cov: Any, transition: Any, noise_cov: Any, num_steps: int
    ) -> Self:
        """Chains of vectors in R^D with x_1 ~ N(initial_mean, initial_cov), x_{t+1} ~ N(transition
        x_t, noise_cov).

        Raises:
          ValueError: shapes that do not fit, covariances that are not symmetric positive definite,
            or `num_steps` below 1.
        """
        m, v, a, noise = as_floats(initial_mean, initial_cov, transition, noise_cov)
        require(num_steps >= 1, "num_steps", "a positive integer", num_steps)
        require(m.ndim == 1, "initial_mean", "shape (D,)", m.shape)
        for name, matrix in (("initial_cov", v), ("transition", a), ("noise_cov", noise)):
            require(matrix.shape == 2 * m.shape, name, f"shape {2 * m.shape}", matrix.shape)
        start = jnp.linalg.inv(positive_definite(v, "initial_cov"))
        step = symmetric(jnp.linalg.inv(positive_definite(noise, "noise_cov")))
        precision = jnp.zeros((num_steps, *v.shape), v.dtype).at[0].set(symmetric(start))
        precision = precision.at[:-1].add(symmetric(a.T @ step @ a)).at[1:].add(step)
        linear = jnp.zeros((num_steps, *m.shape), m.dtype).at[0].set(start @ m)
        coupling = jnp.broadcast_to(a.T @ step, (num_steps - 1, *a.shape))
        return cls(linear, -0.5 * precision, coupling)

    @property
    def cov(self) -> Float[Array, "*batch T D D"]:
        """The marginal covariance of each step."""
        return self._map_chains(
            lambda mask, *p: chains.chain_marginals(chains.eliminate(p), p[2])[1]
        )

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A, by block elimination."""
        return self._map_chains(lambda mask, *p: chains.chain_log_normalizer(chains.eliminate(p)))

    def stats(self, x: Any) -> LinearGaussianChainStats:
        x = self._zero_padding(as_float(x))
        pairs = outer_statistic(x[..., :-1, :], x[..., 1:, :])
        return LinearGaussianChainStats(x, outer_statistic(x, x), pairs)

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch T D"]:
        """Paths by backward sampling, pathwise differentiable."""
        noise = jax.random.normal(key, shape + self.linear.shape, self.linear.dtype)
        draw = lambda noise, *p: chains.chain_sample(chains.eliminate(p), p[2], noise)
        return self._zero_padding(self._map_draws(draw, noise))

    def mean(self) -> Float[Array, "*batch T D"]:
        return self.expected_stats().value

    def marginal_laws(self) -> NormalLaw:
        return NormalLaw(self.mean(), jnp.sqrt(jnp.diagonal(self.cov, axis1=-2, axis2=-1)))

    def mode(self) -> Float[Array, "*batch T D"]:
        return self.mean()

    def in_domain(self) -> Self:
        """True if all eliminated blocks are positive definite, and `linear` is finite."""

        def is_valid(mask: Any, *p: Any) -> Array:
            factors = chains.eliminate(p).factor
            return jnp.all(jnp.isfinite(factors)) & jnp.all(jnp.isfinite(p[0]))

        return domain_mask(self._map_chains(is_valid), self)

    def expected_stats(self) -> LinearGaussianChainStats:
        """The smoothed moments, by a backward pass (Rauch, Tung and Striebel)."""
        moments = lambda mask, *p: chains.chain_moments(chains.eliminate(p), p[2], mask)
        return LinearGaussianChainStats(*self._map_chains(moments))

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x) from the laws of x_t given x_{t+1}, without a difference of large numbers."""
        if self.mask is not None:
            return super().log_prob(x)
        log_prob = lambda x, *p: chains.chain_log_prob(chains.eliminate(p), p[2], x)
        return self._map_draws(log_prob, as_float(x))

    def entropy(self) -> Float[Array, "*batch"]:
        return self._map_chains(lambda mask, *p: chains.chain_entropy(chains.eliminate(p), mask))

    def negative_conjugate(self, mean: LinearGaussianChainStats) -> Float[Array, "*batch"]:
        """The entropy, because log h is 0. The precisions of a precise path are 10,000 and more;
        then A and <lambda, mu> are so large that their difference in float32 lacks the digits by
        which coordinate ascent is judged."""
        return self.entropy()

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL(self || other) step by step, without a difference of large numbers (`chain_kl`)."""
        other = self.with_naturals(other)  # with the mask of self
        kl = map_batch(chains.chain_kl, len(self.batch_shape))
        return kl(self._potentials(), other._potentials())

    def fisher_solve(self, cotangent: LinearGaussianChainStats) -> Self:
        """F^-1 g: the derivative along g of the natural parameters as a function of the mean
        parameters, which is a closed form (`chain_from_moments`)."""
        expected = "a chain without padding: F of a padded one is singular"
        require(self.mask is None, "mask", expected, "a mask")
        g = tuple(cotangent._replace(outer=symmetric(cotangent.outer)))
        solve_one = lambda moments, g: jax.jvp(chains.chain_from_moments, (moments,), (g,))[1]
        solve_all = map_batch(solve_one, len(self.batch_shape))
        return self.with_naturals(solve_all(tuple(self.expected_stats()), g))

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[LinearGaussianChainStats, Callable[..., Self]]:
        """t(x) of a draw, and V along the transport of the multivariate normal, dx = dm + dC C^-1
        (x - m) / 2, C the joint covariance. With a the slope of <eta, t> at x, F V eta is the
        change of the mean statistics by dm = C a and dC = sym(dm (x - m)'). No Cholesky factor is
        differentiated."""
        x = self.sample(key)
        mean = self.mean()

        def v_product(eta: LinearGaussianChainStats) -> Any:
            slope = eta.value + 2.0 * matvec(symmetric(eta.outer), x)
            slope = slope.at[..., :-1, :].add(matvec(eta.cross, x[..., 1:, :]))
            slope = slope.at[..., 1:, :].add(matvec(eta.cross.mT, x[..., :-1, :]))
            dm = self.with_naturals([slope, self.negative_half_precision, self.coupling]).mean()
            middle = 0.5 * (x + mean)
            squares = outer(dm, middle) + outer(middle, dm)
            first = outer(dm[..., :-1, :], middle[..., 1:, :])
            second = outer(middle[..., :-1, :], dm[..., 1:, :])
            return self.fisher_solve(LinearGaussianChainStats(dm, squares, first + second))

        return self.stats(x), v_product

    def _map_draws(self, f: Callable, x: Float[Array, "*shape_batch T D"]) -> Array:
        """f(draws, *potentials) for each chain of the batch; the axes of the draws come before the
        batch axes."""
        batch = len(self.batch_shape)
        extra = x.ndim - self.linear.ndim
        leading = tuple(range(extra))
        trailing = tuple(range(batch, batch + extra))
        draws = jnp.moveaxis(x, leading, trailing)
        values = map_batch(f, batch)(draws, *self._potentials())
        return jnp.moveaxis(values, trailing, leading)

    def _zero_padding(self, x: Float[Array, "*shape_batch T D"]) -> Array:
        """x with zeros on padded steps."""
        if self.mask is None:
            return x
        return jnp.where(self.mask[..., None], x, 0.0)

    def _potentials(self) -> chains.Potentials:
        """The potentials; on padded steps potentials that add nothing to A."""
        potentials = self.linear, self.negative_half_precision, self.coupling
        if self.mask is None:
            return potentials
        return chains.mask_potentials(potentials, self.mask)

    def _map_chains(self, f: Any) -> Any:
        """f(mask, *potentials) for each chain of the batch."""
        return map_batch(f, len(self.batch_shape))(self.mask, *self._potentials())
