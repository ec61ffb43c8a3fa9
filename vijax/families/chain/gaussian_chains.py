"""Gaussian chains of T vectors by their information-form potentials: the functions of the
`LinearGaussianChain` family and of hand-written state-space bounds.

    q(x) = exp{sum_t <linear_t, x_t> + <square_t, x_t x_t'> + sum_t <cross_t, x_t x_{t+1}'> - A}

of shapes (T, D), (T, D, D), (T-1, D, D). The precision matrix has the blocks -(square_t +
square_t') on its diagonal and -cross_t above it. One pass of block elimination gives A and its
derivatives (the Kalman filter in information form), and a backward pass the marginals (Rauch, Tung
and Striebel). Sequences of unequal lengths are padded to one T: `mask_potentials` makes the padded
steps independent normals whose log-normaliser is zero, so that they add nothing to A or its
gradient; `chain_entropy` and `chain_moments` take the mask too.

These functions take one sequence; map them over a batch by `jax.vmap`."""

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


class Conditionals(NamedTuple):
    """The law of each x_t given x_{t+1}: N(L'^-1 (whitened + L^-1 cross x_{t+1}), (L L')^-1)."""

    factor: Float[Array, "T D D"]  # L, Cholesky factors of the conditional precisions
    whitened: Float[Array, "T D"]  # L^-1 times the conditional location


def mask_potentials(potentials: Potentials, mask: Bool[Array, " T"]) -> Potentials:
    """The potentials with padded steps (mask false; they come last) uncoupled and of log-normaliser
    0.

    >>> mask = jnp.array([True, False, False])
    >>> padded = jnp.full((3, 1), jnp.nan).at[0].set(0.0)
    >>> chain = mask_potentials((padded, -0.5 + padded[..., None], jnp.ones((2, 1, 1))), mask)
    >>> print(f"{chain_log_normalizer(eliminate(chain)):.4f}")  # log(2 pi) / 2: the one step that exists
    0.9189
    """
    linear, square, cross = potentials
    neutral = -math.pi * jnp.eye(linear.shape[-1], dtype=square.dtype)
    linear = jnp.where(mask[..., None], linear, 0.0)
    square = jnp.where(mask[..., None, None], square, neutral)
    return linear, square, jnp.where(mask[..., 1:, None, None], cross, 0.0)


def eliminate(potentials: Potentials) -> Conditionals:
    """The laws of each x_t given x_{t+1}, by block elimination from the first step to the last."""
    linear, square, cross = potentials
    precision = -(square + square.mT)

    def step(
        carry: tuple[Array, Array], inputs: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], Conditionals]:
        location, lam = carry
        cross, next_location, next_precision = inputs
        factor = jnp.linalg.cholesky(lam)
        whitened = solve_lower(factor, location)
        gain = solve(factor, cross)
        carry = next_location + matvec(gain.mT, whitened), next_precision - gain.mT @ gain
        return carry, Conditionals(factor, whitened)

    start = linear[0], precision[0]
    (location, lam), body = lax.scan(step, start, (cross, linear[1:], precision[1:]))
    factor = jnp.linalg.cholesky(lam)
    last = Conditionals(factor, solve_lower(factor, location))
    return jax.tree.map(lambda xs, x: jnp.concatenate([xs, x[None]]), body, last)


def chain_log_normalizer(chain: Conditionals) -> Float[Array, ""]:
    """A = sum_t |whitened_t|^2 / 2 - log|L_t| + D log(2 pi) / 2."""
    dim = chain.whitened.shape[-1]
    half_square = 0.5 * (jnp.sum(chain.whitened**2, -1) + dim * math.log(2 * math.pi))
    return jnp.sum(half_square - half_log_det(chain.factor))


def chain_entropy(chain: Conditionals, mask: Bool[Array, " T"] | None = None) -> Float[Array, ""]:
    """Entropy in nats: the sum of the entropies of the conditionals over the steps that exist."""
    d = chain.whitened.shape[-1]
    terms = 0.5 * d + 0.5 * d * math.log(2 * math.pi) - half_log_det(chain.factor)
    if mask is not None:
        terms = jnp.where(mask, terms, 0.0)
    return jnp.sum(terms)


def chain_marginals(chain: Conditionals, cross: Float[Array, "S D D"]) -> Potentials:
    """E[x_t], Cov[x_t] and Cov[x_t, x_{t+1}] of every step, by one backward pass, as sums of
    positive terms."""

    def step(
        carry: tuple[Array, Array], inputs: tuple[Conditionals, Array]
    ) -> tuple[tuple[Array, Array], tuple]:
        mean, cov = carry
        law, cross = inputs
        gain = solve(law.factor, solve(law.factor, cross), trans=1)
        cross_cov = gain @ cov
        mean = solve_upper(law.factor, law.whitened) + matvec(gain, mean)
        cov = inverse(law.factor) + cross_cov @ gain.mT
        return (mean, cov), (mean, cov, cross_cov)

    body, last = _split_last(chain)
    end = solve_upper(last.factor, last.whitened), inverse(last.factor)
    means, covs, cross_covs = lax.scan(step, end, (body, cross), reverse=True)[1]
    means = jnp.concatenate([means, end[0][None]])
    return means, jnp.concatenate([covs, end[1][None]]), cross_covs


def _split_last(chain: Conditionals) -> tuple[Conditionals, Conditionals]:
    """All steps but the last, and the last step."""
    return jax.tree.map(lambda x: x[:-1], chain), jax.tree.map(lambda x: x[-1], chain)


