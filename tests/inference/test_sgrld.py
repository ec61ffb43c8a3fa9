"""Langevin dynamics of topics: posterior means by enumeration, one compilation, resuming, devices,
refusals."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaln

import vijax as vi
from tests.naming import naming
from tests.programs import compiled, names_since
from vijax.data import Corpus

COUNTS = np.array([[2, 1, 0, 1, 0], [0, 0, 2, 0, 2], [1, 0, 1, 0, 1]])
ALPHA, KEY = 0.7, jax.random.key(0)
ETA = np.array([[2.0, 1.5, 0.7, 1.0, 0.7], [0.7, 0.8, 2.0, 1.0, 1.5]])  # tells the topics apart


def enumerated():
    """E[topics | words], over all 2^11 assignments of the tokens."""
    documents, words = (
        np.repeat(index, COUNTS.ravel()) for index in np.indices(COUNTS.shape).reshape(2, -1)
    )
    z = np.array(list(itertools.product((0, 1), repeat=len(words))))
    hot = np.eye(2)[z]
    by_doc = np.einsum("anK,nd->adK", hot, np.eye(3)[documents])
    by_word = np.einsum("anK,nv->aKv", hot, np.eye(5)[words]) + ETA
    log_p = gammaln(by_doc + ALPHA).sum((1, 2)) + (
        gammaln(by_word).sum(2) - gammaln(by_word.sum(2))
    ).sum(1)
    weights = np.exp(log_p - log_p.max())
    return np.tensordot(weights / weights.sum(), by_word / by_word.sum(2, keepdims=True), 1)


def algorithm(estep, eps=0.02, **more):
    model = vi.models.lda(2, 5, alpha=ALPHA, eta=ETA, estep=estep)
    return vi.sgrld(model, step_size=vi.step_size.constant(eps / 2), **more)


def chain(alg, batch_of, steps, key=KEY):
    """Sum of theta over the steps after 500, and at each step the bound and the sums of theta."""

    def body(carry, _):
        state, total = carry
        own = jax.random.fold_in(key, state.step)
        state, info = alg.step(own, state, batch_of(jax.random.fold_in(own, 1)))
        theta = state.posterior["topics"].concentration
        return (state, total + jnp.where(state.step > 500, theta, 0)), (info.elbo, theta.sum(1))

    state = alg.init(key)
    zeros = jnp.zeros_like(state.posterior["topics"].concentration)
    return jax.jit(lambda s: jax.lax.scan(body, (s, zeros), length=steps))(state)


def minibatch(counts, rows):
    """These rows of the counts, of as many documents as there are."""
    some = jnp.asarray(counts, jnp.float32)[rows]
    words = jnp.broadcast_to(jnp.arange(counts.shape[1]), some.shape)
    documents = vi.Documents(words, some, jnp.ones(len(rows)), int(counts.sum(1).max()))
    return vi.Minibatch((documents,), float(len(counts)))


@pytest.fixture(scope="module")
def drawn():
    return chain(
        algorithm(vi.estep.gibbs(2, 5)), lambda key: minibatch(COUNTS, np.arange(3)), 100_000
    )


def test_the_average_of_draws_is_the_posterior_mean(drawn):
    (_, total), (elbo, mass) = drawn
    found = np.asarray(total / total.sum(1, keepdims=True))
    assert np.all(np.isfinite(np.asarray(elbo)))
    np.testing.assert_allclose(found, enumerated(), atol=0.015)
    # theta_k. ~ Gamma(sum eta, 1), whatever the data
    np.testing.assert_allclose(np.asarray(mass).mean(0), ETA.sum(1), rtol=0.06)


@pytest.mark.slow
def test_the_average_is_the_same_of_minibatches():
    """Two of three documents a step, their message times 3 / 2."""
    pair = lambda key: minibatch(COUNTS, jax.random.choice(key, 3, (2,), replace=False))
    (_, total), _ = chain(algorithm(vi.estep.gibbs(2, 5), eps=0.01), pair, 200_000)
    np.testing.assert_allclose(total / total.sum(1, keepdims=True), enumerated(), atol=0.02)


FEW = np.array([[3, 1], [0, 2], [4, 2]])
ETA_OF_FEW = np.array([[2.0, 1.0], [0.8, 1.7]])


def bounds(grid):
    """Mean-field bound of each document of `FEW` at p(word 0 | topic) of a grid, (..., 2), by
    NumPy."""
    beta = np.stack([grid, 1 - grid], -1)[..., None, :, :]  # (..., 1, K, V)
    gamma = np.broadcast_to(ALPHA + FEW.sum(1)[:, None] / 2, (*grid.shape[:-1], len(FEW), 2))
    for _ in range(300):
        log_weights = digamma(gamma) - digamma(gamma.sum(-1, keepdims=True))
        joint = np.exp(log_weights)[..., None] * beta  # (..., D, K, V)
        gamma = ALPHA + (FEW[:, None] * joint / joint.sum(-2, keepdims=True)).sum(-1)
    log_weights = digamma(gamma) - digamma(gamma.sum(-1, keepdims=True))
    words = (FEW * np.log((np.exp(log_weights)[..., None] * beta).sum(-2))).sum(-1)
    normalizer = lambda a: gammaln(a).sum(-1) - gammaln(a.sum(-1))
    kl = normalizer(np.full(2, ALPHA)) - normalizer(gamma) + ((gamma - ALPHA) * log_weights).sum(-1)
    return words - kl


@pytest.mark.slow
def test_with_mean_field_the_bound_takes_the_place_of_the_likelihood():
    """The average of draws is the mean of the prior times exp of the documents' bounds, by
    quadrature."""
    points = (np.arange(150) + 0.5) / 150
    grid = np.stack(np.meshgrid(points, points, indexing="ij"), -1)
    prior = ((ETA_OF_FEW[:, 0] - 1) * np.log(grid) + (ETA_OF_FEW[:, 1] - 1) * np.log1p(-grid)).sum(
        -1
    )
    log_p = bounds(grid).sum(-1) + prior
    weights = np.exp(log_p - log_p.max())
    wanted = (weights[..., None] * grid).sum((0, 1)) / weights.sum()
    model = vi.models.lda(2, 2, alpha=ALPHA, eta=ETA_OF_FEW, estep=vi.estep.mean_field(100, 1e-5))
    alg = vi.sgrld(model, step_size=vi.step_size.constant(0.01))
    one = lambda key: chain(alg, lambda _: minibatch(FEW, np.arange(3)), 8_000, key)[0][1]
    total = jnp.sum(jax.vmap(one)(jax.random.split(KEY, 64)), 0)  # a standard error of 0.004
    np.testing.assert_allclose((total / total.sum(1, keepdims=True))[:, 0], wanted, atol=0.015)
    assert (
        np.abs(wanted - ETA_OF_FEW[:, 0] / ETA_OF_FEW.sum(1)).max() > 0.05
    )  # the data tell something


def test_a_fit_goes_on_bit_for_bit_and_compiles_once(tmp_path):
    corpus = Corpus.from_counts(np.tile(COUNTS, (4, 1)))
    alg, key = algorithm(vi.estep.gibbs(2, 1)), jax.random.key(3)
    whole = vi.fit(alg, corpus, key=key, num_steps=12, batch_size=4)
    half = vi.fit(alg, corpus, key=key, num_steps=6, batch_size=4)
    state = vi.checkpoint.load(vi.checkpoint.save(tmp_path, 6, half.state), half.state).tree
    before = compiled()
    on = vi.fit(alg, corpus, key=key, num_steps=12, batch_size=4, state=state)
    assert set(names_since(before)) <= {"add", "_copy"}  # of the state, no step
    np.testing.assert_array_equal(
        *(np.asarray(f.state.posterior["topics"].concentration) for f in (whole, on))
    )
    topics = np.asarray(on.estimates["topics"].mean())
    np.testing.assert_allclose(topics.sum(1), 1, rtol=1e-5)
    drawn = on.sample(key, 2)[
        "topics"
    ]  # a point: of Dirichlet(theta) draws would be far wider than the posterior
    np.testing.assert_allclose(drawn, np.stack([topics, topics]), rtol=1e-5)
    assert np.isfinite(on.score(corpus, key=key)[0])


def test_other_keys_draw_otherwise():
    corpus = Corpus.from_counts(COUNTS)
    alg = algorithm(vi.estep.mean_field())
    first = alg.init(jax.random.key(0))
    ends = [
        vi.fit(alg, corpus, key=jax.random.key(i), num_steps=3, batch_size=2, state=first)
        .posterior["topics"]
        .mean()
        for i in (1, 2)
    ]
    assert float(jnp.abs(ends[0] - ends[1]).max()) > 1e-3


def test_what_is_refused():
    mixture = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
    with pytest.raises(ValueError, match=naming("model:", "Dirichlet")):
        vi.sgrld(mixture)
    with pytest.raises(ValueError, match="step_size: expected a schedule"):
        vi.sgrld(vi.models.lda(2, 5), step_size=vi.step_size.backtracking())
    with pytest.raises(ValueError, match="by_words"):
        vi.topics.by_words(vi.sgrld(vi.models.lda(2, 5)))
    alg = vi.cavi(mixture, estimator=vi.estimator.langevin())
    with pytest.raises(ValueError, match="estimator: expected Dirichlet globals"):
        vi.fit(alg, np.zeros((3, 1)), num_steps=1, key=jax.random.key(0))
