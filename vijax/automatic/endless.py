"""Whether a fit by steps runs away: of an improper density the bound grows without limit, and no step ever says so.

Of an energy with free variables beside conjugate ones, along the free ones: q of the others stays, and locals are
found anew by their E-step.

Where q has come far from where all fits start, its draws are moved further, along each coordinate and each direction in
which they are wide: away from their mean (q gets wider) and away from zero (q goes on). With draws s times as far, the
bound changes by

    E[log p(x_s)] - E[log p(x)] + log s,

which falls for s large enough if the density is proper along there, however wide its prior is. Along a direction that
is no coordinate rounding lets this be seen up to a distance of a million only. A bound that is no number before s =
10,000 (an exponential that overflows) says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from vijax.automatic.gaussian import Ended
from vijax.automatic.report import Estimate, Report
from vijax.automatic.target import OfFree, Target
from vijax.batch import Minibatch
from vijax.families import Family
from vijax.model import Hyper
from vijax.models.density import point

WORDS = (
    "Do not use this fit: the bound grows without limit along {along}. The density is improper. Give every variable a "
    "proper prior."
)
NO_BOUND = Estimate(np.inf, np.nan)
WIDE = 10.0
"""Standard deviations, and means, of free coordinates from which on a fit is looked at: they begin at 0.1, within 2."""
DRAWS, MOST = 16, 8
"""Draws that are moved; and along how many coordinates and directions at most, the widest ones first."""
FURTHER = 10.0 ** np.array([1, 2, 4, 6, 8, 10, 12, 14])
FARTHEST = 1e6
"""s, of coordinates; and how far draws go along other directions at most: float32 still knows their sums there."""
FEWEST = 3
"""Values of s at which the bound must be known."""
FAR, MOST_DIM, ALONE = 100.0, 300, 0.999
"""Standard deviations along a direction that is no coordinate, and variables up to which such are looked for; the
largest entry of one that is."""


def report(model: OfFree, hyper: Hyper, q: Family, batch: Minibatch, key: PRNGKeyArray) -> Report | None:
    """That the bound grows without limit, and along which variables; None where that is not seen."""
    names = runs_away(model, hyper, q, batch, key)
    if not names:
        return None
    along = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return Report(NO_BOUND, (), np.nan, np.nan, str(Ended.UNBOUNDED), WORDS.format(along=along), usable=False)


def runs_away(model: OfFree, hyper: Hyper, q: Family, batch: Minibatch, key: PRNGKeyArray) -> list[str]:
    """The variables along which the bound grows without limit, by name; none where it is not known to.

    Args:
      model: the density, or the bound of an energy.
      hyper: its frame, if it has one.
      q: where a fit by steps ended.
      batch: groups on which it is judged.
      key: of draws.
    """
    x = np.asarray(jax.vmap(lambda z: point(hyper, z))(q.sample(key, (16 * DRAWS,))), np.float64)
    if not np.isfinite(x).all() or max(x.std(0).max(), np.abs(x.mean(0)).max()) < WIDE:
        return []
    target = _target(model, batch)
    values = target.values(x[:DRAWS])
    if not np.isfinite(values).all():
        return []
    found = np.zeros(target.dim, bool)
    for along, still, further in (*_coordinates(x), *_flat(target, x)):
        if _grows(target, x[:DRAWS], values.mean(), along, still, further):
            found |= np.abs(along) > 0.3 * np.abs(along).max()
    return model.variables.names_at(found)


def _target(model: OfFree, batch: Minibatch) -> Target:
    """Of the groups of a batch, for all."""
    leaves = jax.tree.leaves(batch.data)
    kept: Bool[np.ndarray, " groups"] = (
        np.ones(len(leaves[0]), bool) if batch.weights is None else np.asarray(batch.weights) > 0
    )
    groups = jax.tree.map(lambda a: np.asarray(a)[kept], batch.data)
    scale = 1.0 if batch.num_groups is None else float(batch.num_groups) / int(kept.sum())
    return Target(model, groups, scale)


Way = tuple[np.ndarray, np.ndarray, np.ndarray]
"""A unit vector along which q is wide or far, a point that stays where it is as draws move along it, and how far."""


def _coordinates(x: Float[np.ndarray, "draws D"]) -> Iterator[Way]:
    mean, sds = x.mean(0), x.std(0)
    eye = np.eye(len(mean))
    for sizes, still in ((sds, mean), (np.abs(mean), np.zeros_like(mean))):
        for i in np.argsort(-sizes)[:MOST]:
            if sizes[i] >= WIDE:
                yield eye[i], still, FURTHER


def _flat(target: Target, x: Float[np.ndarray, "draws D"]) -> Iterator[Way]:
    """Directions of no curvature at the mean, where the draws of q are wide along them; and that to the mean."""
    mean = x.mean(0)
    if np.linalg.norm(mean) >= WIDE:
        yield mean / np.linalg.norm(mean), np.zeros_like(mean), FURTHER
    if target.dim > MOST_DIM:
        return
    hessian = target.hessians(mean[None])[0]
    if not np.isfinite(hessian).all():
        return
    curvatures, ways = np.linalg.eigh(hessian)
    for i in np.argsort(np.abs(curvatures))[:MOST]:
        size = float((x @ ways[:, i]).std())
        if FAR <= size <= FARTHEST / 10 and np.abs(ways[:, i]).max() < ALONE:
            yield ways[:, i], mean, np.geomspace(10, FARTHEST / size, FEWEST + 1)


def _grows(
    target: Target, x: np.ndarray, value: float, along: np.ndarray, still: np.ndarray, further: np.ndarray
) -> bool:
    """Whether the bound rises however far the draws move, as far as it is a number."""
    way = ((x - still) @ along)[:, None] * along
    moved = np.concatenate([x + (s - 1) * way for s in further])
    gains = target.values(moved).reshape(len(further), -1).mean(1) - value + np.log(further)
    known = gains[np.isfinite(gains).cumprod().astype(bool)]
    return len(known) >= FEWEST and bool(np.all(known > 0))
