"""One normal or a mixture of them: both are fitted where the normal misfits, and the better one is kept."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import PRNGKeyArray

from vijax import keys
from vijax.automatic import gaussian, richer
from vijax.automatic.components import Mixture
from vijax.automatic.concluded import as_fit, as_mixture, compared, report, rivals
from vijax.automatic.gaussian import Ended, Gaussian
from vijax.automatic.places import Searched
from vijax.automatic.report import Report
from vijax.automatic.stage import Watcher
from vijax.automatic.target import Target
from vijax.automatic.verdict import CLOSE, RARE, ROUNDED
from vijax.models.density import Density
from vijax.result import Fit

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

    model: Density
    target: Target
    q: Gaussian
    searched: Searched
    watcher: Watcher
    key: PRNGKeyArray

    def report(self, q: Gaussian | Mixture, normal: Gaussian | None = None) -> Report:
        """On this normal, or a mixture that began at it."""
        return report(self.model, self.target, q, self.searched, keys.seed(self.key), normal)


def of_normal(done: Done, max_gradients: int | None, asked: bool | None) -> Fit:
    """The best normal, or a mixture that begins at it, whichever has the higher bound.

    Args:
      done: the normal. After Ctrl-C it is returned, and a fit that goes on fits the mixture anew.
      max_gradients: that the user allows in all; None is those so far and `richer.budget`.
      asked: whether to try a mixture; None does where the normal misfits.
    """
    q, target, watcher = done.q, done.target, done.watcher
    said = done.report(q)
    others = [mode for mode, _ in rivals(q, done.searched, target)]
    if q.ended is Ended.INTERRUPTED:
        return reported(done)
    limit = max_gradients or target.num_gradients + richer.budget(target.dim)
    if not said.usable or not _is_misfit(said, bool(others), target.dim, asked):
        return as_fit(done.model, q, said, done.key)
    if limit - target.num_gradients < richer.fewest_gradients(target.dim):
        return as_fit(done.model, q, said._replace(verdict=f"{said.verdict} {NONE_LEFT}"), done.key)
    normals = [gaussian.laplace(target, mode).q for mode in others]
    mixture = richer.fit(target, q, normals, keys.seed(done.key), limit, watcher.stopped)
    if watcher.stopped():
        watcher.stage = watcher.begun  # a normal at its end is no place to go on from: it would take one step more
        return reported(done._replace(q=q._replace(ended=Ended.INTERRUPTED)))
    better, said = compared(said, done.report(mixture, q), len(mixture.parts))
    return as_mixture(done.model, mixture, q, said, done.key) if better else as_fit(done.model, q, said, done.key)


def reported(done: Done) -> Fit:
    """A normal that is to be kept."""
    stage = done.watcher.stage if done.q.ended is Ended.INTERRUPTED else None
    return as_fit(done.model, done.q, done.report(done.q)._replace(stage=stage), done.key)


def _is_misfit(said: Report, has_rivals: bool, dim: int, asked: bool | None) -> bool:
    """Whether a mixture is to be tried."""
    if asked is not None:
        return asked
    is_rounded = said.rounding > ROUNDED and not has_rivals
    return dim <= richer.MOST_DIM and said.zero <= RARE and not is_rounded and (said.gap >= CLOSE or has_rivals)
