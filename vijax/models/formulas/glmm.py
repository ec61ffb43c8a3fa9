"""Regressions by a formula, with effects of groups: `vijax.glmm`."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from vijax.arguments import check_arguments
from vijax.checks import require, require_integers
from vijax.contract.model import Model
from vijax.contract.queries import answers
from vijax.data.formulas.design_columns import Functions
from vijax.data.schema.typed_columns import TypedTable
from vijax.models.energies.density import density
from vijax.models.formulas import formula as reader
from vijax.models.formulas.form import Form, FormFunction, log_lik, log_prior, make_form
from vijax.models.formulas.form.finer_integrals import FinerIntegrals
from vijax.models.formulas.glmm_model import Glmm
from vijax.models.formulas.laws import LAWS, Law, find_law
from vijax.models.formulas.nearby import NearMode
from vijax.models.formulas.observation import has_normal_rows
from vijax.models.formulas.priors import ALL as ALL
from vijax.models.formulas.priors import Prior, merge_priors, weak_priors
from vijax.models.formulas.responses import responses
from vijax.models.formulas.rows_by_group import rows_in_units, to_data
from vijax.models.formulas.terms.by_prior import OnlyPriorWarning, prior_notes
from vijax.models.formulas.terms.complete_rows import LeftOut, find_complete_rows, take_rows
from vijax.models.formulas.terms.proper import check_flat
from vijax.models.formulas.unmodelled import (
    check_errors,
    check_names,
    check_responses,
    check_size,
    check_sizes,
    effects_per_group,
)
from vijax.models.formulas.weighted import (
    check_alignment,
    read_precisions,
    read_weights,
    with_positive_weight,
)
from vijax.xla.by_value import cache_by_value

NumberFamily = Literal[
    "gaussian",
    "t",
    "poisson",
    "negativebinomial",
    "exponential",
    "gamma",
    "weibull",
    "wald",
    "lognormal",
    "beta",
    "zero_inflated_beta",
    "hurdle_gamma",
    "hurdle_lognormal",
    "zero_inflated_poisson",
    "zero_inflated_negativebinomial",
    "hurdle_poisson",
    "hurdle_negativebinomial",
    "vonmises",
    "asymmetriclaplace",
]
"""Laws of a response of one number a row."""
ClassFamily = Literal["categorical", "cumulative", "sratio"]
SuccessFamily = Literal["bernoulli", "binomial", "beta_binomial", "zero_inflated_binomial"]
"""Laws of successes among trials."""
Family = Literal[NumberFamily, SuccessFamily, ClassFamily, "multinomial"]
NODES = {0: 1, 1: 11, 2: 7, 3: 5}
"""Nodes a dimension of the quadrature, by the number of effects of a group. One node, Laplace's
approximation, for more effects."""
NODES_BY_ROWS = {100: 3, 30: 5, 0: 11}
"""Fewest rows -> nodes a dimension that suffice, where all but a tenth of the groups have as many
rows."""


@check_arguments
def glmm(
    formula: str,
    table: Any,
    family: Family | None = None,
    priors: Mapping[str, Sequence[Any]] | Literal["flat"] | None = None,
    weights: Any = None,
    nodes: int | None = None,
    base: str | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    missing: Literal["refuse", "drop"] = "refuse",
    order: Sequence[Any] | None = None,
    formulas: str | Sequence[str] = (),
    quantile: float | None = None,
    precisions: Any = None,
) -> Glmm:
    """A generalised linear model with effects of groups, by a formula.

    Args:
      formula: `response ~ terms`, as in lme4 and Bambi: interactions `a*b` and `a:b`, splines
        `bs(x, df=4)`, polynomials `poly(x, 2)`, categories `C(h, Sum)`, monotone effects `mo(x)` of
        whole numbers and ordered columns, penalised smooth functions
        `s(x)`, `s(x, by=g)`, `s(x, bs="cc", knots=[0, 12])`, `t2(x, z)`, Gaussian processes
        `hsgp(x, m=30, c=2, by=g)`, `offset(x)`, arithmetic
        `I(x**2)`, functions of numbers `log(x)` or `np.log(x)`, and group effects `(x | g)`: an
        intercept and a slope of x for each g, correlated; independent with `(x || g)`; without an
        intercept `(0 + x | g)`; nested `(1 | g/h)`; of several factors. Successes among trials are
        `p(successes, trials)`, counts by category `c(y1, y2, y3)`; known standard errors
        `se(y, s)`, or `se(y, s, sigma=True)` with a sigma beside them; `censored(y, status)`,
        `truncated(y, lb, ub)`. One level of a column is `h['b']`. Names with blanks and other
        letters stand between backquotes. The grammar is closed (`vijax.data.formulas.parser`): what
        it does not have is an error, and no formula is run as code. Means in `I(x - np.mean(x))`
        are those of the training rows.
      table: columns by name (a dict, a table of pandas, polars or pyarrow), or the path of a file.
      family: law of the response. None follows it: "gaussian" for numbers, "bernoulli" for text of
        two kinds and for True and False, "categorical" for text of more kinds, "binomial" for
        successes among trials, "multinomial" for counts by category. Links are the identity for
        "gaussian" and "t", the logit for "bernoulli", "binomial" and "beta", the logarithm for the
        others. "zero_inflated_..." counts
        with probability psi and is zero otherwise; "hurdle_..." is not zero with probability psi.
        "cumulative" is for ordered categories (numbers, an ordered column of pandas, text with
        `order`): logit P(y <= k) = threshold[k] - eta, without an intercept. "sratio" is for those
        that are reached one after another: logit P(y = k | y >= k) = threshold[k] - eta, where
        `cs(x)` has an effect of its own at each threshold, "x[0]", "x[1]".
        "vonmises" is for angles from -pi to pi: the predictor is the tangent of half their mean
        direction. "asymmetriclaplace" has a quantile as its predictor, that of `quantile`.
        "categorical" is for categories without an order: log P(y = k) / P(y = base) is a predictor
        of its own for each k, with coefficients and effects of groups "x[k]", "1|g_sigma[k]";
        effects of different k are independent. "multinomial" is the same law of counts by
        category, c(y1, y2, y3): predictions are their shares.
      priors: priors in place of the weakly informative ones, `model.priors` (those of Bambi's rule,
        but wider for successes, zeros and ones), by name: {"x": ("normal", 0, 1), "1|g_sigma":
        ("half_normal", 2), "corr|g": ("lkj", 2)}. The priors of the intercept and of thresholds
        hold at the means of all columns. "flat" makes those of all coefficients, of thresholds and
        of sigma flat, {"*": "flat", "1|g_sigma": ("half_flat",)} that of an sd too; a posterior
        that is then improper is refused.
      weights: a column, or an array: a row of weight 2 counts as two rows, in priors, knots and
        means of `scale(x)` too; one of weight 0 is left out. In knots, medians and lengths of
        `poly`, weights that are not whole numbers count relative to their mean.
      nodes: nodes a dimension of the quadrature over the effects of a group; None takes 11, 7 or 5
        for one, two or three effects of one factor, down to 3 where groups have 100 rows, else 1,
        which is Laplace's approximation. Not used for "gaussian" with effects in the mean alone and
        responses that are not cut, whose integrals are exact.
      base: the category with which "categorical" and "multinomial" compare the others; None takes
        the first, as numbers, letters or a column of pandas have them in order, or as c(...) has.
      functions: your own functions by name, which the formula may then call: arrays (N,) in, an
        array (N,) out. They are passed here only, never in a file.
      missing: "refuse" refuses rows that lack a cell of the formula or a weight; "drop" leaves them
        out, with a warning that counts them by column, and `model.left_out` has the counts.
      order: the categories of "cumulative" and "sratio" as they rise: ["low", "mid", "high"]. None
        takes numbers, or an ordered column of pandas; text without an order is refused.
      formulas: formulas of parameters of the law, as "sigma ~ x + (1 | g)": of the logarithm of
        sigma, nu, alpha, kappa or lam, of the log odds of psi. Coefficients and spreads are called
        "sigma_x", "sigma_1|g_sigma"; effects of one group in two formulas are independent.
      quantile: for "asymmetriclaplace" the quantile that is regressed on columns, inside (0, 1);
        None is the median, 0.5.
      precisions: a column, or an array, positive: a row of precision w has the variance sigma^2 /
        w, as by `weights=` of lme4 and lm. For "gaussian" and "t".

    Returns:
      A `Model`: a log density of its coefficients and of the spreads of its groups. The effects of
      groups are integrated out. Fit it by `vijax.auto(model, key=key)`, which reads `model.data`;
      `fit.summary()` has all names, `fit.predict(table, key=key)` predicts. `model.ratios`,
      `model.standardised`, `model.draws`, `model.replicated` and `model.log_lik` take the fit.

    Raises:
      ValueError: a formula that cannot be read, a table that lacks a column, a response that the
          family does not have.

    >>> rng = np.random.default_rng(0)
    >>> g, x = np.arange(200) % 20, rng.normal(size=200)
    >>> y = 1 + 2 * x + rng.normal(size=20)[g] + 0.5 * rng.normal(size=200)
    >>> model = glmm("y ~ x + (1 | g)", {"y": y, "x": x, "g": g})
    >>> model.free.derived and list(model.priors)
    ['Intercept', 'x', '1|g_sigma', 'sigma']
    """
    require(isinstance(formula, str), "formula", "text", type(formula).__name__)
    require(
        family is None or family in LAWS, "family", f"None or one of {list(LAWS)}", repr(family)
    )
    check_alignment(weights, table)
    check_alignment(precisions, table, "precisions")
    if isinstance(formulas, str):
        formulas = (formulas,)
    expected = 'a formula, or several: ["sigma ~ x"]'
    require(isinstance(formulas, Sequence), "formulas", expected, type(formulas).__name__)
    for text in formulas:
        require(isinstance(text, str), "formulas", "texts", type(text).__name__)
    if isinstance(table, str):  # `by_value` must compare rows, not paths: the file may change
        table = reader.read_table(formula, table, functions, family, formulas)
    left_out = None
    if missing == "drop":
        typed = reader.read_table(formula, table, functions, family, formulas)
        table, places, weights, left_out = find_complete_rows(
            (formula, *formulas), typed, weights, functions, precisions
        )
        precisions = take_rows(precisions, places, len(typed), "precisions")
        if left_out is not None:
            warnings.warn(f"table: {left_out}", UserWarning, stacklevel=3)
    if order is not None:
        order = tuple(order)
    formulas = tuple(formulas)
    model = _glmm(
        formula,
        table,
        family,
        priors,
        weights,
        nodes,
        base,
        functions,
        left_out,
        order,
        formulas,
        quantile,
        precisions,
    )
    for note in model.notes:
        warnings.warn(f"formula: {note}", OnlyPriorWarning, stacklevel=3)
    return model


@cache_by_value
def _glmm(
    formula: str,
    table: Any,
    family: Family | None,
    priors: Mapping[str, Sequence[Any]] | str | None,
    weights: Any,
    nodes: int | None,
    base: str | None,
    functions: Functions | None,
    left_out: LeftOut | None,
    order: tuple[Any, ...] | None,
    formulas: tuple[str, ...],
    quantile: float | None,
    precisions: Any,
) -> Glmm:
    """`glmm` of a table in memory; equal arguments give the object made before."""
    typed = reader.read_table(formula, table, functions, family, formulas)
    law = find_law(family or reader.usual_family(formula, typed, functions), quantile)
    row_weights = read_weights(weights, typed)
    row_precisions = None
    if precisions is not None:
        row_precisions = read_precisions(precisions, typed)[row_weights > 0]
    typed, weights = with_positive_weight(typed, row_weights)
    require(
        base is None or law.is_named,
        "base",
        'None, but for family "categorical" or "multinomial"',
        repr(base),
    )
    expected = 'None, but for family "cumulative" or "sratio"'
    require(order is None or law.is_ordered, "order", expected, order)
    design = reader.read(
        formula, typed, law, base, functions, order=order, further=formulas, weights=weights
    )
    require(design.observed is not None, "formula", "response ~ terms", repr(formula))
    design = add_precisions(design, law, precisions, row_precisions)
    return model_of_design(design, law, typed, weights, priors, nodes, left_out)


def model_of_design(
    design: reader.Design,
    law: Law,
    table: TypedTable,
    weights: np.ndarray,
    priors: Mapping[str, Sequence[Any]] | str | None,
    nodes: int | None,
    left_out: LeftOut | None = None,
) -> Glmm:
    """The model of a design that has learnt its columns already.

    Args:
      design: the design, with a response.
      law: the law of the response.
      table: the rows of the design, with its columns.
      weights: positive weights of the rows.
      priors: the user's priors, as in `glmm`.
      nodes: the user's nodes of the quadrature, as in `glmm`.
      left_out: rows that lack a cell.

    Raises:
      ValueError: rows or priors that the law does not have.
    """
    check_names(design)
    check_sizes(design)
    check_responses(design.y, design.trials, law, design.response, table.row_names)
    check_size(design, law)
    nodes = choose_nodes(design, law, weights, nodes)
    all_priors = merge_priors(weak_priors(design, law, weights), priors, design)
    check_flat(design, law, all_priors, weights)
    form = make_form(design, law, all_priors, weights, nodes)
    if law.is_location_scale and "se" not in design.facts:
        check_errors(design, weights)
    names = [*design.schema.names, *filter(None, [design.precisions])]
    columns = {name: table.columns[name] for name in names}
    formula_columns = dataclasses.replace(table, columns=columns)
    return _make_model(design, law, form, all_priors, weights, left_out, formula_columns)


def add_precisions(
    design: reader.Design, law: Law, precisions: Any, numbers: np.ndarray | None
) -> reader.Design:
    """The design with precisions of its rows; ValueError for laws without a sigma to divide, and
    beside known standard errors."""
    if numbers is None:
        return design
    expected = 'None, but for "gaussian" and "t"'
    remedy = "weights= says how often a row counts, in every family."
    require(law.takes_row_errors, "precisions", expected, repr(law.name), remedy)
    remedy = "Standard errors are precisions already: leave one of the two out."
    has_errors = "se" in design.facts
    require(not has_errors, "precisions", "None beside se(y, s)", repr(design.formula), remedy)
    name = None
    if isinstance(precisions, str):
        name = precisions
    facts = {**design.facts, "precision": numbers}
    return dataclasses.replace(design, facts=facts, precisions=name)


def _make_model(
    design: reader.Design,
    law: Law,
    form: Form,
    priors: Mapping[str, Prior],
    weights: np.ndarray,
    left_out: LeftOut | None,
    table: TypedTable,
) -> Glmm:
    """The model of a density, with its data and its queries."""
    plain = density(
        form.variables(),
        log_prior=FormFunction(form, log_prior),
        log_lik=FormFunction(form, log_lik),
        derived=FormFunction(form, Form.named),
    )
    rows = rows_in_units(design, law, form, weights)
    data = to_data(rows, form, [term.groups for term in form.terms])
    fields = {field.name: getattr(plain, field.name) for field in dataclasses.fields(Model)}
    fields["form"] = dataclasses.replace(
        plain.form,
        given=data,
        in_units_of_given=True,
        nearby=NearMode(form),
        roughness=FinerIntegrals(form, data),
    )
    bare = Glmm(
        **fields,
        design=design,
        priors=priors,
        data=data,
        density_form=form,
        weights=weights,
        left_out=left_out,
        table=table,
        notes=prior_notes(design, law, weights),
    )
    queries = answers(
        responses(form, design, rows, data),
        predict=bare.predict,
        beside=bare.group_effects,
        schema=design.schema,
        names=lambda: bare.names,
    )
    return dataclasses.replace(bare, queries={**bare.queries, **queries})


def choose_nodes(design: reader.Design, law: Law, weights: np.ndarray, nodes: int | None) -> int:
    """Nodes a dimension: the argument, else by the sizes of groups. One for several factors, and
    where the integrand is normal."""
    is_crossed = len(design.factors) > 1 or bool(design.smooths)
    slots = [slot for factor in design.factors for slot in factor.slots]
    is_exact = has_normal_rows(law.name, design.facts) and not any(slots)
    if nodes is None:
        nodes = 1
        if not is_crossed and not is_exact:
            nodes = _usual_nodes(design, weights)
    require_integers(nodes=nodes)
    expected = "none where there are several grouping factors, or smooth terms"
    require(nodes == 1 or not is_crossed, "nodes", expected, nodes)
    return nodes


def _usual_nodes(design: reader.Design, weights: np.ndarray) -> int:
    """Nodes a dimension for one factor. Integrands of large groups are nearly normal: they need
    fewer."""
    if not design.factors:
        return 1
    rows = np.quantile(np.bincount(design.rows.groups[0], weights), 0.1)
    by_rows = next(nodes for least_rows, nodes in NODES_BY_ROWS.items() if rows >= least_rows)
    by_effects = NODES.get(effects_per_group(design, design.factors[0]), 1)
    return min(by_effects, by_rows)
