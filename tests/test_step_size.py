"""Schedules and ramps against their formulas, and their bad input."""

import numpy as np
import pytest

import vijax as vi


def test_robbins_monro_is_its_formula_and_never_exceeds_one():
    rho = vi.step_size.robbins_monro(scale=3.0, offset=1.0, kappa=0.75)
    t = np.arange(6)
    np.testing.assert_allclose([rho(i) for i in t], np.minimum(1, 3.0 * (t + 1.0) ** -0.75), rtol=1e-6)


def test_hold_then_decay_is_the_schedule_of_seed_000_section_4_2():
    rho = vi.step_size.hold_then_decay(hold=200, rho=1.0, kappa=0.5)
    assert float(rho(199)) == 1.0
    np.testing.assert_allclose(float(rho(499)), 300**-0.5, rtol=1e-6)


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
    with pytest.raises(ValueError, match=r"step_size: expected a schedule of vijax\.step_size, got 0\.1\. vijax"):
        algorithm(coin, step_size=0.1)
