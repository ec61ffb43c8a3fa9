"""Hierarchies as users of PyMC write them: `vijax.auto(vijax.from_pymc(model))` beside NUTS.

    pip install -e ".[pymc,numpyro]"
    python benchmarks/hierarchies_pymc.py [--only radon tadpoles]

Prints the table of benchmarks/results_hierarchies_pymc.md. Nothing is set: effects are written
centred, as textbooks do, but in `noncentred`. CPU seconds of a fit have all compilation in them.
Errors are of the means and sds of the model's own variables in their supports, the worst over all
numbers: (mean - NUTS's mean) / NUTS's sd, and the log of the ratio of sds. NUTS is NumPyro's, in
double precision, on the density with all variables, in coordinates that `vijax.auto` would find for
it, because NUTS is stuck in those of many of these models; `--free` takes PyMC's own coordinates.
`--keep` fits with all variables in the density, too. Data are made here."""

from __future__ import annotations

import argparse
import logging
import warnings
from typing import Any

import jax
import numpy as np
import pymc as pm
from gallery_pymc import built, timed
from numpyro.infer import MCMC, NUTS

import vijax as vi
from vijax.automatic.coordinates.hierarchies import learn_coordinates, most_gradients
from vijax.verdict.target import Target

DRAWS = 40_000
CHAINS, WARMUP, KEPT = 2, 700, 1500  # of NUTS


# --- models ---------------------------------------------------------------------------------------
def _homes(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    houses = np.ceil(np.exp(rng.normal(1.4, 1.1, 85))).clip(1, 120).astype(int)
    county = np.repeat(np.arange(85), houses)
    return county, rng.binomial(1, 0.17, len(county)).astype(float)


def schools() -> None:
    """Eight schools, centred (Rubin 1981)."""
    effect, error = (
        np.array([28.0, 8, -3, 7, -1, 1, 18, 12]),
        np.array([15.0, 10, 16, 11, 9, 11, 10, 18]),
    )
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    theta = pm.Normal("theta", mu, tau, shape=8)
    pm.Normal("y", theta, error, observed=effect)


def radon() -> None:
    """Intercepts and slopes of 85 counties, independent."""
    rng = np.random.default_rng(0)
    county, floor = _homes(rng)
    intercepts, slopes = rng.normal(1.4, 0.33, 85), rng.normal(-0.7, 0.3, 85)
    y = intercepts[county] + slopes[county] * floor + rng.normal(0, 0.75, len(county))
    pm.modelcontext(None).add_coords({"county": np.arange(85)})
    mu_a, mu_b = pm.Normal("mu_a", 0, 10), pm.Normal("mu_b", 0, 10)
    a = pm.Normal("a", mu_a, pm.Exponential("sigma_a", 1), dims="county")
    b = pm.Normal("b", mu_b, pm.Exponential("sigma_b", 1), dims="county")
    index, x = pm.Data("county_index", county), pm.Data("floor", floor)
    pm.Normal("y", a[index] + b[index] * x, pm.Exponential("sigma", 1), observed=y)


def correlated() -> None:
    """Intercepts and slopes of 30 cafes with a correlation."""
    rng = np.random.default_rng(1)
    cafe, noon = np.repeat(np.arange(30), 10), np.tile([0.0, 1.0], 150)
    effects = rng.multivariate_normal([3.5, -1.0], [[1.0, -0.35], [-0.35, 0.25]], 30)
    y = effects[cafe, 0] + effects[cafe, 1] * noon + rng.normal(0, 0.5, 300)
    chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1.0, shape=2))
    mean = pm.Normal("mean", 0, 5, shape=2)
    ab = pm.MvNormal("ab", mean, chol=chol, shape=(30, 2))
    pm.Normal("y", ab[cafe, 0] + ab[cafe, 1] * noon, pm.Exponential("sigma", 1), observed=y)


def tadpoles() -> None:
    """Survivors in 48 tanks."""
    rng = np.random.default_rng(2)
    density = np.repeat([5, 10, 25, 35], 12)
    survived = rng.binomial(density, 1 / (1 + np.exp(-rng.normal(1.4, 1.6, 48))))
    bar, sigma = pm.Normal("bar", 0, 1.5), pm.Exponential("sigma", 1)
    alpha = pm.Normal("alpha", bar, sigma, shape=48)
    pm.Binomial("s", density, logit_p=alpha, observed=survived)


