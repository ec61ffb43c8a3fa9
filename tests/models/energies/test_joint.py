"""Locals kept joint, against sums over all their values."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import vijax as vi
from tests.naming import naming

Y = np.array([0.3, 2.5, -1.0, 4.0])
PLACES, PRIOR = np.array([-1.0, 0.5, 2.0]), np.log([0.5, 0.2, 0.3])
HALVES = np.array([1.0, -2.0])


def energy(s, y):
    """y ~ N(PLACES[z] + b u + <HALVES, v>, 1), z ~ PRIOR, and u and v_1, v_2 fair coins."""
    place, b, u, v = s["z"].one_hot @ PLACES, s["b"], s["u"].value, s["v"].value
    squares = (
        s["z"].one_hot @ PLACES**2
        + b.square * u
        + v @ HALVES**2
        + 2 * HALVES[0] * HALVES[1] * v[0] * v[1]
    )
    products = place * b.value * u + (place + b.value * u) * (v @ HALVES)
    spread = y**2 - 2 * y * (place + b.value * u + v @ HALVES) + squares + 2 * products
    return s["z"].one_hot @ PRIOR + 3 * jnp.log(0.5) - 0.5 * (spread + jnp.log(2 * jnp.pi))


def model(*joint):
    half = vi.Bernoulli.from_probs([0.5, 0.5])
    return vi.energy_model(
        globals={"b": vi.Normal.from_mean_variance(0.0, 1.0)},
        locals={
            "z": vi.Categorical.from_probs([0.4, 0.3, 0.3]),
            "u": vi.Bernoulli.from_probs(0.4),
            "v": half,
        },
        energy=energy,
        example=0.0,
        structure=vi.Structure(joint=joint),
    )


def enumerated(b, y):
    """log p(y, z, u, v | b) of every value, z slowest."""
    values = itertools.product(range(3), (0, 1), (0, 1), (0, 1))
    means = np.array([(PLACES[z] + b * u + HALVES @ v, PRIOR[z]) for z, u, *v in values])
    return means[:, 1] + 3 * np.log(0.5) - 0.5 * ((y - means[:, 0]) ** 2 + np.log(2 * np.pi))


def bound(joint, b):
    """Bounds at the point b, and the locals' probabilities."""
    with jax.enable_x64(True):
        m, estep = model(*joint), vi.estep.mean_field(max_iters=1000, tol=1e-12)
        batch, key = vi.Minibatch(jnp.asarray(Y), None), jax.random.key(0)
        said = jax.jit(lambda s: m.local_elbo({}, s, batch, key, estep))(
            m.prior({}).stats({"b": jnp.float64(b)})
        )
        return np.asarray(said.per_group), {
            name: np.asarray(q.probs) for name, q in said.local.items()
        }


def test_all_joint_is_exact():
    """Bound and posterior table; v_1 v_2 is in the energy, which is linear in v only where v is
    kept joint."""
    values, local = bound([("z", "u", "v")], 0.7)
    exact = np.array([enumerated(0.7, y) for y in Y])
    np.testing.assert_allclose(values, special.logsumexp(exact, 1), rtol=1e-10)
    np.testing.assert_allclose(local["z, u, v"], special.softmax(exact, 1), rtol=1e-9)


def test_the_more_is_joint_the_tighter():
    exact = np.array([special.logsumexp(enumerated(0.7, y)) for y in Y])
    apart = bound([("v",)], 0.7)[0]
    pair, local = bound([("z", "v")], 0.7)
    assert np.all(apart < pair)
    assert np.all(pair < exact)
    assert local["z, v"].reshape(4, 3, 4).shape == (4, 3, 4)
    assert set(local) == {"z, v", "u"}


def test_coordinate_ascent_of_joint_groups():
    """Never falls; and the posterior of b, by quadrature, is found up to mean field between b and
    the rest."""
    with jax.enable_x64(True):
        fit = vi.fit(vi.cavi(model(("z", "v"))), Y, num_steps=60, key=jax.random.key(0))
    elbo = fit.trace["elbo"]
    assert np.all(np.diff(elbo) >= -1e-9 * np.abs(elbo[1:]))
    grid = np.linspace(-8, 8, 4001)
    logs = np.array([sum(special.logsumexp(enumerated(b, y)) for y in Y) for b in grid])
    evidence = special.logsumexp(logs - 0.5 * grid**2 - 0.5 * np.log(2 * np.pi)) + np.log(
        grid[1] - grid[0]
    )
    assert evidence - 1.0 < elbo[-1] < evidence


def test_gibbs_steps_and_draws():
    m = model(("z", "v"))
    fit = vi.fit(
        vi.ssvi_a(m, estep=vi.estep.gibbs()), Y, num_epochs=5, batch_size=2, key=jax.random.key(0)
    )
    draws = vi.reference.gibbs(m, Y, num_samples=10, key=jax.random.key(0))
    assert np.isfinite(fit.posterior["b"].mean())
    assert np.all(np.isfinite(draws.globals["b"]))


@pytest.mark.parametrize(
    ("joint", "message"),
    [
        ([("z", "w")], r"joint: expected names among the locals \['z', 'u', 'v'\], got \['w'\]"),
        ([("z", "u"), ("u",)], "each name in one group at most"),
    ],
)
def test_groups_that_cannot_be(joint, message):
    with pytest.raises(ValueError, match=message):
        model(*joint)


def test_locals_that_cannot_be_enumerated():
    def two(q):
        return vi.energy_model(
            globals={"b": vi.Normal.from_mean_variance(0.0, 1.0)},
            locals={"x": q, "u": vi.Bernoulli.from_probs(0.5)},
            energy=lambda s, y: s["u"].value * s["b"].value,
            example=0.0,
            structure=vi.Structure(joint=[("x", "u")]),
        )

    with pytest.raises(ValueError, match=naming("Bernoulli", "'x'", "Normal")):
        two(vi.Normal.from_mean_variance(0.0, 1.0))
    with pytest.raises(ValueError, match=naming("4096", "20", "'x'")):
        two(vi.Bernoulli.from_probs(np.full(20, 0.5)))
