import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vijax.inference import estep


def documents(seed=0, docs=5, slots=12, topics=7):
    rng = np.random.default_rng(seed)
    likelihood = rng.gamma(0.3, size=(docs, slots, topics)) + 1e-6
    likelihood /= likelihood.max(axis=-1, keepdims=True)
    return (
        likelihood,
        rng.integers(1, 6, size=(docs, slots)).astype(float),
        rng.gamma(1.0, size=topics),
    )


def reference(likelihood, counts, alpha, max_iters, tol):
    """One document, token by token: every token has a responsibility of its own, all updated at
    once."""
    tokens = np.repeat(likelihood, counts.astype(int), axis=0)
    resp = alpha * tokens / (tokens @ alpha)[:, None]
    for _ in range(max_iters):
        total = resp.sum(axis=0)
        resp = (alpha + total - resp) * tokens
        resp /= resp.sum(axis=1, keepdims=True)
        if np.mean(np.abs(resp.sum(axis=0) - total)) <= tol:
            break
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(int)
    return alpha + resp.sum(axis=0), np.add.reduceat(resp, starts, axis=0)


@pytest.mark.parametrize(("max_iters", "tol"), [(1, 1e-3), (7, 1e-9), (100, 1e-3), (2000, 1e-10)])
def test_equals_a_plain_loop_over_tokens(max_iters, tol):
    likelihood, counts, alpha = documents()
    with jax.enable_x64(True):
        arrays = map(jnp.asarray, (likelihood, counts, alpha))
        local = estep.cvb0(max_iters, tol).mixed_membership(*arrays, jax.random.key(0), 60)
        for d in range(len(counts)):
            gamma, token_topics = reference(likelihood[d], counts[d], alpha, max_iters, tol)
            np.testing.assert_allclose(local.gamma[d], gamma, rtol=1e-9)
            np.testing.assert_allclose(local.token_topics[d], token_topics, rtol=1e-9, atol=1e-12)


def test_fixed_point_leaves_each_token_out_of_its_own_count():
    likelihood, counts, alpha = documents(1)
    with jax.enable_x64(True):
        arrays = map(jnp.asarray, (likelihood, counts, alpha))
        gamma, token_topics = estep.cvb0(20000, 1e-13).mixed_membership(
            *arrays, jax.random.key(0), 60
        )
        resp = np.asarray(token_topics) / counts[:, :, None]
        again = (np.asarray(gamma)[:, None, :] - resp) * likelihood
        np.testing.assert_allclose(again / again.sum(axis=2, keepdims=True), resp, atol=1e-9)


def test_float32_is_right_to_float32():
    likelihood, counts, alpha = documents(4)
    single = [jnp.asarray(x, jnp.float32) for x in (likelihood, counts, alpha)]
    gamma = estep.cvb0(50, 1e-9).mixed_membership(*single, jax.random.key(0), 60).gamma
    expected = [
        reference(p, c, alpha, 50, 1e-9)[0] for p, c in zip(likelihood, counts, strict=True)
    ]
    np.testing.assert_allclose(gamma, expected, rtol=2e-4, atol=2e-4)
