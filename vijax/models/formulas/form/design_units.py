"""Units of the coefficients of a design, by least squares."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from scipy.linalg import block_diag

from vijax.data.formulas.row_statistics import mean_and_spread
from vijax.models.formulas.form.parts import Units
from vijax.models.formulas.formula import Design
from vijax.models.formulas.laws import Law
from vijax.models.formulas.priors import LINKED, Prior, find_spread


def design_units(
    design: Design, law: Law, priors: Mapping[str, Prior], weights: np.ndarray
) -> Units:
    """Units of the coefficients by least squares. A little of the prior is added for columns that
    depend on others."""
    x = design.rows.x - law.is_ordered * mean_and_spread(design.rows.x, weights)[0]
    copies = len(design.against) or 1
    slots = np.array(design.slots, int)
    offsets = design.rows.offset.reshape(len(x), -1)
    targets = _targets(design, law, design.main_offset, weights)
    spreads = np.array([find_spread(priors[label]) for label in design.coefficients[::copies]])
    root_weight = math.sqrt(weights.sum())
    spread = 1.0
    if law.is_location_scale:
        spread = float(mean_and_spread(design.y, weights)[1]) or 1.0
    unit = spread
    little = 1e-3 * root_weight * unit / spreads
    main = design.is_main
    location, root = _least_squares(x[:, main], targets, weights, little[main])
    residuals = targets - x[:, main] @ location
    size = float(mean_and_spread(residuals, weights)[1]) if law.is_location_scale else 1.0
    size = size or spread
    shift = root @ location / root_weight * (not law.is_location_scale)
    turn = root_weight * np.linalg.inv(root)
    turn = np.asarray(np.kron(turn, np.eye(copies)), float)  # a copy of each column per predictor
    locations, shifts, turns = [location.ravel()], [shift.ravel()], [turn]
    for slot, terms in enumerate(design.further, 1):
        columns = slots == slot
        level = 0.0
        if terms.step is None:
            level = LINKED[terms.name][0] + math.log(size) * (terms.name == "sigma")
        little = 1e-3 * root_weight / spreads[columns]
        location, root = _least_squares(x[:, columns], level - offsets[:, slot], weights, little)
        locations.append(location)
        shifts.append(root @ location / root_weight)
        turns.append(root_weight * np.linalg.inv(root))
    flat = lambda parts: tuple(np.concatenate(parts).tolist())
    sizes = np.where(np.repeat(main, copies), size, 1.0)
    turn = np.asarray(block_diag(*turns), float)
    return Units(
        flat(locations), flat(shifts), tuple(map(tuple, turn.tolist())), size, tuple(sizes.tolist())
    )


def _targets(design: Design, law: Law, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Targets of the least squares: the response, or the predictor at its mean."""
    if law.is_location_scale:
        return design.y - offset
    if law.is_ordered:
        return np.zeros(len(offset))
    exposure = np.exp(offset) if law.link == "log" else 1.0
    level = law.predictor_at_mean(design.y, design.trials * exposure, weights)
    level = level - (mean_and_spread(offset, weights)[0] if law.link != "log" else 0.0)
    return np.broadcast_to(level, (len(offset), *np.shape(level)))


def _least_squares(
    x: np.ndarray, targets: np.ndarray, weights: np.ndarray, little: np.ndarray
) -> tuple[np.ndarray, Float[np.ndarray, "p p"]]:
    """Coefficients by weighted least squares with a row (0, ..., little, ..., 0) for each column,
    and the triangular factor of all squares. The factor comes from a QR decomposition: computed
    from the squares, it would lose half of the digits for columns that depend on others."""
    p = x.shape[1]
    table = np.concatenate([x, targets.reshape(len(x), -1)], 1)
    rows = np.concatenate(
        [np.sqrt(weights)[:, None] * table, np.eye(p, table.shape[1]) * little[:, None]]
    )
    triangle = np.asarray(np.linalg.qr(rows, mode="r"))[:p]
    triangle = triangle * np.where(np.diagonal(triangle) < 0, -1.0, 1.0)[:, None]
    solution = np.linalg.solve(triangle[:, :p], triangle[:, p:])
    return solution.reshape(p, *targets.shape[1:]), triangle[:, :p]
