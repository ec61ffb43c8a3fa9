"""Masked cells and columns of times are no numbers at any door by which arrays come in: NumPy takes
both in silence."""

import datetime

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi
from vijax import arrays
from vijax.data.corpora.corpus import split_ids
from vijax.data.tables.graph import Graph, split_graph
from vijax.models import emission

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
Y = RNG.normal(5.0, 1.0, (40, 2))
HIDDEN = np.zeros(Y.shape, bool)
HIDDEN[::4, 0] = True
MASKED = np.ma.array(np.where(HIDDEN, -9999.0, Y), mask=HIDDEN)
MIXTURE = vi.models.mixture(emission.diagonal_gaussian(1, 2))
COUNTS = RNG.poisson(2.0, (30, 6)) + 1
MASKED_COUNTS = np.ma.array(COUNTS, mask=COUNTS > 4)


@pytest.fixture(scope="module")
def fit():
    return vi.fit(vi.cavi(MIXTURE), Y, num_steps=3, key=KEY)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_masked_cells_are_missing(dtype):
    array = arrays.unmasked(MASKED.astype(dtype))
    assert not isinstance(array, np.ma.MaskedArray)
    np.testing.assert_array_equal(np.isnan(array), HIDDEN)
    np.testing.assert_array_equal(array[~HIDDEN], Y.astype(dtype)[~HIDDEN])


def test_an_array_without_masked_cells_is_itself():
    plain = arrays.unmasked(np.ma.array([1, 2]))
    assert type(plain) is np.ndarray
    assert plain.dtype == np.array([1, 2]).dtype


def test_a_fit_refuses_masked_cells():
    with pytest.raises(ValueError, match="nan in row 0"):
        vi.fit(vi.cavi(MIXTURE), MASKED, num_steps=3, key=KEY)


@pytest.mark.parametrize("ask", ["score", "locals"])
def test_a_fit_is_not_asked_about_hidden_values(fit, ask):
    """An answer of NaN, or an error; never one that is made of hidden values."""
    if ask == "score":
        with pytest.raises(ValueError, match="nan in row 0"):
            fit.score(MASKED, key=KEY)
        return
    answer = fit.locals(MASKED, key=KEY)
    leaves = [np.asarray(x) for x in jax.tree.leaves(answer)]
    assert any(np.isnan(x).any() for x in leaves if x.dtype.kind == "f")


def test_a_density_refuses_masked_cells():
    model = vi.density(
        {"mu": vi.free()},
        log_prior=lambda v: norm.logpdf(v["mu"], 0.0, 1000.0),
        log_lik=lambda v, row: norm.logpdf(row["y"], v["mu"], 1.0),
    )
    with pytest.raises(ValueError, match="nan in row 0"):
        vi.auto(model, {"y": MASKED[:, 0]}, key=KEY)


@pytest.mark.parametrize("form", ["matrix", "rows"])
def test_counts_refuse_masked_cells(form):
    source = MASKED_COUNTS if form == "matrix" else list(MASKED_COUNTS)
    with pytest.raises(ValueError, match="counts"):
        vi.data.read(source)
    whole = np.ma.array(COUNTS)
    assert vi.data.read(whole if form == "matrix" else list(whole)).num_tokens == COUNTS.sum()


def test_a_stream_refuses_masked_cells():
    batches = vi.data.stream([MASKED], num_groups=40, shuffled=True)
    with pytest.raises(ValueError, match="nan in row 0"):
        vi.fit(vi.svi(MIXTURE), batches, num_steps=2, key=KEY)


# --- times ----------------------------------------------------------------------------------------
DAYS = [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(40)]
STEPS = [datetime.timedelta(hours=i) for i in range(40)]
HOURS = [datetime.time(3, i) for i in range(40)]
KINDS = {"dates": DAYS, "durations": STEPS, "times of day": HOURS}


