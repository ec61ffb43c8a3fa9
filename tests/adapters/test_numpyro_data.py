"""Data of NumPyro models: missing and impossible values are named by site and row, and the remedies
work."""

import pickle

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming

numpyro = pytest.importorskip("numpyro")
dist = pytest.importorskip("numpyro.distributions")
handlers = pytest.importorskip("numpyro.handlers")

X = np.arange(5.0)
HOLES = np.where(X == 2, np.nan, X)


def line(x, y, mask=True):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", len(x)), handlers.mask(mask=mask):
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)


def vectors(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([2]).to_event(1))
    numpyro.sample("y", dist.MultivariateNormal(mean, np.eye(2)), obs=y)


def counts(y):
    rate = numpyro.sample("rate", dist.Gamma(1, 1))
    numpyro.sample("y", dist.Poisson(rate), obs=y)


def coin(y):
    face = numpyro.sample("face", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Normal(face, 1.0), obs=y)


def with_obs_mask(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mean, 1.0), obs=y, obs_mask=np.isfinite(y))


def nothing(y):
    numpyro.sample("y", dist.Normal(0, 1), obs=y)


@pytest.mark.parametrize(
    ("model", "args", "said"),
    [
        (
            line,
            (X, HOLES),
            r"site 'y': expected numbers, got missing values in row 2, counted from 0 \(1 such\)",
        ),
        (line, (HOLES, X), r"argument 'x' has missing values in row 2, counted from 0"),
        (
            vectors,
            (np.array([[0.0, 1.0], [1.0, np.nan]]),),
            r"'y': expected numbers, got missing values in row 1,",
        ),
        (
            counts,
            (np.array([1.0, -2.0, 3.0]),),
            r"in the support of Poisson, .*, got -2.0 in row 1, counted from 0",
        ),
        (
            coin,
            (np.array(0.3),),
            r"a continuous unknown, .* got discrete ones alone, \['face'\].*discrete_probabilities",
        ),
        (with_obs_mask, (HOLES,), r"site 'y': expected no obs_mask"),
        (nothing, (X,), "Everything is observed"),
    ],
)
def test_what_is_missing_or_impossible_is_named(model, args, said):
    with pytest.raises(ValueError, match=said):
        vi.from_numpyro(model, *args)


def test_parameters_that_are_no_numbers_are_told_from_data():
    def story(y):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample(
            "y", dist.Normal(mean + np.where(X == 3, np.nan, 0.0), 1.0, validate_args=False), obs=y
        )

    with pytest.raises(ValueError, match=naming("site 'y':", "3")):
        vi.from_numpyro(story, X)


def test_missing_values_behind_a_mask_are_taken():
    """The remedy of the message: the density is that of the other rows."""
    model = vi.from_numpyro(line, X, HOLES, mask=np.isfinite(HOLES))
    rest = vi.from_numpyro(line, X[X != 2], X[X != 2])
    at = jax.numpy.array([[0.3], [-1.0]])
    of = lambda one: jax.vmap(jax.value_and_grad(lambda z: one.log_density.log_prior_at(z)))(at)
    for ours, theirs in zip(of(model), of(rest), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


# --- arguments ------------------------------------------------------------------------------------
def by_numpy(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(np.exp(slope) * x, 1.0), obs=y)


def of_groups(g, y):
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(mean[g], 1.0), obs=y)


def of_table(table):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(slope * table["x"], 1.0), obs=table["y"].to_numpy())


def faces(y):
    chance = numpyro.sample("chance", dist.Beta(1, 1))
    numpyro.sample("y", dist.Bernoulli(chance), obs=y)


def table():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"x": X, "y": X + 1, "day": pandas.date_range("2020-01-01", periods=5)})


@pytest.mark.parametrize(
    "convert",
    [
        lambda data: (data["x"], data["y"]),
        lambda data: (list(data["x"]), list(data["y"])),
        lambda data: (data["x"].astype("Int64"), data["y"].astype("Float64")),
        lambda data: (np.ma.masked_array(X), X + 1),
    ],
    ids=["columns", "lists", "nullable", "masked"],
)
def test_columns_and_lists_are_arrays(convert):
    at = {"slope": jax.numpy.array(0.7)}
    ours = vi.from_numpyro(line, *convert(table())).log_density.log_prior(at)
    exact = vi.from_numpyro(line, X, X + 1).log_density.log_prior(at)
    np.testing.assert_allclose(ours, exact, rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "args", "said"),
    [
        (by_numpy, lambda: (X, X), r"model: .*a function of NumPy .* Use jax\.numpy"),
        (of_table, lambda: (table(),), r"'table' is a DataFrame: give its columns as arrays, tab"),
        (line, lambda: (table()["day"], X), r"argument 'x': expected numbers, got dates\. Make"),
        (line, lambda: (table()["x"].astype(str), X), r"argument 'x' is a Series: give numbers in"),
        (line, lambda: ([1.0, None, 2.0], X[:3]), r"'x': expected numbers, got a list with None"),
        (faces, lambda: (np.array([0, 1, 2, -1]),), r"Bernoulli.*, got 2 in rows 2, 3, .*\(2 such"),
        (counts, lambda: (np.array([1.5, 2.0]),), r"support of Poisson, .*, got 1\.5 in row 0"),
        (of_groups, lambda: (np.array([1, 2]), X[:2]), r"model: expected indices .*index 2 is out"),
    ],
    ids=["numpy", "table", "dates", "digits", "None", "Bernoulli", "fraction", "index"],
)
def test_what_a_model_cannot_take_is_named(model, args, said):
    with pytest.raises(ValueError, match=said):
        vi.from_numpyro(model, *args())


def test_indices_from_the_end_are_taken():
    assert vi.from_numpyro(of_groups, np.array([0, -1]), X[:2]).log_density.variables.dim == 2


def test_data_that_change_later_change_nothing():
    x = X.copy()
    model = vi.from_numpyro(line, x, X)
    at = {"slope": jax.numpy.array(0.7)}
    before = model.log_density.log_prior(at)
    x[:] = 9.0
    assert float(model.log_density.log_prior(at)) == float(before)


def test_fits_are_pickled_with_their_model():
    fit = vi.auto(
        vi.from_numpyro(line, X, y=X + 1), key=jax.random.key(0), num_starts=2, richer=False
    )
    copy = pickle.loads(pickle.dumps(fit))
    assert copy.verdict == fit.verdict
    draws = [x.sample(jax.random.key(1), 20)["slope"] for x in (fit, copy)]
    np.testing.assert_array_equal(*draws)
