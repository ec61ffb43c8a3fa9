"""`vijax.at`: log likelihoods at given parameters against SciPy and enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as sps
from scipy.special import digamma, gammaln, logsumexp

import vijax as vi
from tests.naming import naming

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
WEIGHTS, CENTRES = np.array([0.3, 0.7]), np.array([[-1.0, 0.5], [2.0, 1.0]])
MIXTURE = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=2))
POINT = {"weights": WEIGHTS, "components": CENTRES}
ROWS = RNG.normal(size=(6, 2)).astype(np.float32)


def mixture_terms(y):
    return np.log(WEIGHTS) + np.stack([sps.multivariate_normal(c).logpdf(y) for c in CENTRES], -1)


def test_a_mixture():
    """Total, groups, responsibilities and prior; under jit; and the gradient in the parameters."""
    there, terms = vi.at(MIXTURE, POINT), mixture_terms(ROWS)
    np.testing.assert_allclose(there.per_group(ROWS, key=KEY), logsumexp(terms, 1), rtol=1e-5)
    np.testing.assert_allclose(
        there.log_likelihood(ROWS, key=KEY), logsumexp(terms, 1).sum(), rtol=1e-5
    )
    probs = np.exp(terms - logsumexp(terms, 1)[:, None])
    np.testing.assert_allclose(there.locals(ROWS, key=KEY)["z"].probs, probs, rtol=1e-4)
    prior = MIXTURE.prior({})
    np.testing.assert_allclose(
        there.log_prior(), prior.log_prob(jax.tree.map(jnp.float32, POINT)), rtol=1e-6
    )
    at = lambda centres: vi.at(MIXTURE, {**POINT, "components": centres}).log_likelihood(
        ROWS, key=KEY
    )
    value, slope = jax.jit(jax.value_and_grad(at))(jnp.asarray(CENTRES))
    np.testing.assert_allclose(value, logsumexp(terms, 1).sum(), rtol=1e-5)
    expected = np.einsum("nk,nkd->kd", probs, ROWS[:, None] - CENTRES)
    np.testing.assert_allclose(slope, expected, rtol=1e-4)


def test_plsa_at_probabilities_of_which_some_are_zero():
    """A point that EM ends at lies on the edge of the simplex."""
    topics = np.array([[0.5, 0.5, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]])
    proportions = np.array([[1.0, 0.0], [0.25, 0.75], [0.6, 0.4]])
    counts = np.array([[3, 1, 0, 0], [1, 0, 2, 4], [0, 5, 0, 1]])
    data = vi.models.plsa_entries(counts)
    there = vi.at(vi.models.plsa(2, 3, 4), {"topics": topics, "proportions": proportions})
    mean = proportions @ topics
    expected = np.sum(counts * np.log(np.where(counts > 0, mean, 1.0)))
    np.testing.assert_allclose(there.log_likelihood(data, key=KEY), expected, rtol=1e-5)


def mean_field_bound(counts, topics, alpha):
    """Blei, Ng and Jordan 2003, eq. 15, after many rounds of eq. 6 and 7."""
    gamma = np.full(2, alpha + counts.sum() / 2)
    for _ in range(2000):
        log_theta = digamma(gamma) - digamma(gamma.sum())
        phi = np.exp(log_theta)[:, None] * topics
        gamma = alpha + (phi / phi.sum(0)) @ counts
    log_theta = digamma(gamma) - digamma(gamma.sum())
    mixed = np.log(np.exp(log_theta) @ topics) @ counts
    log_beta = lambda a: gammaln(a).sum() - gammaln(a.sum())
    return mixed + (alpha - gamma) @ log_theta + log_beta(gamma) - log_beta(np.full(2, alpha))


@pytest.mark.slow
def test_lda_is_bounded_by_the_evidence_of_documents_in_their_order():
    """Against the integral over the proportions, by quadrature in one dimension; and the bound
    itself by NumPy."""
    topics = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    counts = np.array([[2, 1, 0], [0, 0, 1], [4, 2, 4]])
    corpus = vi.data.read(counts)
    model = vi.models.lda(2, 3, alpha=0.8)
    there = vi.at(model, {"topics": topics}, estep=vi.estep.mean_field(500, 1e-6))
    bound = np.asarray(there.per_group(corpus, key=KEY))
    t, w = np.polynomial.legendre.leggauss(400)
    t, w = (t + 1) / 2, w / 2
    density = sps.beta(0.8, 0.8).pdf(t)
    mixed = t[:, None] * topics[0] + (1 - t[:, None]) * topics[1]
    evidence = np.log((w * density) @ np.exp(np.log(mixed) @ counts.T))
    assert np.all(bound < evidence + 1e-3)
    np.testing.assert_allclose(
        bound, [mean_field_bound(row, topics, 0.8) for row in counts], atol=1e-3
    )
    np.testing.assert_allclose(there.log_likelihood(corpus, key=KEY), bound.sum(), rtol=1e-4)


def test_an_hmm():
    """Sequences of unequal lengths, against the sum over all paths."""
    model = vi.models.hmm(vi.models.emission.unit_gaussian(2, dim=1))
    initial, transition, centres = (
        np.array([0.2, 0.8]),
        np.array([[0.9, 0.1], [0.3, 0.7]]),
        np.array([[-1.0], [1.5]]),
    )
    sequences = [RNG.normal(size=(4, 1)), RNG.normal(size=(2, 1))]
    there = vi.at(model, {"initial": initial, "transition": transition, "components": centres})
    expected = []
    for y in sequences:
        paths = np.array(list(itertools.product(range(2), repeat=len(y))))
        terms = np.log(initial)[paths[:, 0]] + np.log(transition)[paths[:, :-1], paths[:, 1:]].sum(
            1
        )
        expected.append(logsumexp(terms + sps.norm(centres[paths, 0]).logpdf(y[:, 0]).sum(1)))
    data = vi.models.pad([y.astype(np.float32) for y in sequences])
    np.testing.assert_allclose(there.per_group(data, key=KEY), expected, rtol=1e-5)


def test_a_regression_with_its_precision():
    """A value of two parts, as a tuple and as a mapping; the other global does not matter to the
    data."""
    model = vi.models.ard_regression(2)
    coefficients, precision = np.array([0.5, -1.0]), 2.0
    x = RNG.normal(size=(7, 2)).astype(np.float32)
    y = RNG.normal(size=7).astype(np.float32)
    expected = sps.norm(x @ coefficients, precision**-0.5).logpdf(y)
    for value in (
        (coefficients, precision),
        {"precision": precision, "coefficients": coefficients},
    ):
        there = vi.at(model, {"coefficients": value, "relevance": np.ones(2)})
        np.testing.assert_allclose(there.per_group((x, y), key=KEY), expected, rtol=1e-4)
    with pytest.raises(ValueError, match=naming("parameters['coefficients']:", "tuple")):
        vi.at(model, {"coefficients": coefficients, "relevance": np.ones(2)})


def test_a_model_with_a_bound_of_its_own():
    coin = vi.model(
        prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    y = np.array([1.0, 1.0, 0.0], np.float32)
    np.testing.assert_allclose(
        vi.at(coin, {"bias": 0.3}).per_group(y, key=KEY),
        sps.bernoulli(0.3).logpmf(y.astype(int)),
        rtol=1e-5,
    )


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (
            {"weights": WEIGHTS},
            r"^parameters: expected a value for each of .*, got none for \['components'\]",
        ),
        (
            {**POINT, "weigths": WEIGHTS},
            r"^parameters: .*no factor named 'weigths'.* Did you mean 'weights'\?",
        ),
        (
            {**POINT, "weights": np.ones(3) / 3},
            r"^parameters\['weights'\]: expected shape \(2,\), got shape \(3,\)",
        ),
        (
            {**POINT, "weights": [0.4, 0.5]},
            r"^parameters\['weights'\]: expected values in its support, not negative",
        ),
        (
            {**POINT, "weights": [1.4, -0.4]},
            r"^parameters\['weights'\]: expected values in its support, not negative",
        ),
        (
            {**POINT, "components": CENTRES * np.nan},
            r"^parameters\['components'\]: expected finite numbers",
        ),
        (
            {**POINT, "components": "a"},
            r"^parameters\['components'\]: expected numbers, got the string",
        ),
        ([1, 2], r"^parameters: expected a mapping"),
    ],
)
def test_wrong_parameters_are_refused(point, message):
    with pytest.raises(ValueError, match=message):
        vi.at(MIXTURE, point)


def test_wrong_models_and_hyperparameters_are_refused():
    with pytest.raises(ValueError, match=r"^hyper: expected names among"):
        vi.at(MIXTURE, POINT, hyper={"alpha": 1.0})
    with pytest.raises(TypeError, match=naming("model:", "vijax.Model")):
        vi.at({}, POINT)
    gamma = vi.model(
        prior={"rate": vi.Gamma.from_shape_rate(1.0, 1.0)}, local_elbo=lambda s, y, key: (y, None)
    )
    with pytest.raises(ValueError, match=naming("parameters['rate']:", "-1.0")):
        vi.at(gamma, {"rate": -1.0})
