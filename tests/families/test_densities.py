"""Laws of densities that are no exponential families in their parameters, or are made of such:
those of guides.

`tests/cases.py` has the families; its laws are of natural parameters, which these have not. (Flows
are in `tests/inference/test_flow.py`, for they need flowjax.) A density that is added to
`vijax.guides` has a row here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax.families.vector.free_normals import LowRankNormal, TriangularNormal
from vijax.families.vector.normal_mixture import NormalMixture

KEY = jax.random.key(0)
rng = np.random.default_rng(0)
MEAN = jnp.asarray([1.0, -2.0, 0.5])
TRIANGLE = jnp.asarray(
    0.4 * rng.normal(size=(2, 3, 3)), jnp.float32
)  # what is above the diagonal is not read
BLOCK = {"a": [0], "b": [1, 2]}
DENSITIES = {
    "low_rank": LowRankNormal(
        MEAN, jnp.asarray([-0.5, 0.0, 0.3]), jnp.asarray([[0.8], [-0.4], [0.2]])
    ),
    "triangular": TriangularNormal(MEAN, TRIANGLE[0]),
    "mixture": NormalMixture(jnp.asarray([0.3, -0.3]), jnp.stack([MEAN, MEAN + 1.5]), TRIANGLE),
    "block": vi.guides.block().assign(BLOCK).member(MEAN, 0.7),
    "block, by triangles": vi.guides.block().optimiser_form().assign(BLOCK).member(MEAN, 0.7),
}
DRAWS = 40_000
FAR = 5
"""Standard errors: one in a million is further."""


@pytest.fixture(params=DENSITIES)
def q(request):
    return DENSITIES[request.param]


def test_draws_have_its_moments(q):
    x = np.asarray(jax.jit(lambda q: q.sample(KEY, (DRAWS,)))(q), np.float64)
    sd = np.sqrt(np.asarray(q.variance()))
    np.testing.assert_array_less(np.abs(x.mean(0) - q.mean()), FAR * sd / np.sqrt(DRAWS))
    np.testing.assert_array_less(np.abs(x.var(0) / sd**2 - 1), FAR * np.sqrt(2 / DRAWS) * 1.5)


def test_its_density_is_that_of_its_draws(q):
    """E[p / q] = 1 for a normal p inside; and its entropy is E[-log q], of a mixture to the error
    of its points."""
    x = jax.jit(lambda q: q.sample(KEY, (DRAWS,)))(q)
    log_q = np.asarray(jax.jit(lambda q, x: q.log_prob(x))(q, x), np.float64)
    log_p = -0.5 * np.sum(((x - q.mean()) / 0.3) ** 2, 1) - 3 * np.log(0.3 * np.sqrt(2 * np.pi))
    ratio = np.exp(log_p - log_q)
    assert abs(ratio.mean() - 1) < FAR * ratio.std() / np.sqrt(DRAWS)
    slack = 0.02 if isinstance(q, NormalMixture) else 0.0
    assert abs(float(q.entropy()) + log_q.mean()) < FAR * log_q.std() / np.sqrt(DRAWS) + slack


def test_the_pullback_of_a_draw_is_its_derivative(q):
    """For optimisers: whatever way it is computed, what differentiation of the very draw says."""
    if q.exponential:
        pytest.skip("Its pullback has the Fisher matrix in it: tests/families/test_laws.py.")
    slope = jnp.asarray([0.7, -1.1, 0.4])

    @jax.jit
    def both(q):
        stats, pull = q.pathwise_sample(KEY)
        x, back = jax.vjp(lambda q: q.sample(KEY), q)
        return (
            stats.value,
            x,
            pull(jax.grad(lambda stats: slope @ stats.value)(stats)),
            back(slope)[0],
        )

    value, x, found, wanted = both(q)
    np.testing.assert_allclose(value, x, rtol=1e-6)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
