"""All that pandas names in one call has one order of rows, whichever argument comes first."""

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.data import synthetic
from vijax.data.schema.named_columns import order_by_names
from vijax.data.schema.same_rows import require_one_index
from vijax.data.streams.named_batches import NamedBatches

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

MixedModelRegressor = pytest.importorskip("vijax.sklearn").MixedModelRegressor
KEY = jax.random.key(0)
N = 12
X = np.random.default_rng(0).normal(size=(N, 2))
SERIES = pandas.Series(2.0 * X[:, 0])
TURNED = SERIES.sample(frac=1, random_state=0)
NOISE = vi.likelihood.gaussian(0.25)
NEAR = vi.density(
    {"w": vi.free()},
    log_prior=lambda v: -0.5 * v["w"] ** 2,
    log_lik=lambda v, row: -0.5 * (row["y"] - v["w"] * row["x"]) ** 2,
)


def kernel(a, b):
    return jax.numpy.exp(-0.5 * sum((a[name][:, None] - b[name][None]) ** 2 for name in a))


def corpus():
    return synthetic.lda_corpus(num_documents=N, num_topics=2, vocab_size=20, seed=0)[0]


CALLS = {
    "glmm, a dict": lambda a, b: vi.glmm("y ~ x", {"x": a, "y": b}),
    "glmm, weights beside a dict": lambda a, b: vi.glmm(
        "y ~ x", {"x": X[:, 0], "y": a}, weights=b.abs()
    ),
    "stm, a dict": lambda a, b: vi.stm(2, corpus(), {"x": a, "y": b}, "~ x + y", eta=0.1),
    "group_rows, an array first": lambda a, b: vi.models.group_rows(X, a, b),
    "gp, a dict": lambda a, b: vi.models.gp({"x": X[:, 0], "z": a}, b, kernel, NOISE, jitter=1e-3),
    "fit, a dict": lambda a, b: vi.fit(
        vi.ngvi(NEAR), {"u": X[:, 0], "x": a, "y": b}, num_steps=1, key=KEY
    ),
    "auto, a dict": lambda a, b: vi.auto(NEAR, {"u": X[:, 0], "x": a, "y": b}, key=KEY),
    "nmi": lambda a, b: vi.evaluate.nmi(a, b),
    "an estimator": lambda a, b: MixedModelRegressor("~ x0").fit(X, a, sample_weight=b.abs()),
    "covariates": lambda a, b: vi.models.with_covariates(
        pandas.DataFrame(np.ones((N, 2), int), a.index), pandas.DataFrame(X, b.index)
    ),
}


def test_later_data_too():
    table, said = pandas.DataFrame(X), r"expected the index of .*\[0\], in its order, got"
    with pytest.raises(ValueError, match=rf"^like\[1\]: {said}"):
        order_by_names(None, (table, TURNED), "like")
    with pytest.raises(vi.data.DataError, match=rf"^batch of step 3: batch\[1\]: {said}"):
        NamedBatches().arrange((table, TURNED), 3)


@pytest.mark.parametrize("call", CALLS)
def test_series_of_two_orders_are_refused(call):
    """By place the values of one went to the rows of others."""
    with pytest.raises(
        ValueError, match=r"expected the index of .*, in its order, got .* where .* has .*, in row "
    ):
        CALLS[call](SERIES, TURNED)


def test_what_has_no_index_or_other_rows_is_left_aside():
    require_one_index(
        {"x": X, "y": SERIES, "weights": polars.Series(X[:, 0]), "inducing": TURNED.iloc[:3]}
    )
    require_one_index({"x": None, "y": list(X), "table": {"a": SERIES, "b": SERIES + 1}})
    with pytest.raises(ValueError, match=naming("table['b']:", "Align", "'b'", "y.index")):
        require_one_index({"x": X, "y": SERIES, "table": {"a": X[:, 0], "b": TURNED}})


def test_one_order_is_taken():
    model = vi.glmm("y ~ x", {"x": TURNED, "y": TURNED**2}, weights=TURNED.abs())
    np.testing.assert_array_equal(model.weights, TURNED.abs())
