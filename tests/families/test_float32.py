"""float32 against 50 digits, on every family of the registry, over a wide grid of parameters, near
and far.

The law: `kl`, `entropy` and `log_prob` are within 1e-3 of the truth, relatively, or within 1e-4
where it is below 0.1; no divergence is negative; all gradients are finite; and moments, quantiles
and distribution functions are right to 300 units in the last place. A family is tried where its row
in tests/families/oracles.py says; a new one without a row fails `test_every_family_has_a_row`."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import FAMILIES
from tests.families.oracles import ORACLES, Oracle, each, exactly, log_uniform
from tests.families.oracles_gaussian import GAUSSIAN
from vijax.families import Family, PolyaGamma

FEW, MANY = 80, 2000
WITHOUT = {
    "MarkovChain": "sums of categoricals, against enumeration in test_laws.py",
    "LinearGaussianChain": "a Gaussian of many dimensions, against dense algebra in "
    "test_gaussian_chains.py",
    "MatrixNormalWishart": "test_conjugate_pairs.py: of one row the normal-Wishart, of one column "
    "the normal-gamma",
    "PolyaGamma": "test_polya_gamma.py, for entropies to 50 digits are integrals",
    "Product": "the sum over its factors",
    "Exponential": "the skeleton of docs/extending.md, whose closed forms are derivatives",
    **dict.fromkeys(
        (
            "InverseWishart",
            "MultivariateNormal",
            "MultivariateNormalGamma",
            "Normal",
            "NormalGamma",
            "NormalWishart",
            "NormalsWishart",
            "Wishart",
        ),
        "test_float32_gaussian.py, which has their rows",
    ),
}
"""Families that are checked elsewhere, and where."""


@jax.jit
def numbers(q: Family, far: Family, near: Family, x: Any) -> dict[str, jax.Array]:
    return {
        "kl_far": q.kl(far),
        "kl_near": q.kl(near),
        "kl_self": q.kl(q),
        "entropy": q.entropy(),
        "log_prob": q.log_prob(x),
    }


@jax.jit
def gradients(q: Family, far: Family, near: Family, x: Any) -> Any:
    """Of each of these, in the parameters of every law that is in it."""
    kl = jax.grad(lambda q, p: jnp.sum(q.kl(p)), (0, 1))
    rest = [
        jax.grad(lambda q, f=f: jnp.sum(f(q)))(q)
        for f in (lambda q: q.entropy(), lambda q: q.log_prob(x))
    ]
    return kl(q, far), kl(q, near), kl(q, q), rest


def tried(oracle: Oracle, size: int) -> tuple[list, dict[str, Any]]:
    """The members, those far from and near to them, and the values, rounded to float32; and as
    laws."""
    rng = np.random.default_rng(0)
    params = oracle.members(rng, size)
    arguments = [params, oracle.members(rng, size), oracle.near(rng, params)]
    arguments = [
        {name: np.float32(value) for name, value in member.items()} for member in arguments
    ]
    x = np.asarray(oracle.values(rng, arguments[0]))
    return arguments, {"x": x if np.issubdtype(x.dtype, np.integer) else np.float32(x)}


@functools.cache
def compared(name: str, size: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Ours and the truth, of every quantity."""
    oracle = ORACLES[name]
    arguments, values = tried(oracle, size)
    laws = [oracle.constructor(**member) for member in arguments]
    ours = jax.tree.map(lambda y: np.asarray(y, np.float64), numbers(*laws, values["x"]))
    if oracle.stored:
        arguments = [oracle.stored(law) for law in laws]
    q, far, near = map(each, arguments)
    truth = {
        "kl_far": map(oracle.kl, q, far),
        "kl_near": map(oracle.kl, q, near),
        "entropy": map(oracle.entropy, q),
        "log_prob": map(oracle.log_prob, exactly(values["x"]), q),
        "kl_self": [0] * len(q),
    }
    return {key: (ours[key], np.array([float(y) for y in truth[key]])) for key in truth}


