"""Densities and draws of responses that are censored or truncated, or whose errors are known in
part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.models.formulas.laws.law import Aux, Law
from vijax.models.formulas.laws.tails import log_complement

MOST_TRIES = 1000
"""Most draws of a truncated response; after them the nearest bound stands for it."""


def with_known_errors(
    parameters: Mapping[str, Any], row: Mapping[str, Any], xp: Any
) -> dict[str, Any]:
    """The parameters of a law with the sigma of a row, or of rows: with its standard error, divided
    by the root of its precision. `xp` is `jax.numpy` or `numpy`."""
    parameters = dict(parameters)
    if "se" in row:
        parameters["sigma"] = xp.sqrt(row["se"] ** 2 + parameters.get("sigma", 0.0) ** 2)
    if "precision" in row:
        parameters["sigma"] = parameters["sigma"] / xp.sqrt(row["precision"])
    return parameters


def log_prob(law: Law, aux: Aux, row: Mapping[str, Any], eta: Any) -> Float[Array, ""]:
    """The log likelihood of a row: the density of `y`; the probability of what is known of a
    censored one; the density within bounds. Facts are those of `formulas.observation`."""
    y = row["y"]
    log_density = law.log_prob(aux, row["trials"], y, eta)
    if "status" in row:
        tails = law.find_tails(aux, y, eta)
        choices = [tails.log_cdf, log_density, tails.log_sf]
        choices.append(log_interval(law, aux, y, row["end"], eta))
        status = row["status"]
        for number, choice in enumerate(choices, -1):
            log_density = jnp.where(status == number, choice, log_density)
    if "lowest" in row or "highest" in row:
        log_density = log_density - _log_share_in_bounds(law, aux, row, eta)
    return log_density


def log_interval(law: Law, aux: Aux, low: Any, high: Any, eta: Any) -> Float[Array, ""]:
    """log P(low < Y <= high), from the tail in which both are."""
    first, second = law.find_tails(aux, low, eta), law.find_tails(aux, high, eta)
    is_upper = first.log_cdf > first.log_sf
    larger = jnp.where(is_upper, first.log_sf, second.log_cdf)
    smaller = jnp.where(is_upper, second.log_sf, first.log_cdf)
    return larger + log_complement(smaller - larger)


def _log_share_in_bounds(law: Law, aux: Aux, row: Mapping[str, Any], eta: Any) -> Float[Array, ""]:
    """The log probability that a response is seen. Counts at both bounds are seen; a bound between
    two counts is that of the count inside."""
    below, highest = row.get("lowest"), row.get("highest")
    if law.is_count and below is not None:
        below = jnp.ceil(below) - 1.0
    if law.is_count and highest is not None:
        highest = jnp.floor(highest)
    if below is None:
        return law.find_tails(aux, highest, eta).log_cdf
    if highest is None:
        return law.find_tails(aux, below, eta).log_sf
    return log_interval(law, aux, below, highest, eta)


def draw(sample: Callable[[Any], Array], row: Mapping[str, Any], key: Any) -> Array:
    """Draws of responses, (N,), within their bounds: drawn again where they are outside."""
    first = sample(key)
    if "lowest" not in row and "highest" not in row:
        return first
    low = jnp.asarray(row.get("lowest", -jnp.inf), first.dtype)
    high = jnp.asarray(row.get("highest", jnp.inf), first.dtype)
    is_outside = lambda y: (y < low) | (y > high)

    def again(state: tuple[Array, Array]) -> tuple[Array, Array]:
        count, y = state
        new = sample(jax.random.fold_in(key, count))
        return count + 1, jnp.where(is_outside(y), new, y)

    is_unfinished = lambda state: (state[0] < MOST_TRIES) & jnp.any(is_outside(state[1]))
    _, y = jax.lax.while_loop(is_unfinished, again, (jnp.asarray(0), first))
    return jnp.clip(y, low, high)
