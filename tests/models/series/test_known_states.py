"""Hidden Markov models of steps whose state is known at some: against enumeration of the paths that
agree."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaln, logsumexp

import vijax as vi
from vijax.models import emission
from vijax.models.series.known_chain import known_chain, require_possible

RNG = np.random.default_rng(0)
NAN = np.nan
STEPS, STATES = 6, 3
Y = RNG.poisson(3.0, STEPS).astype(float)
LABELS = np.array([NAN, 2, NAN, NAN, 0, NAN])
DATA = np.stack([Y, LABELS], axis=1)[None], np.ones((1, STEPS), bool)
EVERY = np.array(list(itertools.product(range(STATES), repeat=STEPS)))
PATHS = EVERY[np.all((EVERY == LABELS) | np.isnan(LABELS), axis=1)]
INITIAL = np.array([0.5, 0.2, 0.3])
TRANSITION = np.array([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]])
SHAPE, RATE = np.array([2.0, 4.0, 9.0]), np.array([1.5, 1.0, 1.2])


def posterior() -> vi.Product:
    return vi.Product(
        {
            "initial": vi.Dirichlet.from_concentration(1 + INITIAL),
            "transition": vi.Dirichlet.from_concentration(1 + TRANSITION),
            "components": vi.Gamma.from_shape_rate(SHAPE[:, None], RATE[:, None]),
        }
    )


def model(**more) -> vi.Model:
    emits = emission.with_labels(emission.poisson(STATES, 1))
    return vi.models.hmm(emits, init=lambda key, context: posterior(), **more)


def counts(log_initial, log_transition, fits) -> tuple:
    """Expected counts over the paths that agree, and the log of their weights' sum."""
    weights = log_initial[PATHS[:, 0]] + fits[PATHS, np.arange(STEPS)].sum(1)
    weights += log_transition[PATHS[:, :-1], PATHS[:, 1:]].sum(1)
    value = logsumexp(weights)
    post = np.exp(weights - value)
    states = np.array([post @ (k == PATHS) for k in range(STATES)])
    pairs = [
        [post @ ((PATHS[:, :-1] == i) & (PATHS[:, 1:] == j)).sum(1) for j in range(STATES)]
        for i in range(STATES)
    ]
    return states[:, 0], np.array(pairs), states, value


def test_em_is_em_over_the_paths_that_agree():
    start_rates = (SHAPE - 1) / RATE
    initial, transition, rates = INITIAL, TRANSITION, start_rates
    for _ in range(3):
        fits = np.log(rates)[:, None] * Y - rates[:, None] - gammaln(Y + 1)
        with np.errstate(divide="ignore"):
            first, pairs, states, value = counts(np.log(initial), np.log(transition), fits)
        initial, transition = first, pairs / pairs.sum(1, keepdims=True)
        rates = states @ Y / states.sum(1)
    with jax.enable_x64(True):
        rows = vi.Gamma.from_shape_rate(2 * np.ones((3, 1)), 1 / start_rates[:, None])
        start = vi.Product({**posterior(), "components": rows})
        emits = emission.with_labels(emission.poisson(STATES, 1))
        alg = vi.em(vi.models.hmm(emits, init=lambda key, context: start))
        fit = vi.fit(alg, DATA, num_steps=3, key=jax.random.key(0))
        point = {name: np.asarray(q.mean()) for name, q in fit.estimates.items()}
        score = fit.score(DATA, key=jax.random.key(0)).mean
        probs = np.asarray(fit.locals(DATA, key=jax.random.key(0))["z"].probs)[0]
    np.testing.assert_allclose(fit.trace["elbo"][-1], value, rtol=1e-9)
    np.testing.assert_allclose(point["initial"], initial, atol=1e-9)
    np.testing.assert_allclose(point["transition"], transition, atol=1e-9)
    np.testing.assert_allclose(point["components"][:, 0], rates, atol=1e-9)
    fits = np.log(rates)[:, None] * Y - rates[:, None] - gammaln(Y + 1)
    with np.errstate(divide="ignore"):
        *_, states, value = counts(np.log(initial), np.log(transition), fits)
    np.testing.assert_allclose(score, value / STEPS, rtol=1e-9)
    np.testing.assert_allclose(probs, states.T, atol=1e-9)
    assert probs[1].tolist() == [0, 0, 1]


