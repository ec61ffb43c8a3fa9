"""Coordinates of variables whose law is given others: the map, its volume, and what is exact of
it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import multivariate_normal, norm

import vijax as vi
from vijax.contract.variables import Law, Variables
from vijax.models.energies.conditional_law import conditional_law
from vijax.models.energies.coordinates import Hierarchy
from vijax.models.energies.declared_laws import declared_hierarchy
from vijax.models.energies.reference import NUM_DRIVERS, Information, Reference, Trends

STEPS = np.arange(4)


def walk_of(values):
    """The lower factor of a random walk of four steps."""
    return values["tau"] * jnp.tril(jnp.ones((4, 4)))


VARIABLES = {
    "mean": vi.free(),
    "tau": vi.free(support="positive"),
    "effects": vi.free((2, 3), loc="mean", scale="tau"),
    "walk": vi.free(4, loc=lambda v: v["effects"][0, 0] * jnp.ones(4), scale=walk_of),
    "rates": vi.free(3, "positive", scale=lambda v: 0.5 * v["tau"]),
}


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def hierarchy(variables=VARIABLES) -> Hierarchy:
    made = declared_hierarchy(Variables.from_tree(variables))
    assert made is not None
    return made


def some_reference(dim: int) -> Reference:
    rng = np.random.default_rng(1)
    parts = Reference.constant(rng.normal(size=dim), rng.gamma(1.0, 2.0, dim))
    others = ~hierarchy().coordinate_mask(("effects", "walk", "rates"))  # mean and tau have no law
    trends = Trends(
        rng.normal(size=dim),
        rng.gamma(1.0, 1.0, dim),
        np.where(others, rng.normal(size=(NUM_DRIVERS, dim)), 0.0) / 4,
        rng.normal(size=NUM_DRIVERS) / 4,
        rng.normal(size=(dim, NUM_DRIVERS)) / 4,
        rng.normal(size=(dim, NUM_DRIVERS)) / 4,
    )
    return parts._replace(skew=rng.normal(size=dim), trends=trends)


def test_levels_are_by_depth():
    assert hierarchy().levels == (("effects", "rates"), ("walk",))


def test_coordinates_lead_back(float64):
    made = hierarchy()
    dim = made.variables.dim
    z = jnp.asarray(np.random.default_rng(0).normal(size=dim))
    there_and_back = jax.jit(
        lambda reference, z: made.coordinates(reference, made.to_free(reference, z).free)
    )
    for reference in (some_reference(dim), Reference.no_information(dim), Reference.identity(dim)):
        np.testing.assert_allclose(there_and_back(reference, z), z, atol=1e-10)
    np.testing.assert_array_equal(made.to_free(Reference.identity(dim), z).free, z)


def test_the_volume_is_that_of_the_map(float64):
    made = hierarchy()
    dim = made.variables.dim
    reference = some_reference(dim)
    z = jnp.asarray(np.random.default_rng(2).normal(size=dim))
    jacobian = jax.jit(jax.jacobian(lambda z: made.to_free(reference, z).free))(z)
    assert float(made.to_free(reference, z).log_volume) == pytest.approx(
        np.linalg.slogdet(jacobian)[1], abs=1e-9
    )


def test_laws_of_variables_that_stay_are_their_log_densities(float64):
    made = hierarchy()
    dim = made.variables.dim
    x = jnp.asarray(np.random.default_rng(3).normal(size=dim))
    v = made.variables.values(x)[0]
    mean, tau = v["mean"], v["tau"]
    factor = walk_of(v)
    expected = norm.logpdf(v["effects"], mean, tau).sum()
    expected += multivariate_normal.logpdf(
        v["walk"], jnp.full(4, v["effects"][0, 0]), factor @ factor.T
    )
    expected += norm.logpdf(jnp.log(v["rates"]), 0.0, 0.5 * tau).sum()
    assert float(made.to_free(Reference.identity(dim), x).log_law) == pytest.approx(
        float(expected), abs=1e-9
    )


@pytest.mark.parametrize("is_walk", [False, True])
def test_of_normal_data_nothing_is_left_but_a_standard_normal(float64, is_walk):
    """With h = y / s^2 and J = 1 / s^2 the log density at any values of the others is that of N(0,
    I), up to the evidence of these: whatever the scale, small ones too."""
    y, noise = np.array([0.3, -1.2, 2.0, 0.7]), np.array([0.1, 1.0, 5.0, 0.5])
    law = {"scale": walk_of} if is_walk else {"loc": "mean", "scale": "tau"}
    made = hierarchy(
        {"mean": vi.free(), "tau": vi.free(support="positive"), "x": vi.free(4, **law)}
    )
    reference = Reference.constant(
        np.concatenate([[0, 0], y / noise**2]), np.concatenate([[0, 0], 1 / noise**2])
    )

    @jax.jit
    def log_density(z):
        placed = made.to_free(reference, z)
        v = made.variables.values(placed.free)[0]
        factor = walk_of(v) if is_walk else v["tau"] * jnp.eye(4)
        prior = multivariate_normal.logpdf(
            v["x"], (0.0 if is_walk else v["mean"]) * jnp.ones(4), factor @ factor.T
        )
        return prior + norm.logpdf(y, v["x"], noise).sum() + placed.log_volume

    rng = np.random.default_rng(4)
    for log_tau in (-6.0, 0.0, 3.0):
        others = np.array([0.4, log_tau])
        left = [
            float(log_density(jnp.asarray(np.concatenate([others, noise]))))
            + 0.5 * float(noise @ noise)
            for noise in rng.normal(size=(5, 4))
        ]
        covariance = np.exp(2 * log_tau) * (
            np.minimum.outer(STEPS, STEPS) + 1 if is_walk else np.eye(4)
        )
        evidence = covariance + np.diag(np.array([0.1, 1.0, 5.0, 0.5]) ** 2)
        gap = y - (0.0 if is_walk else 0.4)
        exact = -0.5 * (
            gap @ np.linalg.solve(evidence, gap) + np.linalg.slogdet(2 * np.pi * evidence)[1]
        )
        np.testing.assert_allclose(left, exact - 2 * np.log(2 * np.pi), atol=1e-8)


WRONG = {
    "circle": (
        {"a": vi.free(2, loc="b", scale=1.0), "b": vi.free(2, loc="a", scale=1.0)},
        "in a circle",
    ),
    "unknown": ({"a": vi.free(2, loc="c", scale=1.0)}, "functions of the other variables"),
    "itself": ({"a": vi.free(2, loc="a", scale=1.0)}, "functions of the other variables"),
    "shape": (
        {"a": vi.free(2, loc="b", scale=1.0), "b": vi.free(3)},
        r"a loc that broadcasts to the coordinates",
    ),
    "factor": ({"a": vi.free(2, scale=lambda v: jnp.eye(3))}, r"a factor of shape \(2, 2\)"),
    "tree": ({"a": {"b": vi.free(2, scale=1.0)}}, "none inside a tree of variables"),
}


@pytest.mark.parametrize("name", WRONG)
def test_laws_that_make_no_sense_are_refused(name):
    variables, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        declared_hierarchy(Variables.from_tree(variables))


def test_a_loc_alone_is_refused():
    with pytest.raises(ValueError, match="scale: expected one beside loc"):
        vi.free(2, loc="mean")


def test_bent_noise_has_mean_zero_variance_one_and_its_skewness(float64):
    """By quadrature: skewness s J sd^3, of N(0, 1) without data but for a third derivative."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()
    for skewness in (-0.6, 0.0, 0.2, 0.5):
        # A law of scale 1 with J = 1: a standard deviation of sqrt(1/2).
        said = Information(jnp.zeros(1), jnp.ones(1), jnp.full(1, skewness * 2**1.5))
        given = conditional_law(Law(0.0, 1.0), said)
        x = np.array([float(given.point(jnp.full(1, node)).x[0]) for node in nodes]) * np.sqrt(2)
        assert abs(weights @ x) < 1e-6
        assert weights @ x**2 == pytest.approx(1, abs=1e-6)
        assert weights @ x**3 == pytest.approx(skewness, abs=0.02)


def test_a_bend_has_a_limit_and_leads_back(float64):
    said = Information(jnp.zeros(3), jnp.ones(3), jnp.array([-1e6, 0.1, 1e6]))
    given = conditional_law(Law(0.0, 1.0), said)
    for z in (jnp.array([-30.0, 0.0, 9.0]), jnp.array([5.0, -8.0, -30.0])):
        np.testing.assert_allclose(given.noise(given.point(z).x), z, atol=1e-9)
