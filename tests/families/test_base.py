"""What `Family` derives from A alone, against families that have closed forms, and the helpers of
constructors."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from tests.naming import naming
from tests.rounding import rounding
from vijax.checks import brief, require
from vijax.families import Family, Gamma, Normal
from vijax.families.base import as_float, as_floats, domain_mask, family


class ExponentialStats(NamedTuple):
    value: Float[Array, "*batch"]


@family
class Exponential(Family):
    """The least that a family can say: the skeleton of docs/extending.md."""

    negative_rate: Float[Array, "*batch"]

    Stats: ClassVar = ExponentialStats
    event_ndims: ClassVar = (0,)

    def log_normalizer(self):
        return -jnp.log(-self.negative_rate)

    def stats(self, x: Any):
        return ExponentialStats(x)

    def sample(self, key, shape=()):
        return -jax.random.exponential(key, shape + self.batch_shape) / self.negative_rate

    def mean(self):
        return -1 / self.negative_rate

    def mode(self):
        return jnp.zeros_like(self.negative_rate)

    def in_domain(self):
        return domain_mask(self.negative_rate < 0, self)

    def flat(self):
        return Exponential(jnp.zeros_like(self.negative_rate))


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def test_a_minimal_family_gets_everything_by_autodiff(x64) -> None:
    rate, other = jnp.array([0.5, 2.0]), jnp.array([1.0, 3.0])
    q, p = Exponential(-rate), Exponential(-other)
    np.testing.assert_allclose(q.expected_stats().value, 1 / rate)
    np.testing.assert_allclose(q.entropy(), 1 - np.log(rate))
    np.testing.assert_allclose(q.kl(p), np.log(rate / other) + other / rate - 1)
    np.testing.assert_allclose(q.log_prob(0.7), np.log(rate) - 0.7 * rate)
    np.testing.assert_allclose(q.fisher_product(Exponential(jnp.ones(2))).value, rate**-2)
    np.testing.assert_allclose(q.fisher_solve(ExponentialStats(jnp.ones(2))).negative_rate, rate**2)
    # x = e / rate, so t' = x / rate and V = F^-1 t' = x rate, of mean one.
    t, v_product = q.pathwise_sample(jax.random.key(0))
    np.testing.assert_allclose(
        v_product(ExponentialStats(jnp.ones(2))).negative_rate, t.value * rate
    )


@pytest.mark.parametrize(
    "q",
    [
        lambda: Gamma.from_shape_rate([0.7, 3.0], [2.0, 0.5]),
        lambda: Normal.from_mean_variance([1.0, -2.0], [0.5, 3.0]),
    ],
)
def test_dense_solve_is_the_closed_form(q, x64) -> None:
    q = q()
    g = jax.tree.map(jnp.cos, q.expected_stats())
    solutions = jax.jit(lambda q, g: (q.fisher_solve(g), Family.fisher_solve(q, g)))(q, g)
    for ours, dense in zip(*map(jax.tree.leaves, solutions), strict=True):
        np.testing.assert_allclose(ours, dense, rtol=1e-8, atol=rounding(dense))


def test_natural_and_mean_parameters_convert_only_by_name() -> None:
    q = Normal.from_mean_variance(1.0, 2.0)
    assert type(q.with_naturals(q.expected_stats())) is Normal
    assert type(q.as_stats(q)) is q.Stats
    with pytest.raises(TypeError):
        q + q.expected_stats()


def test_require_passes_what_is_true_and_what_is_traced() -> None:
    require(True, "x", "anything", 0)
    jax.jit(lambda x: require(x > 0, "x", "positive", x))(-1.0)
    with pytest.raises(ValueError, match=naming("x:", "got -1.", "absolute value")):
        require(np.float64(-1) > 0, "x", "positive", -1, "Take the absolute value.")


def test_require_sees_concrete_values_under_jit() -> None:
    """A concrete array is checked while something else is traced."""

    def f(x):
        require(np.array([1.0, -1.0]) > 0, "rate", "positive", "less")
        return x

    with pytest.raises(ValueError, match="rate"):
        jax.jit(f)(1.0)


def test_brief_shows_small_values_and_summarises_large_ones() -> None:
    assert brief(np.array([1.0, 2.0])) == "[1.0, 2.0]"
    large = np.linspace(-1, 1, 100).reshape(10, 10)
    assert brief(large) == "an array of shape (10, 10) with values in [-1, 1]"
    large[0, 0] = np.nan
    assert brief(large).endswith(", 1 not finite")
    assert brief(np.full((3, 4), np.nan)) == "an array of shape (3, 4), none finite"


@pytest.mark.parametrize("x", [1, 1.0, [1.0], np.float64(1), np.float32(1), np.ones(2, np.int64)])
def test_as_float_is_never_weak(x) -> None:
    assert as_float(x).dtype == jnp.float32
    assert not as_float(x).weak_type


def test_as_floats_lets_numbers_adopt_the_dtype_of_arrays(x64) -> None:
    mean, variance = as_floats(jnp.ones(2, jnp.float32), 2.0)
    assert mean.dtype == variance.dtype == jnp.float32
    assert as_float(2.0).dtype == jnp.float64
