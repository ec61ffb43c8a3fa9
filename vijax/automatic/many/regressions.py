"""`vijax.glmm.many`: regressions of many responses on one design, fitted side by side."""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from vijax.arguments import check_arguments
from vijax.automatic.many.columns import Responses, read_responses
from vijax.automatic.many.fits import ManyFits
from vijax.automatic.many.marks import mark_numbers, mark_table
from vijax.automatic.many.program import BATCHES, fit_program, noise
from vijax.automatic.many.stacked import Numbers, split, stack
from vijax.automatic.many.weighted_draws import OF_UNKNOWNS, Estimates, estimate
from vijax.checks import check_key, require
from vijax.data.schema.typed_columns import TypedTable
from vijax.models.formulas import formula as reader
from vijax.models.formulas.form import Form, make_form
from vijax.models.formulas.form.parts import Effects
from vijax.models.formulas.formula import Design
from vijax.models.formulas.glmm import NumberFamily, add_precisions, choose_nodes, model_of_design
from vijax.models.formulas.glmm_model import Glmm
from vijax.models.formulas.laws import Law, find_law
from vijax.models.formulas.priors import merge_priors, weak_priors
from vijax.models.formulas.rows_by_group import rows_in_units, to_data
from vijax.models.formulas.terms.by_prior import OnlyPriorWarning
from vijax.models.formulas.terms.complete_rows import find_complete_rows, take_rows
from vijax.models.formulas.terms.proper import find_fault
from vijax.models.formulas.unmodelled import (
    check_errors,
    check_names,
    check_responses,
    check_size,
    check_sizes,
)
from vijax.models.formulas.weighted import (
    check_alignment,
    read_precisions,
    read_weights,
    with_positive_weight,
)
from vijax.xla import keys
from vijax.xla.precision import enable_x64

ManyFamily = Literal["bernoulli", NumberFamily]
"""Laws of one number a row."""
AT_ONCE = 1 << 25
"""Numbers that a batch of draws may take in all responses that are computed side by side."""
MOST_SIDE_BY_SIDE = 256
ENOUGH_DRAWS = 400.0
"""Effective draws; responses with fewer have the larger batch of draws."""

Priors = Mapping[str, Sequence[Any]] | Literal["flat"] | None
Missing = Literal["refuse", "drop"]


class Request(NamedTuple):
    """The regression that all responses have, as the user asks for it.

    Attributes:
      formula: `~ terms`.
      law: the law of the responses.
      priors: the user's priors.
      nodes: the user's nodes of the quadrature.
    """

    formula: str
    law: Law
    priors: Priors
    nodes: int | None


class RowNumbers(NamedTuple):
    """Weights and precisions of rows, as the user gives them.

    Attributes:
      weights: a column, an array or None.
      precisions: a column, an array or None.
      column: the column from which an array of precisions came; None for an array of the user.
    """

    weights: Any = None
    precisions: Any = None
    column: str | None = None


class SharedRows(NamedTuple):
    """The rows that all responses share. Rows are those of positive weight, N of them.

    Attributes:
      design: the design, without a response.
      table: the table.
      weights: weights of the rows, those of missing cells not yet zero.
      all_weights: weights of all rows of the user's table.
      all_precisions: precisions of all rows; none, (0,), without them.
      left_out: a sentence on rows that lack a cell of the formula; "" if there are none.
    """

    design: Design
    table: TypedTable
    weights: Float[np.ndarray, " N"]
    all_weights: Float[np.ndarray, " rows"]
    all_precisions: Float[np.ndarray, " rows"]
    left_out: str


class Task(NamedTuple):
    """Responses and the rows that they share.

    Attributes:
      request: the regression of each.
      shared: the rows.
      responses: the responses in these rows.
    """

    request: Request
    shared: SharedRows
    responses: Responses

    @property
    def law(self) -> Law:
        """The law of the responses."""
        return self.request.law

    @property
    def design(self) -> Design:
        """The design, without a response."""
        return self.shared.design

    @property
    def weights(self) -> Float[np.ndarray, " N"]:
        """Weights of the rows, those of missing cells not yet zero."""
        return self.shared.weights


