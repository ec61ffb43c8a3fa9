"""Densities that have no gradient, or none that is a number: told before a search begins, by the names of variables."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from vijax.automatic.target import Target
from vijax.checks import require
from vijax.contract.variables import Variables

SLOPES = (
    "jnp.where with a branch that is no number has none: make its argument safe first. sqrt and norms have none at 0."
)
NONE = "jnp.round, jnp.floor, integers and stop_gradient have none. vijax.bbvi needs none."


def check_slopes(target: Target, variables: Variables, starts: Float[np.ndarray, "starts D"]) -> None:
    """Raises ValueError where the density is finite at starts, and its gradient nowhere; or where it depends on a
    variable in which its gradient is zero at all of them."""
    values, slopes = target.asked(starts)
    usable = np.isfinite(values)
    if not usable.any():
        return  # said elsewhere
    lacking = ~np.isfinite(slopes[usable])
    if lacking.any(1).all():
        names = variables.names_at(lacking.any(0))
        require(False, "log_density", "a finite gradient at any of the starts", f"none in {names}", SLOPES)
    flat = usable.any() & (slopes[usable] == 0).all(0)
    moved = _depends(target, starts[usable], values[usable], flat)
    require(not moved.any(), "log_density", "a gradient", f"none in {variables.names_at(moved)}", NONE)


def _depends(target: Target, starts: np.ndarray, values: np.ndarray, flat: np.ndarray) -> Bool[np.ndarray, " D"]:
    """Of the coordinates in which the gradient is zero at all starts, those that the density depends on at all."""
    if not flat.any():
        return flat
    noise = np.random.default_rng(0).uniform(-2, 2, starts.shape)
    there = target.values(np.where(flat, noise, starts))
    known = np.isfinite(there)
    rounding = 100 * target.epsilon * np.maximum(np.abs(values), 1.0)
    return flat & bool((np.abs(there - values) > rounding)[known].any())
