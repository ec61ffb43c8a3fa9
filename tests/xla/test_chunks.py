import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.rounding import rounding
from vijax.contract.batch import Minibatch
from vijax.xla import chunks as chunking
from vijax.xla.chunks import groups_per_chunk, merge_chunks, split_chunks, sum_over_chunks

KEY = jax.random.key(0)


def shared():
    rng = np.random.default_rng(0)
    return {"slope": jnp.asarray(rng.normal(size=3)), "offset": jnp.asarray(rng.normal())}


def bound(s, y):
    """Nonlinear in both shared arrays."""
    each = jnp.exp(jnp.sin(y @ s["slope"])) + y[:, 0] * s["offset"] ** 2
    return jnp.sum(each), each


@pytest.mark.parametrize("most", [1, 4, 100])
def test_value_gradient_and_aux_equal_the_unchunked_expression(most):
    with jax.enable_x64(True):
        y = jnp.asarray(np.random.default_rng(1).normal(size=(8, 3)))
        pieces = split_chunks(y, most)
        # A nonlinear use of the total, so that the cotangent is not 1.
        fn = lambda s: (lambda total, aux: (total**2, aux))(*sum_over_chunks(bound, s, pieces))
        (value, aux), grad = jax.jit(jax.value_and_grad(fn, has_aux=True))(shared())
        expected, expected_grad = jax.value_and_grad(lambda s: bound(s, y)[0] ** 2)(shared())
        np.testing.assert_allclose(value, expected, rtol=1e-13)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=rounding(b)),
            grad,
            expected_grad,
        )
        np.testing.assert_allclose(merge_chunks(aux, 8), bound(shared(), y)[1], rtol=1e-13)
        np.testing.assert_allclose(
            sum_over_chunks(bound, shared(), pieces)[0] ** 2, expected, rtol=1e-13
        )


def test_rows_added_are_zeros_or_the_last_row():
    np.testing.assert_array_equal(split_chunks(jnp.arange(1, 6), 4), [[1, 2, 3], [4, 5, 0]])
    np.testing.assert_array_equal(
        split_chunks(jnp.arange(1, 6), 4, repeat_last=True), [[1, 2, 3], [4, 5, 5]]
    )
    keys = split_chunks(jax.random.split(KEY, 5), 2, repeat_last=True)
    assert keys.shape == (3, 2)
    assert keys[2, 1] == keys[2, 0]


def test_chunks_shrink_with_the_largest_intermediate_but_stay_worth_while():
    outer = lambda y: jnp.sum(jnp.outer(y, y))
    sizes = [groups_per_chunk(outer, jnp.ones(n)) for n in (8, 64, 512, 4096)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == chunking.LEAST_GROUPS


def test_a_chunk_is_worth_the_sum_of_its_gradient():
    """Rows of 256 floats: as many as there are bytes in the shared matrix, once that exceeds the
    cache."""
    product = lambda matrix, y: jnp.sum(matrix @ y)
    sizes = [groups_per_chunk(product, jnp.zeros((256, n)), jnp.zeros(n)) for n in (16, 16_384)]
    cached = chunking.CACHE_BYTES if jax.default_backend() == "cpu" else chunking.ACCELERATOR_BYTES
    assert sizes == [cached // 1024, max(cached, 4 * 257 * 16_384) // 1024]


def mixture_bound(model, y, weights=None):
    q = model.init({}, KEY, model.prior({}), Minibatch(y, None))
    return jax.value_and_grad(
        lambda s: (lambda said: (said.total, said))(
            model.local_elbo({}, s, Minibatch(y, None, weights), KEY, model.estep)
        ),
        has_aux=True,
    )(q.expected_stats())


def test_an_energy_in_chunks_says_what_it_says_at_once(monkeypatch):
    with jax.enable_x64(True):
        y = jnp.asarray(np.random.default_rng(2).normal(size=(70, 2)))
        weights = jnp.asarray(np.random.default_rng(3).integers(0, 2, size=70), float)
        model = vi.models.mixture(vi.models.emission.full_gaussian(3, 2))
        (total, said), grad = mixture_bound(model, y, weights)
        monkeypatch.setattr("vijax.models.energies.energy.groups_per_chunk", lambda *args: 16)
        (total_16, said_16), grad_16 = mixture_bound(model, y, weights)
        np.testing.assert_allclose(total_16, total, rtol=1e-13)
        np.testing.assert_allclose(
            said_16.per_group, said.per_group, rtol=1e-13, atol=rounding(said.per_group)
        )
        np.testing.assert_allclose(said_16.local["z"].probs, said.local["z"].probs, rtol=1e-12)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13), grad_16, grad
        )
