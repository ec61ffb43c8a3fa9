"""Divergences, entropies and densities to 50 digits, and a wide domain to try them on: one row per
family.

Every row is held against float32 by tests/families/test_float32.py. A row's formulas are textbook
ones, written with no care for cancellation: 50 digits forgive it. A member is a dictionary of the
constructor's arguments; formulas get them as mpmath numbers, arrays as (nested) lists of these."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import mpmath
import numpy as np

from vijax.families import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Family,
    Gamma,
    InverseGamma,
    Multinomial,
    Poisson,
    TruncatedNormal,
)

mp = mpmath.mp.clone()
mp.dps = 50
Rng = np.random.Generator
Member = Mapping[str, Any]


def times(relative: float) -> Callable[[Rng, Member], Member]:
    """Members whose every number differs by this much, relatively, or less."""
    jitter = lambda rng, x: x * (1 + relative * rng.uniform(-1, 1, np.shape(x)))
    return lambda rng, params: {name: jitter(rng, value) for name, value in params.items()}


def plus(absolute: float) -> Callable[[Rng, Member], Member]:
    """Members whose every number differs by this much or less: for logarithms."""
    jitter = lambda rng, x: x + absolute * rng.uniform(-1, 1, np.shape(x))
    return lambda rng, params: {name: jitter(rng, value) for name, value in params.items()}


WITHIN_A_THOUSANDTH = times(1e-3)


@dataclasses.dataclass(frozen=True)
class Oracle:
    """What is known of a family, and where. Arrays of members have one leading axis."""

    constructor: Callable[..., Family]
    domain: str
    """In words, with the numbers that the family's docstring promises."""
    members: Callable[[Rng, int], Member]
    """That many members, spread over the domain."""
    values: Callable[[Rng, Member], Any]
    """A value x for each member, most of them where its mass is."""
    kl: Callable[[Member, Member], Any]
    entropy: Callable[[Member], Any]
    log_prob: Callable[[Any, Member], Any]
    near: Callable[[Rng, Member], Member] = WITHIN_A_THOUSANDTH
    stored: Callable[[Family], Member] | None = None
    """The member that float32 natural parameters stand for, where a change of one unit in their
    last place changes the answers by more than the tolerance; else the formulas are taken at the
    arguments as given to the constructor."""


def exactly(x: Any) -> Any:
    """Numbers as mpmath's, arrays as nested lists of them."""
    x = x.tolist() if isinstance(x, np.ndarray | np.generic) else x
    return [exactly(y) for y in x] if isinstance(x, list) else mp.mpf(x)


def each(params: Member) -> list[Member]:
    """The members of a batch one by one."""
    size = len(next(iter(params.values())))
    return [{name: exactly(value[i]) for name, value in params.items()} for i in range(size)]


def log_uniform(low: float, high: float, *shape: int) -> Callable[[Rng, int], np.ndarray]:
    return lambda rng, size: 10 ** rng.uniform(np.log10(low), np.log10(high), (size, *shape))


def named(**draw: Callable[[Rng, int], np.ndarray]) -> Callable[[Rng, int], Member]:
    return lambda rng, size: {name: f(rng, size) for name, f in draw.items()}


def total(terms: Any) -> Any:
    return mp.fsum(terms)


WIDE = log_uniform(1e-4, 1e8)


# --- gamma, inverse gamma -------------------------------------------------------------------------
def gamma_draws(rng: Rng, shape: np.ndarray) -> np.ndarray:
    """Draws of rate one within 1e-30, one in three of them far out."""
    far = np.where(rng.uniform(size=shape.shape) < 1 / 3, rng.uniform(0.3, 3, shape.shape), 1.0)
    return np.maximum(rng.gamma(shape), 1e-30) * far


def gamma_kl(q: Member, p: Member) -> Any:
    a, b, a2, b2 = q["shape"], q["rate"], p["shape"], p["rate"]
    gammas = mp.loggamma(a2) - mp.loggamma(a) + (a - a2) * mp.digamma(a)
    return gammas + a2 * mp.log(b / b2) + a * (b2 - b) / b


def gamma_entropy(q: Member) -> Any:
    a, b = q["shape"], q["rate"]
    return a - mp.log(b) + mp.loggamma(a) + (1 - a) * mp.digamma(a)


