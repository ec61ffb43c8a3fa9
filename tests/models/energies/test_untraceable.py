"""Densities that JAX cannot trace: errors name the user's function, its line, and the remedy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import vijax as vi
from tests.naming import naming

V = {"x": vi.free(3), "s": vi.free(support="positive")}


def with_if(v):
    return -v["s"] if v["s"] > 1 else -2 * v["s"]


def with_numpy(v):
    return -v["s"] - np.array(v["x"]).sum()


def with_scipy(v):
    return jnp.sum(scipy.stats.norm.logpdf(v["x"], 0, 1)) - v["s"]


def with_math(v):
    return -math.log(v["s"])


def with_mask(v):
    return -jnp.sum(v["x"][v["x"] > 0]) - v["s"]


def with_range(v):
    return -sum(v["s"] for _ in range(v["s"].astype(int)))


CASES = {
    with_if: (
        r"a Python condition .*with_if \(.*`return -v\[\"s\"\] if",
        "jnp.where(condition, a, b)",
    ),
    with_numpy: (
        "a function of NumPy or SciPy .*with_numpy",
        "Use jax.numpy in the place of numpy",
    ),
    with_scipy: (
        "a function of NumPy or SciPy .*with_scipy",
        "jax.scipy.stats in the place of scipy.stats",
    ),
    with_math: ("a function of math.*with_math", "jnp.log for math.log"),
    with_mask: ("a condition as an index.*with_mask", "jnp.where(condition, x, 0.0)"),
    with_range: ("a size, a range .*with_range", "Sizes have to be known numbers"),
}


def line_of(function):
    return function.__code__.co_firstlineno + 1


@pytest.mark.parametrize("function", CASES)
def test_a_density_that_cannot_be_traced_is_named(function):
    words, remedy = CASES[function]
    whole = f"log_density: expected operations that JAX can trace, got {words}"
    with pytest.raises(ValueError, match=whole) as seen:
        vi.density(V, function)
    assert f"test_untraceable.py, line {line_of(function)})" in str(seen.value)
    assert remedy in str(seen.value)


def test_so_are_likelihoods_priors_derived_values_and_energies():
    model = vi.density(V, log_prior=lambda v: -v["s"], log_lik=lambda v, y: with_if(v) * y)
    with pytest.raises(ValueError, match=f"log_lik: .*with_if.*line {line_of(with_if)}"):
        vi.auto(model, jnp.ones(3), key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"derived: .*with_math"):
        vi.density(V, lambda v: -v["s"], derived=lambda v: {"log": with_math(v)})
    own = {"s": vi.free(support="positive", log_prior=lambda s: with_math({"s": s}))}
    with pytest.raises(ValueError, match=r"log_prior: .*with_math"):
        vi.auto(vi.density(own, lambda v: -v["s"]), key=jax.random.key(0))


def test_other_errors_of_the_user_stay_as_they_are():
    with pytest.raises(TypeError, match="contracting dimensions"):
        vi.density(V, lambda v: v["x"] @ jnp.ones(4))


def test_memoized_says_what_it_needs():
    model = vi.density(V, lambda v: -v["s"] - jnp.sum(v["x"] ** 2))
    with pytest.raises(
        ValueError,
        match=naming("model:", "vijax.auto"),
    ):
        vi.memoized(model)
    mixture = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
    with pytest.raises(ValueError, match=naming("num_parts:", "Such", "vijax.memoized")):
        vi.memoized(mixture)


def test_a_misspelt_name_suggests_the_right_one():
    with pytest.raises(AttributeError, match=naming("'vijax'", "'adv'", "Did", "'advi'")):
        vi.adv  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'xyzzy'$"):
        vi.xyzzy  # noqa: B018
