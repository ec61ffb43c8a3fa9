import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaln

from vijax.inference import estep
from vijax.inference.estep.mixed_membership import ascend


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
    """The textbook loop of one document in float64, responsibilities and all."""
    gamma = alpha + counts.sum() / len(alpha)
    for _ in range(max_iters):
        resp = np.exp(digamma(gamma) - digamma(gamma.sum())) * likelihood
        resp /= resp.sum(axis=1, keepdims=True)
        gamma, old = alpha + counts @ resp, gamma
        if np.mean(np.abs(gamma - old)) <= tol:
            break
    return gamma


def bound(gamma, likelihood, counts, alpha):
    """log p(w | beta) >= this, q(z) optimal: E log p(w, theta) - E log q(theta), up to nothing."""
    log_theta = digamma(gamma) - digamma(gamma.sum())
    normalizer = lambda a: gammaln(a).sum() - gammaln(a.sum())
    fit = counts @ np.log(likelihood @ np.exp(log_theta))
    return fit + (alpha - gamma) @ log_theta - normalizer(alpha) + normalizer(gamma)


@pytest.mark.parametrize(("max_iters", "tol"), [(1, 1e-3), (7, 1e-9), (100, 1e-3), (2000, 1e-10)])
def test_equals_a_plain_loop_over_documents(max_iters, tol):
    likelihood, counts, alpha = documents()
    with jax.enable_x64(True):
        step = estep.mean_field(max_iters, tol)
        gamma = step.mixed_membership(
            *map(jnp.asarray, (likelihood, counts, alpha)), jax.random.key(0), 60
        ).gamma
        assert gamma.dtype == jnp.float64
        expected = [
            reference(p, c, alpha, max_iters, tol) for p, c in zip(likelihood, counts, strict=True)
        ]
        np.testing.assert_allclose(gamma, expected, rtol=1e-9)


def test_converged_gamma_satisfies_its_own_equation():
    likelihood, counts, alpha = documents(1)
    with jax.enable_x64(True):
        arrays = tuple(map(jnp.asarray, (likelihood, counts, alpha)))
        gamma = (
            estep.mean_field(20000, 1e-12).mixed_membership(*arrays, jax.random.key(0), 60).gamma
        )
        np.testing.assert_allclose(ascend(gamma, *arrays), gamma, atol=1e-8)


def test_every_iteration_raises_the_bound():
    likelihood, counts, alpha = documents(2)
    with jax.enable_x64(True):
        gamma = jnp.asarray(np.random.default_rng(3).gamma(1.0, size=(5, 7)) + 0.1)
        bounds = []
        for _ in range(30):
            gamma = ascend(gamma, *map(jnp.asarray, (likelihood, counts, alpha)))
            rows = zip(np.asarray(gamma), likelihood, counts, strict=True)
            bounds.append([bound(g, p, c, alpha) for g, p, c in rows])
    assert np.all(np.diff(bounds, axis=0) > -1e-10)


def test_float32_is_right_to_float32():
    likelihood, counts, alpha = documents(4)
    single = [jnp.asarray(x, jnp.float32) for x in (likelihood, counts, alpha)]
    gamma = estep.mean_field(50, 1e-9).mixed_membership(*single, jax.random.key(0), 60).gamma
    expected = [reference(p, c, alpha, 50, 1e-9) for p, c in zip(likelihood, counts, strict=True)]
    np.testing.assert_allclose(gamma, expected, rtol=2e-4, atol=2e-4)


def marked(topics=4, docs=3, tokens=20.0):
    """Documents of the words of one topic each, which others hardly have: the last topics' own. All
    start with few."""
    likelihood = np.full((docs, 1, topics), 1e-4)
    likelihood[np.arange(docs), 0, np.arange(docs) + topics - docs] = 1.0
    return likelihood, np.full((docs, 1), tokens), np.full(topics, 0.01)


def infer(step, likelihood, counts, alpha, start=None):
    return step.mixed_membership(
        *map(jnp.asarray, (likelihood, counts, alpha)),
        jax.random.key(0),
        60,
        None if start is None else jnp.asarray(start),
    ).gamma


@pytest.mark.parametrize("left", range(4))
def test_a_topic_that_a_document_has_left_comes_back(left):
    """Wherever it was last: a topic without a token has weight exp digamma(alpha), e^-100 here, and
    gets none."""
    given = marked()
    start = given[2] + 20.0 * np.eye(4)[[left] * 3]
    with jax.enable_x64(True):
        step = estep.mean_field(200, 1e-9)
        np.testing.assert_allclose(infer(step, *given, start), infer(step, *given), rtol=1e-6)


def test_to_go_on_from_nowhere_is_to_begin():
    """From where nothing is known of a document, after any number of rounds."""
    likelihood, counts, alpha = documents(5)
    even = alpha + counts.sum(1, keepdims=True) / len(alpha)
    with jax.enable_x64(True):
        for rounds in (1, 3):
            step = estep.mean_field(rounds, 1e-12)
            cold, again = (
                infer(step, likelihood, counts, alpha),
                infer(step, likelihood, counts, alpha, even),
            )
            np.testing.assert_allclose(again, cold, rtol=1e-10)


def test_what_an_earlier_visit_found_is_of_use():
    """Going on from the fixed point, two rounds end nearer to it than from nothing."""
    given = documents(6)
    with jax.enable_x64(True):
        end = infer(estep.mean_field(20000, 1e-12), *given)
        two = estep.mean_field(2, 1e-12)
        cold, warm = (np.abs(infer(two, *given, start) - end).max(axis=1) for start in (None, end))
    assert np.all(warm < 0.7 * cold)
