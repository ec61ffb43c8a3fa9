"""Tables of gammas stored row by row: what a batch sees, what a step leaves, and what is
refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vijax.families import Gamma
from vijax.families.scalar.gamma_by_row import GammaByRow

RNG = np.random.default_rng(0)
V, K = 7, 3
SHAPE, RATE = RNG.gamma(1.0, 1.0, (2, V, K)) + 0.3
WORDS = jnp.array([1, 4, 5, 7, 8])  # two are padding


def stored(rng=RNG):
    q = GammaByRow.from_law(
        Gamma(jnp.asarray(SHAPE), -jnp.asarray(RATE)), jnp.asarray(0.3), jnp.asarray(0.8)
    )
    return jax.tree.map(jnp.asarray, q)


def test_columns_have_the_statistics_of_the_table(monkeypatch):
    """Also where the last block of rows begins in the one before it."""
    monkeypatch.setattr("vijax.families.scalar.gamma_by_row.BLOCK", 3 * K)
    with jax.enable_x64(True):
        found = stored().columns(WORDS).expected_stats()
        dense = Gamma(jnp.asarray(SHAPE), -jnp.asarray(RATE)).expected_stats()
        np.testing.assert_allclose(found.log[:3], dense.log[WORDS[:3]], rtol=1e-12)
        np.testing.assert_allclose(found.by_column, dense.value.sum(0), rtol=1e-12)
        np.testing.assert_allclose(found.by_row, dense.value.sum(1), rtol=1e-12)
        assert np.all(np.isfinite(found.log))


@pytest.mark.parametrize("kept", [0.9, 1e-7, 0.0])
def test_steps_are_those_of_the_whole_table(kept):
    """Three steps by hand: messages of shapes to three rows, of rates to all. The scale is folded
    where it is small."""
    with jax.enable_x64(True):
        q, shape, rate = stored(), SHAPE, RATE
        for _ in range(3):
            of_shapes, of_columns, of_rows = (
                RNG.gamma(1.0, size=(5, K)),
                RNG.gamma(1.0, size=K),
                RNG.gamma(1.0, size=V),
            )
            prior, at = q.prior_columns(WORDS), q.columns(WORDS)
            message = at.with_naturals((of_shapes, -of_columns, -of_rows))
            to = at.with_naturals(
                [
                    kept * x + (1 - kept) * (p + m)
                    for x, p, m in zip(*map(parts, (at, prior, message)), strict=True)
                ]
            )
            assert all(bool(jnp.all(x)) for x in parts(to.in_domain()))
            q = q.with_columns(WORDS, to, jnp.asarray(kept), jnp.array(True))
            full = np.zeros((V, K))
            full[WORDS[:3]] = of_shapes[:3]
            shape = kept * shape + (1 - kept) * (0.3 + full)
            rate = kept * rate + (1 - kept) * (0.8 + of_columns + of_rows[:, None])
            np.testing.assert_allclose(q.dense().shape, shape, rtol=1e-12)
            np.testing.assert_allclose(q.dense().rate, rate, rtol=1e-12)
        assert q.scale >= 1e-12
        same = q.with_columns(WORDS, to, jnp.ones(()), jnp.array(False))
        np.testing.assert_array_equal(same.entries, q.entries)
        prior = Gamma.from_shape_rate(0.3 * np.ones((V, K)), 0.8)
        np.testing.assert_allclose(q.divergence_from_base(), q.dense().kl(prior), rtol=1e-12)


def parts(q):
    return q.shape, q.negative_column_rate, q.negative_row_rate


def test_the_columns_of_a_step_are_no_law_of_all_rows():
    with pytest.raises(NotImplementedError, match=r"state\.posterior\.plain"):
        stored().columns(WORDS).mean()
