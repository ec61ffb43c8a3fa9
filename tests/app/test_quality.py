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
from vijax.app.answers.plain import COLUMNS, LAWS_OF_LIKELIHOODS, NoPlain, plain_alternative
from vijax.app.answers.quality import quality
from vijax.app.catalogue.hierarchical import ResponseConfig
from vijax.app.catalogue.parts.emissions import EmissionConfig
from vijax.app.catalogue.parts.networks import ObservedConfig
from vijax.app.catalogue.predictors import LikelihoodConfig
from vijax.app.cli import main
from vijax.app.drawing import blocks
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import ConfigError, load_config
from vijax.app.rows.by_row import RowScore
from vijax.app.runs import run
from vijax.app.sources.listing import Data, FittedRun
from vijax.data import Corpus
from vijax.data.tables.table import Table
from vijax.evaluate import Agreement, Coherence, Difference, Score
from vijax.evaluate.metrics import Curves

NONE = np.zeros(0)
QUIET = Curves(NONE, NONE, NONE, NONE, NONE)


def seen(train, test, **settings):
    no_fit = SimpleNamespace(runs=None)
    return SimpleNamespace(data=Data(train, test), settings=SimpleNamespace(**settings), fit=no_fit)


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
    assert found.name == "the same law without columns (gaussian)"
    np.testing.assert_allclose(
        found.score.mean, stats.norm.logpdf(y[20:], y[:20].mean(), y[:20].std()).mean()
    )
    classes = [
        Table(("a",), x[part, :1], "y", np.sign(y[part]), ("no", "yes"))
        for part in (slice(20), slice(20, None))
    ]
    chance = (y[:20] > 0).mean()
    wanted = np.where(y[20:] > 0, np.log(chance), np.log(1 - chance)).mean()
    found = plain_alternative(seen(*classes), score)
    np.testing.assert_allclose(found.score.mean, wanted, rtol=1e-5)
    held = np.where(rng.random((10, 2)) < 0.3, x[20:], np.nan)
    entries = RowScore.of(np.zeros(int(np.isfinite(held).sum())), "entry")
    assert (
        plain_alternative(seen(train, Table(("a", "b"), held)), entries).score.number
        == entries.number
    )
    groups = RowScore.of(np.zeros(2), "step", sizes=[5, 5])
    found = plain_alternative(seen(train, test), groups)  # the table has no groups
    assert isinstance(found, NoPlain)
    (block,), warnings = quality(seen(train, test), groups, QUIET, [])
    assert found.reason in block.rows[0][0]
    assert warnings == []


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
    assert found.name == "independent normal columns without the order of steps"
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


def named(name, **more):
    return SimpleNamespace(name=name, **more)


def in_halves(x, y=None):
    """The first and the second half of rows, as tables."""
    half = len(x) // 2
    parts = (slice(half), slice(half, None))
    names = tuple("abcd"[: x.shape[1]])
    target = {} if y is None else {"target": "y"}
    return [Table(names, x[p], **target, y=None if y is None else y[p]) for p in parts]


def plain_logs(tables, **settings):
    """The name and the log densities of the plain alternative."""
    score = RowScore.of(np.zeros(len(tables[1])), "row")
    found = plain_alternative(seen(*tables, **settings), score)
    return found.name, found.score.parts[0]


def test_columns_have_the_law_that_a_component_emits():
    """Whole numbers are normal for a normal component, and words are words, however they look."""
    rng = np.random.default_rng(4)
    x = rng.poisson([1.0, 4.0], (60, 2)).astype(float)
    tables = in_halves(x)
    first, second = x[:30], x[30:]
    _, found = plain_logs(tables, emission=named("poisson"))
    np.testing.assert_allclose(found, stats.poisson.logpmf(second, first.mean(0)).sum(1))
    _, found = plain_logs(tables, name="gap_nmf")
    np.testing.assert_allclose(found, stats.poisson.logpmf(second, first.mean(0)).sum(1))
    _, found = plain_logs(tables, emission=named("diagonal_gaussian"))
    normal = stats.norm.logpdf(second, first.mean(0), first.std(0)).sum(1)
    np.testing.assert_allclose(found, normal)
    _, found = plain_logs(tables, emission=named("categorical"))
    share = (first.sum(0) + 0.5) / (first.sum() + 1)
    np.testing.assert_allclose(found, second @ np.log(share))
    bits = in_halves(np.minimum(x, 1.0))
    _, found = plain_logs(bits, emission=named("bernoulli"))
    ones = (bits[0].x.sum(0) + 0.5) / 31
    wanted = np.log(np.where(bits[1].x > 0, ones, 1 - ones)).sum(1)
    np.testing.assert_allclose(found, wanted)
    _, found = plain_logs(tables, observed=named("bernoulli", threshold=0.0))
    np.testing.assert_allclose(found, wanted)


def test_correlated_noise_is_one_component_of_full_covariance():
    """With independent columns as the alternative a single component would be better by half of
    -log(1 - r^2)."""
    rng = np.random.default_rng(4)
    cov = np.array([[1.0, 0.95], [0.95, 1.0]])
    x = rng.multivariate_normal([0, 0], cov, 4000)
    name, found = plain_logs(in_halves(x), emission=named("full_gaussian"))
    assert name == "one normal law of all columns"
    best = stats.multivariate_normal([0, 0], cov).logpdf(x[2000:])
    assert np.mean(best - found) == pytest.approx(0.0, abs=0.01)


