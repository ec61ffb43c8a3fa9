"""Hidden Markov models against hmmlearn, factor analysis against scikit-learn, and parts of
counts."""

import numpy as np
import pytest
from hmmlearn.hmm import GaussianHMM, PoissonHMM
from sklearn.decomposition import FactorAnalysis as TheirFactors

import vijax.sklearn as vs
from tests.families.oracles import mp
from tests.naming import naming

RNG = np.random.default_rng(0)
LENGTHS = [70, 40, 90]
STATES = np.concatenate([np.repeat([0, 1, 0, 1], size // 4 + 1)[:size] for size in LENGTHS])
X = RNG.normal(3.0 * STATES[:, None], [1.0, 0.5], (200, 2))


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_baum_welch_against_hmmlearn(kind):
    """At our parameters it says of paths, probabilities and likelihoods what we say; and it finds
    nothing better."""
    ours = vs.HiddenMarkovModel(
        2, covariance_type=kind, tol=1e-8, max_iter=500, reg_covar=0.0, random_state=0
    )
    ours.fit(X, lengths=LENGTHS)
    peer = GaussianHMM(2, covariance_type=kind, init_params="", params="", covars_prior=0.0)
    peer.startprob_, peer.transmat_, peer.means_ = ours.startprob_, ours.transmat_, ours.means_
    peer.covars_ = ours.covariances_
    np.testing.assert_allclose(ours.score(X, lengths=LENGTHS), peer.score(X, LENGTHS), rtol=1e-9)
    np.testing.assert_array_equal(ours.predict(X, LENGTHS), peer.predict(X, LENGTHS))
    np.testing.assert_allclose(
        ours.predict_proba(X, LENGTHS), peer.predict_proba(X, LENGTHS), atol=1e-9
    )
    np.testing.assert_allclose(ours.lower_bound_, ours.score(X, lengths=LENGTHS), rtol=1e-6)
    agreement = (ours.predict(X, LENGTHS) == STATES).mean()
    assert max(agreement, 1 - agreement) > 0.97


def test_counts_and_a_posterior():
    y = RNG.poisson(np.where(STATES, 9.0, 1.0))[:, None]
    ours = vs.HiddenMarkovModel(2, emission="poisson", random_state=0, tol=1e-8, max_iter=500).fit(
        y, lengths=LENGTHS
    )
    peer = PoissonHMM(2, init_params="", params="")
    peer.startprob_, peer.transmat_, peer.lambdas_ = ours.startprob_, ours.transmat_, ours.rates_
    np.testing.assert_allclose(ours.score(y, lengths=LENGTHS), peer.score(y, LENGTHS), rtol=1e-9)
    full = vs.HiddenMarkovModel(2, emission="poisson", inference="variational", random_state=0).fit(
        y, lengths=LENGTHS
    )
    np.testing.assert_allclose(np.sort(full.rates_[:, 0]), [1.0, 9.0], atol=0.7)
    draws, states = full.sample(3000)
    np.testing.assert_allclose(draws[states == 0].mean(), full.rates_[0, 0], rtol=0.1)


def test_lengths_must_add_up():
    with pytest.raises(ValueError, match=naming("lengths:", "200 rows")):
        vs.HiddenMarkovModel().fit(X, lengths=[100, 99])


def test_factors_of_maximum_likelihood_are_those_of_scikit_learn():
    y = RNG.normal(size=(200, 2)) @ RNG.normal(size=(2, 6)) * [1.0, 10.0, 0.1, 1.0, 1.0, 1.0]
    y += RNG.normal(size=(200, 6)) * [0.5, 5.0, 0.05, 0.5, 0.5, 0.5]
    ours = vs.FactorAnalysis(2, tol=1e-8, max_iter=20_000, random_state=0).fit(y)
    peer = TheirFactors(2, tol=1e-9, max_iter=5000).fit(y)
    np.testing.assert_allclose(ours.score(y), peer.score(y), atol=2e-4)
    np.testing.assert_allclose(ours.loglike_[-1], ours.score(y), atol=1e-6)
    np.testing.assert_allclose(ours.get_covariance(), peer.get_covariance(), rtol=2e-2, atol=2e-2)
    peer.components_, peer.noise_variance_ = ours.components_, ours.noise_variance_
    np.testing.assert_allclose(ours.transform(y), peer.transform(y), atol=1e-6)
    assert ours.get_feature_names_out().tolist() == ["factoranalysis0", "factoranalysis1"]
    one = vs.FactorAnalysis(
        2, noise="isotropic", inference="variational", tol=1e-3, random_state=0
    ).fit(y)
    assert np.ptp(one.noise_variance_) == 0.0


CASES = {  # rows, columns, factors, the noise's deviation beside the factors
    "few columns": (30, 5, 2, 0.5),
    "more columns than rows": (8, 20, 3, 0.5),
    "more factors than columns": (20, 4, 6, 0.5),
    "little noise": (30, 5, 2, 1e-6),
    "a column of hardly any noise": (30, 5, 2, np.array([1e-6, 0.5, 0.5, 0.5, 0.5])),
}


def of_parameters(mean, components, noise_variance):
    model = vs.FactorAnalysis(len(components))
    model.mean_, model.components_, model.noise_variance_ = mean, components, noise_variance
    model.n_features_in_ = len(mean)
    return model


def exact_scores(model, y):
    """And the precision, to 50 digits, of the dense covariance."""
    components, noise = (
        mp.matrix(part.tolist()) for part in (model.components_, model.noise_variance_)
    )
    cov = components.T * components + mp.diag(list(noise))
    level, precision = len(noise) * mp.log(2 * mp.pi) + mp.log(mp.det(cov)), cov**-1
    scores = []
    for row in y:
        gap = mp.matrix(row.tolist()) - mp.matrix(model.mean_.tolist())
        scores.append(float(-(level + (gap.T * precision * gap)[0]) / 2))
    return np.array(scores), np.array(precision.tolist(), float)


@pytest.mark.parametrize("case", CASES)
def test_scores_of_columns_in_units_from_a_millionth_to_a_million(case):
    rows, dim, factors, size = CASES[case]
    rng, units = np.random.default_rng(1), np.geomspace(1e-6, 1e6, dim)
    loadings, noise = rng.normal(size=(factors, dim)), size * np.exp(0.3 * rng.normal(size=dim))
    y = rng.normal(size=(rows, factors)) @ loadings + noise * rng.normal(size=(rows, dim))
    model = of_parameters(3.0 * units, loadings * units, (noise * units) ** 2)
    y = (y + 3.0) * units
    exact, precision = exact_scores(model, y)
    np.testing.assert_allclose(model.score_samples(y), exact, rtol=1e-8)
    np.testing.assert_allclose(model.score(y), exact.mean(), rtol=1e-8)
    root = np.sqrt(np.diag(precision))
    np.testing.assert_allclose(
        model.get_precision() / root / root[:, None], precision / root / root[:, None], atol=1e-9
    )


def test_units_of_columns_do_not_matter_to_a_fit():
    """Nor to whether a column is taken for a constant: the fit is the same, and the score less by
    the log of the units."""
    rng, units = np.random.default_rng(1), np.geomspace(1e-6, 1e6, 5)
    y = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 5)) + rng.normal(size=(50, 5))
    fits = [vs.FactorAnalysis(2, random_state=0).fit(x) for x in (y, y * units)]
    np.testing.assert_allclose(fits[1].components_ / units, fits[0].components_, rtol=1e-6)
    np.testing.assert_allclose(
        fits[1].score(y * units) + np.log(units).sum(), fits[0].score(y), rtol=1e-9
    )
    np.testing.assert_allclose(fits[1].loglike_[-1], fits[1].score(y * units), atol=1e-4)


def test_parts_of_counts():
    parts = np.array([[9.0, 9.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 9.0, 9.0]])
    counts = RNG.poisson(RNG.gamma(1.0, size=(150, 2)) @ parts)
    model = vs.GammaPoissonNMF(5, random_state=0).fit(counts)
    rates = model.inverse_transform(model.transform(counts))
    assert np.mean((rates - counts) ** 2) < counts.mean()
    left = model.components_[:, :2].sum(1) / model.components_.sum(1)
    assert np.sum(left > 0.8) >= 1
    assert np.sum(left < 0.1) >= 1
    np.testing.assert_allclose(model.transform(counts[:7]), model.transform(counts)[:7], rtol=1e-6)
    with pytest.raises(ValueError, match="Negative values in data passed to GammaPoissonNMF"):
        model.transform(-counts)
