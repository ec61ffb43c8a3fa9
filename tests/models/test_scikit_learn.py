"""One step of each from one and the same state: scikit-learn's mixtures and ours, in float64."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

import vijax as vi
from tests.rounding import rounding
from vijax.models import emission

RNG = np.random.default_rng(0)
Y = np.concatenate([RNG.normal(c, s, (40, 2)) for c, s in ((-2, 1.0), (1.5, 0.7), (4, 1.3))]) @ [
    [1.0, 0.4],
    [0, 1],
]
K, D = 3, 2


def fitted(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged: that is the point
        return estimator.fit(Y)


EMISSIONS = {
    "full": emission.full_gaussian,
    "diag": emission.diagonal_gaussian,
    "tied": emission.tied_gaussian,
    "spherical": emission.spherical_gaussian,
}


@jax.jit
def modes(posterior):
    return posterior["weights"].mode(), posterior["components"].mode()


def squeezed(posterior, covariance):
    """Weights, means (K, D) and precisions as scikit-learn has them."""
    weights, (mean, precision) = jax.tree.map(np.asarray, modes(posterior))
    return (
        (weights, mean[..., 0], precision[:, 0, 0])
        if covariance == "spherical"
        else (weights, mean, precision)
    )


@pytest.mark.parametrize("covariance", EMISSIONS)
def test_one_step_of_em(covariance):
    with jax.enable_x64(True):
        make = EMISSIONS[covariance]
        alg = vi.em(vi.models.mixture(make(K, D), init=vi.init.random_responsibilities()))
        state = jax.jit(lambda key: alg.init(key, Y))(jax.random.key(0))
        step = jax.jit(alg.step)
        for _ in range(3):
            old, (state, info) = state.posterior, step(jax.random.key(0), state, Y)
            before, after = squeezed(old, covariance), squeezed(state.posterior, covariance)
            names = ("weights_init", "means_init", "precisions_init")
            start = dict(zip(names, before, strict=True))
            peer = fitted(
                GaussianMixture(K, covariance_type=covariance, reg_covar=0.0, max_iter=1, **start)
            )
            weights, mean, precision = after
            np.testing.assert_allclose(weights, peer.weights_, rtol=1e-9)
            np.testing.assert_allclose(mean, peer.means_, rtol=1e-8, atol=rounding(peer.means_))
            precisions = peer.precisions_
            np.testing.assert_allclose(precision, precisions, rtol=1e-8, atol=rounding(precisions))
            np.testing.assert_allclose(info.elbo / len(Y), peer.lower_bound_, rtol=1e-10)


def test_one_step_of_variational_bayes():
    """Dirichlet weights, normal-Wishart components; its parameters before and after one more
    iteration."""
    prior = {
        "weight_concentration_prior": 0.3,
        "mean_precision_prior": 0.2,
        "degrees_of_freedom_prior": 4.5,
    }
    location, scale = np.array([0.3, -0.2]), np.array([[0.6, 0.1], [0.1, 0.4]])
    peer = BayesianGaussianMixture(
        n_components=K,
        weight_concentration_prior_type="dirichlet_distribution",
        mean_prior=location,
        covariance_prior=np.linalg.inv(scale),
        reg_covar=0.0,
        max_iter=2,
        warm_start=True,
        random_state=0,
        **prior,
    )

    def posterior():
        degrees = peer.degrees_of_freedom_
        inverse = np.linalg.inv(peer.covariances_ * degrees[:, None, None])
        components = vi.NormalWishart.from_parameters(
            *map(jnp.asarray, (peer.means_, peer.mean_precision_, degrees, inverse))
        )
        weights = vi.Dirichlet.from_concentration(jnp.asarray(peer.weight_concentration_))
        return vi.Product({"weights": weights, "components": components})

    with jax.enable_x64(True):
        made = emission.full_gaussian(K, D, location, 0.2, 4.5, scale)
        alg = vi.cavi(vi.models.mixture(made, concentration=0.3, init=vi.init.prior()))
        fitted(peer)
        state = jax.jit(lambda key: alg.init(key, Y))(jax.random.key(0))
        step = jax.jit(alg.step)
        for _ in range(3):
            state = state._replace(posterior=posterior())
            new = step(jax.random.key(0), state, Y)[0].posterior
            peer.set_params(max_iter=1)
            fitted(peer)
            expected = posterior()
            for ours, theirs in zip(jax.tree.leaves(new), jax.tree.leaves(expected), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