def table(library: str, kind: str):
    package = pytest.importorskip(library)
    columns = {"a": KINDS[kind], "b": Y[:, 1]}
    if library == "pyarrow":
        return package.table(columns)
    made = package.DataFrame(columns)
    if library == "pandas" and kind == "dates":
        made["a"] = package.to_datetime(made["a"])
    return made


TABLES = [
    ("pandas", "dates"),
    ("pandas", "durations"),
    *((library, kind) for library in ("polars", "pyarrow") for kind in KINDS),
]


@pytest.mark.parametrize(("library", "kind"), TABLES)
def test_columns_of_times_are_named_at_every_door(fit, library, kind):
    given = table(library, kind)
    doors = {
        "fit": lambda: vi.fit(vi.cavi(MIXTURE), given, num_steps=2, key=KEY),
        "locals": lambda: fit.locals(given, key=KEY),
        "score": lambda: fit.score(given, key=KEY),
        "logistic": lambda: vi.models.logistic_regression(given, RNG.integers(2, size=40)),
        "stream": lambda: vi.fit(
            vi.svi(MIXTURE),
            vi.data.stream([given], num_groups=40, shuffled=True),
            num_steps=2,
            key=KEY,
        ),
    }
    for door, enter in doors.items():
        with pytest.raises(ValueError, match=f"got {kind}") as caught:
            enter()
        assert "'a'" in str(caught.value), door


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_of_polars_alone(kind):
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match=f"got {kind}"):
        arrays.to_array(polars.Series("a", KINDS[kind]))


# --- what is held out -----------------------------------------------------------------------------
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_what_is_held_out_has_nothing_of_the_numbers_that_a_user_drew(seed):
    """A graph whose links are where the first numbers of `default_rng(seed)` are small, and a table
    whose rows lie in the order of its first permutation."""
    size = 60
    links = np.triu(np.random.default_rng(seed).random((size, size)) < 0.3, 1)
    names = tuple(f"n{i}" for i in range(size))
    x = (links | links.T).astype(float)
    np.fill_diagonal(x, np.nan)
    _, test = split_graph(Graph(names, x), 0.1, seed)
    share = np.nanmean(test.x)
    assert 0.15 < share < 0.45  # 0.3, and 177 pairs: four standard errors
    _, out = split_ids(200, 0.2, seed)
    ranks = np.argsort(np.random.default_rng(seed).permutation(200))
    assert 60 < ranks[out].mean() < 140  # 99.5, and 40 rows: four standard errors are 33


# --- lists of masked rows, and what is judged -----------------------------------------------------
ROWS = list(MASKED)


@pytest.mark.parametrize("door", ["gp", "mixture of scikit-learn"])
def test_lists_of_masked_rows_have_no_hidden_values(door):
    y = np.zeros(40)
    kernel = lambda a, b: jnp.exp(-0.5 * jnp.sum((a[:, None] - b[None]) ** 2, -1))
    doors = {
        "gp": lambda: vi.models.gp(ROWS, y, kernel, vi.likelihood.gaussian(0.2)),
        "mixture of scikit-learn": lambda: sklearn_mixture().fit(ROWS),
    }
    with pytest.raises(ValueError, match=r"nan|masked|finite"):
        doors[door]()


def test_rows_of_groups_have_no_hidden_values():
    x = np.asarray(vi.models.group_rows(ROWS, np.zeros(40), ["a"] * 40)[0])
    assert np.isnan(x).sum() == HIDDEN.sum()
    assert not np.any(x == -9999)


def sklearn_mixture():
    pytest.importorskip("sklearn")
    from vijax.sklearn import GaussianMixture

    return GaussianMixture(n_components=1, random_state=0)


@pytest.mark.parametrize("judge", ["loo", "waic", "rhat", "bulk_ess", "psis"])
def test_judges_of_draws_refuse_masked_cells(judge):
    draws = np.ma.array(RNG.normal(size=(8, 40)), mask=False)
    given = draws[0] if judge == "psis" else draws
    getattr(vi.trust, judge)(given)
    given[..., 0] = np.ma.masked
    with pytest.raises(ValueError, match="expected"):
        getattr(vi.trust, judge)(given)
