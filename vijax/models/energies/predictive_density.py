"""The log predictive density of new groups of data under a fitted log density."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.contract.array_checks import check_finite, check_lengths, check_numbers
from vijax.contract.intake import array
from vijax.contract.model import Estimates, Hyper
from vijax.evaluate.score import HeldOut
from vijax.inference.guides import Z
from vijax.xla.compiler import cached_program, step_jit

NUM_DRAWS = 1000


def predictive_density(
    density: Any, hyper: Hyper, q: Estimates, data: PyTree, key: PRNGKeyArray
) -> HeldOut:
    """log E_q[p(group | values)] of each group, with E_q replaced by the mean over `NUM_DRAWS`
    draws.

    The logarithm of the mean over draws is too low by half the variance of p / E[p] over the number
    of draws. This is little, unless a group holds as much information on the variables as all the
    data before it. Raises ValueError for data that are not finite numbers or of unequal
    lengths."""
    check_numbers(data)
    check_finite(data)
    check_lengths(data)
    z = q[Z].sample(key, (NUM_DRAWS,))  # type: ignore[union-attr]
    program = cached_program(
        density, "predictive density", lambda of: step_jit(_predictive_program(of))
    )
    return HeldOut.of(
        np.asarray(program(hyper, z, density.as_read(jax.tree.map(array, data))), np.float64)
    )


def _predictive_program(of: weakref.ref[Any]) -> Callable[..., Float[Array, " groups"]]:
    def log_predictive(
        hyper: Hyper, draws: Float[Array, "draws D"], data: PyTree
    ) -> Float[Array, " groups"]:
        density: Any = of()

        def add(total: Array, z: Array) -> tuple[Array, None]:
            return jnp.logaddexp(total, density.log_liks_at(density.point(hyper, z), data)), None

        nothing = jnp.full(jax.tree.leaves(data)[0].shape[0], -jnp.inf, draws.dtype)
        total, _ = jax.lax.scan(add, nothing, draws)
        return total - jnp.log(len(draws))

    return log_predictive
