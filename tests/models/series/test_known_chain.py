"""Hidden Markov models whose chains have impossible transitions, or known ones: against enumeration
of all paths."""

from __future__ import annotations

import itertools
import pickle

import jax
import numpy as np
import pytest
from scipy import special

import vijax as vi
from vijax.models import emission
from vijax.models.series.known_chain import known_chain

RNG = np.random.default_rng(0)
NAN = np.nan
STEPS, STATES, WORDS = 6, 3, 4
SAID = RNG.integers(WORDS, size=STEPS)
Y = np.eye(WORDS)[SAID]
PATHS = np.array(list(itertools.product(range(STATES), repeat=STEPS)))
CHAINS = {
    "left-right": ([1, 0, 0], [[NAN, NAN, 0], [0, NAN, NAN], [0, 0, 1]]),
    "given": ([NAN, NAN, 0.2], [[NAN, 0.3, NAN], [0.1, 0.2, 0.7], [0, NAN, NAN]]),
}
ETA = 0.9
INITIAL = np.array([0.5, 0.2, 0.3])
TRANSITION = np.array([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]])
EMIT = RNG.dirichlet(np.ones(WORDS), STATES)


def fill(known: np.ndarray, learnt: np.ndarray) -> np.ndarray:
    """Probabilities: the learnt entries share, in these proportions, what the known ones leave."""
    known = np.asarray(known, float)
    is_learnt = np.isnan(known)
    part = np.where(is_learnt, learnt, 0.0)
    total = part.sum(-1, keepdims=True)
    rest = 1 - np.nansum(known, -1, keepdims=True)
    return np.where(is_learnt, rest * part / np.where(total > 0, total, 1), np.nan_to_num(known))


def counts_of_paths(log_weights: np.ndarray) -> tuple:
    """Expected first states, pairs and words, and the log of the sum of all weights."""
    value = special.logsumexp(log_weights)
    post = np.exp(log_weights - value)
    first = np.array([post[PATHS[:, 0] == k].sum() for k in range(STATES)])
    pairs = np.array(
        [
            [post @ ((PATHS[:, :-1] == a) & (PATHS[:, 1:] == b)).sum(1) for b in range(STATES)]
            for a in range(STATES)
        ]
    )
    words = np.array([(post @ (k == PATHS)) @ Y for k in range(STATES)])
    return first, pairs, words, value


def weights(initial: np.ndarray, transition: np.ndarray, emit: np.ndarray) -> np.ndarray:
    """Log weights of all paths, from logarithms."""
    fits = emit[PATHS, SAID].sum(1)
    return initial[PATHS[:, 0]] + transition[PATHS[:, :-1], PATHS[:, 1:]].sum(1) + fits


def start(starts: list, transitions: list) -> vi.Product:
    """Laws whose modes are the start of EM, and whose concentrations are that of variational
    Bayes."""
    prior = vi.models.hmm(
        emission.categorical(STATES, WORDS), starts=starts, transitions=transitions
    ).prior({})
    learnt = {"initial": 1 + INITIAL, "transition": 1 + TRANSITION, "components": 1 + EMIT}
    return vi.Product({n: prior[n].with_naturals([c]) for n, c in learnt.items()})


def made(name: str, **more) -> vi.Model:
    starts, transitions = CHAINS[name]
    init = lambda key, context: start(starts, transitions)
    emits = emission.categorical(STATES, WORDS, eta=ETA)
    return vi.models.hmm(emits, 1.1, 0.8, 0.5, init, starts=starts, transitions=transitions, **more)


DATA = Y[None], np.ones((1, STEPS), bool)


@pytest.mark.parametrize("name", CHAINS)
def test_em_is_baum_welch_over_the_possible_paths(name):
    starts, transitions = CHAINS[name]
    initial, transition, emit = fill(starts, INITIAL), fill(transitions, TRANSITION), EMIT
    for _ in range(4):
        with np.errstate(divide="ignore"):
            log_weights = weights(*(np.log(x) for x in (initial, transition, emit)))
        first, pairs, words, value = counts_of_paths(log_weights)
        initial, transition = fill(starts, first), fill(transitions, pairs)
        emit = words / words.sum(1, keepdims=True)
    with jax.enable_x64(True):
        fit = vi.fit(vi.em(made(name)), DATA, num_steps=4, key=jax.random.key(0))
        point = {n: np.asarray(q.mean()) for n, q in fit.estimates.items()}
    np.testing.assert_allclose(fit.trace["elbo"][-1], value, rtol=1e-9)
    np.testing.assert_allclose(point["initial"], initial, atol=1e-9)
    np.testing.assert_allclose(point["transition"], transition, atol=1e-9)
    np.testing.assert_allclose(point["components"], emit, atol=1e-9)


