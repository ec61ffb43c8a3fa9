"""The material of a judgement: a value, beside which the judgement is remembered."""

import copy
import dataclasses
import gc
import pickle

import pytest

import vijax as vi
from vijax.fitting import judge


def judged_fit():
    material = judge.Judge(loader="data", seed=3, x64=False)
    fit = vi.Fit("algorithm", "state", {"elbo": [1.0]}, vi.Status.FINISHED, judge=material)
    judge.remember(material, fit, "good")
    return fit


def test_it_never_changes():
    fit = judged_fit()
    with pytest.raises(dataclasses.FrozenInstanceError):
        fit.judge.seed = 4
    assert vars(fit.judge) == {
        "loader": "data",
        "seed": 3,
        "x64": False,
    }  # the judgement is not in it
    assert fit.judge.judgement(fit) == "good"


def test_a_judgement_is_of_one_state_and_one_trace():
    fit = judged_fit()
    assert fit.judge.knows(fit)
    assert fit.judge.knows(fit._replace(status=vi.Status.CONVERGED))
    assert not fit.judge.knows(fit._replace(trace=dict(fit.trace)))
    assert not fit.judge.knows(fit._replace(state="another"))


def test_it_is_forgotten_with_the_fit():
    fit = judged_fit()
    known = len(judge.JUDGEMENTS)
    del fit
    gc.collect()
    assert len(judge.JUDGEMENTS) == known - 1


@pytest.mark.parametrize(
    "again", [lambda fit: pickle.loads(pickle.dumps(fit)), copy.deepcopy], ids=["pickle", "copy"]
)
def test_a_copy_has_the_judgement_and_not_the_data(again):
    fit = judged_fit()
    other = again(fit)
    assert type(other) is vi.Fit
    assert other.judge is not fit.judge
    assert (other.judge.loader, other.judge.seed, other.judge.judgement(other)) == (None, 3, "good")
    assert other._replace(judge=None) == fit._replace(judge=None)
    assert not again(fit._replace(state="another")).judge.knows(fit)


def test_a_shallow_copy_shares_the_material():
    fit = judged_fit()
    assert copy.copy(fit).judge is fit.judge
    assert fit.judge.loader == "data"


def test_a_fit_that_is_not_judged_is_pickled_as_it_is():
    fit = judged_fit()._replace(judge=None)
    assert pickle.loads(pickle.dumps(fit)) == fit
