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


@pytest.mark.slow
def test_curve_and_table_say_the_same_slope(tmp_path):
    """A theme has 8 + t or 16 + t of 40 words on day t: a share that grows by 1/40 a day, and stays
    between 0 and 1, so that no draw of the curve is cut off there."""
    themes = {
        "left": ["bread", "butter", "cats", "milk"],
        "right": ["shares", "bonds", "banks", "loans"],
    }
    rows = ["text,party,day"]
    for day in range(20):
        for party, words in (("left", 8), ("right", 16)):
            number = words + day
            text = [*(themes["right"] * 10)[:number], *(themes["left"] * 10)[: 40 - number]]
            rows.append(f"{' '.join(text)},{party},{day}")
    (tmp_path / "mixed.csv").write_text("\n".join(rows) + "\n")
    settings = ["model.num_topics=2", "data.max_df=1.0", "num_epochs=20", "held_out=0"]
    settings += ["model.prevalence=~ party + day", "model.num_samples=8"]
    command = ["fit", "stm", "--data", str(tmp_path / "mixed.csv"), "--out", str(tmp_path / "run")]
    assert main([*command, "--set", *settings]) == 0
    shown = {block.title: block for block in read_run(tmp_path / "run").shown}
    curves = shown["Shares along day"]
    slopes = [row[1] for row in shown["Effect of day"].rows]
    values = np.array(curves.values)
    secants = (values[:, -1] - values[:, 0]) / (curves.x[-1] - curves.x[0])
    np.testing.assert_allclose(secants, slopes, rtol=1e-4)
    np.testing.assert_allclose(np.abs(slopes), 1 / 40, rtol=0.1)


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
    curves = shown["Shares along day"]
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
