"""Posteriors that no normal has the shape of, of 2 to 32 variables, with their means and sds.

Those of the hierarchy, the funnel and the bent density are exact, or by quadrature; those of the
epidemic and of the counts by four chains of the No-U-Turn sampler, kept in a folder once they have
run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jax.scipy.special import gammaln
from jax.scipy.stats import norm
from posterior_models import Posterior, half_cauchy, half_normal, load

import vijax as vi
from vijax.trust import bulk_ess, rhat

CASES = np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4], float)
PUPILS, SUBSTEPS = 763, 10
"""Boys in bed on fourteen days of 1978 (British Medical Journal 1, 587), and steps of the
integrator a day."""


def negative_binomial(y: jax.Array, mean: jax.Array, shape: jax.Array) -> jax.Array:
    """Of counts with a variance of mean + mean^2 / shape."""
    binomial = gammaln(y + shape) - gammaln(shape) - gammaln(y + 1)
    return binomial + shape * jnp.log(shape / (shape + mean)) + y * jnp.log(mean / (shape + mean))


# --- an epidemic ----------------------------------------------------------------------------------
def epidemic() -> tuple[vi.Model, Any]:
    """SIR: rates of infection and recovery, those infected at first, and the overdispersion of the
    counts (Grinsztajn et al. 2021)."""

    def in_bed(v: Any) -> jax.Array:
        def slope(state: jax.Array) -> jax.Array:
            s, i = state
            new = v["beta"] * s * i / PUPILS
            return jnp.stack([-new, new - v["gamma"] * i])

        def step(state: jax.Array, _: Any) -> tuple[jax.Array, None]:
            h = 1.0 / SUBSTEPS
            a = slope(state)
            b = slope(state + 0.5 * h * a)
            c = slope(state + 0.5 * h * b)
            return state + h / 6 * (a + 2 * b + 2 * c + slope(state + h * c)), None

        def day(state: jax.Array, _: Any) -> tuple[jax.Array, jax.Array]:
            state, _ = jax.lax.scan(step, state, None, SUBSTEPS)
            return state, state[1]

        return jax.lax.scan(day, jnp.stack([PUPILS - v["first"], v["first"]]), None, len(CASES))[1]

    def log_density(v: Any, y: jax.Array) -> jax.Array:
        prior = (
            half_normal_at(v["beta"], 2.0, 1.0)
            + half_normal_at(v["gamma"], 0.4, 0.5)
            - 5.0 * v["over"]
        )
        prior += stats.gamma.logpdf(v["first"], 2.0, scale=2.0)
        return prior + negative_binomial(y, in_bed(v) + 1e-9, 1 / v["over"]).sum()

    names = ("beta", "gamma", "first", "over")
    return vi.density({name: vi.free(support="positive") for name in names}, log_density), CASES


def half_normal_at(x: jax.Array, location: float, scale: float) -> jax.Array:
    """Cut at zero, up to a constant."""
    return norm.logpdf(x, location, scale)


# --- counts of groups -----------------------------------------------------------------------------
def counts() -> tuple[vi.Model, Any]:
    """Negative binomial regression of 44 counts, an intercept for each of eleven groups, four rows
    each."""
    rng = np.random.default_rng(3)
    group, x = np.repeat(np.arange(11), 4), rng.normal(size=44)
    mean = np.exp(0.7 + 0.4 * x + 0.5 * rng.normal(size=11)[group])
    y = rng.poisson(mean * rng.gamma(2.0, 0.5, size=44)).astype(float)

    def log_density(v: Any, d: Any) -> jax.Array:
        prior = (
            norm.logpdf(v["intercept"], 0, 2)
            + norm.logpdf(v["slope"], 0, 1)
            + norm.logpdf(v["z"]).sum()
        )
        prior += half_normal(v["tau"], 1.0) - v["over"]
        rate = jnp.exp(v["intercept"] + v["slope"] * d["x"] + v["tau"] * v["z"][d["group"]])
        return prior + negative_binomial(d["y"], rate, 1 / v["over"]).sum()

    positive = {name: vi.free(support="positive") for name in ("tau", "over")}
    variables = {"intercept": vi.free(), "slope": vi.free(), "z": vi.free(11), **positive}
    return vi.density(variables, log_density), {"x": x, "y": y, "group": group}


# --- a hierarchy ----------------------------------------------------------------------------------
GROUPS, MEAN_SD, TAU = 30, 5.0, 5.0
"""Means of groups, the prior's sd of their mean, and scale of their sd."""


def _measured() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    error = rng.uniform(8.0, 16.0, GROUPS)
    return {"y": rng.normal(6.0, np.sqrt(error**2 + 4.0**2)), "error": error}


def hierarchy() -> tuple[vi.Model, Any]:
    """Thirty means of groups around a common one, as they are (centred): a funnel where their sd is
    small."""

    def log_density(v: Any, d: Any) -> jax.Array:
        prior = norm.logpdf(v["mu"], 0, MEAN_SD) + half_cauchy(v["tau"], TAU)
        prior += norm.logpdf(v["theta"], v["mu"], v["tau"]).sum()
        return prior + norm.logpdf(d["y"], v["theta"], d["error"]).sum()

    variables = {"mu": vi.free(), "tau": vi.free(support="positive"), "theta": vi.free(GROUPS)}
    return vi.density(variables, log_density), _measured()


