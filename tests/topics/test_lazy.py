"""Lazy steps: the dense algorithm's numbers, its law where it draws, and nothing of the size of the
vocabulary."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from tests.programs import compiled
from vijax.data.loader import as_loader
from vijax.families import Dirichlet
from vijax.families.discrete.by_word import DirichletByWord
from vijax.topics import all_words, by_words
from vijax.topics.own_words import OwnWordsLoader, of_all_words, renumbered, stored

KEY = jax.random.key(1)
V, K = 60, 3
COUNTS = np.random.default_rng(0).poisson(0.12, (40, V))
COUNTS[COUNTS.sum(1) == 0, 0] = 1
CORPUS = vi.data.Corpus.from_counts(COUNTS)
HALF = vi.step_size.constant(0.5)


def lda(**more):
    return vi.models.lda(K, V, **{"alpha": 0.1, "eta": 0.05, **more})


def run(alg, steps, **more):
    return vi.fit(alg, CORPUS, **{"key": KEY, "batch_size": 5, "num_steps": steps, **more})


MODELS = {
    "lda": lambda: lda(),
    "lda, eta by word": lambda: lda(eta=np.linspace(0.02, 0.3, V)),
    "lda, eta of each topic": lambda: lda(eta=np.linspace(0.02, 0.3, K * V).reshape(K, V)),
    "lda, cvb0": lambda: lda(estep=vi.estep.cvb0()),
    "simple mixture": lambda: vi.models.simple_mixture(K, V),
    "ctm": lambda: vi.models.ctm(K, V),
}


# --- the law --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", list(MODELS))
def test_svi_is_the_dense_one(name):
    """Steps of size one first, which forget the start."""
    steps = 8 if name == "ctm" else 32
    with jax.enable_x64(True):
        make = lambda: vi.svi(MODELS[name](), step_size=vi.step_size.robbins_monro(kappa=0.7))
        dense, lazy = (run(wrap(make()), steps) for wrap in (all_words, by_words))
        assert isinstance(lazy.state.posterior["topics"], DirichletByWord)
        for a, b in zip(
            jax.tree.leaves(dense.posterior), jax.tree.leaves(lazy.posterior), strict=True
        ):
            np.testing.assert_allclose(b, a, rtol=1e-7)
        np.testing.assert_allclose(lazy.trace["local_elbo"], dense.trace["local_elbo"], rtol=1e-8)


def test_svi_is_the_dense_one_for_a_thousand_steps():
    with jax.enable_x64(True):
        dense, lazy = (
            run(wrap(vi.svi(lda())), 1000).posterior["topics"] for wrap in (all_words, by_words)
        )
    np.testing.assert_allclose(lazy.concentration, dense.concentration, rtol=1e-6)
    assert isinstance(dense, Dirichlet)
    assert isinstance(lazy, Dirichlet)


def test_drawn_messages_have_the_dense_law():
    """SSVI-A from one state and batch: what 3,000 lazy steps say on average is what 3,000 dense
    ones do."""
    start = run(vi.svi(lda()), 30).state
    batch = next(iter(as_loader(CORPUS, lda(), 5, 0).batches(3, 4)))
    seen = renumbered(batch, V)
    keys = jax.random.split(KEY, 3000)

    def after(wrap, batch):
        alg = wrap(vi.ssvi_a(lda(estep=vi.estep.cvb0()), step_size=HALF))
        state = start._replace(penalty=jnp.zeros(()))
        if wrap is by_words:
            topics = DirichletByWord.from_law(start.posterior["topics"], jnp.asarray(0.05))
            state = state._replace(posterior=start.posterior.replace({"topics": topics}))
        one = lambda key: alg.step(key, state, batch)[0].posterior["topics"].concentration
        return np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=100))(keys), float)

    dense, lazy = after(all_words, batch), after(by_words, seen)
    for moment in (lambda x: x, np.log, lambda x: x**2):
        a, b = moment(dense), moment(lazy)
        error = np.sqrt((a.var(0) + b.var(0)) / len(a))
        moving = error > 1e-6
        assert moving.sum() > 50
        z = (a.mean(0) - b.mean(0))[moving] / error[moving]
        assert np.abs(z).max() < 5
        np.testing.assert_allclose(b.mean(0)[~moving], a.mean(0)[~moving], rtol=1e-4)


def test_the_reported_objective_is_the_dense_one_when_it_is_evaluated():
    with jax.enable_x64(True):
        dense = run(vi.svi(lda(), penalty_every=1), 12).trace
        lazy = run(by_words(vi.svi(lda(), penalty_every=4)), 12).trace
    np.testing.assert_allclose(lazy["elbo"][::4], dense["elbo"][::4], rtol=1e-9)
    np.testing.assert_array_equal(lazy["penalty"][1:4], lazy["penalty"][0])


@pytest.mark.parametrize(
    "base",
    [0.05, np.linspace(0.02, 0.3, 1003), np.linspace(0.02, 0.3, 3009).reshape(3, 1003)],
    ids=["one", "V", "K x V"],
)
@pytest.mark.parametrize("most", [1.0, 1e6], ids=["many words", "one word has nearly all"])
def test_the_divergence_by_words_is_the_dense_one(base, most, monkeypatch):
    """Also where the last block of words begins in the one before it."""
    monkeypatch.setattr("vijax.families.discrete.by_word.BLOCK", 100 * K)
    counts = np.random.default_rng(0).gamma(0.3, 3.0, (K, 1003)).astype(np.float32)
    counts[0, 1002] *= most
    dense = Dirichlet(jnp.asarray(counts + base, jnp.float32))
    q = DirichletByWord.from_law(dense, jnp.asarray(base, jnp.float32))
    prior = Dirichlet(jnp.broadcast_to(jnp.asarray(base, jnp.float32), (K, 1003)))
    np.testing.assert_allclose(q.divergence_from_base(), dense.kl(prior), rtol=3e-6)


def test_learnt_alpha_is_the_dense_one():
    with jax.enable_x64(True):
        dense, lazy = (
            run(wrap(vi.svi(lda(), learn=("alpha",))), 30).state.hyper
            for wrap in (all_words, by_words)
        )
    assert abs(float(dense["alpha"]) - 0.1) > 0.01
    np.testing.assert_allclose(lazy["alpha"], dense["alpha"], rtol=1e-9)
    assert lazy["eta"].shape == ()


# --- its cost -------------------------------------------------------------------------------------
def test_a_step_looks_at_few_words():
    """Of all V = 5,000 it makes nothing but the table with the batch's rows in it, unless the
    penalty is due."""
    model, size = vi.models.lda(2, 5000), 5000
    alg = by_words(vi.ssvi_a(model))
    batch = renumbered(next(iter(vi.data.minibatches(CORPUS, 5, 0))), size)
    state = jax.eval_shape(alg.init, KEY)
    jaxpr = jax.make_jaxpr(alg.step)(KEY, state, batch)
    found = [
        str(e.primitive)
        for e in jaxpr.eqns
        for x in e.outvars
        if size in getattr(x.aval, "shape", ())
    ]
    assert sorted(set(found)) == ["scatter", "while"]


def test_batches_share_a_program():
    alg = by_words(vi.svi(lda()))
    run(alg, 16, state=run(alg, 8).state)
    before = compiled()
    run(alg, 48, state=run(alg, 8).state)
    assert compiled() == before


# --- runs -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", [vi.svi, vi.ssvi_a])
def test_it_goes_on_bit_for_bit(row):
    alg = by_words(row(lda()))
    whole, half = run(alg, 20), run(alg, 7)
    on = run(alg, 20, state=half.state)
    for a, b in zip(jax.tree.leaves(on.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_a_fit_offers_is_there():
    fit = run(by_words(vi.warm(vi.svi(lda()))), 24)
    assert fit.posterior["topics"].concentration.shape == (K, V)
    assert len(fit.topics([f"w{i}" for i in range(V)], 3)[0]) == 3
    assert fit.transform(CORPUS, key=KEY).shape == (40, K)
    assert np.isfinite(fit.score(CORPUS, key=KEY).mean)
    several = run(by_words(vi.ssvi_a(lda())), 8, restarts=2)
    assert several.trace["restart_elbo"].shape == (8, 2)


SKIPPING = {
    "svi": lambda: by_words(vi.svi(lda(), step_size=HALF)),
    "ssvi_a": lambda: by_words(vi.ssvi_a(lda(eta=np.linspace(0.02, 0.3, V)), step_size=HALF)),
    "learnt": lambda: by_words(vi.svi(lda(), step_size=HALF, learn=("alpha",))),
    "active topics": lambda: by_words(vi.ssvi_a(lda(), step_size=HALF), active=2),
}


@pytest.mark.parametrize("name", SKIPPING)
def test_a_skipped_step_leaves_all_as_it_was(name):
    """The scale of words that the batch has not, too; and what follows it is as if it had never
    been."""
    alg = SKIPPING[name]()
    minibatches = iter(vi.data.minibatches(CORPUS, 5, 0))
    first, second, third = (renumbered(next(minibatches), V, size=V) for _ in range(3))
    state, step = jax.jit(alg.init)(KEY), jax.jit(alg.step)
    state, _ = step(KEY, state, first)
    after, info = step(KEY, state, second._replace(num_groups=np.float32(np.nan)))
    assert (int(info.result), int(after.num_skipped)) == (1, 1)
    exactly = lambda q: (q.entries, q.scale, q.base)  # totals are summed anew, to rounding
    own = lambda state: (
        exactly(state.posterior["topics"]),
        state.memory,
        state.hyper,
        state.opt_state,
    )
    for a, b in zip(jax.tree.leaves(own(state)), jax.tree.leaves(own(after)), strict=True):
        np.testing.assert_array_equal(b, a)
    np.testing.assert_allclose(
        after.posterior["topics"].totals, state.posterior["topics"].totals, rtol=1e-6
    )
    on, never = (step(KEY, s, third)[0].posterior["topics"] for s in (after, state))
    np.testing.assert_allclose(on.concentration, never.concentration, rtol=1e-5)


def test_a_batch_of_more_words_than_usual_is_padded_for_itself():
    """One document of many words among short ones."""
    counts = np.zeros((128, 400), int)
    counts[np.arange(128), np.arange(128)] = 3
    counts[7] = 1
    corpus = vi.data.Corpus.from_counts(counts)
    # Of this seed the long document is in no batch that is looked at.
    loader = OwnWordsLoader(as_loader(corpus, vi.models.lda(2, 400), 4, 1), 400)
    sizes = [len(batch.data.words) for batch in loader.batches(0, 64)]
    assert set(sizes) == {16, 400}
    with jax.enable_x64(True):
        model = vi.models.lda(2, 400)
        dense, lazy = (
            vi.fit(wrap(vi.svi(model)), corpus, batch_size=4, num_steps=32, key=KEY).posterior[
                "topics"
            ]
            for wrap in (all_words, by_words)
        )
    np.testing.assert_allclose(lazy.concentration, dense.concentration, rtol=1e-9)


# --- what is refused ------------------------------------------------------------------------------
def mixture():
    return vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: by_words(vi.svi(mixture())), "by_words: expected a model of documents"),
        (
            lambda: by_words(vi.ssvi(lda())),
            "mean_field.. or ssvi_a.. for 'topics'.*move the columns of all words",
        ),
        (
            lambda: by_words(vi.svi(lda(), estimand={"topics": vi.estimand.mode()})),
            "a distribution of 'topics'",
        ),
        (lambda: by_words(vi.em(lda())), "a distribution of 'topics'"),
        (
            lambda: by_words(vi.svi(lda(), update=vi.update.euclidean(), step_size=lambda t: 0.1)),
            "kl",
        ),
        (
            lambda: by_words(vi.svi(lda(), learn=("eta",))),
            "fixed concentrations.*divergence of all topics",
        ),
        (
            lambda: by_words(vi.averaged(vi.svi(lda()), 3)),
            "by_words: expected an algorithm without averaged",
        ),
        (lambda: by_words(vi.memoized(lda(), 4)), "no memory of messages"),
        (
            lambda: by_words(vi.over_axis(vi.svi(lda()), "data")),
            "by_words: expected an algorithm without over_axis",
        ),
        (
            lambda: by_words(vi.cavi(lda(), step_size=vi.step_size.backtracking())),
            "a schedule",
        ),
    ],
)
def test_what_cannot_be_lazy_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_batches_that_do_not_say_their_words_are_refused():
    alg = by_words(vi.svi(lda()))
    with pytest.raises(ValueError, match=naming("batch:", "vijax.topics.renumbered")):
        alg.step(KEY, alg.init(KEY), next(iter(vi.data.minibatches(CORPUS, 5, 0))))


def test_a_state_or_batch_of_the_other_kind_is_refused():
    """The ids of a renumbered batch would be read as those of other words."""
    dense, lazy = vi.svi(lda()), by_words(vi.svi(lda()))
    batch = next(iter(vi.data.minibatches(CORPUS, 5, 0)))
    own = renumbered(batch, V)
    begun = jax.jit(dense.init)(KEY)
    with pytest.raises(ValueError, match=naming("batch:", "OwnWords", "by_words")):
        dense.step(KEY, begun, own)
    with pytest.raises(ValueError, match=naming("state:", "vijax.topics.stored")):
        lazy.step(KEY, begun, own)
    with pytest.raises(
        ValueError,
        match=naming("state:", "DirichletByWord"),
    ):
        jax.eval_shape(lambda state: dense.step(KEY, state, batch), jax.eval_shape(lazy.init, KEY))

    @jax.jit
    def steps(begun):
        converted = begun._replace(posterior=stored(lazy.spec.model, begun.hyper, begun.posterior))
        after, plain = lazy.step(KEY, converted, own), dense.step(KEY, begun, of_all_words(own))
        return [state.posterior["topics"].concentration for state, _ in (after, plain)]

    np.testing.assert_allclose(*steps(begun), rtol=2e-5)


def test_the_penalty_is_of_the_last_pass():
    """By default: once a pass over the data, but not so often that it would cost more than the
    steps."""
    batch = renumbered(next(iter(vi.data.minibatches(CORPUS, 5, 0))), V)
    rows, words = sum(len(d.weights) for d in batch.data), len(batch.data.words)
    assert words == 32
    alg = by_words(vi.svi(lda()))

    @jax.jit
    def penalties(num_groups):
        body = lambda state, key: (
            (new := alg.step(key, state, batch._replace(num_groups=num_groups))[0]),
            new.penalty,
        )
        return jax.lax.scan(body, alg.init(KEY), jax.random.split(KEY, 100))[1]

    first_change = lambda x: 1 + int(np.flatnonzero(np.diff(x))[0])
    after = [first_change(penalties(np.float32(n * rows))) for n in (2, 30, 1000)]
    assert after == [8, 30, 38]  # 4 V / W, a pass, 20 V / W
