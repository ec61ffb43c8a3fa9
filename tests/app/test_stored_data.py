"""Runs on data at addresses, and on tables of which a part is held."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

import vijax as vi
from vijax.app.answers import results
from vijax.app.cli import main
from vijax.app.plan.config import LISTINGS
from vijax.app.rows import transformed
from vijax.app.sources.doc_topics import read_doc_topics
from vijax.app.sources.documents import new_documents
from vijax.app.sources.listing import Data, FittedRun
from vijax.data import prepare
from vijax.data.corpora.corpus import Corpus
from vijax.data.streams import rows as rows_module

pytest.importorskip("tyro")
fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory():
    """A store whose folder `here` is removed in the end."""
    files = fsspec.filesystem("memory")
    files.mkdir("/here")
    yield files
    files.rm("/here", recursive=True)


def test_a_run_on_shards_of_documents_at_an_address(memory, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VIJAX_CACHE", str(tmp_path / "cache"))
    words = [f"{a}{b}ion" for a in ("act", "mot") for b in "abcdefgh"]
    rng = np.random.default_rng(0)
    texts = ((f"t{i}", " ".join(rng.choice(words[8 * (i % 2) :][:8], 30))) for i in range(60))
    memory.put(str(prepare(texts, tmp_path / "shards")), "/here/docs", recursive=True)
    settings = ["--set", "model.num_topics=2", "fit.num_epochs=3", "fit.evaluate_every=0"]
    assert (
        main(
            [
                "fit",
                "lda",
                "--data",
                "memory://here/docs",
                "--out",
                str(tmp_path / "run"),
                *settings,
            ]
        )
        == 0
    )
    facts = json.loads((tmp_path / "run" / "data.json").read_text())
    assert facts["documents"] + facts["held_out"] == 60
    assert "memory://here/docs" in (tmp_path / "run" / "config.toml").read_text()
    assert main(["resume", str(tmp_path / "run")]) == 0


TWO = [
    "--set",
    "model.num_topics=2",
    "algorithm.name=svi",
    "fit.batch_size=50",
    "fit.num_epochs=6",
    "data.sample=150",
]


@pytest.fixture
def documents(memory, tmp_path):
    """600 documents of two topics, sorted by topic; one word is of a single document."""
    words = [f"{a}{b}ion" for a in ("act", "mot") for b in "abcdefgh"]
    rng = np.random.default_rng(0)
    texts = [(f"t{i}", " ".join(rng.choice(words[8 * (i >= 400) :][:8], 20))) for i in range(600)]
    texts[7] = ("t7", texts[7][1] + " onlyion")
    made = prepare(
        texts,
        tmp_path / "shards",
        text=vi.data.TextSettings(min_df=1, max_df=1.0),
        shard_characters=16_000,
    )
    memory.put(str(made), "/here/docs", recursive=True)
    return texts


def test_a_run_on_documents_that_are_read_by_parts(documents, tmp_path, monkeypatch, capsys):
    """No copy of them is made, a run that goes on comes to the same end, and each document gets its
    topics."""
    monkeypatch.setenv("VIJAX_CACHE", str(tmp_path / "cache"))
    run, other = tmp_path / "run", tmp_path / "other"
    assert main(["fit", "lda", "--data", "memory://here/docs", "--out", str(run), *TWO]) == 0
    assert not (tmp_path / "cache").exists()
    said = capsys.readouterr().err
    assert "540 documents" in said
    assert "60 held out" in said
    assert "the page is of 150 of them" in said
    facts = json.loads((run / "data.json").read_text())
    assert (facts["documents"], facts["held_out"]) == (540, 60)
    found = vi.load(run).fit
    topics = np.asarray(found.posterior["topics"].concentration)
    total = 20 * 540 + topics.size * float(found.alg.spec.model.hyper["eta"])
    assert topics.sum() == pytest.approx(total, rel=0.05)
    assert len(read_doc_topics(run / "doc_topics_sample.csv")["document"]) == 150
    assert (run / "report.html").stat().st_size > 10_000
    # Two passes, then the rest of six: the state of the unbroken run.
    short = [x.replace("num_epochs=6", "num_epochs=2") for x in TWO]
    assert main(["fit", "lda", "--data", "memory://here/docs", "--out", str(other), *short]) == 0
    settings = other / "config.toml"
    settings.write_text(settings.read_text().replace("num_epochs = 2", "num_epochs = 6"))
    assert main(["resume", str(other)]) == 0
    np.testing.assert_array_equal(
        np.asarray(vi.load(other).fit.posterior["topics"].concentration), topics
    )
    # All documents, some at a time, in the order of the files.
    monkeypatch.setattr(transformed, "AT_ONCE", 250)
    assert main(["transform", str(run), "--out", str(tmp_path / "all.csv")]) == 0
    rows = read_doc_topics(tmp_path / "all.csv")
    assert rows["document"] == [title for title, _ in documents]
    of = (rows["share_1"] > 0.5).astype(int)
    assert (of[:400] == of[0]).mean() > 0.99
    assert (of[400:] == 1 - of[0]).mean() > 0.99
    capsys.readouterr()
    assert main(["transform", str(run)]) == 2
    assert "name a file to write them to" in capsys.readouterr().err
    done = []
    found = vi.load(run).transform(tell=done.append)
    assert (found["document"], done[-1]) == (rows["document"], 600)
    np.testing.assert_allclose(found["share"][:, 1], rows["share_1"], atol=1e-5)


@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        ("hpf", [], "algorithm.name=cavi reads all of them"),
        ("lda", ["algorithm.warm_starts=true"], "warm_starts remembers something of each"),
        ("lda", ['page.by=["year"]'], "page.by shows columns beside the text"),
        ("plsa", [], "plsa needs them all"),
    ],
)
def test_documents_that_cannot_be_read_by_parts_are_refused(
    documents, tmp_path, capsys, model, settings, said
):
    run = str(tmp_path / "run")
    every = ["--set", "data.sample=150", *settings]
    assert main(["fit", model, "--data", str(tmp_path / "shards"), "--out", run, *every]) == 2
    found = capsys.readouterr().err
    assert (
        f"600 {'users' if model == 'hpf' else 'documents'} are more than data.sample=150" in found
    )
    assert said in found
    assert "set data.sample=600" in found


@pytest.mark.parametrize(
    ("model", "columns"), [("lda", ["document", "words"]), ("hpf", ["user", "taken"])]
)
def test_results_by_parts_have_the_words_of_their_model(model, columns):
    found = new_documents(
        LISTINGS[model].source.columns, vi.data.read(np.eye(2, dtype=int)), first=3
    )
    assert list(found.beside) == columns
    assert found.beside[columns[0]] == [f"{columns[0]} 3", f"{columns[0]} 4"]


@pytest.mark.parametrize(
    ("model", "called"), [("lda", "documents"), ("hpf", "users"), ("plsa", "documents")]
)
def test_rows_that_are_many_are_called_as_they_are(model, called, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "MOST_ROWS", 2)
    said, seen = [], FittedRun(None, Data(vi.data.read(np.eye(3, dtype=int)), None), None, None)
    results.write_results(tmp_path, SimpleNamespace(listing=LISTINGS[model]), seen, said.append)
    assert f"is left out, for 3 {called} are many" in said[0]


ROWS = [
    "--set",
    "model.num_components=2",
    "model.emission.name=diagonal_gaussian",
    "data.sample=150",
]
BY_PARTS = [
    *ROWS,
    "algorithm.name=svi",
    "fit.batch_size=50",
    "fit.num_epochs=20",
    "data.standardise=true",
]


@pytest.fixture
def table(memory):
    """Two clusters of 600 rows in 3 files, sorted: one that reads the first rows alone finds one of
    them."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 2)) + 6.0 * (np.arange(600) >= 400)[:, None]
    for i in range(3):
        part = {"a": x[200 * i :][:200, 0], "b": x[200 * i :][:200, 1], "name": ["x"] * 200}
        with memory.open(f"/here/table/part-{i}.parquet", "wb") as file:
            parquet.write_table(arrow.table(part), file, row_group_size=70)
    return x


