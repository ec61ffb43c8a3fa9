"""The program that fits regressions side by side: a search for the mode, and weighted draws about
it.

Each posterior is of few numbers x. From the mode and the curvature there, draws of a Student law
are weighed by p(x) / t(x); their weighted mean and covariance are those of the next law, twice
(Cappe, Guillin, Marin and Robert 2004, "Population Monte Carlo", section 3). While few draws have
most of the weight, the weights are taken to a power below one (Koblents and Miguez 2015). The draws
are those of a scrambled Sobol sequence, the same for all responses."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.automatic.many.stacked import join
from vijax.models.energies.density import density
from vijax.models.formulas.form import Form, FormFunction, log_lik, log_prior
from vijax.xla.compiler import step_jit

BATCHES = 512, 4096
"""Draws of a law; the last law has two such batches. Where they leave few effective draws, there
are more."""
ADAPTS = (True, True, False, False)
"""For each batch, whether its weights give the next law."""
DEGREES = 8.0
"""Degrees of freedom of the laws: their tails are heavier than those of posteriors of few rows."""
MOST_STEPS = 200
ENOUGH = 1e-7
"""A search ends if its quadratic model promises fewer nats."""
WIDE, WIDE_SHARE = 1.5, 0.5
"""A share of the draws has a law that is so many times wider: posteriors of sds are skewed."""
WIDEST = 3.0
"""Largest sd of the first law along a direction in which the curvature is small."""
POWERS = (1.0, 0.5, 0.25, 0.1, 0.03)
"""Powers of the weights, of which the largest is taken that leaves enough effective draws."""


class WeightedDraws(NamedTuple):
    """Weighted draws of the posteriors of some responses.

    Attributes:
      log_ratios: log of the density over that of the law of the draws, (R, S).
      unknowns: the unknowns by their names, (R, S) each.
      promised: nats that the search for the mode still promised, (R,).
    """

    log_ratios: Float[Array, "R S"]
    unknowns: dict[str, Float[Array, "R S"]]
    promised: Float[Array, " R"]


class Law(NamedTuple):
    """A Student law: its location, and the triangular factor of its scale."""

    mean: Float[Array, " D"]
    factor: Float[Array, "D D"]


class Noise(NamedTuple):
    """Draws of the law with location 0 and scale 1.

    Attributes:
      z: the draws.
      log_law: its log density there, up to a constant.
    """

    z: Float[np.ndarray, "batches S D"]
    log_law: Float[np.ndarray, "batches S"]


def noise(dim: int, seed: int, batch: int) -> Noise:
    """The draws of all batches, from a Sobol sequence each two batches."""
    from scipy import stats  # slow to import

    size = 2 * batch
    parts = []
    for i in range(2):
        points = stats.qmc.Sobol(dim + 2, rng=np.random.default_rng([seed, i])).random(size)
        points = np.clip(points, 1e-12, 1 - 1e-12)
        normal = stats.norm.ppf(points[:, :dim])
        shrink = stats.chi2.ppf(points[:, dim], DEGREES) / DEGREES
        scale = np.where(points[:, -1] < WIDE_SHARE, WIDE, 1.0)
        # In this order each half of the sequence is spread over the whole space.
        order = np.argsort(np.arange(size) % 2, kind="stable")
        parts.append((normal * (scale / np.sqrt(shrink))[:, None])[order])
    z = np.concatenate(parts).reshape(-1, batch, dim)
    squares = (z**2).sum(-1)
    narrow, wide = (
        math.log(share)
        - dim * math.log(scale)
        - 0.5 * (DEGREES + dim) * np.log1p(squares / (DEGREES * scale**2))
        for share, scale in ((1 - WIDE_SHARE, 1.0), (WIDE_SHARE, WIDE))
    )
    return Noise(z, np.logaddexp(narrow, wide))


@functools.lru_cache(maxsize=16)
def fit_program(shared: Form) -> tuple[int, Callable[..., WeightedDraws]]:
    """The number of unknowns, and the program (numbers, data, noise) -> weighted draws, for
    responses side by side."""
    plain = density(
        shared.variables(),
        log_prior=FormFunction(shared, log_prior),
        log_lik=FormFunction(shared, log_lik),
    )
    assert plain.log_density is not None
    variables = plain.log_density.variables

    def log_density(x: Any, numbers: Any, data: Any) -> Any:
        form = join(shared, numbers)
        values, log_det = variables.values(x)
        log_liks = jax.vmap(lambda rows: log_lik(form, values, rows))(data)
        return log_prior(form, values) + log_det + jnp.sum(log_liks)

    def fit_one(numbers: Any, data: Any, noise: Any) -> WeightedDraws:
        evaluate = lambda x: log_density(x, numbers, data)
        slopes = jax.value_and_grad(evaluate)
        mode, rough, promised = _climb(slopes, jnp.zeros(variables.dim))
        first = Law(mode, _mode_factor(lambda x: slopes(x)[1], mode, rough))
        draws, log_ratios = _draw(evaluate, first, noise)
        unknowns = jax.vmap(lambda x: join(shared, numbers).named(variables.values(x)[0]))(draws)
        return WeightedDraws(log_ratios, unknowns, promised)

    return variables.dim, step_jit(jax.vmap(fit_one, (0, 0, None)))


def _climb(slopes: Callable[..., Any], start: Array) -> tuple[Array, Array, Array]:
    """The mode by BFGS (Nocedal and Wright 2006, algorithm 6.1), the inverse of the curvature as
    the search learnt it, and the nats that it still promises."""
    dim = start.size

    def is_unfinished(state: tuple) -> Array:
        *_, size, promised, count = state
        return (promised > ENOUGH) & (count < MOST_STEPS) & (size > 1e-9)

    def step(state: tuple) -> tuple:
        x, value, slope, inverse, size, promised, count = state
        direction = inverse @ slope
        rise = slope @ direction
        new = x + size * direction
        new_value, new_slope = slopes(new)
        is_higher = jnp.isfinite(new_value) & jnp.all(jnp.isfinite(new_slope))
        is_higher &= new_value >= value + 1e-4 * size * rise
        move, bend = new - x, slope - new_slope
        curved = move @ bend
        is_curved = is_higher & (curved > 1e-12)
        safe = jnp.where(is_curved, curved, 1.0)
        scaled = jnp.where(count == 0, safe / jnp.maximum(bend @ bend, 1e-300), 1.0)
        previous = jnp.where(count == 0, jnp.eye(dim) * scaled, inverse)
        projection = jnp.eye(dim) - jnp.outer(move, bend) / safe
        updated = projection @ previous @ projection.T + jnp.outer(move, move) / safe
        inverse = jnp.where(is_curved, updated, inverse)
        x = jnp.where(is_higher, new, x)
        value = jnp.where(is_higher, new_value, value)
        slope = jnp.where(is_higher, new_slope, slope)
        size = jnp.where(is_higher, 1.0, 0.25 * size)
        promised = jnp.where(is_higher, 0.5 * slope @ inverse @ slope, promised)
        return x, value, slope, inverse, size, promised, count + 1

    value, slope = slopes(start)
    inverse = jnp.eye(dim) / (1 + jnp.linalg.norm(slope))
    state = start, value, slope, inverse, jnp.ones(()), jnp.full((), jnp.inf), 0
    x, _, _, inverse, _, promised, _ = jax.lax.while_loop(is_unfinished, step, state)
    return x, inverse, promised


def _mode_factor(gradient: Callable[..., Any], mode: Array, rough: Array) -> Array:
    """The factor of the inverse of the curvature at the mode, from differences of gradients."""
    sds = jnp.clip(jnp.sqrt(jnp.maximum(jnp.diagonal(rough), 0.0)), 1e-4, 1.0)
    steps = jnp.diag(0.1 * sds)
    next_slopes, last_slopes = jax.vmap(gradient)(mode + steps), jax.vmap(gradient)(mode - steps)
    curvature = (last_slopes - next_slopes) / (0.2 * sds)[:, None]
    curvature = jnp.where(jnp.isfinite(curvature), curvature, 0.0)
    lengths, turn = jnp.linalg.eigh(0.5 * (curvature + curvature.T))
    variances = 1 / jnp.maximum(lengths, WIDEST**-2)
    return _cholesky(turn * variances @ turn.T)


def _cholesky(covariance: Array) -> Array:
    size = jnp.trace(covariance) / covariance.shape[0]
    return jnp.linalg.cholesky(covariance + 1e-9 * size * jnp.eye(covariance.shape[0]))


def _draw(
    evaluate: Callable[..., Any], first: Law, noise: Noise
) -> tuple[Float[Array, "S D"], Float[Array, " S"]]:
    """Draws of the last law, and their log ratios."""
    dim = first.mean.size

    def batch(law: Law, inputs: tuple) -> tuple[Law, tuple]:
        z, log_z, adapts = inputs
        x = law.mean + z @ law.factor.T
        log_law = log_z - jnp.sum(jnp.log(jnp.diagonal(law.factor)))
        log_ratios = jax.vmap(evaluate)(x) - log_law
        log_ratios = jnp.where(jnp.isfinite(log_ratios), log_ratios, -jnp.inf)
        following = _next_law(x, log_ratios)
        is_better = adapts & jnp.all(jnp.isfinite(following.factor))
        law = jax.tree.map(
            lambda new, previous: jnp.where(is_better, new, previous), following, law
        )
        return law, (x, log_ratios)

    inputs = *noise, jnp.array(ADAPTS)
    _, (x, log_ratios) = jax.lax.scan(batch, first, inputs)
    last = ADAPTS.index(False)
    return x[last:].reshape(-1, dim), log_ratios[last:].reshape(-1)


def _next_law(x: Float[Array, "S D"], log_ratios: Float[Array, " S"]) -> Law:
    """The law of the weighted draws. Its covariance is that of the draws: heavier tails than theirs
    cost little."""
    size, dim = x.shape
    powers = jnp.array(POWERS)[:, None]
    weights = jax.nn.softmax(powers * log_ratios, axis=-1)
    effective = 1 / jnp.sum(weights**2, -1)
    place = jnp.argmax(effective >= min(10.0 * dim, 0.4 * size))
    place = jnp.where(jnp.all(effective < 10.0 * dim), len(POWERS) - 1, place)
    weight = weights[place]
    mean = weight @ x
    residuals = x - mean
    covariance = (weight[:, None] * residuals).T @ residuals
    return Law(mean, math.sqrt((DEGREES - 2) / DEGREES) * _cholesky(covariance))
