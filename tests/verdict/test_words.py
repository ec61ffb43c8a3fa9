"""The verdict of `vijax.auto` in words: it does not contradict itself."""

import itertools

import numpy as np
import pytest

from vijax.automatic.gaussian import Gaussian
from vijax.verdict import limits
from vijax.verdict.report import Ended, Moments, Off, Others
from vijax.verdict.words import verdict

USABLE = "means and sds can be used."
"""Without a word more: of the whole posterior."""


def off(mean, log_sd, khat=0.1, ess=1000.0):
    return Moments(Off(mean, 0.005, "a"), Off(log_sd, 0.005, "b"), khat, ess, 2000)


OFFS = [
    None,
    off(0.01, 0.01),
    off(0.2, 0.01),
    off(0.01, -0.2),
    off(0.01, -0.5),
    off(0.0, 0.0, 0.9),
    off(0, 0, 0.1, 9.0),
]
SEARCHED = [
    Others(),
    Others(16),
    Others(16, others=1, share=0.5, mean=1.0, sds=8.0),
    Others(16, labels=[["mu", "w"]]),
]


@pytest.mark.parametrize("searched", SEARCHED, ids=["none", "one mode", "two modes", "labels"])
@pytest.mark.parametrize("how", OFFS)
def test_a_verdict_does_not_contradict_itself(how, searched):
    """A law, over all that may be found: "can be used" of the whole posterior is said only where
    means and sds are known, are right to a tenth, and no other mode is known; each quantity is
    named, or said not to be judged."""
    for gap, khat, full in itertools.product(
        [0.01, 0.2, 0.5, 1.5], [0.2, 0.9, np.inf], [True, False]
    ):
        q = Gaussian(np.zeros(2), np.eye(2) if full else np.ones(2), 0.0, Ended.CONVERGED)
        words = verdict(q, gap, khat, searched, off=how)
        right = (
            how is not None
            and how.is_reliable
            and max(how.mean.most, how.log_sd.most) <= limits.GOOD
        )
        limit = limits.FAR_IN_ALL if full and how is not None and how.is_reliable else limits.FAR
        assert (USABLE in words) == (right and gap < limit and not searched.others)
        assert ("for that part alone" in words) == (right and gap < limit and searched.others > 0)
        assert ("similar weight" in words) == (searched.others > 0)
        assert ("labelling" in words) == bool(searched.labels)
        assert ("was not judged" in words) == (how is None)
        assert "odes" in words
        assert not ("do not rely on tail" in words and "no heavier" in words)
        assert ("(a)" in words) == (
            how is not None and (not how.is_reliable or how.mean.most > limits.GOOD)
        )
