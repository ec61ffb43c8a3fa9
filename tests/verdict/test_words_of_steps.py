"""Sentences on fits by steps: each reason alone makes a fit of no use, and noise does not."""

import numpy as np
import pytest
from scipy import stats

import vijax as vi
from vijax.contract.variables import Variables
from vijax.families import MultivariateNormal
from vijax.verdict import words_of_steps
from vijax.verdict.on_draws import Judgement
from vijax.verdict.report import Estimate

VARIABLES = Variables.from_tree({"a": vi.free(2), "b": vi.free()})
GOOD = Judgement(
    Estimate(-3.0, 0.01), 0.4, 0.2, 0.0, *np.zeros((4, 3)), Estimate(0.0, 0.1), 0.0, 512, (*"aab",)
)
SURE = np.full(3, 0.01)
ENDS = {
    "zeros": ({"zero": 0.02}, "the density is zero"),
    "far, however light the tails": ({"gap": 7.0}, "q is not at the posterior"),
    "means": (
        {"shift": np.array([0.0, 1.5, 0.0]), "shift_error": SURE},
        "the mean of a would move by about 1.5 sd of q",
    ),
    "climbing": ({"drift": Estimate(5.0, 1.0)}, "still rose by 5 nats"),
    "falling": ({"drift": Estimate(-5.0, 1.0)}, "still fell by 5 nats"),
    "on its way": (
        {"khat": 0.9, "stretch": np.full(3, -0.4), "stretch_error": SURE},
        "would shrink by about 33%",
    ),
}
FINE = {
    "as it is": {},
    "few zeros": {"zero": 0.005},
    "not so far": {"gap": 5.0},
    "means within noise": {"shift": np.array([0.0, 1.5, 0.0]), "shift_error": np.full(3, 0.2)},
    "means not so far": {"shift": np.array([0.0, 0.9, 0.0]), "shift_error": SURE},
    "noise": {"drift": Estimate(5.0, 2.0)},
    "a little": {"drift": Estimate(1.9, 0.1)},
    "risen, and close": {"drift": Estimate(100.0, 1.0), "gap": 0.01},
    "sds, of light tails": {"khat": 0.5, "stretch": np.full(3, -0.4), "stretch_error": SURE},
    "tails alone": {"khat": 5.0},
    "rounding": {"rounding": 2.0, "gap": 50.0},
}


@pytest.mark.parametrize("name", ENDS)
def test_each_reason_alone_makes_a_fit_of_no_use(name):
    change, words = ENDS[name]
    assert words in words_of_steps.unusable(GOOD._replace(**change), VARIABLES)


@pytest.mark.parametrize("name", FINE)
def test_what_is_noise_or_little_does_not(name):
    said = GOOD._replace(**FINE[name])
    assert words_of_steps.unusable(said, VARIABLES) == ""
    assert words_of_steps.verdict(said, "finished", None, VARIABLES, False).startswith("finished. ")


def test_independence_and_heavy_tails_are_told():
    words = lambda q, **change: " ".join(
        words_of_steps.sentences(GOOD._replace(**{"gap": 0.1, **change}), q, VARIABLES, False)
    )
    independent = vi.Normal.from_mean_variance(np.zeros(3), 1.0)
    full = MultivariateNormal.from_mean_cov(np.zeros(3), np.eye(3))
    assert "sds are too small where they are correlated" in words(independent)
    assert "too small" not in words(full)
    assert "tails of the posterior are heavier" in words(full, khat=0.8)
    assert "tails" not in words(full, khat=0.6)
    assert "Independent normals do not describe the posterior" in words(independent, gap=1.0)
    assert "One normal does not describe the posterior" in words(full, gap=1.0)


def test_words_name_no_more_variables_than_can_be_read():
    names = Variables.from_tree({f"x{i}": vi.free() for i in range(6)})
    assert words_of_steps._names(names, np.ones(6, bool)) == "6 variables"
    assert words_of_steps._names(names, np.arange(6) < 2) == "x0 and x1"


def test_what_one_of_many_may_be_off_is_a_number():
    """All of a gap of .28 nats in one variable: a mean that is off by .75 sd, or an sd by a factor
    of 1.9, by quadrature of the divergence."""
    x = np.linspace(-10, 10, 2001)
    q, p = stats.norm.pdf(x), stats.norm(scale=1.9).logpdf(x)
    assert np.trapezoid(q * (np.log(q) - p), x) == pytest.approx(0.28, abs=0.01)
    variables = Variables.from_tree({"a": vi.free(60)})
    said = GOOD._replace(gap=0.28)
    words = words_of_steps.verdict(said, "finished", None, variables, False)
    assert "means are right to 0.10 sd over all variables" in words
    assert "those of one may be off by 0.7 sd, and its sd by a factor of 1.9" in words
