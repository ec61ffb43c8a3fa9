"""Nine posteriors of posteriordb (Magnusson et al. 2025) as densities of named variables, with the
numbers of long NUTS runs to hold a fit against.

Data and reference numbers are read from the folder posteriordb of the one named by VIJAX_DATA.
Densities are those of the Stan programs, normalising constants of the priors included, and of
truncated ones too."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jax.scipy.stats import cauchy, norm

import vijax as vi

DATA = (
    Path(os.environ.get("VIJAX_DATA", Path(__file__).parents[3] / "shared" / "data"))
    / "posteriordb"
)
Values = Any


class Posterior(NamedTuple):
    """A model with its data, and the reference.

    Attributes:
      model: whose draws have the reference's names.
      data: that it reads.
      names: of the numbers compared, such as "beta[1]".
      mean: by NUTS, or by quadrature where that is exact.
      sd: likewise.
    """

    model: vi.Model
    data: Any
    names: list[str]
    mean: np.ndarray
    sd: np.ndarray


def read(name: str) -> dict[str, Any]:
    """Data of a posterior."""
    return json.loads((DATA / f"{name}.data.json").read_text())


def half_cauchy(x: jax.Array, scale: float) -> jax.Array:
    return jnp.log(2.0) + cauchy.logpdf(x, 0, scale)


def half_normal(x: jax.Array, scale: float) -> jax.Array:
    return jnp.log(2.0) + norm.logpdf(x, 0, scale)


# --- regressions ----------------------------------------------------------------------------------
def ar() -> tuple[vi.Model, Any]:
    """Autoregression of order K, T = 200."""
    d = read("arK")
    y, order = np.asarray(d["y"], float), d["K"]
    lagged = np.column_stack([y[order - k - 1 : len(y) - k - 1] for k in range(order)])
    model = vi.density(
        {"alpha": vi.free(), "beta": vi.free(order), "sigma": vi.free(support="positive")},
        log_prior=lambda v: (
            norm.logpdf(v["alpha"], 0, 10)
            + norm.logpdf(v["beta"], 0, 10).sum()
            + half_cauchy(v["sigma"], 2.5)
        ),
        log_lik=lambda v, g: norm.logpdf(g["y"], v["alpha"] + g["x"] @ v["beta"], v["sigma"]),
    )
    return model, {"x": lagged, "y": y[order:]}


def linear(x: np.ndarray, y: Any, prior: Callable[[Values], Any]) -> tuple[vi.Model, Any]:
    """Normal errors of unknown scale."""
    model = vi.density(
        {"beta": vi.free(x.shape[1]), "sigma": vi.free(support="positive")},
        log_prior=prior,
        log_lik=lambda v, g: norm.logpdf(g["y"], g["x"] @ v["beta"], v["sigma"]),
    )
    return model, {"x": x.astype(float), "y": np.asarray(y, float)}


def kidiq() -> tuple[vi.Model, Any]:
    d = read("kidiq")
    x = np.column_stack([np.ones(d["N"]), d["mom_hs"], d["mom_iq"]])
    return linear(x, d["kid_score"], lambda v: half_cauchy(v["sigma"], 2.5))


def earnings() -> tuple[vi.Model, Any]:
    """Height, sex and their product, correlation up to -0.9999; flat priors."""
    d = read("earnings")
    height, male = np.asarray(d["height"], float), np.asarray(d["male"], float)
    x = np.column_stack([np.ones(len(height)), height, male, height * male])
    return linear(x, np.log(d["earn"]), lambda v: 0.0 * v["sigma"])


def kilpisjarvi() -> tuple[vi.Model, Any]:
    """Temperature over the years 1952 to 2013, not centred."""
    d = read("kilpisjarvi_mod")
    model = vi.density(
        {"alpha": vi.free(), "beta": vi.free(), "sigma": vi.free(support="positive")},
        log_prior=lambda v: (
            norm.logpdf(v["alpha"], d["pmualpha"], d["psalpha"])
            + norm.logpdf(v["beta"], d["pmubeta"], d["psbeta"])
        ),
        log_lik=lambda v, g: norm.logpdf(g["y"], v["alpha"] + v["beta"] * g["x"], v["sigma"]),
    )
    return model, {"x": np.asarray(d["x"], float), "y": np.asarray(d["y"], float)}


def wells() -> tuple[vi.Model, Any]:
    """Logistic regression on the distance in metres; flat priors."""
    d = read("wells_data")

    def log_lik(v: Values, g: Any) -> jax.Array:
        logit = v["beta"][0] + v["beta"][1] * g["dist"]
        return g["switched"] * logit - jax.nn.softplus(logit)

    model = vi.density(
        {"beta": vi.free(2)}, log_prior=lambda v: 0.0 * v["beta"][0], log_lik=log_lik
    )
    return model, {name: np.asarray(d[name], float) for name in ("dist", "switched")}


# --- others ---------------------------------------------------------------------------------------
def eight_schools() -> tuple[vi.Model, Any]:
    """Effects theta = mu + tau theta_trans."""
    d = read("eight_schools")
    effects = lambda v: v["mu"] + v["tau"] * v["theta_trans"]

    def log_density(v: Values, data: Any) -> jax.Array:
        prior = (
            norm.logpdf(v["theta_trans"]).sum()
            + norm.logpdf(v["mu"], 0, 5)
            + half_cauchy(v["tau"], 5.0)
        )
        return prior + norm.logpdf(data["y"], effects(v), data["sigma"]).sum()

    variables = {"theta_trans": vi.free(8), "mu": vi.free(), "tau": vi.free(support="positive")}
    model = vi.density(variables, log_density, derived=lambda v: {"theta": effects(v)})
    return model, {name: np.asarray(d[name], float) for name in ("y", "sigma")}


def gauss_mix() -> tuple[vi.Model, Any]:
    """Two normals in order, 1,000 numbers."""

    def log_prior(v: Values) -> jax.Array:
        scales = half_normal(v["sigma"], 2.0).sum()
        return norm.logpdf(v["mu"], 0, 2).sum() + scales + stats.beta.logpdf(v["theta"], 5.0, 5.0)

    def log_lik(v: Values, y: jax.Array) -> jax.Array:
        one, two = (norm.logpdf(y, v["mu"][k], v["sigma"][k]) for k in range(2))
        return jnp.logaddexp(jnp.log(v["theta"]) + one, jnp.log1p(-v["theta"]) + two)

    variables = {
        "mu": vi.free(2, "ordered"),
        "sigma": vi.free(2, "positive"),
        "theta": vi.free(support="unit interval"),
    }
    model = vi.density(variables, log_prior=log_prior, log_lik=log_lik)
    return model, np.asarray(read("low_dim_gauss_mix")["y"], float)


def hmm() -> tuple[vi.Model, Any]:
    """Two states of unit variance, whose means are positive and in order."""
    means = lambda v: jnp.stack([v["low"], v["low"] + v["gap"]])

    def log_density(v: Values, y: jax.Array) -> jax.Array:
        moves = jnp.log(jnp.stack([v["theta1"], v["theta2"]]))
        seen = norm.logpdf(y[:, None], means(v), 1.0)
        step = lambda a, e: (jax.nn.logsumexp(a[:, None] + moves, axis=0) + e, None)
        last, _ = jax.lax.scan(step, seen[0], seen[1:])
        return jax.nn.logsumexp(last) + norm.logpdf(means(v), jnp.array([3.0, 10.0]), 1.0).sum()

    variables = {
        "theta1": vi.free(2, "simplex"),
        "theta2": vi.free(2, "simplex"),
        "low": vi.free(support="positive"),
        "gap": vi.free(support="positive"),
    }
    model = vi.density(variables, log_density, derived=lambda v: {"mu": means(v)})
    return model, np.asarray(read("hmm_example")["y"], float)


def gp_regr() -> tuple[vi.Model, Any]:
    """Hyperparameters of a Gaussian process over eleven points."""
    d = read("gp_pois_regr")

    def log_density(v: Values, data: Any) -> jax.Array:
        x, y = data["x"], data["y"]
        kernel = v["alpha"] ** 2 * jnp.exp(-((x[:, None] - x) ** 2) / (2 * v["rho"] ** 2))
        cov = kernel + v["sigma"] * jnp.eye(len(x))
        prior = stats.gamma.logpdf(v["rho"], 25.0, scale=0.25) + half_normal(v["alpha"], 2.0)
        return (
            prior
            + half_normal(v["sigma"], 1.0)
            + stats.multivariate_normal.logpdf(y, jnp.zeros(len(x)), cov)
        )

    model = vi.density(
        {name: vi.free(support="positive") for name in ("rho", "alpha", "sigma")}, log_density
    )
    return model, {"x": np.asarray(d["x"], float), "y": np.asarray(d["y"], float)}


POSTERIORS: dict[str, tuple[str, Callable[[], tuple[vi.Model, Any]]]] = {
    "arK": ("arK-arK", ar),
    "earnings": ("earnings-logearn_interaction", earnings),
    "eight_schools": ("eight_schools-eight_schools_noncentered", eight_schools),
    "gauss_mix": ("low_dim_gauss_mix-low_dim_gauss_mix", gauss_mix),
    "gp_regr": ("gp_pois_regr-gp_regr", gp_regr),
    "hmm": ("hmm_example-hmm_example", hmm),
    "kidiq": ("kidiq-kidscore_momhsiq", kidiq),
    "kilpisjarvi": ("kilpisjarvi_mod-kilpisjarvi", kilpisjarvi),
    "wells": ("wells_data-wells_dist", wells),
}
"""The file of the reference, and the model."""


def load(name: str) -> Posterior:
    """One of `POSTERIORS`."""
    file, make = POSTERIORS[name]
    reference = np.load(DATA / f"{file}.npz", allow_pickle=False)
    model, data = make()
    return Posterior(
        model, data, list(map(str, reference["names"])), reference["mean"], reference["sd"]
    )


def column(draws: dict[str, Any], name: str) -> np.ndarray:
    """Draws of "beta[1]", in float64."""
    variable, _, place = name.rstrip("]").partition("[")
    x = np.asarray(draws[variable], np.float64)
    return x[:, int(place) - 1] if place else x


class Errors(NamedTuple):
    """The worst of a fit's numbers.

    Attributes:
      mean: error of a mean, in the posterior's sds.
      log_sd: |log of the ratio of sds|.
      at: of which number the mean is worst.
    """

    mean: float
    log_sd: float
    at: str


def errors(posterior: Posterior, draws: dict[str, Any]) -> Errors:
    """How far draws are from the reference."""
    x = np.stack([column(draws, name) for name in posterior.names], 1)
    off = np.abs(x.mean(0) - posterior.mean) / posterior.sd
    return Errors(
        off.max(), np.abs(np.log(x.std(0) / posterior.sd)).max(), posterior.names[int(off.argmax())]
    )
