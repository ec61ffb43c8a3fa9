"""The finite approximation to a Dirichlet-process mixture (Hoffman and Blei 2015, section 4.2): who
finds the components."""

import jax
import numpy as np
import pytest

import vijax as vi
from vijax.data import synthetic


def test_synthetic_mixture_is_what_it_says():
    y, truth = synthetic.bernoulli_mixture(20_000, num_components=5, dim=4, alpha=10.0, seed=1)
    share = np.bincount(truth.labels, minlength=5) / len(y)
    assert np.all(np.abs(share - truth.weights) < 5 * np.sqrt(truth.weights / len(y)))
    for k in range(5):
        mean, p = y[truth.labels == k].mean(0), truth.probabilities[k]
        assert np.all(np.abs(mean - p) < 5 * np.sqrt(p * (1 - p) / (share[k] * len(y))))
    again, _ = synthetic.bernoulli_mixture(20_000, num_components=5, dim=4, alpha=10.0, seed=1)
    np.testing.assert_array_equal(y, again)
    with pytest.raises(ValueError, match="alpha"):
        synthetic.bernoulli_mixture(alpha=0.0)


@pytest.mark.slow
def test_structured_inference_uses_as_many_components_as_the_truth_and_mean_field_does_not():
    seed = 1
    y, truth = synthetic.bernoulli_mixture(seed=seed)
    true = len(np.unique(truth.labels))
    emission = vi.models.emission.bernoulli(100, 100)
    model = vi.models.mixture(emission, concentration=0.2, init=vi.init.near_symmetric())
    hold = vi.step_size.hold_then_decay(200)
    algorithms = {
        "ssvi_a": vi.whole(vi.ssvi_a(model, step_size=hold)),
        "ssvi": vi.whole(vi.ssvi(model, step_size=hold)),
        "cavi": vi.cavi(model),
    }
    used = {}
    for name, alg in algorithms.items():
        fit = vi.fit(alg, y, num_steps=500, key=jax.random.key(seed))
        used[name] = np.sum(np.asarray(fit.posterior["weights"].concentration) - 0.2 >= 0.5) / true
    run = vi.reference.collapsed_gibbs_mixture(
        emission, y, concentration=0.2, num_sweeps=50, key=jax.random.key(seed)
    )
    assert 0.85 <= used["ssvi_a"] <= 1.15
    assert 0.85 <= used["ssvi"] <= 1.15
    assert used["cavi"] <= 0.45
    assert abs(len(np.unique(run.labels[-1])) - true) <= 4
