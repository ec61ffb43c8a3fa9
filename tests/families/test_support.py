"""Densities where a value is impossible, and at the edge of the support, against SciPy; their
derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as sps

from vijax.families import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    InverseGamma,
    Multinomial,
    Poisson,
    TruncatedNormal,
)

INF = np.inf
gamma = lambda a, b=1.0: (Gamma.from_shape_rate(a, b), sps.gamma(a, scale=1 / b).logpdf)
beta = lambda a, b: (Beta.from_alpha_beta(a, b), sps.beta(a, b).logpdf)
inverse = lambda a, b: (InverseGamma.from_shape_scale(a, b), sps.invgamma(a, scale=b).logpdf)
poisson = lambda rate: (Poisson.from_rate(rate), sps.poisson(rate).logpmf)

EDGES = {
    "gamma": [
        (gamma(2.0), -1.0),
        (gamma(2.0), 0.0),
        (gamma(1.0, 3.0), 0.0),
        (gamma(0.5), 0.0),
        (gamma(0.5), -1.0),
    ],
    "beta": [
        (beta(2.0, 3.0), 1.5),
        (beta(0.5, 0.5), -0.5),
        (beta(1.0, 3.0), 0.0),
        (beta(3.0, 1.0), 1.0),
        (beta(3.0, 2.0), 0.0),
        (beta(2.0, 0.5), 1.0),
        (beta(1.0, 1.0), 0.0),
    ],
    "inverse_gamma": [(inverse(2.0, 1.0), 0.0), (inverse(2.0, 1.0), -1.0)],
    "poisson": [
        (poisson(2.0), -1.0),
        (poisson(2.0), 1.5),
        (poisson(2.0), 0.0),
        (poisson(2.0), 3.0),
    ],
}


@pytest.mark.parametrize("name", EDGES)
def test_edges_are_scipys(name: str) -> None:
    for (q, log_density), x in EDGES[name]:
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(
                q.log_prob(x), log_density(x), rtol=1e-5, atol=1e-6, err_msg=f"{q} at {x}"
            )
        gradients = jax.grad(lambda q, x: q.log_prob(x), (0, 1))(q, x)
        assert not any(np.isnan(leaf) for leaf in jax.tree.leaves(gradients)), (q, x)


def test_nothing_is_at_infinity() -> None:
    """Where SciPy's gamma is NaN."""
    for q in (
        Gamma.from_shape_rate(2.0, 1.0),
        InverseGamma.from_shape_scale(0.5, 1.0),
        Beta.from_alpha_beta(1.0, 1.0),
    ):
        assert q.log_prob(INF) == -INF
        assert np.isnan(q.log_prob(np.nan))


def test_a_truncated_normal_has_no_mass_below_zero() -> None:
    q = TruncatedNormal.from_mean_variance(jnp.array([-3.0, 0.5, 40.0]), 1.0)
    for x in (-0.1, INF):
        assert np.all(q.log_prob(x) == -INF)
        assert not any(
            np.isnan(leaf).any()
            for leaf in jax.tree.leaves(jax.grad(lambda q, x=x: q.log_prob(x).sum())(q))
        )


def test_nought_itself_is_in_the_support_of_a_truncated_normal() -> None:
    mean = np.array([-3.0, 0.5, 4.0])
    at_edge = TruncatedNormal.from_mean_variance(jnp.asarray(mean, jnp.float32), 1.0).log_prob(0.0)
    np.testing.assert_allclose(
        at_edge, sps.truncnorm(-mean, np.inf, loc=mean).logpdf(0.0), rtol=1e-5
    )


