"""Labels of any kind name the groups of `vi.models.group_rows`, and no group is made of a gap
between numbers."""

import datetime

import numpy as np
import pytest

import vijax as vi
from tests.naming import naming

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

X = np.arange(6.0)[:, None]
Y = np.arange(6.0)
PLACES = np.array([2, 0, 0, 1, 2, 2])
DAYS = [datetime.date(2024, 1, day) for day in (1, 2, 3)]


def by_place(levels):
    """A label for each row, of levels in the order of the groups."""
    return [levels[place] for place in PLACES]


LABELS = {
    "numbers from 0": (PLACES, ("0", "1", "2")),
    "numbers from 100": (PLACES + 100, ("100", "101", "102")),
    "numbers of postcodes": (
        np.array(by_place([8, 1234567, 10**9])),
        ("8", "1234567", "1000000000"),
    ),
    "numbers beyond floats": (
        np.array(by_place([2**53, 2**53 + 1, 2**62])),
        tuple(map(str, (2**53, 2**53 + 1, 2**62))),
    ),
    "negative numbers": (PLACES - 2, ("-2", "-1", "0")),
    "floats": (PLACES * 1.0, ("0", "1", "2")),
    "text": (by_place(["ann", "bob", "cy"]), ("ann", "bob", "cy")),
    "an array of text": (np.array(by_place(["ann", "bob", "cy"])), ("ann", "bob", "cy")),
    "text of numbers": (by_place(["9", "10", "11"]), ("9", "10", "11")),
    "dates": (by_place(DAYS), ("2024-01-01", "2024-01-02", "2024-01-03")),
    "days of NumPy": (
        np.array(by_place(DAYS), "datetime64[D]"),
        ("2024-01-01", "2024-01-02", "2024-01-03"),
    ),
    "a series": (pandas.Series(by_place(["ann", "bob", "cy"])), ("ann", "bob", "cy")),
    "categories": (
        pandas.Categorical(by_place(["z", "a", "m"]), ["z", "unused", "a", "m"]),
        ("z", "a", "m"),
    ),
    "polars": (polars.Series(by_place(["ann", "bob", "cy"])), ("ann", "bob", "cy")),
    "true and false": (np.array([True, False, False, False, True, True]), ("False", "True")),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_name_the_groups(kind):
    labels, names = LABELS[kind]
    x, y, mask = vi.models.group_rows(X, Y, labels)
    assert vi.models.group_names(labels) == names
    if len(names) == 3:
        assert [row[there].tolist() for row, there in zip(y, mask, strict=True)] == [
            [1, 2],
            [3],
            [0, 4, 5],
        ]
    assert mask.any(axis=1).all()  # no group without rows
    np.testing.assert_array_equal(x[..., 0], y)


def test_a_gap_between_numbers_does_not_move_the_population():
    """Of g + 100 the mean of the population was another, for 100 groups more had no rows."""
    for shift in (100, -7, 2**40):
        got, expected = (vi.models.group_rows(X, Y, labels) for labels in (PLACES + shift, PLACES))
        for part, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(part, other)


def test_groups_without_rows_are_asked_for():
    _, _, mask = vi.models.group_rows(X, Y, PLACES, num_groups=5)
    assert mask.sum(axis=1).tolist() == [2, 1, 3, 0, 0]
    with pytest.raises(
        ValueError,
        match=naming("labels:", "0", "2", "`num_groups`"),
    ):
        vi.models.group_rows(X, Y, PLACES, num_groups=2)
    with pytest.raises(
        ValueError,
        match=naming("labels:", "'cy'", "0", "`num_groups`"),
    ):
        vi.models.group_rows(X, Y, by_place(["ann", "bob", "cy"]), num_groups=3)

    with pytest.raises(
        ValueError, match=naming("num_groups:", "2,147,483,647", "9,007,199,254,740,992", "Leave")
    ):
        vi.models.group_rows(X, Y, PLACES, num_groups=2**53)


@pytest.mark.parametrize("missing", [None, np.nan, ""])
def test_a_row_without_a_label_is_named(missing):
    labels = [*by_place(["ann", "bob", "cy"])[:5], missing]
    with pytest.raises(
        ValueError,
        match=naming("labels:", "row 5", "Leave those rows out"),
    ):
        vi.models.group_rows(X, Y, labels)


def test_labels_that_are_no_column_are_refused():
    with pytest.raises(
        ValueError, match=r"shapes \(N, D\), \(N,\) and \(N,\), got \(6, 1\), \(6,\) and \(6, 1\)"
    ):
        vi.models.group_rows(X, Y, PLACES[:, None])
    with pytest.raises(ValueError, match="labels: expected a label for each row"):
        vi.models.group_names(PLACES[:, None])
