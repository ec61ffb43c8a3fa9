"""What the data of a regression do not tell is said in a line, and is what the prior says."""

import warnings

import jax
import numpy as np
import pytest

import vijax as vi
from vijax.models.formulas.terms.by_prior import OnlyPriorWarning

RNG = np.random.default_rng(1)
X, G = RNG.normal(size=40), np.repeat(list("abcde"), 8)
TABLE = {
    "y": X + RNG.normal(size=40),
    "x": X,
    "z": RNG.normal(size=40),
    "g": G,
    "c": np.full(40, 0.1),
    "copy": 3 - 2 * X,
    "one": ["a"] * 40,
    "id": np.arange(40),
    "year": 1e6 + RNG.normal(size=40),
}
SUM = {**TABLE, "s": TABLE["x"] + TABLE["z"]}


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("y ~ x + c", "'c' is constant beside the intercept: the data do not tell its coefficient"),
        ("y ~ x + c + I(2 * c)", r"'c', 'I\(2 \* c\)' are constant .* which have their priors"),
        ("y ~ x + copy", r"Columns follow from those before them \('copy' from 'x'\)"),
        ("y ~ x + z + s", r"\('s' from 'x', 'z'\)"),
        ("y ~ 0 + g + I(g == 'a') + x", r"\(\"I\(g == 'a'\)\" from 'g\[a\]'\)"),
        ("y ~ x + (1 | one)", r"'one' has one group: the data hardly tell 1\|one_sigma"),
        ("y ~ x + (1 | id)", r"Each row has a group of 'id' of its own.* 1\|id_sigma and sigma"),
        (
            "y ~ s(x, by=g, k=4)",
            "levels of 'g' differ in shape alone: write g .* for means of thei",
        ),
        ("y ~ g + (1 | g)", "'g' has a coefficient and an effect for each level"),
    ],
)
def test_what_only_the_prior_tells_is_said(formula, said):
    with pytest.warns(OnlyPriorWarning, match=said):
        model = vi.glmm(formula, SUM)
    assert len(model.notes) == 1


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("y ~ x * z + g", "gaussian"),
        ("y ~ year + x", "gaussian"),
        ("y ~ 0 + c + x", "gaussian"),
        ("y ~ poly(x, 5) + (x | g)", "gaussian"),
        ("I(y > 0) ~ x + (1 | id)", "bernoulli"),
        ("y ~ 0 + g + x:g", "gaussian"),
        ("y ~ g + s(x, by=g, k=4)", "gaussian"),
        ("y ~ s(x, by=z, k=4)", "gaussian"),
    ],
)
def test_nothing_is_said_of_what_the_data_tell(formula, family):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vi.glmm(formula, SUM, family).notes == ()


def test_rows_of_weight_two_are_two_in_a_group():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vi.glmm("y ~ x + (1 | id)", TABLE, weights=np.full(40, 2.0))
    left = np.where(np.arange(40) < 8, 1.0, 0.0)
    with pytest.warns(OnlyPriorWarning, match="'g' has one group"):
        vi.glmm("y ~ x + (1 | g)", TABLE, weights=left)


@pytest.mark.filterwarnings("ignore::vijax.models.formulas.terms.by_prior.OnlyPriorWarning")
def test_such_a_coefficient_has_its_prior():
    """Of a constant column, and of the difference of two that are equal."""
    twin = {**TABLE, "twin": X}
    priors = {"x": ("normal", 0, 2), "twin": ("normal", 0, 2), "c": ("normal", 1, 3)}
    model = vi.glmm("y ~ x + twin + c", twin, priors=priors)
    draws = model.draws(vi.auto(model, key=jax.random.key(0)), jax.random.key(1), 4000).named
    difference = draws["x"] - draws["twin"]
    assert abs(draws["c"].mean() - 1) < 0.25
    assert abs(draws["c"].std() / 3 - 1) < 0.08
    assert abs(difference.std() / np.sqrt(8) - 1) < 0.08