def noncentred() -> None:
    """The same, its effects written as standard noise."""
    rng = np.random.default_rng(2)
    density = np.repeat([5, 10, 25, 35], 12)
    survived = rng.binomial(density, 1 / (1 + np.exp(-rng.normal(1.4, 1.6, 48))))
    bar, sigma = pm.Normal("bar", 0, 1.5), pm.Exponential("sigma", 1)
    alpha = pm.Deterministic("alpha", bar + sigma * pm.Normal("z", 0, 1, shape=48))
    pm.Binomial("s", density, logit_p=alpha, observed=survived)


def rats() -> None:
    """Weights of 30 rats in five weeks (after Gelfand et al. 1990)."""
    rng = np.random.default_rng(3)
    day = np.array([8.0, 15, 22, 29, 36]) - 22
    y = (
        rng.normal(242, 14, 30)[:, None]
        + rng.normal(6.2, 0.5, 30)[:, None] * day
        + rng.normal(0, 6, (30, 5))
    )
    alpha = pm.Normal(
        "alpha", pm.Normal("mu_alpha", 250, 100), pm.HalfNormal("sd_alpha", 50), shape=30
    )
    beta = pm.Normal("beta", pm.Normal("mu_beta", 0, 10), pm.HalfNormal("sd_beta", 5), shape=30)
    pm.Normal("y", alpha[:, None] + beta[:, None] * day, pm.HalfNormal("sigma", 20), observed=y)


def tumours() -> None:
    """Tumours of rats in 71 experiments, their rates of a beta law."""
    rng = np.random.default_rng(4)
    n = rng.integers(10, 50, 71)
    mean, size = pm.Beta("mean", 2, 10), pm.HalfNormal("size", 30)
    theta = pm.Beta("theta", mean * size, (1 - mean) * size, shape=71)
    pm.Binomial("y", n, theta, observed=rng.binomial(n, rng.beta(2.4, 14, 71)))


def exposure() -> None:
    """Counts of 40 areas with an exposure and two covariates."""
    rng = np.random.default_rng(5)
    expected, x = rng.uniform(0.5, 40, 40), rng.normal(size=(40, 2))
    y = rng.poisson(expected * np.exp(-0.2 + x @ [0.3, -0.2] + rng.normal(0, 0.4, 40)))
    intercept, slopes = pm.Normal("intercept", 0, 2), pm.Normal("slopes", 0, 1, shape=2)
    area = pm.Normal("area", 0, pm.HalfNormal("spread", 1), shape=40)
    pm.Poisson("y", pm.math.exp(np.log(expected) + intercept + x @ slopes + area), observed=y)


def nested() -> None:
    """Pupils in 40 classes in 10 schools."""
    rng = np.random.default_rng(6)
    school = np.repeat(np.arange(10), 4)
    pupil = np.repeat(np.arange(40), rng.integers(3, 20, 40))
    y = (rng.normal(0, 1, 10)[school] + rng.normal(0, 0.5, 40))[pupil] + rng.normal(
        0, 1.2, len(pupil)
    )
    schools = pm.Normal("school", pm.Normal("mean", 0, 5), pm.HalfNormal("between", 2), shape=10)
    classes = pm.Normal("class", schools[school], pm.HalfNormal("within", 2), shape=40)
    pm.Normal("y", classes[pupil], pm.HalfNormal("sigma", 3), observed=y)


def local_level() -> None:
    """A random walk of 60 steps that is seen with noise."""
    rng = np.random.default_rng(7)
    y = np.cumsum(rng.normal(0, 0.4, 60)) + rng.normal(0, 0.8, 60)
    step, noise = pm.HalfNormal("step", 1), pm.HalfNormal("noise", 1)
    walk = pm.GaussianRandomWalk("walk", sigma=step, init_dist=pm.Normal.dist(0, 2), shape=60)
    pm.Normal("y", walk, noise, observed=y)


def autoregression() -> None:
    """Counts of 80 days whose log rate is an AR(1)."""
    rng = np.random.default_rng(8)
    level = np.zeros(80)
    for t in range(1, 80):
        level[t] = 0.7 * level[t - 1] + rng.normal(0, 0.4)
    rho, sigma = pm.Uniform("rho", -1, 1), pm.HalfNormal("sigma", 1)
    mean = pm.Normal("mean", 1, 2)
    latent = pm.AR(
        "latent", pm.math.stack([rho]), sigma=sigma, init_dist=pm.Normal.dist(0, 1), steps=79
    )
    pm.Poisson("y", pm.math.exp(mean + latent), observed=rng.poisson(np.exp(1.2 + level)))


