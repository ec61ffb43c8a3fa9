"""Priors of a regression by name: weakly informative ones by Bambi's rule, changed by the user's.

The rule is that of Capretto et al. (2022), "Bambi: a simple interface for fitting Bayesian linear
models in Python", section 3.1: with s the standard deviation of the response (1 where the link is
not the identity), a coefficient of column x has N(0, (2.5 s / sd(x))^2), the intercept at the mean
of all columns N(mean, ...), the standard deviation of a group effect a half-normal law of that
scale. For successes, and zeros and ones, Bambi takes N(0, 1 / sd(x)^2), N(0, 1) for codes of
categories and N(0, 1.5^2) for the intercept. These pull log odds between categories by half a
standard error where each has some ten cases; here they are N(0, (2.5 / sd(x))^2), and N(0, 2.5^2)
for codes (2.5 as in Gabry and Goodrich's rstanarm). The intercept there has N(0, 5^2): where groups
differ much it is far from zero. Cutpoints between ordered categories have N(t, 5^2) at the mean of
all columns, t the log odds of the categories below in all rows, restricted to increasing cutpoints
(Bambi: N(t, 1), t from -2 to 2 in equal steps, which pulls cutpoints of rare categories by up to a
standard error). The length scale of a Gaussian process has a lognormal law whose middle 90 % are
from .04 to .56 of the extent of its columns (Bambi's, InverseGamma(3, 2) of the extent, has next to
nothing below .2). A parameter of the law with a formula has a prior on the scale of its link,
at the means of all columns too; coefficients there have N(0, 1 / sd(x)^2). Means and standard
deviations are weighted: a row of weight 2 is the same as two rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from vijax.checks import require
from vijax.data.formulas.row_statistics import mean_and_spread
from vijax.models.formulas.formula import Design, name_at_level
from vijax.models.formulas.laws import Law

Prior = tuple[str, *tuple[float, ...]]
"""The name of a law and its numbers: ("normal", 0.0, 10.0)."""


class Kind(NamedTuple):
    """A family of priors.

    Attributes:
      arguments: its numbers, in words.
      support: "real", "positive", "unit interval", "simplex" or "correlation".
      log_prob: (x, its numbers) -> log density.
    """

    arguments: str
    support: str
    log_prob: Callable[..., Any]


def _lkj(factor: Array, eta: Any) -> Any:
    """The density of the triangular factor of a correlation matrix (Lewandowski, Kurowicka and Joe
    2009, section 3)."""
    k = factor.shape[-1]
    i = np.arange(1, k)
    powers = k - i - 1 + 2 * eta - 2
    below = (powers + 1) / 2  # the power of 1 - |row i of the factor|^2
    area = 0.5 * i * math.log(math.pi) + gammaln(below + 0.5) - gammaln(below + 0.5 + 0.5 * i)
    return jnp.sum(powers * jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)[..., 1:]) - area, -1)


def _dirichlet(shares: Array, concentration: Any) -> Any:
    """The density of shares with one concentration for all."""
    size = shares.shape[-1]
    constant = gammaln(size * concentration) - size * gammaln(concentration)
    return constant + (concentration - 1) * jnp.sum(jnp.log(shares), -1)


def _log(x: Any) -> Any:
    """The logarithm of a number that is known, or that a program traces."""
    if isinstance(x, float | int):
        return math.log(x)
    return jnp.log(x)


def _normal(x: Any, mean: Any, sd: Any) -> Any:
    """Log density of N(mean, sd^2). SciPy's square of sd = 1e20 would not fit into float32."""
    return stats.norm.logpdf((x - mean) / sd) - _log(sd)


def _student_t(x: Any, degrees: Any, mean: Any, scale: Any) -> Any:
    return stats.t.logpdf((x - mean) / scale, degrees) - _log(scale)


def _cauchy(x: Any, scale: Any) -> Any:
    return stats.cauchy.logpdf(x / scale) - _log(scale)


def _inverse_gamma(x: Any, shape: Any, scale: Any) -> Any:
    return shape * _log(scale) - gammaln(shape) - (shape + 1) * jnp.log(x) - scale / x


def _lognormal(x: Any, median: Any, sd: Any) -> Any:
    return _normal(jnp.log(x), _log(median), sd) - jnp.log(x)


