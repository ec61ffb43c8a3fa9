"""Improper densities under rows of steps: the bound grows without limit, and the fit says along what."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi

KEY = jax.random.key(0)
NAMES = {"x": vi.free(), "y": vi.free()}
ROWS = {"advi": 2000, "bbvi": 2000, "ngvi": 400}
SEPARABLE = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)


def fitted(row, density, data=None, variables=NAMES, **parts):
    model = vi.density(variables, density, **parts)
    return vi.fit(getattr(vi, row)(model), data, num_steps=ROWS[row], key=KEY, throw=False)


@pytest.mark.parametrize("row", ROWS)
def test_a_variable_without_a_prior_is_named(row):
    fit = fitted(row, lambda v: norm.logpdf(v["y"]) + 0.0 * v["x"])
    assert fit.status is vi.Status.UNBOUNDED
    assert not fit.report.usable
    assert fit.verdict.startswith("Do not use this fit: the bound grows without limit along x. ")


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(
    "prior",
    [
        lambda x: -0.5 * (x / 1e9) ** 2,
        lambda x: -jnp.log1p((x / 1e3 - 1) ** 2),
        lambda x: norm.logpdf(x, 40.0, 0.1),
        lambda x: -jnp.abs(x) / 1e4,
    ],
)
def test_a_wide_or_a_distant_prior_is_proper(row, prior):
    fit = fitted(row, lambda v: norm.logpdf(v["y"]) + prior(v["x"]))
    assert fit.status is vi.Status.FINISHED
    assert fit.report is None


def test_it_is_an_error_unless_asked_for():
    model = vi.density(NAMES, lambda v: norm.logpdf(v["y"]) + 0.0 * v["x"])
    with pytest.raises(vi.DivergedError, match=r"grows without limit along x.*proper prior") as error:
        vi.fit(vi.ngvi(model), num_steps=400, key=KEY)
    assert error.value.fit.status is vi.Status.UNBOUNDED


def test_what_no_coordinate_shows():
    """Only the sum is known; labels that a line separates, whose weights go on for ever."""
    assert fitted("ngvi", lambda v: norm.logpdf(v["x"] + v["y"])).status is vi.Status.UNBOUNDED
    lik = lambda v, row: row[1] * (row[0] @ v["w"]) - jax.nn.softplus(row[0] @ v["w"])
    data = (SEPARABLE, (SEPARABLE[:, 0] > 0).astype(np.float32))
    parts = {"log_lik": lik, "variables": {"w": vi.free(2)}, "data": data}
    assert fitted("ngvi", None, log_prior=lambda v: 0.0 * v["w"][0], **parts).status is vi.Status.UNBOUNDED
    prior = lambda v: norm.logpdf(v["w"], 0, 100.0).sum()
    assert fitted("ngvi", None, log_prior=prior, **parts).status is vi.Status.FINISHED


def test_a_sum_of_a_wide_prior_is_proper():
    wide = lambda v: norm.logpdf(v["x"] + v["y"]) + norm.logpdf(v["x"], 0, 1e4)
    assert fitted("ngvi", wide).status is vi.Status.FINISHED


def test_a_bound_that_is_infinite_is_no_limit():
    assert fitted("ngvi", lambda v: v["x"] ** 2 + norm.logpdf(v["y"])).status is vi.Status.UNBOUNDED
