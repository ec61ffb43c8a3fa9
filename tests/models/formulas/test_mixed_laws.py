"""Laws of responses, and groups that training has not seen: against draws, and against columns in
other units."""

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.models.formulas.laws import LAWS
from vijax.models.formulas.laws.angles import wrap_angles
from vijax.models.formulas.priors import merge_priors

pytest.importorskip("formulae")

AUX = {"sigma": 0.7, "nu": 6.0, "alpha": 1.6, "kappa": 3.0, "lam": 2.0, "psi": 0.4}


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if not law.categories])
def test_the_mean_of_a_response_is_that_of_its_draws(name):
    """Within five standard errors; of counts the zeros are a part of both; of angles about the mean
    direction."""
    law = LAWS[name]
    aux = {each: AUX[each] for each in law.aux}
    eta = np.array([-0.8, 0.3, 0.9])
    trials = np.float32(1.0)
    number = 8_000
    sample = jax.jit(jax.vmap(lambda key: law.sample(aux, trials, key, eta.astype(np.float32))))
    drawn = np.asarray(sample(jax.random.split(jax.random.key(0), number)), float)
    mean = law.mean({each: np.array([value]) for each, value in aux.items()}, eta[None])[0]
    if law.is_circular:
        drawn = mean + wrap_angles(drawn - mean)
    error = drawn.std(0) / np.sqrt(number)
    assert np.all(error < 0.06)
    np.testing.assert_array_less(np.abs(drawn.mean(0) - mean), 5 * error)


@pytest.mark.parametrize(
    "prior", [("half_normal", 0), ("half_normal", -1.0), ("half_student_t", 4, 0)]
)
def test_a_prior_without_spread_is_refused(prior):
    usual = {"1|g_sigma": ("half_normal", 2.0), "x": ("normal", 0.0, 1.0)}
    with pytest.raises(ValueError, match=naming("priors:", "'1|g_sigma'")):
        merge_priors(usual, {"1|g_sigma": prior})
    with pytest.raises(ValueError, match=naming("priors:", "'x'")):
        merge_priors(usual, {"x": ("normal", 0.0, 0)})
    assert merge_priors(usual, {"x": ("normal", 0, 2)})["x"] == ("normal", 0.0, 2.0)


@pytest.fixture(scope="module")
def in_units():
    """Draws of predictors of three groups that are not known, by the unit of the slope's column.
    The spreads are the same law in both units: a slope for one of the large unit is 1,000 times as
    wide."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    table = {"y": rng.normal(size=40), "x": x, "g": np.repeat(list("abcd"), 10)}
    new = {"x": np.array([-1.5, 0.2, 2.0]), "g": ["new"] * 3}

    def of(unit):
        model = vi.glmm("y ~ x + (x | g)", {**table, "x": unit * x})
        z = 0.3 * np.random.default_rng(1).normal(size=(50, model.log_density.variables.dim))
        fit = vi.fit(
            vi.advi(model, guide=vi.guides.mean_field()),
            model.data,
            num_steps=1,
            key=jax.random.key(0),
        )
        draws = model._draws_at(fit, z.astype(np.float32), jax.random.key(1))
        return model.predictors(draws, {**new, "x": unit * new["x"]}, jax.random.key(2))

    return of(1.0), of(1000.0)


def test_groups_that_are_not_known_do_not_depend_on_units(in_units):
    plain, large = in_units
    assert plain.std(0).min() > 0.1
    np.testing.assert_allclose(plain, large, rtol=2e-3, atol=2e-3)
