"""Errors of the functions of Gaussian processes at the length scales of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.models.formulas.form.form import Form
from vijax.models.formulas.form.parts import LENGTHS, Effects

MOST_DRAWS = 64
"""Draws at which covariances are compared."""
LARGE = 0.05
"""Errors of covariances, of a process of variance one, that are told."""
FEWEST = 0.05
"""Share of draws with such errors from which on they are told."""
ENDS = (0.02, 0.98)
"""Quantiles of the length scales for which the remedy is."""


def process_sentence(form: Form, values: Mapping[str, Any]) -> str:
    """A sentence on each Gaussian process whose functions do not show its length scales; `values`
    are draws of the unknowns."""
    sentences = []
    for term in form.processes:
        lengths = np.asarray(values[LENGTHS + term.name], float)[:MOST_DRAWS]
        sentences.append(_sentence(term, lengths))
    return " ".join(filter(None, sentences))


def _sentence(term: Effects, lengths: Float[np.ndarray, "S lengths"]) -> str:
    kernel = term.kernel
    assert kernel is not None
    scales_by_draw = lengths.reshape(len(lengths), -1, kernel.num_lengths)
    errors = np.array([max(kernel.error(scales) for scales in draw) for draw in scales_by_draw])
    share = float(np.mean(errors > LARGE))
    if share < FEWEST:
        return ""
    shortest, longest = np.quantile(scales_by_draw, ENDS, axis=(0, 1))
    low, high = (_format_lengths(x * kernel.unit) for x in (shortest, longest))
    return (
        f"{term.name}: at {100 * share:.0f} % of the draws the functions miss covariances of the "
        f"process by more than {LARGE:g} of its variance (at worst {errors.max():.2g}), so that it "
        f"is another law there: {kernel.remedy(shortest, longest)} show length scales from {low} "
        f"to {high}."
    )


def _format_lengths(lengths: Float[np.ndarray, " lengths"]) -> str:
    return " and ".join(f"{x:.3g}" for x in lengths)
