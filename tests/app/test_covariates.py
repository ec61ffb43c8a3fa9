"""Topics with covariates on the command line: texts with columns beside them, from fit to new
texts."""

import numpy as np
import pytest

import vijax as vi
from vijax.app.cli import main
from vijax.app.report.pages import read_run


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.csv"
    about = {"left": "bread and butter for cats", "right": "shares and bonds of banks"}
    rows = [f"{about[side]},{side},{day}" for day in range(20) for side in about]
    path.write_text("text,party,day\n" + "\n".join(rows) + "\n")
    return path


def test_covariates_from_fit_to_new_texts(texts, tmp_path, capsys):
    run = tmp_path / "run"
    settings = [
        "model.num_topics=2",
        "data.max_df=1.0",
        "num_epochs=3",
        "held_out=0.2",
        "algorithm.estep.num_samples=8",
    ]
    settings += ["model.prevalence=~ party + day", "model.content=party", "model.num_samples=8"]
    assert main(["fit", "stm", "--data", str(texts), "--out", str(run), "--set", *settings]) == 0
    said = capsys.readouterr().out
    assert "Effect of party[right]" in said
    assert "Words by party" in said
    assert "Effect of day" in (run / "report.html").read_text()
    shown = {block.title: block for block in read_run(run).shown}
    curves, slopes = shown["Shares along day"], [row[1] for row in shown["Effect of day"].rows]
    values = np.array(curves.values)
    # The curve is at one party, the effect is an average over rows: of one sign and size.
    secants = (values[:, -1] - values[:, 0]) / (curves.x[-1] - curves.x[0])
    np.testing.assert_allclose(secants, slopes, rtol=0.5)
    assert "party = " in curves.note
    new = tmp_path / "new.csv"
    new.write_text("text,party,day\nbonds of banks,right,3\ncats,left,50\n")
    found = vi.load(run).transform(str(new))
    assert found["share"].shape == (2, 2)
    assert list(found["party"]) == ["right", "left"]
    new.write_text("text,party,day\nbonds of banks,centre,3\n")
    with pytest.raises(ValueError, match="centre"):
        vi.load(run).transform(str(new))


def test_a_formula_of_no_column_is_refused(texts, capsys):
    assert (
        main(
            [
                "fit",
                "stm",
                "--data",
                str(texts),
                "--set",
                "model.prevalence=~ year",
                "data.max_df=1.0",
            ]
        )
        != 0
    )
    assert "expected a column 'year'" in capsys.readouterr().err


def test_a_covariate_may_have_any_name(tmp_path):
    """Results have columns `document`, `words` and `topic` of their own; those of the data are read
    all the same."""
    path = tmp_path / "t.csv"
    about = ["bread and butter for cats", "shares and bonds of banks"]
    rows = [f"{about[i % 2]},{i % 2 * 10},{100 - i},{i % 5},c{i // 3 % 2}" for i in range(40)]
    path.write_text("text,document,words,sigma,topic\n" + "\n".join(rows) + "\n")
    run = tmp_path / "run"
    settings = [
        "model.num_topics=2",
        "data.max_df=1.0",
        "num_epochs=2",
        "held_out=0",
        "algorithm.estep.num_samples=8",
    ]
    settings += ["model.prevalence=~ document + words + sigma + topic", "model.num_samples=8"]
    assert main(["fit", "stm", "--data", str(path), "--out", str(run), "--set", *settings]) == 0
    loaded = vi.load(run)
    model = loaded.fit.alg.spec.model
    expected = np.array([i % 2 * 10 for i in range(40)], float)
    np.testing.assert_array_equal(model.covariates.design.rows.x[:, 1], expected)
    assert model.covariates.design.labels == (
        "Intercept",
        "document",
        "words",
        "`sigma`",
        "topic[c1]",
    )
    found = loaded.transform(str(path))
    assert list(found["document_"]) == [str(i % 2 * 10) for i in range(40)]
    assert list(found["words_"]) == [str(100 - i) for i in range(40)]
    later = {"document": ["10"], "words": ["93"], "sigma": ["2"], "topic": ["c0"]}
    np.testing.assert_array_equal(
        model.covariates.design.read_rows(later).x[0], model.covariates.design.rows.x[7]
    )
