"""Posteriors of posteriordb (Magnusson et al. 2025), written in PyMC as its Stan programs are.

Data and reference draws are read from a clone of https://github.com/stan-dev/posteriordb. Priors
are those of the programs; parts of a density that do not depend on unknowns may be left out.
Ordered unknowns are the first and the distance to the second. Recursions without an input of
their own are sums of powers, and hidden chains products of matrices, two by two. Differential
equations take steps of Runge and Kutta of a fixed size."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

Data = dict[str, Any]


class Posterior(NamedTuple):
    """A posterior of the database.

    Attributes:
      data: name of its data.
      build: states the model of these data in an open `pm.Model`.
      reference: name of its reference draws; None where it has none.
    """

    data: str
    build: Callable[[Data], None]
    reference: str | None


class Summary(NamedTuple):
    """Means and sds of a posterior, by names such as "beta[1]"."""

    names: list[str]
    mean: np.ndarray
    sd: np.ndarray


# --- the clone ------------------------------------------------------------------------------------
def read_data(clone: Path, name: str) -> Data:
    """Data of a posterior, as Stan reads them."""
    return _read_zip(clone / "posterior_database/data/data" / f"{name}.json.zip")


def read_reference(clone: Path, name: str) -> Summary:
    """Means and sds of the reference draws; of their published moments where draws are missing."""
    folder = clone / "posterior_database/reference_posteriors"
    file = folder / "draws/draws" / f"{name}.json.zip"
    if not file.is_file():
        return _read_moments(folder / "summary_statistics", name)
    chains = _read_zip(file)
    names = list(chains[0])
    draws = np.array([np.concatenate([chain[name] for chain in chains]) for name in names])
    return Summary(names, draws.mean(1), draws.std(1))


def _read_zip(file: Path) -> Any:
    with zipfile.ZipFile(file) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def _read_moments(folder: Path, name: str) -> Summary:
    mean = json.loads((folder / f"mean_value/mean_value/{name}.json").read_text())
    file = folder / f"mean_squared_value/mean_squared_value/{name}.json"
    square = json.loads(file.read_text())
    means = np.asarray(mean["mean_value"], float)
    squares = np.asarray(square["mean_squared_value"], float)
    return Summary(mean["names"], means, np.sqrt(squares - means**2))


def numbers(data: Data, *names: str) -> list[np.ndarray]:
    """Columns of data."""
    return [np.asarray(data[name], float) for name in names]


# --- regressions ----------------------------------------------------------------------------------
def _linear(y: np.ndarray, *columns: np.ndarray, half_cauchy: float | None = None) -> None:
    """Normal errors, flat priors; a column of ones is added."""
    x = np.column_stack([np.ones(len(y)), *columns])
    beta = pm.Flat("beta", shape=x.shape[1])
    sigma = pm.HalfFlat("sigma") if half_cauchy is None else pm.HalfCauchy("sigma", half_cauchy)
    pm.Normal("y", x @ beta, sigma, observed=y)


def _standardised(x: np.ndarray, sds: float = 1.0) -> np.ndarray:
    return (x - x.mean()) / (sds * x.std(ddof=1))


def earnings(form: str) -> Callable[[Data], None]:
    """Earnings by height and sex."""

    def build(data: Data) -> None:
        earn, height, male = numbers(data, "earn", "height", "male")
        z = _standardised(height)
        y, columns = {
            "earn_height": (earn, [height]),
            "log10earn_height": (np.log10(earn), [height]),
            "logearn_height": (np.log(earn), [height]),
            "logearn_height_male": (np.log(earn), [height, male]),
            "logearn_interaction": (np.log(earn), [height, male, height * male]),
            "logearn_interaction_z": (np.log(earn), [z, male, z * male]),
            "logearn_logheight_male": (np.log(earn), [np.log(height), male]),
        }[form]
        _linear(y, *columns)

    return build


def kidscore(form: str) -> Callable[[Data], None]:
    """Scores of children by their mothers' school and IQ."""

    def build(data: Data) -> None:
        if form == "mom_work":
            (work,) = numbers(data, "mom_work")
            return _linear(numbers(data, "kid_score")[0], work == 2, work == 3, work == 4)
        y, iq = numbers(data, "kid_score", "mom_iq")
        (school,) = numbers(data, "mom_hs") if "mom_hs" in data else (np.zeros(len(y)),)
        product = lambda a, b: [a, b, a * b]
        prior = 2.5
        if form in ("interaction_c", "interaction_c2", "interaction_z"):
            prior = None
        columns = {
            "interaction": product(school, iq),
            "momhs": [school],
            "momhsiq": [school, iq],
            "momiq": [iq],
            "interaction_c": product(school - school.mean(), iq - iq.mean()),
            "interaction_c2": product(school - 0.5, iq - 100),
            "interaction_z": product(_standardised(school, 2), _standardised(iq, 2)),
        }[form]
        return _linear(y, *columns, half_cauchy=prior)

    return build