def gamma_log_prob(x: Any, q: Member) -> Any:
    a, b = q["shape"], q["rate"]
    return a * mp.log(b) - mp.loggamma(a) + (a - 1) * mp.log(x) - b * x


def of_reciprocal(q: Member) -> Member:
    return {"shape": q["shape"], "rate": q["scale"]}


# --- dirichlet, beta ------------------------------------------------------------------------------
def dirichlet_kl(q: Member, p: Member) -> Any:
    c, c2 = q["concentration"], p["concentration"]
    each_one = (
        mp.loggamma(b) - mp.loggamma(a) + (a - b) * mp.digamma(a)
        for a, b in zip(c, c2, strict=True)
    )
    n, n2 = total(c), total(c2)
    return total(each_one) - (mp.loggamma(n2) - mp.loggamma(n) + (n - n2) * mp.digamma(n))


def dirichlet_log_normalizer(c: list) -> Any:
    return total(map(mp.loggamma, c)) - mp.loggamma(total(c))


def dirichlet_entropy(q: Member) -> Any:
    c = q["concentration"]
    mean_log = [mp.digamma(a) - mp.digamma(total(c)) for a in c]
    return dirichlet_log_normalizer(c) - total(
        (a - 1) * m for a, m in zip(c, mean_log, strict=True)
    )


def dirichlet_log_prob(x: list, q: Member) -> Any:
    """Of x / sum(x): float32 numbers seldom sum to one exactly."""
    c = q["concentration"]
    return total(
        (a - 1) * mp.log(y / total(x)) for a, y in zip(c, x, strict=True)
    ) - dirichlet_log_normalizer(c)


def dirichlet_draws(rng: Rng, q: Member) -> np.ndarray:
    x = np.maximum(rng.gamma(q["concentration"]), 1e-30)
    return np.maximum(x / x.sum(-1, keepdims=True), 1e-30)


def of_pair(q: Member) -> Member:
    return {"concentration": [q["alpha"], q["beta"]]}


def beta_draws(rng: Rng, q: Member) -> np.ndarray:
    """Within the floats strictly between zero and one."""
    return np.clip(rng.beta(q["alpha"], q["beta"]), 1e-30, 1 - 2.0**-24)


# --- truncated normal -----------------------------------------------------------------------------
def truncated_normals(rng: Rng, size: int) -> Member:
    spread = log_uniform(1e-4, 1e8)(rng, size)
    ratio = rng.choice([-1, 1], size) * log_uniform(1e-3, 1e4)(rng, size)
    return {"location": ratio * np.sqrt(spread), "spread": spread}


def log_upper(a: Any) -> Any:
    return mp.log(mp.erfc(a / mp.sqrt(2)) / 2)


def truncated_moments(q: Member) -> tuple[Any, Any]:
    m, v = q["location"], q["spread"]
    a = -m / mp.sqrt(v)
    with mp.workdps(120):
        hazard = mp.exp(-a * a / 2 - mp.log(2 * mp.pi) / 2 - log_upper(a))
        return m + mp.sqrt(v) * hazard, v * (1 + a * hazard) + m * (2 * mp.sqrt(v) * hazard + m)


def truncated_log_prob(x: Any, q: Member) -> Any:
    m, v = q["location"], q["spread"]
    return -((x - m) ** 2) / (2 * v) - mp.log(2 * mp.pi * v) / 2 - log_upper(-m / mp.sqrt(v))


def truncated_cross_entropy(q: Member, p: Member) -> Any:
    m, v = p["location"], p["spread"]
    first, second = truncated_moments(q)
    square = second - 2 * m * first + m * m
    return square / (2 * v) + mp.log(2 * mp.pi * v) / 2 + log_upper(-m / mp.sqrt(v))


def truncated_draws(rng: Rng, q: Member) -> np.ndarray:
    """Near the mode, or so many mean lengths from the edge."""
    m, s = q["location"], np.sqrt(q["spread"])
    inside = m + s * rng.normal(size=m.shape) * 2
    tail = s / np.maximum(-m / s, 1) * rng.exponential(size=m.shape) * 2
    return np.where(inside > 0, inside, tail)


