"""Learns coordinates of a hierarchy (`vijax.models.energies.coordinates`): the data's information
on each of its variables.

Independent normals are fitted roughly, in coordinates that contain nothing of the data at first. At
draws of them, the log density as a function of the coordinate x of a variable, less the variable's
law,

    f(x) = log p(x, others) - log N(x; m, s^2),

is the log likelihood of the data given x. Variables that depend on x do not enter it, because they
have their own coordinates. Its normal approximation comes from the means of slope and curvature
over draws,

    J = E[-f''],    h = E[f'] + J E[x],

which is exact for normal data. The curvatures come from Hessian-vector products with random signs
(Bekas, Kokiopoulou and Saad 2007); they are exact if entries do not depend on each other given the
other variables. A few turns find the coordinates: each fit begins near its end.

At last `trends` learns how h and J depend on other variables.
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
STEPS = 40  # steps of each fit
DRAWS = 16  # its fixed draws
SLOPES = 64  # draws at which slopes and curvatures are computed
MIDDLE = 0.3  # standard deviation at the first start, in the middle of the box of searches
TRIES = 1.3  # sets of draws that a step of the fit evaluates, about, for its line search
WIDEST = 1e12  # largest information, in units of the coordinates


def most_gradients(hierarchy: Hierarchy) -> int:
    """The number of gradients that learning takes, about."""
    levels = len(hierarchy.levels)
    turn = int(TRIES * STEPS * DRAWS) + levels * GRADIENTS_OF_CURVATURE * SLOPES
    return TURNS * turn + levels * gradients_of_trends(SLOPES)


def learn_coordinates(
    target: Target, hierarchy: Hierarchy, seed: int, max_gradients: int, stopped: Callable[[], bool]
) -> Reference:
    """The coordinates in which a density is nearest to independent normals, roughly.

    The target counts the gradients. At their limit no turn begins, no step is taken, and no trends
    are learnt."""
    dim = target.dim
    reference = Reference.no_information(dim)
    start = Mode(np.zeros(dim), 0.0, np.full(dim, MIDDLE))
    noise = unit_noise(DRAWS, dim, seed)
    for turn in range(TURNS):
        turn_target = target.with_coordinates(reference)
        is_over = lambda target=turn_target: stopped() or target.num_gradients >= max_gradients
        if is_over():
            break
        q = climb(OnDraws(turn_target, noise), start, STEPS, stopped=is_over)
        draws = turn_target.to_free(q.from_noise(draw_noise(SLOPES, dim, [seed, 30, turn])))
        draws = draws[np.isfinite(draws).all(1)]
        target.num_gradients = turn_target.num_gradients
        if not len(draws):
            break
        reference, slopes = _learn_information(
            target, hierarchy, reference, draws, [seed, 31, turn]
        )
        start = _next_start(target.with_coordinates(reference), draws)
        cost = len(hierarchy.levels) * gradients_of_trends(len(draws))
        if turn == TURNS - 1 and not stopped() and target.num_gradients + cost <= max_gradients:
            reference = with_trends(target, hierarchy, reference, draws, slopes, seed)
    return reference


def _next_start(target: Target, draws: Float[np.ndarray, "draws D"]) -> Mode:
    """Location and widths of draws in the coordinates of a target."""
    z = target.coordinates(draws)
    z = z[np.isfinite(z).all(1)]
    if not len(z):
        return Mode(np.zeros(target.dim), 0.0, np.full(target.dim, MIDDLE))
    return Mode(np.median(z, 0), 0.0, np.clip(z.std(0), 1e-3, 1.0))


def _learn_information(
    target: Target,
    hierarchy: Hierarchy,
    reference: Reference,
    draws: Float[np.ndarray, "draws D"],
    seed: list[int],
) -> tuple[Reference, Float[np.ndarray, "draws D"]]:
    """The reference with normals (h, J) in place of the data at draws; and f' at the draws, NaN
    where it is not known. Levels are learnt from the last to the first: variables that depend on a
    variable are then in their new coordinates."""
    all_slopes = np.full(draws.shape, np.nan)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=draws.shape)
    for level in reversed(hierarchy.levels):
        mask = hierarchy.coordinate_mask(level)
        # In these coordinates the variables of the level are free.
        free_level = reference._replace(information=np.where(mask, np.inf, reference.information))
        level_target = target.with_coordinates(free_level)
        slopes, products = level_target.less_laws(
            level_target.coordinates(draws), np.where(mask, signs, 0.0)
        )
        target.num_gradients = level_target.num_gradients
        all_slopes[:, mask] = slopes[:, mask]
        is_finite = np.isfinite(slopes).all(1) & np.isfinite(products).all(1)
        if not is_finite.any():
            continue
        information = np.clip(-(signs * products)[is_finite].mean(0), 0.0, WIDEST)
        linear = slopes[is_finite].mean(0) + information * draws[is_finite].mean(0)
        linear = np.where(mask, linear, reference.linear)
        information = np.where(mask, information, reference.information)
        reference = reference._replace(
            linear=linear.astype(reference.linear.dtype),
            information=information.astype(reference.information.dtype),
        )
    return reference, all_slopes
