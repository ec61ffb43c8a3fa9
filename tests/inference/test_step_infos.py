"""What steps told, in tables."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from vijax.fitting.step_infos import InfoTables


def info(i: int) -> dict:
    return {
        "a": jnp.float32(i) / 2,
        "b": jnp.int32(i),
        "none": None,
        "c": -jnp.float32(i),
        "runs": jnp.arange(3.0) + i,
        "flag": jnp.array(i % 2 == 0),
    }


def test_rows_come_back_as_columns() -> None:
    told = InfoTables.empty(6, info(0))
    for i in range(4):
        told = jax.jit(lambda told, i, row: told.with_row(i, row))(told, i, info(i))
    got = jax.device_get(told).infos()
    assert isinstance(got["a"], np.ndarray)
    assert got["none"] is None
    for name in ("a", "b", "c", "runs", "flag"):
        expected = np.stack([info(i)[name] for i in range(4)])
        np.testing.assert_array_equal(got[name][:4], expected)
        assert got[name].dtype == expected.dtype
        assert got[name].shape == (6, *expected.shape[1:])
    assert len(jax.tree.leaves(told)) == 4  # float32, int32, float32 of three, bool