def test_a_run_on_rows_that_are_read_by_parts(table, tmp_path, capsys, monkeypatch):
    seen = []
    take = rows_module.Rows.take
    monkeypatch.setattr(
        rows_module.Rows,
        "take",
        lambda self, n, *a: seen.append((self, len(n))) or take(self, n, *a),
    )
    run = tmp_path / "run"
    assert (
        main(["fit", "mixture", "--data", "memory://here/table", "--out", str(run), *BY_PARTS]) == 0
    )
    said = capsys.readouterr().err
    assert "600 rows" not in said
    assert "540 rows of 2 columns, 60 rows held out" in said
    assert "the page and its pictures are of 150 of them" in said
    assert "transformed.csv is left out" in said
    facts = json.loads((run / "data.json").read_text())
    assert (facts["rows"], facts["held_out"], facts["columns"]) == (540, 60, ["a", "b"])
    fit = vi.load(run).fit
    weights = np.sort(np.asarray(fit.posterior["weights"].mean()))
    np.testing.assert_allclose(
        weights, [1 / 3, 2 / 3], atol=0.04
    )  # and the posterior is that of all training rows
    assert float(np.sum(np.asarray(fit.posterior["weights"].concentration))) > 500
    assert [n for _, n in seen[:2]] == [150, 60]
    assert main(["resume", str(run)]) == 0
    assert main(["check", str(run)]) == 2
    assert "a check reads all of them at once" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([], "algorithm.name=cavi reads all of them at each step"),
        (
            ["algorithm.name=svi", "algorithm.warm_starts=true"],
            "warm_starts remembers something of each",
        ),
        (["algorithm.name=svi", "data.num_rows=10"], "data.num_rows keeps some"),
    ],
)
def test_what_cannot_be_read_by_parts_is_refused(table, tmp_path, capsys, settings, said):
    run = str(tmp_path / "run")
    assert (
        main(["fit", "mixture", "--data", "memory://here/table", "--out", run, *ROWS, *settings])
        == 2
    )
    found = capsys.readouterr().err
    assert "600 rows are more than data.sample=150" in found
    assert said in found
    assert "set data.sample=600" in found
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        ("hmm", [], "hmm reads groups of rows, which parts would cut"),
        ("logistic_regression", ["data.target=b"], "each row has a site in the posterior"),
        (
            "vae",
            ["data.target=b"],
            "page of vae are made of all rows; in Python: vijax.fit(vijax.aevb(model)",
        ),
    ],
)
def test_models_that_need_all_rows_say_why(table, tmp_path, capsys, model, settings, said):
    run, few = str(tmp_path / "run"), ["--set", "data.sample=150", *settings]
    assert main(["fit", model, "--data", "memory://here/table", "--out", run, *few]) == 2
    found = capsys.readouterr().err
    assert said in found
    assert "set data.sample=600" in found


def kinds_of(kind):
    return [kind, *(below for sub in kind.__subclasses__() for below in kinds_of(sub))]


@pytest.mark.parametrize("kind", kinds_of(Corpus))
def test_rows_made_from_others_need_no_more_than_words(kind):
    """What a class of corpora adds is left behind where its words are selected: the fields are
    those of a corpus."""
    plain = kind.plain_kind.fget(None)
    assert {field.name for field in dataclasses.fields(plain)} == {
        field.name for field in dataclasses.fields(Corpus)
    }
    assert plain.wording is kind.wording
    assert plain.may_be_empty is kind.may_be_empty
