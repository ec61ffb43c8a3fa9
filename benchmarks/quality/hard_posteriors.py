"""Posteriors that no normal has the shape of: `vijax.auto` beside NUTS, for the table of `free.py`.

A funnel (Neal 2003) in ten variables, and a regression of 100 rows on 50 columns of which five
matter, with horseshoe priors of the coefficients (Carvalho, Polson and Scott 2010), not centred.
Four chains of the No-U-Turn sampler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import vijax as vi
from vijax.trust import bulk_ess, rhat

HEAD = [
    "posterior",
    "means off by, sds: rms, worst",
    "log sd ratio: rms, worst",
    "gap, nats",
    "k-hat",
    "gradients",
    "NUTS: R-hat, ESS, divergent",
    "verdict",
]


class Hard(NamedTuple):
    """A posterior: its model and data, and the quantities that are compared, as arrays (...,
    numbers) of draws."""

    model: Any
    data: Any
    of: Callable[[dict[str, Any]], np.ndarray]


def funnel() -> Hard:
    """log scale v ~ N(0, 3), nine x ~ N(0, e^(v/2))."""
    inside = lambda v: norm.logpdf(v["x"], 0.0, jnp.exp(0.5 * v["v"])).sum()
    model = vi.density(
        {"v": vi.free(), "x": vi.free(9)}, lambda v: norm.logpdf(v["v"], 0.0, 3.0) + inside(v)
    )
    return Hard(
        model,
        None,
        lambda draws: np.concatenate([np.asarray(draws["v"])[..., None], draws["x"]], -1),
    )


def horseshoe() -> Hard:
    """y = x beta + noise, beta = tau lambda z: half-Cauchy scales lambda of each and tau of all, z
    standard normal."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 50))
    y = x @ np.r_[[3.0, -2.0, 1.5, 1.0, -1.0], np.zeros(45)] + rng.normal(size=100)
    half_cauchy = lambda s, scale: jnp.sum(-jnp.log1p((s / scale) ** 2))
    beta = lambda v: v["tau"] * v["lambda"] * v["z"]
    positive = lambda shape=(): vi.free(shape, "positive")
    model = vi.density(
        {"z": vi.free(50), "lambda": positive(50), "tau": positive(), "sigma": positive()},
        log_prior=lambda v: (
            norm.logpdf(v["z"]).sum()
            + half_cauchy(v["lambda"], 1.0)
            + half_cauchy(v["tau"], 0.1)
            - v["sigma"]
        ),
        log_lik=lambda v, row: norm.logpdf(row[1], row[0] @ beta(v), v["sigma"]),
    )

    def of(draws: dict[str, Any]) -> np.ndarray:
        tau, sigma = (np.asarray(draws[name])[..., None] for name in ("tau", "sigma"))
        return np.concatenate(
            [tau * np.asarray(draws["lambda"]) * np.asarray(draws["z"]), sigma], -1
        )

    return Hard(model, (x.astype(np.float32), y.astype(np.float32)), of)


POSTERIORS = {"funnel, 10 variables": funnel, "horseshoe regression, 102 variables": horseshoe}


def rows(num_samples: int, seed: int) -> Iterator[list[str]]:
    """A row a posterior."""
    for name, make in POSTERIORS.items():
        hard = make()
        fit = vi.auto(hard.model, hard.data, key=jax.random.key(seed))
        ours = hard.of(fit.sample(jax.random.key(seed + 1), 20_000)).astype(np.float64)
        data = jnp.zeros((1, 1)) if hard.data is None else hard.data
        chains = vi.reference.nuts(
            hard.model,
            data,
            key=jax.random.key(seed + 2),
            num_samples=num_samples,
            warmup=num_samples,
        )
        theirs = hard.of(chains.globals).astype(np.float64)
        mean, sd = theirs.mean((0, 1)), theirs.std((0, 1))
        off, ratio = np.abs(ours.mean(0) - mean) / sd, np.abs(np.log(ours.std(0) / sd))
        both = lambda x: f"{np.sqrt((x**2).mean()):.2f}, {x.max():.2f}"
        judged = (
            f"{rhat(theirs).max():.3f}, {bulk_ess(theirs).min():.0f}, "
            f"{np.mean(chains.divergent):.1%}"
        )
        report = fit.report
        yield [
            name,
            both(off),
            both(ratio),
            f"{report.gap:.2f}",
            f"{report.khat:.2f}",
            f"{report.num_gradients:,}",
            judged,
            report.verdict,
        ]
