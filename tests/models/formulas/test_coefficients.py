"""Coefficients as ratios and by the spread of their columns."""

import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.models.formulas import coefficients
from vijax.models.formulas.draws import Draws
from vijax.models.formulas.glmm_model import Glmm
from vijax.models.formulas.laws import LAWS

RNG = np.random.default_rng(0)
N, S = 90, 7
TABLE = {
    "x": RNG.normal(3, 2.5, N),
    "w": RNG.normal(0, 0.3, N),
    "h": np.array(list("abc"))[np.arange(N) % 3],
}


def made(response, family, formula="y ~ x + w + h", **more):
    model = vi.glmm(formula, TABLE | {"y": response}, family=family, **more)
    return model, Draws({name: RNG.normal(size=S) for name in model.names}, {}, {})


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if law.link == "log"])
def test_a_ratio_of_means_is_one(name):
    """exp(b) is the ratio of the means at eta + b and at eta, wherever eta is, but for hurdle laws,
    whose title says so."""
    law = LAWS[name]
    aux = {
        key: np.array([value])
        for key, value in {"psi": 0.6, "alpha": 1.5, "lam": 2.0, "sigma": 0.7}.items()
        if key in law.aux
    }
    low, high = (np.asarray(law.mean(aux, np.array([[-1.0, 0.0, 1.0]]) + b)) for b in (0.0, 0.5))
    assert np.allclose(high / low, np.exp(0.5), rtol=1e-6) == (
        coefficients.ratios_title(law) == "Ratios of means"
    )
    assert law.is_cut == (name in ("hurdle_poisson", "hurdle_negativebinomial"))


def test_ratios_are_exponentials_of_slopes():
    model, draws = made(RNG.poisson(3, N), "poisson")
    found = coefficients.ratios(model, draws)
    assert list(found) == ["x", "w", "h[b]", "h[c]"]
    for name, x in found.items():
        np.testing.assert_allclose(x, np.exp(draws.named[name]))


def test_standardised_effects_are_those_of_standardised_columns():
    """Least squares of y, and of y and x in sds: the same number for each column of numbers."""
    y = 2 + 0.7 * TABLE["x"] - 4 * TABLE["w"] + RNG.normal(size=N)
    model, draws = made(y, "gaussian")
    scaled = {name: (TABLE[name] - TABLE[name].mean()) / TABLE[name].std() for name in "xw"}
    plain, other = (least_squares(v, u) for v, u in ((y, TABLE), (y / y.std(), TABLE | scaled)))
    named = draws.named | {name: np.full(S, plain[name]) for name in "xw"}
    found = coefficients.standardise(model, draws._replace(named=named))
    assert list(found) == ["x", "w"]
    for name, x in found.items():
        np.testing.assert_allclose(x, other[name], rtol=1e-6)
    with pytest.raises(ValueError, match=naming("family:", "'gaussian'")):
        coefficients.ratios(model, draws)


def least_squares(y, table):
    design = np.column_stack(
        [np.ones(N), table["x"], table["w"], table["h"] == "b", table["h"] == "c"]
    )
    return dict(zip(("one", "x", "w"), np.linalg.lstsq(design, y, rcond=None)[0], strict=False))


def test_of_categories_each_has_its_own():
    model, draws = made(
        np.array(["low", "mid", "top"])[RNG.integers(3, size=N)], "categorical", base="mid"
    )
    assert list(coefficients.standardise(model, draws)) == ["x[low]", "x[top]", "w[low]", "w[top]"]
    assert len(coefficients.ratios(model, draws)) == 8


def test_a_regression_without_columns_has_no_such_tables(monkeypatch):
    model, draws = made(RNG.poisson(3, N), "poisson", formula="y ~ 1")
    monkeypatch.setattr(Glmm, "draws", lambda *given: draws)
    for table in (model.ratios, model.standardised):
        with pytest.raises(ValueError, match=naming("formula:", "beside")):
            table(None, None)
