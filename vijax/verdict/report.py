"""Reports on fits by `vijax.auto` and `vijax.dadvi`: the numbers. `vijax.verdict.words` has the
sentences."""

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
    def from_values(cls, values: Float[np.ndarray, " n"]) -> Estimate:
        """The mean of independent values, with its standard error."""
        return cls(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))

    def __str__(self) -> str:
        if not np.isfinite(self.value):
            return str(self.value)
        digits = 3 if self.standard_error < 0.1 else 2
        return f"{self.value:.{digits}f} ± {self.standard_error:.{digits}f}"


class FoundMode(NamedTuple):
    """A mode, the end of some searches.

    Attributes:
      values: values of the variables, by name.
      log_density: log density of the free coordinates.
      elbo: rough bound of the normal with the curvature there; None if another mode is far above
          it.
      num_starts: number of searches that ended there.
    """

    values: dict[str, Any]
    log_density: float
    elbo: float | None
    num_starts: int


class Off(NamedTuple):
    """The largest error among several numbers, and its standard error.

    Attributes:
      value: the error with its sign: for a mean in posterior standard deviations, for a standard
          deviation log q / p.
      error: standard error of `value`.
      at: the name of the number.
      khat: tail of the weights times the square of the number (Vehtari et al. 2024, section 3.2.1).
        If it is large, the posterior's tail holds more than draws show.
      hidden: size of an error of a single number that noise would hide, if the numbers are so many
        that they are judged together (`limits.MANY`); else 0.
    """

    value: float
    error: float
    at: str
    khat: float = 0.0
    hidden: float = 0.0

    @property
    def most(self) -> float:
        """The size of the error, two standard errors included."""
        return abs(self.value) + limits.WITHIN * self.error


class Moments(NamedTuple):
    """Errors of the means and standard deviations of q.

    Attributes:
      mean: the worst mean.
      log_sd: the worst standard deviation.
      khat: k-hat of the weights.
      ess: effective number of draws.
      num_draws: number of weighted draws.
      num_numbers: number of means, which is the number of standard deviations too.
    """

    mean: Off
    log_sd: Off
    khat: float
    ess: float
    num_draws: int
    num_numbers: int = 1

    @property
    def hidden(self) -> float:
        """The size of an error of a single mean or standard deviation that noise would hide."""
        return max(self.mean.hidden, self.log_sd.hidden)

    @property
    def is_reliable(self) -> bool:
        """True where the weights are good enough to judge by."""
        is_known = np.isfinite(self.mean.most + self.log_sd.most)
        is_even = max(self.khat, self.log_sd.khat) < limits.KHAT_RELIABLE
        return bool(is_known and is_even and self.ess >= limits.ENOUGH_DRAWS)


