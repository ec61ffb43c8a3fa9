"""One normal or a mixture of them: both are fitted where the normal misfits, and the better one is kept."""

from __future__ import annotations

from jaxtyping import PRNGKeyArray

from vijax import keys
from vijax.automatic import gaussian, richer
from vijax.automatic.ascent import Mode
from vijax.automatic.concluded import as_fit, as_mixture, compared, report, rivals
from vijax.automatic.gaussian import Ended, Gaussian
from vijax.automatic.report import Report
from vijax.automatic.stage import Watcher
from vijax.automatic.target import Target
from vijax.automatic.verdict import CLOSE, RARE
from vijax.models.density import Density
from vijax.result import Fit

NONE_LEFT = "A mixture of normals was not tried, for its gradients are beyond max_gradients."


def of_normal(
    model: Density,
    target: Target,
    q: Gaussian,
    found: list[tuple[Mode, int]],
    elbos: list[float | None],
    watcher: Watcher,
    key: PRNGKeyArray,
    max_gradients: int | None,
    asked: bool | None,
) -> Fit:
    """The best normal, or a mixture that begins at it, whichever has the higher bound.

    Args:
      model: the density.
      target: the same, on the host.
      q: the normal.
      found: modes that the starts found,
      elbos: and their rough bounds.
      watcher: of Ctrl-C: the normal is returned then, and a fit that goes on fits the mixture anew.
      key: of the fit.
      max_gradients: that the user allows in all; None is those so far and `richer.budget`.
      asked: whether to try a mixture; None does where the normal misfits.
    """
    seed = keys.seed(key)
    said = report(model, target, q, found, elbos, seed)
    others = rivals(q, found, elbos)
    if q.ended is Ended.INTERRUPTED:
        return reported(model, target, q, found, elbos, watcher, key)
    limit = max_gradients or target.num_gradients + richer.budget(target.dim)
    if not said.usable or not _is_misfit(said, bool(others), target.dim, asked):
        return as_fit(model, q, said, key)
    if limit - target.num_gradients < richer.fewest_gradients(target.dim):
        return as_fit(model, q, said._replace(verdict=f"{said.verdict} {NONE_LEFT}"), key)
    normals = [gaussian.laplace(target, mode).q for mode in others]
    mixture = richer.fit(target, q, normals, seed, limit, watcher.stopped)
    if watcher.stopped():
        watcher.stage = watcher.begun  # a normal at its end is no place to go on from: it would take one step more
        return reported(model, target, q._replace(ended=Ended.INTERRUPTED), found, elbos, watcher, key)
    mixed = report(model, target, mixture, found, elbos, seed, normal=q)
    better, said = compared(said, mixed, len(mixture.parts))
    return as_mixture(model, mixture, q, said, key) if better else as_fit(model, q, said, key)


def reported(
    model: Density,
    target: Target,
    q: Gaussian,
    found: list[tuple[Mode, int]],
    elbos: list[float | None],
    watcher: Watcher,
    key: PRNGKeyArray,
) -> Fit:
    """A normal that is to be kept."""
    said = report(model, target, q, found, elbos, keys.seed(key))
    return as_fit(model, q, said._replace(stage=watcher.stage if q.ended is Ended.INTERRUPTED else None), key)


def _is_misfit(said: Report, has_rivals: bool, dim: int, asked: bool | None) -> bool:
    """Whether a mixture is to be tried."""
    if asked is not None:
        return asked
    return dim <= richer.MOST_DIM and said.zero <= RARE and (said.gap >= CLOSE or has_rivals)
