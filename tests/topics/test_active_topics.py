"""Documents held to few topics: all of them are the dense step, and of some the law of draws is
that of all words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import vijax as vi
from tests.topics.test_lazy import COUNTS, HALF, KEY, K, V, lda, run
from vijax import tree
from vijax.families import Dirichlet
from vijax.families.discrete.by_pair import DirichletOfPairs, distinct
from vijax.families.discrete.by_word import DirichletByWord
from vijax.topics import active_topics
from vijax.topics.own_words import renumbered
from vijax.xla.chunks import split_chunks

BATCH = next(iter(vi.data.minibatches(vi.data.Corpus.from_counts(COUNTS), 5, 0)))
SEEN = renumbered(BATCH, V)


# --- which ids there are --------------------------------------------------------------------------
@pytest.mark.parametrize("universe", [1, 31, 32, 33, 1000])
def test_different_ids_are_found_without_sorting(universe):
    rng = np.random.default_rng(universe)
    given = [rng.integers(0, universe + 3, shape).astype(np.int32) for shape in ((40,), (3, 5))]
    real = np.unique(np.concatenate([x.ravel() for x in given]))
    real = real[real < universe]
    found = distinct([jnp.asarray(x) for x in given], universe, len(real) + 2)
    np.testing.assert_array_equal(found.ids, [*real, universe, universe])
    for ids, places in zip(given, found.places, strict=True):
        known = ids < universe
        np.testing.assert_array_equal(np.asarray(found.ids)[np.asarray(places)[known]], ids[known])
        assert np.all(np.asarray(places)[~known] == 0)


# --- pairs ----------------------------------------------------------------------------------------
CONCENTRATION = np.random.default_rng(0).gamma(0.7, 1.5, (3, 9)) + 0.05
IDS = jnp.array([0, 2, 4, 6, 7, 12, 12])  # of words 1, 3, 4, 8; the last are padding
WORDS = jnp.array([1, 3, 4, 8])


@pytest.mark.parametrize("base", [0.05, np.linspace(0.02, 0.05, 9)], ids=["scalar", "vector"])
def test_pairs_are_the_aggregated_law(base):
    c = jnp.asarray(CONCENTRATION, jnp.float32)
    own, prior = DirichletByWord.from_law(Dirichlet(c), jnp.asarray(base, jnp.float32)).pairs(
        WORDS, IDS
    )
    word, topic = np.asarray(WORDS)[np.array([0, 0, 1, 2, 2])], np.array([0, 2, 1, 0, 1])
    np.testing.assert_allclose(own.pairs[:5], c[topic, word], rtol=1e-5)
    np.testing.assert_array_equal(own.topic, [*topic, 3, 3])
    np.testing.assert_allclose(own.totals(), c.sum(1), rtol=1e-6)
    eta = np.broadcast_to(base, (9,))
    np.testing.assert_allclose(prior.pairs[:5], eta[word], rtol=1e-6)
    np.testing.assert_allclose(prior.totals(), np.full(3, eta.sum()), rtol=1e-6)


def test_draws_of_pairs_are_draws_of_all():
    c = jnp.asarray(CONCENTRATION, jnp.float32)
    q = DirichletByWord.from_law(Dirichlet(c), jnp.float32(0.05)).pairs(WORDS, IDS)[0]
    draws = jax.tree.map(np.asarray, jax.jit(lambda key: q.sample_stats(key, (4000,)))(KEY))
    word, topic = np.array([1, 1, 3, 4, 4]), np.array([0, 2, 1, 0, 1])
    share = np.exp(draws.pairs[:, :5])
    for i, (v, k) in enumerate(zip(word, topic, strict=True)):
        a, total = CONCENTRATION[k, v], CONCENTRATION[k].sum()
        assert stats.kstest(share[:, i], stats.beta(a, total - a).cdf).pvalue > 1e-3
    # Shares of one topic sum to one with its rest; those of two topics do not know of each other.
    sums = np.exp(draws.remainder)
    np.add.at(sums.T, topic, share.T)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-5)
    assert abs(np.corrcoef(share[:, 0], share[:, 1])[0, 1]) < 5 / np.sqrt(4000)
    both = CONCENTRATION[0, 1], CONCENTRATION[0, 4], CONCENTRATION[0].sum()
    expected = -np.sqrt(both[0] * both[1] / ((both[2] - both[0]) * (both[2] - both[1])))
    assert abs(np.corrcoef(share[:, 0], share[:, 3])[0, 1] - expected) < 5 / np.sqrt(4000)


def test_what_pairs_say_of_themselves():
    q = DirichletOfPairs(
        jnp.array([1.0, 2.0, 4.0, 1.0]), jnp.array([3.0, 4.0]), jnp.array([0, 0, 1, 2])
    )
    plain = [Dirichlet(jnp.array([1.0, 2.0, 3.0])), Dirichlet(jnp.array([4.0, 4.0]))]
    expected = np.concatenate([p.expected_stats().log[:-1] for p in plain])
    np.testing.assert_allclose(q.expected_stats().pairs[:3], expected, rtol=1e-6)
    np.testing.assert_allclose(
        q.expected_stats().remainder, [p.expected_stats().log[-1] for p in plain], rtol=1e-6
    )
    np.testing.assert_allclose(
        q.log_normalizer(), sum(p.log_normalizer() for p in plain), rtol=1e-6
    )
    other = q.with_naturals((q.pairs * jnp.array([2.0, 2.0, 2.0, 1.0]), q.remainder))
    kl = plain[0].kl(Dirichlet(jnp.array([2.0, 4.0, 3.0]))) + plain[1].kl(
        Dirichlet(jnp.array([8.0, 4.0]))
    )
    np.testing.assert_allclose(q.kl(other), kl, rtol=1e-5)
    with pytest.raises(NotImplementedError, match="over all words"):
        q.mode()


# --- the step -------------------------------------------------------------------------------------
def as_seen(alg, state):
    """The state as the batch sees it, and what is then to be read."""
    (wrapper,) = alg.wrappers
    return wrapper.view(alg.spec.model, state, jax.tree.map(jnp.asarray, SEEN.data))


APART = (
    0.05
    + np.random.default_rng(0).gamma(2.0, 2.0, (K, V))
    * np.eye(K)[[0] * 7 + [1, 1, 2]][np.arange(V) % 10].T
)
"""Of ten words seven are of the first topic, two of the second and one of the third."""


def log_dirichlet(concentration):
    """The constant of its log density."""
    return special.gammaln(concentration.sum()) - special.gammaln(concentration).sum()


ESTEPS = {"mean field": vi.estep.mean_field, "cvb0": vi.estep.cvb0}


ETAS = {
    "scalar": 0.05,
    "vector": np.linspace(0.02, 0.3, V),
    "matrix": np.linspace(0.02, 0.3, K * V).reshape(K, V),
}


@pytest.mark.parametrize("eta", list(ETAS.values()), ids=list(ETAS))
@pytest.mark.parametrize("name", list(ESTEPS))
def test_all_topics_are_the_dense_step(name, eta):
    with jax.enable_x64(True):
        model = lda(estep=ESTEPS[name](), eta=eta)
        schedule = vi.step_size.robbins_monro(kappa=0.7)
        dense = run(vi.svi(model, step_size=schedule), 30)
        held = run(vi.topics.by_words(vi.svi(model, step_size=schedule), active=K), 30)
    np.testing.assert_allclose(
        held.posterior["topics"].concentration, dense.posterior["topics"].concentration, rtol=1e-8
    )
    np.testing.assert_allclose(held.trace["local_elbo"], dense.trace["local_elbo"], rtol=1e-8)
    np.testing.assert_allclose(held.trace["left_out"], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    "choice", [{"active": 2}, {"active": K, "left_out": 0.25}], ids=["two", "few"]
)
@pytest.mark.parametrize("name", list(ESTEPS))
def test_the_bound_is_that_of_locals_without_the_other_topics(monkeypatch, name, choice):
    """By the definition: all K topics, gamma = alpha and no word in those left out. In chunks that
    do not come out even."""
    monkeypatch.setattr(active_topics, "split_chunks", lambda x, size: split_chunks(x, 2))
    with jax.enable_x64(True):
        alg = vi.topics.by_words(vi.svi(lda(estep=ESTEPS[name]())), **choice)
        state = jax.jit(alg.init)(KEY)
        topics = Dirichlet(jnp.asarray(APART))
        own = {"topics": DirichletByWord.from_law(topics, state.hyper["eta"])}
        state = state._replace(posterior=state.posterior.replace(own))
        seen = jax.jit(lambda state: as_seen(alg, state))(state)
        log_beta = np.asarray(topics.expected_stats().log)
        point = {"topics": seen.state.posterior["topics"].expected_stats()}
        bound = jax.jit(
            lambda hyper, at, batch: alg.spec.model.local_elbo(
                hyper, at, batch, KEY, alg.spec.estep
            )
        )
        said = bound(seen.state.hyper, point, SEEN._replace(data=seen.data))
        if "left_out" in choice:
            both = zip(BATCH.data, seen.data, strict=True)
            every = np.concatenate(
                [np.asarray(active.used)[docs.weights > 0] for docs, active in both]
            )
            assert set(every.tolist()) == {1, 2}
            np.testing.assert_allclose(said.said["active_topics"], every.mean())
        total = sum(
            docs.weights @ bounds for docs, bounds in zip(BATCH.data, said.per_group, strict=True)
        )
        np.testing.assert_allclose(said.total, total, rtol=1e-12)
        for docs, active, gammas, bounds in zip(
            BATCH.data, seen.data, said.local, said.per_group, strict=True
        ):
            for d in np.flatnonzero(docs.weights):
                gamma, used = np.full(K, 0.1), int(active.used[d])
                topics = np.asarray(active.topics[d])[:used]
                gamma[topics] = gammas[d][:used]
                np.testing.assert_allclose(gammas[d][used:], 0.1)
                words = docs.words[d][docs.counts[d] > 0]
                log_theta = special.digamma(gamma) - special.digamma(gamma.sum())
                kl = (
                    log_dirichlet(gamma)
                    - log_dirichlet(np.full(K, 0.1))
                    + (gamma - 0.1) @ log_theta
                )
                held = np.where(np.isin(np.arange(K), topics), log_theta, -np.inf)
                mixed = special.logsumexp(held[:, None] + log_beta[:, words], axis=0)
                expected = docs.counts[d][docs.counts[d] > 0] @ mixed - kl
                np.testing.assert_allclose(bounds[d], expected, rtol=1e-9)


def test_drawn_messages_have_the_law_of_draws_of_all_words():
    """SSVI-A at given topics: pairs alone are drawn, or all K x V shares, of which the pairs are
    then read."""
    alg = vi.topics.by_words(vi.ssvi_a(lda(estep=vi.estep.cvb0())), active=2)
    start = run(vi.topics.by_words(vi.svi(lda())), 30).state
    seen = jax.jit(lambda state: as_seen(alg, state))(start)
    pairs = seen.state.posterior["topics"]
    ids, words = np.asarray(seen.pairs), np.asarray(SEEN.data.words)
    real = ids < len(words) * K
    word, topic = words[np.where(real, ids // K, 0)], np.where(real, ids % K, 0)
    whole = start.posterior["topics"].dense()

    batch, estep = SEEN._replace(data=seen.data), alg.spec.estep

    def message(log_pairs, key):
        at = lambda x: active_topics.bound(K, seen.state.hyper, x, batch, key, estep).total
        return jax.grad(at)(log_pairs)

    def mean_and_error(draw):
        one = lambda key: message(draw(key), key)
        keys = jax.random.split(KEY, 2000)
        found = np.asarray(
            jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=100))(keys), float
        )[:, real]
        return found.mean(0), found.std(0) / np.sqrt(len(found))

    few, error = mean_and_error(lambda key: pairs.sample_stats(jax.random.fold_in(key, 1)).pairs)
    all_, error_of_all = mean_and_error(lambda key: whole.sample_stats(key).log[topic, word])
    spread = np.hypot(error, error_of_all)
    moving = spread > 1e-6
    assert moving.sum() > 20
    assert np.abs((few - all_)[moving] / spread[moving]).max() < 5
    np.testing.assert_allclose(few[~moving], all_[~moving], atol=1e-5)


def test_topics_are_those_that_a_first_round_likes():
    totals = jnp.array([2.0, 1.0, 5.0, 3.0])
    table = jnp.asarray(np.eye(4)[:3] + 1e-3) * totals  # word i belongs to topic i
    docs = vi.Documents(
        jnp.array([[0, 2], [1, 0]]), jnp.array([[3.0, 1.0], [2.0, 0.0]]), jnp.ones(2), 4
    )
    topics, used, left = active_topics.choose({"alpha": 0.1}, table, totals, docs, 2)
    assert set(np.asarray(topics[0]).tolist()) == {0, 2}
    assert int(topics[1, 0]) == 1
    assert used.tolist() == [2, 2]
    assert float(jnp.max(left)) < 0.01
    left = active_topics.choose({"alpha": 0.1}, table, totals, docs, 1).left_out
    np.testing.assert_allclose(left, [0.25, 0.0], atol=0.02)
    for share, wanted in ((0.02, [2, 1]), (0.3, [1, 1]), (1e-9, [4, 4])):
        found = active_topics.choose({"alpha": 0.1}, table, totals, docs, 4, share)
        assert found.used.tolist() == wanted
        assert np.all(np.asarray(found.left_out) <= share + 1e-6)


@pytest.mark.parametrize("active", [None, 2])
def test_the_penalty_adds_a_quarter_to_the_numbers_of_a_step(active):
    """Of all K x V numbers, at steps apart by four times their ratio to those that a step sees."""
    alg = vi.topics.by_words(vi.ssvi_a(lda()), active=active)
    state = jax.jit(alg.init)(KEY)
    seen = K * len(SEEN.data.words)
    if active is not None:
        seen = min(seen, sum(docs.words.size for docs in SEEN.data) * active)
    steps = max(-(-4 * K * V // seen), 40 // 5)  # or a pass over the 40 documents
    jitted, penalties = jax.jit(alg.step), []
    for t in range(steps + 2):
        state, info = jitted(jax.random.fold_in(KEY, t), state, SEEN)
        penalties.append(float(info.penalty))
    changed = np.flatnonzero(np.diff(penalties)) + 1
    np.testing.assert_array_equal(changed, [steps])


def test_it_goes_on_bit_for_bit():
    alg = vi.topics.by_words(vi.ssvi_a(lda()), active=2, left_out=0.1)
    whole, half = run(alg, 12), run(alg, 5)
    on = run(alg, 12, state=half.state)
    for a, b in zip(jax.tree.leaves(on.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(a, b)
    assert 0 < np.mean(whole.trace["left_out"]) < 0.3
    assert 1 < np.mean(whole.trace["active_topics"]) < 2
    assert whole.transform(vi.data.Corpus.from_counts(COUNTS), key=KEY).shape == (40, K)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: vi.topics.by_words(vi.svi(lda()), active=0), "active: expected an integer >= 1"),
        (
            lambda: vi.topics.by_words(vi.svi(lda(alpha=[0.1, 0.2, 0.3])), active=2),
            "one alpha for all topics",
        ),
        (
            lambda: vi.topics.by_words(vi.warm(vi.svi(lda())), active=2),
            "an algorithm without warm, got Warm",
        ),
        (
            lambda: vi.topics.by_words(vi.svi(lda()), active=2, left_out=1.0),
            "left_out: expected a share of words",
        ),
        (
            lambda: vi.topics.by_words(vi.svi(lda()), left_out=0.1),
            "left_out: expected 0 without active",
        ),
        (
            lambda: vi.topics.by_words(vi.svi(vi.models.ctm(3, V)), active=2),
            "expected vijax.models.lda",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_half_steps_are_those_of_the_family():
    """A step of the store at some pairs, against one of all concentrations."""
    c = jnp.asarray(CONCENTRATION, jnp.float32)
    q = DirichletByWord.from_law(Dirichlet(c), jnp.float32(0.05))
    own, prior = q.pairs(WORDS, IDS)
    message = jnp.array([1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 0.0])
    size = HALF(0)
    target = prior.with_naturals((prior.pairs + message, prior.remainder))
    to = tree.mix(size, own, target)
    moved = q.with_pairs(WORDS, IDS, to, 1 - size, jnp.array(True))
    dense = (1 - size) * CONCENTRATION + size * 0.05
    dense[np.array([0, 2, 1, 0, 1]), np.array([1, 1, 3, 4, 4])] += size * np.asarray(message[:5])
    np.testing.assert_allclose(moved.concentration, dense, rtol=1e-5)
    np.testing.assert_allclose(moved.totals, dense.sum(1), rtol=1e-6)
