"""Comparison of models by leave-one-out scores of the same groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from vijax.checks import require
from vijax.terminal import printable
from vijax.trust.loo import Elpd, total
from vijax.verdict import limits


class Ranked(NamedTuple):
    """A model in a comparison.

    Attributes:
      name: its name.
      score: its leave-one-out score.
      behind: the best model's `elpd` less its own, in nats; 0 for the best.
      error: standard error of `behind`, from the differences by group.
      num_unreliable: number of groups whose k-hat is too high for a reliable term.
    """

    name: str
    score: Elpd
    behind: float
    error: float
    num_unreliable: int


@dataclasses.dataclass(frozen=True)
class Compared:
    """Models by their leave-one-out scores, the best first; printed as a table."""

    ranked: tuple[Ranked, ...]

    def __str__(self) -> str:
        width = max(len(name) for name in ("model", *(row.name for row in self.ranked)))
        lines = [f"{'model':{width}}        elpd     behind  its error  parameters"]
        for row in self.ranked:
            score = f"{row.score.elpd:10.2f}  {row.behind:9.2f}  {row.error:9.2f}"
            lines.append(f"{row.name:{width}}  {score}  {row.score.p_eff:10.1f}")
        best, *worse = self.ranked
        close = [row.name for row in worse if row.behind <= 2 * row.error]
        if close:
            lines.append(
                f"Not clearly worse than {best.name} (by no more than two standard errors): "
                f"{', '.join(close)}."
            )
        poor = [f"{row.num_unreliable} of {row.name}" for row in self.ranked if row.num_unreliable]
        if poor:
            lines.append(
                f"Groups whose terms are not reliable (k-hat above {limits.KHAT_RELIABLE}): "
                f"{', '.join(poor)}."
            )
        return printable("\n".join(lines))


def compare(scores: Mapping[str, Elpd]) -> Compared:
    """Compares models by their leave-one-out scores, with paired standard errors (`loo_compare` of
    R's loo).

    Args:
      scores: what `vijax.trust.loo` (or `waic`) found, by the name of the model; all of the same
        groups, in the same order.

    Raises:
      ValueError: fewer than two scores; scores of different numbers of groups.

    Source: Vehtari, Gelman and Gabry 2017, eq. 24. With few groups, or models that predict nearly
    the same, the error is too small (Sivula, Magnusson, Matamoros and Vehtari 2020).

    >>> from vijax.trust import loo
    >>> y = np.random.default_rng(0).normal(size=20)
    >>> def of(sd):  # y ~ N(mu, sd), mu ~ N(0, 1), by draws of its posterior
    ...     precision = 20 / sd**2 + 1
    ...     mu = np.random.default_rng(1).normal(y.sum() / sd**2 / precision, precision**-0.5, (4000, 1))
    ...     return loo(-0.5 * ((y - mu) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))
    >>> print(compare({"sd 3": of(3.0), "sd 1": of(1.0), "sd 1.1": of(1.1)}))
    model         elpd     behind  its error  parameters
    sd 1        -26.48       0.00       0.00         0.7
    sd 1.1      -27.06       0.58       0.45         0.6
    sd 3        -41.54      15.06       2.30         0.1
    Not clearly worse than sd 1 (by no more than two standard errors): sd 1.1.
    """
    require(len(scores) > 1, "scores", "two scores or more, by name", f"{len(scores)}")
    sizes = {name: score.pointwise.size for name, score in scores.items()}
    is_same = len(set(sizes.values())) == 1
    remedy = "Fit all models to the same rows."
    require(is_same, "scores", "scores of the same groups", f"of {sizes} groups", remedy)
    order = sorted(scores, key=lambda name: -scores[name].elpd)
    best = scores[order[0]].pointwise
    rows = [_make_row(name, scores[name], best - scores[name].pointwise) for name in order]
    return Compared(tuple(rows))


def _make_row(name: str, score: Elpd, behind: np.ndarray) -> Ranked:
    num_unreliable = 0
    if score.khat is not None:
        num_unreliable = int(np.sum(score.khat > limits.KHAT_RELIABLE))
    return Ranked(name, score, *total(behind), num_unreliable)
