"""Mixtures of rows with missing cells: EM against NumPy, bounds against quadrature."""

import functools

import jax
import numpy as np
import pytest
from scipy import integrate, special, stats

import vijax as vi
from vijax.models import emission, mixture
from vijax.xla.precision import enable_x64

NAN = np.nan
KEY = jax.random.key(0)
CENTRES = np.array([[0.0, 0, 0, 0], [4, 4, 0, 0], [0, 4, 4, 4]])


@functools.cache
def rows(number=90):
    """Rows of three correlated components, a seventh of the cells missing, one row without any."""
    rng = np.random.default_rng(1)
    factor = np.eye(4) + np.diag([0.6, 0.6, 0.6], 1)
    y = CENTRES[rng.integers(0, 3, number)] + rng.normal(size=(number, 4)) @ factor
    y[rng.random(y.shape) < 1 / 7] = NAN
    y[3] = NAN
    return y


def em_by_hand(y, resp, diagonal, steps):
    """EM in NumPy, from responsibilities; log likelihoods, weights, means and covariances."""
    size, dim = resp.shape[1], y.shape[1]
    column_means, column_variances = np.nanmean(y, 0), np.nanvar(y, 0)
    means = np.tile(column_means, (size, 1))
    covs = np.tile(np.diag(column_variances), (size, 1, 1))
    bounds = []
    for _ in range(steps):
        weights = resp.sum(0) / len(y)
        new = [moments(y, r, m, c, diagonal) for r, m, c in zip(resp.T, means, covs, strict=True)]
        means, covs = (np.array(part) for part in zip(*new, strict=True))
        logs = np.log(weights) + np.stack(
            [[margin(row, m, c) for row in y] for m, c in zip(means, covs, strict=True)], axis=1
        )
        bounds.append(special.logsumexp(logs, axis=1).sum())
        resp = special.softmax(logs, axis=1)
    assert dim == means.shape[1]
    return np.array(bounds), weights, means, covs


def margin(row, mean, cov):
    o = ~np.isnan(row)
    if not o.any():
        return 0.0
    return stats.multivariate_normal(mean[o], cov[np.ix_(o, o)]).logpdf(row[o])


def moments(y, resp, mean, cov, diagonal):
    """The weighted mean and covariance of rows completed by their expectations."""
    total, first, second = 0.0, np.zeros(len(mean)), np.zeros((len(mean), len(mean)))
    for r, row in zip(resp, y, strict=True):
        o, m = ~np.isnan(row), np.isnan(row)
        filled, spread = row.copy(), np.zeros_like(cov)
        slope = cov[np.ix_(m, o)] @ np.linalg.inv(cov[np.ix_(o, o)])
        filled[m] = mean[m] + slope @ (row[o] - mean[o])
        spread[np.ix_(m, m)] = cov[np.ix_(m, m)] - slope @ cov[np.ix_(o, m)]
        total, first = total + r, first + r * filled
        second = second + r * (np.outer(filled, filled) + spread)
    new_mean = first / total
    new_cov = second / total - np.outer(new_mean, new_mean)
    return new_mean, np.diag(np.diagonal(new_cov)) if diagonal else new_cov


@pytest.mark.slow
@pytest.mark.parametrize("name", ["full_gaussian", "diagonal_gaussian"])
def test_em_is_that_of_numpy(name):
    """Both climb to the same maximum of the marginal likelihood, which vijax counts as NumPy."""
    y = rows()
    with enable_x64(True):
        emitted = emission.placed(getattr(emission, name), 3, y)
        assert emitted.takes_missing
        model = mixture(emitted, init=vi.init.nearest(CENTRES))
        fit = vi.fit(vi.em(model), y, num_steps=400, key=KEY)
        point = fit.estimates["components"].mean()
        precision = np.asarray(point.precision)
        is_diagonal = name == "diagonal_gaussian"
        if is_diagonal:
            precision = np.array([np.diag(p) for p in precision])
        covs = np.linalg.inv(precision)
        start = np.asarray(fit.locals(y, key=KEY)["z"].probs)
        bounds, weights, means, expected_covs = em_by_hand(y, start, is_diagonal, 150)
        np.testing.assert_allclose(fit.elbo, bounds[-1], rtol=1e-9)
        np.testing.assert_allclose(point.mean, means, atol=1e-4)
        np.testing.assert_allclose(covs, expected_covs, atol=1e-3)
        np.testing.assert_allclose(fit.estimates["weights"].mean(), weights, atol=1e-4)
        elbo = np.asarray(fit.trace["elbo"])
        assert (np.diff(elbo) > -1e-8).all()
        prior_probs = fit.locals(y, key=KEY)["z"].probs[3]
        np.testing.assert_allclose(prior_probs, fit.estimates["weights"].mean(), atol=1e-6)
        by_row = fit.score(y, key=KEY).log_densities
        np.testing.assert_allclose(by_row.sum(), bounds[-1], rtol=1e-6)
        assert by_row[3] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("alg", [vi.cavi, vi.svi])
