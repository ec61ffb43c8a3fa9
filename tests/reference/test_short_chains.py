"""Short chains from q: where q is the posterior nothing moves, elsewhere as far as is known in
closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import vijax as vi
from tests.programs import compiled
from vijax.reference import metropolis_hastings, short_chains

pytest.importorskip("blackjax")

KEY = jax.random.key(1)
PRECISION = np.array(
    [[12.0, -10.0], [-10.0, 10.0]]
)  # variances .5 and .6; given the other 1/12 and 1/10
PAIR = vi.density(
    {"x": vi.free((2,))}, lambda v: -0.5 * v["x"] @ jnp.asarray(PRECISION, v["x"].dtype) @ v["x"]
)
COIN = vi.energy_model(
    globals={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
    energy=lambda s, y: y * s["bias"].log + (1 - y) * s["bias"].log1m,
    example=0.0,
)


def flips(heads, tails):
    return np.repeat([1.0, 0.0], [heads, tails])


def test_a_q_that_is_the_posterior_stays():
    for fit, data in (
        (vi.auto(PAIR, key=jax.random.key(0)), None),
        (vi.fit(vi.cavi(COIN), flips(7, 3), num_steps=2, key=jax.random.key(0)), flips(7, 3)),
    ):
        moved = short_chains(fit, data, key=KEY)
        assert moved.acceptance > 0.7
        for move, error in ((moved.mean, moved.mean_error), (moved.log_sd, moved.log_sd_error)):
            for a, b in zip(jax.tree.leaves(move), jax.tree.leaves(error), strict=True):
                np.testing.assert_array_less(np.abs(a), 4 * b)
                np.testing.assert_array_less(b, 0.12)
        assert moved.clear == []
        assert str(moved).endswith("these chains find nothing wrong with q.")


def test_unknowns_that_are_hidden_move_and_what_is_derived_is_named():
    double = lambda v: {"double": 2 * v["_x"]}
    model = vi.density({"_x": vi.free()}, lambda v: -0.5 * (v["_x"] - 1) ** 2, derived=double)
    moved = short_chains(vi.auto(model, key=jax.random.key(0)), key=KEY)
    assert list(moved.mean) == ["double"]
    assert abs(moved.mean["double"]) < 4 * moved.mean_error["double"] < 0.5
    draws = metropolis_hastings(model, None, key=KEY, num_samples=2000, scale=2.0).globals
    assert list(draws) == ["double"]
    np.testing.assert_allclose(draws["double"].mean(), 2.0, atol=0.3)


def test_of_many_numbers_none_is_said_to_be_wrong_by_chance():
    """Of 120 means and deviations, five times, one or two are beyond three standard errors."""
    many = vi.density({"x": vi.free((60,))}, lambda v: -0.5 * jnp.sum(v["x"] ** 2))
    fit = vi.auto(many, key=jax.random.key(0))
    for seed in range(5):
        assert short_chains(fit, key=jax.random.key(seed), num_chains=256, num_steps=4).clear == []


def test_mean_field_is_too_narrow_by_as_much_as_theory_says():
    fit = vi.fit(vi.advi(PAIR), num_steps=1500, key=jax.random.key(0))
    moved = short_chains(fit, key=KEY, num_chains=2048, num_steps=30)
    expected = 0.5 * np.log(np.diag(PRECISION) * np.diag(np.linalg.inv(PRECISION)))
    np.testing.assert_array_less(
        np.abs(moved.log_sd["x"] - expected), 5 * moved.log_sd_error["x"] + 0.03
    )
    assert moved.clear == ["x"]
    assert str(moved).startswith(
        "q is not the posterior. Moved by more than noise does: x (a standard dev"
    )


def test_a_q_of_other_data_goes_to_the_posterior():
    fit = vi.fit(vi.cavi(COIN), flips(3, 7), num_steps=2, key=jax.random.key(0))  # Beta(4, 8)
    moved = short_chains(fit, flips(7, 3), key=KEY, num_chains=2048, num_steps=30)  # Beta(8, 4)
    sd = np.sqrt(4 * 8 / (12**2 * 13))
    np.testing.assert_allclose(
        moved.mean["bias"], (8 - 4) / 12 / sd, atol=5 * moved.mean_error["bias"]
    )
    np.testing.assert_allclose(moved.log_sd["bias"], 0.0, atol=5 * moved.log_sd_error["bias"])
    assert "bias (a mean by +2." in str(moved)


def test_errors_are_those_of_repetitions():
    """Also of a mean that goes far, in deviations of q that are not known exactly."""
    fit = vi.fit(vi.cavi(COIN), flips(3, 7), num_steps=2, key=jax.random.key(0))
    found = [short_chains(fit, flips(7, 3), key=jax.random.key(i), num_steps=10) for i in range(12)]
    for name in ("mean", "log_sd"):
        spread = np.std([getattr(moved, name)["bias"] for moved in found], ddof=1)
        said = np.mean([getattr(moved, f"{name}_error")["bias"] for moved in found])
        assert 0.55 < spread / said < 1.5


def test_a_model_has_one_program():
    """Whatever the data of this shape, the fit, the key and the number of steps."""
    fits = [
        vi.fit(vi.cavi(COIN), flips(heads, 10 - heads), num_steps=2, key=KEY) for heads in (3, 5)
    ]
    short_chains(fits[0], flips(7, 3), key=KEY)
    more = []
    for steps in (11, 13):  # twice, for JAX forgets some of very many programs
        before = compiled()
        moved = [
            short_chains(fit, flips(2, 8), key=jax.random.key(steps), num_steps=steps)
            for fit in fits
        ]
        more.append(compiled() - before)
    assert min(more) == 0
    assert moved[0].mean["bias"] != moved[1].mean["bias"]


def test_learnt_hyperparameters_are_those_of_the_fit():
    """y ~ N(mu, 1), mu ~ N(0, v): at v = 1, as the model has it, the posterior lies three
    deviations lower."""
    model = vi.energy_model(
        globals=lambda h: {"mu": vi.Normal(0.0 * h["v"], -0.5 / h["v"])},
        energy=lambda s, y, h: y * s["mu"].value - 0.5 * s["mu"].square - 0.5 * y**2,
        example=0.0,
        hyper={"v": 1.0},
    )
    y = jnp.full(4, 8.0)
    alg = vi.cavi(model, learn=vi.learn("v", optimizer=optax.adam(0.3)))
    fit = vi.fit(alg, y, num_steps=300, key=jax.random.key(0))
    assert fit.state.hyper["v"] > 30
    assert short_chains(fit, y, key=KEY).clear == []
    before = fit.state._replace(hyper={"v": jnp.asarray(1.0)})
    moved = short_chains(fit._replace(state=before), y, key=KEY, num_steps=30)
    q = fit.posterior["mu"]
    expected = (8 * 4 / 5 - q.mean()) / q.variance() ** 0.5
    np.testing.assert_allclose(moved.mean["mu"], expected, atol=4 * moved.mean_error["mu"])
    np.testing.assert_array_less(moved.mean_error["mu"], 0.15)


def test_variables_of_networks_are_refused():
    model = vi.energy_model(
        globals={"rate": vi.free(support="positive", log_prior=lambda x: -x)},
        energy=lambda s, y: jnp.log(s["rate"]) - s["rate"] * y,
        example=1.0,
    )
    y = jnp.ones(5)
    fit = vi.fit(
        vi.compose(model, step_size=vi.step_size.constant(0.1)),
        y,
        num_steps=2,
        key=jax.random.key(0),
    )
    with pytest.raises(
        ValueError, match="model: expected a log density, or an energy without free variables"
    ):
        short_chains(fit, y, key=KEY)


@pytest.mark.parametrize(
    ("make", "settings", "said"),
    [
        (vi.map, {}, "fit: expected distributions of all globals, got points of \\['bias'\\]"),
        (vi.cavi, {"num_chains": 1}, "num_chains"),
        (vi.cavi, {"num_steps": 0}, "num_steps"),
    ],
)
def test_what_cannot_be_walked_is_refused(make, settings, said):
    fit = vi.fit(make(COIN), flips(7, 3), num_steps=2, key=jax.random.key(0))
    with pytest.raises(ValueError, match=said):
        short_chains(fit, flips(7, 3), key=KEY, **settings)
