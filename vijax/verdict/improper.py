"""Finds improper densities: along some direction the bound of a fit grows without limit.

Draws of q are moved along a unit vector, to s times their distance from a fixed point. The bound
changes by

    E[log p(x_s)] - E[log p(x)] + log s.

If the density is proper along the vector, the change is negative for large s, however wide the
prior is and wherever it lies. Along a direction that is no coordinate, rounding hides this beyond a
distance of a million. A bound that is not finite before s = 10,000 (an exponential that overflows)
says nothing, unless q is already 1e15 away. For an energy with free and conjugate variables, only
the free variables are checked: q of the others is fixed, and the E-step optimises the locals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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
from vijax.verdict.words import IMPROPER, join_names
from vijax.xla.compiler import quick_jit

DRAWS = 16  # draws that are moved
ASKED = 256  # draws that measure the width of q
MOST = 8  # coordinates or directions that are tried at most, the widest first
DISTANCES = 10.0 ** np.array([1, 2, 4, 6, 8, 10, 12, 14])
"""Values of s along coordinates."""
FEWEST = 3  # values of s at which the bound must be finite
MOST_DIM = 300  # variables up to which directions that are no coordinate are tried


def grows_along(target: Target, x: Float[np.ndarray, "draws D"]) -> Bool[np.ndarray, " D"]:
    """True for coordinates along which the bound grows without limit, alone or in a direction with
    others, from `ASKED` draws of q or more."""
    is_growing = np.zeros(target.dim, bool)
    if not np.isfinite(x).all() or max(x.std(0).max(), np.abs(x.mean(0)).max()) < limits.WIDE:
        return is_growing
    values = target.values(x[:DRAWS])
    if not np.isfinite(values).all():
        return is_growing
    for ray in (*_coordinate_rays(x), *_flat_rays(target, x)):
        if _grows(target, x[:DRAWS], values.mean(), ray):
            sizes = np.abs(ray.direction)
            is_growing |= sizes > limits.NAMED_ALONG * sizes.max()
    return is_growing


class Ray(NamedTuple):
    """A direction in which draws are moved.

    Attributes:
      direction: a unit vector along which q is wide or far.
      center: the fixed point, from which distances are measured.
      distances: the values of s.
    """

    direction: np.ndarray
    center: np.ndarray
    distances: np.ndarray


def _coordinate_rays(x: Float[np.ndarray, "draws D"]) -> Iterator[Ray]:
    """Coordinates along which q is wide, then coordinates along which it is far from zero."""
    mean = x.mean(0)
    eye = np.eye(len(mean))
    for sizes, center in ((x.std(0), mean), (np.abs(mean), np.zeros_like(mean))):
        for i in np.argsort(-sizes)[:MOST]:
            if sizes[i] >= limits.WIDE:
                yield Ray(eye[i], center, DISTANCES)


def _flat_rays(target: Target, x: Float[np.ndarray, "draws D"]) -> Iterator[Ray]:
    """The direction to the mean, and directions without curvature at the mean along which draws of
    q are wide."""
    mean = x.mean(0)
    if np.linalg.norm(mean) >= limits.WIDE:
        yield Ray(mean / np.linalg.norm(mean), np.zeros_like(mean), DISTANCES)
    if target.dim > MOST_DIM:
        return
    hessian = target.hessians(mean[None])[0]
    if not np.isfinite(hessian).all():
        return
    curvatures, vectors = np.linalg.eigh(hessian)
    for i in np.argsort(np.abs(curvatures))[:MOST]:
        vector = vectors[:, i]
        size = float((x @ vector).std())
        is_wide = limits.WIDE_ALONG <= size <= limits.RESOLVED / 10
        if is_wide and np.abs(vector).max() < limits.ONE_COORDINATE:
            yield Ray(vector, mean, np.geomspace(10, limits.RESOLVED / size, FEWEST + 1))


def _grows(target: Target, x: np.ndarray, value: float, ray: Ray) -> bool:
    """True where the bound rises however far the draws move, as far as it is finite. If the draws
    are so far away that it is finite at none of the distances: True where it has risen all the way
    to the draws."""
    gains = _gains(target, x, value, ray)
    finite = gains[np.isfinite(gains).cumprod().astype(bool)]
    if len(finite) >= FEWEST:
        return bool(np.all(finite > 0))
    if len(finite) > 0 or np.abs((x - ray.center) @ ray.direction).mean() < limits.OVERFLOWING:
        return False
    inward = ray._replace(distances=1 / ray.distances[::-1])
    return bool(np.all(np.diff(_gains(target, x, value, inward)) > 0))


def _gains(
    target: Target, x: np.ndarray, value: float, ray: Ray
) -> Float[np.ndarray, " distances"]:
    """The changes of the bound, with draws s times as far from the center of the ray."""
    offsets = ((x - ray.center) @ ray.direction)[:, None] * ray.direction
    points = np.concatenate([x + (s - 1) * offsets for s in ray.distances])
    means = target.values(points).reshape(len(ray.distances), -1).mean(1)
    return means - value + np.log(ray.distances)


# --- improper densities of fits by steps ----------------------------------------------------------
def report_improper(
    model: Model, hyper: Hyper, posterior: Product, batch: Minibatch, key: PRNGKeyArray
) -> Report | None:
    """A report that the bound of a fit by steps grows without limit, with the variables along which
    it does, by the groups of a batch; None where it does not."""
    free = model.free
    q = posterior[Z]
    conditional = None if free is None else free.given_others(model, hyper, posterior, key)
    if free is None or conditional is None or isinstance(q, Point):
        return None
    function, given = conditional
    x = jax.vmap(lambda z: free.point(hyper, z))(_draw(q, key))
    names = growing_variables(function, x, batch, *given)
    if not names:
        return None
    bound = Estimate(np.inf, np.nan)
    words = IMPROPER.format(along=f"along {join_names(names)}")
    return Report(bound, (), np.nan, np.nan, str(Ended.UNBOUNDED), words, usable=False)


@quick_jit
def _draw(q: Family, key: PRNGKeyArray) -> Float[Array, "draws D"]:
    """Draws of q that measure its width."""
    return q.sample(key, (ASKED,))


def growing_variables(
    function: FreeFunction, x: Float[Array, "draws D"], batch: Minibatch, *given: PyTree
) -> list[str]:
    """The names of the variables along which the bound grows without limit, from draws of q."""
    target = batch_target(function, batch, *given)
    return function.variables.names_where(grows_along(target, np.asarray(x, np.float64)))


def batch_target(model: FreeFunction, batch: Minibatch, *given: PyTree) -> Target:
    """The density of the groups of a batch, scaled to all groups."""
    leaves = jax.tree.leaves(batch.data)
    has_weight: Bool[np.ndarray, " groups"] = np.ones(len(leaves[0]), bool)
    if batch.weights is not None:
        has_weight = np.asarray(batch.weights) > 0
    groups = jax.tree.map(lambda a: np.asarray(a)[has_weight], batch.data)
    scale = 1.0
    if batch.num_groups is not None:
        scale = float(batch.num_groups) / int(has_weight.sum())
    return Target(model, groups, scale, given)
