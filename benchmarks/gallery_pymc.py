"""Six models of PyMC's example gallery: `vijax.auto(vijax.from_pymc(model))` beside PyMC's own
NUTS.

    pip install -e ".[pymc]"
    python benchmarks/gallery_pymc.py [--only rats baseball]

Prints the table of benchmarks/results_pymc.md. CPU seconds are of the process and of the compilers
that it starts, with all that is compiled. Errors are of the means and sds of the model's own
variables in their supports, the worst over all numbers: (mean - NUTS's mean) / NUTS's sd, and the
log of the ratio of sds. Three of the gallery's data sets are in this file; where its data are a
file of its own, rows are made here from the model."""

from __future__ import annotations

import argparse
import logging
import os
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pymc as pm
import pytensor.tensor as pt

import vijax as vi

DRAWS = 40_000
CHAINS, KEPT = 4, 2000  # of NUTS

# --- data -----------------------------------------------------------------------------------------
# Rats with a tumour, of those in 71 experiments (Tarone 1982; Gelman et al. 2013, p. 102).
TUMOURS = """0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 2 2 2 2 2 2 2 2 2 1 5 2 5 3 2 7 7 3 3 2 9 10 4 4 4 4 4 4 4 10 4
4 4 5 11 12 5 5 6 5 6 6 6 6 16 15 15 9 4"""
RATS = """20 20 20 20 20 20 20 19 19 19 19 18 18 17 20 20 20 20 19 19 18 18 25 24 23 20 20 20 20 20 20 10 49 19 46 27 17
49 47 20 20 13 48 50 20 20 20 20 20 20 20 48 19 19 19 22 46 49 20 20 23 19 22 20 20 20 52 46 47 24 14"""
# Hits of 18 players in 45 times at bat (Efron and Morris 1975).
HITS = "18 17 16 15 14 14 13 12 11 11 10 10 10 10 10 9 8 7"
# IQ of people with a drug and with a placebo (Kruschke 2013).
DRUG = """101 100 102 104 102 97 105 105 98 101 100 123 105 103 100 95 102 106 109 102 82 102 100 102 102 101 102 102
103 103 97 97 103 101 97 104 96 103 124 101 101 100 101 101 104 100 101"""
PLACEBO = """99 101 100 101 102 100 97 101 104 101 102 102 100 105 88 101 100 104 100 100 100 101 102 103 97 101 101
100 101 99 101 100 100 101 100 99 101 100 102 99 100 99"""


def numbers(text: str) -> np.ndarray:
    return np.array(text.split(), int)


# --- models ---------------------------------------------------------------------------------------
def rats() -> None:
    """Hierarchical Binomial Model: Rat Tumor Example."""
    ab = pm.HalfNormal("ab", 10, shape=2)
    pm.Potential("prior", -2.5 * pt.log(ab.sum()))
    theta = pm.Beta("theta", ab[0], ab[1], shape=71)
    pm.Binomial("y", numbers(RATS), theta, observed=numbers(TUMOURS))


def baseball() -> None:
    """Hierarchical Partial Pooling."""
    phi, log_kappa = pm.Uniform("phi", 0, 1), pm.Exponential("kappa_log", 1.5)
    kappa = pt.exp(log_kappa)
    theta = pm.Beta("theta", phi * kappa, (1 - phi) * kappa, shape=18)
    pm.Binomial("y", 45, theta, observed=numbers(HITS))
    new = pm.Beta("theta_new", phi * kappa, (1 - phi) * kappa)
    pm.Binomial("y_new", 4, new, observed=0)


def groups() -> None:
    """Bayesian Estimation Supersedes the T-Test."""
    both = np.concatenate([numbers(DRUG), numbers(PLACEBO)])
    nu = pm.Deterministic("nu", pm.Exponential("nu_minus_one", 1 / 29) + 1)
    for name, seen in (("drug", DRUG), ("placebo", PLACEBO)):
        mean = pm.Normal(f"mean_{name}", both.mean(), 2 * both.std())
        sd = pm.Uniform(f"sd_{name}", 1, 10)
        pm.StudentT(f"y_{name}", nu, mean, sigma=sd, observed=numbers(seen))


