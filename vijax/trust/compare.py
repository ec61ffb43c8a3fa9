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
      behind: how much lower its `elpd` is than that of the best model, in nats; 0 for the best.
      error: standard error of `behind`, of the differences group by group.
      num_unreliable: number of groups whose k-hat is too high for their terms to be relied on.
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
        width = max(map(len, ("model", *(one.name for one in self.ranked))))
        lines = [f"{'model':{width}}        elpd     behind  its error  parameters"]
        for one in self.ranked:
            numbers = (
                f"{one.score.elpd:10.2f}  {one.behind:9.2f}  {one.error:9.2f}  "
                f"{one.score.p_eff:10.1f}"
            )
            lines.append(f"{one.name:{width}}  {numbers}")
        best, *others = self.ranked
        if close := ", ".join(one.name for one in others if one.behind <= 2 * one.error):
            lines.append(
                f"Not clearly worse than {best.name} (by no more than two standard errors): "
                f"{close}."
            )
        if poor := ", ".join(
            f"{one.num_unreliable} of {one.name}" for one in self.ranked if one.num_unreliable
        ):
            lines.append(
                f"Groups whose terms are not reliable (k-hat above {limits.KHAT_RELIABLE}): {poor}."
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
    sizes = {name: one.pointwise.size for name, one in scores.items()}
    same = len(set(sizes.values())) == 1
    require(
        same,
        "scores",
        "scores of the same groups",
        f"of {sizes} groups",
        "Fit all models to the same rows.",
    )
    order = sorted(scores, key=lambda name: -scores[name].elpd)
    best = scores[order[0]].pointwise
    return Compared(
        tuple(_ranked(name, scores[name], best - scores[name].pointwise) for name in order)
    )


def _ranked(name: str, score: Elpd, behind: np.ndarray) -> Ranked:
    poor = 0 if score.khat is None else int(np.sum(score.khat > limits.KHAT_RELIABLE))
    return Ranked(name, score, *total(behind), poor)