TWICE = math.log(2.0)
KINDS = {
    "normal": Kind("mean, sd", "real", _normal),
    "student_t": Kind("degrees, mean, scale", "real", _student_t),
    "half_normal": Kind("sd", "positive", lambda x, sd: TWICE + _normal(x, 0.0, sd)),
    "half_student_t": Kind(
        "degrees, scale", "positive", lambda x, nu, sd: TWICE + _student_t(x, nu, 0.0, sd)
    ),
    "half_cauchy": Kind("scale", "positive", lambda x, sd: TWICE + _cauchy(x, sd)),
    "exponential": Kind("rate", "positive", lambda x, rate: stats.expon.logpdf(x, 0.0, 1 / rate)),
    "gamma": Kind(
        "shape, rate",
        "positive",
        lambda x, shape, rate: stats.gamma.logpdf(x, shape, 0.0, 1 / rate),
    ),
    "inverse_gamma": Kind("shape, scale", "positive", _inverse_gamma),
    "lognormal": Kind("median, sd of the logarithm", "positive", _lognormal),
    "beta": Kind("alpha, beta", "unit interval", stats.beta.logpdf),
    "lkj": Kind("concentration", "correlation", _lkj),
    "dirichlet": Kind("concentration", "simplex", _dirichlet),
    "flat": Kind("", "real", lambda x: jnp.zeros_like(x)),
    "half_flat": Kind("", "positive", lambda x: jnp.zeros_like(x)),
}
"""Families of priors by name; the flat ones are improper."""
FLAT_KINDS = ("flat", "half_flat")
ALL = "*"
"""The name of all coefficients, cutpoints and sigma, for flat priors."""
AUX: dict[str, Prior] = {
    "nu": ("gamma", 2.0, 0.1),
    "alpha": ("half_cauchy", 1.0),
    "kappa": ("half_cauchy", 1.0),
    "lam": ("half_cauchy", 1.0),
    "psi": ("beta", 2.0, 2.0),
}


WIDE = 5.0
"""Sd of the priors of intercepts and cutpoints behind a logit."""
LOG_LENGTH = 0.8
"""Sd of the logarithm of a length scale, whose median is .15 of the extent of its columns."""
LINKED: dict[str, tuple[float, float]] = {
    "sigma": (0.0, 2.5),
    "nu": (2.7, 0.8),  # of the logarithm of Gamma(2, 0.1)
    "alpha": (0.0, 2.5),
    "kappa": (0.0, 2.5),
    "lam": (0.0, 2.5),
    "psi": (0.0, 1.5),
}
"""Means and sds of the intercepts of parameters with formulas: of their logarithms, of the log odds
of psi. That of sigma is relative to the unit of the response."""


def log_prob(prior: Prior, x: Any) -> Any:
    """The log density of a prior."""
    return KINDS[prior[0]].log_prob(x, *prior[1:])


def weak_priors(design: Design, law: Law, weights: Float[np.ndarray, " N"]) -> dict[str, Prior]:
    """The priors by the rule, by name."""
    centre, unit = _about(design.y, weights) if law.is_location_scale else (0.0, 1.0)
    columns = {
        label: _about(column, weights)
        for label, column in zip(design.labels, design.rows.x.T, strict=True)
    }
    main = [label for label, slot in zip(design.labels, design.slots, strict=True) if slot == 0]
    slopes = {label: 2.5 * unit / columns[label][1] for label in main if label != "Intercept"}
    intercept = math.sqrt(
        (2.5 * unit) ** 2 + sum((sd * columns[label][0]) ** 2 for label, sd in slopes.items())
    )
    priors: dict[str, Prior] = {}
    levels = design.against or (None,)
    is_binary = (law.takes_trials and not law.is_named) or law.name == "bernoulli"
    for i, label in enumerate(main):
        sd = slopes.get(label, intercept)
        if is_binary:  # on a scale of probabilities the data say nothing of the unit
            sd = _sd_behind_logit(label, design.categorical[i], columns[label][1])
        for level in levels:
            priors[name_at_level(label, level)] = (
                "normal",
                centre if label == "Intercept" else 0.0,
                sd,
            )
    for label, *_ in design.steps:
        for level in levels:
            priors[f"simo_{name_at_level(label, level)}"] = ("dirichlet", 1.0)
    priors |= _linked_priors(design, columns, unit)
    for factor, z in zip(design.factors, design.rows.z, strict=True):
        for level in levels:
            for i, label in enumerate(factor.labels):
                size = _about(z[:, i], weights)[1]
                sd = 2.5 * unit / size
                if label == "1":
                    sd = intercept
                elif factor.slots[i] > 0:
                    sd = 1 / size  # 1 for an intercept
                priors[name_at_level(f"{label}|{factor.name}_sigma", level)] = ("half_normal", sd)
        if max(factor.blocks) > 1:
            priors[f"corr|{factor.name}"] = ("lkj", 1.0)
    for name, _, slot in design.smooths:
        kernel = design.kernels.get(name)
        sd = (2.5 * unit, 1.0)[slot > 0]
        for level in levels:
            if kernel is None:
                priors[name_at_level(f"sds({name})", level)] = ("half_normal", sd)
                continue
            priors[name_at_level(f"{name}_sigma", level)] = ("half_normal", sd)
            for length in kernel.length_names(name):
                priors[name_at_level(length, level)] = ("lognormal", kernel.unit, LOG_LENGTH)
    if law.is_ordered:
        counts = np.bincount(design.y.astype(int), weights, len(design.levels))
        below = np.cumsum(counts)[:-1] + 0.5
        centres = np.round(np.log(below / (counts.sum() + 1 - below)), 2).tolist()
        if law.has_steps:
            beyond = counts.sum() - np.cumsum(counts)[:-1] + 0.5
            centres = np.round(np.log((counts[:-1] + 0.5) / beyond), 2).tolist()
        return priors | {
            f"threshold[{i}]": ("normal", centre, WIDE) for i, centre in enumerate(centres)
        }
    aux = {"sigma": ("half_student_t", 4.0, unit), **AUX}
    return priors | {name: aux[name] for name in design.own_parameters(law)}


