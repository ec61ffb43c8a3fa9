"""Finds improper densities: those along which the bound of a fit grows without limit.

A density is improper where along some direction the bound grows without limit however far draws of
q are moved. With draws s times as far from a point that stays, along a unit vector, the bound
changes by

    E[log p(x_s)] - E[log p(x)] + log s,

which falls for s large enough if the density is proper along that vector, however wide its prior
is, and wherever it lies. Along a direction that is no coordinate, rounding lets this be seen up to
a distance of a million only. A bound that is not finite before s = 10,000 (an exponential that
overflows) says nothing, unless q is 1e15 out already. Of an energy with free variables beside
conjugate ones, only the free ones are looked at: q of the others stays, and locals are found anew
by their E-step."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper, Model
from vijax.families import Family, Point, Product
from vijax.inference.guides import Z
from vijax.verdict import limits
from vijax.verdict.report import Ended, Estimate, Report
from vijax.verdict.target import FreeFunction, Target
from vijax.verdict.words import IMPROPER, listed
from vijax.xla.compiler import quick_jit

DRAWS, ASKED, MOST = 16, 256, 8
"""Draws that are moved; draws that measure q; and coordinates or directions that are tried at most,
the widest first."""
FURTHER = 10.0 ** np.array([1, 2, 4, 6, 8, 10, 12, 14])
"""Values of s along coordinates."""
FEWEST = 3  # values of s at which the bound must be known
MOST_DIM = 300  # variables up to which directions are looked for that are no coordinate


def grows_along(target: Target, x: Float[np.ndarray, "draws D"]) -> Bool[np.ndarray, " D"]:
    """Returns the coordinates along which, or along directions of which, the bound is seen to grow
    without limit, from `ASKED` draws of q or more."""
    found = np.zeros(target.dim, bool)
    if not np.isfinite(x).all() or max(x.std(0).max(), np.abs(x.mean(0)).max()) < limits.WIDE:
        return found
    values = target.values(x[:DRAWS])
    if not np.isfinite(values).all():
        return found
    for along, still, further in (*_coordinates(x), *_flat(target, x)):
        if _grows(target, x[:DRAWS], values.mean(), along, still, further):
            found |= np.abs(along) > limits.NAMED_ALONG * np.abs(along).max()
    return found


Way = tuple[np.ndarray, np.ndarray, np.ndarray]
"""A unit vector along which q is wide or far, a point that stays as draws move along it, and the
values of s."""


def _coordinates(x: Float[np.ndarray, "draws D"]) -> Iterator[Way]:
    mean, sds = x.mean(0), x.std(0)
    eye = np.eye(len(mean))
    for sizes, still in ((sds, mean), (np.abs(mean), np.zeros_like(mean))):
        for i in np.argsort(-sizes)[:MOST]:
            if sizes[i] >= limits.WIDE:
                yield eye[i], still, FURTHER


def _flat(target: Target, x: Float[np.ndarray, "draws D"]) -> Iterator[Way]:
    """Yields the direction to the mean, and directions of no curvature at the mean along which
    draws of q are wide."""
    mean = x.mean(0)
    if np.linalg.norm(mean) >= limits.WIDE:
        yield mean / np.linalg.norm(mean), np.zeros_like(mean), FURTHER
    if target.dim > MOST_DIM:
        return
    hessian = target.hessians(mean[None])[0]
    if not np.isfinite(hessian).all():
        return
    curvatures, ways = np.linalg.eigh(hessian)
    for i in np.argsort(np.abs(curvatures))[:MOST]:
        size = float((x @ ways[:, i]).std())
        if (
            limits.WIDE_ALONG <= size <= limits.RESOLVED / 10
            and np.abs(ways[:, i]).max() < limits.ONE_COORDINATE
        ):
            yield ways[:, i], mean, np.geomspace(10, limits.RESOLVED / size, FEWEST + 1)


def _grows(
    target: Target,
    x: np.ndarray,
    value: float,
    along: np.ndarray,
    still: np.ndarray,
    further: np.ndarray,
) -> bool:
    """Says whether the bound rises however far the draws move, as far as it is finite. Where they
    are so far out that it is finite no further, it says whether it has risen on all the way
    there."""
    gains = _gains(target, x, value, along, still, further)
    known = gains[np.isfinite(gains).cumprod().astype(bool)]
    if len(known) >= FEWEST:
        return bool(np.all(known > 0))
    if len(known) > 0 or np.abs((x - still) @ along).mean() < limits.OVERFLOWING:
        return False
    return bool(np.all(np.diff(_gains(target, x, value, along, still, 1 / further[::-1])) > 0))


def _gains(
    target: Target,
    x: np.ndarray,
    value: float,
    along: np.ndarray,
    still: np.ndarray,
    times: np.ndarray,
) -> Float[np.ndarray, " times"]:
    """Returns the changes of the bound, with draws so many times as far."""
    way = ((x - still) @ along)[:, None] * along
    moved = np.concatenate([x + (s - 1) * way for s in times])
    return target.values(moved).reshape(len(times), -1).mean(1) - value + np.log(times)


# --- improper densities of fits by steps ----------------------------------------------------------
def report_of_improper(
    model: Model, hyper: Hyper, posterior: Product, batch: Minibatch, key: PRNGKeyArray
) -> Report | None:
    """Returns a report that the bound of a fit by steps grows without limit, and along which
    variables, by groups of a batch; None where it does not."""
    free, q = model.free, posterior[Z]
    found = None if free is None else free.given_others(model, hyper, posterior, key)
    if free is None or found is None or isinstance(q, Point):
        return None
    function, given = found
    names = runs_away(
        function, jax.vmap(lambda z: free.point(hyper, z))(_draws(q, key)), batch, *given
    )
    if not names:
        return None
    bound, words = Estimate(np.inf, np.nan), IMPROPER.format(along=f"along {listed(names)}")
    return Report(bound, (), np.nan, np.nan, str(Ended.UNBOUNDED), words, usable=False)


@quick_jit
def _draws(q: Family, key: PRNGKeyArray) -> Float[Array, "draws D"]:
    """Draws of q at which the bound is asked for."""
    return q.sample(key, (ASKED,))


def runs_away(
    function: FreeFunction, x: Float[Array, "draws D"], batch: Minibatch, *given: PyTree
) -> list[str]:
    """Returns the names of the variables along which a bound is seen to grow without limit, from
    draws of q on."""
    return function.variables.names_where(
        grows_along(target_of(function, batch, *given), np.asarray(x, np.float64))
    )


def target_of(model: FreeFunction, batch: Minibatch, *given: PyTree) -> Target:
    """Returns the density of the groups of a batch, scaled to all."""
    leaves = jax.tree.leaves(batch.data)
    kept: Bool[np.ndarray, " groups"] = (
        np.ones(len(leaves[0]), bool) if batch.weights is None else np.asarray(batch.weights) > 0
    )
    groups = jax.tree.map(lambda a: np.asarray(a)[kept], batch.data)
    scale = 1.0 if batch.num_groups is None else float(batch.num_groups) / int(kept.sum())
    return Target(model, groups, scale, given)
