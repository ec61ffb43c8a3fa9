"""Properties of readers, on tables that hypothesis makes up: whatever the form of a file, its
columns are those that were written."""

import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.readers import FORMS, Typing
from vijax.data.schema.typed_columns import typed_table

IDS = Typing("ids", np.arange(4), (0, 1, 2, 3), ("0", "1", "2", "3"))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64)
LETTERS = st.characters(categories=("Lu", "Ll", "Lo"), include_characters=" -,;\"'#")
TEXTS = st.text(LETTERS, min_size=1, max_size=8).map(lambda text: f"k{text}q")
"""Neither blank at their ends, nor a number, a date or a word for a missing cell."""


def four(cells):
    return st.lists(cells, min_size=4, max_size=4)


def write_and_read(form, typing, labels=()):
    with tempfile.TemporaryDirectory() as folder:
        table = typed_table(form.make(Path(folder), {"id": IDS, "x y": typing}), labels=labels)
        column = table.columns["x y"]
        return column.labels().texts().tolist() if labels else column.numbers()


@pytest.mark.parametrize("form", FORMS, ids=str)
@settings(max_examples=8, deadline=None)
@given(four(NUMBERS))
def test_numbers_come_back_to_the_last_bit(form, numbers):
    typing = Typing("float64", np.array(numbers), tuple(numbers), ())
    if form.holds(typing):
        np.testing.assert_array_equal(write_and_read(form, typing), numbers)


@pytest.mark.parametrize("form", FORMS, ids=str)
@settings(max_examples=8, deadline=None)
@given(four(st.integers(-(2**31), 2**31 - 1)))
def test_whole_numbers_come_back(form, numbers):
    typing = Typing("int64", np.array(numbers), tuple(numbers), tuple(map(str, numbers)))
    if form.holds(typing):
        np.testing.assert_array_equal(write_and_read(form, typing), numbers)


@pytest.mark.parametrize("form", FORMS, ids=str)
@settings(max_examples=8, deadline=None)
@given(four(TEXTS))
def test_texts_come_back_letter_by_letter(form, texts):
    """Commas, quotes, semicolons and signs of comments within them, and letters of any language, in one of
    Unicode's forms."""
    typing = Typing("text", texts, None, tuple(texts))
    if form.holds(typing):
        expected = [unicodedata.normalize("NFC", text) for text in texts]
        assert write_and_read(form, typing, labels=("x y",)) == expected
