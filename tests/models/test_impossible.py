"""Structural zeros: probability zero exactly, bounds and messages against enumeration of what is
possible."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import vijax as vi
from tests.naming import naming
from vijax.models.energies.discrete import PENALTY
from vijax.reference.log_joint import log_joint

KEY = jax.random.key(0)
ESTEPS = {"mean_field": vi.estep.mean_field(), "gibbs": vi.estep.gibbs(3, 1)}
POINT = {"m": jnp.array([-1.0, 0.5, 2.0])}
MEANS = {"m": vi.Normal.from_mean_variance(jnp.zeros(3), 1.0)}


def at_point(model, data, estep, point=POINT):
    """Bound of each group, locals, and the message, at a point of the globals."""
    stats = model.prior({}).stats(point)
    batch = vi.Minibatch(data, None)

    def total(stats):
        said = model.local_elbo({}, stats, batch, KEY, estep)
        return said.total, said

    (_, said), message = jax.jit(jax.value_and_grad(total, has_aux=True))(stats)
    return np.asarray(said.per_group), said.local, message


def restricted_mixture():
    """Three components, of which each group may use some."""

    def energy(s, group):
        return jnp.vdot(s["z"].one_hot, group["y"] * s["m"].value - 0.5 * s["m"].square)

    return vi.energy_model(
        globals=MEANS,
        locals={"z": vi.Categorical.from_probs([0.2, 0.3, 0.5])},
        energy=energy,
        structure=vi.Structure(
            impossible=lambda s, group: jnp.vdot(1.0 - group["allowed"], s["z"].one_hot)
        ),
        example={"y": 0.0, "allowed": np.ones(3)},
    )


@pytest.mark.parametrize("estep", ESTEPS)
def test_a_component_that_a_group_cannot_use_has_probability_zero(estep):
    """However well it fits: the second group's y = 1e6 is 3e6 nats likelier under what it cannot
    use."""
    y, allowed = np.array([0.3, 1e6, -0.7]), np.array([[1.0, 1, 1], [1, 1, 0], [0, 1, 0]])
    data = {"y": jnp.asarray(y, jnp.float32), "allowed": jnp.asarray(allowed, jnp.float32)}
    bound, local, message = at_point(restricted_mixture(), data, ESTEPS[estep])
    m = np.asarray(POINT["m"], np.float64)
    terms = np.where(allowed > 0, y[:, None] * m - 0.5 * m**2, -np.inf)
    np.testing.assert_allclose(bound, logsumexp(terms, 1), rtol=3e-6)
    assert np.all(np.asarray(local["z"].probs)[allowed == 0] == 0.0)
    if estep == "mean_field":
        probs = np.exp(terms - logsumexp(terms, 1)[:, None])
        np.testing.assert_allclose(message["m"].square, -0.5 * probs.sum(0), rtol=1e-5)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(message))


def left_to_right(num_steps=5):
    """An HMM that stays or goes one state on; rows of transitions learnt, over what is allowed."""
    allowed = np.eye(3) + np.eye(3, k=1) > 0
    first = np.array([True, False, False])

    def energy(s, y):
        z = s["z"]
        fit = y[:, None] * s["m"].value - 0.5 * s["m"].square
        return jnp.vdot(z.unary, fit) + jnp.vdot(
            z.transition, jnp.where(allowed, s["rows"].log, 0.0)
        )

    def impossible(s, y):
        z = s["z"]
        return jnp.sum(jnp.where(allowed, 0.0, z.transition)) + jnp.sum(
            jnp.where(first, 0.0, z.initial)
        )

    start = vi.MarkovChain.from_probs(np.ones(3) / 3, np.ones((3, 3)) / 3, num_steps)
    rows = vi.Dirichlet.from_concentration(jnp.where(allowed, 1.5, 1e-20))
    return vi.energy_model(
        globals={**MEANS, "rows": rows},
        locals={"z": start},
        energy=energy,
        structure=vi.Structure(impossible=impossible),
        example=np.zeros(num_steps),
    ), allowed


@pytest.mark.parametrize("estep", ESTEPS)
def test_forbidden_transitions_of_a_chain(estep):
    model, allowed = left_to_right()
    rng = np.random.default_rng(0)
    y = rng.normal(size=(4, 5))
    y[0] = [2.0, 2.0, -1.0, -1.0, -40.0]  # ends where no way leads back to
    probs = np.array([[0.3, 0.7, 0.0], [0.0, 0.6, 0.4], [0.0, 0.0, 1.0]])
    log_rows = np.where(allowed, np.log(np.where(allowed, probs, 1.0)), -np.inf)
    point = {**POINT, "rows": jnp.asarray(np.maximum(probs, 1e-30), jnp.float32)}
    bound, local, message = at_point(model, jnp.asarray(y, jnp.float32), ESTEPS[estep], point)
    m = np.asarray(POINT["m"], np.float64)
    paths = np.array(list(itertools.product(range(3), repeat=5)))
    fit = y[:, :, None] * m - 0.5 * m**2
    terms = np.take_along_axis(fit, np.broadcast_to(paths.T, (4, 5, 243)), 2).sum(1)
    terms = (
        terms
        + log_rows[paths[:, :-1], paths[:, 1:]].sum(1)
        + np.where(paths[:, 0] == 0, 0.0, -np.inf)
    )
    np.testing.assert_allclose(bound, logsumexp(terms, 1), rtol=2e-6)
    means = jax.vmap(lambda q: q.expected_stats())(local["z"])
    assert np.all(np.asarray(means.transition)[:, ~allowed] == 0.0)
    assert np.all(np.asarray(means.initial)[:, 1:] == 0.0)
    assert np.all(np.asarray(means.unary)[:, 0, 1:] == 0.0)
    assert np.all(np.asarray(means.unary)[:, 1, 2] == 0.0)  # nobody is two states on after one step
    if estep == "mean_field":
        law = np.exp(terms - logsumexp(terms, 1)[:, None])
        counts = np.stack(
            [
                [(np.sum((p[:-1] == i) & (p[1:] == j))) for i in range(3) for j in range(3)]
                for p in paths
            ]
        )
        expected = (law @ counts).sum(0).reshape(3, 3)
        np.testing.assert_allclose(message["rows"].log, expected, rtol=1e-5, atol=1e-6)


def test_a_dirichlet_of_concentration_1e_20_is_one_over_the_other_classes():
    """A fit of the chain has the rows of Dirichlets over two classes, and of one that is
    certain."""
    model, allowed = left_to_right()
    y = jnp.asarray(np.random.default_rng(1).normal(size=(6, 5)), jnp.float32)
    fit = vi.fit(vi.cavi(model), y, num_steps=8, key=KEY)
    rows = fit.posterior["rows"]
    concentration = np.asarray(rows.concentration)
    np.testing.assert_allclose(concentration[~allowed], 1e-20, rtol=1e-6)
    small = vi.Dirichlet.from_concentration(concentration[:2][allowed[:2]].reshape(2, 2))
    np.testing.assert_allclose(
        np.asarray(rows.expected_stats().log)[:2][allowed[:2]].reshape(2, 2),
        small.expected_stats().log,
        rtol=1e-5,
    )
    prior = model.prior({})["rows"]
    two = vi.Dirichlet.from_concentration(np.full((2, 2), 1.5))
    np.testing.assert_allclose(rows.kl(prior)[:2], small.kl(two), rtol=1e-4)
    np.testing.assert_allclose(rows.kl(prior)[2], 0.0, atol=1e-5)


TABLE = np.array([[0.0, 0.3, -0.4], [0.6, 1.1, 0.0], [-0.2, 0.5, 0.4]])


def different(joint=(), start=(1 / 3, 1 / 3, 1 / 3)):
    """Two classes that cannot be equal: given all that the other may be, none is possible."""
    return vi.energy_model(
        globals={"m": vi.Normal.from_mean_variance(1.0, 1.0)},
        locals={"z1": vi.Categorical.from_probs(start), "z2": vi.Categorical.from_probs(start)},
        energy=lambda s, y: (
            s["m"].value * jnp.einsum("i,j,ij", s["z1"].one_hot, s["z2"].one_hot, y)
        ),
        structure=vi.Structure(
            impossible=lambda s, y: jnp.vdot(s["z1"].one_hot, s["z2"].one_hot), joint=joint
        ),
        example=np.zeros((3, 3)),
    )


def different_evidence():
    return logsumexp(TABLE[~np.eye(3, dtype=bool)])


@pytest.mark.parametrize("start", [(1 / 3, 1 / 3, 1 / 3), (0.5, 0.3, 0.2)])
def test_mean_field_finds_a_possible_optimum_from_a_start_at_which_nothing_is_possible(start):
    data, one = jnp.asarray(TABLE, jnp.float32)[None], {"m": jnp.float32(1.0)}
    bound, local, _ = at_point(different(start=start), data, vi.estep.mean_field(), one)
    p1, p2 = (np.asarray(local[name].probs[0], np.float64) for name in ("z1", "z2"))
    assert p1 @ p2 == 0.0
    entropy = -sum(np.sum(p[p > 0] * np.log(p[p > 0])) for p in (p1, p2))
    np.testing.assert_allclose(bound[0], p1 @ TABLE @ p2 + entropy, rtol=1e-5)
    assert np.max(TABLE[~np.eye(3, dtype=bool)]) <= bound[0] <= different_evidence()


@pytest.mark.parametrize("estep", ESTEPS)
def test_joint_locals_are_exact_where_they_exclude_each_other(estep):
    data, one = jnp.asarray(TABLE, jnp.float32)[None], {"m": jnp.float32(1.0)}
    bound, local, message = at_point(different(joint=[("z1", "z2")]), data, ESTEPS[estep], one)
    np.testing.assert_allclose(bound[0], different_evidence(), rtol=1e-5)
    table = np.asarray(local["z1, z2"].probs).reshape(3, 3)
    assert np.all(np.diag(table) == 0.0)
    assert np.isfinite(message["m"].value)


def test_gibbs_draws_nothing_impossible():
    data, one = jnp.asarray(TABLE, jnp.float32)[None], {"m": jnp.float32(1.0)}
    bounds = [at_point(different(), data, vi.estep.gibbs(20, b), one)[0] for b in (1, 2)]
    assert all(np.isfinite(b).all() and b[0] > -20 for b in bounds)


def test_a_bernoulli_that_must_be_one():
    """Its energy at zero is impossible: the finite part must survive beside the penalty."""
    model = vi.energy_model(
        globals={"m": vi.Normal.from_mean_variance(1.0, 1.0)},
        locals={"x": vi.Bernoulli.from_probs(0.5)},
        energy=lambda s, y: y * s["m"].value + 0.7 * s["x"].value,
        structure=vi.Structure(impossible=lambda s, y: jnp.where(y > 0, 1.0 - s["x"].value, 0.0)),
        example=0.0,
    )
    y = np.array([0.4, -0.4])
    one = {"m": jnp.float32(1.0)}
    expected = [0.4 + 0.7, -0.4 + np.logaddexp(0.0, 0.7)]
    for estep in ESTEPS.values():
        bound, local, message = at_point(model, jnp.asarray(y, jnp.float32), estep, one)
        np.testing.assert_allclose(bound, expected, rtol=1e-5)
        assert local["x"].probs[0] == 1.0
        np.testing.assert_allclose(message["m"].value, 0.0, atol=1e-6)
    density = log_joint(model, jnp.asarray(y, jnp.float32))
    prior = -0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(
        density({"m": jnp.float32(1.0)}, {}), prior + sum(expected), rtol=1e-5
    )


def test_couplings_are_found_beside_what_is_impossible():
    """Which a large negative number in the energy would hide: m and z share a term of order one."""
    model = vi.energy_model(
        globals={
            "m": vi.Normal.from_mean_variance(1.0, 1.0),
            "k": vi.Normal.from_mean_variance(1.0, 1.0),
        },
        locals={"z1": vi.Bernoulli.from_probs(0.5), "z2": vi.Bernoulli.from_probs(0.5)},
        energy=lambda s, y: y * s["m"].value * s["k"].value * s["z1"].value,
        structure=vi.Structure(impossible=lambda s, y: s["z1"].value * s["z2"].value),
        example=1.0,
    )
    assert model.blocks == (("k",), ("m",))
    assert model.queries["energy"].local_blocks == (("z1",), ("z2",))


def test_the_count_is_checked():
    def make(impossible):
        return vi.energy_model(
            globals={"m": vi.Normal.from_mean_variance(1.0, 1.0)},
            locals={"z": vi.Bernoulli.from_probs(0.5)},
            energy=lambda s, y: y * s["m"].value * s["z"].value,
            structure=vi.Structure(impossible=impossible),
            example=1.0,
        )

    with pytest.raises(
        ValueError,
        match=naming("impossible:", "-0.5"),
    ):
        make(lambda s, y: -s["z"].value)
    with pytest.raises(ValueError, match=naming("impossible:", "'z'")):
        make(lambda s, y: s["z"].value ** 2)
    with pytest.raises(ValueError, match=r"^impossible: expected a scalar"):
        make(lambda s, y: jnp.ones(2) * s["z"].value)
    with pytest.raises(ValueError, match=naming("impossible:", "name")):
        make(lambda s, y: s["zz"].value)
    assert np.finfo(np.float32).min < PENALTY * 1e18
