"""The correlated topic model: bound and messages against quadrature, every message of the toolkit,
held-out scores."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import vijax as vi
from tests.naming import naming
from tests.rounding import rounding
from vijax.data import Corpus
from vijax.evaluate import gaussian_completion, unigram_score
from vijax.families import DirichletStats, NormalWishartStats

V = 12
TOPICS = np.random.default_rng(0).dirichlet(np.full(V, 0.3), size=2) + 1e-3
TOPICS /= TOPICS.sum(1, keepdims=True)
MU, PRECISION = np.array([0.5, -0.5]), np.linalg.inv(np.array([[2.0, -0.8], [-0.8, 1.0]]))


def counts_matrix(docs=5, length=25):
    rng = np.random.default_rng(1)
    z = rng.multivariate_normal(MU, np.linalg.inv(PRECISION), size=docs)
    return np.array([rng.multinomial(length, share @ TOPICS) for share in special.softmax(z, 1)])


COUNTS = counts_matrix()


def batch_of(counts):
    """One bucket with every row of a dense count matrix, a padding row and two padding slots."""
    docs, words = counts.shape
    ids = np.pad(np.tile(np.arange(words), (docs, 1)), ((0, 1), (0, 2)))
    values = np.pad(counts, ((0, 1), (0, 2))).astype(np.float32)
    weights = (np.arange(docs + 1) < docs).astype(np.float32)
    bucket = vi.Documents(*map(jnp.asarray, (ids, values, weights)), int(counts.sum(1).max()))
    return vi.Minibatch((bucket,), jnp.float32(docs))


def statistics():
    product = PRECISION @ MU
    logits = NormalWishartStats(product, PRECISION, MU @ product, np.linalg.slogdet(PRECISION)[1])
    return {
        "logits": jax.tree.map(jnp.asarray, logits),
        "topics": DirichletStats(jnp.log(jnp.asarray(TOPICS))),
    }


def grid(points):
    x, w = np.polynomial.hermite_e.hermegauss(points)
    return np.array(list(itertools.product(x, x))), np.outer(w, w).ravel() / w.sum() ** 2


def test_bound_and_messages_against_quadrature():
    """q(z) from the E-step; then the bound, and E sum c phi, by 40^2 points in NumPy; and below log
    p(w)."""
    nodes, weights = grid(40)
    with jax.enable_x64(True):
        model = vi.models.ctm(2, V, num_samples=20_000)

        def total(stats):
            said = model.local_elbo(
                model.hyper, stats, batch_of(COUNTS), jax.random.key(0), model.estep
            )
            return said.total, said

        (value, said), message = jax.jit(jax.value_and_grad(total, has_aux=True))(statistics())
        value, said, message = jax.tree.map(np.asarray, (value, said, message))
    local = jax.tree.map(lambda x: x[: len(COUNTS)], said.local[0])
    covs = np.linalg.inv(PRECISION + local.site)
    topics, bounds = np.zeros((2, V)), []
    for counts, m, cov in zip(COUNTS, local.mean, covs, strict=True):
        share = special.softmax(m + nodes @ np.linalg.cholesky(cov).T, 1)
        mixed = share @ TOPICS
        topics += counts * TOPICS * np.einsum("s,sk,sv->kv", weights, share, 1 / mixed)
        gap = m - MU
        kl = (
            np.trace(PRECISION @ cov)
            + gap @ PRECISION @ gap
            - 2
            - np.linalg.slogdet(PRECISION @ cov)[1]
        )
        bounds.append(weights @ (np.log(mixed) @ counts) - 0.5 * kl)
    prior = MU + nodes @ np.linalg.cholesky(np.linalg.inv(PRECISION)).T
    log_words = np.log(special.softmax(prior, 1) @ TOPICS) @ COUNTS.T
    evidence = special.logsumexp(log_words, axis=0, b=weights[:, None])
    np.testing.assert_allclose(
        said.per_group[0][:-1], bounds, atol=0.1
    )  # 20,000 draws, spread of 2 nats: 6 sigma
    assert np.all(np.array(bounds) < evidence)
    assert np.all(np.array(bounds) > evidence - 0.3)
    np.testing.assert_allclose(value, np.sum(said.per_group[0][:-1]), rtol=1e-12)
    np.testing.assert_allclose(message["topics"].log, topics, atol=0.2)
    np.testing.assert_allclose(message["topics"].log.sum(0), COUNTS.sum(0), rtol=1e-10)
    second = covs + local.mean[:, :, None] * local.mean[:, None, :]
    sums = {"precision_times_mean": local.mean.sum(0), "precision": -0.5 * second.sum(0)}
    for name, want in sums.items():
        np.testing.assert_allclose(
            getattr(message["logits"], name), want, rtol=1e-10, atol=rounding(want)
        )
    assert float(message["logits"].quadratic) == -0.5 * len(COUNTS)
    assert float(message["logits"].log_det) == 0.5 * len(COUNTS)


def synthetic(docs=120, length=60, num_words=30):
    """Three well separated topics of which the first two come together."""
    rng = np.random.default_rng(4)
    topics = np.kron(np.eye(3), np.ones((1, num_words // 3))) + 0.02
    topics /= topics.sum(1, keepdims=True)
    cov = np.array([[6.0, 3.0, -3.0], [3.0, 6.0, -3.0], [-3.0, -3.0, 6.0]])
    shares = special.softmax(rng.multivariate_normal(np.zeros(3), cov, size=docs), 1)
    return np.array([rng.multinomial(length, share @ topics) for share in shares]), topics, cov


ALL, TRUTH, COV = synthetic()
TRAIN, TEST = Corpus.from_counts(ALL[::2]), Corpus.from_counts(ALL[1::2])


def error_of(found):
    """Mean L1 distance of topics from the truth, in the best order."""
    orders = itertools.permutations(range(3))
    return min(np.abs(np.asarray(found)[list(o)] - TRUTH).sum(1).mean() for o in orders)


@pytest.mark.parametrize(
    "name",
    [
        "map",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("svi", "em", "cavi", "ssvi_a")),
    ],
)
def test_every_message_finds_the_topics(name):
    """From the better, by its own objective, of two random starts; at random they would be 1.2
    away."""
    model = vi.models.ctm(3, 30, eta=2.0 if name == "map" else 0.5, num_samples=16, estep=QUICK)
    batch = batch_of(ALL[::2])
    batch = batch._replace(num_groups=None) if name in ("em", "map", "cavi") else batch
    alg = getattr(vi, name)(
        model, step_size=vi.step_size.constant(1.0 if batch.num_groups is None else 0.5)
    )

    def run(key):
        step = lambda s, _: alg.step(jax.random.fold_in(key, s.step), s, batch)
        return jax.lax.scan(step, alg.init(key, batch), length=30)

    state, info = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), 2))
    best = np.argmax(info.elbo[:, -5:].mean(axis=1))
    q = jax.tree.map(lambda x: x[best], state.posterior["topics"])
    assert error_of(q.mode() if name in ("em", "map") else q.mean()) < 0.4
    assert np.all(np.isfinite(info.elbo))
    assert np.all(info.result == vi.Result.OK)


QUICK = vi.estep.proximal_gradient(
    vi.expectation.vector_monte_carlo(16, antithetic=True), max_iters=15
)


def test_fit_scores_and_transforms_documents():
    """Near the score of the true parameters, and the correlations have the right signs."""
    fit = vi.fit(vi.map(vi.models.ctm(3, 30, eta=2.0)), TRAIN, key=jax.random.key(2), num_steps=20)
    score = fit.score(TEST, key=jax.random.key(3))
    truth = gaussian_completion(TRUTH, np.zeros(3), np.linalg.inv(COV), TEST, jax.random.key(3))
    assert abs(score.mean - truth.mean) < 0.05
    assert score.mean > unigram_score(TRAIN, TEST).mean + 0.2
    shares = fit.transform(TEST, key=jax.random.key(4))
    assert shares.shape == (60, 3)
    np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-5)
    assert "retractions" in fit.trace
    spec = fit.alg.spec._replace(model=dataclasses.replace(fit.alg.spec.model, queries={}))
    with pytest.raises(
        ValueError,
        match=naming("transform:", "fit.locals"),
    ):
        fit._replace(alg=fit.alg._replace(spec=spec)).transform(TEST, key=jax.random.key(0))


def test_coordinate_ascent_with_fixed_draws_rises_up_to_their_noise():
    """The same key at every step; each step's E-step goes on from the last one's."""
    alg = vi.map(vi.models.ctm(2, V, eta=2.0))
    batch = batch_of(np.tile(COUNTS, (4, 1)))._replace(num_groups=None)
    step = jax.jit(lambda state: alg.step(jax.random.key(0), state, batch))
    state, elbo, halvings = alg.init(jax.random.key(1), batch), [], []
    for _ in range(25):
        state, info = step(state)
        elbo.append(float(info.elbo))
        halvings.append(int(info.retractions))
    assert min(np.diff(elbo)) > -0.5
    assert elbo[-1] > elbo[0] + 5
    assert min(halvings) >= 0
    assert state.local[0].mean.shape == (21, 2)


def test_bad_input_is_named():
    make = lambda **changed: vi.models.ctm(**{"num_topics": 3, "vocab_size": 30, **changed})
    other = vi.NormalWishart.from_parameters(jnp.zeros(2), 1.0, 4.0, jnp.eye(2))
    score = lambda **changed: gaussian_completion(
        **{
            "topics": TRUTH,
            "mean": np.zeros(3),
            "precision": np.eye(3),
            "documents": TEST,
            "key": None,
            **changed,
        }
    )
    cases = [
        (lambda: make(num_topics=1), "num_topics: expected an integer >= 2, got 1"),
        (lambda: make(vocab_size=0), "vocab_size: expected an integer >= 1"),
        (lambda: make(eta=0.0), "eta: expected a positive number"),
        (lambda: make(eta=[0.1, 0.2]), r"eta: expected a scalar, shape \(30,\) or \(3, 30\), got"),
        (lambda: make(num_samples=7), "num_samples: expected an even number"),
        (
            lambda: make(logits=vi.Gamma.from_shape_rate(1.0, 1.0)),
            "logits: expected a vijax.NormalWishart",
        ),
        (lambda: make(logits=other), "logits: expected dimension 3, got 2"),
        (
            lambda: vi.map(make(), estep=vi.estep.cvb0()),
            r"estep: expected one for .*proximal_gradient\(\)",
        ),
        (lambda: score(mean=np.zeros(2)), r"mean: expected shape \(3,\)"),
        (lambda: score(precision=-np.eye(3)), "precision: expected a positive definite matrix"),
        (
            lambda: score(documents=Corpus.from_counts(np.eye(30, dtype=int)[:2])),
            "documents: .*two tokens",
        ),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
