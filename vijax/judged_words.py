"""What is said of a fit of free variables by steps (`vijax.judged`), and where the start of such a fit lies."""

from __future__ import annotations

from typing import Any

import numpy as np

from vijax.automatic.verdict import CLOSE, FAR, LIGHT, RARE
from vijax.families import Normal
from vijax.families.blocks import Blocks
from vijax.variables import Variables

SURE = 5.0
"""Standard errors by which a mean is seen to move: the largest of many is looked at."""
ARRIVED, AWAY = 0.5, 1.0
"""Standard deviations of q by which means may still move where a fit has arrived; and beyond which it is of no use."""
MOVED, CLIMBING, NOISE = 0.1, 2.0, 3.0
"""Nats by which the bound may change from the quarter of the steps before the last to the last; and beyond which the fit
is of no use, of up to four variables, in proportion for more; both beyond so many standard errors."""
ROUNDED = 0.1
"""Nats of rounding that are told."""
OTHER_MODES = "Other modes were not looked for: vijax.auto searches for them; or compare other keys, or restarts=."


def of(said: Any, outcome: str, q: Any, variables: Variables, has_others: bool) -> str:
    """The verdict: a few sentences.

    Args:
      said: the `vijax.judged.Judgement`.
      outcome: how the fit ended.
      q: of the free coordinates.
      variables: their names.
      has_others: whether there are conjugate globals beside them.
    """
    seen = sentences(said, q, variables, has_others)
    if said.usable:
        return " ".join([f"{outcome}.", *seen, OTHER_MODES])
    return " ".join([*seen, f"How it ended: {outcome}."])


def sentences(said: Any, q: Any, variables: Variables, has_others: bool) -> list[str]:
    """What draws of q and the trace say; where it is not to be used, that alone."""
    if not said.usable:
        return [f"Do not use this fit: {unusable(said, variables)}"]
    given = ["Judged were the free variables, given q of the others."] if has_others else []
    return [*_of_numbers(said), *_of_shape(said, q, variables), *_of_steps(said), *given]


def unusable(said: Any, variables: Variables) -> str:
    """Why a fit is of no use; empty where it may be of some."""
    if said.zero > RARE:
        return f"{_of_zeros(said.zero)} {FINITE}"
    moving, size = _moving(said, variables, AWAY)
    if moving:
        slope = f"by the slope of the density at its draws the mean of {moving} begins to move by {size:.3g} sd of q"
        return " ".join([f"q is not at the posterior {_numbers(said)}: {slope}.", *_moved(said), NOT_THERE])
    if said.drift is not None and _is_sure(said, CLIMBING * max(1.0, len(said.shift) / 4)):
        return " ".join([f"q is still on its way {_numbers(said)}.", *_moved(said), NOT_THERE])
    return ""


FINITE = "Declare the supports of the variables, vijax.free(support=...), or begin where the density is finite."
NOT_THERE = "More steps, or smaller ones, may bring it there; vijax.auto fits the same model, and chooses its own steps."


def _numbers(said: Any) -> str:
    return f"(at least {max(said.gap, 0.0):.2f} nats from it, k-hat {said.khat:.2f}, bound {said.elbo})"


def _of_zeros(share: float) -> str:
    return f"the density is zero, or no number, at {share:.1%} of the draws of q, and so the bound is minus infinity."


def _moving(said: Any, variables: Variables, least: float) -> tuple[str, float]:
    """The variables whose means move by more than so many sds, beyond noise, and the largest such move."""
    sure = np.abs(said.shift) - SURE * said.shift_error > least
    return " and ".join(variables.names_at(sure)), float(np.abs(said.shift[sure]).max(initial=0.0))


def _of_numbers(said: Any) -> list[str]:
    """What is not finite, or not known to the last digits."""
    told = [f"At some places {_of_zeros(said.zero)}"] if said.zero > 0 else []
    if said.rounding > ROUNDED:
        nats = f"{said.rounding:.2g} nats"
        told.append(f"Rounding leaves the log density known to {nats} only: what follows is rough. Fit in float64.")
    return told


def _of_shape(said: Any, q: Any, variables: Variables) -> list[str]:
    """How far q is from the posterior, by the importance ratios."""
    judged = _numbers(said)
    moving, size = _moving(said, variables, ARRIVED)
    if moving:
        return [f"q is not quite at the posterior {judged}: the mean of {moving} still moves by {size:.2g} sd of q."]
    if said.gap >= FAR:
        what, remedy = MISFITS.get(type(q).__name__, OTHER)
        return [f"{what} not describe the posterior {judged}: {remedy}"]
    use = "means and sds can be used"
    if said.gap >= CLOSE:
        typical = np.sqrt(2 * said.gap / len(said.shift))
        use = f"means are right to {typical:.2f} sd over all variables, to some tenths of one at worst"
    near = "close to" if said.gap < CLOSE else "near"
    told = [f"q is {near} the posterior as far as its own draws reach {judged}: {use}, if there is no other mode."]
    if said.gap >= CLOSE and isinstance(q, Normal | Blocks):
        told.append("Under q variables or blocks of them are independent: sds are too small where they are correlated.")
    if said.khat > LIGHT:
        told.append("The tails of the posterior are heavier than those of q: do not rely on tail probabilities.")
    return told


INDEPENDENT = (
    "Independent normals do",
    "sds are wrong. Means are often right; vijax.linear_response corrects the sds of a density; a sampler would tell.",
)
OTHER = (
    "q does",
    "sds, and perhaps means, are wrong. Write the density in other coordinates, take a richer guide (vijax.guides), "
    "vijax.auto, or a sampler.",
)
MISFITS = {
    "Normal": INDEPENDENT,
    "MultivariateNormal": ("One normal does", OTHER[1]),
    "TriangularNormal": ("One normal does", OTHER[1]),
}
"""What is said where q is far, by its family."""


def _is_sure(said: Any, least: float) -> bool:
    """Whether the bound moved by more than so many nats, and beyond noise."""
    return abs(said.drift.value) > max(least, NOISE * said.drift.standard_error)


def _of_steps(said: Any) -> list[str]:
    """Whether the last steps still moved, and what to do."""
    if said.drift is None:
        return ["Whether the last steps still moved is not known: there were too few."]
    remedy = "Take more steps." if said.drift.value > 0 else "Take smaller steps."
    moved = _moved(said)
    return [*moved, remedy] if moved else []


def _moved(said: Any) -> list[str]:
    """Whether the last steps still moved."""
    if said.drift is None or not _is_sure(said, MOVED):
        return []
    way = "rose" if said.drift.value > 0 else "fell"
    return [f"The bound still {way} by {abs(said.drift.value):.3g} nats over the last quarter of the steps."]
