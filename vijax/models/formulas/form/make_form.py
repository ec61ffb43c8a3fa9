"""The form of a design."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from vijax.data.formulas.row_statistics import mean_and_spread
from vijax.models.formulas.form.design_units import design_units
from vijax.models.formulas.form.form import Form
from vijax.models.formulas.form.parts import Effects, Monotone, Units
from vijax.models.formulas.formula import Design, name_at_level
from vijax.models.formulas.laws import Law
from vijax.models.formulas.observation import is_plain_normal
from vijax.models.formulas.priors import Prior


def make_form(
    design: Design, law: Law, priors: Mapping[str, Prior], weights: np.ndarray, nodes: int
) -> Form:
    """The density of a design."""
    levels = design.against or (None,)
    units = design_units(design, law, priors, weights)
    effects = _group_effects(design, weights)
    smooths = _smooth_effects(design)
    return Form(
        law=law.name,
        labels=design.coefficients,
        centre=tuple(mean_and_spread(design.rows.x, weights)[0].tolist()),
        units=units,
        effects=effects,
        priors=tuple(priors.items()),
        constant=_log_jacobian(design, law, units, (effects, smooths), weights),
        nodes=nodes,
        cutpoints=len(design.levels) - 1 if law.is_ordered else 0,
        predictors=len(levels),
        monotone=_monotone_terms(design, weights),
        smooths=smooths,
        parameters=tuple(terms.name for terms in design.further),
        own_parameters=design.own_parameters(law),
        facts=tuple(design.facts),
        fixed=law.fixed,
        slots=tuple(np.repeat(np.array(design.slots, int), len(levels)).tolist()),
    )


def _log_jacobian(
    design: Design,
    law: Law,
    units: Units,
    terms: tuple[tuple[Effects, ...], tuple[Effects, ...]],
    weights: np.ndarray,
) -> float:
    """Log of the Jacobian of the units of unknowns and response; `terms` are effects of groups and
    of smooth terms."""
    effects, smooths = terms
    p = len(design.coefficients)
    size = math.log(units.size)
    constant = float(np.log(units.sizes).sum())
    constant += float(np.linalg.slogdet(np.array(units.turn).reshape(p, p))[1])
    for term in effects:
        for root_mean_square, slot in zip(term.sizes, term.slots, strict=True):
            constant += size * (slot == 0) - math.log(root_mean_square)
    constant += size * ("sigma" in design.own_parameters(law))
    constant -= size * float(weights.sum())
    is_plain = is_plain_normal(law.name, bool(design.further), design.facts)
    if is_plain and "precision" in design.facts:
        constant += 0.5 * float(weights @ np.log(design.facts["precision"]))
    for term in smooths:
        constant += size * (term.slots[0] == 0) * term.num_sds
        if term.kernel is not None:
            constant += math.log(term.kernel.unit) * len(term.length_names())
    return constant


def _group_effects(design: Design, weights: np.ndarray) -> tuple[Effects, ...]:
    """The effects of each factor, for each category after another."""
    levels = design.against or (None,)
    return tuple(
        Effects(
            factor.name,
            factor.labels * len(levels),
            factor.blocks * len(levels),
            tuple(_root_mean_squares(z, weights)) * len(levels),
            len(factor.levels),
            tuple(level for level in levels for _ in factor.labels),
            factor.slots * len(levels),
        )
        for factor, z in zip(design.factors, design.rows.z, strict=True)
    )


def _monotone_terms(design: Design, weights: np.ndarray) -> tuple[Monotone, ...]:
    """The monotone terms; the indicators of their steps stand one after another."""
    step_means = mean_and_spread(design.rows.steps, weights)[0].tolist()
    monotone = []
    for label, size, slot in design.steps:
        means = tuple(step_means[:size])
        for level in design.against or (None,):
            monotone.append(Monotone(name_at_level(label, level), size, means, slot))
        step_means = step_means[size:]
    return tuple(monotone)


def _smooth_effects(design: Design) -> tuple[Effects, ...]:
    """The coefficients of the blocks of smooth terms, for each category after another."""
    levels = design.against or (None,)
    effects = []
    for name, size, slot in design.smooths:
        number = size * len(levels)
        row_levels = tuple(level for level in levels for _ in range(size))
        labels = tuple(str(i + 1) for _ in levels for i in range(size))
        ones = (1,) * number
        unit_sizes = (1.0,) * number
        slots = (slot,) * number
        kernel = design.kernels.get(name)
        effects.append(Effects(name, labels, ones, unit_sizes, 1, row_levels, slots, True, kernel))
    return tuple(effects)


def _root_mean_squares(z: np.ndarray, weights: np.ndarray) -> list[float]:
    return [float(np.sqrt(mean_and_spread(column**2, weights)[0])) or 1.0 for column in z.T]
