"""The table of limits: each has a unit and a reason, is read by a judge, and stands nowhere
else."""

import ast
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import vijax
from vijax.verdict import limits

PACKAGE = Path(vijax.__file__).parent
UNITS = (
    "Nats",
    "Nats a variable",
    "Sds",
    "Standard errors",
    "Units of free coordinates",
    "Effective draws",
    "Roundings of a log density",
    "Times as wide as at the start",
    "The largest entry of a unit vector",
    "A share of the bound",
    "A share of draws",
    "A share of the largest entry",
    "A squared coefficient of variation",
    "A probability",
    "Numbers",
    "An acceptance",
    "A log sd",
    "k-hat",
)
JUDGES = [
    *sorted((PACKAGE / "verdict").glob("*.py")),
    *(PACKAGE / "automatic" / f"{name}.py" for name in ("assessment", "by_steps")),
    PACKAGE / "fitting" / "judge.py",
    PACKAGE / "trust" / "check.py",
]
NO_LIMITS = {
    "target": {"REDUCED", "FINEST"},  # how a log density is rounded
    "improper": {"DISTANCES"},  # places that are tried
    "psis": {"PRIOR_OF_K"},  # of the estimate
    "assessment": {"ONE_DRAW"},  # rounding
    "check": {"SECONDS"},  # of restarts
}
"""Numbers with a point in those files that judge nothing."""


def table():
    """The names of the limits, with the texts below them."""
    body = ast.parse((PACKAGE / "verdict" / "limits.py").read_text()).body
    pairs = itertools.pairwise(body)
    return {
        assigned.targets[0].id: ast.literal_eval(text.value) if isinstance(text, ast.Expr) else ""
        for assigned, text in pairs
        if isinstance(assigned, ast.Assign)
    }


def assigned_numbers(path):
    """Names at the top of a file that are given a number with a point."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Tuple):
            target, value = node.targets[0], node.value
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = (
                value.elts
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
                else [value]
            )
            for name, given in zip(names, values, strict=True):
                if any(
                    isinstance(part, ast.Constant) and isinstance(part.value, float)
                    for part in ast.walk(given)
                ):
                    yield name.id


def test_each_limit_has_a_unit_and_a_reason():
    for name, text in table().items():
        unit, _, reason = text.partition(". ")
        assert unit in UNITS, (name, text)
        assert len(reason.split()) > 8, (name, text)


def test_each_limit_is_read():
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    read = set(re.findall(r"\blimits\.([A-Z_0-9]+)", sources))
    assert read == set(table())


@pytest.mark.parametrize("path", JUDGES, ids=lambda path: path.stem)
def test_a_judge_has_no_limit_of_its_own(path):
    if path.stem != "limits":
        own = set(assigned_numbers(path)) - NO_LIMITS.get(path.stem, set())
        assert not own, f"limits belong into verdict/limits.py: {own}"


def test_reasons_are_true():
    """What the texts say of intervals and chances, by SciPy."""
    share = lambda mean, log_sd: np.diff(
        stats.norm.cdf(np.array([-1.96, 1.96]) * np.exp(log_sd) + mean)
    )[0]
    of_sds = lambda off: [round(100 * share(0.0, sign * off)) for sign in (-1, 1)]
    assert of_sds(limits.GOOD) == [92, 97]
    assert of_sds(limits.FAIR) == [85, 99]
    assert share(limits.GOOD, 0.0) > 0.92
    assert share(limits.FAIR, 0.0) > 0.85
    assert np.round(np.sqrt(2 * np.array([limits.CLOSE, limits.FAR])), 1).tolist() == [0.3, 0.8]
    assert np.round(0.5 * np.array([limits.ARRIVED, limits.AWAY]) ** 2, 3).tolist() == [0.125, 0.5]
    assert round(1 / (2 * stats.norm.sf(limits.SURE))) == 370
    assert pytest.approx(2 * stats.norm.sf(limits.SURE), abs=5e-4) == limits.BY_CHANCE
    assert 1e6 * 2 * stats.norm.sf(limits.SURE_OF_MEANS) < 1
    assert np.exp(-limits.RIVAL) < 0.007
    assert np.exp(limits.BEYOND) == pytest.approx(20, abs=0.1)
    assert pytest.approx(0.14, abs=0.005) == limits.ENOUGH_DRAWS**-0.5
    assert np.sqrt(2 * limits.FIXED) < 0.05
