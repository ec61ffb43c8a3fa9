"""LDA: bound and messages against enumeration, numpy and scikit-learn; every pair of E-step and
message."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import digamma, gammaln, logsumexp

import vijax as vi
from tests.esteps import EACH, ESTEPS
from vijax.data.synthetic import lda_corpus
from vijax.families import DirichletStats
from vijax.families.discrete.by_word import TransposedDirichlet

K, V = 3, 7
ALPHA, ETA = 0.4, 0.3

MESSAGES = {"em": vi.em, "map": vi.map, "svi": vi.svi, "ssvi": vi.ssvi, "ssvi_a": vi.ssvi_a}


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def counts_matrix(rng, docs=9, words=V, mean=12):
    return rng.multinomial(mean, rng.dirichlet(np.full(words, 0.5)), size=docs)


def batch_of(counts, num_groups=None):
    """One bucket holding every row of a dense count matrix, with one padding row and two padding
    slots."""
    docs, words = counts.shape
    ids = np.pad(np.tile(np.arange(words), (docs, 1)), ((0, 1), (0, 2)))
    values = np.pad(counts, ((0, 1), (0, 2))).astype(np.float32)
    bucket = vi.Documents(
        jnp.asarray(ids, jnp.int32),
        jnp.asarray(values),
        jnp.asarray(np.arange(docs + 1) < docs, jnp.float32),
        int(counts.sum(1).max()),
    )
    return vi.Minibatch((bucket,), jnp.float32(num_groups or docs))


def topics(rng, k=K, v=V):
    return rng.dirichlet(np.ones(v), size=k)


def bound_and_message(beta, batch, estep, alpha=ALPHA):
    model = vi.models.lda(K, V, alpha, ETA, estep=estep)
    stats = {
        "topics": vi.Dirichlet.from_concentration(jnp.ones((K, V))).stats(
            jnp.asarray(beta, jnp.float32)
        )
    }

    def total(s):
        said = model.local_elbo(model.hyper, s, batch, jax.random.key(0), estep)
        return said.total, said

    (_, said), grad = jax.value_and_grad(total, has_aux=True)(stats)
    return said, np.asarray(grad["topics"].log)


def log_evidence(doc, beta, alpha=ALPHA):
    """log p(w | beta) by summing over every assignment of a tiny document's tokens."""
    words = np.repeat(np.arange(len(doc)), doc)
    terms = []
    for z in itertools.product(range(K), repeat=len(words)):
        n = np.bincount(z, minlength=K)
        log_z = (
            gammaln(K * alpha)
            - gammaln(K * alpha + len(words))
            + np.sum(gammaln(alpha + n) - gammaln(alpha))
        )
        terms.append(log_z + np.sum(np.log(beta[list(z), words])))
    return logsumexp(terms)


def test_every_reported_bound_is_below_the_evidence(rng):
    beta = topics(rng)
    counts = counts_matrix(rng, docs=4, mean=6)
    exact = np.array([log_evidence(doc, beta) for doc in counts])
    best = None
    for name, estep in ESTEPS.items():
        bound = np.asarray(bound_and_message(beta, batch_of(counts), estep)[0].per_group[0])[:4]
        assert np.all(bound <= exact + 1e-4), name
        best = bound if name == "mean_field" else best
    assert np.all(best >= exact - 1.5)