def errors_in_x() -> None:
    """A line through 60 points whose x is measured with an error."""
    rng = np.random.default_rng(9)
    x = rng.normal(1, 1.5, 60)
    seen, y = x + rng.normal(0, 0.7, 60), 0.5 + 1.2 * x + rng.normal(0, 0.5, 60)
    true = pm.Normal("true", pm.Normal("center", 0, 5), pm.HalfNormal("spread", 3), shape=60)
    pm.Normal("seen", true, 0.7, observed=seen)
    line = pm.Normal("intercept", 0, 5) + pm.Normal("slope", 0, 5) * true
    pm.Normal("y", line, pm.HalfNormal("sigma", 2), observed=y)


def items() -> None:
    """Answers of 40 persons to 15 items: two crossed effects."""
    rng = np.random.default_rng(10)
    logits = rng.normal(0, 1.2, 40)[:, None] - rng.normal(0.2, 0.9, 15)
    pm.modelcontext(None).add_coords({"person": np.arange(40), "item": np.arange(15)})
    ability = pm.Normal("ability", 0, pm.HalfNormal("sd_ability", 2), dims="person")
    difficulty = pm.Normal(
        "difficulty", pm.Normal("mean", 0, 2), pm.HalfNormal("sd_item", 2), dims="item"
    )
    logit = ability[:, None] - difficulty[None, :]
    pm.Bernoulli(
        "y",
        logit_p=logit,
        observed=rng.binomial(1, 1 / (1 + np.exp(-logits))),
        dims=("person", "item"),
    )


