"""Laws of run folders, on every model of the command line: `vijax.load` gives back the fit that
`vijax fit` made.

What the run in a folder says is what the fit in memory says, with the same seed, bit for bit: after
the folder and its data were moved, from another working folder, and of new data in whatever form
they come."""

import contextlib
import functools
import io
import shutil
import warnings
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

import vijax as vi
from tests.models.registry import on
from tests.models.run_folders import CASES, SHORT, Table
from tests.models.short_fits import assert_same
from vijax.app.catalogue import LISTINGS
from vijax.app.catalogue.parts.density_algorithm import METHODS
from vijax.app.cli import main
from vijax.app.folder.at_once import is_at_once
from vijax.app.folder.loaded import Run
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config
from vijax.app.plan.plan import complete_plan
from vijax.app.runs.run import prepare_config
from vijax.app.settings.options import option_settings
from vijax.app.sources.listing import FittedRun

KEY = jax.random.key(5)
DRAWS = 3
CODE = Path(__file__).parents[2] / "configs" / "density.py"


class Made(NamedTuple):
    """A run in its folder, the same fit in memory, and new data by the name of their form."""

    case: object
    folder: Path
    in_memory: Run
    training: Path
    sources: dict


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """case -> the run and the fit; each is made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VIJAX_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("vijax.app.report.pages._write_figures", lambda *arguments: [])
        yield functools.cache(lambda case: made_of(case, tmp_path_factory.mktemp(case.name)))


def made_of(case, folder):
    """`vijax fit` in this process; then the fit in memory."""
    path = case.form.write(folder)
    toml = folder / "run.toml"
    toml.write_text(
        f'[model]\nname = "{case.covers}"\n'
        + ('file = "density.py"\n' if case.covers == "density" else "")
    )
    shutil.copy(CODE, folder)
    settings = [*short(case), *case.form.settings, *case.settings]
    said = io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        warnings.simplefilter("ignore")
        code = main(
            [
                "fit",
                str(toml),
                "--data",
                str(path),
                "--out",
                str(folder / "run"),
                "--set",
                *settings,
            ]
        )
        assert code == 0, said.getvalue()
        config = prepare_config(load_config(toml, settings, str(path)))
        in_memory = fitted_in_memory(config, folder / "nowhere")
    return Made(case, folder / "run", in_memory, path, case.form.sources(folder))


def short(case):
    """Settings of a short run; a fit that stops by itself takes no number of steps."""
    own = LISTINGS[case.covers].algorithm.__name__ == "Choice"
    return [
        value
        for value in SHORT
        if not own or not value.startswith(("fit.num_epochs", "fit.restarts"))
    ]


def fitted_in_memory(config, folder):
    """The fit by `vijax.fit`, or by `vijax.auto`, of data that stay in memory."""
    with config.in_precision():
        plan = complete_plan(config, load_data(config))
        config, algorithm, key = plan.config, plan.algorithm, jax.random.key(config.fit.seed)
        if is_at_once(config):
            method = METHODS[config.algorithm.name]
            fit = method(
                algorithm.spec.model, plan.training, key=key, **option_settings(config.algorithm)
            )
        else:
            fit = vi.fit(
                algorithm,
                plan.training,
                key=key,
                num_epochs=config.fit.num_epochs,
                batch_size=plan.batch_size,
                tol=config.fit.convergence,
                throw=False,
            )
        return Run(folder, config, FittedRun(fit, plan.data, config.model, key))


def loaded(one, folder=None, training=None):
    return vi.load(folder or one.folder, training=training, allow_code=True)


def answers(run, new, draws=True):
    """All that a run says of new data: numbers by name."""
    listing = run.config.listing
    said = {}
    if listing.transform is not None:
        said["transform"] = dict(run.transform(new).found)
    if listing.predicts:
        said["predict"] = run.predict(new)
    if draws and listing.drawing is not None:
        said["draws"] = run.predictive(KEY, DRAWS, new).values
        if listing.drawing.of_steps:
            said["ahead"] = run.forecast(KEY, DRAWS, 2, new).values
    return said


def scores(run, new):
    if not run.config.listing.has_score(run.seen.model):
        return None
    return run.score(new, say=lambda note: None).parts


def globals_of(run):
    said = {"draws": run.sample(KEY, DRAWS)}
    if run.config.listing.of_documents and "topics" in run.seen.posterior:
        said["topics"] = [tuple(topic.words) for topic in run.topics(3)]
        said["shares"] = np.array([topic.probabilities for topic in run.topics(3)])
    return said


def test_every_model_of_the_command_line_has_a_row():
    """A model without one fails here: see tests/models/run_folders.py."""
    assert {case.covers for case in CASES} == set(LISTINGS)
    assert len({case.name for case in CASES}) == len(CASES)


@on(CASES)
def test_a_run_is_the_fit_in_memory(case, made):
    """The posterior, draws of the globals, topics; and what it says of new data, and their
    score."""
    one = made(case)
    run = loaded(one)
    assert_same(run.fit.posterior, one.in_memory.fit.posterior)
    assert_same(run.fit.state.hyper, one.in_memory.fit.state.hyper)
    assert_same(globals_of(run), globals_of(one.in_memory))
    new = one.sources["file"]
    assert_same(answers(run, new), answers(one.in_memory, new))
    if case.scores:
        assert_same(scores(run, new), scores(one.in_memory, new))


@on(CASES)
def test_a_run_that_was_moved_says_the_same(case, made, tmp_path, monkeypatch):
    """The folder and the data have another place, their first one is gone, and so is the working
    folder."""
    one = made(case)
    shutil.copytree(one.folder, tmp_path / "moved")
    shutil.copy(one.training, tmp_path / "data.csv")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    new = one.sources["file"]
    own = loaded(one).transform().found if LISTINGS[case.covers].transform else {}
    hidden = one.training.with_suffix(".gone")
    one.training.rename(hidden)
    try:
        run = loaded(one, Path("../moved"), "../data.csv")
        assert_same(answers(run, new, draws=False), answers(one.in_memory, new, draws=False))
        if own:
            assert_same(dict(run.transform().found), dict(own))
        if not LISTINGS[case.covers].needs_rows and not is_full(case):
            without = loaded(one, Path("../moved"))
            assert_same(
                answers(without, new, draws=False), answers(one.in_memory, new, draws=False)
            )
    finally:
        hidden.rename(one.training)


def is_full(case):
    """The correlated topic model on full data carries q(z) of every document."""
    return case.covers == "ctm"


@on(CASES)
def test_new_data_in_any_form_are_the_same_data(case, made):
    """Files and tables in memory, columns in another order, numbers as text: the same answers and
    scores."""
    one = made(case)
    run = loaded(one)
    wanted = answers(run, one.sources["file"], draws=False)
    score = scores(run, one.sources["file"]) if case.scores else None
    for name, source in one.sources.items():
        assert_same(answers(run, source, draws=False), wanted, f"{name}: ")
        if case.scores:
            assert_same(scores(run, source), score, f"{name}: ")


@on(
    [
        case
        for case in CASES
        if isinstance(case.form, Table) and LISTINGS[case.covers].transform is not None
    ]
)
def test_a_row_that_lacks_a_cell_is_answered_alike_in_any_form(case, made, tmp_path):
    """Where the model has no law for missing cells the results of this row are empty."""
    run = loaded(made(case))
    sources = case.form.with_a_gap(tmp_path)
    wanted = dict(run.transform(sources["file"]).found)
    for name, source in sources.items():
        assert_same(dict(run.transform(source).found), wanted, f"{name}: ")
