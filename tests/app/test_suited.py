"""Settings that a format does not have are refused by name, with what they are for; none is passed
over."""

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config
from vijax.data import DataError, TextSettings, read
from vijax.data.tables.table import Choice, make_table

FILES = {
    "t.csv": "text,x\nplum,1\n",
    "t.txt": "plum pear\n",
    "t.jsonl": '{"text": "plum"}\n',
    "t.ldac": "1 0:1\n",
    "t.xlsx": "",
    "t.parquet": "",
    "t.npz": "",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("model", "path", "override", "message"),
    [
        (
            "mixture",
            "t.csv",
            "sheet=a",
            "data.sheet is the sheet of a spreadsheet, and t.csv is a text file",
        ),
        (
            "mixture",
            "t.csv",
            "sha256=ab",
            "data.sha256 is the checksum of the file at an .* and t.csv is a file",
        ),
        (
            "mixture",
            "t.csv",
            "synthetic_seed=2",
            "data.synthetic_seed is the seed of a synthetic table",
        ),
        (
            "mixture",
            "t.parquet",
            "separator=tab",
            "data.separator is what divides the cells of a csv",
        ),
        ("mixture", "t.parquet", "decimal=,", "data.decimal is the decimal sign of a text file"),
        ("mixture", "t.parquet", "encoding=cp1252", "data.encoding is the encoding of text files"),
        ("mixture", "t.xlsx", "separator=tab", "data.separator is .* and t.xlsx is a spreadsheet"),
        ("mixture", "t.npz", "sheet=a", "data.sheet is .* and t.npz is a file of NumPy arrays"),
        (
            "mixture",
            "synthetic:clusters",
            "missing_words=[]",
            "data.missing_words is .* is a synthetic table",
        ),
        (
            "mixture",
            "sklearn:iris",
            "encoding=cp1252",
            "data.encoding is .* is a table of scikit-learn",
        ),
        (
            "lda",
            "t.txt",
            "column=a",
            "data.column is the column that has the text, and t.txt is a text file with",
        ),
        (
            "lda",
            "t.jsonl",
            "sheet=a",
            "data.sheet is the sheet of a spreadsheet, and t.jsonl is JSON lines",
        ),
        (
            "lda",
            "t.ldac",
            "min_df=3",
            "data.min_df is how text becomes words, and t.ldac is a file of counts",
        ),
        ("lda", "t.csv", "sheet=a", "data.sheet is the sheet of a spreadsheet"),
        ("stochastic_block_model", "t.csv", "sheet=a", "data.sheet is the sheet of a spreadsheet"),
        ("mixture", "t.csv", "columns=[]", r"data.columns: expected one column or more.*got \[\]"),
        ("hmm", "t.csv", "order=[]", 'data.order: expected one column or more, or "none"'),
    ],
)
def test_a_setting_of_another_format_is_refused(model, path, override, message):
    with pytest.raises(ValueError, match=rf"--set data\.{override.partition('=')[0]}=.*{message}"):
        load_config(model, [f"data.{override}"], path)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("model", "path", "override"),
    [
        ("mixture", "t.csv", "separator=tab"),
        ("mixture", "t.xlsx", "sheet=a"),
        ("mixture", "t.csv", "missing_words=[]"),
        ("mixture", "t.parquet", 'missing_words=["NA"]'),
        ("mixture", "t.parquet", "encoding=utf-8"),  # as it is without
        ("mixture", "https://example.org/t.csv", "sha256=ab"),
        ("mixture", "synthetic:clusters", "synthetic_seed=2"),
        ("lda", "t.csv", "column=text"),
        ("lda", "t.jsonl", "min_df=3"),
        ("stm", "t.csv", "missing_words=[]"),
    ],
)
def test_a_setting_that_the_format_has_is_taken(model, path, override):
    load_config(model, [f"data.{override}"], path)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("path", "argument", "message"),
    [
        ("t.txt", {"column": "a"}, "column: is the column that has the text"),
        ("t.csv", {"sheet": "a"}, "sheet: is the sheet of a spreadsheet"),
        ("t.jsonl", {"separator": "tab"}, "separator: is what divides the cells of a csv"),
        (
            "t.ldac",
            {"text": TextSettings(min_df=3)},
            "text: is how text becomes words, and t.ldac is a file of counts",
        ),
        ("t.csv", {"sha256": "ab"}, "sha256: is the checksum of the file at an http"),
    ],
)
def test_an_argument_of_another_format_is_refused(path, argument, message):
    with pytest.raises(DataError, match=message):
        read(path, **argument)


@pytest.mark.parametrize(("key", "name"), [("weight", "w"), ("source", "from"), ("target", "to")])
def test_a_column_of_a_graph_that_is_named_must_be_there(key, name, tmp_path):
    """A weight of another name would leave all weights 1, and other ends make a matrix of the
    table."""
    (tmp_path / "e.csv").write_text("source,target,x\na,b,2\nb,c,3\n")
    config = load_config("stochastic_block_model", [f"data.{key}={name}"], str(tmp_path / "e.csv"))
    with pytest.raises(
        DataError, match=rf"expected a column '{name}' \(data\.{key}\), got none of that name"
    ):
        load_data(config)


def test_no_columns_are_no_choice():
    with pytest.raises(
        DataError, match=r"a table, data\.columns: expected one column or more, got none"
    ):
        make_table({"x": np.ones(3)}, Choice(columns=()), "a table")