def test_mean_field_message_is_the_expected_counts_by_hand(rng):
    """grad of the bound in log beta = sum_d c phi, with gamma and phi from a plain float64 loop."""
    beta, counts = topics(rng), counts_matrix(rng)
    said, message = bound_and_message(
        beta, batch_of(counts), vi.estep.mean_field(max_iters=500, tol=1e-7)
    )
    expected = np.zeros((K, V))
    bounds = []
    for doc in counts:
        gamma = np.full(K, ALPHA + doc.sum() / K)
        for _ in range(500):
            phi = np.exp(digamma(gamma) - digamma(gamma.sum()))[:, None] * beta
            phi /= phi.sum(0)
            gamma = ALPHA + phi @ doc
        expected += phi * doc
        e = digamma(gamma) - digamma(gamma.sum())
        kl = (
            gammaln(gamma.sum())
            - gammaln(gamma).sum()
            - gammaln(K * ALPHA)
            + K * gammaln(ALPHA)
            + (gamma - ALPHA) @ e
        )
        bounds.append(np.sum(doc * logsumexp(e[:, None] + np.log(beta), axis=0)) - kl)
    np.testing.assert_allclose(message, expected, rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(said.per_group[0][:-1], bounds, rtol=1e-5)
    np.testing.assert_allclose(said.total, np.sum(bounds), rtol=1e-5)


@pytest.mark.parametrize("estep", EACH)
def test_messages_are_counts_of_every_token(rng, estep):
    counts = counts_matrix(rng)
    said, message = bound_and_message(topics(rng), batch_of(counts), ESTEPS[estep])
    np.testing.assert_allclose(message.sum(0), counts.sum(0), rtol=1e-4, atol=1e-3)
    assert np.all(message >= 0)
    assert float(said.num_groups) == len(counts)
    assert float(said.said["num_words"]) == counts.sum()
    assert said.per_group[0][-1] == 0.0


@pytest.mark.parametrize("estep", EACH)
@pytest.mark.parametrize("name", MESSAGES)
def test_every_pair_of_estep_and_message_improves_the_fit(rng, name, estep):
    """Two separated topics: every pair must find them from the best, by its own objective, of four
    random starts (from one start SVI with Gibbs does so only in two cases of three, over 192
    keys)."""
    truth = np.array([[0.3, 0.3, 0.3, 0.1, 0, 0, 0], [0, 0, 0, 0.1, 0.3, 0.3, 0.3]])
    theta = rng.dirichlet([0.1, 0.1], size=60)
    counts = np.array([rng.multinomial(40, t @ truth) for t in theta])
    model = vi.models.lda(2, V, alpha=0.1, eta=1.0 if name == "map" else 0.1)
    choices = {} if name in ("em", "map") else {"num_groups": 60}
    alg = MESSAGES[name](model, estep=ESTEPS[estep], **choices)
    batch = batch_of(counts)

    def run(key):
        step = lambda s, _: alg.step(jax.random.fold_in(key, s.step), s, batch)
        return jax.lax.scan(step, alg.init(key), length=60)

    state, info = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(1), 4))
    best = np.argmax(info.elbo[:, -10:].mean(axis=1))
    found = np.asarray(state.posterior["topics"].mean())[best]
    error = min(np.abs(found - truth).sum(1).mean(), np.abs(found[::-1] - truth).sum(1).mean())
    assert error < 0.15, error
    assert np.all(np.isfinite(info.elbo))
    assert np.all(info.result == vi.Result.OK)


def test_cavi_never_decreases_the_elbo(rng):
    counts = counts_matrix(rng, docs=30, mean=25)
    alg = vi.cavi(
        vi.models.lda(K, V, ALPHA, ETA, estep=vi.estep.mean_field(max_iters=500, tol=1e-6))
    )
    batch = batch_of(counts)
    _, info = jax.jit(
        lambda s: jax.lax.scan(lambda s, _: alg.step(jax.random.key(0), s, batch), s, length=40)
    )(alg.init(jax.random.key(2)))
    assert np.all(np.diff(info.elbo) > -1e-5 * np.abs(info.elbo[1:]))
    assert info.elbo[-1] > info.elbo[0] + 10


def test_one_svi_step_equals_scikit_learn(rng):
    """`partial_fit` of scikit-learn's online VB from the same topics, batch and step size."""
    decomposition = pytest.importorskip("sklearn.decomposition")
    counts = counts_matrix(rng, docs=20, mean=30)
    start = rng.gamma(100.0, 0.01, size=(K, V))
    peer = decomposition.LatentDirichletAllocation(
        K,
        doc_topic_prior=ALPHA,
        topic_word_prior=ETA,
        learning_decay=0.7,
        learning_offset=4.0,
        total_samples=500,
        max_doc_update_iter=500,
        mean_change_tol=1e-6,
        random_state=0,
    )
    peer._init_latent_vars(V, dtype=np.float64)
    peer.n_batch_iter_ = 1
    peer.components_ = start.copy()
    peer.exp_dirichlet_component_ = np.exp(digamma(start) - digamma(start.sum(1))[:, None])
    peer.partial_fit(counts)
    estep = vi.estep.mean_field(max_iters=500, tol=1e-6)
    alg = vi.svi(
        vi.models.lda(K, V, ALPHA, ETA),
        estep=estep,
        step_size=vi.step_size.robbins_monro(offset=5.0, kappa=0.7),
    )
    state = alg.init(jax.random.key(0))
    state = state._replace(
        posterior=vi.Product({"topics": vi.Dirichlet(jnp.asarray(start, jnp.float32))})
    )
    state, _ = jax.jit(alg.step)(jax.random.key(1), state, batch_of(counts, num_groups=500))
    np.testing.assert_allclose(state.posterior["topics"].concentration, peer.components_, rtol=2e-3)


def test_small_eta_makes_no_denormals_and_no_nan(rng):
    """E log beta reaches -1e3 at eta = 1e-3; likelihoods are floored at 1e-30, well above float32's
    denormals."""
    from vijax.models.documents.likelihoods import likelihood_table

    concentration = jnp.where(jnp.asarray(rng.random((K, V))) < 0.5, 1e-3, 50.0)
    table, log_scale = likelihood_table(
        vi.Dirichlet.from_concentration(concentration).expected_stats()
    )
    assert float(jnp.min(table)) >= 1e-30
    assert float(jnp.max(table)) == 1.0
    assert np.all(np.isfinite(log_scale))


