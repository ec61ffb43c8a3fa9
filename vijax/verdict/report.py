"""Reports on fits by `vijax.auto` and `vijax.dadvi`, as numbers; `vijax.verdict.words` has the
words."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from scipy import special

from vijax.checks import brief
from vijax.verdict import limits
from vijax.verdict.psis import psis


class Ended(enum.StrEnum):
    """Reasons why a fit stopped."""

    CONVERGED = "converged"
    LIMITED = "limited by the noise of its draws"
    SPENT = "stopped at its limit of gradients"
    PASSES = "stopped at its limit of passes over the data"
    UNBOUNDED = "unbounded"
    UNSOLVED = "stopped before an optimum"
    TOO_FEW = "fitted to too few draws"
    INTERRUPTED = "stopped early"


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    standard_error: float

    @classmethod
    def of(cls, values: Float[np.ndarray, " n"]) -> Estimate:
        """Returns the mean of independent values."""
        return cls(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))

    def __str__(self) -> str:
        if not np.isfinite(self.value):
            return str(self.value)
        digits = 3 if self.standard_error < 0.1 else 2
        return f"{self.value:.{digits}f} ± {self.standard_error:.{digits}f}"


class FoundMode(NamedTuple):
    """A mode that the starts found.

    Attributes:
      values: values of the variables, by name.
      log_density: log density of the free coordinates.
      elbo: rough bound of the normal with the curvature there; None where another mode is far above
          it.
      num_starts: number of searches that ended there.
    """

    values: dict[str, Any]
    log_density: float
    elbo: float | None
    num_starts: int


class Off(NamedTuple):
    """The number that is off most among several, and its standard error.

    Attributes:
      value: the error with its sign: of a mean in posterior standard deviations, of a standard
          deviation log q / p.
      error: standard error of `value`.
      at: the name of the number.
      khat: tail of the weights times the square of the number (Vehtari et al. 2024, section 3.2.1):
        where it is large the posterior's own tail holds more than draws show.
      hidden: size of an error of a single number that noise would hide, where so many numbers are
        looked at that they are judged together (`limits.MANY`); 0 elsewhere.
    """

    value: float
    error: float
    at: str
    khat: float = 0.0
    hidden: float = 0.0

    @property
    def most(self) -> float:
        """The size of the error with two standard errors."""
        return abs(self.value) + limits.WITHIN * self.error


class Moments(NamedTuple):
    """Errors of the means and standard deviations of q.

    Attributes:
      mean: the worst mean.
      log_sd: the worst standard deviation.
      khat: k-hat of the weights.
      ess: effective number of draws.
      num_draws: number of draws that were weighted.
      num_numbers: number of means, and of standard deviations.
    """

    mean: Off
    log_sd: Off
    khat: float
    ess: float
    num_draws: int
    num_numbers: int = 1

    @property
    def hidden(self) -> float:
        """The size of an error of a single number that noise would hide, the larger one."""
        return max(self.mean.hidden, self.log_sd.hidden)

    @property
    def is_reliable(self) -> bool:
        """True where the weights are good enough to judge by."""
        known = np.isfinite(self.mean.most + self.log_sd.most)
        is_even = max(self.khat, self.log_sd.khat) < limits.KHAT_RELIABLE
        return bool(known and is_even and self.ess >= limits.ENOUGH_DRAWS)


class Others(NamedTuple):
    """Modes and labels that searches from several starts found beside q.

    Attributes:
      num_starts: number of searches; 0 where there were none.
      inside: number of modes that q describes.
      others: number of modes of similar weight that q does not describe.
      share: share of the posterior that the others hold, by their bounds.
      mean: error of the means of q beside those of all modes together, in standard deviations, the
          worst.
      sds: how many times as large the standard deviations of all modes together are, at most.
      labels: names of variables whose entries may be exchanged, one list for each exchange.
      widths: parts about the same place of another width that q does not describe: the name of a
        coordinate, or "" for all of them, and how many times as wide as q.
      share_of_widths: share of the posterior that they hold, by their bounds.
    """

    num_starts: int = 0
    inside: int = 1
    others: int = 0
    share: float = 0.0
    mean: float = 0.0
    sds: float = 1.0
    labels: Sequence[Sequence[str]] = ()
    widths: Sequence[tuple[str, float]] = ()
    share_of_widths: float = 0.0


class Report(NamedTuple):
    """Numbers and words on how far to trust a fit by `vijax.auto` or `vijax.dadvi`.

    Attributes:
      elbo: the bound on draws that the fit has not seen, with its standard error.
      modes: the modes that the starts found, best first.
      gap: a lower bound on KL(q || p), in nats: log of the mean importance ratio, less the mean of
        its logarithm. Small where q is the posterior; an unknown mode is not in it.
      khat: shape of the tail of the importance ratios p / q (Vehtari et al. 2024).
      ended: why the fit stopped, in words.
      verdict: whether to trust it, in plain words.
      num_gradients: points at which the gradient was evaluated, starts included; those apart at
        which float32 was compared with float64, 16 in each.
      log_ratios: log p - log q at draws.
      coordinates: these draws, in free coordinates.
      noise: standard normal noise of the fixed draws of `vijax.dadvi`.
      other: bound of the fit that was not kept: of the best normal where q is a mixture, of the
        mixture where q is the normal; None where nothing else was tried.
      zero: share of the draws of q where the density is zero (or no number): if there are any, the
        bound is minus infinity, and gap and khat are of the other draws.
      stage: the place from which `vijax.auto(..., stage=)` or `vijax.dadvi(..., stage=)` goes on
        after Ctrl-C; None where the fit has not come far enough, or has ended.
      usable: false where the verdict says "Do not use this fit".
      off: errors of means and sds by importance weights; None where they were not judged.
      others: modes that q does not describe, and labels that may be exchanged.
      rounding: rounding of the log density, in nats, roughly.
      away: the modes that q does not describe, in the coordinates of the fit.
      widths: the parts of other widths that q does not describe, in these coordinates too.
      single: standard deviations by which float32 would move means or sds, where the fit was
        computed in float64 for that; 0 where it does not, and NaN where JAX could not trace the
        density in float64 after float32.
    """

    elbo: Estimate
    modes: Sequence[FoundMode]
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
    off: Moments | None = None
    others: Others | None = None
    rounding: float = 0.0
    away: Sequence[Any] = ()
    widths: Sequence[Any] = ()
    single: float = 0.0

    def __repr__(self) -> str:
        head = [
            f"bound {self.elbo} nats; gap {self.gap:.3g} nats; k-hat {self.khat:.2f}; {self.ended}"
        ]
        said = textwrap.wrap(self.verdict, WIDTH)
        spent = (
            f"{self.num_gradients:,} gradients, judged on {len(self.log_ratios):,} draws "
            "(log_ratios, coordinates)"
        )
        more = [] if self.other is None else [f"bound of the fit that was not kept: {self.other}"]
        found = [
            f"mode {i + 1}: {_of_mode(mode)}" for i, mode in enumerate(self.modes[:MOST_SHOWN])
        ]
        left = len(self.modes) - MOST_SHOWN
        rest = [f"and {left} more modes (modes)"] if left > 0 else []
        lines = (line for part in (head, said, [spent], more, found, rest) for line in part)
        return "\n".join(["Report", *(f"  {line}" for line in lines)])


WIDTH, MOST_SHOWN = 100, 8  # characters of a line, and modes, of a printed report


def _of_mode(mode: FoundMode) -> str:
    elbo = "far below the best" if mode.elbo is None else f"bound {mode.elbo:.2f}"
    leaves = jax.tree_util.tree_leaves_with_path(mode.values)
    named = ((jax.tree_util.keystr(path, simple=True, separator="."), x) for path, x in leaves)
    values = "; ".join(f"{name} {brief(np.asarray(x).round(4))}" for name, x in named)
    return textwrap.shorten(f"{mode.num_starts} starts, {elbo}, at {values}", WIDTH)


def bound(log_ratios: Float[np.ndarray, " draws"], sets: int | None = None) -> Estimate:
    """Returns the ELBO by log p - log q at draws of q; -inf where p is zero at a draw. Its error is
    by the means of so many sets of draws, or by the draws (None)."""
    if not np.isfinite(log_ratios).all():
        return Estimate(-np.inf, np.inf)
    return Estimate.of(log_ratios.reshape(sets or len(log_ratios), -1).mean(1))


def distance(
    log_ratios: Float[np.ndarray, " draws"], rounding: float = 0.0
) -> tuple[float, float, float]:
    """Returns the distance of q from p, by log p - log q at draws of q: the share of draws where p
    is zero; by the rest a lower bound on KL(q || p) in nats; and k-hat (see `Report`), which is 0
    where all weights are alike (`are_alike`), because they have no tail then."""
    known = log_ratios[np.isfinite(log_ratios)]
    zero = 1 - len(known) / len(log_ratios)
    if not len(known):
        return zero, float("inf"), float("inf")
    khat = 0.0 if are_alike(log_ratios, rounding) else float(psis(log_ratios).khat)
    return zero, _log_mean(known) - float(known.mean()), khat


def are_alike(log_ratios: Float[np.ndarray, " draws"], rounding: float) -> bool:
    """Says whether all importance weights are alike, to `limits.ALIKE_WEIGHTS` or to rounding
    (nats)."""
    if not np.isfinite(log_ratios).all():
        return False
    variation = float(np.mean(np.expm1(log_ratios - _log_mean(log_ratios)) ** 2))
    return variation < limits.ALIKE_WEIGHTS + (3 * rounding) ** 2


def _log_mean(log_ratios: np.ndarray) -> float:
    return float(special.logsumexp(log_ratios) - np.log(len(log_ratios)))