def mesquite(form: str) -> Callable[[Data], None]:
    """Leaf weight of bushes by their size."""

    def build(data: Data) -> None:
        weight, one, two, canopy, total, density, group = numbers(
            data, "weight", "diam1", "diam2", "canopy_height", "total_height", "density", "group"
        )
        plain = [one, two, canopy, total, density]
        volume, area, shape = np.log(one * two * canopy), np.log(one * two), np.log(one / two)
        columns = {
            "mesquite": [*plain, group],
            "logmesquite": [*map(np.log, plain), group],
            "logmesquite_logva": [volume, area, group],
            "logmesquite_logvas": [volume, area, shape, np.log(total), np.log(density), group],
            "logmesquite_logvash": [volume, area, shape, np.log(total), group],
            "logmesquite_logvolume": [volume],
        }[form]
        _linear(weight if form == "mesquite" else np.log(weight), *columns)

    return build


def nes(data: Data) -> None:
    """Party by opinions, origin, age, school, sex and income."""
    party, ideology, race, school, gender, income, age = numbers(
        data, "partyid7", "real_ideo", "race_adj", "educ1", "gender", "income", "age_discrete"
    )
    _linear(party, ideology, race, age == 2, age == 3, age == 4, school, gender, income)


def sblr(data: Data) -> None:
    """Simulated columns."""
    x, y = numbers(data, "X", "y")
    beta = pm.Normal("beta", 0, 10, shape=x.shape[1])
    pm.Normal("y", x @ beta, pm.HalfNormal("sigma", 10), observed=y)


def diamonds(data: Data) -> None:
    """Prices of 5,000 diamonds by 24 columns that depend on each other."""
    x, y = numbers(data, "X", "Y")
    x = x[:, 1:] - x[:, 1:].mean(0)
    b = pm.Normal("b", 0, 1, shape=x.shape[1])
    intercept = pm.StudentT("Intercept", 3, mu=8, sigma=10)
    pm.Normal("y", intercept + x @ b, pm.HalfStudentT("sigma", 3, 10), observed=y)


def kilpisjarvi(data: Data) -> None:
    """Temperature by year, not centred."""
    x, y = numbers(data, "x", "y")
    alpha = pm.Normal("alpha", data["pmualpha"], data["psalpha"])
    beta = pm.Normal("beta", data["pmubeta"], data["psbeta"])
    pm.Normal("y", alpha + beta * x, pm.HalfFlat("sigma"), observed=y)


# --- series ---------------------------------------------------------------------------------------
def autoregression(data: Data) -> None:
    """An autoregression of order K."""
    (y,) = numbers(data, "y")
    order = data["K"]
    lagged = np.column_stack([y[order - k - 1 : len(y) - k - 1] for k in range(order)])
    mean = pm.Normal("alpha", 0, 10) + lagged @ pm.Normal("beta", 0, 10, shape=order)
    pm.Normal("y", mean, pm.HalfCauchy("sigma", 2.5), observed=y[order:])


