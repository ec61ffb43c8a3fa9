"""From configurations to corpora and algorithms."""

import itertools

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import check_names
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config, schema
from vijax.app.plan.plan import Plan, complete_plan
from vijax.app.runs import run
from vijax.app.sources.documents import read_over_vocabulary
from vijax.app.sources.listing import Data
from vijax.data import Corpus
from vijax.xla import native


def config(tmp_path, *overrides, data=None):
    (tmp_path / "run.toml").write_text("")
    return load_config(tmp_path / "run.toml", overrides, data)


def words(number):
    """A corpus of that many words in one document."""
    return Data(
        Corpus.from_counts(np.ones((1, number), int), [f"w{i}" for i in range(number)]), None
    )


ALGORITHMS = ("em", "map", "cavi", "svi", "ssvi", "ssvi_a")
ESTEPS = ("mean_field", "gibbs", "cvb0")


@pytest.mark.parametrize(("algorithm", "estep"), itertools.product(ALGORITHMS, ESTEPS))
def test_every_algorithm_with_every_estep_is_made(tmp_path, algorithm, estep):
    chosen = config(
        tmp_path, f"algorithm.name={algorithm}", f"algorithm.estep.name={estep}", "num_topics=2"
    )
    made = Plan(chosen, words(5)).algorithm
    state = jax.eval_shape(made.init, jax.random.key(0))
    assert state.posterior["topics"].concentration.shape == (2, 5)
    assert type(made.spec.estep).__name__.lower() == estep.replace("_", "")


def sparse(num_words):
    """A thousand documents of three words each."""
    counts = np.zeros((1000, num_words), int)
    rng = np.random.default_rng(0)
    for row in counts:
        row[rng.choice(num_words, 3, replace=False)] = 1
    return Data(Corpus.from_counts(counts, [f"w{i}" for i in range(num_words)]), None)


@pytest.mark.parametrize(
    ("overrides", "num_words", "lazy"),
    [
        ((), 5000, True),  # at most 768 words in a batch of 256
        ((), 600, False),
        (("num_topics=2",), 5000, False),  # a step would be spared next to nothing
        (("fit.batch_size=50",), 600, True),
        (("algorithm.name=svi",), 5000, True),
        (("algorithm.name=ssvi",), 5000, False),
        (("algorithm.name=cavi",), 5000, False),
        (('model.learn=["eta"]',), 5000, False),
        (("algorithm.lazy=false",), 5000, False),
    ],
)
def test_steps_are_lazy_where_that_gains(tmp_path, overrides, num_words, lazy):
    data = sparse(num_words)
    plan = complete_plan(config(tmp_path, "num_topics=200", *overrides), data)
    assert plan.config.algorithm.lazy is lazy
    assert ("by_words" in [own.name for own in plan.algorithm.wrappers]) is lazy


def test_documents_are_held_to_some_topics(tmp_path):
    data = sparse(600)
    plan = complete_plan(config(tmp_path, "num_topics=4", "algorithm.active_topics=2"), data)
    (wrapper,) = plan.algorithm.wrappers
    assert (wrapper.name, wrapper.active) == ("by_words", 2)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["algorithm.active_topics=2", "algorithm.lazy=false"],
            r"algorithm\.active_topics: expected none with algorithm\.lazy=false, got 2\. .*leave "
            r"algorithm\.lazy out",
        ),
        (
            ["algorithm.left_out=0.2"],
            r"algorithm\.left_out: expected none without algorithm\.active_topics, got 0\.2",
        ),
        (["algorithm.left_out=0.2", "algorithm.lazy=true"], "left_out: expected 0 without active"),
        (
            ["algorithm.name=ssvi", "algorithm.lazy=true"],
            r"leave by_words \(algorithm\.lazy\) out|Leave by_words \(algorithm\.lazy\) out",
        ),
        (
            ["algorithm.estep.name=gibbs", "algorithm.warm_starts=true"],
            r"leave warm \(algorithm\.warm_starts\) out",
        ),
    ],
)
def test_settings_of_steps_that_do_not_go_together_are_refused(tmp_path, overrides, message):
    with pytest.raises(ValueError, match=message):
        _ = Plan(config(tmp_path, "num_topics=2", *overrides), words(5)).algorithm


def test_settings_of_steps_are_wrappers(tmp_path):
    overrides = ["num_topics=2", "algorithm.name=svi"]
    made = lambda *more: Plan(config(tmp_path, *overrides, *more), words(5)).algorithm
    by_words = ["algorithm.active_topics=2", "algorithm.left_out=0.25"]
    for settings, expected in (
        ([], ()),
        (["algorithm.warm_starts=true"], vi.warm(made()).wrappers),
        (["algorithm.lazy=true"], vi.topics.by_words(made()).wrappers),
        (["algorithm.lazy=false"], vi.topics.all_words(made()).wrappers),
        (by_words, vi.topics.by_words(made(), 2, 0.25).wrappers),
        (
            ["algorithm.warm_starts=true", "algorithm.lazy=true"],
            vi.topics.by_words(vi.warm(made())).wrappers,
        ),
    ):
        assert made(*settings).wrappers == expected


