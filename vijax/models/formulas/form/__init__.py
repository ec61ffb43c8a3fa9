"""A regression by a formula, as a log density of few unknowns: coefficients, spreads and
correlations of group effects.

    eta = offset + X beta + Z u,   u_j ~ N(0, D C C' D)   (D standard deviations, C C' correlations),   y ~ p(y | eta)

The effects u are integrated out (`vijax.models.formulas.effects`): group by group for one factor
(`integrals`), all together for several (`crossed`; `crossed_normal` for a normal law). A density of
a few numbers remains, in which no spread is tied to its effects; a mean field of effects and
spreads together would be too narrow. The numbers are in units in which the data have size one: beta
= location + unit T b, where T' X' X T is about N I.

For categories with a base, eta has a column for each other category: X enters as X (x) I, and so do
Z and T. Effects of different predictors are independent, as in Bambi.

Where parameters of the law have formulas, as `sigma ~ x`, eta has a column for each of them too:
the logarithm, or the log odds of a probability. A column of X, and an effect of a group, then
enters one predictor.

The design is in `vijax.models.formulas.formula`, laws of the response in `laws`, integrals over
effects in `effects`, questions to a fit in `answers`."""

from __future__ import annotations

from vijax.models.formulas.form.effect_draws import draw_effects
from vijax.models.formulas.form.form import Form, FormFunction
from vijax.models.formulas.form.likelihood import (
    draw_response,
    eta_without_effects,
    interpolated_log_lik,
    log_lik,
    row_log_liks,
    row_log_prob,
)
from vijax.models.formulas.form.log_prior import log_prior, prior_arguments
from vijax.models.formulas.form.make_form import make_form
from vijax.models.formulas.form.parts import AUX, COEFFICIENTS, CORRELATIONS, SDS, STEPS

__all__ = [
    "AUX",
    "COEFFICIENTS",
    "CORRELATIONS",
    "SDS",
    "STEPS",
    "Form",
    "FormFunction",
    "draw_effects",
    "draw_response",
    "eta_without_effects",
    "interpolated_log_lik",
    "log_lik",
    "log_prior",
    "make_form",
    "prior_arguments",
    "row_log_liks",
    "row_log_prob",
]
