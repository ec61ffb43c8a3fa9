"""Updates: the proximal steps solve their own problems; the retraction ends inside the domain and says what it did."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi


def gamma(shape, rate):
    return vi.Product({"x": vi.Gamma.from_shape_rate(jnp.asarray(shape), jnp.asarray(rate))})


@pytest.fixture
def problem():
    return gamma([2.0, 3.0], [1.0, 0.5]), gamma([5.0, 0.5], [2.0, 4.0])


def proximal_objective(q, current, target, rho):
    """<-grad_mu ELBO, mu(q)> + D(q || current) (1 - rho) / rho, grad_mu ELBO = target - lambda: Khan et al. 2016, eq.
    9."""
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
        jax.tree.leaves(vi.update.kl().propose(q, target, 1.0, ())[0]), jax.tree.leaves(target), strict=True
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
    """It is no step out of the domain but a failure, which the algorithm skips and reports: it must stay in sight."""
    q = vi.Product({"p": vi.Dirichlet.from_concentration(jnp.ones(3))})
    nan = q.with_naturals([jnp.array([jnp.nan, -1.0, 2.0])])
    moved, retractions = vi.update.retract(nan, q, q, 0.25)
    assert np.isnan(moved["p"].concentration[0])
    assert int(retractions) == 1
    eye = jnp.eye(2)
    normal = vi.MultivariateNormal.from_mean_precision(jnp.zeros((3, 2)), jnp.stack([eye, eye, eye]))
    events = vi.Product({"x": normal})
    proposal = events.with_naturals([jnp.zeros((3, 2)), jnp.stack([-eye, eye, jnp.nan * eye])])
    moved, retractions = vi.update.retract(proposal, events, events, 0.25)
    kept = jax.tree.leaves(moved)[1]
    np.testing.assert_array_equal(kept[1], jax.tree.leaves(events)[1][1])
    assert np.isnan(kept[2]).any()
    assert int(retractions) == 3  # both parameters of the event outside, the location of the one that is not finite


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
    state, info = alg.step(jax.random.key(0), alg.init(jax.random.key(0)), jnp.array([1.0, 1.0, 0.0]))
    np.testing.assert_array_equal([state.posterior["bias"].alpha, state.posterior["bias"].beta], [4.0, 4.0])
    assert float(info.step_size) == 2.0
    with pytest.raises(ValueError, match=r"^step_size: expected steps of at most 1, got 2\.0\. Larger ones"):
        vi.cavi(coin, step_size=full)
    with pytest.raises(ValueError, match=r"^step_size: expected steps of at most 1"):
        vi.pg_svi(coin, step_size=full)

    half = lambda q, target, size: vi.update.kl().propose(q, target, size / 2, ())[0]
    vi.cavi(coin, update=vi.update.proximal(half, "beta"), step_size=full)
