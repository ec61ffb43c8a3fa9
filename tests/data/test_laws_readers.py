"""Laws of readers, on every pair of the registry: whatever the form of a table, and however its columns are typed, it
is the same table; and what cannot be read is refused with the place of its cell."""

import numpy as np
import pytest

from tests.data.readers import COVERED_ELSEWHERE, FORMS, Typing, typings
from vijax.data.reading.checks import DataError
from vijax.data.schema.cells import in_a_library
from vijax.data.schema.in_memory import columns_of
from vijax.data.schema.typed_columns import NoNumber, typed_table
from vijax.data.tables.columns import as_numbers
from vijax.data.tables.table_files import READERS, read_columns

TYPINGS = typings()
PAIRS = [(form, typing) for form in FORMS for typing in TYPINGS if form.holds(typing)]
on_pairs = pytest.mark.parametrize(("form", "typing"), PAIRS, ids=[f"{form}-{typing}" for form, typing in PAIRS])
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
    wanted = typing.labels if form.has_types else typing.text_names or typing.labels
    if "semicolons" in form.name and typing.numbers is not None:
        wanted = tuple(name.replace(".", ",") for name in wanted)
    assert labels.texts().tolist() == list(wanted)


@on_pairs
def test_levels_of_one_form_are_found_in_another(form, typing, tmp_path):
    """Training was a dict."""
    training = typed_table({"x y": typing.array}).columns["x y"].labels()
    levels = training.levels()
    labels = read(form, typing, tmp_path, ("x y",)).columns["x y"].labels()
    if "semicolons" in form.name and typing.numbers is not None and any("." in text for text in typing.texts()):
        pytest.skip("names of levels are exact text: 1,5 is not 1.5")
    np.testing.assert_array_equal(levels.codes_of(labels), levels.codes_of(training))


@on_pairs
def test_tables_of_numbers_are_read_alike(form, typing, tmp_path):
    """The reader of models without a formula says what that of formulas says."""
    source = form.make(tmp_path, {"id": IDS, "x y": typing})
    columns = read_columns(source) if isinstance(source, str) else columns_of(source)
    assert list(columns) == ["id", "x y"]
    if typing.name == "truth" and not form.has_types:
        with pytest.raises(DataError, match="expected numbers, got 'True'"):  # names of two classes, in these tables
            as_numbers(columns["x y"])
    elif typing.numbers is not None:
        np.testing.assert_array_equal(as_numbers(columns["x y"]), typing.numbers)


BAD = Typing("bad", np.array([1.5, 2.5, "oops", 4.5], object), None, ())


OF_ONE_TYPE = (".npz", ".parquet", "polars", "pyarrow")
"""Columns of these have one type, so that there is no such cell."""


@pytest.mark.parametrize("form", [form for form in FORMS if form.covers not in OF_ONE_TYPE], ids=repr)
def test_a_cell_that_is_no_number_is_refused_with_its_place(form, tmp_path):
    table = read(form, BAD, tmp_path)
    with pytest.raises(NoNumber) as refused:
        table.columns["x y"].numbers()
    assert refused.value.value == "oops"
    assert table.row_name(refused.value.row) == form.third_row


@pytest.mark.parametrize("form", FORMS, ids=repr)
@pytest.mark.parametrize("typing", [typing for typing in TYPINGS if typing.numbers is None], ids=repr)
def test_what_is_no_number_is_never_taken_for_one(form, typing, tmp_path):
    """Dates and names have no numbers; names that are numbers in a file are numbers there, and the same ones."""
    if not form.holds(typing):
        pytest.skip("not held by this form")
    column = read(form, typing, tmp_path).columns["x y"]
    try:
        numbers = column.numbers()
    except NoNumber:
        return
    np.testing.assert_array_equal(numbers, [float(name) for name in typing.labels])


def test_every_reader_has_a_row():
    """A new one needs a form in tests/data/readers.py."""
    covered = {form.covers for form in FORMS}
    assert set(READERS) == {name for name in covered if name.startswith(".")} | set(COVERED_ELSEWHERE)
    for library in ("pandas", "polars", "pyarrow"):
        assert library in covered
        assert in_a_library(type("Table", (), {"__module__": f"{library}.frame"})())
