"""Remarks on how good a fit is: data without structure, scores that fall, topics that repeat,
sweeps that end at an edge."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from tests.naming import check_names
from vijax.app.answers.comparison import ComparedRun, Comparison, agreement
from vijax.app.answers.comparison_files import note, table
from vijax.app.answers.quality import plain_alternative, quality
from vijax.app.cli import main
from vijax.app.drawing import blocks
from vijax.app.plan.config import ConfigError
from vijax.app.rows.by_row import RowScore
from vijax.app.runs import run
from vijax.app.sources.listing import Data
from vijax.data import Corpus
from vijax.data.tables.table import Table
from vijax.evaluate import Agreement, Coherence, Difference, Score
from vijax.evaluate.metrics import Curves

NONE = np.zeros(0)
QUIET = Curves(NONE, NONE, NONE, NONE, NONE)


def seen(train, test):
    return SimpleNamespace(data=Data(train, test), settings=None)


def documents(seed):
    return Corpus.from_counts(np.random.default_rng(seed).poisson(2.0, (40, 12)))


def test_random_words_give_a_remark():
    """A model that is as good as the frequencies of words, and one that is worse."""
    train, test = documents(0), documents(1)
    plain = plain_alternative(seen(train, test), Score.of(np.zeros(40), test.tokens // 2)).score
    frequencies = np.log(train.word_counts() / train.num_tokens)
    wanted = (test.to_scipy() @ frequencies) / test.tokens * (test.tokens // 2)
    np.testing.assert_allclose(plain.log_probs, wanted)
    noise = np.random.default_rng(2).normal(0, 0.1, 40)
    noise -= noise.mean()
    words = "the frequencies of words alone (unigram)"
    for shift, said in (
        (-5e-4, f"worse than {words}: the difference is -0.00"),
        (-1.0, f"worse than {words}: the difference is -1"),
        (5e-4, f"better than {words} by 0.00"),
    ):
        score = Score.of(plain.log_probs + noise + shift * plain.num_tokens, plain.num_tokens)
        (block,), (warning,) = quality(seen(train, test), score, QUIET, [])
        assert f"predicts held-out data {said}" in warning
        assert (", less than two standard errors" in warning) == (shift > -1)
        assert (", more than two standard errors" in warning) == (shift == -1)
        assert warning in block.note
    better = Score.of(plain.log_probs + 0.5 * plain.num_tokens + noise, plain.num_tokens)
    (block,), warnings = quality(seen(train, test), better, QUIET, [])
    assert warnings == []
    assert block.header == ["held-out score", "nats per word"]
    np.testing.assert_allclose(
        [row[1] for row in block.rows], [better.mean, plain.mean, 0.5], atol=0.01
    )
    assert "better than the frequencies of words alone (unigram) by 0.5" in block.note


def test_the_plain_alternative_of_each_kind_of_table():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    score = RowScore.of(np.zeros(10), "row")
    train, test = Table(("a", "b"), x[:20]), Table(("a", "b"), x[20:])
    wanted = stats.norm.logpdf(x[20:], x[:20].mean(axis=0), x[:20].std(axis=0)).sum(axis=1)
    np.testing.assert_allclose(plain_alternative(seen(train, test), score).score.parts[0], wanted)
    scaled = train.standardise()
    found = plain_alternative(seen(scaled, test.standardise(scaled.scaling)), score)
    np.testing.assert_allclose(found.score.parts[0], wanted)
    with_y = [Table(("a",), x[part, :1], "y", y[part]) for part in (slice(20), slice(20, None))]
    found = plain_alternative(seen(*with_y), score)
    assert found.name == "the mean of the target"
    np.testing.assert_allclose(
        found.score.mean, stats.norm.logpdf(y[20:], y[:20].mean(), y[:20].std()).mean()
    )
    classes = [
        Table(("a",), x[part, :1], "y", np.sign(y[part]), ("no", "yes"))
        for part in (slice(20), slice(20, None))
    ]
    chance = ((y[:20] > 0).sum() + 0.5) / 21
    wanted = np.where(y[20:] > 0, np.log(chance), np.log(1 - chance)).mean()
    np.testing.assert_allclose(plain_alternative(seen(*classes), score).score.mean, wanted)
    held = np.where(rng.random((10, 2)) < 0.3, x[20:], np.nan)
    entries = RowScore.of(np.zeros(int(np.isfinite(held).sum())), "entry")
    assert (
        plain_alternative(seen(train, Table(("a", "b"), held)), entries).score.number
        == entries.number
    )
    groups = RowScore.of(np.zeros(2), "step", sizes=[5, 5])
    assert plain_alternative(seen(train, test), groups) is None  # the table has no groups


def test_the_plain_alternative_of_sequences_and_groups():
    """The sums over the steps of each sequence, over the rows of each group, and over known
    entries."""
    rng = np.random.default_rng(0)
    x, y, groups = rng.normal(size=(30, 2)), rng.normal(size=30), np.repeat([0, 1, 2], [15, 5, 10])
    names = {"group": "id", "groups": groups, "group_names": ("a", "b", "c")}
    train, test = Table(("a", "b"), x, **names), Table(("a", "b"), x + 0.1, **names)
    logs = stats.norm.logpdf(x + 0.1, x.mean(axis=0), x.std(axis=0)).sum(axis=1)
    wanted = [logs[:15].sum(), logs[15:20].sum(), logs[20:].sum()]
    found = plain_alternative(
        seen(train, test), RowScore.of(np.zeros(3), "step", sizes=[15, 5, 10])
    )
    assert found.name == "independent columns without the order of steps"
    np.testing.assert_allclose(found.score.parts[0], wanted)
    with_y = Table(("a", "b"), x, "y", y, **names)
    found = plain_alternative(
        seen(with_y, with_y), RowScore.of(np.zeros(3), "row", sizes=[15, 5, 10])
    )
    np.testing.assert_allclose(found.score.mean, stats.norm.logpdf(y, y.mean(), y.std()).mean())
    held = np.where(rng.random((30, 2)) < 0.3, x, np.nan)
    sizes = np.bincount(groups, np.isfinite(held).sum(1))
    found = plain_alternative(
        seen(train, Table(("a", "b"), held, **names)),
        RowScore.of(np.zeros(3), "entry", sizes=sizes),
    )
    known = np.nansum(stats.norm.logpdf(held, x.mean(axis=0), x.std(axis=0)), axis=1)
    np.testing.assert_allclose(found.score.parts[0], np.bincount(groups, known))


def test_one_held_out_sequence_gives_no_verdict():
    table = Table(("a",), np.random.default_rng(0).normal(size=(9, 1)))
    (block,), warnings = quality(
        seen(table, table), RowScore.of([-1.0], "step", sizes=[9]), QUIET, []
    )
    assert "is not known: one group is held out" in warnings[0]
    assert warnings[0] in block.note


def test_a_score_that_fell_is_said_and_one_within_its_error_is_not():
    curves = lambda last: Curves(
        NONE, NONE, np.array([1.0, 5.0]), np.array([-7.639, last]), np.array([0.01, 0.01])
    )
    _, warnings = quality(seen(None, None), None, curves(-7.666), [])
    assert "fell during the run, from -7.639 after 1 passes to -7.666" in warnings[0]
    assert "fit.num_epochs" in warnings[0]
    assert quality(seen(None, None), None, curves(-7.64), []) == ([], [])


def test_topics_that_repeat_are_counted():
    distances = np.array([[0.0, 0.05, 0.9], [0.05, 0.0, 0.9], [0.9, 0.9, 0.0]])
    topics = [SimpleNamespace(number=k, words=("sun",)) for k in (2, 0, 1)]
    shown, of = [blocks.Topics("3 topics", topics, distances)], seen(None, None)
    (block,), warnings = quality(of, None, QUIET, shown)
    assert block.rows == [warnings]
    assert warnings[0].startswith("2 of 3 topics are nearly the same as another one.")
    topics[2].words = ()  # as a model with `grow` leaves it by itself
    assert quality(of, None, QUIET, shown) == ([], [])


def test_scores_that_disagree_are_said():
    """Where the most coherent topics are clearly not those of the best run."""
    score = RowScore.of([-1.0, -2.0], "row")
    coherent = lambda mean: Coherence(mean, 0.01, np.array([mean]))
    for second, said in ((0.2, True), (0.11, False)):
        runs = [ComparedRun(Path("k40"), (40,), score, None, coherent(0.1), "")]
        runs.append(ComparedRun(Path("k5"), (5,), score, None, coherent(second), ""))
        assert (
            "The scores disagree: k40 predicts best" in note(Comparison(("k",), tuple(runs), 0))
        ) == said


def test_labels_that_say_otherwise_are_said():
    score = RowScore.of([-1.0, -2.0], "row")
    near = lambda mean: Agreement(mean, 0.01)
    runs = [ComparedRun(Path("k40"), (40,), score, None, None, "", near(0.4))]
    runs.append(ComparedRun(Path("k5"), (5,), score, None, None, "", near(0.6)))
    found = Comparison(("k",), tuple(runs), 0, by="kind")
    check_names(note(found), "k5", "NMI", "0.600", "0.400")
    assert [row[-1] for row in table(found).rows] == [0.4, 0.6]
    assert table(found).header[-1] == "NMI with kind"


def test_labels_are_those_of_the_runs_own_results(tmp_path):
    listing = SimpleNamespace(
        source=SimpleNamespace(results="doc_topics"), predicts="topic", name="lda"
    )
    config = SimpleNamespace(listing=listing)
    with pytest.raises(ConfigError, match="there is no such file; make it: vijax transform"):
        agreement(tmp_path, config, "kind")
    rows = "a,1,0.9\n'=b,0,0.9\na,1,0.9\n'=b,0,0.9\n,1,0.9\n"  # the last one has no label
    (tmp_path / "doc_topics.csv").write_text("kind,topic,share_0\n" + rows)
    assert agreement(tmp_path, config, "kind").mean == pytest.approx(1.0)
    with pytest.raises(ConfigError, match=r"--by sort: .* its columns are: kind"):
        agreement(tmp_path, config, "sort")


@pytest.mark.parametrize(
    ("better", "words"),
    [
        (0.5, "Beside them, the mean: -1.500. "),
        (0.1, "No run is better than the mean, which would"),
    ],
)
def test_a_comparison_says_what_a_plain_alternative_would_have(better, words):
    runs = tuple(
        ComparedRun(Path(name), (), RowScore.of([-1.0, -2.0], "row"), None, None, "")
        for name in "ab"
    )
    assert words in note(Comparison((), runs, 0, plain=("the mean", -1.5, Difference(better, 0.1))))


@pytest.mark.parametrize(
    ("best", "words"), [(2, "the largest model.num_topics"), (0, "the smallest"), (1, "")]
)
def test_a_sweep_whose_best_is_at_its_edge_says_so(best, words):
    score = RowScore.of([-1.0, -2.0], "row")
    runs = tuple(ComparedRun(Path(f"k{k}"), (k,), score, None, None, "") for k in (5, 10, 20))
    said = note(Comparison(("model.num_topics",), runs, best))
    assert words in said
    assert ("that was tried" in said) == bool(words)


def test_a_fault_of_the_remarks_loses_no_run(tmp_path, monkeypatch, capsys):
    """It is said once the end of the run is written."""

    def fail(*_):
        raise ZeroDivisionError("a fault of the remarks")

    monkeypatch.setattr(run, "quality", fail)
    data = tmp_path / "rows.csv"
    rows = np.random.default_rng(0).normal(size=(40, 2))
    np.savetxt(data, rows, delimiter=",", header="a,b", comments="")
    small = ["num_epochs=2", "num_components=2", "restarts=1"]
    assert (
        main(
            ["fit", "mixture", "--data", str(data), "--out", str(tmp_path / "run"), "--set", *small]
        )
        != 0
    )
    assert "a fault of the remarks" in capsys.readouterr().err
    with np.load(tmp_path / "run" / "posterior.npz") as posterior:
        assert len(posterior.files) > 0
