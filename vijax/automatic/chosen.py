"""One normal or a mixture of them: both are fitted where the normal misfits, and the better one is kept."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.automatic import gaussian, richer
from vijax.automatic.ascent import Mode
from vijax.automatic.components import Mixture
from vijax.automatic.concluded import as_fit, as_mixture, compared, report, rivals
from vijax.automatic.gaussian import Ended, Gaussian
from vijax.automatic.labels import exchanges
from vijax.automatic.places import Searched
from vijax.automatic.report import Report
from vijax.automatic.stage import Watcher
from vijax.automatic.target import Target
from vijax.automatic.verdict import CLOSE, RARE, ROUNDED
from vijax.contract.model import Model
from vijax.fitting.result import Fit
from vijax.xla import keys

EARLY = 2 * CLOSE
"""Nats of the gap from which on the fit of one normal is not taken to its end: half of it may be the noise of draws."""
NONE_LEFT = "A mixture of normals was not tried, for its gradients are beyond max_gradients."


class Done(NamedTuple):
    """A normal that has been fitted, and what it was fitted to.

    Attributes:
      model: the density.
      target: the same, on the host.
      q: the normal.
      searched: what the starts found.
      watcher: of Ctrl-C.
      key: of the fit.
    """

    model: Model
    target: Target
    q: Gaussian
    searched: Searched
    watcher: Watcher
    key: PRNGKeyArray

    def report(self, q: Gaussian | Mixture, normal: Gaussian | None = None) -> Report:
        """On this normal, or a mixture that began at it."""
        return report(self.model, self.target, q, self.searched, keys.seed(self.key), normal)


class Misfit:
    """Whether one normal is not enough.

    Attributes:
      is_tried: whether a mixture may be tried.
      seen: the fit of one ended early, for it will not be.
    """

    def __init__(self, dim: int, asked: bool | None):
        self.is_tried, self._asked, self.seen = dim <= richer.MOST_DIM if asked is None else asked, asked, False

    def among(self, has_rivals: Callable[[Gaussian], bool]) -> Callable[[Gaussian, float], bool]:
        """What `gaussian.fit` asks: whether gradients are worth more in a mixture than in less noise of the normal."""

        def asks(q: Gaussian, gap: float) -> bool:
            self.seen = self.is_tried and (gap > EARLY or has_rivals(q))
            return self.seen

        return asks

    def is_worth(self, said: Report, has_rivals: bool) -> bool:
        """Whether a mixture is to be tried, by what is said of the normal."""
        if self._asked is not None:
            return self._asked
        is_rounded = said.rounding > ROUNDED and not has_rivals
        is_misfit = self.seen or said.gap >= CLOSE or has_rivals
        return self.is_tried and said.zero <= RARE and not is_rounded and is_misfit


def rivalry(
    target: Target, found: list[tuple[Mode, int]], elbos: list[float | None], seed: int
) -> Callable[[Gaussian], bool]:
    """Whether a normal has other modes beside it, of a weight like its own."""
    several = sum(elbo is not None for elbo in elbos) > 1  # q may have left the only one
    labels = functools.cache(lambda: exchanges(target, found[0][0].x, found[0][0].sds, seed))
    return lambda q: several and bool(rivals(q, Searched(found, elbos, labels(), len(found)), target))


def of_normal(done: Done, limit: int, misfit: Misfit) -> Fit:
    """The best normal, or a mixture that begins at it, whichever has the higher bound.

    Args:
      done: the normal. After Ctrl-C it is returned, and a fit that goes on fits the mixture anew.
      limit: of gradients in all.
      misfit: whether to try a mixture.
    """
    q, target, watcher = done.q, done.target, done.watcher
    said = done.report(q)
    others = [mode for mode, _ in rivals(q, done.searched, target)]
    if q.ended is Ended.INTERRUPTED:
        return reported(done)
    if not said.usable or not misfit.is_worth(said, bool(others)):
        return as_fit(done.model, q, said, done.key)
    if limit - target.num_gradients < richer.fewest_gradients(target.dim) + 2 * target.dim * len(others):
        return as_fit(done.model, q, said._replace(verdict=f"{said.verdict} {NONE_LEFT}"), done.key)
    normals = [gaussian.laplace(target, mode).q for mode in others]
    mixture = richer.fit(target, q, normals, keys.seed(done.key), limit, watcher.stopped)
    if watcher.stopped():
        watcher.stage = watcher.begun  # a normal at its end is no place to go on from: it would take one step more
        return reported(done._replace(q=q._replace(ended=Ended.INTERRUPTED)))
    better, said = compared(said, done.report(mixture, q), len(mixture.parts))
    said = said._replace(verdict=f"{said.verdict} {_of_more(mixture, limit)}".rstrip())
    return as_mixture(done.model, mixture, q, said, done.key) if better else as_fit(done.model, q, said, done.key)


def _of_more(mixture: Mixture, limit: int) -> str:
    """What more gradients would buy, where a mixture ended for want of them."""
    if mixture.ended is not Ended.SPENT:
        return ""
    rose = f"its bound still rose by {mixture.rise:.2f} nats in a thousand"
    ended = f"The mixture stopped at the limit of {limit:,} gradients"
    return f"{ended}, where {rose}." if np.isfinite(mixture.rise) else f"{ended}, with too few to settle."


def reported(done: Done) -> Fit:
    """A normal that is to be kept."""
    stage = done.watcher.stage if done.q.ended is Ended.INTERRUPTED else None
    return as_fit(done.model, done.q, done.report(done.q)._replace(stage=stage), done.key)