def hierarchy_exactly() -> tuple[np.ndarray, np.ndarray]:
    """By quadrature over log tau, given which all else is normal."""
    d = _measured()
    tau = np.exp(np.linspace(-12, 6, 20_001))[:, None]
    variance = d["error"] ** 2 + tau**2
    precision = 1 / MEAN_SD**2 + (1 / variance).sum(1)
    mean = (d["y"] / variance).sum(1) / precision
    weigh = (
        0.5 * mean**2 * precision
        - 0.5 * np.log(precision)
        - 0.5 * (np.log(variance) + d["y"] ** 2 / variance).sum(1)
    )
    weigh += np.log(tau[:, 0]) - np.log1p((tau[:, 0] / TAU) ** 2)
    weigh = np.exp(weigh - weigh.max())
    weigh /= weigh.sum()
    share = tau**2 / variance
    theta = mean[:, None] + share * (d["y"] - mean[:, None])
    spread = share * d["error"] ** 2 + (1 - share) ** 2 / precision[:, None]
    means = np.concatenate([mean[:, None], tau, theta], 1)
    variances = np.concatenate([1 / precision[:, None], np.zeros_like(tau), spread], 1)
    first = weigh @ means
    return first, np.sqrt(weigh @ (variances + means**2) - first**2)


# --- densities whose moments are known ------------------------------------------------------------
def funnel() -> tuple[vi.Model, Any]:
    """Neal's, of ten variables: v ~ N(0, 3), nine x ~ N(0, exp(v / 2))."""
    inside = lambda v: norm.logpdf(v["x"], 0.0, jnp.exp(0.5 * v["v"])).sum()
    return vi.density(
        {"v": vi.free(), "x": vi.free(9)}, lambda v: norm.logpdf(v["v"], 0.0, 3.0) + inside(v)
    ), None


def bent() -> tuple[vi.Model, Any]:
    """x ~ N(0, 1), y ~ N(x^2, .5)."""
    banana = lambda v: norm.logpdf(v["x"]) + norm.logpdf(v["y"], v["x"] ** 2, 0.5)
    return vi.density({"x": vi.free(), "y": vi.free()}, banana), None


def two_modes() -> tuple[vi.Model, Any]:
    """Of three variables, 30 % and 70 %."""
    sds = jnp.array([0.3, 0.5, 0.4])
    one, two = (lambda x, m=m: norm.logpdf(x, m, sds).sum() for m in (-1.5, 1.5))
    both = lambda v: jnp.logaddexp(jnp.log(0.3) + one(v["x"]), jnp.log(0.7) + two(v["x"]))
    return vi.density({"x": vi.free(3)}, both), None


def _two_modes_exactly() -> tuple[np.ndarray, np.ndarray]:
    sds = np.array([0.3, 0.5, 0.4])
    return np.full(3, 0.6), np.sqrt(sds**2 + 4 * 0.3 * 0.7 * 1.5**2)


EXACT: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "hierarchy": hierarchy_exactly,
    "funnel": lambda: (np.zeros(10), np.r_[3.0, np.full(9, np.exp(9 / 4))]),
    "bent": lambda: (np.array([0.0, 1.0]), np.array([1.0, 1.5])),
    "two_modes": _two_modes_exactly,
}
POSTERIORS: dict[str, Callable[[], tuple[vi.Model, Any]]] = {
    "epidemic": epidemic,
    "counts": counts,
    "hierarchy": hierarchy,
    "funnel": funnel,
    "bent": bent,
    "two_modes": two_modes,
}


def posterior(name: str, folder: Path) -> Posterior:
    """One of `POSTERIORS` or of `posterior_models`, with its reference, which is read from or left
    in a folder."""
    if name not in POSTERIORS:
        return load(name)
    model, data = POSTERIORS[name]()
    names = [f"{part}[{i + 1}]" if shape else part for part, shape, i in _numbers(model)]
    if name in EXACT:
        return Posterior(model, data, names, *EXACT[name]())
    kept = folder / f"{name}.npz"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(kept, **_sampled(model, data))
    found = np.load(kept, allow_pickle=False)
    return Posterior(model, data, names, found["mean"], found["sd"])


def _numbers(model: Any) -> list[tuple[str, tuple[int, ...], int]]:
    values = model.free.variables.values(jnp.zeros(model.free.variables.dim))[0]
    return [(part, x.shape, i) for part, x in values.items() for i in range(int(np.prod(x.shape)))]


def _sampled(model: Any, data: Any, count: int = 10_000) -> dict[str, np.ndarray]:
    """Means and sds of a long run."""
    chains = vi.reference.nuts(model, data, key=jax.random.key(7), num_samples=count, warmup=2_000)
    draws = [np.asarray(x, np.float64) for x in chains.globals.values()]
    flat = np.concatenate([x.reshape(*x.shape[:2], -1) for x in draws], -1)
    print(
        f"NUTS: R-hat {rhat(flat).max():.4f}, effective draws {bulk_ess(flat).min():.0f}",
        flush=True,
    )
    return {"mean": flat.mean((0, 1)), "sd": flat.std((0, 1))}
