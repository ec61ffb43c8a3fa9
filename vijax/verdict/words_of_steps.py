"""Sentences on whether to trust a fit of free variables by steps, from its judgement
(`vijax.verdict.on_draws.Judgement`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import lambertw

from vijax.contract.variables import Variables
from vijax.families import Normal
from vijax.families.vector.blocks import Blocks
from vijax.verdict import limits
from vijax.verdict.words import (
    HEAVY,
    INDEPENDENT,
    distance_words,
    join_names,
    supports_remedy,
    zeros_sentence,
)

OTHER_MODES = (
    "Other modes were not looked for: vijax.auto searches for them; or compare other keys, or "
    "restarts=."
)


def verdict(
    judgement: Any,
    outcome: str,
    q: Any,
    variables: Variables,
    has_others: bool,
    source: str = "",
) -> str:
    """The verdict, a few sentences.

    Args:
      judgement: a `vijax.verdict.on_draws.Judgement`.
      outcome: how the fit ended.
      q: q of the free coordinates.
      variables: the free variables.
      has_others: True if there are conjugate globals too.
      source: the library that the model was written in; "" for vijax.
    """
    texts = sentences(judgement, q, variables, has_others, source)
    if judgement.usable:
        return " ".join([f"{outcome}.", *texts, OTHER_MODES])
    return " ".join([*texts, f"How it ended: {outcome}."])


def sentences(
    judgement: Any, q: Any, variables: Variables, has_others: bool, source: str = ""
) -> list[str]:
    """Sentences by draws of q and the trace; for a fit of no use, only the reason. See
    `verdict`."""
    if not judgement.usable:
        return [f"Do not use this fit: {unusable(judgement, variables, source)}"]
    texts = [
        *_number_sentences(judgement),
        *_shape_sentences(judgement, q, variables),
        *_step_sentences(judgement),
    ]
    if has_others:
        texts.append("The free variables were judged, given q of the others.")
    return texts


def unusable(judgement: Any, variables: Variables, source: str = "") -> str:
    """The reason why a fit is of no use; "" where it may be of use."""
    if judgement.zero > limits.RARE:
        return f"{zeros_sentence(judgement.zero)} {supports_remedy(source, FINITE)}"
    if judgement.rounding > limits.ROUNDING_HIDES_STEPS:
        return ""
    dim = variables.dim
    is_far = judgement.gap >= limits.FAR
    moves = _describe_moves(judgement, limits.ARRIVED, limits.STRETCHED)
    is_useless = (
        bool(_describe_moves(judgement, limits.AWAY, np.inf))
        or judgement.gap > limits.FAR_A_VARIABLE * dim
        or (is_far and _has_drift(judgement, limits.CLIMBING * max(1.0, dim / 4)))
        or (is_far and judgement.khat > limits.KHAT_RELIABLE and bool(moves))
    )
    if not is_useless:
        return ""
    texts = [f"q is not at the posterior {_numbers(judgement)}."]
    if moves:
        texts.append(f"By its draws, {moves}.")
    return " ".join([*texts, *_drift_sentences(judgement), NOT_THERE])


FINITE = (
    "Declare the supports of the variables, vijax.free(support=...), or begin where the density "
    "is finite."
)
NOT_THERE = (
    "More steps, or smaller ones, may bring it there; vijax.auto fits the same model and chooses "
    "its steps."
)


def _numbers(judgement: Any) -> str:
    return distance_words(judgement.gap, judgement.khat, str(judgement.elbo))


def _describe_moves(judgement: Any, min_shift: float, min_stretch: float) -> str:
    """The variables whose means would move by more than `min_shift` sds beyond noise, and those
    whose log sds by more than `min_stretch`, in words."""
    shift, stretch = judgement.shift, judgement.stretch
    shifts = np.abs(shift) - limits.SURE_OF_MEANS * judgement.shift_error > min_shift
    stretches = np.abs(stretch) - limits.SURE * judgement.stretch_error > min_stretch
    texts = []
    if shifts.any():
        largest = np.abs(shift[shifts]).max()
        names = _names(judgement, shifts)
        texts.append(f"the mean of {names} would move by about {largest:.2g} sd of q")
    if stretches.any():
        largest = stretch[stretches][np.argmax(np.abs(stretch[stretches]))]
        names = _names(judgement, stretches)
        verb = "grow" if largest > 0 else "shrink"
        texts.append(f"the sd of {names} would {verb} by about {abs(np.expm1(largest)):.0%}")
    return ", and ".join(texts)


def _names(judgement: Any, is_selected: Any) -> str:
    """The selected variables in words: their names, or their number."""
    pairs = zip(judgement.names, is_selected, strict=True)
    names = list(dict.fromkeys(name for name, is_in in pairs if is_in))
    return join_names(names) if len(names) <= MOST_NAMED else f"{len(names)} variables"


MOST_NAMED = 4  # variables that are named; for more, their number is given


def _number_sentences(judgement: Any) -> list[str]:
    """Sentences on zeros and rounding of the density."""
    texts = []
    if judgement.zero > 0:
        texts.append(f"At some places {zeros_sentence(judgement.zero)}")
    if judgement.rounding > limits.ROUNDING_TOLD:
        texts.append(
            f"Rounding leaves the log density known to {judgement.rounding:.2g} nats only: judge "
            "in float64."
        )
    return texts


def _shape_sentences(judgement: Any, q: Any, variables: Variables) -> list[str]:
    """Sentences on how far q is from the posterior, by the importance ratios."""
    if judgement.rounding > limits.ROUNDING_HIDES_STEPS:
        return ["How near q is to the posterior cannot be seen beside that."]
    numbers = _numbers(judgement)
    is_close = judgement.gap < limits.CLOSE
    moves = _next_moves(judgement)
    if moves:
        return [f"q is not quite at the posterior {numbers}: by its draws, {moves}."]
    if judgement.gap >= limits.FAR:
        subject, remedy = MISFITS.get(type(q).__name__, OTHER)
        return [f"{subject} not describe the posterior {numbers}: {remedy}"]
    use = "means and sds can be used"
    if not is_close:
        typical = np.sqrt(2 * judgement.gap / variables.dim)
        # All of the gap may be in one variable: d^2 / 2 nats in its mean, or log r + (r^-2 - 1) / 2
        # in an sd that should be r times as large.
        worst = np.sqrt(2 * judgement.gap)
        factor = (-lambertw(-np.exp(-1 - 2 * judgement.gap)).real) ** -0.5
        use = (
            f"means are right to {typical:.2f} sd over all variables; those of one may be off by "
            f"{worst:.1f} sd, and its sd by a factor of {factor:.1f}"
        )
    distance = "close to" if is_close else "near"
    texts = [
        f"q is {distance} the posterior as far as its own draws reach {numbers}: {use}, if there "
        "is no other mode."
    ]
    if not is_close and isinstance(q, Normal | Blocks):
        texts.append(INDEPENDENT.replace("Variables", "Variables or blocks of them"))
    if judgement.khat > limits.KHAT_RELIABLE:
        texts.append(HEAVY)
    return texts


def has_right_sds(judgement: Any, variables: Variables) -> bool:
    """True where the verdict says that means and sds can be used, be it within limits."""
    is_seen = judgement.rounding <= limits.ROUNDING_HIDES_STEPS
    is_near = is_seen and judgement.gap < limits.FAR and not _next_moves(judgement)
    return bool(is_near and not unusable(judgement, variables))


def _next_moves(judgement: Any) -> str:
    """The means and sds that would still move, in words; "" if q is close."""
    if judgement.gap < limits.CLOSE:
        return ""
    return _describe_moves(judgement, limits.ARRIVED, limits.STRETCHED)


OTHER = (
    "q does",
    "sds, and perhaps means, are wrong. Write the density in other coordinates, take a richer "
    "guide (vijax.guides), vijax.auto, or a sampler.",
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


def _has_drift(judgement: Any, nats: float) -> bool:
    """True where the bound still moved by more than this, beyond noise."""
    drift = judgement.drift
    if drift is None:
        return False
    return abs(drift.value) > max(nats, limits.SURE * drift.standard_error)


def _step_sentences(judgement: Any) -> list[str]:
    """Sentences on whether the last steps still moved, with the remedy."""
    if judgement.drift is None:
        return ["Whether the last steps still moved is not known: there were too few."]
    texts = _drift_sentences(judgement)
    if texts:
        texts.append("Take more steps." if judgement.drift.value > 0 else "Take smaller steps.")
    return texts


def _drift_sentences(judgement: Any) -> list[str]:
    """A sentence on how far the last steps still moved, if they did."""
    if not _has_drift(judgement, limits.MOVED):
        return []
    verb = "rose" if judgement.drift.value > 0 else "fell"
    size = f"{abs(judgement.drift.value):.3g} nats"
    return [f"The bound still {verb} by {size} over the last quarter of the steps."]
