"""A chain of T Gaussian vectors as one family: the posterior of a linear-Gaussian state-space
model.

A is the Kalman filter in information form, its gradient the smoother
(`vijax.families.chain.gaussian_chains`). All is O(T D^3), and nothing has the size of the joint
covariance. Sequences of unequal lengths are padded to T steps; `mask` (*batch, T) is true on the
steps that exist, which come first. Padded steps have no effect."""

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
    """A Gaussian Markov chain, natural parameters the blocks of its information form; event axes
    last.

    log h(x) = 0;  t = (x, outers(x, x), outers(x[:-1], x[1:]));
    natural parameters (linear, negative_half_precision, coupling).

    `negative_half_precision` is read through its symmetric part, on whose complement F is zero.

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
        (*batch, t, d), got = h.shape, (square.shape, cross.shape)
        require(
            got[0] == (*batch, t, d, d),
            "negative_half_precision",
            f"shape {(*batch, t, d, d)}",
            got[0],
        )
        require(
            got[1] == (*batch, t - 1, d, d), "coupling", f"shape {(*batch, t - 1, d, d)}", got[1]
        )
        require(jnp.isfinite(h), "linear", "finite numbers", h)
        require(jnp.isfinite(cross), "coupling", "finite numbers", cross)
        q = cls(h, symmetric(square), cross)
        ok = q.in_domain().linear
        require(
            ok,
            "negative_half_precision",
            "blocks whose joint precision is positive definite",
            square,
        )
        return q

    @classmethod
    def from_dynamics(
        cls, initial_mean: Any, initial_cov: Any, transition: Any, noise_cov: Any, num_steps: int
    ) -> Self:
        """Chains with x_1 ~ N(initial_mean, initial_cov), x_{t+1} ~ N(transition x_t, noise_cov),
        for vectors in R^D.

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
        return cls(
            linear, -0.5 * precision, jnp.broadcast_to(a.T @ step, (num_steps - 1, *a.shape))
        )

    @property
    def cov(self) -> Float[Array, "*batch T D D"]:
        """The marginal covariance of each step."""
        return self._each(lambda mask, *p: chains.chain_marginals(chains.filtered(p), p[2])[1])

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A, by block elimination."""
        return self._each(lambda mask, *p: chains.chain_log_normalizer(chains.filtered(p)))

    def stats(self, x: Any) -> LinearGaussianChainStats:
        x = as_float(x)
        x = x if self.mask is None else jnp.where(self.mask[..., None], x, 0.0)
        return LinearGaussianChainStats(
            x, outer_statistic(x, x), outer_statistic(x[..., :-1, :], x[..., 1:, :])
        )

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch T D"]:
        """Paths, by backward sampling: pathwise differentiable."""
        noise = jax.random.normal(key, shape + self.linear.shape, self.linear.dtype)
        paths = self._draw_by_draw(
            lambda noise, *p: chains.chain_sample(chains.filtered(p), p[2], noise), noise
        )
        return paths if self.mask is None else jnp.where(self.mask[..., None], paths, 0.0)

    def mean(self) -> Float[Array, "*batch T D"]:
        return self.expected_stats().value

    def marginal_laws(self) -> NormalLaw:
        return NormalLaw(self.mean(), jnp.sqrt(jnp.diagonal(self.cov, axis1=-2, axis2=-1)))

    def mode(self) -> Float[Array, "*batch T D"]:
        return self.mean()

    def in_domain(self) -> Self:
        """Block elimination meets positive definite blocks only, and the location is finite."""

        def one(mask: Any, *p: Any) -> Array:
            factors = chains.filtered(p).factor
            return jnp.all(jnp.isfinite(factors)) & jnp.all(jnp.isfinite(p[0]))

        return domain_mask(self._each(one), self)

    def expected_stats(self) -> LinearGaussianChainStats:
        """The smoothed moments, by a pass back (Rauch, Tung and Striebel)."""
        moments = lambda mask, *p: chains.chain_moments(chains.filtered(p), p[2], mask)
        return LinearGaussianChainStats(*self._each(moments))

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), as the product of x_t given x_{t+1}: no difference of large numbers."""
        if self.mask is not None:
            return super().log_prob(x)
        return self._draw_by_draw(
            lambda x, *p: chains.chain_log_prob(chains.filtered(p), p[2], x), as_float(x)
        )

    def entropy(self) -> Float[Array, "*batch"]:
        return self._each(lambda mask, *p: chains.chain_entropy(chains.filtered(p), mask))

    def negative_conjugate(self, mean: LinearGaussianChainStats) -> Float[Array, "*batch"]:
        """The entropy, as log h is 0. A precise path has precisions of 10,000 and more, and A and
        <lambda, mu> are then so large that their difference in float32 lacks the digits that
        coordinate ascent is judged by."""
        return self.entropy()

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """Step by step, with no difference of large numbers (`chain_kl`)."""
        other = self.with_naturals(other)  # in the same mask
        return map_batch(chains.chain_kl, len(self.batch_shape))(
            self._potentials(), other._potentials()
        )

    def fisher_solve(self, cotangent: LinearGaussianChainStats) -> Self:
        """F^-1 g: the derivative along g of the natural parameters as a function of the mean
        parameters, which a chain has in closed form (`chain_from_moments`)."""
        require(
            self.mask is None,
            "mask",
            "a chain without padding: F of a padded one is singular",
            "a mask",
        )
        g = tuple(cotangent._replace(outer=symmetric(cotangent.outer)))
        solve_one = lambda moments, g: jax.jvp(chains.chain_from_moments, (moments,), (g,))[1]
        return self.with_naturals(
            map_batch(solve_one, len(self.batch_shape))(tuple(self.expected_stats()), g)
        )

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[LinearGaussianChainStats, Callable[..., Self]]:
        """t(x) of a draw, and V along the transport of the multivariate normal, dx = dm + dC C^-1
        (x - m) / 2, C the joint covariance: with a the slope of <eta, t> at x, F V eta is the
        change of the mean statistics by dm = C a and dC = sym(dm (x - m)'). No Cholesky factor is
        differentiated."""
        x, mean = self.sample(key), self.mean()

        def v_product(eta: LinearGaussianChainStats) -> Any:
            slope = eta.value + 2.0 * matvec(symmetric(eta.outer), x)
            slope = slope.at[..., :-1, :].add(matvec(eta.cross, x[..., 1:, :]))
            slope = slope.at[..., 1:, :].add(matvec(eta.cross.mT, x[..., :-1, :]))
            dm = self.with_naturals([slope, self.negative_half_precision, self.coupling]).mean()
            middle = 0.5 * (x + mean)
            first, second = outer(dm, middle), outer(middle, dm)
            pairs = outer(dm[..., :-1, :], middle[..., 1:, :]) + outer(
                middle[..., :-1, :], dm[..., 1:, :]
            )
            return self.fisher_solve(LinearGaussianChainStats(dm, first + second, pairs))

        return self.stats(x), v_product

    def _draw_by_draw(self, f: Callable, x: Float[Array, "*shape_batch T D"]) -> Array:
        """f(draws, potentials of one chain) for every chain; the axes of draws lead those of the
        batch."""
        batch, extra = len(self.batch_shape), x.ndim - self.linear.ndim
        ahead, behind = tuple(range(extra)), tuple(range(batch, batch + extra))
        found = map_batch(f, batch)(jnp.moveaxis(x, ahead, behind), *self._potentials())
        return jnp.moveaxis(found, behind, ahead)

    def _potentials(self) -> chains.Potentials:
        """The potentials, those of padded steps replaced by ones that add nothing to A."""
        potentials = self.linear, self.negative_half_precision, self.coupling
        return potentials if self.mask is None else chains.masked(potentials, self.mask)

    def _each(self, f: Any) -> Any:
        """f(mask, potentials of one chain) for every chain."""
        return map_batch(f, len(self.batch_shape))(self.mask, *self._potentials())
