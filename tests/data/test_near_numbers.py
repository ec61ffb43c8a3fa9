"""Text that means numbers is never a category a cell, and no remedy guesses between decimals and
thousands."""

import re
import warnings

import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.data.schema.near_numbers import near_numbers
from vijax.data.tables.table import number_hint

pandas = pytest.importorskip("pandas")

N = 40
X = np.random.default_rng(0).normal(size=N).round(3)
Y = 1 + 2 * X + 0.1 * np.random.default_rng(1).normal(size=N)
WRITTEN = {
    "per cent": lambda x: f"{100 * x:.1f}%",
    "money": lambda x: f"${x + 10:.2f}",
    "commas between thousands": lambda x: f"{x * 10000 + 50000:,.0f}",
    "blanks between thousands": lambda x: f"{x * 10000 + 50000:,.0f}".replace(",", " "),
    "apostrophes between thousands": lambda x: f"{x * 10000 + 50000:,.0f}".replace(",", "'"),
    "underscores": lambda x: f"{x * 10000 + 50000:_.0f}",
    "a unit": lambda x: f"{x + 10:.2f} kg",
    "brackets": lambda x: f"({abs(x):.2f})",
    "a minus of print": lambda x: f"{-abs(x):.2f}".replace("-", "\u2212"),
    "decimal commas": lambda x: f"{x:.3f}".replace(".", ","),
}


def glmm(cells, formula="y ~ x"):
    return vi.glmm(formula, pandas.DataFrame({"x": cells, "y": Y}))


@pytest.mark.parametrize("kind", WRITTEN)
def test_they_are_refused_with_the_cell_and_a_remedy(kind):
    """Each cell was a category: 40 coefficients for one."""
    cells = [WRITTEN[kind](x) for x in X]
    said = (
        rf"formula: expected numbers alone .*, got {re.escape(repr(cells[0]))} in row 0, counted "
        r"from 0 of 'x'"
    )
    with pytest.raises(ValueError, match=rf"(?s){said}.*Write .* for .*; or C\(x\)"):
        glmm(cells)
    assert len(glmm(cells, "y ~ 0 + C(x)").design.labels) == len(set(cells))
    levels = pandas.Series(cells).astype("category")  # said by the table itself
    assert len(glmm(levels, "y ~ 0 + x").design.labels) == len(set(cells))
    with pytest.raises(ValueError, match=naming("formula:", "'y'", '"categorical"')):
        vi.glmm("y ~ x", {"x": X, "y": cells})


def test_a_file_says_its_line(tmp_path):
    path = tmp_path / "t.csv"
    pandas.DataFrame({"x": [f"{100 * x:.1f}%" for x in X], "y": Y}).to_csv(path, index=False)
    with pytest.raises(
        ValueError,
        match=naming("'x'", "12.6 for '12.6%'", "C(x)"),
    ):
        vi.glmm("y ~ x", str(path))


@pytest.mark.parametrize(
    "levels",
    [
        ["3 kg", "5 kg"],
        ["10-20", "20-30", "30+"],
        [f"{1000 + 7 * place} AB" if place % 2 else f"{1000 + place} XY" for place in range(8)],
        [f"SW{place}A {place}AA" for place in range(8)],
        [f"room {place}" for place in range(8)],
        ["1st", "2nd", "3rd", "4th"],
        [f"2024W{place:02}" for place in range(8)],
    ],
)
def test_categories_are_categories(levels):
    cells = [levels[place % len(levels)] for place in range(N)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(glmm(cells, "y ~ 0 + x").design.labels) == len(levels)


def test_some_cells_may_be_none():
    cells = [f"{x:.2f} kg" if place % 3 else "not weighed" for place, x in enumerate(X)]
    with pytest.raises(ValueError, match=r"got '-?\d\.\d\d kg' in row 1, counted from 0 of 'x'"):
        glmm(cells)


@pytest.mark.parametrize(("number", "are_few"), [(20, True), (45, True), (60, False)])
def test_many_levels_must_be_repeated_often(number, are_few):
    found = near_numbers([f"{place} kg" for place in range(number)] * 25)
    assert (found.are_few, found.are_named) == (are_few, number == 20)
    assert near_numbers([f"{place} kg" for place in range(number)] * 2).are_few is False


def test_few_numbers_with_signs_are_told():
    cells = [["10%", "20%", "30%"][place % 3] for place in range(N)]
    with pytest.warns(
        UserWarning,
        match=naming("'x'", "write 10 for '10%'", "C(x)"),
    ):
        assert len(glmm(cells, "y ~ 0 + x").design.labels) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        glmm(cells, "y ~ 0 + C(x)")


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["0,126", "1,234"], ("0.126",)),  # the remedy was 0126, a thousand times too large
        (["1,234", "0,126"], ("1.234",)),
        (["1,234", "5,678"], ("1.234", "1234")),
        (["1,234", "7.5"], ("1234",)),
        (["1.234,5", "7"], ("1234.5",)),
        (["1.234 kg", "2,5 kg"], ("1234",)),
        (["1.234 kg", "2.5 kg"], ("1.234",)),
        (["$1,200", "$7"], ("1200",)),
        (["1,200 \u20ac", "7 \u20ac"], ("1.200", "1200")),
        (["1 234,5"], ("1234.5",)),
        (["(0.16)", "0.5"], ("-0.16", "0.16")),
        (["\u22121.5", "2"], ("-1.5",)),
    ],
)
def test_a_remedy_does_not_guess(cells, values):
    found = near_numbers(cells)
    assert found is not None
    assert found.values == values
    assert " or ".join(values) in number_hint(np.array(cells, object))


@pytest.mark.parametrize(
    "cells", [["red", "5"], ["1.2.3"], ["1/2/2024"], ["10:05"], ["0x1f"], ["110 00"], ["7"], []]
)
def test_other_text_means_no_numbers(cells):
    assert near_numbers(cells) is None


@pytest.mark.filterwarnings("ignore::vijax.models.formulas.terms.by_prior.OnlyPriorWarning")
@pytest.mark.parametrize(
    "form", ["{:.2f}±0.1", "<{:.2f}", "no. {:.2f}th", "{:.2f} mg|{:.2f} g", "n{:.4f}"]
)
def test_a_text_for_nearly_each_row_is_no_category(form):
    """Whatever it says: a coefficient for each row explains all of the response."""
    forms = form.split("|")
    numbers = np.random.default_rng(0).normal(50, 20, 40)
    texts = [forms[row % len(forms)].format(number) for row, number in enumerate(numbers)]
    table = {"y": numbers, "x": texts}
    with pytest.raises(
        ValueError,
        match=naming("formula:", "40 rows"),
    ):
        vi.glmm("y ~ x", table)
    vi.glmm("y ~ C(x)", table)
    vi.glmm("y ~ (1 | x)", table)
    vi.glmm("y ~ x", {**table, "x": [f"room {row % 8}" for row in range(40)]})


@pytest.mark.parametrize(
    ("cell", "values"),
    [("63.4k", ("63400", "63.4")), ("1.5M", ("1500000", "1.5")), ("443½", ("443.5",))],
)
def test_letters_and_fractions_behind_a_number_count(cell, values):
    assert near_numbers([cell] * 3).values == values
