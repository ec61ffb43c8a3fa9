"""Laws of readers, on every pair of the registry: whatever the form of a table, and however its
columns are typed, it is the same table; and what cannot be read is refused with the place of its
cell."""

import re

import numpy as np
import pytest

from tests.data.readers import COVERED_ELSEWHERE, FORMS, Typing, typings
from tests.naming import check_names
from vijax.data.reading.checks import DataError
from vijax.data.schema.cells import is_library_table
from vijax.data.schema.in_memory import memory_columns
from vijax.data.schema.typed_columns import NoNumber, typed_table
from vijax.data.tables.columns import as_numbers, original_cells, row_names, said_missing
from vijax.data.tables.formats import Dialect
from vijax.data.tables.table import Choice, make_table, some_rows
from vijax.data.tables.table_files import READERS, read_columns

pytestmark = pytest.mark.filterwarnings("ignore:.*is read as missing:UserWarning")
TYPINGS = typings()
PAIRS = [(form, typing) for form in FORMS for typing in TYPINGS if form.holds(typing)]
on_pairs = pytest.mark.parametrize(
    ("form", "typing"), PAIRS, ids=[f"{form}-{typing}" for form, typing in PAIRS]
)
IDS = Typing("ids", np.arange(4), (0, 1, 2, 3), ("0", "1", "2", "3"))


def read(form, typing, folder, labels=()):
    """The typed table of two columns, of which the second is the one in question."""
    return typed_table(form.make(folder, {"id": IDS, "x y": typing}), labels=labels)


@on_pairs
def test_a_column_is_the_same_in_every_form(form, typing, tmp_path):
    table = read(form, typing, tmp_path)
    assert list(table.columns) == ["id", "x y"]
    assert len(table) == 4
    if typing.numbers is not None:
        np.testing.assert_array_equal(table.columns["x y"].numbers(), typing.numbers)


@on_pairs
def test_labels_are_exact_in_every_form(form, typing, tmp_path):
    """Files without types have text alone: their names are that text."""
    labels = read(form, typing, tmp_path, ("x y",)).columns["x y"].labels()
    assert labels.texts().tolist() == list(form.labels(typing))


@on_pairs
def test_levels_of_one_form_are_found_in_another(form, typing, tmp_path):
    """Training was a dict."""
    training = typed_table({"x y": typing.array}).columns["x y"].labels()
    levels = training.levels()
    if form.labels(typing) != typing.labels and typing.name == "codes":
        pytest.skip("a word for a missing cell in files that people write")
    labels = read(form, typing, tmp_path, ("x y",)).columns["x y"].labels()
    if (
        "semicolons" in form.name
        and typing.numbers is not None
        and any("." in text for text in typing.texts())
    ):
        pytest.skip("names of levels are exact text: 1,5 is not 1.5")
    np.testing.assert_array_equal(levels.find_codes(labels), levels.find_codes(training))


@on_pairs
def test_tables_of_numbers_are_read_alike(form, typing, tmp_path):
    """The reader of models without a formula says what that of formulas says."""
    source = form.make(tmp_path, {"id": IDS, "x y": typing})
    columns = read_columns(source) if isinstance(source, str) else memory_columns(source)
    assert list(columns) == ["id", "x y"]
    if typing.numbers is not None:
        np.testing.assert_array_equal(as_numbers(columns["x y"]), typing.numbers)


BAD = Typing("bad", np.array([1.5, 2.5, "oops", 4.5], object), None, ())


OF_ONE_TYPE = (".npz", ".parquet", "polars", "pyarrow")
"""Columns of these have one type, so that there is no such cell."""


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form.covers not in OF_ONE_TYPE], ids=repr
)
def test_a_cell_that_is_no_number_is_refused_with_its_place(form, tmp_path):
    table = read(form, BAD, tmp_path)
    with pytest.raises(NoNumber) as refused:
        table.columns["x y"].numbers()
    assert refused.value.value == "oops"
    assert table.row_name(refused.value.row) == form.third_row