@pytest.mark.parametrize("name", ["full_gaussian", "diagonal_gaussian", "tied_gaussian"])
def test_variational_fits_find_the_components(alg, name):
    y = rows()
    emitted = emission.placed(getattr(emission, name), 3, y)
    model = mixture(emitted, init=vi.init.nearest(CENTRES))
    fit = vi.fit(alg(model), y.astype("f"), num_steps=60, key=KEY)
    means = np.asarray(fit.estimates["components"].mean().mean)
    assert np.abs(means - CENTRES).max() < 0.8
    q = fit.locals(y[3:4], key=KEY)["z"].probs[0]
    concentration = fit.posterior["weights"]
    expected = special.softmax(np.asarray(concentration.expected_stats().log))
    np.testing.assert_allclose(q, expected, rtol=1e-4)
    if alg is vi.cavi:
        assert (np.diff(fit.trace["elbo"]) > -2e-3).all()


@pytest.mark.slow
def test_the_bound_lies_just_below_the_evidence():
    """One component, two columns: the evidence by quadrature over the means."""
    y = np.array([[0.5, NAN], [-0.3, 1.0], [NAN, 0.2], [NAN, NAN]])
    with enable_x64(True):
        model = mixture(
            emission.incomplete(emission.unit_gaussian(1, 2, variance=2.0)), weights=1.0
        )
        fit = vi.fit(vi.cavi(model), y, num_steps=5, key=KEY)
        log_evidence = 0.0
        for column in y.T:
            cells = column[~np.isnan(column)]
            joint = lambda m, cells=cells: (
                stats.norm.pdf(m, 0, np.sqrt(2)) * stats.norm.pdf(cells, m).prod()
            )
            log_evidence += np.log(integrate.quad(joint, -10, 10)[0])
        assert fit.elbo == pytest.approx(log_evidence, abs=1e-8)  # conjugate: no gap

        model = mixture(emission.incomplete(emission.full_gaussian(1, 2)), weights=1.0)
        fit = vi.fit(vi.cavi(model), y, num_steps=200, key=KEY)
        evidence = wishart_evidence(y, model_prior=emission.full_gaussian(1, 2).prior)
        assert evidence - 0.8 < fit.elbo < evidence


def wishart_evidence(y, model_prior, number=400_000):
    """log E[prod p(y_o | mu, L)] over draws of the prior of covariances; means are integrated."""
    rng = np.random.default_rng(0)
    degrees, scale = float(model_prior.degrees[0]), np.asarray(model_prior.scale[0])
    kappa = float(model_prior.strength[0])
    covs = np.linalg.inv(stats.wishart(degrees, scale).rvs(number, random_state=rng))
    cells = np.argwhere(~np.isnan(y))
    values = y[~np.isnan(y)]
    columns, groups = cells[:, 1], cells[:, 0]
    same_row = (groups[:, None] == groups).astype(float)
    joint = covs[:, columns[:, None], columns] * (same_row + 1 / kappa)
    residuals = np.linalg.solve(joint, np.broadcast_to(values, (number, len(values)))[..., None])
    quadratic = residuals[..., 0] @ values
    logs = -0.5 * (quadratic + np.linalg.slogdet(joint)[1] + len(values) * np.log(2 * np.pi))
    return special.logsumexp(logs) - np.log(number)


@pytest.mark.slow
def test_a_process_and_binary_cells_take_missing_cells():
    y = rows()
    partial = emission.placed(emission.diagonal_gaussian, 4, y)
    for truncation in ("finite", "tied"):
        model = vi.models.dp_mixture(partial, truncation=truncation)
        fit = vi.fit(vi.cavi(model), y.astype("f"), num_steps=30, key=KEY)
        assert np.isfinite(fit.elbo)
        assert np.isfinite(fit.score(y, key=KEY).mean)
    binary = np.where(np.isnan(y), NAN, y > 2)
    model = mixture(emission.incomplete(emission.bernoulli(3, 4)))
    fit = vi.fit(vi.cavi(model), binary.astype("f"), num_steps=30, key=KEY)
    assert np.isfinite(fit.elbo)


def test_samplers_that_need_linear_energies_refuse():
    y = rows()
    full = emission.incomplete(emission.full_gaussian(3, 4))
    with pytest.raises(ValueError, match="model: expected an energy linear in statistics"):
        vi.reference.gibbs(mixture(full), y, key=KEY, num_samples=2)
    with pytest.raises(ValueError, match="emission: expected rows without missing cells"):
        vi.reference.collapsed_gibbs_mixture(full, y, concentration=1.0, num_sweeps=2, key=KEY)
    diagonal = emission.incomplete(emission.diagonal_gaussian(3, 4))
    draws = vi.reference.gibbs(mixture(diagonal), y, key=KEY, num_samples=2, burn_in=2)
    assert np.isfinite(draws.globals["components"].mean).all()


def test_errors_say_what_to_do():
    y = rows().astype("f")
    model = mixture(emission.full_gaussian(3, 4))
    with pytest.raises(ValueError, match=r"got nan in row .*emission\.incomplete\(emission\)"):
        vi.fit(vi.cavi(model), y, num_steps=2, key=KEY)
    model = mixture(emission.incomplete(emission.full_gaussian(3, 4)))
    empty = y.copy()
    empty[:, 2] = NAN
    with pytest.raises(ValueError, match=r"got none in 1 of 4 \(column 2"):
        vi.fit(vi.cavi(model), empty, num_steps=2, key=KEY)
