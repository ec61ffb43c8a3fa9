"""Runs on phrases, with stop words of a file or of the language."""

import numpy as np

import vijax as vi
from vijax.app.cli import main
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config
from vijax.app.plan.plan import complete_plan

TEXTS = [
    "new york trades shares",
    "cats and dogs chase",
    "shares trade in new york",
    "dogs chase cats",
] * 6


def test_a_run_keeps_phrases_and_the_words_of_its_file(tmp_path, monkeypatch):
    """It is applied to new texts when the file is gone."""
    texts, stop = tmp_path / "texts.csv", tmp_path / "stop.txt"
    texts.write_text("text\n" + "\n".join(TEXTS) + "\n")
    stop.write_text("and\nin\n")
    settings = [
        "model.num_topics=2",
        "data.ngrams=2",
        f"data.stop_words={stop}",
        "data.max_df=1.0",
        "num_epochs=2",
        "fit.batch_size=8",
    ]
    run = str(tmp_path / "run")
    assert main(["fit", "lda_svi", "--data", str(texts), "--out", run, "--set", *settings]) == 0
    stop.unlink()
    monkeypatch.chdir("/")
    loaded = vi.load(run)
    assert loaded.config.data.stop_words == ("and", "in")
    assert {"new york", "cats dogs", "dogs chase"} <= set(loaded.vocabulary)
    found = loaded.transform(
        ["cats in dogs", "new shares"]
    )  # 'in' is left out before neighbours are joined
    np.testing.assert_array_equal(found["words"], [3, 2])


GERMAN = (
    "Die Regierung sagte, dass sie ihre Pläne für die neue Bahn nicht ändern werde, obwohl viele "
    "es wollen."
)


def test_a_run_keeps_the_language_for_new_documents(tmp_path):
    (tmp_path / "t.txt").write_text("\n".join([GERMAN] * 20), encoding="utf-8")
    config = load_config("lda", ["data.max_df=1.0"], str(tmp_path / "t.txt"))
    assert (config.data.stop_words, config.data.language) == ("auto", None)
    assert complete_plan(config, load_data(config)).config.data.language == "german"
    own = load_config("lda", ["data.max_df=1.0", "stop_words=none"], str(tmp_path / "t.txt"))
    assert complete_plan(own, load_data(own)).config.data.language is None