def beyond(ours: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The error as a multiple of the tolerance; infinite where ours is no number."""
    error = np.abs(ours - truth) / np.maximum(1e-4, 1e-3 * np.abs(truth))
    return np.where(np.isnan(error), np.inf, error)


def check(name: str, quantity: str, size: int) -> None:
    ours, truth = compared(name, size)[quantity]
    excess = beyond(ours, truth)
    i = int(np.argmax(excess))
    detail = (
        f"{np.sum(excess > 1)} of {size} beyond the tolerance; the worst, row {i}: {ours[i]:.8g} "
        f"for {truth[i]:.8g}"
    )
    assert excess[i] <= 1, detail


def check_divergences(name: str, size: int) -> None:
    for quantity in ("kl_far", "kl_near", "kl_self"):
        ours, _ = compared(name, size)[quantity]
        assert np.min(ours) >= 0, f"{quantity}, row {np.argmin(ours)}: {np.min(ours)}"


QUANTITIES = ("kl_far", "kl_near", "kl_self", "entropy", "log_prob")


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("name", ORACLES)
def test_float32_is_right(name: str, quantity: str) -> None:
    check(name, quantity, FEW)


@pytest.mark.parametrize("name", ORACLES)
def test_no_divergence_is_negative(name: str) -> None:
    check_divergences(name, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
def test_at_thousands_of_points(name: str) -> None:
    for quantity in QUANTITIES:
        check(name, quantity, MANY)
    check_divergences(name, MANY)


@pytest.mark.parametrize("name", ORACLES)
def test_gradients_are_finite(name: str) -> None:
    arguments, values = tried(ORACLES[name], FEW)
    laws = [ORACLES[name].constructor(**member) for member in arguments]
    for leaf in jax.tree.leaves(gradients(*laws, values["x"])):
        assert np.all(np.isfinite(leaf))


# --- what a person reports ------------------------------------------------------------------------
P = np.float32([1e-6, 1e-3, 0.025, 0.5, 0.975, 0.999])
ULP = 2.0**-24
OF_GAUSSIAN = (
    "normal",
    "normal_gamma",
)  # the others' are as good as their matrices are conditioned
POLYA_GAMMA = lambda rng, size: {"c": log_uniform(1e-6, 1e6)(rng, size)}
REPORTED = {
    **{name: (oracle.constructor, oracle.members) for name, oracle in ORACLES.items()},
    **{name: (GAUSSIAN[name].constructor, GAUSSIAN[name].members) for name in OF_GAUSSIAN},
    "polya_gamma": (lambda c: PolyaGamma.from_b_c(1, c), POLYA_GAMMA),
}


def reported(q: Family, x: Any = None) -> dict[str, Any]:
    """Moments and, where there are laws, quantiles and what lies below x, by default the
    medians."""
    found = {"mean": q.mean(), "variance": q.variance(), "std": q.std()}
    try:
        found["quantile"] = q.quantile(P)
    except NotImplementedError:
        return found
    return {**found, "cdf": q.cdf(medians(found) if x is None else x)}


def medians(found: dict[str, Any]) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(np.float32(x[3])), found["quantile"])


@pytest.mark.parametrize("name", REPORTED)
def test_what_is_reported_in_float32_is_that_of_float64(name: str) -> None:
    """Within 300 units in the last place of themselves, of laws with the same parameters, over the
    domain; what is below the numbers that float32 holds may be zero, what is above them infinite. A
    distribution function knows the distance of x from the mean to a unit of x: in standard
    deviations, as many more units as the mean is of them."""
    constructor, members = REPORTED[name]
    params = members(np.random.default_rng(0), FEW)
    q = constructor(**{key: np.float32(value) for key, value in params.items()})
    ours = jax.tree.map(lambda x: np.asarray(x, np.float64), reported(q))
    below = ours.pop("cdf", None)
    at = None if below is None else medians(ours)
    with jax.enable_x64(True):
        exact = reported(jax.tree.map(lambda x: jnp.asarray(np.float64(x)), q), at)
    cdf = exact.pop("cdf", None)
    for (path, got), want in zip(
        jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(exact), strict=True
    ):
        with np.errstate(over="ignore"):
            want = np.float64(np.float32(want))
        np.testing.assert_allclose(
            got, want, 300 * ULP, np.finfo(np.float32).tiny, err_msg=jax.tree_util.keystr(path)
        )
    if below is not None:
        for got, want, x, sd in zip(
            *map(jax.tree.leaves, (below, cdf, at, exact["std"])), strict=True
        ):
            known = np.isfinite(sd) & (np.asarray(sd) > 0)
            far = np.abs(np.divide(x, sd, out=np.zeros(x.shape), where=known))
            assert np.all(np.abs(got - np.asarray(want)) <= 300 * ULP * (1 + far))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in REPORTED if name != "categorical"]
)  # whose draws are classes
def test_moments_of_draws_over_the_domain(name: str) -> None:
    """Of 20,000 at six standard errors, means to 32 units in the last place: of laws whose
    deviation is known at that, where no draw makes a twentieth of a variance, and of counts where
    400 differ from the usual one."""
    constructor, members = REPORTED[name]
    params = members(np.random.default_rng(1), FEW)
    if name == "poisson":
        params = {"log_rate": np.minimum(params["log_rate"], np.log(2e9))}
    q = constructor(**{key: np.float32(value) for key, value in params.items()})
    draws = jax.jit(lambda q: q.sample(jax.random.key(1), (20_000,)))(q)
    with jax.enable_x64(True):
        exact = jax.tree.map(lambda x: jnp.asarray(np.float64(x)), q)
        means, variances = exact.mean(), exact.variance()
    for x, mean, variance in zip(*map(jax.tree.leaves, (draws, means, variances)), strict=True):
        x, mean, variance = (np.asarray(a, np.float64) for a in (x, mean, variance))
        held = np.isfinite(variance) & (np.sqrt(variance) > 1e-4 * np.abs(mean))
        assert np.all(np.isfinite(x[:, held]))
        held &= ~np.bool_(q.discrete) | (variance * len(x) > 400)
        x, mean, variance = x[:, held], mean[held], variance[held]
        squares = (x - mean) ** 2
        known = squares.max(0) < 0.05 * squares.sum(0)
        assert known.sum() > 5
        slack = 6 * np.sqrt(variance / len(x)) + 32 * ULP * np.abs(mean)
        assert np.all(np.abs(x.mean(0) - mean)[known] < slack[known])
        error = 6 * squares.std(0) / np.sqrt(len(x)) + 1e-3 * variance
        assert np.all(np.abs(squares.mean(0) - variance)[known] < error[known])


def test_every_family_has_a_row() -> None:
    tried_here = {
        type(oracle.constructor(**oracle.members(np.random.default_rng(0), 1)))
        for oracle in ORACLES.values()
    }
    missing = {type(case.build()) for case in FAMILIES} - tried_here
    assert {family.__name__ for family in missing} == set(WITHOUT)
