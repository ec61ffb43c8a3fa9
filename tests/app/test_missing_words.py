"""NA is a word for a missing cell in files that people write, unless it is a name: what was read as
missing is told with the setting that reads it as text, and later tables are read as those of
training."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from tests.naming import check_names, naming
from vijax.app.cli import main
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config

AS_TEXT = "data.missing_words=[]"
SAID = (
    r"In the column '{}' 'NA' \({} cells?\) is read as missing\. If it is a name: --set "
    r"'data\.missing_words=\[\]'"
)
CODES = ["NA", "DE", "FR"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """One table as a CSV and in Parquet: groups, classes, users, items and nodes are called NA."""
    monkeypatch.chdir(tmp_path)
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    columns = {
        "country": [CODES[i % 3] for i in range(30)],
        "cls": ["NA" if i % 2 else "DE" for i in range(30)],
        "x": rng.normal(size=30).round(2).tolist(),
        "y": rng.normal(size=30).round(2).tolist(),
        "user": ["NA" if i < 4 else f"u{i % 7}" for i in range(30)],
        "item": [f"i{i % 5}" for i in range(30)],
    }
    parquet.write_table(arrow.table(columns), "t.parquet")
    with Path("t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])


CASES = [
    ("glmm", ["model.formula=y ~ x + (1 | country)"], "country", 10),
    ("glmm", ["model.formula=y ~ x + country"], "country", 10),
    (
        "hierarchical_linear",
        ["data.group=country", "data.target=y", 'data.columns=["x"]'],
        "country",
        10,
    ),
    ("logistic_regression", ["data.target=cls", 'data.columns=["x"]'], "cls", 15),
    ("hpf", ["data.user=user", "data.item=item"], "user", 4),
    ("stochastic_block_model", ["data.source=user", "data.target=item"], "user", 4),
]


def size_of(data):
    train = data.train
    return getattr(train, "num_rows", None) or len(
        train.titles if hasattr(train, "titles") else train.columns
    )


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("model", "given", "column", "number"), CASES)
def test_names_that_were_read_as_missing_are_told_and_the_setting_reads_them(
    model, given, column, number
):
    given = [*given, "held_out=0"]
    with pytest.raises(ValueError, match=SAID.format(column, number)):
        load_data(load_config(model, given, "t.csv"))
    as_text = size_of(load_data(load_config(model, [*given, AS_TEXT], "t.csv")))
    assert as_text == size_of(load_data(load_config(model, given, "t.parquet")))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("model", "given", "column", "number"), CASES[:3])
def test_rows_that_are_left_out_for_a_word_are_told(model, given, column, number):
    data = load_data(load_config(model, [*given, "held_out=0", "data.missing=drop"], "t.csv"))
    assert size_of(data) == 30 - number
    assert any(re.search(SAID.format(column, number), note) for note in data.train.notes)


@pytest.mark.usefixtures("here")
def test_an_error_of_the_rows_that_are_left_tells_the_words_too():
    model, given, column, number = CASES[3]
    with pytest.raises(
        ValueError, match=f"expected two classes, got 1: 'DE'.*{SAID.format(column, number)}"
    ):
        load_data(load_config(model, [*given, "held_out=0", "data.missing=drop"], "t.csv"))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("given", [given for model, given, *_ in CASES if model == "glmm"])
def test_a_level_of_training_is_no_missing_cell_in_a_later_table(given):
    """Training was Parquet, where NA is a name."""
    config = load_config("glmm", [*given, "held_out=0"], "t.parquet")
    data = load_data(config)
    new = config.listing.source.new(config, data, "t.csv", None)
    assert new.places is None
    assert new.data.table.columns["country"].labels().texts()[:3].tolist() == CODES
    assert new.beside["country"][:3] == CODES


@pytest.mark.usefixtures("here")
def test_a_group_of_training_is_no_missing_cell_in_a_later_table():
    given = ["data.group=country", "data.target=y", 'data.columns=["x"]', "held_out=0"]
    config = load_config("hierarchical_linear", given, "t.parquet")
    new = config.listing.source.new(config, load_data(config), "t.csv", None)
    assert new.places is None
    assert new.data.group_names == tuple(CODES)


@pytest.mark.usefixtures("here")
def test_columns_that_are_carried_through_stay_as_they_are_written():
    config = load_config("mixture", ['data.columns=["x", "y"]', "held_out=0"], "t.csv")
    new = config.listing.source.new(config, load_data(config), "t.csv", None)
    assert new.beside["country"][:3] == CODES
    assert new.beside["cls"][:2] == ["DE", "NA"]


@pytest.mark.usefixtures("here")
def test_words_of_columns_beside_texts_are_told_and_read():
    rows = [{"text": "plum pear apple", "g": CODES[i % 3]} for i in range(12)]
    with Path("texts.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["text", "g"])
        writer.writeheader()
        writer.writerows(rows)
    given = ["model.prevalence=~ g", "model.num_topics=2", "data.min_df=1", "data.max_df=1.0"]
    with pytest.raises(ValueError, match=r"none of 'g' in lines .*" + SAID.format("g", 4)):
        load_data(load_config("stm", given, "texts.csv"))
    data = load_data(load_config("stm", [*given, AS_TEXT], "texts.csv"))
    assert sum(part.num_documents for part in data.parts) == 12


@pytest.mark.usefixtures("here")
def test_init_says_which_words_it_read_as_missing():
    assert main(["init", "glmm", "--data", "t.csv"]) == 0
    text = Path("t_glmm.toml").read_text()
    check_names(text, "country:", "2", "10", "'NA'", "data.missing_words")
    assert re.search(SAID.format("country", 10), text)


@pytest.mark.usefixtures("here")
def test_numbers_are_no_words_in_files_with_types(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "t.parquet")
    parquet.write_table(arrow.table({"x": [1.0, -99.0, 2.0]}), path)
    with pytest.raises(ValueError, match=naming("data.missing_words:", "'-99'")):
        load_data(load_config("mixture", ['data.missing_words=["-99"]'], path))


def test_numbers_in_text_are_classes_when_the_remedy_is_followed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"y": ["0", "1", "2"] * 10, "x": np.random.default_rng(0).normal(size=30)}
    parquet.write_table(arrow.table(columns), "t.parquet")
    given = ["model.formula=y ~ x", "held_out=0"]
    assert main(["fit", "glmm", "--data", "t.parquet", "--set", *given]) != 0
    said = " ".join(capsys.readouterr().err.split())
    check_names(said, "--set", "model.family")
    data = load_data(load_config("glmm", [*given, "model.family=categorical"], "t.parquet"))
    assert data.train.y.tolist() == [0.0, 1.0, 2.0] * 10
