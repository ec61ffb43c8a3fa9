"""Forecasts of sequences: laws by enumeration and in closed form, and what is refused."""

import itertools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, gammaln

import vijax as vi
from tests.naming import naming
from vijax import tree
from vijax.fitting.result import Fit
from vijax.models import emission

KEY = jax.random.key
NUM = 20_000
ALARM = 4.5  # standard errors, a false alarm in 100,000 numbers
INITIAL = np.array([3.0, 1.0])
TRANSITION = np.array([[6.0, 2.0], [1.0, 3.0]])
ON, OFF = np.array([[5.0], [1.0]]), np.array([[1.0], [4.0]])  # of the Beta laws of the two states


def fitted(model, posterior):
    """A fit that has this posterior, without any steps."""
    state = types.SimpleNamespace(
        hyper=tree.as_arrays(model.hyper), posterior=vi.Product(posterior)
    )
    return Fit(vi.cavi(model), state, {}, None)


def uncertain_chain():
    q = {
        "initial": vi.Dirichlet.from_concentration(INITIAL),
        "transition": vi.Dirichlet.from_concentration(TRANSITION),
        "components": vi.Beta.from_alpha_beta(ON, OFF),
    }
    return fitted(vi.models.hmm(emission.bernoulli(2, 1)), q)


def expected_moves(pairs):
    """E[prod of transition probabilities] under the Dirichlets, from counts of pairs."""
    log = lambda c: gammaln(c).sum(-1) - gammaln(c.sum(-1))
    return np.exp(np.sum(log(TRANSITION + pairs) - log(TRANSITION)))


def expected_observations(states, y):
    """E[prod of p(y_h | z_h)] under the Betas."""
    total = 0.0
    for k in (0, 1):
        seen = [v for z, v in zip(states, y, strict=True) if z == k]
        ones = sum(seen)
        total += betaln(ON[k, 0] + ones, OFF[k, 0] + len(seen) - ones) - betaln(ON[k, 0], OFF[k, 0])
    return np.exp(total)


def enumerated(end, num_steps):
    """The law of the next observations, all parameters integrated: a sum over all paths from q of
    the last state."""
    law = {}
    for y in itertools.product((0, 1), repeat=num_steps):
        law[y] = 0.0
        for path in itertools.product((0, 1), repeat=num_steps + 1):
            pairs = np.zeros((2, 2))
            for pair in itertools.pairwise(path):
                pairs[pair] += 1
            law[y] += end[path[0]] * expected_moves(pairs) * expected_observations(path[1:], y)
    return law


def test_forecasts_of_a_hidden_markov_model_have_the_law_that_enumeration_finds():
    """Joint over three steps, under uncertain transitions and emissions, of sequences of unequal
    lengths."""
    fit = uncertain_chain()
    data = vi.models.pad([np.array([[1.0], [1.0], [0.0], [0.0]]), np.array([[1.0], [1.0]])])
    draws = np.asarray(fit.forecast(KEY(1), NUM, data, 3))
    assert draws.shape == (NUM, 2, 3, 1)
    probs = np.asarray(fit.locals(data, key=KEY(0))["z"].probs)
    ends = probs[[0, 1], [3, 1]]
    assert abs(ends[0] - ends[1]).max() > 0.3  # the two sequences end differently
    for n, end in enumerate(ends):
        law = enumerated(end, 3)
        assert sum(law.values()) == pytest.approx(1.0)
        for y, p in law.items():
            share = np.mean(np.all(draws[:, n, :, 0] == y, axis=1))
            assert abs(share - p) < ALARM * np.sqrt(p * (1 - p) / NUM), (n, y)


def test_a_sequence_without_steps_is_begun():
    fit = uncertain_chain()
    data = np.zeros((2, 1, 1), np.float32), np.array([[False], [True]])
    draws = np.asarray(fit.forecast(KEY(2), NUM, data, 1))[:, 0, 0, 0]
    p = (INITIAL / INITIAL.sum()) @ (ON / (ON + OFF))[:, 0]
    assert abs(draws.mean() - p) < ALARM * np.sqrt(p * (1 - p) / NUM)


def test_a_point_is_forecast_by_powers_of_its_transition_matrix():
    """After EM: p(y_{T+h}) = filter(T) A^h emission."""
    rng = np.random.default_rng(0)
    y = (rng.random((1, 60, 1)) < np.repeat([0.9, 0.1], 30)[None, :, None]).astype(np.float32)
    data = y, np.ones((1, 60), bool)
    fit = vi.fit(vi.em(vi.models.hmm(emission.bernoulli(2, 1))), data, num_steps=20, key=KEY(0))
    draws = np.asarray(fit.forecast(KEY(3), NUM, data, 4))[:, 0, :, 0].mean(axis=0)
    found = {name: np.asarray(point.mean(), float) for name, point in fit.estimates.items()}
    law = np.asarray(fit.locals(data, key=KEY(0))["z"].probs)[0, -1]
    for h in range(4):
        law = law @ found["transition"]
        p = float(law @ found["components"][:, 0])
        assert abs(draws[h] - p) < ALARM * np.sqrt(max(p * (1 - p), 1e-4) / NUM)


def test_chains_of_a_factorial_model_go_on_each_from_its_own_end():
    """Of globals known almost surely: the first chain alternates, the second one stays."""
    sure = 1e6
    moves = np.array([[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])
    model = vi.models.factorial_hmm(1, 2, 2)
    prior = model.prior({})
    location = np.zeros(np.shape(prior["contributions"].location))
    location[..., [1, 3]] = 10.0, 1.0  # states (a, b) emit 10 a + b
    size = location.shape[-1]
    q = {
        "initial": vi.Dirichlet.from_concentration(np.full((2, 2), 1.0)),
        "transition": vi.Dirichlet.from_concentration(sure * moves + 1e-3),
        "contributions": vi.MultivariateNormalGamma.from_parameters(
            location,
            sure * np.eye(size),
            np.full(location.shape[:-1], sure),
            np.full(location.shape[:-1], 0.01 * sure),
        ),
    }
    fit = fitted(model, q)
    data = vi.models.pad([np.array([[11.0], [1.0]]), np.array([[0.0], [10.0], [0.0]])])
    draws = np.asarray(fit.forecast(KEY(1), 4, data, 3))
    np.testing.assert_allclose(
        draws[..., 0].round(), np.tile([[11.0, 1.0, 11.0], [10.0, 0.0, 10.0]], (4, 1, 1))
    )


def test_what_is_no_sequence_is_refused():
    fit = uncertain_chain()
    with pytest.raises(ValueError, match=naming("data:", "vijax.models.pad")):
        fit.forecast(KEY(0), 3, [4, 2], 3)
    with pytest.raises(ValueError, match="num_steps"):
        fit.forecast(KEY(0), 3, vi.models.pad([np.ones((2, 1))]), 0)
    mixture = vi.models.mixture(emission.unit_gaussian(2, dim=1))
    rows = vi.fit(vi.cavi(mixture), jnp.zeros((4, 1)), num_steps=1, key=KEY(0))
    said = (
        r"forecast: expected a model that draws seq.*asked for: score, predictive\. "
        r".*Fit\.predictive draws new rows"
    )
    with pytest.raises(ValueError, match=said):
        rows.forecast(KEY(0), 3, jnp.zeros((4, 1)), 2)
