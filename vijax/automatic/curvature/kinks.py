"""Kinks of a density, where slopes jump, as in a Laplace prior: Hessians do not contain the jumps.

Along a line on which the density is smooth, the slope changes by the integral of the Hessian:

    slope(m + s) - slope(m - s) = integral of Hessian(m + t s) s over t from -1 to 1.

A kink on the line adds a jump only to the left side.
"""

from __future__ import annotations

import numpy as np

from vijax.automatic.gaussian import Gaussian, draw_noise
from vijax.verdict.target import Target

LINES = 4  # lines through q, each through a draw
NODES = 24  # nodes of the integral along each line
SHARE = 0.1
"""A variable has kinks if this share of the change of its slope is missing in the integral."""
LEAST = 0.05  # a missing change that is no kink, in units of the standard deviation, at most


def has_kinks(target: Target, q: Gaussian, seed: list[int]) -> bool:
    """True where the slope of some variable changes by more than the integral of Hessians, on lines
    through q."""
    noise = draw_noise(2 * LINES, target.dim, seed)[:LINES]
    offsets = q.from_noise(noise) - q.mean
    _, slopes_before = target.slopes(q.mean - offsets)
    _, slopes_after = target.slopes(q.mean + offsets)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    points = q.mean + nodes[:, None, None] * offsets
    shape = points.shape
    vectors = np.broadcast_to(offsets, shape)
    products = target.products(points.reshape(-1, shape[-1]), vectors.reshape(-1, shape[-1]))
    integral = np.einsum("n,nld->ld", weights, products.reshape(shape))
    changes = (slopes_after - slopes_before) * q.sds
    missing = (slopes_after - slopes_before - integral) * q.sds
    threshold = np.maximum(SHARE * np.abs(changes).mean(0), LEAST)
    return bool((np.abs(missing).mean(0) > threshold).any())