@check_arguments
def many(
    formula: str,
    table: Any,
    responses: Any,
    *,
    key: PRNGKeyArray,
    family: ManyFamily = "gaussian",
    priors: Priors = None,
    weights: Any = None,
    nodes: int | None = None,
    level: float = 0.9,
    quantile: float | None = None,
    missing: Missing = "refuse",
    precisions: Any = None,
) -> ManyFits:
    """Fits of many responses to one design: genes, taxa, voxels.

    Each is the regression that `vijax.glmm` of its own column is, with the same priors. All are
    fitted side by side by one compiled program: a search for the mode, then importance weights of
    1,024 draws from a Student law that was adapted twice, 8,192 where fewer than 400 of them are
    effective. Estimates are those of the weighted draws, in float64.

    Args:
      formula: `~ terms`, without a response, as in `vijax.glmm`: effects of groups `(1 | g)`,
        smooth functions, `offset(log(depth))`.
      table: the columns of the terms, as in `vijax.glmm`.
      responses: a column for each response, with the rows of the table: a table, a dict, the path
        of a file, or an array (N, R). A cell that is missing leaves its row out for that response
        alone; knots, levels and means of `scale(x)` are those of all rows.
      key: random key of the draws.
      family: the law of all responses.
      priors: priors in place of the weakly informative ones, by name, for all responses.
      weights: how often a row counts, as in `vijax.glmm`: one of weight 0 is left out.
      nodes: nodes a dimension of the quadrature over effects of a group, as in `vijax.glmm`.
      level: probability of the intervals.
      quantile: for "asymmetriclaplace", as in `vijax.glmm`.
      missing: rows that lack a cell of the formula, or of the columns of weights and precisions:
        "refuse" refuses them; "drop" leaves them out, with a warning, and `fits.left_out` counts
        them by column.
      precisions: a column, or an array, positive: a row of precision w has the variance sigma^2 /
        w, in all responses. For "gaussian" and "t".

    Returns:
      `ManyFits`. `fits.table(name)` has one coefficient over all responses, with rates of false
      signs; `fits.verdict` says which fits can be used; `fits.model(response)` is the `vijax.glmm`
      of one of them.

    Raises:
      ValueError: a formula with a response, responses that the family does not have.

    >>> import jax
    >>> rng = np.random.default_rng(0)
    >>> table = {"dose": np.arange(20.0)}
    >>> y = 0.3 * np.outer(np.arange(20.0), [1, 0, -1]) + rng.normal(size=(20, 3))
    >>> fits = many("~ dose", table, y, key=jax.random.key(0))
    >>> fits.mean[:, fits.names.index("dose")].round(1).tolist()
    [0.3, 0.0, -0.3]
    """
    check_key(key)
    task = make_task(
        formula,
        table,
        responses,
        family=family,
        priors=priors,
        weights=weights,
        nodes=nodes,
        quantile=quantile,
        missing=missing,
        precisions=precisions,
    )
    if task.shared.left_out:
        warnings.warn(f"table: {task.shared.left_out}", UserWarning, stacklevel=3)
    return fit_task(task, key, level)


@check_arguments
def make_task(
    formula: str,
    table: Any,
    responses: Any,
    *,
    family: ManyFamily = "gaussian",
    priors: Priors = None,
    weights: Any = None,
    nodes: int | None = None,
    quantile: float | None = None,
    missing: Missing = "refuse",
    precisions: Any = None,
) -> Task:
    """The responses and the rows that they share, read and checked, before a fit; see `many`."""
    check_alignment(weights, table)
    check_alignment(precisions, table, "precisions")
    request = Request(formula, find_law(family, quantile), priors, nodes)
    return read_task(request, table, responses, RowNumbers(weights, precisions), missing)


