"""Updates: the proximal steps solve their own problems; the retraction ends inside the domain and
says what it did."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.inference import move
from vijax.inference.estimator.base import Reads


def gamma(shape, rate):
    return vi.Product({"x": vi.Gamma.from_shape_rate(jnp.asarray(shape), jnp.asarray(rate))})


@pytest.fixture
def problem():
    return gamma([2.0, 3.0], [1.0, 0.5]), gamma([5.0, 0.5], [2.0, 4.0])


def proximal_objective(q, current, target, rho):
    """<-grad_mu ELBO, mu(q)> + D(q || current) (1 - rho) / rho, grad_mu ELBO = target - lambda:
    Khan et al. 2016, eq. 9."""
    r = (1 - rho) / rho
    # h = KL(q || prior + message) is the linearised objective, up to a constant.
    return q.kl(target) + r * q.kl(current)


def test_kl_step_minimises_the_proximal_objective(problem):
    q, target = problem
    rho = 0.3
    new, _ = vi.update.kl().propose(q, target, rho, ())
    slope = jax.grad(lambda p: proximal_objective(p, q, target, rho))(new)
    np.testing.assert_allclose(np.concatenate(jax.tree.leaves(slope)), 0.0, atol=2e-5)


def test_kl_step_of_size_one_lands_on_the_target(problem):
    q, target = problem
    for a, b in zip(
        jax.tree.leaves(vi.update.kl().propose(q, target, 1.0, ())[0]),
        jax.tree.leaves(target),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_euclidean_step_is_plain_gradient_ascent(problem):
    """d/dlambda of -KL(q_lambda || target) is F (target - lambda)."""
    q, target = problem
    step, _ = vi.update.euclidean().propose(q, target, 0.01, ())
    slope = jax.grad(lambda p: -p.kl(target))(q)
    for new, old, g in zip(*map(jax.tree.leaves, (step, q, slope)), strict=True):
        np.testing.assert_allclose(new - old, 0.01 * g, rtol=2e-3, atol=1e-5)


def test_retraction_replaces_exactly_what_left_the_domain_and_counts_it():
    prior = vi.Product({"p": vi.Dirichlet.from_concentration(jnp.full((2, 3), 0.1))})
    q = vi.Product({"p": vi.Dirichlet.from_concentration(jnp.ones((2, 3)))})
    proposal = q.with_naturals([jnp.array([[0.5, -1.0, 2.0], [-0.3, 0.2, 1.0]])])
    posterior, retractions = vi.update.retract(proposal, q, prior, 0.25)
    fallback = 0.75 * 1.0 + 0.25 * 0.1
    expected = [[0.5, fallback, 2.0], [fallback, 0.2, 1.0]]
    np.testing.assert_allclose(posterior["p"].concentration, expected, rtol=1e-6)
    assert int(retractions) == 2


def test_what_is_not_finite_is_not_retracted():
    """It is no step out of the domain but a failure, which the algorithm skips and reports: it must
    stay in sight."""
    q = vi.Product({"p": vi.Dirichlet.from_concentration(jnp.ones(3))})
    nan = q.with_naturals([jnp.array([jnp.nan, -1.0, 2.0])])
    moved, retractions = vi.update.retract(nan, q, q, 0.25)
    assert np.isnan(moved["p"].concentration[0])
    assert int(retractions) == 1
    eye = jnp.eye(2)
    normal = vi.MultivariateNormal.from_mean_precision(
        jnp.zeros((3, 2)), jnp.stack([eye, eye, eye])
    )
    events = vi.Product({"x": normal})
    proposal = events.with_naturals([jnp.zeros((3, 2)), jnp.stack([-eye, eye, jnp.nan * eye])])
    moved, retractions = vi.update.retract(proposal, events, events, 0.25)
    kept = jax.tree.leaves(moved)[1]
    np.testing.assert_array_equal(kept[1], jax.tree.leaves(events)[1][1])
    assert np.isnan(kept[2]).any()
    assert (
        int(retractions) == 3
    )  # both parameters of the event outside, the location of the one that is not finite


def test_a_retraction_stays_in_the_domain_where_the_step_size_is_a_beta():
    """Beyond one the combination of old and prior is convex no more: beta = 2 came to shape -28."""
    q, prior = gamma(30.0, 9.0), gamma(1.0, 1.0)
    posterior, retractions = vi.update.retract(gamma_like(q, -5.0, 5.0), q, prior, 2.0)
    np.testing.assert_array_equal([posterior["x"].shape, posterior["x"].rate], [1.0, 1.0])
    assert int(retractions) == 2


def gamma_like(q, shape, negative_rate):
    return q.with_naturals([jnp.float32(shape), jnp.float32(negative_rate)])


def test_only_updates_whose_step_size_is_a_beta_take_steps_above_one():
    coin = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(2.0, 3.0)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    full = vi.step_size.beta(2.0)
    alg = vi.cavi(coin, update=vi.update.symmetric_kl(), step_size=full)
    state, info = alg.step(
        jax.random.key(0), alg.init(jax.random.key(0)), jnp.array([1.0, 1.0, 0.0])
    )
    np.testing.assert_array_equal(
        [state.posterior["bias"].alpha, state.posterior["bias"].beta], [4.0, 4.0]
    )
    assert float(info.step_size) == 2.0
    with pytest.raises(ValueError, match=naming("step_size:", "1", "2.0")):
        vi.cavi(coin, step_size=full)
    with pytest.raises(ValueError, match=r"^step_size: expected steps of at most 1"):
        vi.pg_svi(coin, step_size=full)

    half = lambda q, target, size: vi.update.kl().propose(q, target, size / 2, ())[0]
    vi.cavi(coin, update=vi.update.proximal(half, "beta"), step_size=full)


def test_an_event_of_which_one_number_is_not_finite_stays_in_sight():
    normal = vi.MultivariateNormal.from_mean_precision(jnp.zeros(2), jnp.eye(2))
    q = vi.Product({"x": normal})
    proposal = q.with_naturals([jnp.array([1.0, jnp.nan]), -0.5 * jnp.eye(2)])
    moved, _ = jax.jit(vi.update.retract)(proposal, q, q, 0.25)
    assert np.isnan(jax.tree.leaves(moved)[0]).any()


def test_a_mirror_step_that_leads_nowhere_is_not_taken():
    """Halved thirty times it is still outside: mean parameters of a rate below zero."""
    q, target = vi.Gamma.from_shape_rate(2.0, 1.0), vi.Gamma.from_shape_rate(2.0, 1e6)
    new = jax.jit(lambda q, target: vi.update.mirror().propose(q, target, 1e30, ())[0])(q, target)
    for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(q), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_trust_region_halves_each_member_by_itself():
    """In NumPy: natural parameters mixed, KL(q' || q) of normals by its formula; one member is near
    enough as it is."""
    mean, variance = np.array([0.0, 0.0]), np.array([1.0, 1.0])
    goal, wide = np.array([0.1, 5.0]), np.array([1.0, 40.0])

    def mixed(share, i):
        precision = (1 - share) / variance[i] + share / wide[i]
        return (
            (1 - share) * mean[i] / variance[i] + share * goal[i] / wide[i]
        ) / precision, 1 / precision

    def kl(m, v, i):
        return 0.5 * (
            v / variance[i] + (m - mean[i]) ** 2 / variance[i] - 1 - np.log(v / variance[i])
        )

    expected = [
        next(mixed(s, i) for s in 0.5 ** np.arange(31) if kl(*mixed(s, i), i) <= 0.1)
        for i in range(2)
    ]
    assert expected[0][0] == 0.1
    at = lambda m, v: vi.Normal.from_mean_variance(jnp.asarray(m), jnp.asarray(v))
    new, _ = vi.update.within(0.1).propose(at(mean, variance), at(goal, wide), 1.0, ())
    np.testing.assert_allclose(np.stack([new.mean(), new.variance()], 1), expected, rtol=1e-5)


# --- sites ----------------------------------------------------------------------------------------
SITES = 5
KERNEL = np.exp(-0.5 * np.subtract.outer(np.arange(SITES), np.arange(SITES)) ** 2) + 0.1 * np.eye(
    SITES
)
LINEAR, PRECISION = np.array([0.5, -1.0, 0.3, 0.0, 2.0]), np.array([0.2, 1.5, 0.7, 0.1, 0.4])


def sites(linear=LINEAR, precision=PRECISION):
    """N(0, K) and sites of known numbers."""
    kernel = lambda a, b: jnp.exp(-0.5 * (a - b.T) ** 2)
    x = np.arange(SITES, dtype=float)[:, None]
    model = vi.models.gp(x, np.ones(SITES), kernel, vi.likelihood.bernoulli_logit(), jitter=0.1)
    q = vi.pg_svi(model).init(jax.random.key(0)).posterior["z"]
    return q.with_naturals([jnp.asarray(linear, jnp.float32), jnp.asarray(precision, jnp.float32)])


def test_the_exact_mean_step_of_sites_by_hand():
    """Khan et al. 2016, appendix D.3, in NumPy: the mean first, then the sites."""
    rho, alpha, gamma = (
        0.3,
        np.array([1.0, -0.4, 0.6, 0.2, -1.0]),
        -np.array([0.5, 0.1, 0.9, 0.3, 0.2]),
    )
    inverse = np.linalg.inv(KERNEL)
    old = np.linalg.solve(inverse + np.diag(PRECISION), LINEAR)
    np.testing.assert_allclose(sites().mean(), old, rtol=1e-4)
    mean = np.linalg.solve(
        inverse + (1 - rho) * np.diag(PRECISION), (1 - rho) * LINEAR + rho * alpha
    )
    target = sites(alpha - gamma * old, -gamma)
    new = jax.jit(lambda q, target: vi.update.exact_mean().propose(q, target, rho, ())[0])(
        sites(), target
    )
    np.testing.assert_allclose(
        new.linear, (1 - rho) * LINEAR + rho * (alpha - gamma * mean), rtol=1e-4
    )
    np.testing.assert_allclose(new.precision, (1 - rho) * PRECISION - rho * gamma, rtol=1e-4)
    np.testing.assert_allclose(new.mean(), mean, rtol=1e-3, atol=1e-4)


def test_inner_steps_of_sites_by_hand_and_padding_is_no_site():
    """Three steps on two sites with slopes of known functions of the marginals; the marginal is
    conditioned in full."""
    rho, rows = 0.4, np.array([3, 1])
    slopes = lambda m, v: (1.0 - 0.3 * m, -0.2 - 0.05 * v)  # in the mean and in the variance
    linear, precision = LINEAR.copy(), PRECISION.copy()
    for _ in range(3):
        cov = np.linalg.inv(np.linalg.inv(KERNEL) + np.diag(precision))
        m, v = (cov @ linear)[rows], np.diag(cov)[rows]
        by_mean, by_variance = slopes(m, v)
        linear[rows] = (1 - rho) * linear[rows] + rho * (by_mean - 2 * m * by_variance)
        precision[rows] = (1 - rho) * precision[rows] - 2 * rho * by_variance
    slope = lambda at: type(at)(*slopes(at.mean, at.variance))
    for more in (0, 2):  # rows of padding, which hold a site that there is
        padded = np.concatenate([rows, np.full(more, 4)])
        reads = Reads(
            jnp.asarray(padded), jnp.asarray(np.arange(2 + more) < 2, jnp.float32), jnp.float32(1.0)
        )
        new = jax.jit(
            lambda q, reads=reads: vi.update.block(3).propose_from(
                q, reads, slope, jnp.float32(rho)
            )
        )(sites())
        np.testing.assert_allclose(new.linear, linear, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(new.precision, precision, rtol=1e-4)


def test_globals_that_are_no_large_tables_are_updated_once(monkeypatch):
    """Their checks read that update: an update that solves equations would solve them twice."""
    update = move._update
    calls = []

    def count(*arguments):
        calls.append(arguments)
        return update(*arguments)

    monkeypatch.setattr(move, "_update", count)
    alg = vi.cavi(vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1)))
    batch = vi.Minibatch(np.ones((4, 1), np.float32), None)
    state = jax.eval_shape(alg.init, jax.random.key(0), batch)
    jax.eval_shape(alg.step, jax.random.key(0), state, batch)
    assert len(calls) == 1
