"""The simple mixture and both kinds of pLSA against the EM of Pei 2019, transcribed token by token
in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import vijax as vi
from vijax.data import Corpus
from vijax.models import emission, plsa_entries

RNG = np.random.default_rng(0)
D, V, K = 5, 6, 3
COUNTS = RNG.poisson(1.5, size=(D, V))
COUNTS[2] = 0  # a document without words
TOKENS = np.array([(d, w) for d in range(D) for w in range(V) for _ in range(COUNTS[d, w])])
ONE_D, ONE_W = np.eye(D)[TOKENS[:, 0]], np.eye(V)[TOKENS[:, 1]]


def steps_of(model, data, num_steps):
    """The state after each step of EM, as points."""
    with jax.enable_x64(True):
        model = model()
        alg = vi.em(model)
        state, points, bounds = jax.jit(lambda key: alg.init(key, data))(jax.random.key(0)), [], []
        modes = jax.jit(lambda posterior: {name: q.mode() for name, q in posterior.items()})
        step = jax.jit(alg.step)
        for _ in range(num_steps):
            points.append(jax.tree.map(np.asarray, modes(state.posterior)))
            state, info = step(jax.random.key(1), state, data)
            bounds.append(float(info.elbo))
        points.append(jax.tree.map(np.asarray, modes(state.posterior)))
        return points, bounds


def test_joint_form_is_plsa_1():
    points, bounds = steps_of(lambda: vi.models.plsa(K, D, V, "joint"), plsa_entries(COUNTS), 6)
    for old, new, bound in zip(points[:-1], points[1:], bounds, strict=True):
        r = old["weights"] * old["documents"][:, TOKENS[:, 0]].T * old["topics"][:, TOKENS[:, 1]].T
        np.testing.assert_allclose(bound, np.sum(np.log(r.sum(1))), rtol=1e-10)
        r /= r.sum(1, keepdims=True)
        np.testing.assert_allclose(new["weights"], r.mean(0), rtol=1e-8)
        np.testing.assert_allclose(
            new["documents"], (r.T @ ONE_D) / r.sum(0)[:, None], rtol=1e-8, atol=1e-14
        )
        np.testing.assert_allclose(
            new["topics"], (r.T @ ONE_W) / r.sum(0)[:, None], rtol=1e-8, atol=1e-14
        )
    assert np.all(np.diff(bounds) > 0)


def test_conditional_form_is_plsa_2():
    points, bounds = steps_of(lambda: vi.models.plsa(K, D, V), plsa_entries(COUNTS), 6)
    full = COUNTS.sum(1) > 0
    for old, new, bound in zip(points[:-1], points[1:], bounds, strict=True):
        r = old["proportions"][TOKENS[:, 0]] * old["topics"][:, TOKENS[:, 1]].T
        np.testing.assert_allclose(bound, np.sum(np.log(r.sum(1))), rtol=1e-10)
        r /= r.sum(1, keepdims=True)
        proportions = (ONE_D.T @ r)[full] / COUNTS.sum(1)[full, None]
        np.testing.assert_allclose(new["proportions"][full], proportions, rtol=1e-8)
        np.testing.assert_allclose(
            new["topics"], (r.T @ ONE_W) / r.sum(0)[:, None], rtol=1e-8, atol=1e-14
        )
    assert np.all(np.diff(bounds) > 0)


def simple_mixture_em(old, rows, bound, new):
    """Eq. 2.7 and 2.8, an observation x_i being a bag of words (one word of them: the equations as
    printed)."""
    log_r = np.log(old["weights"]) + special.xlogy(
        rows[:, None, :], np.maximum(old["topics"], 1e-300)
    ).sum(2)
    np.testing.assert_allclose(bound, np.sum(special.logsumexp(log_r, axis=1)), rtol=1e-10)
    r = special.softmax(log_r, axis=1)
    np.testing.assert_allclose(new["weights"], r.mean(0), rtol=1e-8)
    topics = r.T @ rows
    np.testing.assert_allclose(
        new["topics"], topics / topics.sum(1, keepdims=True), rtol=1e-8, atol=1e-14
    )


@pytest.mark.parametrize("rows", [ONE_W, COUNTS.astype(float)], ids=["words", "documents"])
def test_simple_mixture_is_eq_2_7_and_2_8(rows):
    """The simple mixture on sparse documents, and the mixture of categoricals on dense rows."""
    batch = vi.data.full_batch(Corpus.from_counts(rows.astype(int)))[0]
    points, bounds = steps_of(lambda: vi.models.simple_mixture(K, V), batch, 4)
    for old, new, bound in zip(points[:-1], points[1:], bounds, strict=True):
        simple_mixture_em(old, rows, bound, new)
    init = vi.init.random_responsibilities()
    points, bounds = steps_of(
        lambda: vi.models.mixture(emission.categorical(K, V), init=init), rows, 4
    )
    for old, new, bound in zip(points[:-1], points[1:], bounds, strict=True):
        old, new = ({"weights": p["weights"], "topics": p["components"]} for p in (old, new))
        simple_mixture_em(old, rows, bound, new)


def test_bayesian_simple_mixture_agrees_with_the_dense_mixture():
    """Coordinate ascent from the same posterior, by two independent pieces of code."""
    with jax.enable_x64(True):
        sparse = vi.cavi(vi.models.simple_mixture(K, V, alpha=0.7, eta=0.4))
        dense = vi.models.mixture(
            emission.categorical(K, V, eta=0.4), concentration=0.7, init=vi.init.prior()
        )
        dense = vi.cavi(dense)
        batch, rows = vi.data.full_batch(Corpus.from_counts(COUNTS))[0], COUNTS.astype(float)
        state = sparse.init(jax.random.key(0), batch)
        q = {"weights": state.posterior["weights"], "components": state.posterior["topics"]}
        other = dense.init(jax.random.key(0), rows)._replace(posterior=vi.Product(q))
        one, two = jax.jit(sparse.step), jax.jit(dense.step)
        for _ in range(5):
            state, info = one(jax.random.key(1), state, batch)
            other, expected = two(jax.random.key(1), other, rows)
            np.testing.assert_allclose(info.elbo, expected.elbo, rtol=1e-10)


def test_bayesian_plsa_2_is_latent_dirichlet_allocation():
    """Coordinate ascent on the conditional form and on `lda`, whose proportions are local, reach
    one optimum: the bound of `lda` at the topics of the one is the bound of the other."""
    with jax.enable_x64(True):
        fit = vi.fit(
            vi.cavi(vi.models.plsa(K, D, V, alpha=0.8, eta=0.5)),
            plsa_entries(COUNTS),
            num_steps=400,
            key=jax.random.key(3),
        )
        assert np.all(np.diff(fit.trace["elbo"]) >= -1e-9 * np.abs(fit.trace["elbo"][1:]))
        mean_field = vi.estep.mean_field(max_iters=5000, tol=1e-12)
        alg = vi.cavi(vi.models.lda(K, V, alpha=0.8, eta=0.5, estep=mean_field))
        batch = vi.data.full_batch(Corpus.from_counts(COUNTS))[0]
        state = alg.init(jax.random.key(0), batch)
        state = state._replace(posterior=vi.Product({"topics": fit.posterior["topics"]}))
        info = jax.jit(alg.step)(jax.random.key(0), state, batch)[1]
        np.testing.assert_allclose(info.elbo, fit.trace["elbo"][-1], rtol=1e-6)


def test_minibatches_of_entries():
    """Two blocks of words and documents, by stochastic steps."""
    counts = np.kron(np.eye(2, dtype=int), np.full((20, 8), 3))
    for form in ("joint", "conditional"):
        model = vi.models.plsa(2, 40, 16, form, alpha=0.5, eta=0.5)
        fit = vi.fit(
            vi.svi(model), plsa_entries(counts), num_epochs=40, batch_size=64, key=jax.random.key(0)
        )
        topics = np.asarray(fit.posterior["topics"].mean())
        mass = np.sort(topics[:, :8].sum(1))
        assert mass[0] < 0.05
        assert mass[1] > 0.95


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Corpus.from_counts(COUNTS), r"expected arrays, .* got a corpus\. .*plsa_entries"),
        (COUNTS, r"a triple \(documents, words, counts\), got ndarray"),
        (
            (np.array([0, 7]), np.array([0, 1]), np.ones(2)),
            r"documents in \[0, 5\), got \[7\] in entry \[1\]",
        ),
        ((np.array([0, 1]), np.array([0, 6]), np.ones(2)), r"words in \[0, 6\)"),
        (
            (np.array([0, 1]), np.array([0, 1]), np.array([1.0, np.nan])),
            r"positive counts, got \[nan\] in entry \[1\]",
        ),
    ],
)
def test_bad_entries(data, message):
    with pytest.raises(ValueError, match=message):
        vi.fit(vi.em(vi.models.plsa(K, D, V)), data, num_steps=1, key=jax.random.key(0))


def test_entries_of_any_matrix():
    corpus = Corpus.from_counts(COUNTS)
    for counts in (COUNTS, corpus, corpus.to_scipy()):
        d, w, c = plsa_entries(counts)
        again = np.zeros((D, V))
        again[d, w] = c
        np.testing.assert_array_equal(again, COUNTS)
        assert jnp.all(c > 0)


@pytest.mark.parametrize(
    "arguments", [{"num_topics": 0}, {"form": "third"}, {"alpha": 0.0}, {"eta": -1.0}]
)
def test_bad_arguments(arguments):
    given = {"num_topics": K, "num_documents": D, "vocab_size": V, **arguments}
    with pytest.raises(ValueError, match=f"{next(iter(arguments))}: expected"):
        vi.models.plsa(**given)
