"""Comparisons of leave-one-out scores against their exact values in conjugate models, and their
errors."""

import numpy as np
import pytest
from scipy import stats

from tests.naming import check_names, naming
from vijax.trust import Elpd, compare, loo

Y = np.random.default_rng(0).normal(0.4, 1.0, size=30)


def posterior(y, sd):
    """Of mu, where y ~ N(mu, sd) and mu ~ N(0, 1)."""
    precision = len(y) / sd**2 + 1
    return stats.norm(y.sum() / sd**2 / precision, precision**-0.5)


def score(sd):
    mu = posterior(Y, sd).ppf((np.arange(4000) + 0.5) / 4000)
    return loo(stats.norm(mu[:, None], sd).logpdf(Y))


def exact(sd):
    """log p(y_n | the others)."""
    left = [posterior(np.delete(Y, n), sd) for n in range(len(Y))]
    return np.array(
        [
            stats.norm(q.mean(), np.hypot(q.std(), sd)).logpdf(y)
            for q, y in zip(left, Y, strict=True)
        ]
    )


def test_differences_and_their_errors_are_exact_in_conjugate_models():
    found = compare({sd: score(sd) for sd in (2.0, 1.0, 1.1)})
    assert [one.name for one in found.ranked] == sorted(
        (2.0, 1.0, 1.1), key=lambda sd: -exact(sd).sum()
    )
    best = exact(found.ranked[0].name)
    assert (found.ranked[0].behind, found.ranked[0].error) == (0, 0)
    for one in found.ranked[1:]:
        differences = best - exact(one.name)
        assert one.behind == pytest.approx(differences.sum(), abs=0.01)
        assert one.error == pytest.approx(np.sqrt(30) * differences.std(ddof=1), abs=0.01)
    assert (
        found.ranked[1].error < 0.3 * found.ranked[1].score.standard_error
    )  # paired: both find the same groups hard


def of(*pointwise, khat=None):
    x = np.array(pointwise)
    return Elpd(x.sum(), 1.0, 1.0, x, np.zeros_like(x), khat)


def test_what_is_said_below_the_table():
    apart = str(compare({"a": of(-1.0, -1.0, -1.1), "b": of(-2.0, -2.1, -2.0)}))
    assert "behind" in apart
    assert "Not clearly" not in apart
    near = str(
        compare(
            {"b": of(-1.0, -1.2, -1.5), "a": of(-1.2, -1.0, -1.4, khat=np.array([0.1, 0.9, 0.8]))}
        )
    )
    assert "Not clearly worse than a (by no more than two standard errors): b." in near
    check_names(near, "-hat", "0.7", "2")
    assert compare({"a": of(-1.0), "b": of(-2.0)}).ranked[1].error == np.inf


def test_scores_that_cannot_be_compared():
    with pytest.raises(ValueError, match=r"scores.*two scores or more"):
        compare({"a": of(-1.0)})
    with pytest.raises(ValueError, match=naming("'a'", "2", "'b'", "1")):
        compare({"a": of(-1.0, -2.0), "b": of(-1.0)})
