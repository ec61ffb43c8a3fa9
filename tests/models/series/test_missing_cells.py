"""Hidden Markov models of steps in which cells are missing: against EM over all paths in NumPy, with
SciPy's densities of the observed cells."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import vijax as vi
from vijax.models import emission

RNG = np.random.default_rng(0)
NAN = np.nan
WHOLE = np.concatenate([RNG.normal(size=(3, 3)), 2 + RNG.normal(size=(4, 3))])
Y = WHOLE.copy()
Y[1, 0] = Y[2, 1] = Y[2, 2] = Y[5, 2] = NAN
Y[4] = NAN
STEPS = len(Y)
PATHS = np.array(list(itertools.product([0, 1], repeat=STEPS)))
INITIAL = np.array([0.6, 0.4])
TRANSITION = np.array([[0.7, 0.3], [0.4, 0.6]])
MEAN = np.array([[0.0, 0.5, -0.2], [2.5, 2.0, 1.5]])
ROOT = RNG.normal(size=(2, 3, 6))
EMITS = {"full": emission.full_gaussian, "diagonal": emission.diagonal_gaussian}


def covariances(kind: str) -> np.ndarray:
    full = ROOT @ ROOT.transpose(0, 2, 1) / 6 + 0.5 * np.eye(3)
    return full if kind == "full" else full * np.eye(3)


def posterior(kind: str) -> vi.Product:
    """Laws whose modes under maximum likelihood are the start, of five observations."""
    rows = {
        "initial": vi.Dirichlet.from_concentration(1 + INITIAL),
        "transition": vi.Dirichlet.from_concentration(1 + TRANSITION),
    }
    spread = covariances(kind)
    if kind == "full":
        scale = np.linalg.inv(5 * spread)
        components = vi.NormalWishart.from_parameters(MEAN, 5.0, 5.0 + 3.0, scale)
    else:
        rate = 2.5 * np.diagonal(spread, axis1=1, axis2=2)
        components = vi.NormalGamma.from_parameters(MEAN, 5.0, 2.5 + 0.5, rate)
    return vi.Product({**rows, "components": components})


def log_density(mean: np.ndarray, covariance: np.ndarray, row: np.ndarray) -> float:
    """Of the observed cells."""
    seen = ~np.isnan(row)
    if not seen.any():
        return 0.0
    return stats.multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(row[seen])


def expected_row(mean: np.ndarray, covariance: np.ndarray, row: np.ndarray) -> tuple:
    """E y and Cov y given the observed cells."""
    seen = ~np.isnan(row)
    gain = covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    return mean + gain @ (row[seen] - mean[seen]), covariance - gain @ covariance[seen]


def em(kind: str, steps: int) -> tuple:
    """By enumeration; for the diagonal only observed cells count."""
    initial, transition, mean, covariance = INITIAL, TRANSITION, MEAN.copy(), covariances(kind)
    values = []
    for _ in range(steps):
        laws = list(zip(mean, covariance, strict=True))
        fits = np.array([[log_density(*law, row) for row in Y] for law in laws])
        joint = np.log(initial[PATHS[:, 0]]) + fits[PATHS, np.arange(STEPS)].sum(1)
        joint += np.log(transition[PATHS[:, :-1], PATHS[:, 1:]]).sum(1)
        values.append(logsumexp(joint))
        weights = np.exp(joint - values[-1])
        states = np.array([weights @ (k == PATHS) for k in (0, 1)])
        initial = states[:, 0]
        pairs = [
            [weights @ ((PATHS[:, :-1] == i) & (PATHS[:, 1:] == j)).sum(1) for j in (0, 1)]
            for i in (0, 1)
        ]
        transition = np.array(pairs) / np.sum(pairs, axis=1, keepdims=True)
        seen = ~np.isnan(Y).all(1)
        for k in (0, 1):
            r = states[k, seen]
            if kind == "full":
                rows, spreads = zip(
                    *(expected_row(mean[k], covariance[k], row) for row in Y[seen]), strict=True
                )
                centre = r @ np.array(rows) / r.sum()
                gaps = np.array(rows) - centre
                scatter = (r * gaps.T) @ gaps + np.tensordot(r, np.array(spreads), 1)
                mean[k], covariance[k] = centre, scatter / r.sum()
                continue
            cells, there = np.nan_to_num(Y[seen]), ~np.isnan(Y[seen])
            centre = r @ cells / (r @ there)
            variance = r @ np.where(there, (cells - centre) ** 2, 0.0) / (r @ there)
            mean[k], covariance[k] = centre, np.diag(variance)
    return initial, transition, mean, covariance, np.array(values)


def model(kind: str) -> vi.Model:
    emits = emission.incomplete(EMITS[kind](2, 3))
    return vi.models.hmm(emits, init=lambda key, context: posterior(kind))


DATA = Y[None], np.ones((1, STEPS), bool)


@pytest.mark.parametrize("kind", EMITS)
def test_em_is_em_over_all_paths_and_missing_cells(kind):
    with jax.enable_x64(True):
        alg = vi.em(model(kind), update=vi.update.kl())
        fit = vi.fit(alg, DATA, num_steps=3, key=jax.random.key(0))
        point = {name: q.mean() for name, q in fit.estimates.items()}
        score = fit.score(DATA, key=jax.random.key(0))
    initial, transition, mean, covariance, values = em(kind, 3)
    np.testing.assert_allclose(fit.trace["elbo"], values, rtol=1e-9)
    np.testing.assert_allclose(point["initial"], initial, atol=1e-9)
    np.testing.assert_allclose(point["transition"], transition, atol=1e-9)
    np.testing.assert_allclose(point["components"].mean, mean, atol=1e-8)
    precision = np.asarray(point["components"].precision)
    if kind == "diagonal":
        precision = precision[:, None] * np.eye(3)
    np.testing.assert_allclose(np.linalg.inv(precision), covariance, atol=1e-8)
    *_, later = em(kind, 4)
    np.testing.assert_allclose(score.mean, later[-1] / STEPS, rtol=1e-9)


@pytest.mark.parametrize("kind", EMITS)
def test_without_missing_cells_nothing_changes(kind):
    whole = WHOLE[None], DATA[1]
    with jax.enable_x64(True):
        traces = [
            vi.fit(vi.cavi(m), whole, num_steps=3, key=jax.random.key(0)).trace["elbo"]
            for m in (
                model(kind),
                vi.models.hmm(EMITS[kind](2, 3), init=lambda key, context: posterior(kind)),
            )
        ]
    np.testing.assert_allclose(*traces, rtol=1e-10)


@pytest.mark.parametrize("kind", EMITS)
def test_a_column_that_is_missing_throughout_a_sequence_is_the_model_without_it(kind):
    """The score, at a point and by predictive densities, of a sequence without its last column."""
    lacking = np.where(np.arange(3) == 2, NAN, WHOLE)[None], DATA[1]
    with jax.enable_x64(True):
        fit = vi.fit(vi.em(model(kind)), DATA, num_steps=2, key=jax.random.key(0))
        score = fit.score(lacking, key=jax.random.key(0)).mean
        point = {name: q.mean() for name, q in fit.estimates.items()}
    precision = np.asarray(point["components"].precision)
    if kind == "diagonal":
        precision = precision[:, None] * np.eye(3)
    laws = [
        stats.multivariate_normal(m[:2], np.linalg.inv(p)[:2, :2])
        for m, p in zip(np.asarray(point["components"].mean), precision, strict=True)
    ]
    fits = np.array([law.logpdf(WHOLE[:, :2]) for law in laws])
    initial, transition = np.asarray(point["initial"]), np.asarray(point["transition"])
    joint = np.log(initial[PATHS[:, 0]]) + fits[PATHS, np.arange(STEPS)].sum(1)
    joint += np.log(transition[PATHS[:, :-1], PATHS[:, 1:]]).sum(1)
    np.testing.assert_allclose(score, logsumexp(joint) / STEPS, rtol=1e-9)


def test_from_the_default_start_states_are_found_with_a_third_of_the_cells_missing():
    rng = np.random.default_rng(1)
    z = np.arange(240) // 12 % 2
    y = np.where(z[:, None] == 1, 3.0, -3.0) + rng.normal(size=(240, 2))
    y[rng.random(y.shape) < 1 / 3] = NAN
    fit = vi.fit(
        vi.cavi(vi.models.hmm(emission.incomplete(emission.full_gaussian(2, 2)))),
        vi.models.pad([y]),
        num_steps=15,
        key=jax.random.key(0),
    )
    path = np.asarray(fit.locals(vi.models.pad([y]), key=jax.random.key(0))["z"].mode())[0]
    means = np.asarray(fit.posterior["components"].mean().mean)[:, 0]
    assert np.mean((path == np.argmax(means)) == z) > 0.98
    np.testing.assert_allclose(np.sort(means), [-3, 3], atol=0.3)


def test_partial_steps_of_another_emission_are_told_and_empty_columns_refused():
    plain = vi.cavi(vi.models.hmm(emission.full_gaussian(2, 3)))
    text = "7 of 21 cells are missing; 3 steps that lack only some count as not seen, and 5 cells"
    with pytest.warns(UserWarning, match=text):
        vi.fit(plain, DATA, num_steps=1, key=jax.random.key(0))
    empty = np.where(np.arange(3) == 1, NAN, WHOLE)[None], DATA[1]
    with pytest.raises(ValueError, match="expected a number in every column, got none in 1 of 3"):
        vi.fit(vi.cavi(model("full")), empty, num_steps=1, key=jax.random.key(0))
