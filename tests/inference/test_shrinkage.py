"""The shrinkage of covariances of Gaussian components, which `em` of hidden Markov models keeps
to."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from vijax.update import shrinkage

import vijax as vi
from vijax.models import emission

RNG = np.random.default_rng(0)
Y = np.concatenate([RNG.normal(size=(4, 2)), 3 + RNG.normal(size=(4, 2))])
PATHS = np.array(list(itertools.product([0, 1], repeat=len(Y))))
START = {
    "initial": np.array([0.6, 0.4]),
    "transition": np.array([[0.7, 0.3], [0.4, 0.6]]),
    "mean": np.array([[0.0, 0.5], [2.5, 2.0]]),
}


def posterior(kind: str) -> vi.Product:
    """Laws whose modes under maximum likelihood are the start, of covariances 2 I and I / 2, each
    of 4 observations."""
    rows = {
        name: vi.Dirichlet.from_concentration(1 + START[name]) for name in ("initial", "transition")
    }
    spread = np.array([2.0, 0.5])
    if kind == "full":
        scale = np.linalg.inv(4 * spread[:, None, None] * np.eye(2))
        components = vi.NormalWishart.from_parameters(START["mean"], 4.0, 4.0 + 2.0, scale)
    else:
        rate = np.repeat(4 * spread[:, None], 2, axis=1) / 2
        components = vi.NormalGamma.from_parameters(START["mean"], 4.0, 4 / 2 + 0.5, rate)
    return vi.Product({**rows, "components": components})


def penalised_em(kind: str, weight: float, steps: int) -> tuple[np.ndarray, ...]:
    """By enumeration of all paths, in NumPy; and the penalised log likelihoods before each step."""
    initial, transition, mean = START["initial"], START["transition"], START["mean"]
    covariance = np.array([2.0, 0.5])[:, None, None] * np.eye(2)
    average = covariance.mean(0)
    values = []
    for _ in range(steps):
        laws = [stats.multivariate_normal(m, c) for m, c in zip(mean, covariance, strict=True)]
        fits = np.array([law.logpdf(Y) for law in laws])
        joint = np.log(initial[PATHS[:, 0]]) + fits[PATHS, np.arange(len(Y))].sum(1)
        joint += np.log(transition[PATHS[:, :-1], PATHS[:, 1:]]).sum(1)
        weights = np.exp(joint - logsumexp(joint))
        divergence = [
            0.5 * (np.trace(average @ np.linalg.inv(c)) - 2 + np.log(np.linalg.det(c)))
            - 0.5 * np.log(np.linalg.det(average))
            for c in covariance
        ]
        values.append(logsumexp(joint) - weight * sum(divergence))
        states = np.array([weights @ (k == PATHS) for k in (0, 1)])
        initial = states[:, 0]
        pairs = np.array(
            [
                [weights @ ((PATHS[:, :-1] == i) & (PATHS[:, 1:] == j)).sum(1) for j in (0, 1)]
                for i in (0, 1)
            ]
        )
        transition = pairs / pairs.sum(1, keepdims=True)
        mean = states @ Y / states.sum(1, keepdims=True)
        for k in (0, 1):
            scatter = (states[k] * (Y - mean[k]).T) @ (Y - mean[k])
            if kind == "diagonal":
                scatter = np.diag(np.diag(scatter))
            covariance[k] = (scatter + weight * average) / (states[k].sum() + weight)
    return initial, transition, mean, covariance, np.array(values)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_em_of_a_hidden_markov_model_is_penalised_em_by_enumeration(kind):
    emits = {"full": emission.full_gaussian, "diagonal": emission.diagonal_gaussian}[kind](2, 2)
    with jax.enable_x64(True):
        alg = vi.em(vi.models.hmm(emits, init=lambda key, context: posterior(kind)))
        data = Y[None], np.ones((1, len(Y)), bool)
        fit = vi.fit(alg, data, num_steps=4, key=jax.random.key(0))
        point = {name: q.mean() for name, q in fit.estimates.items()}
    weight = {"full": 4.0, "diagonal": 3.0}[kind]
    initial, transition, mean, covariance, values = penalised_em(kind, weight, 4)
    np.testing.assert_allclose(point["initial"], initial, atol=1e-9)
    np.testing.assert_allclose(point["transition"], transition, atol=1e-9)
    np.testing.assert_allclose(point["components"].mean, mean, atol=1e-9)
    precision = np.asarray(point["components"].precision)
    if kind == "diagonal":
        precision = precision[:, None] * np.eye(2)
    np.testing.assert_allclose(np.linalg.inv(precision), covariance, atol=1e-9)
    np.testing.assert_allclose(fit.trace["elbo"], values, rtol=1e-9)
    assert np.all(np.diff(values) > 0)


def test_a_state_on_few_rows_has_mostly_the_average_covariance_and_the_verdict_says_so():
    y = np.concatenate([RNG.normal(size=(60, 2)), [[30.0, 30.0], [30.001, 30.0]]])
    model = vi.models.hmm(emission.full_gaussian(2, 2))
    data = vi.models.pad([y])
    fit, plain = (
        vi.fit(vi.em(model, **more), data, key=jax.random.key(0), num_steps=20, throw=False)
        for more in ({}, {"update": vi.update.kl()})
    )
    average = np.asarray(fit.state.memory["components"], float)
    narrow = np.linalg.inv(np.asarray(fit.estimates["components"].mean().precision, float))
    few = np.argmax(np.asarray(fit.estimates["components"].mean().mean)[:, 0])
    np.testing.assert_allclose(narrow[few], 4 / (2 + 4) * average, rtol=2e-2, atol=2e-2)
    assert "1 of 2 components have fewer than 4 rows" in fit.verdict
    assert "fewer than" not in plain.verdict


def test_mixtures_keep_the_floor_and_other_families_have_nothing_to_shrink():
    mixture = vi.em(vi.models.mixture(emission.full_gaussian(2, 2)))
    assert mixture.spec.update.choice("components") == vi.update.floored()
    hmm = vi.em(vi.models.hmm(emission.full_gaussian(2, 2)))
    assert hmm.spec.update.choice("components") == shrinkage()
    one = emission.diagonal_gaussian(1, 2).prior
    tied = emission.tied_gaussian(3, 2).prior
    for q in (one, tied, vi.Gamma.from_shape_rate(jnp.ones(3), 1.0)):
        assert shrinkage().init(q) == ()
        assert shrinkage().remark(q, ()) == ""
        assert shrinkage().penalty(q, ()) == 0


def test_rows_must_be_positive():
    with pytest.raises(ValueError, match="rows"):
        shrinkage(rows=0.0)