@pytest.mark.parametrize("form", FORMS, ids=repr)
@pytest.mark.parametrize(
    "typing", [typing for typing in TYPINGS if typing.numbers is None], ids=repr
)
def test_what_is_no_number_is_never_taken_for_one(form, typing, tmp_path):
    """Dates and names have no numbers; names that are numbers in a file are numbers there, and the
    same ones."""
    if not form.holds(typing):
        pytest.skip("not held by this form")
    column = read(form, typing, tmp_path).columns["x y"]
    try:
        numbers = column.numbers()
    except NoNumber:
        return
    np.testing.assert_array_equal(numbers, [float(name) for name in typing.labels])


OF_FILES = [form for form in FORMS if form.covers.startswith(".")]
CODES = Typing("codes", ["NA", "DE", "na", "DE"], None, ())
"""Without a cell that is missing, so that every form holds it."""


@pytest.mark.parametrize("form", OF_FILES, ids=repr)
@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ["NA", "DE", "na", "DE"]),
        (("NA",), ["", "DE", "na", "DE"]),
        (("DE", "na"), ["NA", "", "", ""]),
    ],
)
def test_words_for_missing_names_are_those_that_the_user_gives(form, words, names, tmp_path):
    """In every file alike; without them text files and spreadsheets have their own."""
    path = form.make(tmp_path, {"id": IDS, "x y": CODES})
    found = read_columns(path, dialect=Dialect(missing_words=words), exact=["x y"])
    assert found["x y"].tolist() == names
    assert typed_table(found).columns["x y"].labels().texts().tolist() == names
    usual = ["", "DE", "", "DE"] if form.has_words else ["NA", "DE", "na", "DE"]
    assert read_columns(path, exact=["x y"])["x y"].tolist() == usual


@pytest.mark.parametrize("form", OF_FILES, ids=repr)
def test_words_that_were_read_as_missing_are_told_with_their_number(form, tmp_path):
    found = read_columns(form.make(tmp_path, {"id": IDS, "x y": CODES}), exact=["x y"])
    said = said_missing(found, "x y")
    if not form.has_words:
        assert said == ""
        return
    check_names(said, "'x y'", "'NA'", "1 cell", "'na'")
    assert "--set 'data.missing_words=[]'" in said
    assert said == typed_table(found).columns["x y"].said_missing()
    assert original_cells(found, "x y").tolist() == ["NA", "DE", "na", "DE"]


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_rows_keep_their_names_when_others_are_left_out(form, tmp_path):
    source = form.make(tmp_path, {"id": IDS, "x y": IDS})
    found = read_columns(source) if isinstance(source, str) else memory_columns(source)
    assert row_names(found).name(2) == form.third_row
    assert row_names(some_rows(found, np.array([1, 2]))).name(1) == form.third_row
    table = typed_table(source)
    assert table.row_name(2) == form.third_row
    part = table.rows(np.array([1, 2]))
    assert part.row_name(1) == form.third_row
    called, _, label = form.third_row.removesuffix(", counted from 0").partition(" ")
    assert part.list_rows([1]).startswith(f"{called} {label} (1 such)")


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form.covers not in OF_ONE_TYPE], ids=repr
)
def test_a_message_names_the_row_as_the_user_finds_it(form, tmp_path):
    source = form.make(tmp_path, {"id": IDS, "x y": BAD})
    found = read_columns(source) if isinstance(source, str) else memory_columns(source)
    with pytest.raises(DataError, match=f"'oops' in {re.escape(form.third_row)}"):
        make_table(some_rows(found, np.array([1, 2, 3])), Choice(columns=("x y",)), "a table")


def test_every_reader_has_a_row():
    """A new one needs a form in tests/data/readers.py."""
    covered = {form.covers for form in FORMS}
    assert set(READERS) == {name for name in covered if name.startswith(".")} | set(
        COVERED_ELSEWHERE
    )
    for library in ("pandas", "polars", "pyarrow"):
        assert library in covered
        assert is_library_table(type("Table", (), {"__module__": f"{library}.frame"})())
