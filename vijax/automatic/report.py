"""What `vijax.auto` says of its own fit: how sure the bound is, which modes there were, whether to trust the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    standard_error: float

    def __str__(self) -> str:
        if not np.isfinite(self.value):
            return str(self.value)
        digits = 3 if self.standard_error < 0.1 else 2
        return f"{self.value:.{digits}f} ± {self.standard_error:.{digits}f}"


class Place(NamedTuple):
    """A mode that the starts found.

    Attributes:
      values: of the variables there, by name.
      log_density: of the free coordinates there.
      elbo: of the normal with the curvature there, rough; None where another mode is far above it.
      num_starts: that ended there.
    """

    values: dict[str, Any]
    log_density: float
    elbo: float | None
    num_starts: int


class Report(NamedTuple):
    """See `vijax.auto`, `vijax.dadvi`.

    Attributes:
      elbo: on draws that the fit has not seen, with its standard error.
      modes: that the starts found, best first.
      gap: a lower bound on KL(q || p), in nats: log of the mean importance ratio, less the mean of its logarithm. Small
        where q is the posterior; an unknown mode is not in it.
      khat: shape of the tail of the importance ratios p / q (Vehtari et al. 2024).
      ended: why the fit stopped, in words.
      verdict: whether to trust it, in plain words.
      num_gradients: points at which the gradient was evaluated, starts included.
      log_ratios: log p - log q at draws, which weight them.
      coordinates: those draws, in free coordinates.
      noise: of the fixed draws of `vijax.dadvi`.
      other: bound of what was fitted too and not kept: of the best normal where q is a mixture, and the other way
        round; None where nothing else was tried.
      zero: share of the draws of q where the density is zero (or no number): then the bound is minus infinity, and gap
        and khat are of the other draws.
      stage: of a fit that Ctrl-C stopped, what `vijax.auto(..., stage=)` or `vijax.dadvi(..., stage=)` goes on from;
        None where it has not come far enough, or has ended.
      usable: false where the verdict says "Do not use this fit".
      off: how far means and sds are off, by importance weights (`vijax.automatic.moments.Moments`); None where that was
        not judged.
      others: modes that q does not describe, and labels that may be exchanged (`vijax.automatic.verdict.Others`).
      rounding: of the log density, in nats, roughly.
    """

    elbo: Estimate
    modes: Sequence[Place]
    gap: float
    khat: float
    ended: str
    verdict: str
    num_gradients: int = 0
    log_ratios: Float[np.ndarray, " draws"] = np.zeros(0)
    coordinates: Float[np.ndarray, "draws D"] = np.zeros((0, 0))
    noise: Float[np.ndarray, "fixed D"] = np.zeros((0, 0))
    zero: float = 0.0
    other: Estimate | None = None
    stage: Any = None
    usable: bool = True
    off: Any = None
    others: Any = None
    rounding: float = 0.0
