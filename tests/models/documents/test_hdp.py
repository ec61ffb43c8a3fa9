"""Topics of a hierarchical Dirichlet process: bounds against enumeration and quadrature, in
float64."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as laws
from scipy.special import digamma, gammaln, logsumexp

import vijax as vi
from vijax.contract.batch import Documents, Minibatch
from vijax.families.discrete.stick_breaking import mean_weights
from vijax.families.scalar.beta import BetaStats
from vijax.inference.step import initial_state
from vijax.models.documents.hdp import _tangent_gap, hdp, tables
from vijax.xla.precision import enable_x64

ALPHA, GAMMA, ETA = 1.3, 0.8, 0.5
WORDS = [0, 1, 1, 2]
PHI = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])


def bound(
    sticks: BetaStats, log_phi: np.ndarray, counts: np.ndarray, alpha: float = ALPHA
) -> jax.Array:
    """The bound of documents at these statistics of globals."""
    num_topics, size = log_phi.shape
    words = jnp.broadcast_to(jnp.arange(size), counts.shape)
    docs = Documents(
        words, jnp.asarray(counts, float), jnp.ones(len(counts)), int(counts.sum(1).max())
    )
    model = hdp(num_topics, size, ALPHA, GAMMA, ETA)
    at = {
        "sticks": sticks,
        "topics": type(model.prior(model.hyper)["topics"]).Stats(jnp.asarray(log_phi)),
    }
    hyper = {**model.hyper, "alpha": alpha}
    estep = vi.estep.mean_field(500, 1e-10)
    return model.local_elbo(
        hyper, at, Minibatch((docs,), None, None), jax.random.key(0), estep
    ).total


def of_point(v: np.ndarray) -> BetaStats:
    return BetaStats(jnp.log(v), jnp.log1p(-v))


def weights_of(v: np.ndarray) -> np.ndarray:
    """beta_1, ..., beta_K, v along the last axis."""
    return v * np.concatenate([np.ones_like(v[..., :1]), np.cumprod(1 - v, -1)[..., :-1]], -1)


def log_partitions(v: np.ndarray, num_topics: int, words: list[int]) -> tuple[list, np.ndarray]:
    """Every z of the first K topics, and log p(z | v), shape (len(v), Z)."""
    x = ALPHA * weights_of(v)
    every = list(itertools.product(range(num_topics), repeat=len(words)))
    counts = np.array([np.bincount(z, minlength=num_topics) for z in every])
    log = np.sum(gammaln(x[:, None] + counts) - gammaln(x[:, None]), -1)
    return every, log + gammaln(ALPHA) - gammaln(ALPHA + len(words))


def grid(q: list, number: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Quadrature of two sticks, by their quantiles: values (number^2, 2), weights."""
    nodes, weights = np.polynomial.legendre.leggauss(number)
    u = (nodes + 1) / 2
    v = np.stack(np.meshgrid(q[0].ppf(u), q[1].ppf(u), indexing="ij"), -1).reshape(-1, 2)
    return v, np.outer(weights / 2, weights / 2).ravel()


def test_documents_of_one_word_are_exact() -> None:
    with enable_x64():
        v = np.array([0.3, 0.6])
        exact = np.log(weights_of(v) @ PHI).sum()
        np.testing.assert_allclose(bound(of_point(v), np.log(PHI), np.eye(3)), exact, rtol=1e-9)


@pytest.mark.parametrize("spread", [40.0, 3.0])
def test_a_document_is_bounded_below_at_mean_statistics(spread: float) -> None:
    """Against the mean over q(v), by quadrature, of the log of the sum over all z."""
    with enable_x64():
        a, b = spread * np.array([0.3, 0.6]), spread * np.array([0.7, 0.4])
        v, weights = grid([laws.beta(*ab) for ab in zip(a, b, strict=True)])
        every, log_z = log_partitions(v, 2, WORDS)
        log_words = np.array([np.log(PHI[z, WORDS]).sum() for z in map(list, every)])
        exact = weights @ logsumexp(log_z + log_words, axis=1)
        at = BetaStats(
            jnp.asarray(digamma(a) - digamma(a + b)), jnp.asarray(digamma(b) - digamma(a + b))
        )
        found = float(bound(at, np.log(PHI), np.bincount(WORDS, minlength=3)[None]))
        assert exact - 2.0 < found < exact


