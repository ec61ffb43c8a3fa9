"""What was decided about a file is said in Python too; messages name places as Python counts them,
with a remedy."""

import warnings

import numpy as np
import pytest

import vijax as vi
from tests.data import spreadsheets
from tests.naming import naming

pandas = pytest.importorskip("pandas")

N = 12
TABLE = {"x": np.arange(N) % 5, "y": np.arange(N) ** 2 % 7}


def test_the_sheet_that_is_read_is_named(tmp_path):
    """The first of several was read without a word; the command line told it."""
    cells = {"A1": "x", "B1": "y"}
    cells |= {
        f"{letter}{row + 2}": int(TABLE[name][row])
        for row in range(N)
        for letter, name in ("Ax", "By")
    }
    path = spreadsheets.xlsx(tmp_path / "two.xlsx", cells, sheets=("first", "second"))
    said = (
        r"^The sheet 'first' of two.xlsx is read, and not 'second'. For another pass "
        r"pandas.read_excel\(path, "
        r"sheet_name=...\).$"
    )
    with pytest.warns(UserWarning, match=said):
        vi.glmm("y ~ x", str(path))


def test_missing_names_of_ratings_are_listed_once():
    """It was "row 0, counted from 0,, row 1, counted from 0,,"."""
    with pytest.raises(
        ValueError,
        match=r"got a missing value in row 0, row 1, counted from 0, \(2 such\)\. To mend it",
    ):
        vi.data.ratings({"user": [None, None, "a"], "item": [1, 2, 3]})
    with pytest.raises(
        ValueError, match=r"got a missing value in row 1, counted from 0, \(1 such\)\. To mend it"
    ):
        vi.data.ratings({"user": ["b", None, "a"], "item": [1, 2, 3]})


def test_times_with_a_zone_order_ratings():
    days = pandas.to_datetime(
        ["2024-01-10T01:00+05:00", "2024-01-09T23:00Z", "2024-01-01T00:00Z"], utc=True
    )
    made = {"user": ["a"] * 3, "item": ["x"] * 3, "rating": [5, 1, 5]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for times in (
            days,
            days.tz_convert("Europe/Zurich"),
            days.astype(str),
            list(days),
            days.astype(object),
        ):
            corpus = vi.data.ratings(pandas.DataFrame(made | {"timestamp": times}), least=4)
            assert corpus.num_tokens == 0  # the last says 1


@pytest.mark.parametrize(
    "make", [list, np.array, pandas.Series, lambda texts: pandas.DataFrame({"text": texts})]
)
def test_a_text_that_is_none_is_named_by_its_place(make):
    """Document 4 is the entry of index 3."""
    texts = ["the cat sat", "dogs run", "mice eat", 3]
    cells = make(texts) if make is not np.array else np.array(texts, object)
    with pytest.raises(
        ValueError,
        match=r"texts, document 4: expected text, got 3 \(int\), at place 3, counted from 0",
    ):
        vi.data.read(cells)


def test_sequences_of_one_axis_are_refused_with_a_remedy():
    """Two of one length were one step of twenty columns each, two of others "widths [20, 30]"."""
    for lengths in ((20, 20), (20, 30)):
        series = [pandas.Series(np.arange(float(n))) for n in lengths]
        said = (
            r"sequences\[0\]: expected an array \(T, D\), a row for each step, got \(20,\). Write "
            r".*to_frame"
        )
        for each in (series, [one.to_numpy() for one in series]):
            with pytest.raises(ValueError, match=said):
                vi.models.pad(each)
        y, mask = vi.models.pad([one.to_frame() for one in series])
        assert (y.shape, mask.sum(axis=1).tolist()) == ((2, max(lengths), 1), list(lengths))
    with pytest.raises(ValueError, match=r"got widths \[2, 3\]. Give all of them the same columns"):
        vi.models.pad([np.zeros((4, 2)), np.zeros((4, 3))])
    with pytest.raises(
        ValueError,
        match=naming("1", "'a'", "0"),
    ):
        vi.models.pad([[[1.0]], [["a"]]])
