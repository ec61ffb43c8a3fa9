"""The proximal steps solve their own problems; the retraction ends inside the domain and says what it did."""

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
    """<-grad_mu ELBO, mu(q)> + D(q || current) (1 - rho) / rho, grad_mu ELBO = target - lambda: seed 001, eq. 9."""
    r = (1 - rho) / rho
    # h = KL(q || prior + message) is the linearised objective, up to a constant.
    return q.kl(target) + r * q.kl(current)


def test_kl_step_minimises_the_proximal_objective(problem):
    q, target = problem
    rho = 0.3
    new = vi.geometry.kl(q, target, rho)
    slope = jax.grad(lambda p: proximal_objective(p, q, target, rho))(new)
    np.testing.assert_allclose(np.concatenate(jax.tree.leaves(slope)), 0.0, atol=2e-5)


def test_kl_step_of_size_one_lands_on_the_target(problem):
    q, target = problem
    for a, b in zip(jax.tree.leaves(vi.geometry.kl(q, target, 1.0)), jax.tree.leaves(target), strict=True):
        np.testing.assert_array_equal(a, b)


def test_euclidean_step_is_plain_gradient_ascent(problem):
    """d/dlambda of -KL(q_lambda || target) is F (target - lambda)."""
    q, target = problem
    step = vi.geometry.euclidean(q, target, 0.01)
    slope = jax.grad(lambda p: -p.kl(target))(q)
    for new, old, g in zip(*map(jax.tree.leaves, (step, q, slope)), strict=True):
        np.testing.assert_allclose(new - old, 0.01 * g, rtol=2e-3, atol=1e-5)


def test_retraction_replaces_exactly_what_left_the_domain_and_counts_it():
    prior = vi.Product({"p": vi.Dirichlet.from_concentration(jnp.full((2, 3), 0.1))})
    q = vi.Product({"p": vi.Dirichlet.from_concentration(jnp.ones((2, 3)))})
    proposal = q.with_naturals([jnp.array([[0.5, -1.0, 2.0], [jnp.nan, 0.2, 1.0]])])
    posterior, retractions = vi.geometry.retract(proposal, q, prior, 0.25)
    fallback = 0.75 * 1.0 + 0.25 * 0.1
    expected = [[0.5, fallback, 2.0], [fallback, 0.2, 1.0]]
    np.testing.assert_allclose(posterior["p"].concentration, expected, rtol=1e-6)
    assert int(retractions) == 2
