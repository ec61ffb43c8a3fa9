"""`vijax.glmm.many`: regressions of many responses on one design, fitted side by side."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, cast

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from vijax.arguments import check_arguments
from vijax.automatic.many.columns import Responses, read_responses
from vijax.automatic.many.fits import FORMAT, OF_RESPONSES, TEXTS, ManyFits
from vijax.automatic.many.program import BATCHES, fit_program, noise
from vijax.automatic.many.stacked import Numbers, split, stack
from vijax.automatic.many.weighted_draws import OF_UNKNOWNS, Estimates, estimate
from vijax.checks import check_key, require
from vijax.data.schema.typed_columns import TypedTable
from vijax.files import check_declared_sizes
from vijax.models.formulas import formula as reader
from vijax.models.formulas.form import Form, make_form
from vijax.models.formulas.form.parts import Effects
from vijax.models.formulas.formula import Design
from vijax.models.formulas.glmm import NumberFamily, choose_nodes, glmm
from vijax.models.formulas.laws import LAWS, Law, find_law
from vijax.models.formulas.priors import merge_priors, weak_priors
from vijax.models.formulas.rows_by_group import rows_in_units, to_data
from vijax.models.formulas.terms.proper import find_fault
from vijax.models.formulas.unmodelled import check_errors, check_responses, check_size
from vijax.models.formulas.weighted import check_alignment, read_weights, with_positive_weight
from vijax.xla import keys
from vijax.xla.precision import enable_x64

ManyFamily = Literal["bernoulli", NumberFamily]
"""Laws of one number a row."""
AT_ONCE = 1 << 25
"""Numbers that a batch of draws may take in all responses that are computed side by side."""
MOST_SIDE_BY_SIDE = 256
ENOUGH_DRAWS = 400.0
"""Effective draws; responses with fewer have the larger batch of draws."""
RESPONSE = "_response"
"""The name of the response in the design that all share."""


class Task(NamedTuple):
    """Responses and the design that they share. Rows are those of positive weight, N of them.

    Attributes:
      design: the design, with the first response.
      law: the law of the responses.
      weights: weights of the rows, those of missing cells not yet zero.
      all_weights: weights of all rows of the user's table.
      priors: the user's priors.
      nodes: the user's nodes of the quadrature.
      responses: the responses.
      table: the table.
    """

    design: Design
    law: Law
    weights: Float[np.ndarray, " N"]
    all_weights: Float[np.ndarray, " rows"]
    priors: Mapping[str, Sequence[Any]] | Literal["flat"] | None
    nodes: int | None
    responses: Responses
    table: TypedTable


@check_arguments
def many(
    formula: str,
    table: Any,
    responses: Any,
    *,
    key: PRNGKeyArray,
    family: ManyFamily = "gaussian",
    priors: Mapping[str, Sequence[Any]] | Literal["flat"] | None = None,
    weights: Any = None,
    nodes: int | None = None,
    level: float = 0.9,
    quantile: float | None = None,
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
    require(0 < level < 1, "level", "a probability between 0 and 1", level)
    check_alignment(weights, table)
    task = _read(formula, table, responses, (family, quantile), priors, weights, nodes)
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
    return ManyFits(
        formula=formula,
        family=task.law.name,
        quantile=task.law.quantile,
        responses=task.responses.names,
        names=names,
        coefficients=task.design.coefficients,
        obstacles=tuple(obstacles),
        level=level,
        integrals=_integrals_sentence(task),
        weights=task.all_weights,
        make_model=functools.partial(_make_model, task),
        read_columns=functools.partial(_read_columns, task.design),
        **spread,
    )


def _read(
    formula: str,
    table: Any,
    responses: Any,
    family_and_quantile: tuple[str, float | None],
    priors: Mapping[str, Sequence[Any]] | Literal["flat"] | None,
    weights: Any,
    nodes: int | None,
) -> Task:
    has_response = isinstance(formula, str) and not formula.lstrip().startswith("~")
    remedy = "responses= has the left of it, column by column."
    require(not has_response, "formula", "~ terms, without a response", repr(formula), remedy)
    law = find_law(*family_and_quantile)
    user_table = table
    table = reader.read_table(formula, table)
    columns = read_responses(responses, user_table, len(table))
    if isinstance(weights, str):
        table.column("weights", weights)
    all_weights = read_weights(weights, table)
    columns = columns._replace(values=columns.values[all_weights > 0])
    table, row_weights = with_positive_weight(table, all_weights)
    design = _read_design(formula, table, np.nan_to_num(columns.values[:, 0]), law, row_weights)
    check_size(design, law)
    return Task(design, law, row_weights, all_weights, priors, nodes, columns, table)


def _read_design(
    formula: str, table: TypedTable, y: np.ndarray, law: Law, weights: np.ndarray
) -> Design:
    """The design of a formula without a response, with this one; weights are positive."""
    rows = table.with_column(RESPONSE, y)
    return reader.read(f"{RESPONSE} {formula}", rows, law, weights=weights)


def _find_obstacle(task: Task, r: int) -> str:
    """Why a response cannot be fitted; "" if it can be. ValueError for numbers that the law does
    not have: the whole is then of another family."""
    name = task.responses.names[r]
    y = task.responses.values[:, r]
    has_cell = ~np.isnan(y)
    if not has_cell.any():
        return "all of its cells are missing, or of weight 0."
    trials = np.ones(int(has_cell.sum()))
    rows = task.table.row_names.take(np.flatnonzero(has_cell))
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
    priors = merge_priors(weak_priors(design, task.law, weights), task.priors, design)
    fault = find_fault(design, task.law, priors, weights)
    if fault is None:
        return ""
    return f"its posterior under flat priors is improper, {fault[1]}."


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


def _share(task: Task) -> _CommonForm:
    """The form and the units of effects, from the first response and all rows."""
    nodes = choose_nodes(task.design, task.law, task.weights, task.nodes)
    priors = merge_priors(
        weak_priors(task.design, task.law, task.weights), task.priors, task.design
    )
    form = make_form(task.design, task.law, priors, task.weights, nodes)
    return _CommonForm(split(form, form.effects)[0], form.effects, nodes)


def _numbers_and_data(task: Task, shared: _CommonForm, r: int) -> tuple[Numbers, dict[str, Any]]:
    """The numbers of the form of one response, and its rows as the density reads them."""
    design, weights = _own_design(task, r)
    priors = merge_priors(weak_priors(design, task.law, weights), task.priors, design)
    form = make_form(design, task.law, priors, weights, shared.nodes)
    _, numbers = split(form, shared.effects)
    form = dataclasses.replace(form, effects=shared.effects)
    rows = rows_in_units(design, task.law, form, weights)
    return numbers, to_data(rows, form, [term.groups for term in form.terms])


def _fit_all(
    task: Task, places: Sequence[int], seed: int, level: float
) -> tuple[tuple[str, ...], Estimates]:
    """Names of the unknowns, and the estimates of the responses at these places."""
    shared = _share(task)
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
    nodes = choose_nodes(task.design, task.law, task.weights, task.nodes)
    if nodes > 1:
        return f"Integrals over effects of groups: quadrature with {nodes} nodes."
    return (
        "Integrals over effects of groups are Laplace's approximation: where groups have few rows "
        "of zeros and ones, their sds come out too small."
    )


def _make_model(task: Task, response: str) -> Any:
    """The `vijax.glmm` of one response."""
    y = task.responses.values[:, task.responses.names.index(response)]
    has_cell = np.flatnonzero(~np.isnan(y))
    table = task.table.with_column(RESPONSE, y).rows(has_cell)
    _, _, terms = task.design.formula.partition("~")
    return glmm(
        f"{RESPONSE} ~{terms}",
        table,
        cast(ManyFamily, task.law.name),
        task.priors,
        weights=task.weights[has_cell],
        nodes=task.nodes,
        quantile=task.law.quantile,
    )


def _read_columns(design: Design, table: Any) -> tuple[np.ndarray, np.ndarray]:
    """The columns of coefficients in other rows, and their offsets."""
    expected = "terms without mo(x) and s(x), for predictors of rows"
    is_plain = not (design.steps or design.smooths)
    require(is_plain, "formula", expected, repr(design.formula), "fits.model has one response.")
    rows = design.read_rows(table)
    return rows.x, rows.offset


def load(path: str | Path, table: Any = None) -> ManyFits:
    """Fits that `ManyFits.save` has written.

    Args:
      path: the file.
      table: the table of training, for `predictors` of other rows. Its weights are in the file.

    Raises:
      ValueError: a file of something else, a table of other rows or columns.
    """
    path = Path(path)
    with path.open("rb") as file:
        check_declared_sizes(file)
        with np.load(file, allow_pickle=False) as arrays:
            is_own = "about" in arrays.files
            remedy = "ManyFits.save writes it."
            require(is_own, "path", "fits of vijax.glmm.many", str(path), remedy)
            about = json.loads(str(arrays["about"]))
            is_known = about.pop("format", None) == FORMAT
            require(is_known, "path", f"a file of {FORMAT}", str(path), remedy)
            columns: dict[str, Any] = {name: tuple(arrays[name].tolist()) for name in TEXTS}
            columns |= {name: arrays[name] for name in (*OF_RESPONSES, "weights")}
    read_columns = None
    if table is not None:
        typed = reader.read_table(about["formula"], table)
        all_weights = columns["weights"]
        expected = f"the {len(all_weights)} rows of training"
        require(len(typed) == len(all_weights), "table", expected, f"{len(typed)} rows")
        rows, weights = with_positive_weight(typed, all_weights)
        y = np.arange(len(rows)) % 2.0
        design = _read_design(about["formula"], rows, y, LAWS[about["family"]], weights)
        is_same = design.coefficients == columns["coefficients"]
        require(is_same, "table", f"one with {list(columns['coefficients'])}", design.coefficients)
        read_columns = functools.partial(_read_columns, design)
    return ManyFits(**about, **columns, read_columns=read_columns)


P = ParamSpec("P")
Made = TypeVar("Made", covariant=True)


class Many(Protocol):
    """`vijax.glmm.many`, and `vijax.glmm.many.load` with it."""

    load: Callable[..., ManyFits]

    def __call__(
        self, formula: str, table: Any, responses: Any, *, key: PRNGKeyArray, **options: Any
    ) -> ManyFits:
        """The fits of many responses."""
        ...


class WithMany(Protocol[P, Made]):
    """`vijax.glmm`, and `vijax.glmm.many` with it."""

    many: Many

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Made:
        """The model of one response."""
        ...


def with_many(function: Callable[P, Made]) -> WithMany[P, Made]:
    """The function itself, with `many` as an attribute."""
    typed_many = cast(Many, many)
    typed_many.load = load
    typed = cast(WithMany[P, Made], function)
    typed.many = typed_many
    return typed