def test_likelihoods_are_right_down_to_the_floor():
    """A topic 1e-6 or 1e-26 times as likely as a word's best keeps its likelihood."""
    from vijax.models.documents.likelihoods import likelihood_table

    log_topics = jnp.array([[-2.0], [-15.0], [-62.0], [-300.0]])
    for stats in (vi.Dirichlet.Stats(log_topics), TransposedDirichlet.Stats(log_topics.T)):
        table, log_scale = likelihood_table(stats)
        np.testing.assert_allclose(table[0], np.exp([0.0, -13.0, -60.0, -69.0]), rtol=1e-4)
        np.testing.assert_allclose(log_scale, [-2.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_topics": 0}, "num_topics: expected an integer >= 1, got 0"),
        ({"num_topics": 2.5}, r"num_topics: expected an integer >= 1, got 2\.5"),
        ({"vocab_size": 0}, "vocab_size: expected an integer >= 1, got 0"),
        ({"alpha": 0.0}, "alpha: expected a positive number"),
        ({"eta": -1.0}, "eta: expected a positive number"),
        ({"alpha": [0.1, 0.2]}, r"alpha: expected a scalar or shape \(3,\)"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        vi.models.lda(**{"num_topics": K, "vocab_size": V, **arguments})


# --- learnt hyperparameters -----------------------------------------------------------------------
@pytest.mark.parametrize("alpha", [0.4, [0.2, 0.5, 0.9]], ids=["scalar", "vector"])
def test_gradient_in_alpha_is_that_of_the_optimised_bound(rng, alpha):
    """Envelope theorem: the partial derivative at fixed locals is the total one, by central
    differences in float64."""
    with jax.enable_x64(True):
        beta, alpha = topics(rng), jnp.asarray(alpha, jnp.float64)
        estep = vi.estep.mean_field(max_iters=3000, tol=1e-13)
        model = vi.models.lda(K, V, alpha, ETA, estep=estep)
        batch = batch_of(counts_matrix(rng))
        stats = {"topics": DirichletStats(jnp.log(beta))}
        total = jax.jit(
            lambda a: model.local_elbo({"alpha": a}, stats, batch, jax.random.key(0), estep).total
        )
        slope = jax.grad(total)(alpha).ravel()
        steps = 1e-5 * jnp.eye(alpha.size).reshape(-1, *alpha.shape)
        differences = [(total(alpha + h) - total(alpha - h)) / 2e-5 for h in steps]
        np.testing.assert_allclose(slope, differences, rtol=1e-6)


@pytest.mark.parametrize("eta", [0.3, np.linspace(0.1, 0.7, V)], ids=["scalar", "vector"])
def test_gradient_in_eta_is_that_of_the_penalty(rng, eta):
    with jax.enable_x64(True):
        eta = jnp.asarray(eta, jnp.float64)
        model = vi.models.lda(K, V, ALPHA, eta)
        q = vi.Product({"topics": vi.Dirichlet(jnp.asarray(rng.gamma(2.0, size=(K, V))))})
        kl = jax.jit(lambda e: jnp.sum(q["topics"].kl(model.prior({"eta": e})["topics"])))
        steps = 1e-5 * jnp.eye(eta.size).reshape(-1, *eta.shape)
        differences = [(kl(eta + h) - kl(eta - h)) / 2e-5 for h in steps]
        np.testing.assert_allclose(jax.grad(kl)(eta).ravel(), differences, rtol=1e-6)


@pytest.mark.parametrize("alpha", [1.0, np.ones(K)], ids=["scalar", "vector"])
def test_alpha_and_eta_are_learnt_from_a_corpus_of_known_ones(alpha):
    """0.3 and 0.05, from starts of 1: alpha within 20 % (mean field's own optimum is 0.25), eta
    within 15 %."""
    corpus, _ = lda_corpus(500, K, 60, document_length=300.0, alpha=0.3, eta=0.05, seed=0)
    model = vi.models.lda(K, 60, alpha=alpha, eta=1.0, estep=vi.estep.mean_field(tol=1e-4))
    alg = vi.cavi(model, learn=vi.learn("alpha", "eta", optimizer=optax.adam(0.1)))
    fit = vi.fit(alg, corpus, key=jax.random.key(0), num_steps=100)
    np.testing.assert_allclose(fit.state.hyper["alpha"], 0.3, rtol=0.2)
    np.testing.assert_allclose(fit.state.hyper["eta"], 0.05, rtol=0.15)
