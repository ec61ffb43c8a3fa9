"""Held-out scores of the command line against SciPy, scikit-learn, quadrature and a forward
recursion by hand."""

import itertools
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from scipy import integrate, stats

import vijax as vi
from vijax.app.catalogue import ard_regression, factor_analysis, hmm, mixture
from vijax.app.rows.by_row import RowScore
from vijax.app.settings.units import log_scales
from vijax.app.sources.listing import Data, FittedRun
from vijax.data.tables.table import Table

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def seen(fit, test, settings, train=None):
    return FittedRun(fit, Data(test if train is None else train, test), settings, KEY)


def test_a_score_is_a_mean_with_its_error_over_rows_or_groups():
    rows = RowScore.of([-1.0, -2.0, -6.0], "row")
    np.testing.assert_allclose(
        [rows.mean, rows.standard_error], [-3.0, np.std([1, 2, 6], ddof=1) / np.sqrt(3)]
    )
    groups = RowScore.of([-10.0, -2.0], "step", sizes=[5, 1])
    np.testing.assert_allclose(groups.mean, -2.0)
    alone = str(RowScore.of([-10.0], "step", "1 sequence", sizes=[5]))
    assert (
        alone
        == "-2.000 nats per step (5 steps; 1 sequence; all in one group, so that its error is not "
        "known)"
    )
    assert "(6 steps)" in str(groups)
    assert "(2 entries)" in str(RowScore.of([-1.0, -1.0], "entry"))


def test_the_marginal_of_a_row_with_gaps_is_that_of_what_is_there():
    loadings, means, variance = RNG.normal(size=(5, 2)), RNG.normal(size=5), RNG.uniform(0.5, 2, 5)
    cov, marginal = (
        loadings @ loadings.T + np.diag(variance),
        jax.jit(factor_analysis._log_marginal),
    )
    for missing in itertools.chain.from_iterable(
        itertools.combinations(range(5), r) for r in (0, 1, 3)
    ):
        y = RNG.normal(size=5)
        y[list(missing)] = np.nan
        there = np.isfinite(y)
        wanted = stats.multivariate_normal.logpdf(y[there], means[there], cov[np.ix_(there, there)])
        with jax.enable_x64(True):
            found = marginal(y, loadings, means, variance)
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_the_marginal_of_a_row_in_float32_where_there_is_little_noise():
    """Loadings a thousand times the deviation of the noise, columns in units from 1e-4 to 1e4."""
    rng, units = np.random.default_rng(3), np.geomspace(1e-4, 1e4, 5)
    loadings, deviation = rng.normal(size=(5, 2)), 1e-3 * rng.uniform(0.5, 2, 5)
    y = np.float32((loadings @ rng.normal(size=2) + deviation * rng.normal(size=5)) * units)
    loadings, variance = np.float32(loadings * units[:, None]), np.float32((deviation * units) ** 2)
    found = jax.jit(factor_analysis._log_marginal)(y, loadings, np.zeros(5, np.float32), variance)
    factor, scaled = (
        np.float64(loadings) / units[:, None],
        np.float64(y) / units,
    )  # float64 holds it in these units
    cov = factor @ factor.T + np.diag(np.float64(variance) / units**2)
    wanted = stats.multivariate_normal.logpdf(scaled, np.zeros(5), cov) - np.log(units).sum()
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_entries_held_out_are_predicted_from_the_rest_of_their_rows():
    """The Gaussian conditional of an entry at the fitted loadings and noise, row by row, is what is
    scored."""
    y = RNG.normal(size=(40, 2)) @ RNG.normal(size=(2, 6)) + 0.3 * RNG.normal(size=(40, 6))
    out = RNG.random(y.shape) < 0.2
    names = tuple("abcdef")
    train, test = Table(names, np.where(out, np.nan, y)), Table(names, np.where(out, y, np.nan))
    model = vi.models.factor_analysis(6, 2, noise="isotropic")
    fit = vi.fit(vi.map(model), np.asarray(train.x, np.float32), num_steps=30, key=KEY)
    given = seen(fit, test, SimpleNamespace(num_factors=2, intercept=True), train)
    loadings, means, variance = map(np.asarray, factor_analysis._parameters(given))
    cov = loadings @ loadings.T + np.diag(variance)
    logs = []
    for row, column in np.argwhere(out):
        there = ~out[row]
        solved = np.linalg.solve(cov[np.ix_(there, there)], cov[there, column])
        mean = means[column] + solved @ (y[row, there] - means[there])
        logs.append(
            stats.norm.logpdf(
                y[row, column], mean, np.sqrt(cov[column, column] - solved @ cov[there, column])
            )
        )
    np.testing.assert_allclose(factor_analysis.score(given).mean, np.mean(logs), rtol=1e-3)


