"""`vijax check`: the verdict of a run, on the screen and on its page."""

import json

import numpy as np
import pytest

from tests.app.small_runs import write_inputs
from vijax.app.cli import main
from vijax.app.commands.endings import UNUSABLE
from vijax.app.report.pages import write_pages
from vijax.app.runs import checked
from vijax.trust.check import Check, Quantity, Verdict


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = write_inputs(tmp_path_factory.mktemp("checked"))
    assert main(["fit", str(folder / "small.toml"), "--out", str(folder / "run")]) == 0
    return folder / "run"


def found(faults, checks=None):
    numbers = [
        Quantity(
            "weights[0]", 0.5, 0.1, -0.3, 0.1, "short chains", np.log(2.0), 0.0, "linear response"
        ),
        Quantity("weights[1]", 0.5, 0.1, np.nan, np.nan, "", np.nan, np.nan, ""),
    ]
    return Verdict(
        not faults,
        faults,
        numbers,
        checks or {"restarts": Check("None ends higher."), "x": Check("no data", made=False)},
    )


def test_the_verdict_is_on_the_screen_and_on_the_page(run, monkeypatch, capsys):
    seen = {}

    def check(fit, data, *, key):
        seen.update(fit=fit, data=data)
        return found(["The mean is off."])

    monkeypatch.setattr(checked, "check", check)
    assert main(["check", str(run)]) == UNUSABLE
    assert (
        "means by up to 0.50 sd (weights[0], short chains); sds by up to a factor of 2.00"
        in capsys.readouterr().out
    )
    assert seen["data"].shape == (40, 2)
    assert seen["fit"].trace["elbo"].shape == (4,)
    np.testing.assert_allclose(
        seen["fit"].trace["elbo"], -100.05, atol=0.1
    )  # of standardised columns
    monkeypatch.setattr(checked, "check", lambda *arguments, **more: found([]))
    assert main(["check", str(run)]) == 0
    page, blocks = (
        (run / "report.html").read_text(),
        json.loads((run / "result.json").read_text())["blocks"],
    )
    assert [block["title"] for block in blocks].count(
        "Can it be trusted?"
    ) == 1  # the second verdict alone
    assert "No check found a fault." in page
    assert "not made. no data" in page
    rows = (run / "tables" / "how_far_each_number_may_be_off.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in rows[1:]] == ["weights[0]", "weights[1]"]
    assert "0.5,short chains,2.0,linear response" in rows[1]
    assert write_pages(run).read_text() == page


def test_what_the_run_itself_says_is_a_fault(run, monkeypatch):
    result = run / "result.json"
    before = result.read_text()
    result.write_text(json.dumps(json.loads(before) | {"usable": False}))
    monkeypatch.setattr(checked, "check", lambda *arguments, **more: found([]))
    verdict = checked.check_run(run, 0, None, print)
    result.write_text(before)
    assert verdict.faults == ["The run itself says: do not use this fit (vijax summary says why)."]
    assert not verdict.usable


def test_a_run_without_an_end_is_refused(run, capsys):
    result = run / "result.json"
    before = result.read_text()
    result.unlink()
    assert main(["check", str(run)]) == 2
    assert "expected a run that has ended; go on with it: vijax resume" in capsys.readouterr().err
    result.write_text(before)


def test_a_run_is_checked_in_earnest(run, capsys):
    """All five checks of a mixture of two far clusters."""
    assert main(["check", str(run), "--seed", "3"]) in (0, UNUSABLE)
    said = capsys.readouterr().out
    assert "other start(s) ends" in said
    assert "statistics of the data are like those of the model" in said