def test_the_bound_of_all_is_below_the_evidence() -> None:
    """All topics and sticks integrated out: Dirichlet-multinomials of every z, and quadrature over
    v."""
    documents = np.array([[3, 0, 0], [0, 1, 2]])
    words = [np.repeat(np.arange(3), row).tolist() for row in documents]
    with enable_x64():
        v, weights = grid([laws.beta(1, GAMMA)] * 2)
        (first, log_first), (second, log_second) = (log_partitions(v, 2, w) for w in words)
        log_z = logsumexp(
            np.log(weights)[:, None, None] + log_first[:, :, None] + log_second[:, None], axis=0
        )
        total = []
        for (i, z), (j, y) in itertools.product(enumerate(first), enumerate(second)):
            counts = np.zeros((2, 3))
            np.add.at(counts, (list(z) + list(y), words[0] + words[1]), 1)
            of_topics = (
                gammaln(3 * ETA)
                - gammaln(3 * ETA + counts.sum(1))
                + np.sum(gammaln(ETA + counts), 1)
            )
            total.append(log_z[i, j] + np.sum(of_topics) - 6 * gammaln(ETA))
        fit = vi.fit(
            vi.cavi(hdp(2, 3, ALPHA, GAMMA, ETA)),
            documents,
            num_steps=200,
            tol=1e-9,
            key=jax.random.key(1),
        )
        assert logsumexp(total) - 3.0 < fit.elbo < logsumexp(total)


def test_what_a_document_adds_is_a_bound_of_its_terms() -> None:
    """h is below the mean of f over whole numbers, convex in log x; its slope in log x is the
    number of tables."""
    x = np.exp(np.linspace(-12, 4, 200))[:, None]
    n = np.array([0.0, 0.2, 0.7, 1.0, 1.3, 2.5, 40.0])
    f = lambda n: gammaln(x + n) - gammaln(x)
    h = np.where(n < 1, n * np.log(x), f(n))
    assert np.all(h <= f(np.floor(n)) * (1 - n % 1) + f(np.floor(n) + 1) * (n % 1) + 1e-9)
    slope = np.diff(h, axis=0) / np.diff(np.log(x), axis=0)
    assert np.all(np.diff(slope, axis=0) >= -1e-6)
    with enable_x64():
        middle = np.sqrt(x[1:] * x[:-1])
        found = np.concatenate([tables(jnp.log(m), jnp.asarray(n[None])) for m in middle])
        np.testing.assert_allclose(found, slope, atol=2e-3, rtol=2e-3)


def test_the_gap_to_a_tangent_is_that_of_what_a_document_adds() -> None:
    """h - n dh/dn + n, by SciPy; in x64, for at small x its terms cancel."""
    log_x, n = np.linspace(-6, 4, 41)[:, None], np.array([0.2, 0.7, 1.0, 1.3, 2.5, 40.0, 900.0])
    x = np.exp(log_x)
    h = np.where(n < 1, n * log_x, gammaln(x + n) - gammaln(x))
    slope = np.where(n < 1, log_x, digamma(x + n))
    with enable_x64():
        found = np.concatenate(
            [_tangent_gap(jnp.asarray(at), jnp.asarray(n[None])) for at in log_x]
        )
        np.testing.assert_allclose(found, h - n * slope + n, rtol=1e-9, atol=1e-9)


def test_gradients_are_those_of_the_bound() -> None:
    """In alpha, in the statistics of sticks and of topics, at the locals that maximise it."""
    counts = np.array([[4, 1, 0], [0, 2, 9], [1, 0, 0]])
    with enable_x64():
        at = jnp.log(jnp.array([[0.3, 0.6], [0.7, 0.4]]))
        value = lambda alpha, at, log_phi: bound(BetaStats(*at), log_phi, counts, alpha)
        given = jnp.asarray(ALPHA), at, jnp.log(PHI)
        slopes = jax.grad(value, (0, 1, 2))(*given)
        for i, slope in enumerate(slopes):
            way = jnp.asarray(np.random.default_rng(i).normal(size=slope.shape))
            moved = [
                [x + sign * 1e-4 * way if i == j else x for j, x in enumerate(given)]
                for sign in (1, -1)
            ]
            difference = (value(*moved[0]) - value(*moved[1])) / 2e-4
            np.testing.assert_allclose(jnp.sum(slope * way), difference, rtol=1e-5)


def test_single_precision_is_right_for_long_documents() -> None:
    counts = np.array([[40_000, 20_000, 5], [30, 2_000, 90_000]])
    v = np.array([0.3, 0.6])
    with enable_x64():
        exact = float(bound(of_point(v), np.log(PHI), counts))
    np.testing.assert_allclose(
        float(bound(of_point(jnp.float32(v)), np.log(PHI).astype(np.float32), counts)),
        exact,
        rtol=1e-6,
    )


