"""Data, states and weights of equal shape that belong to something else: another table, formula or
order of rows."""

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming

RNG = np.random.default_rng(3)
N = 30
TABLE = {
    "x": RNG.normal(size=N),
    "z": RNG.normal(size=N),
    "g": np.arange(N) % 5,
    "y": RNG.normal(size=N),
}
WORDS = ("plum", "pear", "apple", "carrot", "onion", "leek")


def corpus_and_table():
    counts = RNG.poisson(3.0, (12, len(WORDS)))
    return vi.data.Corpus.from_counts(counts, WORDS), {
        "day": np.arange(12.0),
        "late": 12.0 - np.arange(12.0) ** 1.5,
    }


def test_data_of_another_table_are_refused():
    """Of equal shapes, they would be read in units of the model's own table: a slope of -5 was
    fitted as .65."""
    one = vi.glmm("y ~ x + (1 | g)", TABLE)
    other = vi.glmm("y ~ x + (1 | g)", {**TABLE, "y": TABLE["y"][::-1]})
    with pytest.raises(ValueError, match=naming("data:", "model.data")):
        vi.fit(vi.ngvi(one), other.data, num_steps=1, key=jax.random.key(0))
    with pytest.raises(ValueError, match=naming("data:", "model.data")):
        vi.auto(one, other.data, key=jax.random.key(0))


def test_own_data_in_float32_are_its_own():
    model = vi.glmm("y ~ x + (1 | g)", TABLE)
    narrow = {name: np.asarray(values, np.float32) for name, values in model.data.items()}
    vi.fit(vi.ngvi(model), narrow, num_steps=1, key=jax.random.key(0))


def test_a_state_of_another_formula_is_refused():
    one, other = (vi.glmm(f"y ~ {name} + (1 | g)", TABLE) for name in "xz")
    state = vi.fit(vi.ngvi(one), num_steps=1, key=jax.random.key(0)).state
    on = vi.fit(vi.ngvi(one), num_steps=2, key=jax.random.key(0), state=state)
    assert int(on.state.step) == 2
    with pytest.raises(ValueError, match=naming("state:", "this")):
        vi.fit(vi.ngvi(other), num_steps=2, key=jax.random.key(0), state=state)


def test_documents_and_states_of_another_formula_of_topics_are_refused():
    corpus, table = corpus_and_table()
    one, other = (vi.stm(2, corpus, table, f"~ {name}", num_samples=4) for name in ("day", "late"))
    with pytest.raises(ValueError, match=naming("data:", "documents")):
        vi.fit(vi.cavi(one), other.data, num_steps=1, key=jax.random.key(0))
    state = vi.fit(vi.cavi(one), one.data, num_steps=1, key=jax.random.key(0)).state
    assert (
        int(
            vi.fit(
                vi.cavi(one), one.data, num_steps=2, key=jax.random.key(0), state=state
            ).state.step
        )
        == 2
    )
    with pytest.raises(ValueError, match=naming("state:", "this")):
        vi.fit(vi.cavi(other), other.data, num_steps=2, key=jax.random.key(0), state=state)


def test_masked_cells_are_missing_after_the_same_numbers_without_a_mask():
    """Both have the same bytes: the model of the unmasked column was given again."""
    vi.glmm("y ~ x", {"y": TABLE["y"], "x": np.ma.array(TABLE["x"])})
    masked = np.ma.array(TABLE["x"], mask=np.arange(N) == 4)
    with pytest.raises(ValueError, match="none of 'x' in row 4"):
        vi.glmm("y ~ x", {"y": TABLE["y"], "x": masked})


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (
            np.ma.array(np.ones(N), mask=np.arange(N) == 2),
            "weights: expected numbers in .*, got 'nan' in row 2",
        ),
        ([None, *[1.0] * (N - 1)], "weights: expected numbers in 'weights', got 'nan' in row 0"),
        (["a"] * N, "weights: expected numbers in 'weights', got 'a' in row 0"),
        (
            np.arange(N).astype("M8[D]"),
            "weights: expected numbers in 'weights', got '1970-01-01' in row 0",
        ),
        ("g2", "weights: expected a column 'g2' in the table"),
        (np.ones(3), r"weights: expected one for each of the 30 rows, got shape \(3,\)"),
        (2.0, r"weights: expected one for each of the 30 rows, got shape \(\)"),
    ],
)
def test_weights_are_numbers_in_all_rows(weights, said):
    with pytest.raises(ValueError, match=said):
        vi.glmm("y ~ x", TABLE, weights=weights)


def test_weights_with_an_index_are_those_of_the_rows():
    """By their places the weights would go to other rows."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(TABLE).sort_values("x")
    weights = pandas.Series(1.0 + np.arange(N))
    with pytest.raises(ValueError, match=naming("weights:", "Series")):
        vi.glmm("y ~ x", table, weights=weights)
    aligned = vi.glmm("y ~ x", table, weights=weights.loc[table.index]).weights
    np.testing.assert_array_equal(aligned, 1.0 + table.index.to_numpy())
    np.testing.assert_array_equal(
        vi.glmm("y ~ x", table, weights=weights.to_numpy()).weights, weights
    )


def test_rows_of_weight_zero_are_no_part_of_predictive_checks():
    weights = 1.0 * (np.arange(N) % 3 > 0)
    for text in ("y ~ x + (1 | g)", "y ~ x + (1 | g) + (1 | z2)"):
        model = vi.glmm(text, {**TABLE, "z2": np.arange(N) % 4}, weights=weights)
        how = model.answer("predictive")
        layout = how.layout(model.data)
        assert {len(values) for values in layout["rows"].values()} == {20}
        np.testing.assert_allclose(
            how.observed(layout, model.data), TABLE["y"][weights > 0], rtol=1e-6
        )


@pytest.mark.parametrize("batch_size", [None, 5])
def test_a_state_of_a_table_goes_on_with_its_columns_alone(batch_size):
    """In another order numbers of one column would be taken for those of another."""
    pandas = pytest.importorskip("pandas")
    rows = np.random.default_rng(0).normal(size=(10, 2)) * [1.0, 9.0]
    table = pandas.DataFrame(rows, columns=["small", "large"])
    alg = vi.svi(vi.models.mixture(vi.models.emission.full_gaussian(2, 2)))
    key = jax.random.key(0)
    go_on = lambda data, state=None: vi.fit(
        alg, data, num_steps=2, batch_size=batch_size, state=state, key=key
    )
    state = go_on(table).state
    for wrong in (table[["large", "small"]], table.rename(columns={"small": "other"})):
        with pytest.raises(ValueError, match=naming("state:", "columns", "fit.columns")):
            go_on(wrong, state)
    assert int(go_on(table, state).state.step) == 2
    assert int(go_on(rows, state).state.step) == 2
    assert int(go_on(table, go_on(rows).state).state.step) == 2