def _sd_behind_logit(label: str, is_code: bool, spread: float) -> float:
    """The sd of the prior of a coefficient for yes or no, and successes."""
    if label == "Intercept":
        return WIDE
    if is_code:
        return 2.5
    return 2.5 / spread


def _linked_priors(
    design: Design, columns: Mapping[str, tuple[float, float]], unit: float
) -> dict[str, Prior]:
    """Priors of the coefficients of parameters with formulas. `columns` has means and sds."""
    priors: dict[str, Prior] = {}
    for terms in design.further:
        if terms.step is not None:
            slopes = [label for label in terms.labels if label in columns]
            priors |= {label: ("normal", 0.0, 2.5 / columns[label][1]) for label in slopes}
            continue
        mean, sd = LINKED[terms.name]
        if terms.name == "sigma":
            mean += math.log(unit)
        for label in terms.common.labels:
            name = f"{terms.name}_{label}"
            priors[name] = ("normal", 0.0, 1 / columns[name][1])
            if label == "Intercept":
                priors[name] = ("normal", mean, sd)
    return priors


def _about(x: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The mean and the standard deviation of a column; the latter is 1 for a constant column."""
    mean, sd = mean_and_spread(x, weights)
    return float(mean), float(sd) or 1.0


def find_spread(prior: Prior) -> float:
    """The scale of the prior of a coefficient, infinite for a flat one."""
    if prior[0] in FLAT_KINDS:
        return math.inf
    return float(prior[-1])


def merge_priors(
    usual: Mapping[str, Prior],
    changes: Mapping[str, Sequence[Any]] | str | None,
    design: Design | None = None,
) -> dict[str, Prior]:
    """The usual priors, with some replaced; ValueError for an unknown name or another support.
    "flat" stands for {"*": "flat"}: flat priors of all coefficients of the response, of cutpoints
    and of sigma."""
    merged = dict(usual)
    if isinstance(changes, str):
        changes = {ALL: changes}
    expected = '"flat", or priors by name: {"x": ("normal", 0, 1)}'
    is_mapping = changes is None or isinstance(changes, Mapping)
    require(is_mapping, "priors", expected, type(changes).__name__)
    changes = dict(changes or {})
    if ALL in changes and ALL not in usual:
        prior = changes.pop(ALL)
        is_flat = prior == "flat" or (not isinstance(prior, str) and tuple(prior) == ("flat",))
        remedy = "Priors of other laws are given by name."
        require(is_flat, "priors", '"flat" for all coefficients', repr(prior), remedy)
        assert design is not None
        merged |= _flat_priors(design, usual)
    for name, prior in changes.items():
        require(name in usual, "priors", f"one of {list(usual)}", repr(name))
        support = KINDS[usual[name][0]].support
        arguments = {
            name: (name, *filter(None, kind.arguments.split(", ")))
            for name, kind in KINDS.items()
            if kind.support == support
        }
        is_list = isinstance(prior, Sequence) and not isinstance(prior, str) and len(prior) > 0
        fits = is_list and prior[0] in arguments and len(prior) == len(arguments[prior[0]])
        expected = " or ".join(f"({', '.join(words)})" for words in arguments.values())
        require(fits, "priors", f"for {name!r} {expected}", repr(prior))
        numbers = [float(x) for x in prior[1:]]
        # Laws of real numbers have their location, which may be negative, last but one.
        spreads = numbers if support != "real" else [*numbers[:-2], *numbers[-1:]]
        require(
            np.isfinite(numbers).all() and min(spreads, default=1.0) > 0,
            "priors",
            f"finite positive numbers for {name!r}",
            prior,
        )
        merged[name] = (str(prior[0]), *numbers)
    return merged


def _flat_priors(design: Design, usual: Mapping[str, Prior]) -> dict[str, Prior]:
    """Flat priors of the coefficients of the response, of cutpoints and of sigma."""
    slots = zip(design.labels, design.slots, strict=True)
    is_step = [False, *(terms.step is not None for terms in design.further)]
    labels = [label for label, slot in slots if slot == 0 or is_step[slot]]
    levels = design.against or (None,)
    names = [name_at_level(label, level) for label in labels for level in levels]
    names += [name for name in usual if name.startswith("threshold[")]
    flat: dict[str, Prior] = dict.fromkeys(names, ("flat",))
    if "sigma" in usual:
        flat["sigma"] = ("half_flat",)
    return flat
