"""Hidden Markov models against enumeration of paths, hmmlearn-style Baum-Welch by hand, and each
other's paddings."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import vijax as vi
from vijax.models import emission

RNG = np.random.default_rng(0)
WORDS = np.eye(3)[[0, 0, 1, 2, 2]]


def model(stickiness=0.0, init=None):
    return vi.models.hmm(emission.categorical(2, 3, eta=0.9), 1.1, 0.8, stickiness, init)


def log_evidence(y):
    """log p(y) by enumeration of paths: Polya urns for first state, transitions and words."""
    total, concentration = [], np.full((2, 2), 0.8)
    for z in itertools.product([0, 1], repeat=len(y)):
        pairs, words = np.zeros((2, 2)), np.zeros((2, 3))
        for a, b in itertools.pairwise(z):
            pairs[a, b] += 1
        for state, word in zip(z, y, strict=True):
            words[state] += word
        first = np.log(0.5)
        urn = lambda prior, counts: (
            special.gammaln(prior.sum(-1)) - special.gammaln((prior + counts).sum(-1))
            + (special.gammaln(prior + counts) - special.gammaln(prior)).sum(-1)
        ).sum()  # fmt: skip
        total.append(first + urn(concentration, pairs) + urn(np.full((2, 3), 0.9), words))
    return special.logsumexp(total)


def test_elbo_is_below_the_evidence_and_never_falls():
    with jax.enable_x64(True):
        fit = vi.fit(
            vi.cavi(model()),
            (WORDS[None], np.ones((1, 5), bool)),
            num_steps=80,
            key=jax.random.key(0),
        )
    evidence = log_evidence(WORDS)
    assert evidence - 2.0 < fit.trace["elbo"][-1] < evidence
    assert np.all(np.diff(fit.trace["elbo"]) >= -1e-9 * np.abs(fit.trace["elbo"][1:]))


def baum_welch(y, initial, transition, emit, steps):
    """By enumeration of all paths: exact expected counts, no recursion to share a bug with. NaN is
    a step not seen."""
    seen = ~np.isnan(y).any(axis=1)
    y = np.where(seen[:, None], y, 0.0)
    paths = np.array(list(itertools.product([0, 1], repeat=len(y))))
    for _ in range(steps):
        weights = np.log(initial[paths[:, 0]]) + np.log(
            transition[paths[:, :-1], paths[:, 1:]]
        ).sum(1)
        likelihoods = (emit[paths] @ y.T)[:, np.arange(len(y)), np.arange(len(y))]
        weights += np.log(np.where(seen, likelihoods, 1.0)).sum(1)
        value = special.logsumexp(weights)
        post = np.exp(weights - value)
        initial = np.array([post[paths[:, 0] == k].sum() for k in (0, 1)])
        transition = np.array(
            [
                [post @ ((paths[:, :-1] == a) & (paths[:, 1:] == b)).sum(1) for b in (0, 1)]
                for a in (0, 1)
            ]
        )
        transition /= transition.sum(1, keepdims=True)
        emit = np.array([(post @ (paths == k)) @ y for k in (0, 1)])
        emit /= emit.sum(1, keepdims=True)
    return initial, transition, emit, value


UNSEEN = np.where(np.arange(5)[:, None] == 2, np.nan, WORDS)


@pytest.mark.parametrize("y", [WORDS, UNSEEN], ids=["seen", "a step not seen"])
def test_em_is_baum_welch(y):
    start = (
        np.array([0.6, 0.4]),
        np.array([[0.7, 0.3], [0.4, 0.6]]),
        np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]),
    )
    expected = baum_welch(y, *start, steps=3)
    with jax.enable_x64(True):
        names = ("initial", "transition", "components")
        q = vi.Product(
            {n: vi.Dirichlet.from_concentration(1 + p) for n, p in zip(names, start, strict=True)}
        )
        alg, data = vi.em(model(init=lambda key, context: q)), (y[None], np.ones((1, 5), bool))
        fit = vi.fit(alg, data, num_steps=3, key=jax.random.key(0))
        for name, value in zip(names, expected[:3], strict=True):
            np.testing.assert_allclose(fit.posterior[name].mode(), value, atol=1e-9)
        np.testing.assert_allclose(fit.trace["elbo"][-1], expected[3], rtol=1e-9)


@pytest.mark.parametrize(
    "estep", [vi.estep.mean_field(), vi.estep.gibbs(num_sweeps=2)], ids=["exact", "gibbs"]
)
def test_padding_and_empty_sequences_change_nothing(estep):
    """The same sequences with more padding, and with an empty one and one of a single step."""
    y = RNG.poisson(3.0, (4, 6, 2)).astype(np.float32)
    mask = np.arange(6) < np.array([6, 4, 1, 0])[:, None]
    m = vi.models.hmm(emission.poisson(3, 2))
    q = m.init({}, jax.random.key(0), m.prior({}), vi.Minibatch((y, mask), None))
    bound = jax.jit(
        lambda s, data: m.local_elbo({}, s, vi.Minibatch(data, None), jax.random.key(5), estep)
    )
    wide = (
        np.pad(y, ((0, 0), (0, 3), (0, 0)), constant_values=7.0),
        np.pad(mask, ((0, 0), (0, 3))),
    )
    a, b = (bound(q.expected_stats(), data).per_group for data in ((y, mask), wide))
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert a[3] == b[3] == 0.0
    message = jax.grad(lambda s: bound(s, wide).total)(q.expected_stats())
    np.testing.assert_allclose(jnp.sum(message["initial"].log), 3.0, rtol=1e-5)
    np.testing.assert_allclose(jnp.sum(message["transition"].log), 5.0 + 3.0, rtol=1e-5)
    np.testing.assert_allclose(-jnp.sum(message["components"].value), 2 * 11.0, rtol=1e-5)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("map", "svi", "ssvi")]


@pytest.mark.parametrize("algorithm", ["cavi", "ssvi_a", *SLOW])
def test_states_are_recovered(algorithm):
    """Sticky chains with separated Gaussians: transition, means, Viterbi and smoothing near the
    truth."""
    rng = np.random.default_rng(1)
    truth = np.zeros((30, 40), int)
    for t in range(1, 40):
        truth[:, t] = np.where(rng.uniform(size=30) < 0.9, truth[:, t - 1], 1 - truth[:, t - 1])
    y = rng.normal(np.where(truth[..., None] == 1, 3.0, -3.0), 1.0, (30, 40, 2)).astype(np.float32)
    data = vi.models.pad([row[: 40 - n] for n, row in enumerate(y)])
    alg = getattr(vi, algorithm)(vi.models.hmm(emission.full_gaussian(2, 2)))
    whole = (
        {"num_steps": 15} if algorithm in ("cavi", "map") else {"num_epochs": 40, "batch_size": 10}
    )
    fit = vi.fit(alg, data, key=jax.random.key(0), **whole)
    means = fit.posterior["components"].mean().mean[:, 0]
    np.testing.assert_allclose(np.sort(means), [-3.0, 3.0], atol=0.3)
    np.testing.assert_allclose(np.diag(fit.posterior["transition"].mean()), 0.9, atol=0.05)
    z = fit.locals(data, key=jax.random.key(1))["z"]
    flip = int(means[0] > means[1])
    for states in (z.mode(), jnp.argmax(z.probs, -1)):
        assert np.mean((np.asarray(states) ^ flip)[data[1]] == truth[data[1]]) > 0.99
    score = fit.score(data, key=jax.random.key(0))
    assert np.isfinite(score.mean)
    assert f"nats per step ({len(data[1])} sequences, {int(np.sum(data[1]))} steps)" in str(score)


def test_score_of_known_parameters_is_the_evidence():
    """Concentrated posterior: the score per step is log p(y) / T by enumeration."""
    start = (
        np.array([0.6, 0.4]),
        np.array([[0.7, 0.3], [0.4, 0.6]]),
        np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]),
    )
    names = ("initial", "transition", "components")
    q = vi.Product(
        {n: vi.Dirichlet.from_concentration(1e7 * p) for n, p in zip(names, start, strict=True)}
    )
    from vijax.models.series.hmm import score

    known = lambda words: baum_welch(words, *start, steps=1)[3]
    found = score(emission.categorical(2, 3), q, (WORDS[None], np.ones((1, 5), bool)))
    np.testing.assert_allclose(found.mean, known(WORDS) / 5, rtol=1e-5)
    beside = score(
        emission.categorical(2, 3), q, vi.models.pad([WORDS, WORDS[:3]])
    )  # padding is no step
    np.testing.assert_allclose(beside.mean, (known(WORDS) + known(WORDS[:3])) / 8, rtol=1e-5)
    assert beside.num_tokens.tolist() == [5, 3]


def peers(kind, rng):
    """A model of hmmlearn's with fixed parameters, our emission, those parameters, and
    observations."""
    hmmlearn = pytest.importorskip("hmmlearn.hmm", reason="hmmlearn is not installed")
    if kind == "categorical":
        peer, probs = hmmlearn.CategoricalHMM(3, n_features=4), rng.dirichlet(np.ones(4), 3)
        peer.emissionprob_ = probs
        words = rng.integers(4, size=(20, 1))
        return peer, words, emission.categorical(3, 4), probs, np.eye(4)[words[:, 0]]
    if kind == "poisson":
        peer, rates = hmmlearn.PoissonHMM(3), rng.gamma(2.0, 2.0, (3, 2))
        peer.lambdas_ = rates
        y = rng.poisson(4.0, (20, 2))
        return peer, y, emission.poisson(3, 2), rates, y
    y, means, scale = rng.normal(size=(20, 2)), rng.normal(size=(3, 2)), rng.gamma(2.0, 1.0, (3, 2))
    if kind == "diagonal":
        peer = hmmlearn.GaussianHMM(3, "diag")
        peer.means_, peer.covars_ = means, 1 / scale
        return peer, y, emission.diagonal_gaussian(3, 2), vi.families.MeanPrecision(means, scale), y
    root = rng.normal(size=(3, 2, 4))
    precision = root @ np.swapaxes(root, 1, 2)
    peer = hmmlearn.GaussianHMM(3, "full")
    peer.means_, peer.covars_ = means, np.linalg.inv(precision)
    return peer, y, emission.full_gaussian(3, 2), vi.families.MeanPrecision(means, precision), y


@pytest.mark.parametrize("kind", ["categorical", "poisson", "diagonal", "full"])
def test_likelihoods_agree_with_hmmlearn(kind):
    """At equal parameters, sequences of 12, 7 and 1 steps."""
    rng = np.random.default_rng(5)
    peer, observed, emits, parameters, y = peers(kind, rng)
    peer.startprob_, peer.transmat_ = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3)
    ends = np.cumsum([12, 7, 1])
    with jax.enable_x64(True):
        data = vi.models.pad([np.asarray(part, np.float64) for part in np.split(y, ends[:-1])])
        m = vi.models.hmm(emits)
        point = {"initial": peer.startprob_, "transition": peer.transmat_, "components": parameters}
        bound = jax.jit(
            lambda s: (
                m.local_elbo({}, s, vi.Minibatch(data, None), jax.random.key(0), m.estep).per_group
            )
        )
        mine = np.asarray(bound(m.prior({}).stats(point)))
    rows = [slice(end - size, end) for end, size in zip(ends, (12, 7, 1), strict=True)]
    np.testing.assert_allclose(mine, [peer.score(observed[r]) for r in rows], rtol=1e-9)


@pytest.mark.parametrize("algorithm", ["cavi", "map"])
def test_degenerate_data(algorithm):
    """In float32: all points the same (constant columns, duplicates, states that stay empty), fewer
    points than states, and sequences of one step, beside empty ones."""
    alg = getattr(vi, algorithm)(vi.models.hmm(emission.diagonal_gaussian(4, 2, shape=2.0)))
    whole = np.ones((3, 5), bool)
    two = np.arange(5) < np.array([2, 0, 0])[:, None]
    singles = np.arange(5) < np.array([1, 1, 0])[:, None]
    same, drawn = np.full((3, 5, 2), 3.0, np.float32), RNG.normal(size=(3, 5, 2)).astype(np.float32)
    for y, mask in ((same, whole), (drawn, two), (drawn, singles)):
        fit = vi.fit(alg, (y, mask), num_steps=10, key=jax.random.key(0))
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(fit.posterior))
        assert np.all(np.isfinite(fit.trace["elbo"]))
        assert np.all(np.diff(fit.trace["elbo"]) >= -1e-4 * np.abs(fit.trace["elbo"][1:]))
        np.testing.assert_allclose(
            np.sum(fit.posterior["initial"].concentration) - 4, mask[:, 0].sum(), rtol=1e-5
        )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros((1, 2, 3)), r"a pair \(y, mask\), got ndarray"),
        ((np.zeros((1, 2, 3)), np.ones((1, 3))), r"y of shape \(N, T, D\)"),
        (
            (np.zeros((1, 2, 3)), np.array([[False, True]])),
            "masks true on the first steps of each sequence, got a gap in sequence 0",
        ),
        ((np.zeros((1, 2, 3)), np.zeros((1, 2), bool)), "at least one step"),
        ((np.full((1, 2, 3), 0.5), np.ones((1, 2), bool)), "counts 0, 1, 2"),
        (
            (np.full((2, 2, 3), np.nan), np.array([[0, 0], [1, 0]], bool)),
            "got nan in sequence 1, step 0, column 0",
        ),
    ],
)
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        vi.fit(vi.cavi(model()), data, num_steps=1, key=jax.random.key(0))
