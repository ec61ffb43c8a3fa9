"""Recurrent switching linear dynamical systems: the augmented joint against the density that it augments."""

import dataclasses
import functools
import pickle

import jax
import numpy as np
import pytest
from scipy import special, stats

import vijax as vi
from vijax.families import CoefficientsPrecision
from vijax.families.scalar.normal_gamma import MeanPrecision
from vijax.families.vector.matrix_normal_wishart import MatrixPrecision
from vijax.models.energies.energy import energy_of
from vijax.models.series.recurrent_slds import after_slds

D, Q, K, A, T = 2, 2, 3, 0.6, 4
RNG = np.random.default_rng(0)
THETA = {
    "initial": np.array([0.2, 0.5, 0.3]),
    "switching": RNG.normal(size=(K - 1, Q + K)),
    "start": MeanPrecision(np.array([1.0, -0.5]), np.array([0.7, 2.0])),
    "dynamics": MatrixPrecision(
        0.5 * RNG.normal(size=(K, Q + 1, Q)), np.stack([np.diag([3.0, k + 1.0]) for k in range(K)])
    ),
    "observation": CoefficientsPrecision(RNG.normal(size=(D, Q + 1)), np.array([2.0, 4.0])),
}
Y, X = RNG.normal(size=(T, D)), RNG.normal(size=(T, Q))
KEY = jax.random.key(0)


@functools.cache
def model():
    with jax.enable_x64(True):
        return vi.models.recurrent_slds(D, K, Q, persistence=A)


def log_joint(z):
    """log p(y, x, z) by hand."""
    (m, p), (g, precision), (c, r) = THETA["start"], THETA["dynamics"], THETA["observation"]
    total = np.log(THETA["initial"][z[0]]) + stats.norm(m, 1 / np.sqrt(p)).logpdf(X[0]).sum()
    for t in range(1, T):
        psi = THETA["switching"] @ np.concatenate([X[t - 1], np.eye(K)[z[t - 1]]])
        yes = special.expit(psi)
        total += np.log(np.append(yes, 1.0) * np.append(1.0, np.cumprod(1 - yes)))[z[t]]
        mean = A * X[t - 1] + np.append(X[t - 1], 1.0) @ g[z[t]]
        total += stats.multivariate_normal(mean, np.linalg.inv(precision[z[t]])).logpdf(X[t])
    return total + stats.norm(X @ c[:, :-1].T + c[:, -1], 1 / np.sqrt(r)).logpdf(Y).sum()


@jax.jit
def bound_of_omega(z):
    """The bound at a path, at the best q of omega."""
    spec, group = energy_of(model()), (Y, np.ones(T, bool))
    point = model().prior({}).stats(THETA)
    templates = spec.locals(group)
    known = {"x": templates["x"].stats(X), "z": templates["z"].stats(z)}
    stats_ = {**point, **known, "omega": templates["omega"].expected_stats()}
    omega = spec.conditionals(("omega",), stats_, group, {})["omega"]
    mean = omega.expected_stats()
    return spec.fn({**stats_, "omega": mean}, group, {}) + (omega.log_normalizer() - omega.dot(mean)).sum()


@pytest.mark.parametrize("z", [[0, 0, 1, 2], [2, 1, 0, 2], [1, 2, 2, 1]])
def test_omega_integrates_out(z):
    """At known paths the bound of omega is exact: sums of Polya-gamma laws are the stick-breaking probabilities."""
    with jax.enable_x64(True):
        model()  # made before anything is traced
        found = bound_of_omega(np.array(z))
    np.testing.assert_allclose(found, log_joint(z), rtol=1e-9)


def test_coordinate_ascent_never_loses_ground():
    """Entries missing, sequences short, nonsense in padding."""
    y = RNG.normal(size=(3, 8, D))
    y[0, 3, 0] = np.nan
    mask = np.arange(8) < np.array([8, 5, 1])[:, None]
    with jax.enable_x64(True):
        alg = vi.cavi(model())
        fit = vi.fit(alg, (np.where(mask[..., None], y, 1e3), mask), num_steps=15, key=KEY)
        same = vi.fit(alg, (np.where(mask[..., None], y, 0.0), mask), num_steps=15, key=KEY)
        ahead = np.asarray(fit.forecast(KEY, 3, (y, mask), 4))
    assert np.all(np.diff(fit.trace["elbo"]) >= -1e-9 * np.abs(fit.trace["elbo"][1:]))
    np.testing.assert_allclose(fit.trace["elbo"], same.trace["elbo"], rtol=1e-9)
    assert ahead.shape == (3, 3, 4, D)
    assert np.isfinite(ahead).all()


def test_one_state_is_refused():
    with pytest.raises(ValueError, match="num_states: expected two or more states"):
        vi.models.recurrent_slds(2, 1, 1)


def test_it_goes_on_where_an_slds_ended():
    data, key = vi.models.pad([np.sin(np.arange(40.0))[:, None]]), jax.random.key(0)
    first = vi.fit(vi.cavi(vi.models.slds(1, 2, 2)), data, num_steps=5, key=key)
    local = first.locals(data, key=key)
    begin, again = after_slds(local), pickle.loads(pickle.dumps(after_slds(local)))
    assert begin == again
    assert hash(begin) == hash(again)
    moved = {name: np.where(x == x.max(), x + 1, x) for name, x in begin.means["x"]._asdict().items()}
    assert begin != dataclasses.replace(begin, means={**begin.means, "x": type(begin.means["x"])(**moved)})
    model = vi.models.recurrent_slds(1, 2, 2, init=begin)
    assert model is vi.models.recurrent_slds(1, 2, 2, init=again)
    fit = vi.fit(vi.cavi(model), data, num_steps=5, key=key)
    assert fit.trace["elbo"][-1] > fit.trace["elbo"][0]