# --- fits -----------------------------------------------------------------------------------------
def bars(seed: int, num: int = 60) -> np.ndarray:
    """Documents of 60 words of six topics, the rows and columns of 3 x 3 words."""
    rng = np.random.default_rng(seed)
    shapes = np.concatenate(
        [np.kron(np.eye(3), np.ones((1, 3))), np.kron(np.ones((1, 3)), np.eye(3))]
    )
    topics = (shapes + 0.01) / np.sum(shapes + 0.01, 1, keepdims=True)
    return np.stack([rng.multinomial(60, p) for p in rng.dirichlet(np.full(6, 0.2), num) @ topics])


MODEL = hdp(8, 9, gamma=GAMMA, eta=ETA)


@pytest.fixture(scope="module")
def settled() -> vi.Fit:
    return vi.fit(vi.cavi(MODEL), bars(0), num_steps=200, tol=1e-7, key=jax.random.key(0))


def test_sticks_count_tables(settled: vi.Fit) -> None:
    """q(v) by SciPy from the words of topics in documents."""
    a, b = (np.asarray(x, np.float64) for x in jax.tree.leaves(settled.posterior["sticks"]))
    left = np.cumsum(digamma(b) - digamma(a + b))
    x = np.exp(digamma(a) - digamma(a + b) + np.append(0, left[:-1]))
    shares = np.asarray(settled.transform(bars(0), key=jax.random.key(0)), np.float64)
    n = np.maximum(shares * (60 + x.sum()) - x, 0)
    count = np.where(n < 1, n, x * (digamma(x + n) - digamma(x))).sum(0)
    np.testing.assert_allclose(a - 1, count, rtol=0.02, atol=0.05)
    after = np.append(np.cumsum(count[::-1])[::-1][1:], 0)
    np.testing.assert_allclose(b - GAMMA, after, rtol=0.02, atol=0.05)


def bound_at(model: vi.Model, q: vi.Product) -> float:
    """The bound of `cavi` at a posterior."""
    alg, hyper = vi.cavi(model), {name: jnp.asarray(x) for name, x in model.hyper.items()}
    return vi.fit(
        alg, bars(0), state=initial_state(alg.spec, hyper, q), num_steps=1, key=jax.random.key(0)
    ).elbo


def test_memoized_never_loses_and_comes_to_the_bound_of_cavi() -> None:
    fit = vi.fit(vi.memoized(MODEL, num_parts=3), bars(0), num_epochs=40, key=jax.random.key(0))
    elbo = np.asarray(fit.trace["elbo"])[6:]
    assert np.all(np.diff(elbo) >= -2e-6 * np.abs(elbo[1:]))
    np.testing.assert_allclose(bound_at(MODEL, fit.posterior), elbo[-1], rtol=1e-4)


def test_empty_slots_cost_nothing(settled: vi.Fit) -> None:
    """Bounds of different numbers of slots are bounds of one model: the same posterior in more of
    them."""
    model = hdp(11, 9, gamma=GAMMA, eta=ETA)
    prior, q = model.prior(model.hyper), settled.posterior
    put = lambda new, old: jnp.asarray(new).at[: len(old)].set(old)
    wider = vi.Product({name: jax.tree.map(put, prior[name], q[name]) for name in q})
    np.testing.assert_allclose(bound_at(model, wider), bound_at(MODEL, q), rtol=2e-5)


def test_weights_at_the_top_are_learnt(settled: vi.Fit) -> None:
    """Weights and the score of held-out words."""
    weights = np.asarray(mean_weights(settled.posterior["sticks"]))
    assert weights.shape == (9,)
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    assert np.sum(weights[:-1] > 0.05) >= 5
    score = settled.score(bars(1), key=jax.random.key(0)).mean
    assert np.log(1 / 9) + 0.2 < score


def test_the_score_is_document_completion_at_the_mean_weights(settled: vi.Fit) -> None:
    """With the concentration alpha times the weights, that of what no topic has left out."""
    alpha = (
        float(settled.state.hyper["alpha"])
        * np.asarray(mean_weights(settled.posterior["sticks"]))[:-1]
    )
    topics = np.asarray(settled.posterior["topics"].mean())
    key = jax.random.key(3)
    own = settled.score(bars(1), key=key)
    by_hand = vi.evaluate.document_completion(topics, alpha, bars(1), key)
    other = vi.evaluate.document_completion(topics, 2 * alpha, bars(1), key)
    assert own.mean == pytest.approx(by_hand.mean, abs=1e-5)
    assert abs(other.mean - by_hand.mean) > 1e-3
