"""Learns coordinates of a hierarchy (`vijax.models.energies.coordinates`): what the data say of
each of its variables.

Independent normals are fitted roughly, in coordinates that know nothing of the data at first. At
draws of them, the log density as a function of the coordinate x of a variable, less its own law,

    f(x) = log p(x, others) - log N(x; m, s^2),

is a log likelihood: that of the data given x, from which variables that depend on x are left out,
because they are in coordinates of their own. Its normal is by the means of slope and curvature over
draws,

    J = E[-f''],    h = E[f'] + J E[x],

which is exact where the data are normal. The curvatures are those of Hessian-vector products with
random signs (Bekas, Kokiopoulou and Saad 2007), exact where entries do not depend on each other
given the others. A few such turns find the coordinates: in the next ones the fit begins near its
end.

At last it is learnt how h and J move with other variables (`trends`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from vijax.automatic.coordinates.trends import gradients_of_trends, with_trends
from vijax.automatic.dadvi import OnDraws, climb, unit_noise
from vijax.automatic.gaussian import draw_noise
from vijax.lbfgs import Mode
from vijax.models.energies.coordinates import Hierarchy
from vijax.models.energies.reference import Reference
from vijax.verdict.target import GRADIENTS_OF_CURVATURE, Target

TURNS = 3  # fits of independent normals, after each of which there are new coordinates
STEPS, DRAWS = 40, 16  # steps of such a fit, and its fixed draws
SEEN = 64  # draws at which slopes and curvatures are computed
MIDDLE = 0.3  # standard deviation at the first start, in the middle of where searches begin
TRIES = 1.3  # sets of draws that a step of the fit evaluates, about: lines are searched
WIDEST = 1e12  # largest information, in units of the coordinates


def most_gradients(hierarchy: Hierarchy) -> int:
    """Returns the number of gradients that learning takes, about."""
    levels = len(hierarchy.levels)
    turn = int(TRIES * STEPS * DRAWS) + levels * GRADIENTS_OF_CURVATURE * SEEN
    return TURNS * turn + levels * gradients_of_trends(SEEN)


def learn_coordinates(
    target: Target, hierarchy: Hierarchy, seed: int, max_gradients: int, stopped: Callable[[], bool]
) -> Reference:
    """Returns the coordinates in which a density is nearest to independent normals, roughly.

    The gradients that it takes are counted by the target. No turn begins, no step is taken, and no
    trends are learnt, beyond their limit."""
    dim = target.dim
    reference = Reference.no_information(dim)
    start = Mode(np.zeros(dim), 0.0, np.full(dim, MIDDLE))
    noise = unit_noise(DRAWS, dim, seed)
    for turn in range(TURNS):
        placed = target.with_coordinates(reference)
        is_over = lambda placed=placed: stopped() or placed.num_gradients >= max_gradients
        if is_over():
            break
        q = climb(OnDraws(placed, noise), start, STEPS, stopped=is_over)
        draws = placed.to_free(q.from_noise(draw_noise(SEEN, dim, [seed, 30, turn])))
        draws = draws[np.isfinite(draws).all(1)]
        target.num_gradients = placed.num_gradients
        if not len(draws):
            break
        reference, slopes = _seen_by(target, hierarchy, reference, draws, [seed, 31, turn])
        start = _start_in(target.with_coordinates(reference), draws)
        more = len(hierarchy.levels) * gradients_of_trends(len(draws))
        if turn == TURNS - 1 and not stopped() and target.num_gradients + more <= max_gradients:
            reference = with_trends(target, hierarchy, reference, draws, slopes, seed)
    return reference


def _start_in(placed: Target, draws: Float[np.ndarray, "draws D"]) -> Mode:
    """Returns the place of draws in new coordinates."""
    z = placed.coordinates(draws)
    z = z[np.isfinite(z).all(1)]
    if not len(z):
        return Mode(np.zeros(placed.dim), 0.0, np.full(placed.dim, MIDDLE))
    return Mode(np.median(z, 0), 0.0, np.clip(z.std(0), 1e-3, 1.0))


def _seen_by(
    target: Target,
    hierarchy: Hierarchy,
    reference: Reference,
    draws: Float[np.ndarray, "draws D"],
    seed: list[int],
) -> tuple[Reference, Float[np.ndarray, "draws D"]]:
    """Returns the normals that stand for the data at draws, level by level from the last on: the
    variables that depend on a variable are then in their new coordinates. Returns f' at the draws,
    too; NaN where it is not known."""
    all_slopes = np.full(draws.shape, np.nan)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=draws.shape)
    for level in reversed(hierarchy.levels):
        mask = hierarchy.coordinate_mask(level)
        mixed = target.with_coordinates(
            reference._replace(information=np.where(mask, np.inf, reference.information))
        )
        slopes, pushed = mixed.less_laws(mixed.coordinates(draws), np.where(mask, signs, 0.0))
        target.num_gradients = mixed.num_gradients
        all_slopes[:, mask] = slopes[:, mask]
        is_finite = np.isfinite(slopes).all(1) & np.isfinite(pushed).all(1)
        if not is_finite.any():
            continue
        information = np.clip(-(signs * pushed)[is_finite].mean(0), 0.0, WIDEST)
        linear = slopes[is_finite].mean(0) + information * draws[is_finite].mean(0)
        reference = reference._replace(
            linear=np.where(mask, linear, reference.linear).astype(reference.linear.dtype),
            information=np.where(mask, information, reference.information).astype(
                reference.information.dtype
            ),
        )
    return reference, all_slopes
