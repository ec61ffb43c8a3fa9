"""Restarts that are stopped and go on: bit for bit the run that never was."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi

Y = np.concatenate([np.random.default_rng(0).normal(c, 1, (20, 1)) for c in (-5, 0, 5)]).astype(np.float32)
ALG = vi.svi(
    vi.models.mixture(vi.models.emission.unit_gaussian(3, 1), init=vi.init.random_responsibilities(0.5)), num_groups=60
)
KEY = jax.random.key(0)


def run(num_steps, **more):
    kept = []
    keep = lambda seen: kept.append(jax.tree.map(jnp.copy, seen.whole))
    fit = vi.fit(
        ALG, Y, num_steps=num_steps, batch_size=20, restarts=4, key=KEY, callbacks=[keep], steps_per_chunk=5, **more
    )
    return fit, kept[-1] if kept else None


def test_a_run_in_two_parts_equals_a_run_in_one_and_picks_the_same_restart():
    whole, _ = run(20)
    _, half = run(10)
    parts, end = run(20, state=half)
    assert parts.trace["restart_elbo"].shape == (10, 4)
    for a, b in zip(jax.tree.leaves(whole.state), jax.tree.leaves(parts.state), strict=True):
        np.testing.assert_array_equal(a, b)
    again, _ = run(20, state=end)  # nothing is left to do, and the best is still known
    for a, b in zip(jax.tree.leaves(whole.state), jax.tree.leaves(again.state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_number_of_restarts_is_that_of_the_state():
    _, half = run(10)
    with pytest.raises(ValueError, match="restarts: expected 4, as in `state`, got 1"):
        vi.fit(ALG, Y, num_steps=20, batch_size=20, state=half, key=KEY)