def chain_moments(
    chain: Conditionals, cross: Float[Array, "S D D"], mask: Bool[Array, " T"] | None = None
) -> Potentials:
    """E[x_t], E[x_t x_t'] and E[x_t x_{t+1}'] of every step; zero if the step does not exist."""
    means, covs, cross_covs = chain_marginals(chain, cross)
    moments = means, covs + outer(means, means), cross_covs + outer(means[:-1], means[1:])
    if mask is None:
        return moments
    exists = mask[:, None], mask[:, None, None], mask[1:, None, None]
    return tuple(jnp.where(m, x, 0.0) for m, x in zip(exists, moments, strict=True))  # type: ignore[return-value]


def chain_sample(
    chain: Conditionals, cross: Float[Array, "S D D"], noise: Float[Array, "*shape T D"]
) -> Float[Array, "*shape T D"]:
    """Draws, from the last step back to the first, pathwise differentiable in standard normal
    `noise`; zeros give the mean."""
    noise = jnp.moveaxis(noise, -2, 0)

    def step(next_x: Array, inputs: tuple[Conditionals, Array, Array]) -> tuple[Array, Array]:
        law, cross, noise = inputs
        whitened = law.whitened + solve_lower(law.factor, matvec(cross, next_x))
        x = solve_upper(law.factor, whitened + noise)
        return x, x

    body, last = _split_last(chain)
    end = solve_upper(last.factor, last.whitened + noise[-1])
    xs = lax.scan(step, end, (body, cross, noise[:-1]), reverse=True)[1]
    return jnp.moveaxis(jnp.concatenate([xs, end[None]]), 0, -2)


def chain_kl(potentials: Potentials, other_potentials: Potentials) -> Float[Array, ""]:
    """KL(q || p) of two chains: the sum over t of the mean divergence between the two laws of x_t
    given x_{t+1}. These laws are normals with precisions L L' and L^ L^' and means that differ by
    (G - G^) x_{t+1} + c, so that

        KL = sum_t [tr S - D - log|S| + tr{R_t Cov_q[x_{t+1}] R_t'}] / 2 + (m - m^)' P^ (m - m^) / 2,

    with S = L^ L^' (L L')^-1, R_t = L^' (G - G^), and P^ the precision of p. No term is
    negative."""
    q = eliminate(potentials)
    p = eliminate(other_potentials)
    q_cross, p_cross = potentials[2], other_potentials[2]
    means, covs, _ = chain_marginals(q, q_cross)
    gain = solve(q.factor[:-1], solve(q.factor[:-1], q_cross), trans=1)
    gap = p.factor[:-1].mT @ gain - solve(p.factor[:-1], p_cross)
    spread = jnp.sum((gap @ jnp.linalg.cholesky(covs[1:])) ** 2)
    shift = _squared_shift(potentials, other_potentials, means)
    return 0.5 * (jnp.sum(excess_of_ratio(q.factor, p.factor)) + shift + spread)


def _squared_shift(
    potentials: Potentials, other: Potentials, means: Float[Array, "T D"]
) -> Float[Array, ""]:
    """(m - m^)' P^ (m - m^) = r' P^^-1 r, r = P^ (m^ - m) = h^ - h - (P^ - P) m: from the
    difference of the potentials. The difference of the means would cancel where these are many
    standard deviations from zero."""
    linear, square, cross = (x2 - x for x2, x in zip(other, potentials, strict=True))
    r = linear + matvec(square + square.mT, means)
    r = r.at[:-1].add(matvec(cross, means[1:])).at[1:].add(matvec(cross.mT, means[:-1]))
    return jnp.sum(eliminate((r, *other[1:])).whitened ** 2)


def chain_log_prob(
    chain: Conditionals, cross: Float[Array, "S D D"], x: Float[Array, "*shape T D"]
) -> Array:
    """log q(x), step by step, from the noise L' (x_t - E[x_t | x_{t+1}]), without a difference of
    large numbers."""
    pull = jnp.concatenate([matvec(cross, x[..., 1:, :]), jnp.zeros_like(x[..., :1, :])], -2)
    noise = matvec(chain.factor.mT, x) - chain.whitened - solve_lower(chain.factor, pull)
    half_log_two_pi = 0.5 * noise.shape[-1] * math.log(2 * math.pi)
    normalizer = jnp.sum(half_log_two_pi - half_log_det(chain.factor))
    return -0.5 * jnp.sum(noise**2, (-2, -1)) - normalizer


def chain_from_moments(moments: Potentials) -> Potentials:
    """The potentials of the chain with these E[x_t], E[x_t x_t'], E[x_t x_{t+1}']: the inverse of
    `chain_moments`.

    The precision of a chain is the sum of the precisions of its neighbouring pairs, less the
    precisions of the steps that two pairs share."""
    mean, square, pair = moments
    cov = square - outer(mean, mean)
    cross_cov = pair - outer(mean[:-1], mean[1:])
    upper = jnp.concatenate([cov[:-1], cross_cov], -1)
    lower = jnp.concatenate([cross_cov.mT, cov[1:]], -1)
    joint = jnp.concatenate([upper, lower], -2)
    d = mean.shape[-1]
    precisions, precision = (inverse(jnp.linalg.cholesky(x)) for x in (joint, cov))
    if len(mean) > 1:
        precision = precision.at[1:-1].multiply(-1.0)
        precision = precision.at[jnp.array([0, -1])].set(0.0)
        precision = precision.at[:-1].add(precisions[:, :d, :d]).at[1:].add(precisions[:, d:, d:])
    upper = precisions[:, :d, d:]
    linear = matvec(precision, mean)
    linear = linear.at[:-1].add(matvec(upper, mean[1:])).at[1:].add(matvec(upper.mT, mean[:-1]))
    return linear, -0.5 * precision, -upper