def expected_logs(known: np.ndarray, concentration: np.ndarray) -> np.ndarray:
    """E log x of a Dirichlet of the learnt entries; -inf where x is impossible."""
    known = np.asarray(known, float)
    is_learnt = np.isnan(known)
    c = np.where(is_learnt, concentration, 0.0)
    rest = 1 - np.nansum(known, -1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        learnt = special.digamma(c) - special.digamma(c.sum(-1, keepdims=True)) + np.log(rest)
        return np.where(is_learnt, learnt, np.log(known))


def log_beta(c: np.ndarray) -> float:
    """log B of rows, of the entries above 0."""
    terms = np.where(c > 0, special.gammaln(np.where(c > 0, c, 1.0)), 0.0).sum(-1)
    total = c.sum(-1)
    return terms - np.where(total > 0, special.gammaln(np.where(total > 0, total, 1.0)), 0.0)


def divergence(known: np.ndarray, q: np.ndarray, p: np.ndarray) -> float:
    """KL of Dirichlets of the learnt entries, from their normalisers."""
    is_learnt = np.isnan(np.asarray(known, float))
    q, p = (np.where(is_learnt, c, 0.0) for c in (q, p))
    with np.errstate(invalid="ignore"):
        logs = special.digamma(q) - special.digamma(q.sum(-1, keepdims=True))
    cross = np.where(is_learnt, (q - p) * np.where(is_learnt, logs, 0.0), 0.0).sum(-1)
    return float(np.sum(cross - log_beta(q) + log_beta(p)))


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("algorithm", ["cavi", "svi"])
def test_variational_bayes_is_that_over_the_possible_paths(name, algorithm):
    """Three steps, each of size 1 or .3; and the bound before the last."""
    starts, transitions = CHAINS[name]
    size = {"cavi": 1.0, "svi": 0.3}[algorithm]
    prior = [np.full(STATES, 1.1), 0.8 + 0.5 * np.eye(STATES), np.full((STATES, WORDS), ETA)]
    knowns = [starts, transitions, np.full((STATES, WORDS), NAN)]
    q = [1 + INITIAL, 1 + TRANSITION, 1 + EMIT]
    for _ in range(3):
        logs = [expected_logs(known, c) for known, c in zip(knowns, q, strict=True)]
        *messages, value = counts_of_paths(weights(*logs))
        bound = value - sum(divergence(*x) for x in zip(knowns, q, prior, strict=True))
        steps = zip(q, prior, messages, strict=True)
        q = [(1 - size) * old + size * (p + message) for old, p, message in steps]
    choices = {"step_size": vi.step_size.constant(size), "num_groups": 1, "penalty_every": 1}
    with jax.enable_x64(True):
        alg = getattr(vi, algorithm)(made(name), **(choices if algorithm == "svi" else {}))
        fit = vi.fit(alg, DATA, num_steps=3, key=jax.random.key(0))
        laws = [fit.posterior[n] for n in ("initial", "transition", "components")]
        means = [np.asarray(law.mean()) for law in laws]
    np.testing.assert_allclose(fit.trace["elbo"][-1], bound, rtol=1e-9)
    for mean, known, c in zip(means, knowns, q, strict=True):
        np.testing.assert_allclose(mean, fill(known, c), atol=1e-9)


def test_scores_and_paths_keep_to_what_is_possible():
    fit = vi.fit(vi.cavi(made("left-right")), DATA, num_steps=3, key=jax.random.key(0))
    means = [np.asarray(fit.posterior[n].mean(), float) for n in ("initial", "transition")]
    emit = np.asarray(fit.posterior["components"].mean(), float)
    with np.errstate(divide="ignore"):
        value = special.logsumexp(weights(*(np.log(x) for x in (*means, emit))))
    np.testing.assert_allclose(
        fit.score(DATA, key=jax.random.key(0)).mean, value / STEPS, rtol=1e-5
    )
    z = fit.locals(DATA, key=jax.random.key(0))["z"]
    path = np.asarray(z.mode())[0]
    assert path[0] == 0
    assert set(np.diff(path)) <= {0, 1}
    probs = np.asarray(z.probs)[0]
    assert np.all(probs[0] == [1, 0, 0])
    assert probs[1, 2] < 1e-30
    drawn = fit.predictive(jax.random.key(1), 2, DATA)
    assert np.all(np.isfinite(np.asarray(drawn)))


def test_a_left_right_model_finds_stages_that_look_alike():
    """The first and the last stage have one law: only the order tells them apart. From the default
    start, with several algorithms."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(6, 14, (10, 3))
    means = np.array([0.0, 4.0, 0.0])
    stages = [np.repeat(np.arange(3), n) for n in lengths]
    data = vi.models.pad([means[z][:, None] + 0.5 * rng.normal(size=(len(z), 1)) for z in stages])
    model = vi.models.hmm(
        emission.diagonal_gaussian(3, 1),
        starts="? 0 0",
        transitions=np.triu(np.tri(3, k=1).astype(bool)),
    )
    fit = vi.fit(vi.cavi(model), data, num_steps=20, key=jax.random.key(0))
    paths = np.asarray(fit.locals(data, key=jax.random.key(0))["z"].mode())
    for path, truth in zip(paths, stages, strict=True):
        assert np.mean(path[: len(truth)] == truth) > 0.9


def test_states_of_a_cycle_are_numbered_as_the_chain_allows():
    """0 -> 1 -> 2 -> 3 -> 0 alone: k-means++ numbers them at random."""
    rng = np.random.default_rng(4)
    z = np.arange(200) // 5 % 4
    y = np.array([0.0, 8.0, 2.0, 5.0])[z][:, None] + 0.3 * rng.normal(size=(200, 1))
    cycle = (np.eye(4) + np.roll(np.eye(4), 1, axis=1)).astype(bool)
    model = vi.models.hmm(emission.diagonal_gaussian(4, 1), transitions=cycle)
    data = vi.models.pad([y])
    for seed in range(4):
        fit = vi.fit(vi.em(model), data, num_steps=15, key=jax.random.key(seed))
        path = np.asarray(fit.locals(data, key=jax.random.key(0))["z"].mode())[0]
        assert np.all((path - path[0]) % 4 == z)


def test_a_rebuilt_model_is_the_same_and_a_pickled_fit_keeps_its_zeros():
    make = lambda: vi.models.hmm(emission.poisson(2, 1), transitions=[[None, None], [0, 1]])
    assert make() is make()
    data = vi.models.pad([np.array([[1.0], [0.0], [9.0], [8.0]])])
    fit = vi.fit(vi.cavi(make()), data, num_steps=3, key=jax.random.key(0))
    again = pickle.loads(pickle.dumps(fit))
    mean = np.asarray(again.posterior["transition"].mean())
    np.testing.assert_array_equal(mean, np.asarray(fit.posterior["transition"].mean()))
    assert mean[1].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("starts", "transitions", "message"),
    [
        (None, np.ones((3, 2), bool), r"transitions: expected shape \(3, 3\), got shape \(3, 2\)"),
        ([1, 0], None, r"starts: expected shape \(3,\), got shape \(2,\)"),
        (None, [[1, 1, 0], [0, 1, 1], [0, 0, 1]], "sum to one.*true in an array of booleans"),
        (None, [[0.5, 0.5, NAN], [NAN] * 3, [NAN] * 3], "sum to one, or to less where others"),
        (None, [[NAN] * 3, [0.5, 0.4, 0.0], [NAN] * 3], r"got \[0.5 0.4 0. \] in row 1"),
        (None, [[0, 0, 0], [NAN] * 3, [NAN] * 3], "transitions: expected rows whose"),
        (None, [[-0.1, NAN, NAN], [NAN] * 3, [NAN] * 3], "probabilities from 0 to 1"),
        ("? 0", None, r"starts: expected shape \(3,\)"),
        ("? 0 x", None, "starts: expected texts such as"),
        (None, "left-right", "transitions: expected a text for each state"),
        (None, ["? ? 0", "? ? 0", "? ? ?"], None),
        ("? ? 0", ["? ? 0", "? ? 0", "? ? ?"], "got state 2, which no path reaches"),
        (None, 1j * np.eye(3), r"transitions: expected shape \(3, 3\) of numbers, NaN or None"),
        (None, ["? ? 0", "0 ?", "? ? ?"], r"expected shape \(3, 3\) of numbers"),
        (None, {"a": 1}, r"transitions: expected shape \(3, 3\) of numbers, NaN or None"),
    ],
)
def test_known_probabilities_that_do_not_fit(starts, transitions, message):
    if message is None:
        known_chain(3, starts, transitions)
        return
    with pytest.raises(ValueError, match=message):
        vi.models.hmm(emission.poisson(3, 1), starts=starts, transitions=transitions)