def _powers(rate: Any, size: int) -> Any:
    """The matrix of a recursion x_t = rate x_(t-1) + u_t: powers of the rate below its diagonal."""
    lag = np.subtract.outer(np.arange(size), np.arange(size))
    return pt.switch(lag >= 0, rate ** np.maximum(lag, 0), 0.0)


def arma(data: Data) -> None:
    """ARMA(1, 1)."""
    (y,) = numbers(data, "y")
    mu, phi, theta = pm.Normal("mu", 0, 10), pm.Normal("phi", 0, 2), pm.Normal("theta", 0, 2)
    sigma = pm.HalfCauchy("sigma", 2.5)
    before = pt.concatenate([mu[None], y[:-1]])
    error = _powers(-theta, len(y)) @ (y - mu - phi * before)
    pm.Potential("y", pm.logp(pm.Normal.dist(0, sigma), error).sum())


def garch(data: Data) -> None:
    """GARCH(1, 1)."""
    (y,) = numbers(data, "y")
    mu, alpha0 = pm.Flat("mu"), pm.HalfFlat("alpha0")
    alpha1 = pm.Uniform("alpha1", 0, 1)
    share = pm.Uniform("share", 0, 1)
    beta1 = pm.Deterministic("beta1", (1 - alpha1) * share)
    pm.Potential("volume", pt.log1p(-alpha1))
    first = np.array([data["sigma1"] ** 2])
    rest = alpha0 + alpha1 * (y[:-1] - mu) ** 2
    variance = _powers(beta1, len(y)) @ pt.concatenate([first, rest])
    pm.Normal("y", mu, pt.sqrt(variance), observed=y)


def _chain(initial: Any, moves: Any, emissions: Any) -> Any:
    """Log likelihood of a hidden chain: its matrices are multiplied two by two."""
    first = initial + emissions[0]
    steps = moves[None] + emissions[1:, None, :]
    size = emissions.type.shape[0] - 1
    while size > 1:
        pairs = pt.logsumexp(
            steps[0 : size - 1 : 2][:, :, :, None] + steps[1:size:2][:, None, :, :], axis=2
        )
        steps = pairs if size % 2 == 0 else pt.concatenate([pairs, steps[size - 1 :]])
        size = (size + 1) // 2
    return pt.logsumexp(first[:, None] + steps[0])


def _ordered(name: str, first: Any, means: tuple[float, float]) -> Any:
    """Two unknowns in order with normal priors of sd 1; the first has its own prior."""
    gap = pm.HalfFlat(f"{name}_gap")
    both = pm.Deterministic(name, pt.stack([first, first + gap]))
    pm.Potential(f"{name}_second", -0.5 * (both[1] - means[1]) ** 2)
    return both


def _emissions(law: Any, values: np.ndarray, *parameters: Any) -> Any:
    """Log densities of steps under each of two states."""
    columns = [
        pm.logp(law.dist(*(p[k] if p.ndim else p for p in parameters)), values) for k in range(2)
    ]
    return pt.specify_shape(pt.stack(columns, axis=1), (len(values), 2))


def hmm(data: Data) -> None:
    """Two states of unit variance."""
    (y,) = numbers(data, "y")
    rows = [pm.Dirichlet(f"theta{k}", np.ones(2)) for k in (1, 2)]
    low = pm.TruncatedNormal("mu_low", 3, 1, lower=0)
    mu = _ordered("mu", low, (3.0, 10.0))
    seen = _emissions(pm.Normal, y, mu, pt.as_tensor(1.0))
    pm.Potential("y", _chain(0.0, pt.log(pt.stack(rows)), seen))