def test_dirichlets_off_the_simplex_and_at_its_edges() -> None:
    flat, sparse, dense = (Dirichlet.from_concentration([c, 1.0, 2.0]) for c in (1.0, 0.5, 3.0))
    edge = jnp.array([0.0, 0.4, 0.6])
    np.testing.assert_allclose(
        flat.log_prob(edge), sps.dirichlet([1.0, 1.0, 2.0]).logpdf([0.0, 0.4, 0.6]), rtol=1e-5
    )
    assert sparse.log_prob(edge) == INF
    assert dense.log_prob(edge) == -INF
    assert (
        Dirichlet.from_concentration([0.5, 2.0, 1.0]).log_prob(jnp.array([0.0, 0.0, 1.0])) == -INF
    )
    for q in (flat, sparse, dense):
        assert q.log_prob(jnp.array([0.5, 0.9, 0.1])) == -INF
        assert q.log_prob(jnp.array([-0.1, 0.5, 0.6])) == -INF
        for x in (edge, jnp.array([0.5, 0.9, 0.1]), jnp.array([-0.1, 0.5, 0.6])):
            gradients = jax.grad(lambda q, x: q.log_prob(x), (0, 1))(q, x)
            assert not any(np.isnan(leaf).any() for leaf in jax.tree.leaves(gradients))


def test_what_is_no_count_and_no_class_is_impossible() -> None:
    q = Multinomial.from_probs([0.5, 0.5], 3)
    for x in ([1, 1], [4, -1], [1.5, 1.5]):
        assert q.log_prob(jnp.array(x)) == -INF, x
    np.testing.assert_allclose(q.log_prob(jnp.array([1, 2])), np.log(3 / 8), rtol=1e-6)
    assert np.all(Categorical.from_probs([0.5, 0.5]).log_prob(jnp.array([-1, 2])) == -INF)
    assert np.all(Bernoulli.from_probs(0.5).log_prob(jnp.array([-1, 2])) == -INF)
    assert Bernoulli.from_probs(0.5).log_prob(0.5) == -INF


def test_no_draw_is_a_law_too() -> None:
    """As in SciPy: a total of zero."""
    q, p = Multinomial.from_probs([0.3, 0.7], 0), Multinomial.from_probs([0.5, 0.5], 0)
    none = jnp.zeros(2, int)
    assert abs(float(q.log_prob(none))) < 1e-20
    assert q.log_prob(jnp.array([0, 1])) == -INF
    assert float(q.entropy()) == float(q.kl(p)) == 0.0
    assert q.mode().tolist() == q.sample(jax.random.key(0)).tolist() == q.mean().tolist() == [0, 0]
    assert np.isfinite(q.fisher_solve(q.Stats(jnp.array([0.1, -0.1]))).logits).all()
    assert np.isfinite(jax.grad(lambda q: q.log_prob(none) + q.entropy())(q).logits).all()


def test_the_entropy_of_a_rare_event() -> None:
    """Poisson(m), m small: m (1 - log m) + O(m^2)."""
    m = 1e-8
    np.testing.assert_allclose(Poisson.from_rate(m).entropy(), m * (1 - np.log(m)), rtol=1e-5)


def test_a_class_that_underflows_has_no_curvature_and_does_not_overflow() -> None:
    """F maps its direction to zero, and F^-1 leaves it at zero, whatever the gradient."""
    solved = (
        Categorical.from_logits([0.0, -200.0])
        .fisher_solve(Categorical.Stats(jnp.array([-10.0, 10.0])))
        .logits
    )
    np.testing.assert_allclose(solved, [-10.0, 0.0])
    assert Bernoulli.from_logit(-200.0).fisher_solve(Bernoulli.Stats(jnp.array(10.0))).logit == 0.0
    assert (
        Poisson.from_log_rate(-200.0).fisher_solve(Poisson.Stats(jnp.array(10.0))).log_rate == 0.0
    )
    rare = Categorical.from_logits([0.0, -80.0])
    v = Categorical(jnp.array([0.0, 0.5]))
    np.testing.assert_allclose(
        rare.fisher_solve(rare.fisher_product(v)).logits, v.logits, rtol=1e-5, atol=1e-30
    )
