"""The use of an array in a user's function decides its type: floats that are whole numbers serve as
indices, and errors name the array that is at fault."""

import jax
import numpy as np
import pytest
import scipy.sparse
from jax.scipy.stats import norm

import vijax as vi
from tests.naming import naming

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
ROWS = {"g": RNG.integers(0, 3, 30), "x": RNG.normal(size=30), "y": RNG.normal(size=30)}
MODEL = vi.density(
    {"a": vi.free(3), "w": vi.free()},
    log_prior=lambda v: norm.logpdf(v["a"]).sum() + norm.logpdf(v["w"]),
    log_lik=lambda v, row: norm.logpdf(row["y"], v["a"][row["g"]] + v["w"] * row["x"], 0.5),
)


def bound(rows):
    return float(vi.fit(vi.advi(MODEL), rows, num_steps=2, key=KEY).trace["elbo"][-1])


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float32, np.float64])
def test_an_index_is_one_in_any_type(dtype):
    assert bound({**ROWS, "g": ROWS["g"].astype(dtype)}) == bound(ROWS)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({**ROWS, "g": ROWS["g"] + 0.5}, r"data\['g'\]: expected whole numbers"),
        ({**ROWS, "y": ROWS["y"][:, None]}, "log_lik: expected one number"),
        ({**ROWS, "g": ROWS["g"].astype(object)}, r"numpy.asarray\(data\['g'\], float\)"),
        (
            {name: column.tolist() for name, column in ROWS.items()},
            r"a list of numbers in 'g'. Pass \{name: numpy.asarray\(values\)",
        ),
        ({**ROWS, "x": scipy.sparse.eye(30)}, r"Pass data\['x'\].toarray\(\)"),
    ],
    ids=["fractions", "another shape", "objects", "lists", "sparse"],
)
def test_the_array_at_fault_is_named(rows, said):
    with pytest.raises(ValueError, match=said):
        bound(rows)


def test_the_remedy_for_objects_works():
    assert bound({**ROWS, "g": np.asarray(ROWS["g"].astype(object), float)}) == bound(ROWS)


@pytest.mark.filterwarnings("ignore:data.*below 0")
@pytest.mark.parametrize("codes", [ROWS["g"] + 1, ROWS["g"] - 4, (ROWS["g"] + 1).astype(float)])
def test_an_index_beyond_its_variable_is_refused(codes):
    """JAX takes the nearest entry in silence: two groups would be one."""
    with pytest.raises(ValueError, match=naming("data['g']:", "indices")):
        bound({**ROWS, "g": codes})


def test_an_index_from_the_end_is_one_and_is_told():
    """pandas' code of a missing category would be the last one in silence."""
    with pytest.warns(UserWarning, match=naming("data['g']:", "0", "cat.codes")):
        assert bound({**ROWS, "g": ROWS["g"] - 3}) == bound(ROWS)