class Others(NamedTuple):
    """Results of searches from several starts: modes and labels beside q.

    Attributes:
      num_starts: number of searches; 0 without searches.
      inside: number of modes that q describes.
      others: number of modes of similar weight that q does not describe.
      share: share of the posterior in the other modes, by their bounds.
      mean: largest difference of a mean of q from the mean of all modes together, in standard
          deviations.
      sds: largest ratio of a standard deviation of all modes together to q's.
      labels: names of variables whose entries may be exchanged, one list for each exchange.
      widths: parts of another width at the same place that q does not describe: the name of a
        coordinate, or "" for all of them, and their width in units of q's.
      share_of_widths: share of the posterior in these parts, by their bounds.
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
      elbo: the bound on fresh draws, with its standard error.
      modes: the modes that the searches found, best first.
      gap: a lower bound on KL(q || p), in nats: log of the mean importance ratio, less the mean of
        its logarithm. Small if q is the posterior; it knows nothing of undiscovered modes.
      khat: shape of the tail of the importance ratios p / q (Vehtari et al. 2024).
      ended: why the fit stopped, in words.
      verdict: whether to trust it, in plain words.
      num_gradients: points at which the gradient was evaluated, in searches too. It does not count
        the comparison of float32 with float64, 16 points in each.
      log_ratios: log p - log q at draws.
      coordinates: these draws, in free coordinates.
      noise: standard normal noise of the fixed draws of `vijax.dadvi`.
      other: bound of the alternative: of the best normal if q is a mixture, of the mixture if q is
        the normal; None without an alternative.
      zero: share of the draws of q where the density is zero (or no number). If it is positive, the
        bound is minus infinity, and gap and khat are of the other draws.
      stage: the stage from which `vijax.auto(..., stage=)` or `vijax.dadvi(..., stage=)` resumes
        after Ctrl-C; None if there is none yet, or the fit has ended.
      usable: False where the verdict says "Do not use this fit".
      off: errors of means and sds by importance weights; None if they were not judged.
      others: modes that q does not describe, and labels that may be exchanged.
      rounding: rounding error of the log density, in nats, roughly.
      away: the modes that q does not describe, in the coordinates of the fit.
      widths: the parts of other widths that q does not describe, in these coordinates too.
      single: standard deviations by which float32 would move means or sds, if the fit is in float64
        for this reason; 0 if float32 is precise enough, NaN if JAX could not trace the density in
        float64 after float32.
      source: the library that the model was written in; "" for vijax.
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
    source: str = ""

    def __repr__(self) -> str:
        lines = [
            f"bound {self.elbo} nats; gap {self.gap:.3g} nats; k-hat {self.khat:.2f}; {self.ended}",
            *textwrap.wrap(self.verdict, WIDTH),
            f"{self.num_gradients:,} gradients, judged on {len(self.log_ratios):,} draws "
            "(log_ratios, coordinates)",
        ]
        if self.other is not None:
            lines.append(f"bound of the fit that was not kept: {self.other}")
        for i, mode in enumerate(self.modes[:MOST_SHOWN]):
            lines.append(f"mode {i + 1}: {_mode_line(mode)}")
        num_hidden = len(self.modes) - MOST_SHOWN
        if num_hidden > 0:
            lines.append(f"and {num_hidden} more modes (modes)")
        return "\n".join(["Report", *(f"  {line}" for line in lines)])


WIDTH = 100  # characters of a line of a printed report
MOST_SHOWN = 8  # modes of a printed report


def _mode_line(mode: FoundMode) -> str:
    elbo = "far below the best" if mode.elbo is None else f"bound {mode.elbo:.2f}"
    texts = []
    for path, x in jax.tree_util.tree_leaves_with_path(mode.values):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        texts.append(f"{name} {brief(np.asarray(x).round(4))}")
    return textwrap.shorten(f"{mode.num_starts} starts, {elbo}, at {'; '.join(texts)}", WIDTH)


def bound(log_ratios: Float[np.ndarray, " draws"], sets: int | None = None) -> Estimate:
    """The ELBO from log p - log q at draws of q; -inf if p is zero at a draw. Its error is from the
    means of `sets` sets of draws, or from the draws (None)."""
    if not np.isfinite(log_ratios).all():
        return Estimate(-np.inf, np.inf)
    return Estimate.from_values(log_ratios.reshape(sets or len(log_ratios), -1).mean(1))


def distance(
    log_ratios: Float[np.ndarray, " draws"], rounding: float = 0.0
) -> tuple[float, float, float]:
    """Three measures of the distance of q from p, from log p - log q at draws of q.

    Returns:
      The share of draws where p is zero; from the other draws a lower bound on KL(q || p) in nats;
      and k-hat (see `Report`), which is 0 where all weights are alike (`are_alike`), because they
      have no tail then.
    """
    finite = log_ratios[np.isfinite(log_ratios)]
    zero = 1 - len(finite) / len(log_ratios)
    if not len(finite):
        return zero, float("inf"), float("inf")
    khat = 0.0 if are_alike(log_ratios, rounding) else float(psis(log_ratios).khat)
    return zero, _log_mean(finite) - float(finite.mean()), khat


def are_alike(log_ratios: Float[np.ndarray, " draws"], rounding: float) -> bool:
    """True where all importance weights are alike, to `limits.ALIKE_WEIGHTS` or to rounding
    (nats)."""
    if not np.isfinite(log_ratios).all():
        return False
    variation = float(np.mean(np.expm1(log_ratios - _log_mean(log_ratios)) ** 2))
    return variation < limits.ALIKE_WEIGHTS + (3 * rounding) ** 2


def _log_mean(log_ratios: np.ndarray) -> float:
    return float(special.logsumexp(log_ratios) - np.log(len(log_ratios)))
