"""Collapsed Gibbs sampling of mixtures: every assignment of a tiny set enumerated, evidences from
textbook formulas."""

import itertools

import jax
import numpy as np
import pytest
from scipy.special import gammaln

from tests.models.mixtures.test_mixture import EMISSIONS, log_marginal
from vijax.reference import collapsed_gibbs_mixture

CONCENTRATION = np.array([0.7, 1.4])


def log_joint(name, rows, z):
    sizes = np.bincount(z, minlength=2)
    prior = gammaln(CONCENTRATION.sum()) - gammaln(CONCENTRATION.sum() + len(rows))
    prior += np.sum(gammaln(CONCENTRATION + sizes) - gammaln(CONCENTRATION))
    return prior + sum(log_marginal(name, rows[np.array(z) == k]) for k in (0, 1))


@pytest.mark.parametrize(
    "name", ["bernoulli", "full_gaussian"]
)  # a predictive of its own, and the general one
def test_samples_the_exact_posterior(name):
    """Probabilities of all 2^4 assignments, over ends of independent chains, within 5 standard
    errors (a false alarm in 1e5 runs); and the log joint of each."""
    make, rows = EMISSIONS[name]
    num_chains = 20_000
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), num_chains)
        run = jax.vmap(
            lambda key: collapsed_gibbs_mixture(
                make(), rows, concentration=CONCENTRATION, num_sweeps=8, key=key
            )
        )(keys)
    labels, found = np.asarray(run.labels)[:, -1], np.asarray(run.log_joint)[:, -1]
    states = np.array(list(itertools.product([0, 1], repeat=4)))
    logs = np.array([log_joint(name, rows, z) for z in states])
    exact = np.exp(logs - np.logaddexp.reduce(logs))
    code = labels @ [8, 4, 2, 1]
    np.testing.assert_allclose(found, logs[code], rtol=1e-8)
    share = np.bincount(code, minlength=16) / num_chains
    assert np.all(np.abs(share - exact) < 5 * np.sqrt(exact * (1 - exact) / num_chains) + 1e-6)


def test_conditionals_are_those_of_the_last_labels():
    make, rows = EMISSIONS["bernoulli"]
    run = collapsed_gibbs_mixture(
        make(), rows, concentration=0.5, num_sweeps=3, key=jax.random.key(1)
    )
    one_hot = np.eye(2)[np.asarray(run.labels[-1])]
    np.testing.assert_allclose(run.weights.concentration, 0.5 + one_hot.sum(0), rtol=1e-6)
    np.testing.assert_allclose(run.components.alpha, 0.8 + one_hot.T @ rows, rtol=1e-6)
    np.testing.assert_allclose(run.components.beta, 1.2 + one_hot.T @ (1 - rows), rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"concentration": 0.0}, "concentration: expected positive finite numbers"),
        ({"concentration": [1.0, 1.0, 1.0]}, r"concentration: expected a scalar or shape \(2,\)"),
        ({"num_sweeps": 0}, "num_sweeps: expected an integer >= 1, got 0"),
        ({"y": np.array([[0.0, 1.0, 2.0]])}, "zeros and ones, got 2.0 in row 0, column 2"),
    ],
)
def test_bad_input_is_named(change, message):
    make, rows = EMISSIONS["bernoulli"]
    given = {"y": rows, "concentration": 1.0, "num_sweeps": 2, "key": jax.random.key(0)} | change
    with pytest.raises(ValueError, match=message):
        collapsed_gibbs_mixture(make(), **given)