def stored_truncated(q: TruncatedNormal) -> Member:
    first, second = (np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(q))
    exact = [
        (mp.mpf(a) / (-2 * mp.mpf(b)), -1 / (2 * mp.mpf(b)))
        for a, b in zip(first, second, strict=True)
    ]
    return {"location": [e[0] for e in exact], "spread": [e[1] for e in exact]}


# --- counts and classes ---------------------------------------------------------------------------
def poisson_entropy(q: Member) -> Any:
    """By its sum; from a mean of 1000 on by the asymptotic series (whose next term is of order
    1e-13)."""
    rate = mp.exp(q["log_rate"])
    if rate > 1000:
        series = 1 / (12 * rate) + 1 / (24 * rate**2) + 19 / (360 * rate**3)
        return mp.log(2 * mp.pi * mp.e * rate) / 2 - series
    sd, mean = float(rate) ** 0.5, float(rate)
    counts = range(int(max(0, mean - 9 * sd)), int(mean + 9 * sd) + 12)
    log_probs = (poisson_log_prob(x, q) for x in counts)
    return -total(mp.exp(lp) * lp for lp in log_probs)


def poisson_log_prob(x: Any, q: Member) -> Any:
    return x * q["log_rate"] - mp.exp(q["log_rate"]) - mp.loggamma(x + 1)


def poisson_kl(q: Member, p: Member) -> Any:
    rate = mp.exp(q["log_rate"])
    return rate * (q["log_rate"] - p["log_rate"]) - rate + mp.exp(p["log_rate"])


def log_probs(logits: list) -> list:
    log_total = mp.log(total(map(mp.exp, logits)))
    return [x - log_total for x in logits]


def categorical_kl(q: Member, p: Member) -> Any:
    pairs = zip(log_probs(q["logits"]), log_probs(p["logits"]), strict=True)
    return total(mp.exp(a) * (a - b) for a, b in pairs)


def categorical_entropy(q: Member) -> Any:
    return -total(mp.exp(a) * a for a in log_probs(q["logits"]))


def of_logit(q: Member) -> Member:
    return {"logits": [mp.mpf(0), q["logit"]]}


TRIALS = 40


def multinomial_log_prob(x: list, q: Member) -> Any:
    pairs = zip(x, log_probs(q["logits"]), strict=True)
    return mp.loggamma(TRIALS + 1) + total(n * a - mp.loggamma(n + 1) for n, a in pairs)


def multinomial_entropy(q: Member) -> Any:
    def mean_log_factorial(log_p: Any) -> Any:
        p = mp.exp(log_p)
        return total(
            mp.binomial(TRIALS, n) * p**n * (1 - p) ** (TRIALS - n) * mp.loggamma(n + 1)
            for n in range(2, TRIALS + 1)
        )

    logs = log_probs(q["logits"])
    fixed = TRIALS * total(mp.exp(a) * a for a in logs) + mp.loggamma(TRIALS + 1)
    return total(map(mean_log_factorial, logs)) - fixed


def logits(low: float, high: float, num: int) -> Callable[[Rng, int], np.ndarray]:
    return lambda rng, size: rng.uniform(low, high, (size, num))


def chosen(rng: Rng, q: Member) -> np.ndarray:
    return np.argmax(q["logits"] + rng.gumbel(size=q["logits"].shape), -1)


def multinomial_draws(rng: Rng, q: Member) -> np.ndarray:
    p = np.exp(np.float64(q["logits"]))
    return np.stack([rng.multinomial(TRIALS, row) for row in p / p.sum(-1, keepdims=True)])


DIRICHLET = {
    "values": dirichlet_draws,
    "kl": dirichlet_kl,
    "entropy": dirichlet_entropy,
    "log_prob": dirichlet_log_prob,
}