def drives(law: str) -> Callable[[Data], None]:
    """Drives to the basket, from the speed and the distance of a player: two hidden states."""

    def build(data: Data) -> None:
        u, v, prior = numbers(data, "u", "v", "alpha")
        rows = [pm.Dirichlet(f"theta{k + 1}", prior[k]) for k in range(2)]
        first = pm.HalfNormal if law == "exponential" else pm.Normal
        low = {name: first(f"{name}_low", sigma=1) for name in ("phi", "lambda")}
        phi, rate = (_ordered(name, low[name], (0.0, 3.0)) for name in ("phi", "lambda"))
        if law == "exponential":
            # PyMC's law has a scale or a rate; log densities by hand are the shortest.
            seen = [pt.log(p) - p * x[:, None] for x, p in ((u, phi), (v, rate))]
        else:
            scales = {"u": data["tau"], "v": data["rho"]}
            seen = [
                -0.5 * ((x[:, None] - p) / s) ** 2
                for x, p, s in ((u, phi, scales["u"]), (v, rate, scales["v"]))
            ]
        both = pt.specify_shape(seen[0] + seen[1], (len(u), 2))
        pm.Potential("y", _chain(0.0, pt.log(pt.stack(rows)), both))

    return build


# --- differential equations -----------------------------------------------------------------------
def _solve(slope: Callable[[Any, Any], Any], start: Any, times: np.ndarray, steps: int) -> Any:
    """Values of a solution at equally many steps between times, by Runge and Kutta."""
    before = np.concatenate([[0.0], times[:-1]])
    size = np.repeat((times - before) / steps, steps)
    at = np.repeat(before, steps) + np.tile(np.arange(steps), len(times)) * size

    def step(t: Any, h: Any, z: Any) -> Any:
        one = slope(t, z)
        two = slope(t + h / 2, z + h / 2 * one)
        three = slope(t + h / 2, z + h / 2 * two)
        four = slope(t + h, z + h * three)
        return z + h / 6 * (one + 2 * two + 2 * three + four)

    path = pytensor.scan(
        step, sequences=[pt.as_tensor(at), pt.as_tensor(size)], outputs_info=[start],
        return_updates=False,
    )  # fmt: skip
    return path[steps - 1 :: steps]


def lotka_volterra(data: Data) -> None:
    """Hares and lynxes."""
    times, first, y = numbers(data, "ts", "y_init", "y")
    birth = pm.TruncatedNormal("birth", 1, 0.5, lower=0, shape=2)
    rate = pm.TruncatedNormal("rate", 0.05, 0.05, lower=0, shape=2)
    theta = pm.Deterministic("theta", pt.stack([birth[0], rate[0], birth[1], rate[1]]))
    sigma = pm.LogNormal("sigma", -1, 1, shape=2)
    start = pm.LogNormal("z_init", np.log(10), 1, shape=2)

    def slope(_: Any, z: Any) -> Any:
        hares = (theta[0] - theta[1] * z[1]) * z[0]
        return pt.stack([hares, (theta[3] * z[0] - theta[2]) * z[1]])

    z = _solve(slope, start, times, 20)
    pm.LogNormal("y_init", pt.log(start), sigma, observed=first)
    pm.LogNormal("y", pt.log(z), sigma, observed=y)


def one_compartment(data: Data) -> None:
    """A drug in one compartment, with saturated elimination."""
    times, seen = numbers(data, "times", "C_hat")
    k_a, k_m, v_m = (pm.HalfCauchy(name, 1) for name in ("k_a", "K_m", "V_m"))
    sigma = pm.HalfCauchy("sigma", 1)
    dose, volume = data["D"], data["V"]

    def slope(t: Any, c: Any) -> Any:
        return pt.exp(-k_a * t) * dose * k_a / volume - v_m / volume * c / (k_m + c)

    c = _solve(slope, pt.as_tensor(np.float64(0)), times, 20)
    pm.LogNormal("y", pt.log(c), sigma, observed=seen)


# --- Gaussian processes and mixtures --------------------------------------------------------------
def _kernel(x: np.ndarray, alpha: Any, rho: Any) -> Any:
    return alpha**2 * pt.exp(-((x[:, None] - x) ** 2) / (2 * rho**2))


