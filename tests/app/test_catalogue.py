"""Every configuration that ships is fitted by the command line, a few steps of it, on data that
come with it."""

import json
import re
from pathlib import Path

import jax
import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from tests.app.written import check_written
from vijax.app.catalogue import LISTINGS
from vijax.app.cli import main
from vijax.app.plan.assemble import FULL_DATA, load_data
from vijax.app.plan.config import load_config
from vijax.app.plan.plan import Plan
from vijax.app.settings.sections import DocumentData
from vijax.app.settings.user_code import allow_named_file

FIGURES = True
CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.toml"))
FIRST = {load_config(path).model.name: path for path in reversed(CONFIGS)}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """The list of Python files that may be executed is that of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VIJAX_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Twenty documents of one length: texts of their own are too long for the fast suite."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    counts = np.array([rng.permutation([2, 2, 1, 1, 1, 0, 0, 0, 0, 0]) for _ in range(20)])
    vi.data.Corpus.from_counts(counts, [f"w{i}" for i in range(10)]).save(folder)
    return folder


def short(path, corpus):
    """The overrides of a short run, and its data: few rows, small batches, two restarts at the
    most."""
    config = load_config(path)
    values = [
        "num_epochs=2",
        "evaluate_every=0",
        "held_out=0.3",
        f"restarts={min(config.fit.restarts, 2)}",
    ]
    if isinstance(config.data, DocumentData):
        values += [] if config.algorithm.name in FULL_DATA else ["batch_size=10"]
        # Counts have no columns beside them.
        values += ["model.prevalence=~ 1"] if path.stem == "stm" else []
        values += ["data.time=order"] if path.stem == "dtm" else []
        return values + (["data.vocabulary=none"] if config.data.vocabulary else []), str(corpus)
    if not config.data.path.startswith("sklearn"):  # its rows are sorted by class
        values.append(f"num_rows={400 if getattr(config.data, 'group', 'links') else 40}")
    if config.fit.batch_size:
        size = (
            28 if path.stem == "finite_dp" else min(20, config.fit.batch_size)
        )  # the one whose steps are full: all rows
        values.append(f"batch_size={size}")
    return values, config.data.path


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_configuration_makes_an_algorithm_for_its_data(path, corpus):
    overrides, data = short(path, corpus)
    config = allow_named_file(load_config(path, overrides, data))
    plan = Plan(config, load_data(config))
    state = plan.state_like(plan.algorithm)
    assert all(
        np.issubdtype(leaf.dtype, np.floating)
        for leaf in jax.tree.leaves(getattr(state, "posterior", ()))
    )


QUICK = ("lda", "mixture", "hierarchical_regression", "logistic_regression")
"""Of these models, and of pLSA below, one configuration is fitted in the fast suite: all kinds of
data and methods."""


def slow_unless_quick(path):
    """Compilation makes a fit of each too long for the fast suite."""
    quick = path in [FIRST[n] for n in QUICK]
    return pytest.param(path, id=path.stem, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize("path", [slow_unless_quick(path) for path in CONFIGS])
def test_a_configuration_is_fitted(path, corpus, tmp_path, capsys):
    overrides, data = short(path, corpus)
    out = tmp_path / "run"
    assert main(["fit", str(path), "--out", str(out), "--data", data, "--set", *overrides]) == 0
    result = json.loads((out / "result.json").read_text())
    assert result["status"].startswith(("finished", "converged"))
    printed = capsys.readouterr().out
    score, error = result["score"]
    assert np.isfinite(score)
    assert np.isfinite(error) if error is not None else "its error is not known" in printed
    with np.load(out / "posterior.npz") as file:
        assert all(np.isfinite(file[name]).all() for name in file.files)
    assert (out / "summary.txt").read_text() in printed
    assert "Held-out score" in printed
    assert not re.search(r"\b(nan|inf)\b", (out / "report.html").read_text())
    assert list((out / "figures").glob("*.png"))
    listing = load_config(path).listing
    assert (out / f"{listing.source.results}.csv").is_file() == (listing.transform is not None)
    check_written(out, printed)


@pytest.mark.parametrize("name", ["plsa_2", pytest.param("ctm", marks=pytest.mark.slow)])
def test_a_run_whose_state_or_data_are_of_its_documents_is_read_again(
    name, corpus, tmp_path, capsys
):
    """On full data the correlated topic model carries q(z) of every document; pLSA has parameters
    of each."""
    path, out = Path(__file__).parents[2] / "configs" / f"{name}.toml", tmp_path / "run"
    overrides = ["num_epochs=2", "evaluate_every=0", "held_out=0.3", "num_topics=2"]
    assert (
        main(["fit", str(path), "--out", str(out), "--data", str(corpus), "--set", *overrides]) == 0
    )
    assert main(["topics", str(out)]) == 0
    assert main(["evaluate", str(out), "--data", str(corpus)]) == 0
    (out / "result.json").unlink()
    assert main(["report", str(out)]) == 0
    capsys.readouterr()
    assert main(["resume", str(out)]) == 0
    assert "from step 2" in capsys.readouterr().err


def test_every_model_has_a_configuration():
    assert {load_config(path).model.name for path in CONFIGS} == set(LISTINGS)


def test_every_configuration_explains_itself():
    for path in CONFIGS:
        head = path.read_text().partition("\n\n")[0]
        assert head.startswith("# ")
        assert f"vijax fit {path.stem}\n" in f"{head}\n".replace(" --data", "\n")
