"""The law of other data, on every row of the registry: data of the same shape that are not those of
the fit are read by their names, or refused. None are taken by place in silence."""

import numpy as np
import pytest

import vijax as vi
from tests.models.registry import KEY, REAL, ROWS, TABLES, WORDS, X, Y, on
from tests.models.short_fits import assert_same, fit_of, fitted, numbers, taken_rows
from tests.naming import naming

OF_WORDS = [case for case in ROWS if isinstance(case.data, vi.data.Corpus)]
OF_COLUMNS = [
    case for case in ROWS if isinstance(case.data, np.ndarray) and case.data.ndim == 2 and case.asks
]
MOVED = np.roll(np.arange(WORDS), 3)


def counts_of(corpus):
    return corpus.to_scipy().toarray().astype(int)


@on(OF_WORDS)
def test_words_in_another_order_are_the_same_words(case):
    one = fitted(case)
    words = [case.data.vocabulary[v] for v in MOVED]
    moved = vi.data.Corpus.from_counts(counts_of(case.data)[:, MOVED], words)
    assert_same(one.asked(moved), one.asked())


@on(OF_WORDS)
def test_as_many_other_words_are_refused(case):
    """By answers, scores and fits that go on."""
    one = fitted(case)
    foreign = vi.data.Corpus.from_counts(counts_of(case.data), [f"other{v}" for v in range(WORDS)])
    with pytest.raises(ValueError, match="other0"):
        one.asked(foreign)
    if "score" in one.fit.alg.spec.model.queries:
        with pytest.raises(ValueError, match="other0"):
            one.fit.score(foreign, key=KEY)
    with pytest.raises(ValueError, match=naming("state:", "of these")):
        fit_of(case, foreign, one.model, num_steps=case.steps + 1, state=one.fit.state)


@on(OF_COLUMNS)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_a_table_are_read_by_their_names(case, library):
    """They were taken by place: a mixture gave a row of two columns changed places the other
    cluster."""
    make = pytest.importorskip(library).DataFrame
    names = [f"column {place}" for place in range(case.data.shape[1])]
    columns = dict(zip(names, case.data.T, strict=True))
    one = fit_of(case, make(columns))
    backwards = make({name: columns[name] for name in reversed(names)} | {"more": case.data[:, 0]})
    with pytest.warns(
        UserWarning, match=r"^data: more: no such column was in the table of the fit"
    ):
        assert_same(one.asked(backwards), one.asked())
    assert_same(one.asked(case.data), one.asked())  # an array has no names
    fewer = make(
        {("other" if name == names[1] else name): column for name, column in columns.items()}
    )
    with pytest.raises(
        ValueError,
        match=naming("data:", "0", "1"),
    ):
        one.asked(fewer)


def of_library(library):
    """The maker of tables, from columns by name."""
    module = pytest.importorskip(library)
    return module.table if library == "pyarrow" else module.DataFrame


OF_INPUTS = [case for case in TABLES if case.covers in ("gp", "glm", "logistic_regression")]


@on(OF_INPUTS)
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_of_inputs_are_read_by_their_names(case, library):
    """Processes and linear models took them by place. What is predicted, its density, its draws and
    its score."""
    make = of_library(library)
    x, y = case.table["x"], case.table["y"]
    columns = {f"column {place}": column for place, column in enumerate(x.T)}
    one = fit_of(case, {"x": make(columns), "y": y})
    backwards = make(dict(reversed(columns.items())))

    def said(inputs):
        densities = one.model.predictive(one.fit.posterior, inputs, y)
        draws = one.fit.predictive(KEY, 3, inputs)
        score = one.fit.score((inputs, y), key=KEY).log_densities
        return numbers([one.asked({"x": inputs}), densities, draws, one.fit.predict(inputs), score])

    assert_same(said(backwards), said(x))
    with pytest.warns(UserWarning, match=naming("inputs:", "and_more")):
        more = one.fit.predict(make({"more": y, **columns, "and_more": y}))
    assert_same(numbers(more), numbers(one.fit.predict(x)))
    lacking = make({name: column for name, column in columns.items() if name != "column 1"})
    with pytest.raises(
        ValueError,
        match=naming("inputs:", "0", "1"),
    ):
        one.fit.predict(lacking)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_table_without_the_responses_is_read_by_its_names(library):
    """Of a regression whose data were a table and its responses."""
    make = of_library(library)
    columns = {f"column {place}": column for place, column in enumerate(X.T)}
    model = vi.models.ard_regression(X.shape[1])
    fit = vi.fit(vi.cavi(model), (make(columns), Y), num_steps=2, key=KEY)
    backwards = make(dict(reversed(columns.items())))
    assert_same(fit.predictive(KEY, 2, backwards), fit.predictive(KEY, 2, X))


def test_columns_whose_names_are_numbers_are_read_by_them():
    pandas = pytest.importorskip("pandas")
    columns = {2020 + place: column for place, column in enumerate(REAL.T)}
    fit = vi.fit(
        vi.cavi(vi.models.factor_analysis(REAL.shape[1], 2)),
        pandas.DataFrame(columns),
        num_steps=2,
        key=KEY,
    )
    backwards = pandas.DataFrame(dict(reversed(columns.items())))
    assert_same(fit.locals(backwards, key=KEY), fit.locals(REAL, key=KEY))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_sequences_are_padded_with_their_columns_in_one_order(library):
    make = of_library(library)
    backwards = {"b": [3.0], "a": [1.0]}
    y, _ = vi.models.pad([make({"a": [1.0, 2.0], "b": [3.0, 4.0]}), make(backwards)])
    np.testing.assert_array_equal(y[:, 0], [[1.0, 3.0], [1.0, 3.0]])
    with pytest.raises(
        ValueError,
        match=r"^sequences\[1\]: expected the columns of the fit, a, b, got none named b",
    ):
        vi.models.pad([make({"a": [1.0], "b": [3.0]}), make({"a": [1.0], "c": [3.0]})])


OF_NAMES = [case for case in TABLES if case.covers in ("glmm", "stm")]


@on(OF_NAMES)
def test_columns_of_a_formula_are_read_by_their_names(case):
    """Columns in another order, with one more, say the same; a table without one of them is refused
    by its name."""
    one = fitted(case)
    backwards = {
        **{name: case.table[name] for name in reversed(case.table)},
        "more": case.table["x"],
    }
    assert_same(one.asked(backwards), one.asked())
    without = {("z" if name == "x" else name): column for name, column in case.table.items()}
    with pytest.raises(ValueError, match=r"\bx\b"):
        one.asked(without)


def with_new_level(case, column):
    """The table with a level in its first row that training did not have."""
    return {**case.table, column: np.array(["other", *case.table[column][1:]])}


@on([case for case in OF_NAMES if case.name in ("glmm_gaussian", "stm", "stm_content")])
def test_categories_that_no_row_of_training_had_are_refused(case):
    one = fitted(case)
    with pytest.raises(ValueError, match=naming("'h'", "'other'", "0")):
        one.asked(with_new_level(case, "h"))


@on([case for case in TABLES if case.covers == "glmm"])
def test_a_new_group_changes_no_other_row(case):
    one = fitted(case)
    said = one.asked(with_new_level(case, "g"))
    rest = np.arange(1, len(case.table["g"]))
    assert_same(taken_rows(said, rest), taken_rows(one.asked(), rest))
    assert not np.array_equal(said[0], one.asked()[0])
