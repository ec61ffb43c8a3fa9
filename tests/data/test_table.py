"""Tables: which columns are what, splits, standardising, and the messages of what cannot be."""

import numpy as np
import pytest

from tests.naming import naming
from vijax.data.tables.table import Choice, Table, make_table, split_table

COLUMNS = {
    "a": np.array([1.0, 2.0, 3.0, 4.0]),
    "b": np.array([0.0, 1.0, np.nan, 1.0]),
    "who": np.array(["x", "y", "x", "z"], object),
    "count": np.array([3.0, 0.0, 2.0, 7.0]),
    "kind": np.array(["no", "yes", "yes", "no"], object),
}


def table(**choice):
    return make_table(COLUMNS, Choice(**{"columns": ("a",), **choice}), "here.csv")


def test_columns_of_numbers_are_taken_but_for_target_and_group():
    found = make_table(COLUMNS, Choice(target="count", group="who", missing=True), "here.csv")
    assert found.columns == ("a", "b")
    np.testing.assert_array_equal(found.y, COLUMNS["count"])
    np.testing.assert_array_equal(found.groups, [0, 1, 0, 2])
    assert found.group_names == ("x", "y", "z")
    assert [len(sequence) for sequence in found.sequences()] == [2, 1, 1]


def test_groups_are_numbered_as_they_first_occur_and_anew_among_some_rows():
    columns = {"a": np.arange(5.0), "g": np.array([7.0, 2.0, 2.0, 7.0, 5.0])}
    found = make_table(columns, Choice(group="g"), "here.csv")
    assert found.group_names == ("7", "2", "5")
    some = found.rows(np.array([1, 4]))
    assert some.group_names == ("2", "5")
    np.testing.assert_array_equal(some.groups, [0, 1])


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (np.array(["no", "yes", "yes"], object), ("no", "yes")),
        (np.array([10.0, 9.0, 10.0]), ("9", "10")),
    ],
)
def test_two_classes_in_the_order_of_their_names_or_numbers(values, classes):
    found = make_table(
        {"a": np.zeros(3), "t": values}, Choice(target="t", kind="binary"), "here.csv"
    )
    assert found.classes == classes
    names = [classes[int(y > 0)] for y in found.y]
    assert names == [str(v) if isinstance(v, str) else f"{v:.0f}" for v in values]


@pytest.mark.parametrize(
    ("choice", "fragments"),
    [
        ({"columns": ("aa",)}, ["here.csv", "'aa'", "did you mean 'a'?"]),
        ({"target": "amount"}, ["'amount'", "known: 'a', 'b'"]),
        ({"columns": ("a", "who")}, ["column 'who'", "'x' in row 0", "data.columns"]),
        (
            {"columns": ("a", "b")},
            ["a missing value in row 2, counted from 0, of column 'b'", "(1 such)"],
        ),
        ({"target": "b", "kind": "real"}, ["target 'b'", "nan in row 2"]),
        (
            {"target": "a", "columns": ("count",), "kind": "binary"},
            ["two classes", "4: '1', '2', '3', '4'"],
        ),
        (
            {"target": "kind", "kind": "binary", "classes": ("no", "maybe")},
            ["'no' and 'maybe' of the run", "'yes'"],
        ),
        ({"target": "kind", "kind": "count"}, ["numbers", "'no' in row 0"]),
    ],
)
def test_what_cannot_be_is_named(choice, fragments):
    with pytest.raises(ValueError, match=r"here\.csv") as caught:
        table(**choice)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_fractions_and_negative_numbers_are_no_counts():
    columns = {"a": np.zeros(2), "t": np.array([1.0, 1.5])}
    with pytest.raises(ValueError, match=r"counts 0, 1, 2, \.\.\., got 1.5 in row 1"):
        make_table(columns, Choice(target="t", kind="count"), "here.csv")


def test_a_table_of_words_alone_has_no_columns_to_use():
    with pytest.raises(ValueError, match=naming("'who'", "'kind'")):
        make_table({name: COLUMNS[name] for name in ("who", "kind")}, Choice(), "here.csv")


def test_standardising_uses_the_training_rows_and_leaves_constants_and_gaps():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.normal(3, 5, (50, 2)), np.full((50, 1), 4.0), np.full((50, 1), np.nan)], axis=1
    )
    x[3, 0] = np.nan
    train = Table(("a", "b", "c", "d"), x).standardise()
    np.testing.assert_allclose(np.nanmean(train.x[:, :2], axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(train.x[:, :2], axis=0), 1, rtol=1e-12)
    np.testing.assert_array_equal(train.x[:, 2], 0)
    assert np.isnan(train.x[:, 3]).all()
    other = Table(("a", "b", "c", "d"), x + 5.0).standardise(train.scaling)
    np.testing.assert_allclose(other.x[:, 1], train.x[:, 1] + 5.0 / train.scaling.deviation[1])


def test_rows_are_held_out_once_and_by_the_seed():
    whole = Table(("a",), np.arange(100.0)[:, None])
    train, test = split_table(whole, 0.2, 3, "groups")
    assert (train.num_rows, test.num_rows) == (80, 20)
    assert set(train.x[:, 0]) | set(test.x[:, 0]) == set(range(100))
    again, other = split_table(whole, 0.2, 3, "groups")[1], split_table(whole, 0.2, 4, "groups")[1]
    np.testing.assert_array_equal(test.x, again.x)
    assert set(test.x[:, 0]) != set(other.x[:, 0])


def test_groups_are_held_out_whole():
    groups = np.repeat(np.arange(10), 7)
    whole = Table(
        ("a",),
        groups[:, None].astype(float),
        group="g",
        groups=groups,
        group_names=tuple("abcdefghij"),
    )
    train, test = split_table(whole, 0.3, 0, "groups")
    assert (train.num_groups, test.num_groups) == (7, 3)
    assert not set(train.group_names) & set(test.group_names)
    assert all(
        len(set(sequence[:, 0])) == 1 for part in (train, test) for sequence in part.sequences()
    )


def test_entries_held_out_are_missing_from_training_and_only_they_are_left():
    rng = np.random.default_rng(0)
    x = np.where(rng.random((60, 8)) < 0.7, rng.normal(size=(60, 8)), np.nan)
    train, test = split_table(Table(tuple("abcdefgh"), x), 0.25, 1, "entries")
    there, out = np.isfinite(train.x), np.isfinite(test.x)
    assert not (there & out).any()
    np.testing.assert_array_equal(there | out, np.isfinite(x))
    assert 0.2 < out.sum() / np.isfinite(x).sum() < 0.3


def test_too_little_to_hold_any_out_is_said():
    with pytest.raises(ValueError, match=r"data\.held_out"):
        split_table(Table(("a",), np.zeros((3, 1))), 0.01, 0, "entries")
    with pytest.raises(ValueError, match=r"data\.held_out"):
        split_table(Table(("a",), np.zeros((1, 1))), 0.5, 0, "groups")


@pytest.mark.parametrize(
    ("share", "number", "says"), [(0.1, 1, True), (0.9, 2, True), (0.3, 1, False)]
)
def test_of_few_groups_one_is_held_out_and_one_is_left(share, number, says):
    groups = np.array([0, 0, 1, 2])
    table = Table(
        ("a",), np.arange(4.0)[:, None], group="g", groups=groups, group_names=("a", "b", "c")
    )
    train, test = split_table(table, share, 0, "groups")
    assert (train.num_groups, test.num_groups) == (3 - number, number)
    assert any("of 3 groups of 'g' would be" in note for note in train.notes) is says
