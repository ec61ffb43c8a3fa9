import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.compilation import optimized_jit
from tests.rounding import rounding
from vijax.contract.batch import Documents
from vijax.xla.chunks import merge_chunks, split_chunks
from vijax.xla.gather import docs_per_chunk, sum_over_rows

WORDS, TOPICS = 30, 4
KEY = jax.random.key(0)


def buckets(seed=0, sizes=((7, 5), (4, 9))):
    rng = np.random.default_rng(seed)
    return tuple(
        Documents(
            jnp.asarray(rng.integers(0, WORDS, size=size), jnp.int32),
            jnp.asarray(rng.integers(0, 3, size=size), float),
            jnp.ones(size[0]),
            20,
        )
        for size in sizes
    )


def energy(rows, shared, docs, key):
    """Nonlinear in rows and in both shared arrays."""
    del key
    mixed = jnp.einsum("dnk,k->dn", rows, shared["mix"])
    per_doc = jnp.sum(docs.counts * jnp.log(mixed + jnp.sum(shared["floor"] ** 2)), axis=1)
    return jnp.vdot(docs.weights, per_doc), per_doc


def table_and_shared(seed=1):
    rng = np.random.default_rng(seed)
    shared = {
        "mix": jnp.asarray(rng.gamma(1.0, size=TOPICS)),
        "floor": jnp.asarray(rng.gamma(1.0, size=2)),
    }
    return jnp.asarray(rng.gamma(1.0, size=(WORDS, TOPICS))), shared


def chunked(table, shared, docs, most=3):
    return sum_over_rows(energy, table, shared, [split_chunks(d, most) for d in docs], KEY)


def whole(table, shared, docs):
    return sum(energy(table[d.words], shared, d, KEY)[0] for d in docs)


@pytest.mark.parametrize("most", [1, 3, 100])
def test_value_and_gradient_equal_the_unchunked_expression(most):
    with jax.enable_x64(True):
        table, shared = table_and_shared()
        docs = buckets()
        value_and_grad = jax.value_and_grad(chunked, argnums=(0, 1), has_aux=True)
        (total, aux), grads = jax.jit(value_and_grad, static_argnums=3)(table, shared, docs, most)
        expected, expected_grads = jax.value_and_grad(whole, argnums=(0, 1))(table, shared, docs)
        np.testing.assert_allclose(total, expected, rtol=1e-12)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=rounding(b)),
            grads,
            expected_grads,
        )
        for d, part in zip(docs, aux, strict=True):
            per_doc = merge_chunks(part, d.words.shape[0])
            np.testing.assert_allclose(
                per_doc, energy(table[d.words], shared, d, KEY)[1], rtol=1e-12
            )
        np.testing.assert_allclose(chunked(table, shared, docs, most)[0], expected, rtol=1e-12)


def test_gradient_scales_with_its_cotangent_and_composes():
    with jax.enable_x64(True):
        (table, shared), docs = table_and_shared(), buckets()
        f = lambda g: jax.jit(jax.grad(lambda t: jnp.sin(0.1 * g(jnp.exp(t), shared, docs))))(
            jnp.log(table)
        )
        want = f(whole)
        np.testing.assert_allclose(
            f(lambda *a: chunked(*a)[0]), want, rtol=1e-11, atol=rounding(want)
        )


def test_gradient_can_itself_be_differentiated_in_reverse():
    with jax.enable_x64(True):
        (table, shared), docs = table_and_shared(), buckets()
        norm = lambda g: jax.jit(jax.grad(lambda s: jnp.sum(jax.grad(g)(table, s, docs) ** 2)))(
            shared
        )
        close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=rounding(b))
        jax.tree.map(close, norm(lambda *a: chunked(*a)[0]), norm(whole))


def test_under_jit_vmap_scan_and_donation():
    (table, shared), docs = table_and_shared(), buckets()
    grad = jax.jit(jax.grad(lambda t: chunked(t, shared, docs)[0]))
    tables = jnp.stack([table, 2 * table, table + 1])
    one_by_one = jnp.stack([grad(t) for t in tables])
    np.testing.assert_allclose(
        jax.jit(jax.vmap(grad))(tables), one_by_one, rtol=1e-5, atol=rounding(one_by_one)
    )

    def ascend(table, _):
        return table + 0.01 * grad(table), None

    expected = table
    for _ in range(3):
        expected, _ = ascend(expected, None)
    train = jax.jit(lambda t: jax.lax.scan(ascend, t, length=3)[0], donate_argnums=0)
    np.testing.assert_allclose(train(table), expected, rtol=1e-5)


def test_aux_and_data_are_constants():
    (table, shared), docs = table_and_shared(), buckets()
    of_aux = jax.grad(lambda t: sum(jnp.sum(a) for a in chunked(t, shared, docs)[1]))(table)
    np.testing.assert_array_equal(of_aux, 0)


def test_every_chunk_has_a_key_of_its_own():
    noisy = lambda rows, shared, docs, key: (jnp.sum(rows), jax.random.uniform(key))
    table, _ = table_and_shared()
    aux = sum_over_rows(noisy, table, (), [split_chunks(d, 2) for d in buckets()], KEY)[1]
    draws = np.concatenate(aux)
    assert len(set(draws.tolist())) == len(draws) == 6


def test_no_gradient_is_computed_when_none_is_asked_for():
    (table, shared), docs = table_and_shared(), buckets()
    text = jax.jit(lambda t: chunked(t, shared, docs)[0]).lower(table).as_text()
    assert "scatter" not in text


def test_row_gradients_are_added_in_place():
    """Within the loop over chunks nothing of the size of the table is made but by the scatter
    itself."""
    big = jnp.ones((5003, 7))
    docs = buckets()[:1]
    share = {"mix": jnp.ones(7), "floor": jnp.ones(2)}
    compiled = optimized_jit(jax.grad(lambda t: chunked(t, share, docs, 1)[0])).lower(big).compile()
    text = compiled.as_text()
    made = re.findall(r"= \w+\[5003,7\]\S* ([\w-]+)\(", text)
    assert set(made) <= {
        "parameter",
        "get-tuple-element",
        "scatter",
        "fusion",
        "broadcast",
        "call",
        "add",
    }
    loops = [
        body for body in text.split("\n\n") if "get-tuple-element" in body and "[5003,7]" in body
    ]
    assert not any(re.search(r"\[5003,7\]\S* (copy|add)\(", body) for body in loops)
    assert compiled.memory_analysis().temp_size_in_bytes < 2.5 * big.nbytes


def test_chunks_are_equal_and_come_back_whole():
    x = {"a": jnp.arange(14).reshape(7, 2), "b": jnp.arange(7.0)}
    chunks = split_chunks(x, 3)
    assert chunks["a"].shape == (3, 3, 2)
    jax.tree.map(np.testing.assert_array_equal, merge_chunks(chunks, 7), x)
    assert split_chunks(x, 100)["b"].shape == (1, 7)


def test_chunk_rule():
    assert docs_per_chunk(0, 10) >= docs_per_chunk(134, 100) >= docs_per_chunk(134, 1000) >= 1
    assert docs_per_chunk(1, 1, most=5) == 5
