"""The law of tests/families/test_float32.py on the rows of tests/families/oracles_gaussian.py:
`kl`, `entropy` and `log_prob` in float32 within 1e-3 of 50 digits (1e-4 where below 0.1), no
divergence negative, all gradients finite; and beyond the domain, right or refused."""

from __future__ import annotations

import functools
import re
from typing import Any

import jax
import numpy as np
import pytest

from tests.families.oracles import Oracle, each, exactly
from tests.families.oracles_gaussian import GAUSSIAN, WIDER
from tests.families.test_float32 import beyond, gradients, numbers

FEW, MANY = 40, 1000
DIVERGENCES = ("kl_far", "kl_near", "kl_self")


def tried(oracle: Oracle, size: int) -> tuple[list, Any]:
    """The members, those far from and near to them, and the values (of some families a pair),
    rounded to float32."""
    rng = np.random.default_rng(0)
    params = oracle.members(rng, size)
    arguments = [params, oracle.members(rng, size), oracle.near(rng, params)]
    arguments = jax.tree.map(np.float32, arguments)
    return arguments, jax.tree.map(np.float32, oracle.values(rng, arguments[0]))


def values_one_by_one(x: Any) -> list:
    return list(zip(*map(exactly, x), strict=True)) if isinstance(x, tuple) else exactly(x)


def truth_of(oracle: Oracle, arguments: list, x: Any) -> dict[str, np.ndarray]:
    q, far, near = map(each, arguments)
    truth = {
        "kl_far": map(oracle.kl, q, far),
        "kl_near": map(oracle.kl, q, near),
        "kl_self": [0] * len(q),
        "entropy": map(oracle.entropy, q),
        "log_prob": map(oracle.log_prob, values_one_by_one(x), q),
    }
    return {key: np.array([float(y) for y in value]) for key, value in truth.items()}


@functools.cache
def compared(name: str, size: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Ours and the truth, of every quantity."""
    arguments, x = tried(GAUSSIAN[name], size)
    laws = [GAUSSIAN[name].constructor(**member) for member in arguments]
    ours, truth = numbers(*laws, x), truth_of(GAUSSIAN[name], arguments, x)
    return {key: (np.asarray(ours[key], np.float64), truth[key]) for key in truth}


def check(name: str, size: int) -> None:
    for quantity, (ours, truth) in compared(name, size).items():
        excess = beyond(ours, truth)
        i = int(np.argmax(excess))
        shown = (
            f"{quantity}: {np.sum(excess > 1)} of {size}; row {i}: {ours[i]:.8g} for {truth[i]:.8g}"
        )
        assert excess[i] <= 1, shown
        assert quantity not in DIVERGENCES or np.min(ours) >= 0


@pytest.mark.parametrize("name", GAUSSIAN)
def test_float32_is_right(name: str) -> None:
    check(name, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", GAUSSIAN)
def test_at_a_thousand_points(name: str) -> None:
    check(name, MANY)


@pytest.mark.parametrize("name", GAUSSIAN)
def test_gradients_are_finite(name: str) -> None:
    arguments, x = tried(GAUSSIAN[name], FEW)
    laws = [GAUSSIAN[name].constructor(**member) for member in arguments]
    for leaf in jax.tree.leaves(gradients(*laws, x)):
        assert np.all(np.isfinite(leaf))


@pytest.mark.parametrize("name", WIDER)
def test_beyond_the_domain_parameters_are_right_to_a_hundredth_or_refused(name: str) -> None:
    """One by one. Both happen."""
    oracle, refused = WIDER[name], 0
    members, _ = tried(oracle, FEW)
    for i in range(FEW):
        wanted = {key: value[i] for key, value in members[0].items()}
        q = built(oracle, wanted)
        if isinstance(q, str):
            assert re.match(r"(rate|scale|cov|mean|location): expected a value that rounding", q)
            refused += 1
            continue
        for key, value in wanted.items():
            got = getattr(q, key)
            assert lost(value, got() if callable(got) else got) < 0.01, (name, key, i)
    assert 0 < refused < FEW


def built(oracle: Oracle, wanted: dict) -> Any:
    """The law, or what its constructor says against it."""
    try:
        return oracle.constructor(**wanted)
    except ValueError as error:
        return str(error)


def lost(wanted: Any, got: Any) -> float:
    """The relative change of a number or vector, or of a variance in any direction."""
    wanted, got = np.float64(wanted), np.float64(got)
    if wanted.ndim < 2 or wanted.shape[0] != wanted.shape[1]:  # of several vectors all at once
        return float(np.max(np.abs(got - wanted)) / np.max(np.abs(wanted)))
    root = np.linalg.inv(np.linalg.cholesky(wanted))
    return float(np.linalg.norm(root @ (got - wanted) @ root.T, 2))


@pytest.mark.parametrize("name", ["wishart", "inverse_wishart", "normal_wishart"])
def test_a_matrix_that_is_not_positive_definite_has_density_zero(name: str) -> None:
    """And no gradient, in the law or in the matrix."""
    given = {"location": np.zeros(2), "strength": 1.0} if name == "normal_wishart" else {}
    q = GAUSSIAN[name].constructor(**given, degrees=4.0, scale=np.eye(2))
    indefinite = np.float32([[1.0, 2.0], [2.0, 1.0]])
    x = (np.float32([0.1, 0.2]), indefinite) if given else indefinite
    value, slopes = jax.value_and_grad(lambda q, x: q.log_prob(x), (0, 1))(q, x)
    assert value == -np.inf
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slopes))