def test_settings_reach_what_they_are_of(tmp_path):
    overrides = [
        "algorithm.estep.name=gibbs",
        "num_sweeps=7",
        "burn_in=2",
        "alpha=0.3",
        "learn=['alpha']",
    ]
    schedule = ["algorithm.step_size.name=hold_then_decay", "hold=4", "rho=0.5", "kappa=1.0"]
    made = Plan(config(tmp_path, *overrides, *schedule, "ramp=2"), words(5)).algorithm
    assert made.spec.estep == vi.estep.gibbs(num_sweeps=7, burn_in=2)
    assert made.spec.learn == ("alpha",)
    np.testing.assert_allclose(made.spec.model.hyper["alpha"], 0.3)
    np.testing.assert_allclose(
        [made.spec.step_size(np.int32(t)) for t in (0, 4, 5)], [0.5, 0.5, 0.25]
    )
    assert float(made.spec.ramp(np.int32(0), 100.0, 10.0)) == 5.0


def test_batches_by_default_suit_the_algorithm(tmp_path):
    many, some, few = (Data(Corpus.from_counts(np.full((n, 2), 10)), None) for n in (1000, 100, 5))
    of_seven = config(tmp_path, "batch_size=7")
    assert Plan(schema("lda")(), many).batch_size == 256
    assert Plan(schema("lda")(), some).batch_size == 100
    assert Plan(config(tmp_path, "algorithm.name=cavi"), many).batch_size is None
    by_svi = Plan(config(tmp_path, "algorithm.name=svi"), many)
    assert by_svi.batch_size == 500  # half: of short documents it wants more
    assert Plan(of_seven, many).batch_size == 7
    assert Plan(of_seven, few).batch_size == 5
    assert Plan(of_seven, many).batch_size_note == ""
    check_names(Plan(of_seven, few).batch_size_note, "batch_size", "7", "5")


def test_a_pass_is_as_many_steps_as_the_rows_want(tmp_path):
    some = Data(Corpus.from_counts(np.full((100, 2), 10)), None)
    assert [
        Plan(config(tmp_path, f"batch_size={n}"), some).steps_per_epoch for n in (7, 50, 100, 200)
    ] == [15, 2, 1, 1]
    assert Plan(config(tmp_path, "algorithm.name=cavi"), some).steps_per_epoch == 1


def test_words_unseen_in_training_are_dropped_from_both_parts(tmp_path):
    counts = np.ones((10, 4), int)
    counts[:, 3] = 0
    counts[2, 3] = 5  # one document alone has the last word
    Corpus.from_counts(counts, ["a", "b", "c", "d"]).save(tmp_path / "corpus")
    for seed in range(20):
        overrides = ["held_out=0.1", f"split_seed={seed}"]
        train, test = data = load_data(config(tmp_path, *overrides, data=str(tmp_path / "corpus")))
        assert train.vocabulary == test.vocabulary == data.names
        assert (train.word_counts() > 0).all()
        assert len(data.names) == (4 if train.num_tokens == 32 else 3)


def test_a_fingerprint_tells_corpora_apart():
    counts, words = np.array([[1, 2], [3, 0]]), ["a", "b"]
    marks = [
        Plan(schema("lda")(), Data(Corpus.from_counts(changed, names), None)).fingerprint
        for changed, names in (
            (counts, words),
            (counts, words),
            (counts[::-1], words),
            (counts, ["a", "c"]),
        )
    ]
    assert marks[0] == marks[1]
    assert len(set(marks)) == 3


def test_a_fingerprint_tells_gaps_between_slices_apart(tmp_path):
    """The slices of documents have the same numbers, but the last one is later."""
    path, marks = tmp_path / "texts.csv", []
    for last in (2003, 2003, 2009):
        rows = [f"sun sea sand,{year}" for year in (2001, 2002, last)]
        path.write_text("\n".join(["text,year", *rows]))
        overrides = ["model.name=dtm", "data.max_df=1.0", "held_out=0"]
        chosen = config(tmp_path, *overrides, data=str(path))
        marks.append(Plan(chosen, load_data(chosen)).fingerprint)
    assert marks[0] == marks[1] != marks[2]


def test_other_texts_are_read_over_the_words_of_the_run(tmp_path):
    (tmp_path / "other.jsonl").write_text('{"text": "rain and more rain"}\n{"text": "zebra sun"}\n')
    section = config(tmp_path, data=str(tmp_path / "other.jsonl")).data
    corpus = read_over_vocabulary(("rain", "snow", "sun"), section)
    np.testing.assert_array_equal(corpus.to_scipy().toarray(), [[2, 0, 0], [0, 0, 1]])


def test_runs_of_topics_say_where_esteps_are_not_compiled(tmp_path, monkeypatch):
    """Unless the user has switched them off, or the model has none."""
    (tmp_path / "texts.txt").write_text("red green\ngreen blue\n")
    (tmp_path / "rows.csv").write_text("a\n1\n2\n")

    def said(*overrides, data="texts.txt"):
        notes = []
        run.read(
            config(tmp_path, "data.held_out=0", *overrides, data=str(tmp_path / data)), notes.append
        )
        return [note for note in notes if "not compiled" in note]

    monkeypatch.setattr(native, "LIBRARY", tmp_path / "none.so")
    assert said() == [f"Note: {native.missing()}"]
    assert "Install vijax again" in native.missing()
    assert not said("model.name=mixture", data="rows.csv")
    monkeypatch.setenv(native.SWITCH, "0")
    assert not said()