def gp_regression(data: Data) -> None:
    """Hyperparameters of a Gaussian process."""
    x, y = numbers(data, "x", "y")
    rho, alpha = pm.Gamma("rho", 25, 4), pm.HalfNormal("alpha", 2)
    noise = pm.HalfNormal("sigma", 1)
    cov = _kernel(x, alpha, rho) + noise * np.eye(len(x))
    pm.MvNormal("y", np.zeros(len(x)), cov, observed=y)


def gp_counts(data: Data) -> None:
    """Counts whose log rate is a Gaussian process."""
    x, k = numbers(data, "x", "k")
    rho, alpha = pm.Gamma("rho", 25, 4), pm.HalfNormal("alpha", 2)
    root = pt.linalg.cholesky(_kernel(x, alpha, rho) + 1e-10 * np.eye(len(x)))
    f = pm.Deterministic("f", root @ pm.Normal("f_tilde", 0, 1, shape=len(x)))
    pm.Poisson("k", pt.exp(f), observed=k.astype(int))


def motorcycle(data: Data) -> None:
    """Acceleration of a helmet: two processes, of the mean and of the log sd."""
    y, basis, roots, basis_sd, roots_sd = numbers(
        data, "Y", "Xgp_1", "slambda_1", "Xgp_sigma_1", "slambda_sigma_1"
    )

    def process(suffix: str, x: np.ndarray, root: np.ndarray) -> Any:
        sd = pm.HalfStudentT(f"sdgp{suffix}_1", 3, 36)
        scale = pm.InverseGamma(f"lscale{suffix}_1", 1.124909, 0.0177)
        z = pm.Normal(f"zgp{suffix}_1", 0, 1, shape=x.shape[1])
        spectrum = sd**2 * np.sqrt(2 * np.pi) * scale * pt.exp(-0.5 * scale**2 * root[:, 0] ** 2)
        return x @ (pt.sqrt(spectrum) * z)

    mean = pm.StudentT("Intercept", 3, mu=-13, sigma=36) + process("", basis, roots)
    log_sd = pm.StudentT("Intercept_sigma", 3, mu=0, sigma=10) + process(
        "_sigma", basis_sd, roots_sd
    )
    pm.Normal("y", mean, pt.exp(log_sd), observed=y)


def mixture(data: Data) -> None:
    """Two normals in order."""
    (y,) = numbers(data, "y")
    low, gap = pm.Normal("mu_low", 0, 2), pm.HalfFlat("mu_gap")
    mu = pm.Deterministic("mu", pt.stack([low, low + gap]))
    pm.Potential("mu_second", -0.5 * (mu[1] / 2) ** 2)
    sigma, theta = pm.HalfNormal("sigma", 2, shape=2), pm.Beta("theta", 5, 5)
    one, two = (pm.logp(pm.Normal.dist(mu[k], sigma[k]), y) for k in range(2))
    pm.Potential("y", pt.logaddexp(pt.log(theta) + one, pt.log1p(-theta) + two).sum())


# --- hierarchies ----------------------------------------------------------------------------------
def schools(data: Data) -> None:
    """Eight schools, effects as standard noise."""
    y, error = numbers(data, "y", "sigma")
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    z = pm.Normal("theta_trans", 0, 1, shape=len(y))
    theta = pm.Deterministic("theta", mu + tau * z)
    pm.Normal("y", theta, error, observed=y)


def schools_centred(data: Data) -> None:
    """Eight schools."""
    y, error = numbers(data, "y", "sigma")
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    pm.Normal("y", pm.Normal("theta", mu, tau, shape=len(y)), error, observed=y)


def radon(data: Data) -> None:
    """Intercepts and slopes of 85 counties, centred."""
    y, floor = numbers(data, "log_radon", "floor_measure")
    county = np.asarray(data["county_idx"]) - 1
    effects = []
    for name in ("alpha", "beta"):
        mean, sd = pm.Normal(f"mu_{name}", 0, 10), pm.HalfNormal(f"sigma_{name}", 1)
        effects.append(pm.Normal(name, mean, sd, shape=data["J"])[county])
    mean = effects[0] + floor * effects[1]
    pm.Normal("y", mean, pm.HalfNormal("sigma_y", 1), observed=y)


