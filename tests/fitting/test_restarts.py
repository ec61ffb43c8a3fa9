"""Restarts that are stopped and go on: bit for bit the run that never was."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.fitting.restarts import WINDOW, many

Y = np.concatenate([np.random.default_rng(0).normal(c, 1, (20, 1)) for c in (-5, 0, 5)]).astype(
    np.float32
)
ALG = vi.svi(
    vi.models.mixture(
        vi.models.emission.unit_gaussian(3, 1), init=vi.init.random_responsibilities(0.5)
    ),
    num_groups=60,
)
KEY = jax.random.key(0)


def run(num_steps, **more):
    kept = []
    keep = lambda seen: kept.append(jax.tree.map(jnp.copy, seen.whole))
    fit = vi.fit(
        ALG,
        Y,
        num_steps=num_steps,
        batch_size=20,
        restarts=4,
        key=KEY,
        callbacks=[keep],
        steps_per_chunk=5,
        **more,
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
    with pytest.raises(ValueError, match=naming("restarts:", "4", "`state`", "1")):
        vi.fit(ALG, Y, num_steps=20, batch_size=20, state=half, key=KEY)


def test_each_restart_has_draws_of_its_own_and_the_last_objectives_are_kept_in_order():
    """Two restarts from one and the same start: under SSVI-A what they report differs by their
    draws alone."""
    coin = vi.model(
        {"bias": vi.Beta.from_alpha_beta(2.0, 3.0)},
        lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    alone = vi.ssvi_a(coin, num_groups=8)
    alg = many(alone, 2)
    step, state, told = jax.jit(alg.step), alg.init(KEY), []
    for t in range(3):
        state, info = step(jax.random.fold_in(KEY, t), state, jnp.array([1.0, 0.0, 1.0]))
        told.append(np.asarray(info.elbo))
    assert np.all(np.ptp(told, axis=1) > 1e-3)
    np.testing.assert_array_equal(state.recent[:, -3:], np.transpose(told))
    assert np.all(state.recent[:, : WINDOW - 3] == np.inf)


def test_equal_starts_are_told_at_the_line_of_the_caller():
    coin = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    with pytest.warns(UserWarning, match="restarts: all 2 runs begin") as warnings:
        vi.fit(vi.cavi(coin), np.ones(3, np.float32), key=KEY, num_steps=1, restarts=2)
    assert [warning.filename for warning in warnings] == [__file__]
