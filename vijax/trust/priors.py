"""Moves of the estimates of a regression by its priors, by importance weights.

With w(theta_s) = wide(theta_s) / prior(theta_s) at draws of the posterior, the weighted draws are
of the posterior under the wide prior (Kallioinen, Paananen, Buerkner and Vehtari 2024, "Detecting
and diagnosing prior and likelihood sensitivity with power-scaling", section 2.3). One prior is
widened at a time, ten times, and the others stay as they are."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from vijax.checks import require
from vijax.models.formulas.glmm_model import Glmm
from vijax.models.formulas.priors import FLAT_KINDS, Prior, log_prob
from vijax.numerals import format_number
from vijax.verdict import limits
from vijax.verdict.psis import psis

WIDER = 10.0
"""How many times wider a prior is made."""
LARGE = 0.2
"""Sds of the posterior. A prior that moves an estimate by more is named."""
EVEN = 1.0
"""Nats. Ratios in a smaller range weigh the draws evenly, whatever their tail looks like."""
FEWEST = 100
"""Effective draws that an estimate needs."""
SCALES = {
    "normal": (1,),
    "student_t": (2,),
    "half_normal": (0,),
    "half_student_t": (1,),
    "half_cauchy": (0,),
    "lognormal": (1,),
}
"""Places of the scale among the numbers of a prior, by its name."""


class Influence(NamedTuple):
    """The move of an estimate by the prior of its unknown.

    Attributes:
      name: the unknown; intercepts and cutpoints are taken at the means of all columns.
      prior: its prior.
      mean: posterior mean.
      sd: posterior standard deviation.
      wide_mean: posterior mean under the prior that is ten times wider.
      shift: (mean - wide_mean) / sd.
      khat: shape of the tail of the weights.
      is_reliable: False where the weights fail, and the prior may have moved the estimate by any
        number.
    """

    name: str
    prior: Prior
    mean: float
    sd: float
    wide_mean: float
    shift: float
    khat: float
    is_reliable: bool


@dataclasses.dataclass(frozen=True, repr=False)
class PriorInfluence:
    """The moves of the estimates of a regression by its priors.

    Attributes:
      influences: the unknowns whose priors have a scale.
      unchecked: names of the other unknowns: of correlations, shapes, probabilities.
    """

    influences: tuple[Influence, ...]
    unchecked: tuple[str, ...]

    @property
    def large_shifts(self) -> tuple[Influence, ...]:
        """The estimates that their prior moves by more than .2 sd, furthest first."""
        rows = [row for row in self.influences if row.is_reliable and abs(row.shift) > LARGE]
        return tuple(sorted(rows, key=lambda row: -abs(row.shift)))

    @property
    def unreliable(self) -> tuple[Influence, ...]:
        """The estimates for which the weights fail."""
        return tuple(row for row in self.influences if not row.is_reliable)

    def sentences(self) -> list[str]:
        """The moves by the priors, in words; one sentence where they moved nothing.

        >>> row = Influence("x", ("normal", 0.0, 1.0), 1.5, 0.4, 1.79, -0.72, 0.2, True)
        >>> print(PriorInfluence((row,), ()).sentences()[0])
        The prior moved x by -0.72 sd: 1.5, and 1.79 under a prior ten times wider than normal 0 1.
        """
        lines = [_sentence(row) for row in self.large_shifts]
        if self.unreliable:
            names = ", ".join(f"{row.name} ({row.khat:.2f})" for row in self.unreliable)
            lines.append(
                "Whether the prior moved an estimate could not be checked for (k-hat of the "
                f"weights in parentheses): {names}. Fit with a wider prior to see."
            )
        if not lines:
            lines.append(f"No prior moved its estimate by more than {LARGE} sd.")
        return lines

    def columns(self) -> dict[str, list[Any]]:
        """The columns of the table by name."""
        fields = [name for name in Influence._fields if name != "prior"]
        columns = {name: [getattr(row, name) for row in self.influences] for name in fields}
        return {"prior": [_prior_text(row.prior) for row in self.influences], **columns}

    def __repr__(self) -> str:
        header = ["", "prior", "mean", "ten times wider", "moved (sds)", "k-hat"]
        table = [header, *(_cells(row) for row in self.influences)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = []
        for cells in table:
            texts = map(str.ljust, cells[:2], widths)
            numbers = map(str.rjust, cells[2:], widths[2:])
            lines.append("  ".join([*texts, *numbers]).rstrip())
        if self.unchecked:
            lines.append(f"Not checked: the priors of {', '.join(self.unchecked)}.")
        return "\n".join([*lines, *self.sentences()])


def _numbers(prior: Prior) -> list[float]:
    _, *numbers = prior
    return [float(x) for x in numbers]


def _prior_text(prior: Prior) -> str:
    return " ".join([prior[0], *map(format_number, _numbers(prior))])


def _cells(row: Influence) -> list[str]:
    numbers = [format_number(x, row.sd) for x in (row.mean, row.wide_mean)]
    shift = f"{row.shift:.2f}"
    if not row.is_reliable:
        numbers[1] = shift = "?"
    return [row.name, _prior_text(row.prior), *numbers, shift, f"{row.khat:.2f}"]


def _sentence(row: Influence) -> str:
    mean, wide_mean = (format_number(x, row.sd, least=4) for x in (row.mean, row.wide_mean))
    return (
        f"The prior moved {row.name} by {row.shift:.2f} sd: {mean}, and {wide_mean} under a prior "
        f"ten times wider than {_prior_text(row.prior)}."
    )


def widen(prior: Prior) -> Prior | None:
    """The prior with a scale ten times as large; None for a prior without a scale.

    >>> widen(("student_t", 4.0, 1.0, 2.5)), widen(("lkj", 1.0))
    (('student_t', 4.0, 1.0, 25.0), None)
    """
    if prior[0] == "exponential":
        return ("exponential", _numbers(prior)[0] / WIDER)
    if prior[0] not in SCALES:
        return None
    numbers = _numbers(prior)
    for place in SCALES[prior[0]]:
        numbers[place] *= WIDER
    return (prior[0], *numbers)


def prior_influence(fit: Any, *, key: PRNGKeyArray, num_draws: int = 4000) -> PriorInfluence:
    """The move of each estimate of a fit of `vijax.glmm` by the prior of its unknown.

    Args:
      fit: the fit.
      key: random key of the draws.
      num_draws: number of draws: a move is known to about 1 / sqrt(num_draws) sds where the weights
        are even.

    Raises:
      ValueError: a fit of another model.

    >>> import jax, vijax as vi
    >>> x = np.linspace(-1, 1, 20)
    >>> table = {"y": x + np.cos(9 * x), "x": x}
    >>> model = vi.glmm("y ~ x", table, priors={"x": ("normal", 0, 0.5)})
    >>> fit = vi.auto(model, key=jax.random.key(0))
    >>> influence = prior_influence(fit, key=jax.random.key(1))
    >>> [row.name for row in influence.large_shifts]
    ['x']
    """
    model = getattr(fit.alg.spec.model.queries.get("predict"), "__self__", None)
    is_regression = isinstance(model, Glmm)
    remedy = "Fit another model again with a wider prior, and compare."
    require(is_regression, "fit", "a fit of vijax.glmm", "one of another model", remedy)
    assert isinstance(model, Glmm)
    draws = model.draw_unknowns(fit, key, num_draws)
    return influence_of_priors(model.priors, model.prior_arguments(draws))


def influence_of_priors(
    priors: Mapping[str, Prior], arguments: Mapping[str, Any]
) -> PriorInfluence:
    """The influence of priors from draws of what they are of, (S,) each by name."""
    rows, unchecked = [], []
    for name, prior in priors.items():
        if prior[0] in FLAT_KINDS:
            continue
        wide = widen(prior)
        if wide is None or name not in arguments:
            unchecked.append(name)
        else:
            rows.append(_influence(name, prior, wide, np.asarray(arguments[name], float)))
    return PriorInfluence(tuple(rows), tuple(unchecked))


def _influence(name: str, prior: Prior, wide: Prior, x: Float[np.ndarray, " S"]) -> Influence:
    log_ratios = np.asarray(log_prob(wide, x) - log_prob(prior, x), float)
    mean, sd = float(x.mean()), float(x.std(ddof=1))
    is_even = bool(np.ptp(log_ratios) < EVEN)
    if sd == 0 or np.ptp(log_ratios) == 0:
        return Influence(name, prior, mean, sd, mean, 0.0, -math.inf, True)
    smoothed = psis(log_ratios)
    wide_mean = float(np.exp(smoothed.log_weights) @ x)
    has_draws = smoothed.khat <= limits.KHAT_RELIABLE and smoothed.ess >= FEWEST
    shift = (mean - wide_mean) / sd
    return Influence(
        name, prior, mean, sd, wide_mean, shift, smoothed.khat, is_even or bool(has_draws)
    )
