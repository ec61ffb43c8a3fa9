"""Sentences on whether to trust a fit of free variables by steps, by a
`vijax.verdict.on_draws.Judgement`."""

from __future__ import annotations

from typing import Any

import numpy as np

from vijax.contract.variables import Variables
from vijax.families import Normal
from vijax.families.vector.blocks import Blocks
from vijax.verdict import limits
from vijax.verdict.words import HEAVY, INDEPENDENT, listed, of_distance, of_zeros

OTHER_MODES = (
    "Other modes were not looked for: vijax.auto searches for them; or compare other keys, or "
    "restarts=."
)


def verdict(said: Any, outcome: str, q: Any, variables: Variables, has_others: bool) -> str:
    """Returns the verdict, a few sentences, by a `vijax.verdict.on_draws.Judgement` (`said`) of q
    of the free coordinates; `outcome` says how the fit ended, `has_others` that there are conjugate
    globals too."""
    seen = sentences(said, q, variables, has_others)
    if said.usable:
        return " ".join([f"{outcome}.", *seen, OTHER_MODES])
    return " ".join([*seen, f"How it ended: {outcome}."])


def sentences(said: Any, q: Any, variables: Variables, has_others: bool) -> list[str]:
    """Returns sentences by draws of q and the trace; of a fit of no use, that alone."""
    if not said.usable:
        return [f"Do not use this fit: {unusable(said, variables)}"]
    given = ["The free variables were judged, given q of the others."] if has_others else []
    return [*_of_numbers(said), *_of_shape(said, q, variables), *_of_steps(said), *given]


def unusable(said: Any, variables: Variables) -> str:
    """Says why a fit is of no use; empty where it may be of some."""
    if said.zero > limits.RARE:
        return f"{of_zeros(said.zero)} {FINITE}"
    if said.rounding > limits.ROUNDING_HIDES_STEPS:
        return ""
    dim, is_far = variables.dim, said.gap >= limits.FAR
    moving = _moving(said, limits.AWAY, np.inf)
    lost = said.gap > limits.FAR_A_VARIABLE * dim
    climbing = is_far and _is_sure(said, limits.CLIMBING * max(1.0, dim / 4))
    moves = _moving(said, limits.ARRIVED, limits.STRETCHED)
    on_its_way = is_far and said.khat > limits.KHAT_RELIABLE and moves
    if not (moving or lost or climbing or on_its_way):
        return ""
    told = [
        f"q is not at the posterior {_numbers(said)}.",
        f"By its draws, {moves}." if moves else "",
        *_moved(said),
    ]
    return " ".join([*filter(None, told), NOT_THERE])


FINITE = (
    "Declare the supports of the variables, vijax.free(support=...), or begin where the density "
    "is finite."
)
NOT_THERE = (
    "More steps, or smaller ones, may bring it there; vijax.auto fits the same model and chooses "
    "its steps."
)


def _numbers(said: Any) -> str:
    return of_distance(said.gap, said.khat, str(said.elbo))


def _moving(said: Any, mean: float, sd: float) -> str:
    """Says which variables' means would move by more than so many sds, and which sds by more than
    that, beyond noise."""
    of_means = np.abs(said.shift) - limits.SURE_OF_MEANS * said.shift_error > mean
    of_sds = np.abs(said.stretch) - limits.SURE * said.stretch_error > sd
    told = []
    if of_means.any():
        most = np.abs(said.shift[of_means]).max()
        told.append(f"the mean of {_names(said, of_means)} would move by about {most:.2g} sd of q")
    if of_sds.any():
        most = said.stretch[of_sds][np.argmax(np.abs(said.stretch[of_sds]))]
        way = "grow" if most > 0 else "shrink"
        told.append(
            f"the sd of {_names(said, of_sds)} would {way} by about {abs(np.expm1(most)):.0%}"
        )
    return ", and ".join(told)


def _names(said: Any, chosen: Any) -> str:
    names = list(
        dict.fromkeys(name for name, is_in in zip(said.names, chosen, strict=True) if is_in)
    )
    return listed(names) if len(names) <= MOST_NAMED else f"{len(names)} variables"


MOST_NAMED = 4  # variables that are named; of more their number is said


def _of_numbers(said: Any) -> list[str]:
    """Says where the density is zero, and how far it is rounded."""
    told = [f"At some places {of_zeros(said.zero)}"] if said.zero > 0 else []
    if said.rounding > limits.ROUNDING_TOLD:
        told.append(
            f"Rounding leaves the log density known to {said.rounding:.2g} nats only: judge in "
            "float64."
        )
    return told


def _of_shape(said: Any, q: Any, variables: Variables) -> list[str]:
    """Says how far q is from the posterior, by the importance ratios."""
    if said.rounding > limits.ROUNDING_HIDES_STEPS:
        return ["How near q is to the posterior cannot be seen beside that."]
    judged = _numbers(said)
    moving = _moving(said, limits.ARRIVED, limits.STRETCHED) if said.gap >= limits.CLOSE else ""
    if moving:
        return [f"q is not quite at the posterior {judged}: by its draws, {moving}."]
    if said.gap >= limits.FAR:
        what, remedy = MISFITS.get(type(q).__name__, OTHER)
        return [f"{what} not describe the posterior {judged}: {remedy}"]
    use = "means and sds can be used"
    if said.gap >= limits.CLOSE:
        typical = np.sqrt(2 * said.gap / variables.dim)
        use = (
            f"means are right to {typical:.2f} sd over all variables, to some tenths of one at "
            "worst"
        )
    near = "close to" if said.gap < limits.CLOSE else "near"
    told = [
        f"q is {near} the posterior as far as its own draws reach {judged}: {use}, if there is no "
        "other mode."
    ]
    if said.gap >= limits.CLOSE and isinstance(q, Normal | Blocks):
        told.append(INDEPENDENT.replace("Variables", "Variables or blocks of them"))
    if said.khat > limits.KHAT_RELIABLE:
        told.append(HEAVY)
    return told


OTHER = (
    "q does",
    "sds, and perhaps means, are wrong. Write the density in other coordinates, take a richer "
    "guide (vijax.guides), "
    "vijax.auto, or a sampler.",
)
MEAN_FIELD = (
    "Independent normals do",
    "sds are wrong, and means may be. vijax.linear_response corrects the sds of a density; a "
    "sampler would tell.",
)
MISFITS = {
    "Normal": MEAN_FIELD,
    "MultivariateNormal": ("One normal does", OTHER[1]),
    "TriangularNormal": ("One normal does", OTHER[1]),
}
"""Subject and remedy of the sentence that q is far from the posterior, by its family."""


def _is_sure(said: Any, least: float) -> bool:
    """Says whether the bound moved by more than so many nats, beyond noise."""
    return said.drift is not None and abs(said.drift.value) > max(
        least, limits.SURE * said.drift.standard_error
    )


def _of_steps(said: Any) -> list[str]:
    """Says whether the last steps still moved, and what to do."""
    if said.drift is None:
        return ["Whether the last steps still moved is not known: there were too few."]
    remedy = "Take more steps." if said.drift.value > 0 else "Take smaller steps."
    moved = _moved(said)
    return [*moved, remedy] if moved else []


def _moved(said: Any) -> list[str]:
    """Says whether the last steps still moved."""
    if not _is_sure(said, limits.MOVED):
        return []
    way = "rose" if said.drift.value > 0 else "fell"
    return [
        f"The bound still {way} by {abs(said.drift.value):.3g} nats over the last quarter of the "
        "steps."
    ]
