"""Kinks of a density, such as those of a Laplace prior, where slopes jump: Hessians leave out what
they add.

On a line the slope changes by the integral of the Hessian, where the density is smooth:

    slope(m + s) - slope(m - s) = integral of Hessian(m + t s) s over t from -1 to 1.

A kink on the way adds a jump to the left side alone.
"""

from __future__ import annotations

import numpy as np

from vijax.automatic.gaussian import Gaussian, draw_noise
from vijax.verdict.target import Target

LINES, NODES = 4, 24
"""Lines through q that are looked at, each by a draw; and nodes of the integral along each."""
SHARE, LEAST = 0.1, 0.05
"""A variable has kinks where this share of what its slope changes by is missing; changes below
`LEAST`, in units of its standard deviation, are left alone."""


def has_kinks(target: Target, q: Gaussian, seed: list[int]) -> bool:
    """Says whether the slope of some variable changes by more than Hessians say, on lines through
    q."""
    noise = draw_noise(2 * LINES, target.dim, seed)[:LINES]
    away = q.from_noise(noise) - q.mean
    before, after = target.slopes(q.mean - away)[1], target.slopes(q.mean + away)[1]
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    at = q.mean + nodes[:, None, None] * away
    shape = at.shape
    products = target.products(
        at.reshape(-1, shape[-1]), np.broadcast_to(away, shape).reshape(-1, shape[-1])
    )
    integral = np.einsum("n,nld->ld", weights, products.reshape(shape))
    changes, missing = (after - before) * q.sds, (after - before - integral) * q.sds
    lost = np.abs(missing).mean(0)
    return bool((lost > np.maximum(SHARE * np.abs(changes).mean(0), LEAST)).any())