def test_variational_bayes_is_that_over_the_paths_that_agree():
    """Two steps, from concentrations that are given."""
    q = [1 + INITIAL, 1 + TRANSITION, SHAPE, RATE]
    for _ in range(2):
        logs = [digamma(c) - digamma(c.sum(-1, keepdims=True)) for c in q[:2]]
        fits = (digamma(q[2]) - np.log(q[3]))[:, None] * Y - (q[2] / q[3])[:, None] - gammaln(Y + 1)
        first, pairs, states, _ = counts(*logs, fits)
        q = [1 + first, 1 + pairs, 1 + states @ Y, 1 + states.sum(1)]
    with jax.enable_x64(True):
        fit = vi.fit(vi.cavi(model()), DATA, num_steps=2, key=jax.random.key(0))
        laws = fit.posterior
        actual = [laws["initial"].concentration, laws["transition"].concentration]
        actual += [laws["components"].shape[:, 0], laws["components"].rate[:, 0]]
    for x, expected in zip(actual, q, strict=True):
        np.testing.assert_allclose(x, expected, atol=1e-9)


def overlapping(rng: np.random.Generator, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """States in no order of their means, and rows."""
    z = np.arange(steps) // 15 % 3
    return z, np.array([4.0, 0.0, 2.0])[z][:, None] + 0.5 * rng.normal(size=(steps, 1))


def test_a_tenth_of_the_labels_names_the_states_from_the_default_start():
    z, y = overlapping(np.random.default_rng(2), 270)
    labels = np.where(np.random.default_rng(3).random(270) < 0.1, z, NAN)
    data = vi.models.pad([np.column_stack([y, labels])])
    emits = emission.with_labels(emission.diagonal_gaussian(3, 1))
    for seed in (0, 1):
        fit = vi.fit(vi.cavi(vi.models.hmm(emits)), data, num_steps=15, key=jax.random.key(seed))
        path = np.asarray(fit.locals(data, key=jax.random.key(0))["z"].mode())[0]
        assert np.mean(path == z) > 0.97
        means = np.asarray(fit.posterior["components"].mean().mean)[:, 0]
        np.testing.assert_allclose(means, [4, 0, 2], atol=0.2)


def test_a_state_without_labels_is_found_beside_states_with_some():
    z, y = overlapping(np.random.default_rng(4), 270)
    labels = np.where((np.random.default_rng(5).random(270) < 0.1) & (z != 1), z, NAN)
    data = vi.models.pad([np.column_stack([y, labels])])
    emits = emission.with_labels(emission.diagonal_gaussian(3, 1))
    fit = vi.fit(vi.em(vi.models.hmm(emits)), data, num_steps=15, key=jax.random.key(0))
    path = np.asarray(fit.locals(data, key=jax.random.key(0))["z"].mode())[0]
    assert np.mean(path == z) > 0.97


def test_the_filter_reads_labels_and_draws_have_their_states():
    fit = vi.fit(vi.cavi(model()), DATA, num_steps=2, key=jax.random.key(0))
    online = fit.filter()
    step = jax.jit(online.step)
    state = online.init()
    for row in DATA[0][0]:
        state = step(state, jnp.asarray(row))
        if not np.isnan(row[1]):
            assert state.probs[int(row[1])] == 1
    score = fit.score(DATA, key=jax.random.key(0))
    np.testing.assert_allclose(state.log_prob, score.log_probs[0], rtol=1e-5)
    drawn = np.asarray(fit.predictive(jax.random.key(1), 3, DATA))
    assert drawn.shape == (3, 1, STEPS, 2)
    assert set(np.unique(drawn[..., 1])) <= {0, 1, 2}


def test_missing_cells_beside_labels_and_labels_alone():
    z, y = overlapping(np.random.default_rng(6), 120)
    rows = np.column_stack([y, y + 1, np.where(np.arange(120) % 5 == 0, z, NAN)])
    rows[3, 0] = rows[10, :2] = rows[11, :2] = NAN
    emits = emission.with_labels(emission.incomplete(emission.full_gaussian(3, 2)))
    data = vi.models.pad([rows])
    fit = vi.fit(vi.cavi(vi.models.hdp_hmm(emits)), data, num_steps=8, key=jax.random.key(0))
    probs = np.asarray(fit.locals(data, key=jax.random.key(0))["z"].probs)[0]
    assert probs[10].tolist() == np.eye(3)[z[10]].tolist()
    assert np.mean(probs.argmax(1) == z) > 0.97


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 3], "numbers of states from 0 to 2 in the last column, or NaN, got 3"),
        ([0, 0.5, 1], "got 0.5"),
        ([-1, NAN, 1], "got -1"),
    ],
)
def test_labels_that_are_no_states(labels, message):
    data = np.column_stack([[1.0, 2.0, 3.0], labels])[None], np.ones((1, 3), bool)
    with pytest.raises(ValueError, match=message):
        vi.fit(vi.cavi(model()), data, num_steps=1, key=jax.random.key(0))


