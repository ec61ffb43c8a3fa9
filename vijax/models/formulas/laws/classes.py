"""Laws of classes: successes, and categories with or without an order."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import expit, softmax

from vijax.families.numeric.classes import log_sum_exp_classes
from vijax.families.numeric.logistic import softplus
from vijax.families.numeric.special import log_gamma
from vijax.inference.likelihood import Likelihood
from vijax.models.formulas.laws.law import Aux


def binomial(aux: Aux, trials: Any) -> Likelihood:
    """Successes among trials, with the chance sigmoid(eta)."""

    def log_prob(y: Any, z: Array) -> Array:
        log_ways = log_gamma(trials + 1.0) - log_gamma(y + 1.0) - log_gamma(trials - y + 1.0)
        return y * z - trials * softplus(z) + log_ways

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        successes = jax.random.binomial(key, jnp.broadcast_to(trials, z.shape), jax.nn.sigmoid(z))
        return successes.astype(z.dtype)

    return Likelihood(log_prob, "binomial", sample=sample)


def bernoulli(aux: Aux, trials: Any) -> Likelihood:
    """0 or 1, with the chance sigmoid(eta) of 1."""
    draw = lambda key, z: jax.random.bernoulli(key, jax.nn.sigmoid(z)).astype(z.dtype)
    return Likelihood(lambda y, z: y * z - softplus(z), "bernoulli", sample=draw)


def categorical(aux: Aux, trials: Any) -> Likelihood:
    """log p(y = k) = eta_k - log(1 + sum_j e^eta_j), eta_0 = 0 of the base (McFadden 1974, equation
    12)."""
    with_base = lambda z: jnp.concatenate([jnp.zeros((*z.shape[:-1], 1), z.dtype), z], -1)

    def log_prob(y: Any, z: Float[Array, " *C"]) -> Array:
        # Category by category: compilers do not vectorise sums over so short an axis.
        predictors = list(z.reshape(-1))
        log_odds = sum(jnp.where(y == k, x, 0.0) for k, x in enumerate(predictors, 1))
        return log_odds - log_sum_exp_classes([jnp.zeros_like(predictors[0]), *predictors])

    sample = lambda key, z: jax.random.categorical(key, with_base(z)).astype(z.dtype)
    return Likelihood(log_prob, "categorical", sample=sample)


def multinomial(aux: Aux, trials: Any) -> Likelihood:
    """Counts by category, (K,), with the probabilities of `categorical`."""

    def log_prob(y: Float[Array, " K"], z: Float[Array, " C"]) -> Array:
        predictors = list(z.reshape(-1))
        log_total = log_sum_exp_classes([jnp.zeros_like(predictors[0]), *predictors])
        log_ways = log_gamma(jnp.sum(y) + 1.0) - jnp.sum(log_gamma(y + 1.0))
        return y[1:] @ z.reshape(-1) - jnp.sum(y) * log_total + log_ways

    def sample(key: PRNGKeyArray, z: Float[Array, "*rows C"]) -> Float[Array, "*rows K"]:
        p = jax.nn.softmax(jnp.concatenate([jnp.zeros((*z.shape[:-1], 1), z.dtype), z], -1))
        shares = p / jnp.flip(jnp.cumsum(jnp.flip(p, -1), -1), -1)  # of the remainder
        remainder = jnp.broadcast_to(jnp.asarray(trials, z.dtype), z.shape[:-1])
        counts = []
        for k, category_key in enumerate(jax.random.split(key, z.shape[-1])):
            counts.append(
                jax.random.binomial(category_key, remainder, shares[..., k]).astype(z.dtype)
            )
            remainder = remainder - counts[-1]
        return jnp.stack([*counts, remainder], -1)

    return Likelihood(log_prob, "multinomial", sample=sample)


def ordered_probabilities(aux: Aux, eta: Any) -> Any:
    """Probabilities of ordered categories."""
    below = expit(aux["threshold"] - eta[..., None])
    ends = np.zeros((*below.shape[:-1], 1))
    return np.diff(np.concatenate([ends, below, 1 + ends], -1))


def named_probabilities(aux: Aux, eta: Any) -> Any:
    """Probabilities of categories; the base comes first."""
    return softmax(np.concatenate([np.zeros((*eta.shape[:-1], 1)), eta], -1), -1)


def stopping(aux: Aux, trials: Any) -> Likelihood:
    """P(y = k | y >= k) = sigmoid(threshold_k - eta - s_k), s_k the effects of the step's own (the
    stopping ratio of Tutz 1990, section 2; signs as in brms)."""
    cuts = jnp.asarray(aux["threshold"])

    def log_odds(z: Array) -> Array:
        return cuts - jnp.asarray(z)[..., None] - own_shifts(aux, jnp)

    def log_prob(y: Any, z: Array) -> Array:
        odds, steps = log_odds(z), jnp.arange(len(cuts))
        stop = jnp.where(steps == jnp.asarray(y)[..., None], -softplus(-odds), 0.0)
        return jnp.sum(
            stop + jnp.where(steps < jnp.asarray(y)[..., None], -softplus(odds), 0.0), -1
        )

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        odds = log_odds(z)
        goes_on = jax.random.logistic(key, odds.shape, odds.dtype) > odds
        return jnp.sum(jnp.cumprod(goes_on, -1), -1).astype(odds.dtype)

    return Likelihood(log_prob, "stopping ratio", sample=sample)


def stopping_probabilities(aux: Aux, eta: Any) -> Any:
    """Probabilities of categories of the stopping ratio."""
    stop = expit(aux["threshold"] - eta[..., None] - own_shifts(aux, np))
    reach = np.concatenate([np.ones((*stop.shape[:-1], 1)), np.cumprod(1 - stop, -1)], -1)
    return reach * np.concatenate([stop, np.ones((*stop.shape[:-1], 1))], -1)


def shift_name(step: int) -> str:
    """The name of the effects of a step's own among the parameters of a law."""
    return f"cs[{step}]"


def own_shifts(aux: Aux, xp: Any) -> Any:
    """The effects of each step's own, (..., steps); zero without them. `xp` is `jax.numpy` or
    `numpy`."""
    count = sum(name.startswith("cs[") for name in aux)
    if not count:
        return 0.0
    return xp.stack([xp.asarray(aux[shift_name(step)]) for step in range(count)], -1)
