"""`vijax fit lda`: two fits whose predictions are averaged, from the configuration to every output."""

import json

import jax
import numpy as np
import pytest

import vijax as vi
from vijax.app.cli import main
from vijax.app.plan.config import load_config
from vijax.fitting.checkpoint import checkpoint_files

KINDS = {"pets": "cats dogs mice fish birds", "money": "shares bonds banks gold rates"}
SHORT = ["model.num_topics=2", "data.max_df=1.0", "data.min_df=1", "fit.batch_size=20"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("texts") / "texts.csv"
    rows = [" ".join(rng.choice(words.split(), 12)) for words in KINDS.values() for _ in range(40)]
    path.write_text("text\n" + "\n".join(rows) + "\n")
    return path


def fit(texts, out, *more, config="lda"):
    return main(["fit", config, "--data", str(texts), "--out", str(out), "--set", *SHORT, *more])


@pytest.fixture(scope="module")
def run(texts):
    out = texts.parent / "run"
    assert fit(texts, out, "num_epochs=6") == 0
    return out


def last_score(folder):
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == "held_out"][-1]["score"]


def test_two_fits_are_the_default_and_answer_together(run, texts):
    config = load_config("lda")
    assert (config.fit.restarts, config.fit.combine) == (2, "average")
    assert "this model (2 fits, averaged)" in (run / "report.html").read_text()
    loaded = vi.load(run)
    members = loaded.fit.members
    assert len(members) == 2
    np.testing.assert_array_equal(
        members[0].posterior["topics"].concentration, loaded.fit.posterior["topics"].concentration
    )
    score = loaded.score(str(texts))
    corpus = loaded.fit.in_words(str(texts))
    each = [member.score(corpus, key=jax.random.key(0)).log_probs for member in members]
    assert np.all(score.log_probs >= np.mean(each, axis=0) - 1e-4)
    assert score.mean != pytest.approx(members[0].score(corpus, key=jax.random.key(0)).mean, abs=0)
    shares = loaded.transform(str(texts)).found["share"]
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    alone = loaded.transform([(texts.read_text().splitlines()[5])]).found["share"]
    np.testing.assert_allclose(alone[0], shares[4], rtol=1e-4)
    header, *rows = (run / "doc_topics.csv").read_text().splitlines()
    column = header.split(",").index("share_0")
    written = [float(row.split(",")[column]) for row in rows]
    np.testing.assert_allclose(written, shares[:, 0], atol=2e-3)


def test_a_run_that_was_stopped_goes_on_bit_for_bit(run, texts):
    parts = texts.parent / "parts"
    assert fit(texts, parts, "num_epochs=3") == 0
    config = parts / "config.toml"
    config.write_text(config.read_text().replace("num_epochs = 3", "num_epochs = 6"))
    assert main(["resume", str(parts)]) == 0
    first, second = (vi.load(folder).fit.runs for folder in (run, parts))
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert last_score(run) == last_score(parts)


def test_one_fit_is_one_setting_away(texts, capsys):
    out = texts.parent / "one"
    assert fit(texts, out, "num_epochs=1", "fit.restarts=1") == 0
    assert "fits are made" not in capsys.readouterr().err
    assert fit(texts, texts.parent / "two", "num_epochs=1") == 0
    assert "2 fits are made" in capsys.readouterr().err
    assert vi.load(out).fit.runs is None
    assert len(checkpoint_files(out / "checkpoints")) == 1


def test_models_whose_predictions_are_not_averaged_refuse(texts, capsys):
    out = texts.parent / "refused"
    given = ["fit.restarts=2", "fit.combine=average"]
    assert fit(texts, out, *given, config="hdp") == 2
    assert 'fit.combine: expected "best" for hdp' in capsys.readouterr().err
    assert not out.exists()