def fit_task(task: Task, key: PRNGKeyArray, level: float) -> ManyFits:
    """The fits of all responses; ValueError if none can be fitted."""
    require(0 < level < 1, "level", "a probability between 0 and 1", level)
    obstacles = [_find_obstacle(task, r) for r in range(len(task.responses.names))]
    fitted = [r for r, text in enumerate(obstacles) if not text]
    actual = f"none: {obstacles[0].rstrip('.')}"
    require(bool(fitted), "responses", "one that can be fitted", actual)
    with enable_x64(True):
        names, estimates = _fit_all(task, fitted, keys.seed(key), level)
    size = len(obstacles)
    spread = {name: _scatter(x, fitted, size) for name, x in estimates._asdict().items()}
    spread["khat"] = np.where(np.isnan(spread["khat"]), np.inf, spread["khat"])
    spread["effective"] = np.nan_to_num(spread["effective"])
    request = task.request
    return ManyFits(
        formula=request.formula,
        family=task.law.name,
        quantile=task.law.quantile,
        responses=task.responses.names,
        names=names,
        coefficients=task.design.coefficients,
        obstacles=tuple(obstacles),
        level=float(level),
        integrals=_integrals_sentence(task),
        weights=task.shared.all_weights,
        precisions=task.shared.all_precisions,
        precision_column=task.design.precisions,
        priors=_plain_priors(request.priors),
        nodes=request.nodes,
        left_out=task.shared.left_out,
        marks={
            "table": mark_table(task.shared.table, task.design.schema),
            "responses": mark_numbers(task.responses.values),
        },
        make_model=model_maker(task),
        read_columns=column_reader(task.design),
        **spread,
    )


def _plain_priors(priors: Priors) -> Priors:
    """The priors, as a file has them."""
    if priors is None or isinstance(priors, str):
        return priors
    plain: dict[str, list[Any]] = {}
    for name, prior in priors.items():
        plain[name] = [str(prior)]
        if not isinstance(prior, str):
            plain[name] = [str(prior[0]), *map(float, prior[1:])]
    return plain


def read_task(
    request: Request, table: Any, responses: Any, given: RowNumbers, missing: Missing = "refuse"
) -> Task:
    """The responses and the rows that they share; ValueError for what cannot be read."""
    formula = request.formula
    has_response = isinstance(formula, str) and not formula.lstrip().startswith("~")
    remedy = "responses= has the left of it, column by column."
    require(not has_response, "formula", "~ terms, without a response", repr(formula), remedy)
    typed = reader.read_table(formula, table)
    columns = read_responses(responses, table, len(typed))
    shared = read_shared_rows(request, typed, given, missing)
    values = columns.values[shared.all_weights > 0]
    return Task(request, shared, columns._replace(values=values))


def read_shared_rows(
    request: Request, table: TypedTable, given: RowNumbers, missing: Missing = "refuse"
) -> SharedRows:
    """The rows of a table that all responses share."""
    weights, precisions = given.weights, given.precisions
    for argument, column in (("weights", weights), ("precisions", precisions)):
        if isinstance(column, str):
            table.column(argument, column)
    left_out = ""
    places, complete_table = np.arange(len(table)), table
    if missing == "drop":
        complete = find_complete_rows((request.formula,), table, weights, None, precisions)
        places, complete_table, weights = complete.places, complete.table, complete.weights
        precisions = take_rows(precisions, places, len(table), "precisions")
        left_out = str(complete.left_out or "")
    all_weights = np.zeros(len(table))
    all_weights[places] = read_weights(weights, complete_table)
    all_precisions = np.zeros(0)
    if precisions is not None:
        all_precisions = np.ones(len(table))
        all_precisions[places] = read_precisions(precisions, complete_table)
    rows, row_weights = with_positive_weight(table, all_weights)
    design = reader.read(request.formula, rows, request.law, weights=row_weights)
    if precisions is not None:
        column = given.column or precisions
        design = add_precisions(design, request.law, column, all_precisions[all_weights > 0])
    check_names(design)
    with enable_x64(True):
        check_sizes(design)
    check_size(design, request.law)
    return SharedRows(design, rows, row_weights, all_weights, all_precisions, left_out)


def _find_obstacle(task: Task, r: int) -> str:
    """Why a response cannot be fitted; "" if it can be. ValueError for numbers that the law does
    not have: the whole is then of another family."""
    name = task.responses.names[r]
    y = task.responses.values[:, r]
    has_cell = ~np.isnan(y)
    if not has_cell.any():
        return "all of its cells are missing, or of weight 0."
    trials = np.ones(int(has_cell.sum()))
    rows = task.shared.table.row_names.take(np.flatnonzero(has_cell))
    check_responses(y[has_cell], trials, task.law, name, rows)
    fault = _prior_fault(task, r)
    if fault or not task.law.is_location_scale:
        return fault
    if np.ptp(y[has_cell]) == 0:
        return "all of its numbers are equal."
    design, weights = _own_design(task, r)
    try:
        check_errors(design, weights)
    except ValueError:
        return "columns and groups give it exactly, without an error."
    return ""


