"""Forward-backward in scaled float32 probabilities, and its rescue in log space, beside log space
in float64 (which `test_chains.py` checks by enumeration)."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.compilation import optimized_jit
from vijax.families.chain import chains
from vijax.families.chain.passes import scaled_passes

N, T, K = 100, 60, 4

scaled = jax.jit(jax.vmap(scaled_passes))
in_log_space = jax.jit(jax.vmap(chains._log_space_marginals))


@jax.jit
@jax.vmap
def smoothed(initial, transition, unary, mask):
    """A and its gradient, as users get them."""
    value, means = jax.value_and_grad(chains.chain_log_normalizer, (0, 1, 2))(
        initial, transition, unary, mask
    )
    return chains.Marginals(value, *means)


def exact(initial, transition, unary, mask):
    with jax.enable_x64(True):
        wide = (np.asarray(x, np.float64) for x in (initial, transition, unary))
        return jax.tree.map(np.asarray, in_log_space(*wide, mask))


def assert_close(got, want, atol: float) -> None:
    """A relative to the sizes it is a sum of, counts to how many there are; probabilities
    absolutely."""
    np.testing.assert_allclose(got.value, want.value, rtol=2e-6, atol=2e-5)
    np.testing.assert_allclose(got.initial, want.initial, atol=atol)
    np.testing.assert_allclose(got.transition, want.transition, atol=atol * T)
    np.testing.assert_allclose(got.unary, want.unary, atol=atol)


def random_chains(of_transition: float, of_unary: float) -> tuple[np.ndarray, ...]:
    """N sequences of every length from 0 to T, their potentials normal with these standard
    deviations."""
    rng = np.random.default_rng(0)
    shapes = {(N, K): of_transition, (N, K, K): of_transition, (N, T, K): of_unary}
    potentials = [(sd * rng.normal(size=shape)).astype(np.float32) for shape, sd in shapes.items()]
    return *potentials, np.arange(T) < rng.integers(0, T + 1, size=(N, 1))


@pytest.mark.parametrize("of_transition", [1.0, 10.0, 30.0, 300.0])
@pytest.mark.parametrize("of_unary", [1.0, 30.0, 1000.0])
def test_what_is_called_sound_is_right_and_the_rest_is_rescued(
    of_transition: float, of_unary: float
) -> None:
    """From mild potentials to those where one path is all there is. The rescue is as good as
    float32 log space, whose messages of size 1000 know probabilities to 1e-4."""
    args = random_chains(of_transition, of_unary)
    want = exact(*args)
    fast, sound = scaled(*args)
    here = lambda tree: jax.tree.map(lambda x: np.asarray(x)[np.asarray(sound)], tree)
    assert_close(here(fast), here(want), atol=2e-5)
    assert_close(smoothed(*args), want, atol=2e-4)
    mild = of_transition == 1.0
    assert bool(sound.all()) if mild else of_transition == 10.0 or not sound.all()


def one(initial, transition, unary, mask=None) -> tuple[np.ndarray, ...]:
    """A batch of one, padded with steps to T."""
    unary = np.asarray(unary, np.float32)
    mask = np.arange(T) < len(unary)
    unary = np.pad(unary, [(0, T - len(unary)), (0, 0)], constant_values=np.nan)
    unary = np.where(mask[:, None], unary, 0)
    return tuple(
        np.asarray(x)[None] for x in (np.float32(initial), np.float32(transition), unary, mask)
    )


def burst(price: float) -> tuple[np.ndarray, ...]:
    """State 1 costs exp(price) to enter and to leave, and for 20 steps in the middle fits better by
    12 nats each: the likeliest paths go there, though filter and smoother alike would lose them to
    underflow."""
    transition = np.full((K, K), -1.0)
    transition[1, :], transition[:, 1] = price, price
    transition[1, 1] = 0.0
    unary = np.zeros((T, K))
    unary[20:40, 1] = 12.0
    initial = np.zeros(K)
    initial[1] = price
    return one(initial, transition, unary)


@pytest.mark.parametrize(
    ("price", "sound"), [(-20.0, True), (-40.0, True), (-90.0, False), (-110.0, False)]
)
def test_a_path_that_underflows_both_ways_is_not_lost(price: float, sound: bool) -> None:
    args = burst(price)
    want = exact(*args)
    assert want.unary[0, 30, 1] > 0.99
    assert bool(scaled(*args)[1][0]) == sound
    assert_close(smoothed(*args), want, atol=2e-5)


def hard_chains() -> dict[str, tuple]:
    rng = np.random.default_rng(1)
    plain = rng.normal(size=K), rng.normal(size=(K, K)), rng.normal(size=(T, K))
    impossible = np.where(np.triu(np.ones((K, K), bool)), 0.0, -np.inf)
    outlier, jolt, blind, dead = (plain[2].copy() for _ in range(4))
    outlier[20] -= 1e5  # far from every state, but not equally far
    outlier[20] += [0.0, 40.0, -300.0, 8.0]
    jolt[20] += [0.0, 0.0, 1e4, 0.0]
    blind[20, 1:] = -np.inf
    dead[20] = -np.inf
    still = np.where(np.eye(K, dtype=bool), 0.0, -16.0)
    turning = np.where(np.roll(np.eye(K, dtype=bool), 1, axis=1), 0.0, -200.0)
    return {
        "outlier": (one(plain[0], plain[1], outlier), True),
        "an observation that leaves one state": (one(plain[0], plain[1], jolt), True),
        "left to right": (one([0.0, -np.inf, -np.inf, -np.inf], impossible, plain[2]), True),
        "no way back": (one([-np.inf] * (K - 1) + [0.0], impossible, plain[2][:7]), True),
        "log 0 in an observation": (one(plain[0], plain[1], blind), True),
        "nearly still": (one(plain[0], still, 3 * plain[2]), True),
        "a cycle, against the data": (one(plain[0], turning, 60 * plain[2]), False),
        "unnormalised": (one(plain[0] + 500, plain[1] - 800, plain[2] + 1e4), True),
        "no path at all": (one(plain[0], plain[1], dead), False),
        "one step": (one(plain[0], plain[1], plain[2][:1]), True),
        "no step": (one(plain[0], plain[1], plain[2][:0]), True),
    }


def test_hard_chains_one_by_one_and_in_one_batch() -> None:
    """In a batch the rescue of some leaves the others as they are; nothing but the sequence without
    a path is not finite, and that one says log 0."""
    cases = hard_chains()
    args = tuple(
        np.concatenate(parts) for parts in zip(*(a for a, _ in cases.values()), strict=True)
    )
    args = tuple(np.repeat(a, 10, axis=0)[:N] for a in args)  # few shapes, few compilations
    sound, got = (
        np.asarray(scaled(*args)[1])[::10],
        jax.tree.map(lambda x: np.asarray(x)[::10], smoothed(*args)),
    )
    want = jax.tree.map(lambda x: x[::10], exact(*args))
    for i, (name, (alone, expected)) in enumerate(list(cases.items())[: len(sound)]):
        assert bool(sound[i]) == expected, name
        if name == "no path at all":
            assert got.value[i] == -np.inf, name
            continue
        pick = lambda tree: jax.tree.map(lambda x: x[i : i + 1], tree)  # noqa: B023
        assert_close(pick(got), pick(want), atol=5e-5)
        for a, b in zip(pick(got), smoothed(*alone), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=name)


def test_curvature_is_that_of_log_space_where_probabilities_underflow() -> None:
    """A product with the Fisher matrix, forward and reverse, on a sound sequence and on one that is
    not."""
    rng = np.random.default_rng(2)
    for args in (burst(-20.0), burst(-90.0)):
        potentials, mask = tuple(a[0] for a in args[:3]), args[3][0]
        direction = tuple(np.float32(rng.normal(size=p.shape)) for p in potentials)
        got = curvature(potentials, direction, mask)
        with jax.enable_x64(True):
            wide = lambda tree: tuple(np.asarray(x, np.float64) for x in tree)
            want = jax.tree.map(np.asarray, curvature(wide(potentials), wide(direction), mask))
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


@jax.jit
def curvature(potentials, direction, mask):
    gradient = jax.grad(lambda p: chains.chain_log_normalizer(*p, mask))
    along = lambda p: sum(jnp.vdot(a, b) for a, b in zip(gradient(p), direction, strict=True))
    return jax.jvp(gradient, (potentials,), (direction,))[1], jax.grad(along)(potentials)


def test_log_space_is_entered_only_where_it_is_needed() -> None:
    """Always run: two loops over the steps, there and back, and the one around the rescue, which
    has two more inside. (XLA would move a rescue that did not depend on the loop's state out of it,
    and then always pay for it.)"""
    args = tuple(jnp.asarray(a) for a in burst(-20.0))
    program = optimized_jit(jax.vmap(chains.chain_marginals)).lower(*args).compile().as_text()
    parts = re.findall(
        r"^(ENTRY )?%?([\w.-]+) \(.*?\{\n(.*?)^\}", program, flags=re.MULTILINE | re.DOTALL
    )
    text = {name: body for _, name, body in parts}

    def loops(name: str) -> int:
        called = re.findall(r"(?:calls|to_apply)=%?([\w.-]+)", text[name])
        return text[name].count(" while(") + sum(map(loops, called))

    (entry,) = (name for start, name, _ in parts if start)
    assert loops(entry) == 3
    assert sum(body.count(" while(") for body in text.values()) == 5
