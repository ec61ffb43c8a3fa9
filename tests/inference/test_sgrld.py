"""Langevin dynamics of topics: posterior means by enumeration, one compilation, resuming, devices, refusals."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

import vijax as vi
from tests.programs import compiled, names_since
from vijax.data import Corpus

COUNTS = np.array([[2, 1, 0, 1, 0], [0, 0, 2, 0, 2], [1, 0, 1, 0, 1]])
ALPHA = 0.7
ETA = np.array([[2.0, 1.5, 0.7, 1.0, 0.7], [0.7, 0.8, 2.0, 1.0, 1.5]])  # tells the topics apart


def enumerated():
    """E[topics | words], over all 2^11 assignments of the tokens."""
    documents, words = (np.repeat(index, COUNTS.ravel()) for index in np.indices(COUNTS.shape).reshape(2, -1))
    z = np.array(list(itertools.product((0, 1), repeat=len(words))))
    hot = np.eye(2)[z]
    by_doc = np.einsum("anK,nd->adK", hot, np.eye(3)[documents])
    by_word = np.einsum("anK,nv->aKv", hot, np.eye(5)[words]) + ETA
    log_p = gammaln(by_doc + ALPHA).sum((1, 2)) + (gammaln(by_word).sum(2) - gammaln(by_word.sum(2))).sum(1)
    weights = np.exp(log_p - log_p.max())
    return np.tensordot(weights / weights.sum(), by_word / by_word.sum(2, keepdims=True), 1)


def algorithm(estep, eps=0.02, **more):
    model = vi.models.lda(2, 5, alpha=ALPHA, eta=ETA, estep=estep)
    return vi.sgrld(model, step_size=vi.step_size.constant(eps / 2), **more)


def chain(alg, batch, steps):
    key = jax.random.key(0)

    def body(carry, _):
        state, total = carry
        state, info = alg.step(jax.random.fold_in(key, state.step), state, batch)
        theta = state.posterior["topics"].concentration
        return (state, total + jnp.where(state.step > 500, theta, 0)), (info.elbo, theta.sum(1))

    return jax.jit(lambda s: jax.lax.scan(body, (s, jnp.zeros((2, 5))), length=steps))(alg.init(key))


@pytest.fixture(scope="module")
def drawn():
    words = jnp.broadcast_to(jnp.arange(5), COUNTS.shape)
    documents = vi.Documents(words, jnp.asarray(COUNTS, jnp.float32), jnp.ones(3), 4)
    batch = vi.Minibatch((documents,), 3.0)
    return chain(algorithm(vi.estep.gibbs(2, 5)), batch, 100_000)


def test_the_average_of_draws_is_the_posterior_mean(drawn):
    (_, total), (elbo, mass) = drawn
    found = np.asarray(total / total.sum(1, keepdims=True))
    assert np.all(np.isfinite(np.asarray(elbo)))
    np.testing.assert_allclose(found, enumerated(), atol=0.015)
    # theta_k. ~ Gamma(sum eta, 1), whatever the data
    np.testing.assert_allclose(np.asarray(mass).mean(0), ETA.sum(1), rtol=0.06)


def test_a_fit_goes_on_bit_for_bit_and_compiles_once(tmp_path):
    corpus = Corpus.from_counts(np.tile(COUNTS, (4, 1)))
    alg, key = algorithm(vi.estep.gibbs(2, 1)), jax.random.key(3)
    whole = vi.fit(alg, corpus, key=key, num_steps=12, batch_size=4)
    half = vi.fit(alg, corpus, key=key, num_steps=6, batch_size=4)
    state = vi.checkpoint.load(vi.checkpoint.save(tmp_path, 6, half.state), half.state).tree
    before = compiled()
    on = vi.fit(alg, corpus, key=key, num_steps=12, batch_size=4, state=state)
    assert set(names_since(before)) <= {"add", "copied"}  # of the state, no step
    np.testing.assert_array_equal(*(np.asarray(f.state.posterior["topics"].concentration) for f in (whole, on)))
    topics = np.asarray(on.estimates["topics"].mean())
    np.testing.assert_allclose(topics.sum(1), 1, rtol=1e-5)
    drawn = on.sample(key, 2)["topics"]  # a point: of Dirichlet(theta) draws would be far wider than the posterior
    np.testing.assert_allclose(drawn, np.stack([topics, topics]), rtol=1e-5)
    assert np.isfinite(on.score(corpus, key=key)[0])


def test_other_keys_draw_otherwise():
    corpus = Corpus.from_counts(COUNTS)
    alg = algorithm(vi.estep.mean_field())
    first = alg.init(jax.random.key(0))
    ends = [
        vi.fit(alg, corpus, key=jax.random.key(i), num_steps=3, batch_size=2, state=first).posterior["topics"].mean()
        for i in (1, 2)
    ]
    assert float(jnp.abs(ends[0] - ends[1]).max()) > 1e-3


def test_what_is_refused():
    mixture = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
    with pytest.raises(ValueError, match="model: expected one whose globals are all Dirichlet"):
        vi.sgrld(mixture)
    with pytest.raises(ValueError, match="step_size: expected a schedule"):
        vi.sgrld(vi.models.lda(2, 5), step_size=vi.step_size.backtracking())
    with pytest.raises(ValueError, match="by_words"):
        vi.sgrld(vi.models.lda(2, 5), lazy=True)
    alg = vi.cavi(mixture, estimator=vi.estimator.langevin())
    with pytest.raises(ValueError, match="estimator: expected Dirichlet globals"):
        vi.fit(alg, np.zeros((3, 1)), num_steps=1, key=jax.random.key(0))