def _prior_fault(task: Task, r: int) -> str:
    """Why flat priors leave the posterior of a response improper; "" if they do not."""
    design, weights = _own_design(task, r)
    priors = merge_priors(weak_priors(design, task.law, weights), task.request.priors, design)
    fault = find_fault(design, task.law, priors, weights)
    if fault is None:
        return ""
    expected, actual, _ = fault
    return f"its posterior under flat priors is improper: expected {expected}, got {actual}."


def _own_design(task: Task, r: int) -> tuple[Design, np.ndarray]:
    """The design with this response, and weights of zero where its cell is missing."""
    y = task.responses.values[:, r]
    is_missing = np.isnan(y)
    weights = np.where(is_missing, 0.0, task.weights)
    filled = np.where(is_missing, np.average(np.nan_to_num(y), weights=weights), y)
    if not task.law.is_location_scale:
        filled = np.where(is_missing, y[~is_missing][0], y)
    return dataclasses.replace(task.design, y=filled), weights


class _CommonForm(NamedTuple):
    """The part that is the same for all responses."""

    form: Form
    effects: tuple[Effects, ...]  # in the units of all rows
    nodes: int


def _share(task: Task, r: int) -> _CommonForm:
    """The form and the units of effects, from one of the responses and all rows."""
    design, _ = _own_design(task, r)
    nodes = _nodes(task)
    priors = merge_priors(weak_priors(design, task.law, task.weights), task.request.priors, design)
    form = make_form(design, task.law, priors, task.weights, nodes)
    return _CommonForm(split(form, form.effects)[0], form.effects, nodes)


def _nodes(task: Task) -> int:
    """Nodes of the quadrature, the same for all responses."""
    return choose_nodes(task.design, task.law, task.weights, task.request.nodes)


def _numbers_and_data(task: Task, shared: _CommonForm, r: int) -> tuple[Numbers, dict[str, Any]]:
    """The numbers of the form of one response, and its rows as the density reads them."""
    design, weights = _own_design(task, r)
    priors = merge_priors(weak_priors(design, task.law, weights), task.request.priors, design)
    form = make_form(design, task.law, priors, weights, shared.nodes)
    _, numbers = split(form, shared.effects)
    form = dataclasses.replace(form, effects=shared.effects)
    rows = rows_in_units(design, task.law, form, weights)
    return numbers, to_data(rows, form, [term.groups for term in form.terms])


def _fit_all(
    task: Task, places: Sequence[int], seed: int, level: float
) -> tuple[tuple[str, ...], Estimates]:
    """Names of the unknowns, and the estimates of the responses at these places."""
    shared = _share(task, places[0])
    first_batch, last_batch = BATCHES
    names, estimates = _fit_places(task, shared, places, (seed, first_batch), level)
    weak = np.flatnonzero(estimates.effective < ENOUGH_DRAWS)
    if len(weak):
        again = [places[int(i)] for i in weak]
        _, better = _fit_places(task, shared, again, (seed, last_batch), level)
        for numbers, part in zip(estimates, better, strict=True):
            numbers[weak] = part
    return names, estimates


def _fit_places(
    task: Task, shared: _CommonForm, places: Sequence[int], draws: tuple[int, int], level: float
) -> tuple[tuple[str, ...], Estimates]:
    """The same; `draws` are the seed and the number of draws of a batch."""
    seed, batch = draws
    dim, program = fit_program(shared.form)
    fixed_noise = noise(dim, seed, batch)
    parts: list[Estimates] = []
    names: tuple[str, ...] = ()
    for chunk in _chunks(task, shared, places, batch):
        pairs = [_numbers_and_data(task, shared, r) for r in chunk.padded]
        numbers, data = stack([n for n, _ in pairs]), stack([d for _, d in pairs])
        weighed = program(numbers, _as_floats(data), fixed_noise)
        size = len(chunk.places)
        names = tuple(weighed.unknowns)
        by_name = np.stack([np.asarray(x)[:size] for x in weighed.unknowns.values()], -1)
        parts.append(
            estimate(np.asarray(weighed.log_ratios)[:size], by_name, _signs(task, names), level)
        )
    joined = Estimates(*(np.concatenate(x) for x in zip(*parts, strict=True)))
    order = _order_names(task, names)
    return order, _take_names(joined, names, order)