def horseshoe() -> None:
    """Twenty columns of which three count, in 100 rows."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(100, 20))
    y = x[:, :3] @ [1.5, -1.0, 0.6] + rng.normal(size=100)
    tau, local = pm.HalfCauchy("tau", 0.2), pm.HalfCauchy("local", 1, shape=20)
    beta = pm.Normal("beta", 0, tau * local, shape=20)
    pm.Normal("y", x @ beta, pm.HalfNormal("sigma", 2), observed=y)


def _grid(side: int) -> np.ndarray:
    place = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2)
    return (np.abs(place[:, None] - place).sum(-1) == 1).astype(int)


def car() -> None:
    """Counts on a map of 36 areas."""
    rng = np.random.default_rng(12)
    adjacency = _grid(6)
    precision = 4 * (np.diag(adjacency.sum(0)) - 0.9 * adjacency)
    field = np.linalg.solve(np.linalg.cholesky(precision).T, rng.normal(size=36))
    expected = rng.uniform(3, 30, 36)
    tau, alpha = pm.Gamma("tau", 2, 0.5), pm.Beta("alpha", 2, 1)
    phi = pm.CAR("phi", np.zeros(36), adjacency, alpha, tau)
    y = rng.poisson(expected * np.exp(0.2 + field))
    pm.Poisson("y", expected * pm.math.exp(pm.Normal("mean", 0, 1) + phi), observed=y)


def zero_sum() -> None:
    """Effects of 12 days, which sum to zero, and of 20 shops."""
    rng = np.random.default_rng(13)
    day, shop = np.repeat(np.arange(12), 20), np.tile(np.arange(20), 12)
    y = 3 + rng.normal(0, 0.5, 12)[day] + rng.normal(0, 0.2, 20)[shop] + rng.normal(0, 1, 240)
    days = pm.ZeroSumNormal("day", pm.HalfNormal("sd_day", 1), shape=12)
    shops = pm.ZeroSumNormal("shop", pm.HalfNormal("sd_shop", 1), shape=20)
    pm.Normal(
        "y",
        pm.Normal("mean", 0, 5) + days[day] + shops[shop],
        pm.HalfNormal("sigma", 2),
        observed=y,
    )


MODELS = {
    of.__name__: of
    for of in (
        schools, radon, correlated, tadpoles, noncentred, rats, tumours, exposure, nested, local_level, autoregression,
        errors_in_x, items, horseshoe, car, zero_sum,
    )
}  # fmt: skip


# --- comparison -----------------------------------------------------------------------------------
def by_nuts(model: pm.Model, reference: Any) -> tuple[dict[str, np.ndarray], float, int]:
    """Draws by name, the worst R-hat of coordinates, and the number of divergences."""
    with jax.enable_x64(True):
        own = vi.from_pymc(model, integrate=False).log_density
        placed = None if reference is None else lambda z: own.hierarchy.to_free(reference, z)

        def potential(z: Any) -> Any:
            if placed is None:
                return -own.log_prior_at(z)
            there = placed(z)
            return -own.log_prior_at(there.free) - there.log_volume

        sampler = MCMC(
            NUTS(potential_fn=potential, target_accept_prob=0.9),
            num_warmup=WARMUP, num_samples=KEPT, num_chains=CHAINS, chain_method="sequential", progress_bar=False,
        )  # fmt: skip
        start = 0.1 * jax.random.normal(jax.random.key(1), (CHAINS, own.variables.dim))
        sampler.run(jax.random.key(2), init_params=start, extra_fields=("diverging",))
        z = sampler.get_samples(group_by_chain=True)
        rhat = float(np.max(_rhat(np.asarray(z))))
        at = (
            (lambda z: own.values_and_derived(z))
            if placed is None
            else (lambda z: own.values_and_derived(placed(z).free))
        )
        values = jax.jit(jax.vmap(at))(z.reshape(-1, own.variables.dim))
        diverging = int(sampler.get_extra_fields()["diverging"].sum())
    return {name: np.asarray(x, float) for name, x in values.items()}, rhat, diverging


def _rhat(z: np.ndarray) -> np.ndarray:
    """Split R-hat of each coordinate (Gelman et al. 2013)."""
    halves = np.concatenate(np.array_split(z[:, : 2 * (z.shape[1] // 2)], 2, axis=1))
    within = halves.var(1, ddof=1).mean(0)
    return np.sqrt((halves.shape[1] - 1) / halves.shape[1] + halves.mean(1).var(0, ddof=1) / within)


def learnt(model: pm.Model) -> Any:
    """Coordinates for all variables; None where no law depends on another variable."""
    whole = vi.from_pymc(model, integrate=False)
    hierarchy = whole.log_density.hierarchy
    if hierarchy is None:
        return None
    limit = most_gradients(hierarchy)
    target = Target.from_data(whole, None)
    return learn_coordinates(target, hierarchy, 0, limit, lambda: False)


def row(name: str, in_free: bool, keep: bool) -> tuple[list[str], str]:
    """A line of the table, and the verdict of the fit."""
    model = built(MODELS[name])
    fit_again = lambda: vi.auto(vi.from_pymc(model, integrate=not keep), key=jax.random.key(0))
    fit, ours = timed(fit_again)
    again = timed(fit_again)[1]
    draws = fit.sample(jax.random.key(1), DRAWS)
    (nuts, rhat, diverging), theirs = timed(
        lambda: by_nuts(model, None if in_free else learnt(model))
    )
    names = [x.name for x in model.free_RVs]
    reference = {x: nuts[x].reshape(len(nuts[x]), -1) for x in names}
    found = {x: np.asarray(draws[x], float).reshape(DRAWS, -1) for x in names}
    off = {x: (np.abs(found[x].mean(0) - r.mean(0)) / r.std(0)).max() for x, r in reference.items()}
    wide = {x: np.abs(np.log(found[x].std(0) / r.std(0))).max() for x, r in reference.items()}
    at, at_sd = max(off, key=off.get), max(wide, key=wide.get)
    dim = sum(int(np.prod(np.shape(x))) for x in model.initial_point(0).values())
    return [
        name, str(dim), str(fit.alg.spec.model.log_density.variables.dim),
        f"{fit.report.num_gradients:,}", f"{ours:.1f}; {again:.1f}", f"{off[at]:.2f} ({at})",
        f"{wide[at_sd]:.2f} ({at_sd})", f"{rhat:.3f}", str(diverging), f"{theirs:.0f}",
    ], str(fit.verdict)  # fmt: skip


HEAD = [
    "model",
    "D",
    "fitted",
    "gradients",
    "CPU s",
    "mean error / sd",
    "log sd ratio",
    "NUTS's R-hat",
    "divergences",
    "CPU s, NUTS",
]


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    p.add_argument("--free", action="store_true", help="NUTS in PyMC's own coordinates")
    p.add_argument("--keep", action="store_true", help="integrate nothing out")
    a = p.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    print(
        f"PyMC {pm.__version__}, jax {jax.__version__}\n\n| {' | '.join(HEAD)} "
        f"|\n|{'---|' * len(HEAD)}"
    )
    verdicts = {}
    for name in a.only:
        cells, verdicts[name] = row(name, a.free, a.keep)
        print(f"| {' | '.join(cells)} |", flush=True)
        print(f"\n{name}: {verdicts[name]}\n", flush=True)


if __name__ == "__main__":
    main()