def test_every_law_of_a_target_and_of_a_component_has_one_without_columns():
    """A new one that is in neither table would be compared with nothing, or fail at the end."""
    assert {*LikelihoodConfig.OPTIONS, *ResponseConfig.OPTIONS} <= set(LAWS_OF_LIKELIHOODS)
    assert {*EmissionConfig.OPTIONS, *ObservedConfig.OPTIONS} <= set(COLUMNS)


def test_targets_have_the_law_of_their_likelihood():
    """A normal law of skewed, heavy or wide targets would lose to a column of noise."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(600, 1))
    amounts, counts = rng.gamma(0.5, 9.0, 600), rng.negative_binomial(1, 0.05, 600).astype(float)
    _, found = plain_logs(in_halves(x, amounts), likelihood=named("gamma_log"))
    best = stats.gamma.logpdf(amounts[300:], 0.5, scale=9.0)
    assert np.mean(best - found) == pytest.approx(0.0, abs=0.02)
    _, found = plain_logs(in_halves(x, counts), likelihood=named("negative_binomial"))
    best = stats.nbinom.logpmf(counts[300:], 1, 0.05)
    assert np.mean(best - found) == pytest.approx(0.0, abs=0.02)
    _, found = plain_logs(in_halves(x, counts), likelihood=named("poisson_log"))
    wanted = stats.poisson.logpmf(counts[300:], counts[:300].mean())
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def formula_run(folder, columns, *settings):
    """A run of a regression by a formula before its fit: half of its rows are held out."""
    path = folder / "rows.csv"
    lines = [
        ",".join(columns),
        *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n")
    config = load_config("glmm", ["data.held_out=0.5", *settings], str(path))
    data = load_data(config)
    return FittedRun(None, data, config.model, None)


def cells(frame, name):
    return frame.table.columns[name].numbers()


def test_a_formula_has_its_own_law_without_columns(tmp_path):
    """Noise is no better than it: trials, exposure, errors and weights are kept."""
    rng = np.random.default_rng(4)
    n = rng.integers(1, 60, 80)
    e = rng.uniform(0.5, 20, 80).round(3)
    columns = {"x": rng.normal(size=80).round(3), "n": n, "e": e, "w": rng.integers(0, 3, 80)}
    columns |= {"k": rng.binomial(n, 0.5), "c": rng.poisson(3 * e), "y": rng.normal(size=80)}
    columns["g"] = rng.choice([*"abcd"], 80, p=[0.45, 0.05, 0.05, 0.45])
    score = RowScore.of(np.zeros(40), "row")

    def plain(*settings):
        run = formula_run(tmp_path, columns, *settings)
        found = plain_alternative(run, score)
        return run.data.train, run.data.test, found.name, found.score.parts[0]

    train, test, name, logs = plain("model.formula=p(k,n) ~ x")
    assert name == "the same law without columns (binomial with its trials)"
    share = cells(train, "k").sum() / cells(train, "n").sum()
    wanted = stats.binom.logpmf(cells(test, "k"), cells(test, "n"), share)
    np.testing.assert_allclose(logs, wanted, atol=1e-4)
    train, test, name, logs = plain(
        "model.formula=c ~ x + (1 | g) + offset(log(e))", "model.family=poisson", "model.weights=w"
    )
    assert name == "the same law without columns and groups (poisson with its offset, weights)"
    weights = cells(train, "w")
    rate = weights @ cells(train, "c") / (weights @ cells(train, "e"))
    weights = cells(test, "w")
    wanted = weights * stats.poisson.logpmf(cells(test, "c"), rate * cells(test, "e"))
    np.testing.assert_allclose(logs, wanted[weights > 0], atol=1e-3)
    train, test, name, logs = plain("model.formula=se(y, e) ~ x")
    assert name == "the same law without columns (gaussian with its standard errors)"
    precision = cells(train, "e") ** -2
    mean = precision @ cells(train, "y") / precision.sum()
    wanted = stats.norm.logpdf(cells(test, "y"), mean, cells(test, "e"))
    np.testing.assert_allclose(logs, wanted, atol=1e-4)
    for family, settings in (
        ("categorical", ()),
        ("cumulative", ('model.order=["a","b","c","d"]',)),
    ):
        train, test, name, logs = plain("model.formula=g ~ x", f"model.family={family}", *settings)
        assert name == f"the same law without columns ({family})"
        frequencies = np.bincount(train.y.astype(int), minlength=4) / 40
        np.testing.assert_allclose(logs, np.log(frequencies)[test.y.astype(int)], atol=1e-2)
    bare = formula_run(tmp_path, columns, "model.formula=y ~ 1")
    assert isinstance(plain_alternative(bare, score), NoPlain)


def test_a_target_that_only_colours_pictures_is_no_target():
    tables = in_halves(np.random.default_rng(4).normal(size=(60, 2)), np.arange(60.0))
    name, found = plain_logs(tables, observed=named("gaussian", threshold=None))
    assert name == "independent normal columns"
    first = tables[0].x
    wanted = stats.norm.logpdf(tables[1].x, first.mean(0), first.std(0)).sum(1)
    np.testing.assert_allclose(found, wanted)


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
