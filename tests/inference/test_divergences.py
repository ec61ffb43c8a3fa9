"""Every row of the table of divergences solves its own proximal problem, eq. 9 of Khan et al. 2016,
in float64.

<grad f, lambda> + h(lambda) + D(lambda || lambda_t) / beta      minimised numerically, by SciPy
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import optimize

import vijax as vi
from tests.rounding import rounding
from vijax import tree
from vijax.inference.update import DIVERGENCES
from vijax.inference.update.proximal import from_expected_stats, mirror


def pairs():
    """Posteriors with the targets of a step: one event each, of two families."""
    normal = vi.MultivariateNormal.from_mean_cov
    return {
        "gamma": (vi.Gamma.from_shape_rate(2.0, 1.5), vi.Gamma.from_shape_rate(3.0, 1.0)),
        "multivariate_normal": (
            normal(jnp.array([0.3, -1.0]), jnp.array([[1.0, 0.3], [0.3, 0.7]])),
            normal(jnp.array([0.0, 0.5]), jnp.array([[0.8, -0.1], [-0.1, 1.2]])),
        ),
    }


def symmetrised(leaf):
    return 0.5 * (leaf + leaf.T) if leaf.ndim == 2 else leaf


def objectives(q, target, beta):
    """The four problems; target = prior + message, and -grad_lambda ELBO = F (lambda - target)."""
    prior = tree.mix(0.3, q, target)  # any valid one; the KL row keeps h = KL(. || prior)
    slope = q.fisher_product(tree.subtract(q, target))
    # f linearised in the mean parameters, in which lambda' enters through mu'
    # (conjugate-computation VI)
    grad_mu_f = q.with_naturals(tree.subtract(prior, target))
    return {
        "kl": lambda p: grad_mu_f.dot(p.expected_stats()) + p.kl(prior) + p.kl(q) / beta,
        "euclidean": lambda p: p.dot(slope) + 0.5 * _square(tree.subtract(p, q)) / beta,
        "mirror": lambda p: p.dot(slope) + q.kl(p) / beta,
        "symmetric_kl": lambda p: p.dot(slope) + (p.kl(q) + q.kl(p)) / beta,
    }


def _square(p):
    return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p))


def minimised(objective, start):
    flat, unravel = ravel_pytree(start)

    def at(x):
        p = jax.tree.map(symmetrised, unravel(x))
        inside = jnp.all(jnp.array([jnp.all(m) for m in jax.tree.leaves(p.in_domain())]))
        return jnp.where(inside, objective(p), jnp.inf)

    value = jax.jit(jax.value_and_grad(at))
    found = optimize.minimize(
        lambda x: tuple(np.asarray(v, float) for v in value(x)),
        np.asarray(flat),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-11},
    )
    return jax.tree.map(symmetrised, unravel(jnp.asarray(found.x)))


@pytest.mark.parametrize("family", ["gamma", "multivariate_normal"])
@pytest.mark.parametrize("name", DIVERGENCES)
def test_closed_form_is_the_minimiser(name, family):
    with jax.enable_x64(True):
        q, target = pairs()[family]
        # symmetric KL is closed to first order only: its error is of the order of beta squared
        beta = {"kl": 0.5, "euclidean": 0.05, "mirror": 0.05, "symmetric_kl": 2e-4}[name]
        rho = beta / (1 + beta) if name == "kl" else beta
        new = jax.jit(lambda q, target: DIVERGENCES[name]().propose(q, target, rho, ())[0])(
            q, target
        )
        best = minimised(objectives(q, target, beta)[name], new)
        for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(best), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)
        moved = ravel_pytree(tree.subtract(new, q))[0]
        assert float(jnp.max(jnp.abs(moved))) > 2e-5  # a step was taken


def test_kl_row_is_the_natural_gradient_step():
    """lambda + rho F^-1 grad ELBO, the gradient by autodiff of the ELBO itself."""

    def both(q, target):
        natural = q.fisher_solve(q.as_stats(jax.grad(lambda p: -p.kl(target))(q)))
        return vi.update.kl().propose(q, target, 0.3, ())[0], tree.add(q, tree.scale(0.3, natural))

    with jax.enable_x64(True):
        for q, target in pairs().values():
            new, step = jax.jit(both)(q, target)
            for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(step), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-10)


def test_mean_parameters_are_inverted():
    with jax.enable_x64(True):
        for q, target in pairs().values():
            found, ok = jax.jit(from_expected_stats)(q, target.expected_stats())
            assert bool(ok)
            for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(target), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=rounding(b))


def test_mirror_halves_a_step_that_would_leave_the_mean_parameters():
    """From Gamma(2, 1) towards a much larger rate: mu' = mu + beta F (target - lambda) would have E
    x < 0."""
    q, target = vi.Gamma.from_shape_rate(2.0, 1.0), vi.Gamma.from_shape_rate(2.0, 4.0)
    slope = q.fisher_product(tree.subtract(target, q))
    assert float(q.expected_stats().value + slope.value) < 0
    new = jax.jit(functools.partial(mirror.solve, size=1.0))(q, target)
    assert bool(jnp.all(jnp.isfinite(jnp.stack(jax.tree.leaves(new)))))
    assert 1.0 < float(new.rate) < 4.0