def test_what_has_no_labels_says_so():
    emits = emission.with_labels(emission.unit_gaussian(2, 1))
    with pytest.raises(ValueError, match="an emission without labels, which hmm and hdp_hmm take"):
        vi.models.mixture(emits)
    with pytest.raises(ValueError, match=r"expected with_labels\(incomplete\(emission\)\)"):
        emission.incomplete(emits)
    with pytest.raises(ValueError, match="one of rows without labels"):
        emission.with_labels(emits)
    with pytest.raises(ValueError, match=r"expected with_labels\(blurred\(emission, variance\)\)"):
        emission.blurred(emits, 0.1)
    with pytest.raises(ValueError, match="bags of words"):
        emission.with_labels(emission.categorical(2, 3))
    backwards = np.array([[0.0, 1.0], [1.0, NAN], [2.0, 0.0]])[None], np.ones((1, 3), bool)
    one_way = vi.models.hmm(emits, transitions=["? ?", "0 1"])
    with pytest.raises(ValueError, match="got state 0 in sequence 0, step 2, which no path has"):
        vi.fit(vi.cavi(one_way), backwards, num_steps=1, key=jax.random.key(0))
    forwards = np.array([[0.0, 0.0], [1.0, NAN], [2.0, 1.0]])[None], np.ones((1, 3), bool)
    fit = vi.fit(vi.cavi(one_way), forwards, num_steps=1, key=jax.random.key(0))
    with pytest.raises(ValueError, match="got state 0 in sequence 0, step 2, which no path has"):
        fit.score(backwards, key=jax.random.key(0))


def test_states_that_no_path_has_are_those_that_no_path_of_an_enumeration_has():
    rng = np.random.default_rng(7)
    chain = known_chain(3, "? ? 0", ["0 ? 0", "? 0 ?", "0 0 ?"])
    can_start, can_follow = chain.can_start, chain.can_follow
    paths = [
        path
        for path in itertools.product(range(3), repeat=5)
        if can_start[path[0]] and all(can_follow[i, j] for i, j in itertools.pairwise(path))
    ]
    states = np.where(rng.random((200, 5)) < 0.5, rng.integers(0, 3, (200, 5)), NAN)
    mask = np.arange(5) < rng.integers(1, 6, (200, 1))
    num_possible = 0
    for row, length in zip(states, mask.sum(1), strict=True):
        seen = [(t, k) for t, k in enumerate(row[:length]) if not np.isnan(k)]
        steps = [t for t, _ in seen if not agree(paths, [x for x in seen if x[0] <= t])]
        one = row[None], np.arange(5)[None] < length
        if not steps:
            num_possible += 1
            require_possible(chain, *one)
            continue
        with pytest.raises(ValueError, match=f"sequence 0, step {steps[0]}, which no path"):
            require_possible(chain, *one)
    assert 40 < num_possible < 160
    with pytest.raises(ValueError, match=r"in sequence [0-9]+, step"):
        require_possible(chain, states, mask)


def agree(paths: list, seen: list) -> bool:
    """True if one of the paths has all these states."""
    return any(all(path[t] == k for t, k in seen) for path in paths)