def rats(data: Data) -> None:
    """Weights of 30 rats; scales with flat priors."""
    x, y = numbers(data, "x", "y")
    rat = np.asarray(data["rat"]) - 1
    effects = []
    for name in ("alpha", "beta"):
        mean, sd = pm.Normal(f"mu_{name}", 0, 100), pm.HalfFlat(f"sigma_{name}")
        effects.append(pm.Normal(name, mean, sd, shape=data["N"])[rat])
    mean = effects[0] + effects[1] * (x - data["xbar"])
    pm.Normal("y", mean, pm.HalfFlat("sigma_y"), observed=y)


def seeds(data: Data) -> None:
    """Seeds that germinate on 21 plates; effects less their mean."""
    x1, x2 = numbers(data, "x1", "x2")
    names = ("alpha0", "alpha1", "alpha2", "alpha12")
    alphas = [pm.Normal(name, 0, 1) for name in names]
    c = pm.Normal("c", 0, pm.HalfCauchy("sigma", 1), shape=data["I"])
    b = pm.Deterministic("b", c - c.mean())
    logit = alphas[0] + alphas[1] * x1 + alphas[2] * x2 + alphas[3] * x1 * x2 + b
    pm.Binomial("n", np.asarray(data["N"]), logit_p=logit, observed=np.asarray(data["n"]))


def surgical(data: Data) -> None:
    """Deaths in 12 hospitals."""
    mu, square = pm.Normal("mu", 0, 1000), pm.InverseGamma("sigmasq", 0.001, 0.001)
    b = pm.Normal("b", mu, pt.sqrt(square), shape=data["N"])
    pm.Binomial("r", np.asarray(data["n"]), logit_p=b, observed=np.asarray(data["r"]))


def irt(data: Data) -> None:
    """Answers of 100 persons to 20 items, which discriminate differently."""
    theta = pm.Normal("theta", 0, pm.HalfCauchy("sigma_theta", 2), shape=data["J"])
    a = pm.LogNormal("a", 0, pm.HalfCauchy("sigma_a", 2), shape=data["I"])
    mean, sd = pm.Normal("mu_b", 0, 5), pm.HalfCauchy("sigma_b", 2)
    b = pm.Normal("b", mean, sd, shape=data["I"])
    logit = a[:, None] * (theta - b[:, None])
    pm.Bernoulli("y", logit_p=logit, observed=np.asarray(data["y"]))


def site_counts(data: Data) -> None:
    """Birds at 235 sites."""
    mean, sd = pm.Normal("mu_alpha", 0, 10), pm.Uniform("sd_alpha", 0, 5)
    alpha = pm.Normal("alpha", mean, sd, shape=data["nsite"])
    site = np.asarray(data["obssite"]) - 1
    pm.Poisson("obs", pt.exp(alpha[site]), observed=np.asarray(data["obs"]))


def pilots(data: Data) -> None:
    """Pilots in five groups and eight scenarios: two crossed effects of few levels."""
    (y,) = numbers(data, "y")
    effects = []
    for name, size, index in (
        ("a", "n_groups", "group_id"),
        ("b", "n_scenarios", "scenario_id"),
    ):
        mean, sd = pm.Normal(f"mu_{name}", 0, 1), pm.Uniform(f"sigma_{name}", 0, 100)
        effect = pm.Normal(name, 10 * mean, sd, shape=data[size])
        effects.append(effect[np.asarray(data[index]) - 1])
    pm.Normal("y", effects[0] + effects[1], pm.Uniform("sigma_y", 0, 100), observed=y)


