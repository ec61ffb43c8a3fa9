"""Schedules and ramps against their formulas, and their bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming


def test_robbins_monro_is_its_formula_and_never_exceeds_one():
    rho = vi.step_size.robbins_monro(scale=3.0, offset=1.0, kappa=0.75)
    t = np.arange(6)
    np.testing.assert_allclose(
        [rho(i) for i in t], np.minimum(1, 3.0 * (t + 1.0) ** -0.75), rtol=1e-6
    )


def test_hold_then_decay_is_the_schedule_of_seed_000_section_4_2():
    rho = vi.step_size.hold_then_decay(hold=200, rho=1.0, kappa=0.5)
    assert float(rho(199)) == 1.0
    np.testing.assert_allclose(float(rho(499)), 300**-0.5, rtol=1e-6)


@pytest.mark.parametrize(
    ("schedule", "exact"),
    [
        (vi.step_size.robbins_monro(0.7, 3.0, 0.6), lambda t: 0.7 * (t + 3.0) ** -0.6),
        (vi.step_size.hold_then_decay(5, 0.9, 0.7), lambda t: 0.9 * (t - 4.0) ** -0.7),
        (vi.step_size.proximal(0.3), lambda t: 0.3 / 1.3),
        (vi.step_size.constant(0.3), lambda t: 0.3),
        (
            vi.step_size.beta(30.0, vi.step_size.robbins_monro(kappa=1.0)),
            lambda t: 30.0 / (t + 1.0),
        ),
    ],
)
def test_schedules_are_of_the_working_precision(schedule, exact):
    t = 123_457
    assert schedule(jnp.int32(t)).dtype == jnp.float32
    np.testing.assert_allclose(schedule(jnp.int32(t)), exact(t), rtol=2e-6)
    with jax.enable_x64(True):
        assert schedule(jnp.int32(t)).dtype == jnp.float64
        np.testing.assert_allclose(schedule(jnp.int32(t)), exact(t), rtol=1e-15)


def test_a_state_in_float32_stays_one_under_x64():
    model = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(jnp.float32(2.0), jnp.float32(3.0))}),
        local_elbo=lambda s, y, key: (y * s["bias"].log, None),
    )
    alg = vi.svi(model, num_groups=3)
    with jax.enable_x64(True):
        state, _ = jax.jit(alg.step)(
            jax.random.key(0), alg.init(jax.random.key(0)), jnp.ones(3, jnp.float32)
        )
    assert state.posterior["bias"].alpha.dtype == jnp.float32


def test_ramp_reaches_the_whole_set_after_its_sweeps():
    grow = vi.step_size.ramp(sweeps=2.0)
    assert float(grow(0, 1000.0, 100.0)) == 50.0
    assert float(grow(19, 1000.0, 100.0)) == 1000.0
    assert float(grow(50, 1000.0, 100.0)) == 1000.0
    assert vi.step_size.no_ramp()(0, 1000.0, 100.0) == 1000.0


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: vi.step_size.constant(0.0), "rho"),
        (lambda: vi.step_size.constant(1.5), "rho"),
        (lambda: vi.step_size.robbins_monro(scale=-1.0), "scale"),
        (lambda: vi.step_size.robbins_monro(offset=0.5), "offset"),
        (lambda: vi.step_size.robbins_monro(kappa=2.0), "kappa"),
        (lambda: vi.step_size.hold_then_decay(hold=-1), "hold"),
        (lambda: vi.step_size.ramp(sweeps=0.0), "sweeps"),
        (lambda: vi.step_size.beta(0.0), "scale"),
    ],
)
def test_bad_arguments_are_named(make, argument):
    with pytest.raises(ValueError, match=f"^{argument}: expected"):
        make()


@pytest.mark.parametrize("algorithm", [vi.svi, vi.ssvi_a, vi.cavi])
def test_a_bare_number_is_no_schedule(algorithm):
    coin = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    with pytest.raises(ValueError, match=naming("step_size:", "vijax.step_size", "0.1")):
        algorithm(coin, step_size=0.1)


def test_the_share_of_the_data_chooses_the_rule():
    rule = vi.step_size.by_share(
        vi.step_size.constant(0.5), lambda share: vi.step_size.constant(share)
    )
    assert [float(rule.choose(share)(0)) for share in (1.0, 0.25)] == [0.5, 0.25]
