"""Arrays that are no matrix of numbers: each is refused by name where a model is made, and where it
predicts."""

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.models import emission

pandas = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2))
Y = X[:, 0] + RNG.normal(size=12)
NOISE = vi.likelihood.gaussian(0.2)

WRONG = {
    "text": (np.array([["a", "b"]] * 12), "text, 'a' in row 0, column 0"),
    "numbers as text": (np.array([["1", "2"]] * 12), r"pass numpy.asarray\(\w+, float\)"),
    "one cell of text": ([[1.0, 2.0]] * 7 + [[1.0, "n/a"]] * 5, "text, "),
    "a column of text": (
        pandas.DataFrame({"a": X[:, 0], "b": ["u"] * 12}),
        "text, 'u' in row 0, column 1",
    ),
    "dates": (
        np.array([["2024-01-01", "2024-01-02"]] * 12, "datetime64[D]"),
        "dates, 2024-01-01 in row 0",
    ),
    "complex": (X + 1j, "complex numbers"),
    "complex of jax": (jax.numpy.asarray(X) + 1j, "complex numbers"),
    "structured": (
        np.array([(1.0, 2.0)] * 12, [("a", float), ("b", float)]),
        "columns by name, in a ndarray",
    ),
    "records": ([{"a": 1.0, "b": 2.0}] * 12, "columns by name, in a list. Pass pandas.DataFrame"),
    "ragged": ([[1.0], [1.0, 2.0]] * 6, "rows of lengths 1, 2"),
    "none": (None, "None"),
    "a string": ("abc", "the string 'abc'"),
    "a set": ({1, 2}, "a set, which has no order"),
}
UNKNOWN = {"nan": np.nan, "infinite": np.inf}


def kernel(a, b):
    return jax.numpy.exp(-0.5 * jax.numpy.sum((a[:, None] - b[None]) ** 2, -1))


def gp(x, y):
    return vi.models.gp(x, y, kernel, NOISE, jitter=1e-3)


def glm(x, y):
    return vi.models.glm(x, y, NOISE)


MODELS = {
    "gp": gp,
    "glm": glm,
    "kernel glm": lambda x, y: vi.models.glm(x, y, NOISE, form="kernel"),
}
MAKERS = {
    **{name: lambda x, make=make: make(x, Y) for name, make in MODELS.items()},
    **{f"y of {name}": lambda y, make=make: make(X, y) for name, make in MODELS.items()},
    "group_rows": lambda x: vi.models.group_rows(x, Y, np.arange(12) // 3),
    "placed": lambda x: emission.placed(emission.full_gaussian, 2, x),
}


@pytest.fixture(scope="module")
def fits():
    made = {name: make(X, Y) for name, make in MODELS.items()}
    return {
        name: vi.fit(vi.pg_svi(model), model.data, num_steps=1, key=jax.random.key(0))
        for name, model in made.items()
    }


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("maker", MAKERS)
def test_a_model_refuses_them(maker, kind):
    values, said = WRONG[kind]
    with pytest.raises(
        ValueError, match=rf"(x|y|data): expected an array of real numbers, got .*{said}"
    ):
        MAKERS[maker](values)


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("model", MODELS)
def test_a_prediction_refuses_them(fits, model, kind):
    values, said = WRONG[kind]
    with pytest.raises(
        ValueError, match=f"inputs: expected (an array of real numbers|a matrix).*{said}"
    ):
        fits[model].predict(values)


@pytest.mark.parametrize("number", UNKNOWN)
@pytest.mark.parametrize("model", MODELS)
def test_numbers_that_are_not_finite_are_named(fits, model, number):
    x = np.where(np.arange(12)[:, None] == 3, UNKNOWN[number], X)
    with pytest.raises(ValueError, match=r"x: expected finite numbers, got .*row 3"):
        MODELS[model](x, Y)
    with pytest.raises(ValueError, match=naming("inputs:", "finite", "row 3", "Remove")):
        fits[model].predict(x)


@pytest.mark.parametrize("model", MODELS)
def test_inputs_have_the_columns_of_training(fits, model):
    """A kernel would stretch one column over two, and answer."""
    for wrong in (X[:, :1], X[:, :, None], X[:, 0], 1.0):
        with pytest.raises(ValueError, match="inputs: expected"):
            fits[model].predict(wrong)


@pytest.mark.parametrize("model", MODELS)
def test_responses_are_one_number_a_row(model):
    with pytest.raises(
        ValueError,
        match=naming("12", "Pass", "numpy.ravel(y)"),
    ):
        MODELS[model](X, Y[:, None])
    with pytest.raises(ValueError, match=r"one number for each site, shape \(N,\), got \(12, 2\)"):
        MODELS[model](X, X)


@pytest.mark.parametrize("model", MODELS)
def test_columns_of_one_name_are_refused(model):
    """A later table in another order could not be read."""
    with pytest.raises(ValueError, match="columns of distinct names, got 2 of 'a'"):
        MODELS[model](pandas.DataFrame(X, columns=["a", "a"]), Y)


def test_a_kernel_that_cannot_read_its_inputs_is_named():
    with pytest.raises(ValueError, match=naming("kernel:", "'a'", "12")):
        gp({"a": X[:, 0], "b": X[:, 1]}, Y)


@pytest.mark.parametrize("kind", ["lists", "tuples", "objects", "nullable", "big-endian", "long"])
@pytest.mark.parametrize("model", MODELS)
def test_numbers_of_any_kind_are_numbers(fits, model, kind):
    as_kind = {
        "lists": lambda x: x.tolist(),
        "tuples": lambda x: tuple(map(tuple, x.tolist())),
        "objects": lambda x: x.astype(object),
        "nullable": lambda x: pandas.DataFrame(x).convert_dtypes(),
        "big-endian": lambda x: x.astype(">f8"),
        "long": lambda x: x.astype(np.longdouble),
    }[kind](X)
    expected, got = (np.asarray(fits[model].predict(x)[0]) for x in (X, as_kind))
    np.testing.assert_array_equal(got, expected)
    assert MODELS[model](as_kind, Y) is not None


@pytest.mark.parametrize("maker", [*MODELS, "group_rows", "a fit of a pair"])
def test_rows_of_another_order_are_refused(maker):
    """By place each response would go to another row: a slope of 2 was fitted as 0."""
    table = pandas.DataFrame(X, columns=["a", "b"])
    turned = pandas.Series(Y).sample(frac=1, random_state=0)
    make = {
        **MODELS,
        "group_rows": lambda x, y: vi.models.group_rows(x, y, np.arange(12) // 3),
        "a fit of a pair": lambda x, y: vi.fit(
            vi.cavi(vi.models.ard_regression(2)), (x, y), num_steps=1, key=jax.random.key(0)
        ),
    }[maker]
    with pytest.raises(
        ValueError, match=r"(y|data\[1\]): expected the index of (x|data\[0\]), in its order"
    ):
        make(table, turned)
    assert make(table, turned.sort_index()) is not None
    assert make(table, turned.to_numpy()) is not None
