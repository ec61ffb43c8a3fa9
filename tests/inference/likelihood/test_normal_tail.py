"""The polynomial of the normal tail, and log Phi with its derivatives, against 40 digits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.families.oracles import mp
from vijax.inference.likelihood.normal_tail import excess, log_ndtr


def exact(z):
    """log Phi, its first and its second derivative."""
    with mp.workdps(40):
        z = mp.mpf(float(z))
        beyond = mp.erfc(abs(z) / mp.sqrt(2)) / 2
        phi = mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)
        value, slope = (
            (mp.log(beyond), phi / beyond) if z < 0 else (mp.log1p(-beyond), phi / (1 - beyond))
        )
        return [float(x) for x in (value, slope, -slope * (slope + z))]


@pytest.mark.parametrize(("is_double", "rtol"), [(False, 3e-6), (True, 3e-14)])
def test_log_phi_and_its_derivatives_have_their_digits_in_both_tails(is_double, rtol):
    z = np.float32([-1e4, -300.0, -30.0, -5.1, -4.9, -1.0, -1e-3, 0.0, 0.5, 3.0, 7.0, 11.0])
    want = np.array([exact(x) for x in z])
    with jax.enable_x64(is_double):
        at = jnp.asarray(z, jnp.float64 if is_double else jnp.float32)
        three = log_ndtr, jax.grad(log_ndtr), jax.grad(jax.grad(log_ndtr))
        got = jax.jit(lambda z: [jax.vmap(f)(z) for f in three])(at)
    np.testing.assert_allclose(np.stack(got, 1), want, rtol=rtol)


def test_the_excess_of_a_normal_tail():
    with jax.enable_x64(True):
        x = np.array([0.0, 0.3, 4.0, 60.0])
        got = jax.jit(excess)(jnp.asarray(x))
    want = [-exact(-v)[2] / exact(-v)[1] for v in x]  # g = -l'' / l'
    np.testing.assert_allclose(got, want, rtol=2e-14)