def _signs(task: Task, names: tuple[str, ...]) -> np.ndarray:
    """True for the unknowns that may be negative."""
    coefficients = task.design.coefficients
    return np.array([name in coefficients or name.startswith("corr(") for name in names], bool)


def _as_floats(data: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rows in float64; numbers of groups stay integers."""
    numbers = {name: np.asarray(x) for name, x in data.items()}
    rows = {name: x.astype(float) for name, x in numbers.items() if x.dtype.kind == "f"}
    return {**numbers, **rows}


def _order_names(task: Task, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names with coefficients first, in the order of the formula."""
    other_names = [name for name in names if name not in task.design.coefficients]
    return (*task.design.coefficients, *other_names)


def _take_names(estimates: Estimates, names: tuple[str, ...], order: tuple[str, ...]) -> Estimates:
    places = [names.index(name) for name in order]
    columns = {name: getattr(estimates, name)[:, places] for name in OF_UNKNOWNS}
    covariance = estimates.covariance[:, places][:, :, places]
    return estimates._replace(**columns, covariance=covariance)


class _Chunk(NamedTuple):
    """Responses that are computed side by side."""

    places: Sequence[int]
    padded: Sequence[int]  # as many in each chunk: one compiled program has all


def _chunks(task: Task, shared: _CommonForm, places: Sequence[int], batch: int) -> Iterator[_Chunk]:
    """Chunks of responses whose draws fit into memory."""
    _, data = _numbers_and_data(task, shared, places[0])
    numbers = max(x.size for x in data.values()) * shared.nodes
    size = int(np.clip(AT_ONCE // (batch * numbers), 1, MOST_SIDE_BY_SIDE))
    size = min(size, len(places))
    size = math.ceil(len(places) / math.ceil(len(places) / size))
    for start in range(0, len(places), size):
        chunk = list(places[start : start + size])
        yield _Chunk(chunk, chunk + [chunk[-1]] * (size - len(chunk)))


def _scatter(x: np.ndarray, places: Sequence[int], size: int) -> np.ndarray:
    """Rows at their places among all responses; NaN elsewhere."""
    column = np.full((size, *x.shape[1:]), np.nan)
    column[list(places)] = x
    return column


def _integrals_sentence(task: Task) -> str:
    """The approximations in the integrals over groups, in words; "" where nothing is."""
    if not task.design.rows.z and not task.design.smooths:
        return ""
    if task.law.name == "gaussian":
        return ""
    nodes = _nodes(task)
    if nodes > 1:
        return f"Integrals over effects of groups: quadrature with {nodes} nodes."
    return (
        "Integrals over effects of groups are Laplace's approximation: where groups have few rows "
        "of zeros and ones, their sds come out too small."
    )


def model_maker(task: Task) -> Callable[[str], Glmm]:
    """The name of a response -> its model; the last of them are kept."""

    @functools.lru_cache(maxsize=8)
    def make(response: str) -> Glmm:
        values = task.responses.values[:, task.responses.names.index(response)]
        has_cell = np.flatnonzero(~np.isnan(values))
        require(len(has_cell) > 0, "response", "one with a number", f"{response!r}, without any")
        design = task.design.with_response(response, values[has_cell], has_cell)
        table = task.shared.table.rows(has_cell).with_column(design.response, design.y)
        if design.precisions is not None and design.precisions not in table.columns:
            table = table.with_column(design.precisions, design.facts["precision"])
        weights, priors = task.weights[has_cell], task.request.priors
        return model_of_design(design, task.law, table, weights, priors, _nodes(task))

    def make_and_warn(response: str) -> Glmm:
        model = make(response)
        for note in model.notes:
            warnings.warn(f"formula: {note}", OnlyPriorWarning, stacklevel=3)
        return model

    return make_and_warn


def column_reader(design: Design) -> Callable[[Any], tuple[np.ndarray, np.ndarray]]:
    """Rows -> the columns of coefficients, and offsets."""

    def read(table: Any) -> tuple[np.ndarray, np.ndarray]:
        expected = "terms without mo(x) and s(x), for predictors of rows"
        is_plain = not (design.steps or design.smooths)
        require(is_plain, "formula", expected, repr(design.formula), "fits.model has one response.")
        rows = design.read_rows(table)
        return rows.x, rows.offset

    return read