ORACLES: dict[str, Oracle] = {
    "gamma": Oracle(
        Gamma.from_shape_rate,
        "shape and rate from 1e-4 to 1e8",
        members=named(shape=WIDE, rate=WIDE),
        values=lambda rng, q: np.maximum(gamma_draws(rng, q["shape"]) / q["rate"], 1e-30),
        kl=gamma_kl,
        entropy=gamma_entropy,
        log_prob=gamma_log_prob,
    ),
    "inverse_gamma": Oracle(
        InverseGamma.from_shape_scale,
        "shape and scale from 1e-4 to 1e8",
        members=named(shape=WIDE, scale=WIDE),
        values=lambda rng, q: np.clip(q["scale"] / gamma_draws(rng, q["shape"]), 1e-30, 1e30),
        kl=lambda q, p: gamma_kl(of_reciprocal(q), of_reciprocal(p)),
        entropy=lambda q: (
            gamma_entropy(of_reciprocal(q)) - 2 * (mp.digamma(q["shape"]) - mp.log(q["scale"]))
        ),
        log_prob=lambda x, q: gamma_log_prob(1 / x, of_reciprocal(q)) - 2 * mp.log(x),
    ),
    "beta": Oracle(
        Beta.from_alpha_beta,
        "alpha and beta from 1e-4 to 1e8",
        members=named(alpha=WIDE, beta=WIDE),
        values=beta_draws,
        kl=lambda q, p: dirichlet_kl(of_pair(q), of_pair(p)),
        entropy=lambda q: dirichlet_entropy(of_pair(q)),
        log_prob=lambda x, q: dirichlet_log_prob([x, 1 - x], of_pair(q)),
    ),
    "dirichlet": Oracle(
        Dirichlet.from_concentration,
        "five concentrations from 1e-4 to 1e8, mixed",
        members=named(concentration=log_uniform(1e-4, 1e8, 5)),
        **DIRICHLET,
    ),
    "dirichlet_of_one_size": Oracle(
        Dirichlet.from_concentration,
        "forty concentrations of one size from 1e-4 to 1e8",
        members=lambda rng, size: {
            "concentration": WIDE(rng, size)[:, None] * log_uniform(0.1, 10, 40)(rng, size)
        },
        **DIRICHLET,
    ),
    "truncated_normal": Oracle(
        TruncatedNormal.from_mean_variance,
        "the mean before the cut from -1e4 to 1e4 standard deviations, variances from 1e-4 to 1e8",
        members=truncated_normals,
        values=truncated_draws,
        kl=lambda q, p: truncated_cross_entropy(q, p) - truncated_cross_entropy(q, q),
        entropy=lambda q: truncated_cross_entropy(q, q),
        log_prob=truncated_log_prob,
        stored=stored_truncated,
    ),
    "poisson": Oracle(
        Poisson.from_log_rate,
        "rates from 1e-8 to 1e8",
        members=named(log_rate=lambda rng, size: rng.uniform(np.log(1e-8), np.log(1e8), size)),
        values=lambda rng, q: rng.poisson(np.exp(q["log_rate"])),
        kl=poisson_kl,
        entropy=poisson_entropy,
        log_prob=poisson_log_prob,
        near=plus(1e-3),
    ),
    "categorical": Oracle(
        Categorical.from_logits,
        "seven logits from -60 to 20",
        members=named(logits=logits(-60, 20, 7)),
        values=chosen,
        kl=categorical_kl,
        entropy=categorical_entropy,
        log_prob=lambda x, q: log_probs(q["logits"])[int(x)],
        near=plus(1e-3),
    ),
    "bernoulli": Oracle(
        Bernoulli.from_logit,
        "log odds from -80 to 80",
        members=named(logit=lambda rng, size: rng.uniform(-80, 80, size)),
        values=lambda rng, q: rng.integers(0, 2, q["logit"].shape),
        kl=lambda q, p: categorical_kl(of_logit(q), of_logit(p)),
        entropy=lambda q: categorical_entropy(of_logit(q)),
        log_prob=lambda x, q: log_probs(of_logit(q)["logits"])[int(x)],
        near=plus(1e-3),
    ),
    "multinomial": Oracle(
        functools.partial(Multinomial.from_logits, total=TRIALS),
        "five logits from -30 to 3, forty trials",
        members=named(logits=logits(-30, 3, 5)),
        values=multinomial_draws,
        kl=lambda q, p: TRIALS * categorical_kl(q, p),
        entropy=multinomial_entropy,
        log_prob=multinomial_log_prob,
        near=plus(1e-3),
    ),
}
