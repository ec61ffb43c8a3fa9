"""All checks of one fit: right fits pass, broken ones are found, by posteriors that are known in
closed form."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from tests.naming import check_names
from vijax.verdict.report import Others

KEY = jax.random.key(0)
FLIPS = np.repeat(
    np.array([1.0, 0.0], np.float32), (7, 3)
)  # with a uniform prior the posterior is Beta(8, 4)
RIGHT = stats.beta(8, 4)


def coin():
    return vi.energy_model(
        globals={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
        energy=lambda s, y: y * s["bias"].log + (1 - y) * s["bias"].log1m,
        example=0.0,
        sample=lambda values, y, key: jax.random.bernoulli(
            key, values["bias"], jnp.shape(y)
        ).astype(float),
    )


COIN = coin()


def fitted(alpha, beta):
    """A fit whose q is any Beta: wrong but for Beta(8, 4)."""
    fit = vi.fit(vi.cavi(COIN), FLIPS, num_steps=2, key=KEY)
    q = vi.Product({"bias": vi.Beta.from_alpha_beta(jnp.float32(alpha), jnp.float32(beta))})
    return fit._replace(state=fit.state._replace(posterior=q))


def checked(fit, data=FLIPS):
    return vi.trust.check(fit, data, key=jax.random.key(1))


def test_the_exact_posterior_passes_every_check():
    verdict = checked(fitted(8, 4))
    assert verdict.usable
    assert verdict.faults == []
    assert {name: one.made for name, one in verdict.checks.items()} == {
        "importance weights": True,
        "short chains": True,
        "linear response": True,
        "predictive checks": True,
        "restarts": True,
    }
    (bias,) = verdict.quantities
    assert bias.name == "bias"
    np.testing.assert_allclose([bias.mean, bias.sd], [RIGHT.mean(), RIGHT.std()], atol=0.01)
    assert abs(bias.mean_off) < 1e-3
    assert abs(bias.log_sd_off) < 0.06
    assert "found no fault" in str(verdict)
    assert "k-hat 0.00: good" in verdict.checks["importance weights"].said


def test_a_q_that_is_too_wide_is_off_by_what_is_known():
    wide = stats.beta(2, 1)  # its mean is right
    verdict = checked(fitted(2, 1))
    mean, error = verdict.checks["importance weights"].means["bias"]
    assert abs(mean) < 3 * error < 0.15
    off, error = verdict.checks["importance weights"].log_sds["bias"]
    assert abs(off - np.log(RIGHT.std() / wide.std())) < 3 * error < 0.15
    assert not verdict.usable
    assert verdict.faults[0].startswith("The sd of bias is 1.")


def test_a_q_beside_the_posterior_is_found_and_named():
    off = stats.beta(4, 8)
    verdict = checked(fitted(4, 8))
    (bias,) = verdict.quantities
    known = (RIGHT.mean() - off.mean()) / off.std()  # 2.5 sds of q
    mean, error = verdict.checks["short chains"].means["bias"]
    assert 0.5 * known < mean < known + 3 * error  # chains are on their way: a lower bound
    assert bias.mean_off > 1
    assert not verdict.usable
    assert verdict.faults[0].startswith("The mean of bias is off by -")
    assert "The mean of bias is off by -" in str(verdict)


def test_a_q_that_is_too_narrow_is_found_by_the_chains():
    verdict = checked(fitted(80, 40))
    assert not verdict.usable
    (bias,) = verdict.quantities
    known = np.log(RIGHT.std() / stats.beta(80, 40).std())
    assert 0.5 * known < bias.log_sd_off < known + 3 * bias.log_sd_error + 0.1
    assert "of the right one (" in verdict.faults[0]


def test_independent_normals_are_found_too_narrow_by_linear_response():
    precision = np.array([[2.0, 1.6], [1.6, 2.0]])
    model = vi.density(
        {"x": vi.free(2)}, lambda v: -0.5 * (v["x"] - 3) @ jnp.asarray(precision) @ (v["x"] - 3)
    )
    verdict = vi.trust.check(vi.dadvi(model, key=KEY), key=jax.random.key(1))
    known = np.sqrt(np.diag(np.linalg.inv(precision)))
    by_response = verdict.checks["linear response"].log_sds
    for one, right in zip(verdict.quantities, known, strict=True):
        np.testing.assert_allclose(one.sd * np.exp(by_response[one.name][0]), right, rtol=0.02)
        np.testing.assert_allclose(one.sd * np.exp(one.log_sd_off), right, rtol=0.15)
    assert not verdict.usable
    assert not verdict.checks["predictive checks"].made
    check_names(verdict.checks["predictive checks"].said, "predictive:", "model")
    assert verdict.checks["restarts"].said.endswith("searches were part of the fit.")


def test_modes_that_searches_found_beside_q_are_a_fault():
    model = vi.density({"x": vi.free()}, lambda v: -0.5 * v["x"] ** 2)
    fit = vi.dadvi(model, key=KEY)
    seen = vi.trust.check(fit._replace(report=fit.report._replace(others=Others(4, 1, 2))), key=KEY)
    assert seen.faults == ["Searches found 2 mode(s) of similar weight that q does not describe."]
    assert vi.trust.check(fit, key=KEY).usable


def test_data_that_the_model_does_not_make_are_a_fault():
    y = np.random.default_rng(0).negative_binomial(1, 0.2, size=(200, 1)).astype(np.float32)
    model = vi.models.mixture(vi.models.emission.poisson(1, dim=1))
    for data, usable in (
        (y, False),
        (np.random.default_rng(1).poisson(4.0, (200, 1)).astype(np.float32), True),
    ):
        verdict = checked(vi.fit(vi.cavi(model), data, num_steps=3, key=KEY), data)
        assert verdict.usable is usable
        assert (
            usable or "The model does not make such data: sd of data, column 0" in verdict.faults[0]
        )


def test_a_local_optimum_is_found_by_other_starts():
    rng = np.random.default_rng(1)
    y = np.concatenate([rng.normal(center, 0.3, (30, 1)) for center in (-6, -2, 2, 6)]).astype(
        np.float32
    )
    model = vi.models.mixture(
        vi.models.emission.unit_gaussian(4, dim=1), init=vi.init.random_responsibilities()
    )
    fits = [vi.fit(vi.cavi(model), y, num_steps=60, key=jax.random.key(i)) for i in range(6)]
    ends = [fit.elbo for fit in fits]
    assert max(ends) - min(ends) > 10
    for fit, usable in ((fits[int(np.argmin(ends))], False), (fits[int(np.argmax(ends))], True)):
        verdict = vi.trust.check(fit, y, key=jax.random.key(7), restarts=8)
        assert bool(verdict.checks["restarts"].fault) is not usable


def test_of_points_it_is_said_why_they_are_not_judged():
    verdict = checked(vi.fit(vi.em(COIN), FLIPS, num_steps=2, key=KEY))
    assert verdict.usable
    assert "bias: not known: no check could judge it" in str(verdict)
    assert [name for name, one in verdict.checks.items() if one.made] == [
        "predictive checks",
        "restarts",
    ]
    assert "points of ['bias']" in verdict.checks["short chains"].said


def test_of_documents_it_is_said_why_their_density_is_not_weighed():
    """It printed that an array had more than 64 dimensions."""
    counts = np.random.default_rng(0).poisson(1.0, (12, 6))
    corpus = vi.data.Corpus.from_counts(counts, list("abcdef"))
    fit = vi.fit(vi.cavi(vi.models.lda(2, 6)), corpus, num_steps=3, key=KEY)
    checks = vi.trust.check(fit, corpus, key=KEY, restarts=1).checks
    expected = (
        "fit: expected a model of rows, got one of documents, without a density. Compare held-out "
        "scores,"
    )
    for name in ("importance weights", "short chains"):
        assert checks[name].said.startswith(expected)
        assert not checks[name].made


def test_a_run_that_failed_is_a_fault():
    fit = fitted(8, 4)._replace(status=vi.Status.DIVERGED)
    assert checked(fit).faults[0].startswith("The fit itself says: ")


def test_data_that_are_too_large_for_a_minute_are_said(monkeypatch):
    limits = sys.modules["vijax.trust.check"]
    for name, limit in (("WORK", 4000), ("WORK_OF_CHAINS", 600), ("NUMBERS", 9000)):
        monkeypatch.setattr(limits, name, limit)
    checks = checked(fitted(8, 4)).checks  # of ten flips
    check_names(checks["importance weights"].said, "data:", "8 rows", "10")
    check_names(checks["short chains"].said, "data:", "9 rows", "10")
    check_names(checks["predictive checks"].said, "data:", "9", "10")
    assert [name for name, one in checks.items() if one.made] == ["linear response", "restarts"]


def test_of_very_many_numbers_only_predictions_and_other_starts_are_checked(monkeypatch):
    monkeypatch.setattr(sys.modules["vijax.trust.check"], "MOST_NUMBERS", 0)
    verdict = checked(fitted(8, 4))
    assert [name for name, one in verdict.checks.items() if one.made] == [
        "predictive checks",
        "restarts",
    ]
    assert "The globals are 1 numbers; up to 0 are looked at one by one." in str(verdict)
    assert "of q may be off is not known." in str(verdict)


def test_the_verdict_of_a_row_that_judges_nothing_names_the_call():
    assert "vijax.trust.check(fit, data, key=key)" in fitted(8, 4).verdict


@pytest.mark.parametrize(
    ("given", "words"),
    [({"fit": 3}, "fit: expected what a fit returned"), ({"restarts": 0}, "restarts")],
)
def test_arguments_that_make_no_sense(given, words):
    with pytest.raises(ValueError, match=words):
        vi.trust.check(**{"fit": fitted(8, 4), "data": FLIPS, "key": KEY, **given})


def test_tables_are_read_by_the_names_of_their_columns_and_documents_by_their_words():
    """In another order of columns a mixture was said to make no such data; other words were taken
    for the fit's."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"age": 60 + 5 * rng.normal(size=60), "dose": rng.normal(size=60)})
    standard = (table - table.mean()) / table.std()
    model = vi.models.mixture(vi.models.emission.diagonal_gaussian(2, 2))
    fit = vi.fit(vi.cavi(model), standard, num_steps=3, key=jax.random.key(0))
    turned = standard[["dose", "age"]]
    asked = lambda data: vi.evaluate.predictive_check(
        fit, lambda y: jnp.nanmean(y, 0), data, key=jax.random.key(1), num_draws=50
    )
    np.testing.assert_array_equal(asked(turned).observed, asked(standard).observed)
    one, other = (
        vi.trust.check(fit, data, key=jax.random.key(2), restarts=1) for data in (standard, turned)
    )
    assert str(one) == str(other)
    counts = rng.poisson(1.0, size=(8, 3))
    topics = vi.fit(
        vi.cavi(vi.models.lda(2, 3)),
        vi.data.Corpus.from_counts(counts, ("a", "b", "c")),
        num_steps=2,
        key=jax.random.key(0),
    )
    with pytest.raises(ValueError, match="word"):
        vi.trust.check(
            topics, vi.data.Corpus.from_counts(counts, ("x", "y", "z")), key=jax.random.key(2)
        )