def robust() -> None:
    """GLM: Robust Linear Regression."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 100)
    y = np.append(1 + 2 * x + rng.normal(0, 0.5, 100), [8, 6, 9])
    x = np.append(x, [0.1, 0.15, 0.2])
    nu = pm.Gamma("nu", 2, 0.1)
    intercept, slope, sd = (
        pm.Normal("intercept", 0, 20),
        pm.Normal("slope", 0, 20),
        pm.HalfCauchy("sd", 10),
    )
    pm.StudentT("y", nu, intercept + slope * x, sigma=sd, observed=y)


def rugby() -> None:
    """A Hierarchical model for Rugby prediction; four seasons of six teams, made here."""
    rng = np.random.default_rng(1)
    home, away = (
        np.tile(x, 2) for x in np.array([(i, j) for i in range(6) for j in range(6) if i != j]).T
    )
    strong, weak = rng.normal(0, 0.25, 6), rng.normal(0, 0.3, 6)
    made = [
        rng.poisson(np.exp(2.9 + h + strong[i] + weak[j]))
        for h, i, j in ((0.2, home, away), (0, away, home))
    ]
    advantage, level = pm.Normal("home", 0, 1), pm.Normal("intercept", 3, 1)
    attacks = pm.Normal("atts_star", 0, pm.HalfNormal("sd_att", 2), shape=6)
    defences = pm.Normal("defs_star", 0, pm.HalfNormal("sd_def", 2), shape=6)
    attack = pm.Deterministic("atts", attacks - attacks.mean())
    defence = pm.Deterministic("defs", defences - defences.mean())
    pm.Poisson(
        "home_points", pt.exp(level + advantage + attack[home] + defence[away]), observed=made[0]
    )
    pm.Poisson("away_points", pt.exp(level + attack[away] + defence[home]), observed=made[1])


def volatility() -> None:
    """Stochastic Volatility model; 200 days of returns, made here."""
    rng = np.random.default_rng(2)
    walk = -1 + np.cumsum(rng.normal(0, 0.15, 200))
    returns = np.exp(walk) * rng.standard_t(10, 200)
    step, nu = pm.Exponential("step_size", 10), pm.Exponential("nu", 0.1)
    levels = pm.GaussianRandomWalk(
        "volatility", sigma=step, init_dist=pm.Normal.dist(0, 100), shape=200
    )
    pm.StudentT("returns", nu, lam=pt.exp(-2 * levels), observed=returns)


GALLERY = {of.__name__: of for of in (rats, baseball, groups, robust, rugby, volatility)}


# --- comparison -----------------------------------------------------------------------------------
def built(of: Callable[[], None]) -> pm.Model:
    with pm.Model() as model:
        of()
    return model


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and the CPU seconds of this process and of those that it started."""
    began = sum(os.times()[:4])
    return run(), sum(os.times()[:4]) - began


def by_nuts(model: pm.Model) -> Any:
    with model:
        return pm.sample(
            KEPT,
            tune=1000,
            chains=CHAINS,
            cores=1,
            target_accept=0.95,
            random_seed=0,
            progressbar=False,
        )


def row(name: str) -> tuple[list[str], str]:
    """A line of the table, and the verdict of the fit."""
    model = built(GALLERY[name])
    fit, ours = timed(lambda: vi.auto(vi.from_pymc(model), key=jax.random.key(0)))
    draws = fit.sample(jax.random.key(1), DRAWS)
    trace, theirs = timed(lambda: by_nuts(model))
    names = [x.name for x in model.free_RVs]
    reference = {x: trace.posterior[x].values.reshape(CHAINS * KEPT, -1) for x in names}
    found = {x: np.asarray(draws[x]).reshape(DRAWS, -1) for x in names}
    off = {x: (np.abs(found[x].mean(0) - r.mean(0)) / r.std(0)).max() for x, r in reference.items()}
    wide = {x: np.abs(np.log(found[x].std(0) / r.std(0))).max() for x, r in reference.items()}
    own = max(
        float(
            (
                pm.stats.mcse(trace, var_names=[x])[x] / trace.posterior[x].std(("chain", "draw"))
            ).max()
        )
        for x in names
    )
    at = max(off, key=off.get)
    at_sd = max(wide, key=wide.get)
    return [
        name, str(sum(int(np.prod(np.shape(x))) for x in model.initial_point(0).values())),
        f"{off[at]:.3f} ({at})", f"{wide[at_sd]:.3f} ({at_sd})", f"{own:.3f}", f"{fit.khat:.2f}",
        str(int(trace.sample_stats.diverging.sum())), f"{ours:.1f}", f"{theirs:.1f}",
    ], str(fit.verdict)  # fmt: skip


HEAD = [
    "model",
    "D",
    "mean error / sd",
    "log sd ratio",
    "NUTS's own error / sd",
    "k-hat",
    "divergences of NUTS",
    "CPU s",
    "CPU s, NUTS",
]


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--only", nargs="+", choices=GALLERY, default=list(GALLERY))
    a = p.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    print(
        f"PyMC {pm.__version__}, jax {jax.__version__}\n\n| {' | '.join(HEAD)} "
        f"|\n|{'---|' * len(HEAD)}"
    )
    verdicts = {}
    for name in a.only:
        cells, verdicts[name] = row(name)
        print(f"| {' | '.join(cells)} |", flush=True)
    for name, verdict in verdicts.items():
        print(f"\n{name}: {verdict}")


if __name__ == "__main__":
    main()