def test_the_predictive_density_of_a_regression_integrates_its_posterior():
    x, y = RNG.normal(size=(12, 2)), RNG.normal(size=12)
    settings = ard_regression.Settings()
    train = Table(("a", "b"), x, target="y", y=y)
    data = ard_regression.pairs(train, settings)
    fit = vi.fit(vi.cavi(vi.models.ard_regression(3)), data, num_steps=30, key=KEY)
    q = fit.posterior["coefficients"]
    location, shape, rate = (np.asarray(part, float) for part in (q.location, q.shape, q.rate))
    row = np.array([0.3, -1.2, 1.0])
    spread = 1 + row @ np.linalg.solve(np.asarray(q.strength, float), row)

    def density(tau):
        noise = stats.norm.pdf(0.7, row @ location, np.sqrt(spread / tau))
        return noise * stats.gamma.pdf(tau, shape, scale=1 / rate)

    wanted = np.log(integrate.quad(density, 0, np.inf)[0])
    one = Table(("a", "b"), row[None, :2], target="y", y=np.array([0.7]))
    np.testing.assert_allclose(
        ard_regression.score(seen(fit, one, settings)).mean, wanted, rtol=1e-4
    )


def test_maximum_likelihood_is_scored_at_the_point_as_scikit_learn_does():
    learn = pytest.importorskip("sklearn.mixture")
    y = np.concatenate([RNG.normal([4, 0], 1, (60, 2)), RNG.normal([-4, 0], [1, 2], (40, 2))])
    settings = mixture.Settings(num_components=2)
    test = Table(("a", "b"), y[::3])
    fit = vi.fit(
        vi.em(mixture.build(settings, Data(test, None))),
        np.asarray(y, np.float32),
        num_steps=40,
        key=KEY,
    )
    given = seen(fit, test, settings)
    peer = learn.GaussianMixture(2)
    peer.weights_, peer.means_ = (
        np.asarray(given.point("weights")),
        np.asarray(given.point("components").mean),
    )
    peer.precisions_cholesky_ = np.linalg.cholesky(
        np.asarray(given.point("components").precision, float)
    )
    np.testing.assert_allclose(mixture.score(given).mean, peer.score(test.x), rtol=1e-5)


def test_baum_welch_is_scored_by_the_forward_recursion():
    y = np.concatenate(
        [RNG.normal(size=(30, 1)) + 3, RNG.normal(size=(25, 1)) - 3, RNG.normal(size=(5, 1)) + 3]
    )
    groups = np.repeat([0, 1], [35, 25])
    table = Table(("a",), y, group="g", groups=groups, group_names=("0", "1"))
    settings = hmm.Settings(num_states=2)
    alg = vi.em(hmm.build(settings, Data(table, None)))
    fit = vi.fit(alg, hmm.padded_sequences(table), num_steps=20, key=KEY)
    given = seen(fit, table, settings)
    point = given.point("components")
    means, deviations = np.asarray(point.mean)[:, 0], np.asarray(point.precision)[:, 0, 0] ** -0.5
    initial, transition = (
        np.asarray(given.point(name), float) for name in ("initial", "transition")
    )
    total = 0.0
    for sequence in table.sequences():
        weights = initial
        for value in sequence[:, 0]:
            weights = weights * stats.norm.pdf(value, means, deviations)
            total += np.log(weights.sum())
            weights = (weights / weights.sum()) @ transition
    np.testing.assert_allclose(hmm.score(given).mean, total / len(y), rtol=1e-4)


def scored(listing, algorithm, train, test, settings, num_steps):
    """The score by a listing of a model of its own, fitted by maximum likelihood."""
    data = listing.arrange(train, settings)
    fit = vi.fit(algorithm, data, num_steps=num_steps, key=KEY)
    return listing.score_test_data(seen(fit, test, settings, train))


@pytest.mark.parametrize("name", ["mixture", "hmm", "factor_analysis"])
def test_a_run_on_standardised_columns_has_its_score_in_the_units_of_the_data(name):
    """Maximum likelihood does not know of units: with one component, state or factor the optimum is
    the same."""
    x = (
        RNG.normal(size=(60, 3)) @ np.array([[9.0, 1.0, 0.0], [0.0, 0.1, 0.1], [0.0, 0.0, 30.0]])
        + 5.0
    )
    groups = np.repeat(np.arange(6), 10)
    names = ("a", "b", "c")
    tables = [
        Table(names, part, group="g", groups=g, group_names=tuple(map(str, range(g.max() + 1))))
        for part, g in ((x[:40], groups[:40]), (x[40:], groups[:20]))
    ]
    one = vi.models.emission.full_gaussian(1, 3)
    listing, model = {
        "mixture": (mixture.LISTING, vi.models.mixture(one)),
        "hmm": (hmm.LISTING, vi.models.hmm(one)),
        "factor_analysis": (factor_analysis.LISTING, vi.models.factor_analysis(3, 2)),
    }[name]
    settings = SimpleNamespace(num_factors=2, intercept=True)
    train = tables[0].standardise()
    given = (settings, 2 if name != "factor_analysis" else 400)
    with jax.enable_x64(True):
        own = scored(listing, vi.em(model), *tables, *given)
        scaled = scored(listing, vi.em(model), train, tables[1].standardise(train.scaling), *given)
    np.testing.assert_allclose(scaled.mean, own.mean, rtol=2e-3)
    np.testing.assert_allclose(scaled.parts[0], own.parts[0], rtol=2e-2)


def test_the_scale_of_an_entry_that_is_missing_does_not_count():
    table = Table(("a", "b"), np.array([[1.0, 20.0], [3.0, np.nan], [5.0, 40.0]])).standardise()
    a, b = np.log(table.scaling.deviation)
    np.testing.assert_allclose(log_scales(table), [a + b, a, a + b])
