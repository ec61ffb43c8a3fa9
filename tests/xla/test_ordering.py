"""Choices of small leaves, two at a time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vijax import tree
from vijax.xla import ordering

LEAVES = {
    "floats": jnp.array([1.0, -2.0, jnp.nan]),
    "ints": jnp.array([[3, -4]]),
    "nan": jnp.nan,
    "infinite": -jnp.inf,
    "flags": jnp.array([True, False]),
    "flag": jnp.array(True),
    "words": jnp.array([7, 8], jnp.uint32),
    "none": jnp.zeros((0, 3)),
    "zero": 0,
    "last": jnp.float32(-1.5),
}
OTHERS = jax.tree.map(lambda x: jnp.zeros_like(x), LEAVES)


@pytest.mark.parametrize("condition", [True, False])
def test_is_the_plain_choice(condition: bool) -> None:
    """Also where leaves are not finite, empty or no numbers."""
    for first, second in ((LEAVES, OTHERS), (OTHERS, LEAVES)):
        got = jax.jit(ordering.select)(jnp.array(condition), first, second)
        expected = tree.select(jnp.array(condition), first, second)
        jax.tree.map(np.testing.assert_array_equal, got, expected)
        assert [x.dtype for x in jax.tree.leaves(got)] == [
            x.dtype for x in jax.tree.leaves(expected)
        ]


def test_each_condition_of_its_own() -> None:
    conditions = jnp.array([True, False, True])
    stacked = jax.tree.map(lambda x: jnp.stack([x] * 3), (LEAVES, OTHERS))
    got = jax.vmap(ordering.select)(conditions, *stacked)
    for i, condition in enumerate(conditions):
        chosen = LEAVES if condition else OTHERS
        jax.tree.map(lambda x, y, i=i: np.testing.assert_array_equal(x[i], y), got, chosen)


def compared(size: int) -> int:
    a = [jnp.full(size, float(i)) for i in range(6)]
    text = jax.jit(ordering.select).lower(jnp.array(True), a, a[::-1]).compile().as_text() or ""
    return text.count(" compare(")


def test_small_leaves_wait_for_those_before() -> None:
    """XLA must not see that there is nothing to wait for; of large ones there is nothing."""
    assert compared(5) >= 2 * 2
    assert compared(ordering.SMALL // 6 + 1) == 0


def test_nothing_to_wait_for() -> None:
    condition = jnp.array(False)
    assert ordering.delay(condition, {}) is condition
