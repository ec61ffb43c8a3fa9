"""Models of energies that are made again from the same functions: equal, so that nothing is
compiled, and pickled."""

import gc
import pickle
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests import programs

Y = np.random.default_rng(0).normal(size=12)
COINS = np.where(Y > 0, 1.0, 0.0)


def gaussian(s, y, hyper):
    return 0.5 * (
        s["tau"].log - s["tau"].value * (y**2 - 2 * y * s["mean"].value + s["mean"].square)
    )


def coupling(s, hyper):
    return 0.5 * (s["tau"].log - hyper["ridge"] * s["tau"].value * s["mean"].square)


def curve(s, y, hyper):
    return 0.5 * (s["tau"].log - s["tau"].value * (y - s["w"] - jnp.sum(hyper["shift"])) ** 2)


def prior_of_w(s, hyper):
    return -0.5 * s["w"] ** 2


def coin(s, y, key):
    return y * s["bias"].log + (1 - y) * s["bias"].log1m, None


def hierarchy(ridge=1.5):
    mean = vi.conditional(vi.Normal.from_mean_variance(0.0, 1.0))
    return vi.energy_model(
        globals={"tau": vi.Gamma.from_shape_rate(2.0, 1.0), "mean": mean},
        energy=gaussian,
        prior_energy=coupling,
        hyper={"ridge": ridge},
        example=np.zeros(()),
    )


def free_beside_conjugate():
    return vi.energy_model(
        globals={"w": vi.free(), "tau": vi.Gamma.from_shape_rate(2.0, 1.0)},
        energy=curve,
        prior_energy=prior_of_w,
        points={"shift": jnp.zeros(2)},
        example=np.zeros(()),
    )


def by_hand():
    return vi.model(prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}, local_elbo=coin)


MODELS = {
    "hierarchy": (vi.cavi, hierarchy, Y),
    "free beside conjugate": (vi.svi, free_beside_conjugate, Y),
    "by hand": (vi.cavi, by_hand, COINS),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_made_again_is_equal_and_compiles_nothing(name):
    row, make, data = MODELS[name]
    fit = lambda alg: vi.fit(alg, data, key=jax.random.key(0), num_steps=3)
    first = fit(row(make()))
    again = pickle.loads(pickle.dumps(first))
    before = programs.compiled()
    second, third = fit(row(make())), fit(again.alg)
    assert programs.names_since(before) == []
    assert make() == make() == pickle.loads(pickle.dumps(make())) == again.alg.spec.model
    for other in (again, second, third):
        np.testing.assert_array_equal(other.trace["elbo"], first.trace["elbo"])


def test_a_model_of_other_settings_is_another():
    assert hierarchy(1.5) == hierarchy(1.5) != hierarchy(2.0)
    assert dict(hierarchy(2.0).hyper) == {"ridge": 2.0}


def test_a_model_of_an_inner_function_is_one_while_it_is_in_use():
    """Such a function may hold data, which must not outlive the model."""
    bound = lambda s, y, key: coin(s, y, key)
    make = lambda: vi.model(prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}, local_elbo=bound)
    model = make()
    assert make() is model
    held = weakref.ref(model)
    del model
    gc.collect()
    assert held() is None