def losses(data: Data) -> None:
    """Losses of ten cohorts of insured, which grow with time."""
    times, premium, loss = numbers(data, "t_value", "premium", "loss")
    cohort, time = (np.asarray(data[name]) - 1 for name in ("cohort_id", "t_idx"))
    omega, theta = pm.LogNormal("omega", 0, 0.5), pm.LogNormal("theta", 0, 0.5)
    mean, sd = pm.Normal("mu_LR", 0, 0.5), pm.LogNormal("sd_LR", 0, 0.5)
    ratio = pm.LogNormal("LR", mean, sd, shape=data["n_cohort"])
    growth = 1 - pt.exp(-((times / theta) ** omega))
    seen = ratio[cohort] * premium[cohort] * growth[time]
    pm.Normal("loss", seen, pm.LogNormal("loss_sd", 0, 0.7) * premium[cohort], observed=loss)


# --- the list -------------------------------------------------------------------------------------
def _listed() -> dict[str, Posterior]:
    """All posteriors, by the database's names; many of a kind come last."""
    rows: list[tuple[str, Callable[[Data], None]]] = [
        ("eight_schools-eight_schools_noncentered", schools),
        ("arK-arK", autoregression),
        ("arma-arma11", arma),
        ("garch-garch11", garch),
        ("gp_pois_regr-gp_regr", gp_regression),
        ("gp_pois_regr-gp_pois_regr", gp_counts),
        ("hmm_example-hmm_example", hmm),
        ("bball_drive_event_0-hmm_drive_0", drives("exponential")),
        ("bball_drive_event_1-hmm_drive_1", drives("normal")),
        ("low_dim_gauss_mix-low_dim_gauss_mix", mixture),
        ("kilpisjarvi_mod-kilpisjarvi", kilpisjarvi),
        ("sblrc-blr", sblr),
        ("sblri-blr", sblr),
        ("diamonds-diamonds", diamonds),
        ("hudson_lynx_hare-lotka_volterra", lotka_volterra),
        ("one_comp_mm_elim_abs-one_comp_mm_elim_abs", one_compartment),
        ("mcycle_gp-accel_gp", motorcycle),
        ("earnings-logearn_interaction", earnings("logearn_interaction")),
        ("kidiq-kidscore_interaction", kidscore("interaction")),
        ("mesquite-mesquite", mesquite("mesquite")),
        ("nes1972-nes", nes),
    ]
    forms = ("earn_height", "log10earn_height", "logearn_height", "logearn_height_male",
             "logearn_interaction_z", "logearn_logheight_male")  # fmt: skip
    rows += [(f"earnings-{form}", earnings(form)) for form in forms]
    rows += [(f"kidiq-kidscore_{form}", kidscore(form)) for form in ("momhs", "momhsiq", "momiq")]
    forms = ("interaction_c", "interaction_c2", "interaction_z", "mom_work")
    rows += [(f"kidiq_with_mom_work-kidscore_{form}", kidscore(form)) for form in forms]
    forms = ("", "_logva", "_logvas", "_logvash", "_logvolume")
    rows += [(f"mesquite-logmesquite{form}", mesquite(f"logmesquite{form}")) for form in forms]
    rows += [(f"nes{year}-nes", nes) for year in range(1976, 2001, 4)]
    listed = {name: Posterior(name.split("-")[0], build, name) for name, build in rows}
    centred = "eight_schools-eight_schools_noncentered"
    listed["eight_schools-eight_schools_centered"] = Posterior(
        "eight_schools", schools_centred, centred
    )
    without: list[tuple[str, Callable[[Data], None]]] = [
        ("radon_mn-radon_variable_intercept_slope_centered", radon),
        ("rats_data-rats_model", rats),
        ("seeds_data-seeds_centered_model", seeds),
        ("surgical_data-surgical_model", surgical),
        ("irt_2pl-irt_2pl", irt),
        ("GLMM_data-GLMM1_model", site_counts),
        ("pilots-pilots", pilots),
        ("loss_curves-losscurve_sislob", losses),
    ]
    for name, build in without:
        listed[name] = Posterior(name.split("-")[0], build, None)
    return listed


POSTERIORS = _listed()


def built(clone: Path, name: str) -> pm.Model:
    """The model of a posterior, with its data."""
    listed = POSTERIORS[name]
    with pm.Model() as model:
        listed.build(read_data(clone, listed.data))
    return model
