"""A large chunk goes on with the documents that are not finished: the numbers are those of each
document alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax.contract import estep as contract

KEY = jax.random.key(0)
SLOTS, TOPICS = 6, 4


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch):
    monkeypatch.setenv("VIJAX_NATIVE", "0")


def documents(count, empty=()):
    rng = np.random.default_rng(3)
    likelihood = jnp.asarray(np.maximum(rng.gamma(0.2, size=(count, SLOTS, TOPICS)), 1e-3))
    counts = rng.poisson(rng.gamma(0.5, 6.0, (count, 1)), (count, SLOTS)).astype(float)
    counts[list(empty)] = 0.0
    return likelihood, jnp.asarray(counts), jnp.full(TOPICS, 0.1)


def infer(estep, arrays):
    return estep.mixed_membership(*arrays, KEY, 1000)


@pytest.mark.parametrize("make", [vi.estep.mean_field, vi.estep.cvb0])
@pytest.mark.parametrize(("count", "max_iters"), [(23, 200), (23, 5), (1, 50), (2, 50)])
def test_the_result_is_that_of_each_document_alone(make, count, max_iters, monkeypatch):
    """Also where the last rounds are cut, and of documents without words."""
    with jax.enable_x64(True):
        arrays = documents(count, empty=[0] if count > 2 else ())
        estep = make(max_iters=max_iters, tol=1e-6)
        likelihood, counts, alpha = arrays
        alone = [
            infer(estep, (likelihood[i : i + 1], counts[i : i + 1], alpha)) for i in range(count)
        ]
        monkeypatch.setattr(contract, "FEWEST", 2)
        together = infer(estep, arrays)
        expected = jax.tree.map(lambda *x: jnp.concatenate(x), *alone)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12), together, expected)


def test_rounds_are_of_the_documents_that_are_left(monkeypatch):
    """Of 16 documents 8, 12 and 14 are finished after one round, two and three: the sizes of rounds
    are counted."""
    monkeypatch.setattr(contract, "FEWEST", 4)
    sizes = []

    def improve(state, data):
        jax.debug.callback(lambda x: sizes.append(len(x)), state)
        return state + data

    ends = jnp.asarray([1.0] * 8 + [2.0] * 4 + [3.0] * 2 + [5.0, 9.0])
    active = jnp.ones(16, bool)
    limit = jax.random.permutation(KEY, ends)
    step = lambda state, data: improve(state, jnp.ones_like(state))
    state = {"n": jnp.zeros(16), "end": limit}
    run = lambda s, d: {"n": step(s["n"], d), "end": s["end"]}
    result = contract.repeat_by_document(
        run, state, lambda new, _: new["n"] >= new["end"], active, 20, data=jnp.zeros(16)
    )
    jax.effects_barrier()
    np.testing.assert_array_equal(result["n"], limit)
    assert sizes == [16, 8, 4, *[2] * 6]


def test_a_second_call_compiles_nothing():
    arrays = documents(300)
    program = jax.jit(lambda *arrays: infer(vi.estep.mean_field(), arrays).gamma)
    program(*arrays)
    program(arrays[0], arrays[1] + 1.0, arrays[2])
    assert program._cache_size() == 1


def test_a_small_chunk_has_one_loop():
    arrays = documents(contract.FEWEST - 1)
    text = str(jax.make_jaxpr(lambda *arrays: infer(vi.estep.mean_field(), arrays).gamma)(*arrays))
    assert text.count("while[") == 1
    assert "sort" not in text
