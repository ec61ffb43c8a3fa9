"""Gaussian chains of T vectors by their information-form potentials: the functions that the
`LinearGaussianChain` family and any hand-written state-space bound share.

    q(x) = exp{sum_t <linear_t, x_t> + <square_t, x_t x_t'> + sum_t <cross_t, x_t x_{t+1}'> - A}

of shapes (T, D), (T, D, D), (T-1, D, D). The precision matrix has the blocks -(square_t +
square_t') on its diagonal and -cross_t above it; one pass of block elimination gives A and its
derivatives (the Kalman filter in information form), and a second pass back the marginals (Rauch,
Tung and Striebel). Sequences of unequal lengths are padded to one T: `masked` replaces the
potentials of padded steps by those of independent normals whose log-normaliser is zero, so that
they add nothing to A or its gradient; `chain_entropy` and `chain_moments` take the mask too.

These functions take one sequence; map them over a batch by `jax.vmap`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from vijax.families.vector.matrices import (
    excess_of_ratio,
    half_log_det,
    inverse,
    matvec,
    outer,
    solve,
    solve_lower,
    solve_upper,
)

Potentials = tuple[Float[Array, "T D"], Float[Array, "T D D"], Float[Array, "S D D"]]


class Filtered(NamedTuple):
    """The law of each x_t given x_{t+1}: N(L'^-1 (whitened + L^-1 cross x_{t+1}), (L L')^-1)."""

    factor: Float[Array, "T D D"]  # L, Cholesky factors of the conditional precisions
    whitened: Float[Array, "T D"]  # L^-1 times the conditional location


def masked(potentials: Potentials, mask: Bool[Array, " T"]) -> Potentials:
    """The potentials with padded steps (mask false; they come last) cut off and normalised.

    >>> mask = jnp.array([True, False, False])
    >>> spoilt = jnp.full((3, 1), jnp.nan).at[0].set(0.0)
    >>> chain = masked((spoilt, -0.5 + spoilt[..., None], jnp.ones((2, 1, 1))), mask)
    >>> print(f"{chain_log_normalizer(filtered(chain)):.4f}")  # log(2 pi) / 2: the one step that exists
    0.9189
    """
    linear, square, cross = potentials
    neutral = -math.pi * jnp.eye(linear.shape[-1], dtype=square.dtype)
    linear, square = (
        jnp.where(mask[..., None], linear, 0.0),
        jnp.where(mask[..., None, None], square, neutral),
    )
    return linear, square, jnp.where(mask[..., 1:, None, None], cross, 0.0)


def filtered(potentials: Potentials) -> Filtered:
    """Block elimination from the first step to the last."""
    linear, square, cross = potentials
    precision = -(square + square.mT)

    def step(
        carry: tuple[Array, Array], inputs: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], Filtered]:
        location, lam = carry
        cross, next_location, next_precision = inputs
        factor = jnp.linalg.cholesky(lam)
        whitened, gain = solve_lower(factor, location), solve(factor, cross)
        carry = next_location + matvec(gain.mT, whitened), next_precision - gain.mT @ gain
        return carry, Filtered(factor, whitened)

    (location, lam), body = lax.scan(
        step, (linear[0], precision[0]), (cross, linear[1:], precision[1:])
    )
    factor = jnp.linalg.cholesky(lam)
    last = Filtered(factor, solve_lower(factor, location))
    return jax.tree.map(lambda xs, x: jnp.concatenate([xs, x[None]]), body, last)


def chain_log_normalizer(chain: Filtered) -> Float[Array, ""]:
    """A = sum_t |whitened_t|^2 / 2 - log|L_t| + D log(2 pi) / 2."""
    dim = chain.whitened.shape[-1]
    half_square = 0.5 * (jnp.sum(chain.whitened**2, -1) + dim * math.log(2 * math.pi))
    return jnp.sum(half_square - half_log_det(chain.factor))


def chain_entropy(chain: Filtered, mask: Bool[Array, " T"] | None = None) -> Float[Array, ""]:
    """Entropy in nats: the sum of the entropies of the conditionals, over the steps that exist."""
    d = chain.whitened.shape[-1]
    terms = 0.5 * d + 0.5 * d * math.log(2 * math.pi) - half_log_det(chain.factor)
    return jnp.sum(terms if mask is None else jnp.where(mask, terms, 0.0))


def chain_marginals(chain: Filtered, cross: Float[Array, "S D D"]) -> Potentials:
    """E[x_t], Cov[x_t] and Cov[x_t, x_{t+1}] of every step, by one pass back, as sums of positive
    terms."""

    def step(
        carry: tuple[Array, Array], inputs: tuple[Filtered, Array]
    ) -> tuple[tuple[Array, Array], tuple]:
        (mean, cov), (here, cross) = carry, inputs
        gain = solve(here.factor, solve(here.factor, cross), trans=1)
        earlier = solve_upper(here.factor, here.whitened) + matvec(gain, mean)
        across = gain @ cov
        carry = earlier, inverse(here.factor) + across @ gain.mT
        return carry, (*carry, across)

    last = jax.tree.map(lambda x: x[-1], chain)
    end = solve_upper(last.factor, last.whitened), inverse(last.factor)
    body = jax.tree.map(lambda x: x[:-1], chain)
    means, covs, across = lax.scan(step, end, (body, cross), reverse=True)[1]
    return jnp.concatenate([means, end[0][None]]), jnp.concatenate([covs, end[1][None]]), across


def chain_moments(
    chain: Filtered, cross: Float[Array, "S D D"], mask: Bool[Array, " T"] | None = None
) -> Potentials:
    """E[x_t], E[x_t x_t'] and E[x_t x_{t+1}'] of every step; zero where a step does not exist."""
    means, covs, across = chain_marginals(chain, cross)
    moments = means, covs + outer(means, means), across + outer(means[:-1], means[1:])
    if mask is None:
        return moments
    exists = mask[:, None], mask[:, None, None], mask[1:, None, None]
    return tuple(jnp.where(m, x, 0.0) for m, x in zip(exists, moments, strict=True))  # type: ignore[return-value]


def chain_sample(
    chain: Filtered, cross: Float[Array, "S D D"], noise: Float[Array, "*shape T D"]
) -> Float[Array, "*shape T D"]:
    """Draws, from the last step back, pathwise differentiable in standard normal `noise`; zeros
    give the mean."""
    noise = jnp.moveaxis(noise, -2, 0)

    def step(later: Array, inputs: tuple[Filtered, Array, Array]) -> tuple[Array, Array]:
        here, cross, noise = inputs
        x = solve_upper(
            here.factor, here.whitened + solve_lower(here.factor, matvec(cross, later)) + noise
        )
        return x, x

    last, body = jax.tree.map(lambda x: x[-1], chain), jax.tree.map(lambda x: x[:-1], chain)
    end = solve_upper(last.factor, last.whitened + noise[-1])
    xs = lax.scan(step, end, (body, cross, noise[:-1]), reverse=True)[1]
    return jnp.moveaxis(jnp.concatenate([xs, end[None]]), 0, -2)


def chain_kl(potentials: Potentials, other_potentials: Potentials) -> Float[Array, ""]:
    """KL(q || p) of two chains: the sum over t of the mean divergence between the two laws of x_t
    given x_{t+1}. These laws are normals, of precisions L L' and L^ L^' and of means that differ by
    (G - G^) x_{t+1} + c, so that

        KL = sum_t [tr S - D - log|S| + tr{R_t Cov_q[x_{t+1}] R_t'}] / 2 + (m - m^)' P^ (m - m^) /
        2,

    with S = L^ L^' (L L')^-1, R_t = L^' (G - G^), and P^ the precision of p. No term is
    negative."""
    chain, other = filtered(potentials), filtered(other_potentials)
    cross, other_cross = potentials[2], other_potentials[2]
    means, covs, _ = chain_marginals(chain, cross)
    gap = other.factor[:-1].mT @ solve(chain.factor[:-1], solve(chain.factor[:-1], cross), trans=1)
    gap = gap - solve(other.factor[:-1], other_cross)
    moved = jnp.sum((gap @ jnp.linalg.cholesky(covs[1:])) ** 2)
    shift = _squared_shift(potentials, other_potentials, means)
    return 0.5 * (jnp.sum(excess_of_ratio(chain.factor, other.factor)) + shift + moved)


def _squared_shift(
    potentials: Potentials, other: Potentials, means: Float[Array, "T D"]
) -> Float[Array, ""]:
    """(m - m^)' P^ (m - m^) = r' P^^-1 r, r = P^ (m^ - m) = h^ - h - (P^ - P) m: the difference of
    the potentials, not of the means, which lie close together where they are many standard
    deviations from zero."""
    linear, square, cross = (new - old for new, old in zip(other, potentials, strict=True))
    pulled = linear + matvec(square + square.mT, means)
    pulled = pulled.at[:-1].add(matvec(cross, means[1:])).at[1:].add(matvec(cross.mT, means[:-1]))
    return jnp.sum(filtered((pulled, *other[1:])).whitened ** 2)


def chain_log_prob(
    chain: Filtered, cross: Float[Array, "S D D"], x: Float[Array, "*shape T D"]
) -> Array:
    """log q(x), step by step, from the noise L' (x_t - E[x_t | x_{t+1}]): no difference of large
    numbers."""
    pull = jnp.concatenate([matvec(cross, x[..., 1:, :]), jnp.zeros_like(x[..., :1, :])], -2)
    noise = matvec(chain.factor.mT, x) - chain.whitened - solve_lower(chain.factor, pull)
    half_log_two_pi = 0.5 * noise.shape[-1] * math.log(2 * math.pi)
    return -0.5 * jnp.sum(noise**2, (-2, -1)) - jnp.sum(
        half_log_two_pi - half_log_det(chain.factor)
    )


def chain_from_moments(moments: Potentials) -> Potentials:
    """The potentials of the chain that has these E[x_t], E[x_t x_t'], E[x_t x_{t+1}']: the inverse
    of `chain_moments`.

    A chain's precision is the sum of those of its neighbouring pairs less those of the steps that
    two pairs share."""
    mean, square, pair = moments
    cov, across = square - outer(mean, mean), pair - outer(mean[:-1], mean[1:])
    joint = jnp.concatenate(
        [jnp.concatenate([cov[:-1], across], -1), jnp.concatenate([across.mT, cov[1:]], -1)], -2
    )
    d = mean.shape[-1]
    precisions, shared = (inverse(jnp.linalg.cholesky(x)) for x in (joint, cov))
    precision = shared.at[1:-1].multiply(-1.0) if len(mean) > 1 else shared
    if len(mean) > 1:
        precision = precision.at[jnp.array([0, -1])].set(0.0)
        precision = precision.at[:-1].add(precisions[:, :d, :d]).at[1:].add(precisions[:, d:, d:])
    upper = precisions[:, :d, d:]
    linear = matvec(precision, mean)
    linear = linear.at[:-1].add(matvec(upper, mean[1:])).at[1:].add(matvec(upper.mT, mean[:-1]))
    return linear, -0.5 * precision, -upper
