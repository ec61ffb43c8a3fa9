"""Predictions, comparisons and slopes of a regression, at rows or averaged over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.checks import require
from vijax.data.schema.typed_columns import TypedTable
from vijax.models.formulas.answers.grid import (
    Cells,
    Grid,
    make_cells,
    make_grid,
    values_column,
)
from vijax.models.formulas.answers.means import GROUP_WORDS, Groups, Means, Scale, averages
from vijax.models.formulas.answers.table import (
    AnswerTable,
    Comparison,
    find_comparison,
    find_turn,
    join,
    names_of_labels,
    summarise,
    with_free_names,
)
from vijax.models.formulas.answers.variables import (
    Variable,
    find_variable,
    group_columns,
    term_columns,
    with_column,
)
from vijax.models.formulas.draws import Draws
from vijax.models.formulas.formula import Rows
from vijax.models.formulas.laws.angles import wrap_angles
from vijax.numerals import format_number

MOST_SETTINGS = 200
"""Most values of one column that are compared."""
STEP, STEP_OF_VALUE, LEAST_STEP = 1e-4, 1e-3, 1e-7
"""Steps of derivatives: a share of the sd of the column, but at most a share of the value itself
(so that logarithms stay defined), and at least a share of the sd."""


@dataclasses.dataclass(frozen=True)
class Request:
    """Rows and their treatment, as `Glmm.predictions` describes them."""

    newdata: Any = None
    at: Mapping[str, Any] | None = None
    by: str | Sequence[str] | None = None
    average: bool | None = None
    groups: Groups | None = None
    scale: Scale = "response"
    level: float = 0.9


class Scene:
    """The rows, cells and means of a request."""

    def __init__(self, model: Any, draws: Draws, key: Any, request: Request):
        choices = ("response", "link")
        require(request.scale in choices, "scale", f"one of {choices}", repr(request.scale))
        self.model = model
        self.request = request
        self.grid: Grid = make_grid(model, request.newdata, request.at)
        groups = self._choose_groups(request.groups)
        self.means = Means(model, draws, groups, request.scale, key)
        self.by = names_of_labels(request.by)
        unnamed = [name for name in self.by if name in self.grid.lacking]
        remedy = f'Pass at= for {unnamed}, or newdata="rows".'
        require(not unnamed, "by", "columns that the rows have", unnamed, remedy)
        self.is_average = self._choose_average()
        self.cells: Cells = make_cells(model, self.grid.table, self._cell_columns())
        self.remarks: dict[str, None] = {}

    def _choose_groups(self, groups: Groups | None) -> Groups:
        if groups is None:
            return ("new", "same")[self.grid.has_groups]
        require(groups in GROUP_WORDS, "groups", f"one of {list(GROUP_WORDS)}", repr(groups))
        needs_groups = groups == "same" and not self.grid.has_groups
        names = list(group_columns(self.model))
        remedy = 'Pass at= for them, or groups="new" (integrated) or "zero".'
        actual = "rows without them"
        require(not needs_groups, "groups", f"rows with the groups {names}", actual, remedy)
        return groups

    def _choose_average(self) -> bool:
        if self.request.average is None:
            return bool(self.by) or not self.grid.is_grid
        remedy = "Leave by= out."
        is_both = bool(self.by) and not self.request.average
        require(not is_both, "average", "True where rows are averaged by columns", False, remedy)
        return self.request.average

    def _cell_columns(self) -> list[str]:
        """The columns whose values label the estimates."""
        if self.grid.is_grid and self.is_average:
            return self.by
        if self.grid.is_grid or self.is_average:
            return list(dict.fromkeys((*self.by, *self.grid.columns)))
        return []

    def read(self, table: TypedTable, is_step: bool = False) -> Rows:
        """Rows of a table; their remarks are noted. A step of a derivative from the rows says
        nothing about them."""
        rows = self.model.design.read_rows(table)
        if self.means.groups != "same":
            rows = _clear_group_remarks(rows)
        elif not is_step:
            for new in rows.new_levels:
                self.remarks[f"{new}: their effects are drawn from the law of groups."] = None
        if not is_step:
            self.remarks |= dict.fromkeys(rows.notes)
        return rows

    def cell_weights(self) -> Float[np.ndarray, " N"]:
        """Weights of rows that sum to one in each cell."""
        weights, code = self.grid.weights, self.cells.code
        sums = np.bincount(code, weights, self.cells.num_cells)
        empty = np.flatnonzero(~(sums > 0))
        if len(empty):
            row = int(np.flatnonzero(code == empty[0])[0])
            actual = f"none in that of row {row}, nor in {len(empty) - 1} others"
            remedy = "Leave rows of weight 0 out of newdata, or take a by= of fewer columns."
            require(False, "by", "rows of positive weight in each cell", actual, remedy)
        return weights / sums[code]

    def averages(self, rows: Rows, weights: np.ndarray) -> Float[np.ndarray, "S G K"]:
        """Weighted sums of means by cell."""
        return averages(self.means, rows, self.cells.code, self.cells.num_cells, weights)

    def sums(
        self, parts: Iterator[tuple[np.ndarray, np.ndarray]], weights: np.ndarray
    ) -> Float[np.ndarray, "S G K"]:
        """Weighted sums by cell of numbers of rows, (S, rows, K), part by part."""
        total = 0.0
        for places, numbers in parts:
            codes = np.eye(self.cells.num_cells)[self.cells.code[places]]
            total = total + np.einsum("snk,n,ng->sgk", numbers, weights[places], codes)
        return np.asarray(total)

    def labels(self, places: Int[np.ndarray, " M"] | None) -> dict[str, np.ndarray]:
        """Labels of estimates: of all cells, or of some rows; by category of the response."""
        categories = np.array(self.means.categories, object)
        copies = max(len(categories), 1)
        if places is None:
            places = np.arange(self.cells.num_cells)
            columns = self.cells.labels
        else:
            columns = {name: x[self.cells.code[places]] for name, x in self.cells.labels.items()}
            if not self.grid.is_grid:
                columns = {"row": places, **with_free_names(columns, ["row"])}
        labels = {name: np.repeat(x[: len(places)], copies) for name, x in columns.items()}
        if len(categories):
            labels = with_free_names(labels, ["category"])
            labels["category"] = np.tile(categories, len(places))
        return labels

    def table(
        self,
        first: Mapping[str, str],
        labels: dict[str, np.ndarray],
        values: np.ndarray,
        null: Any,
        is_slope: bool = False,
    ) -> AnswerTable:
        """The table of draws of estimates, (S, rows, K); slopes of angles are numbers."""
        flat = values.reshape(len(values), -1)
        size = flat.shape[1]
        titles = {name: np.array([text] * size, object) for name, text in first.items()}
        level = self.request.level
        is_circular = self.has_angles and not is_slope
        table = summarise(
            {**titles, **with_free_names(labels, titles)},
            flat,
            level,
            null,
            is_circular=is_circular,
        )
        is_by_category = len(self.means.categories) > 0
        return dataclasses.replace(table, is_by_category=is_by_category)

    @property
    def has_angles(self) -> bool:
        """True if means are directions."""
        return self.model.law.is_circular and self.request.scale == "response"

    def parts(self, rows: Rows) -> Iterator[np.ndarray]:
        """Places of the rows that are computed at once."""
        all_places = np.arange(len(rows.offset))
        for places in self.means.row_parts(rows):
            yield all_places[places]

    def notes(self, *words: str) -> tuple[str, ...]:
        """Sentences: the quantity, its rows, and the part of the effects of groups."""
        target = " of ".join([*words, _target(self.model, self.request.scale)])
        over = f"averaged over {self.grid.words}"
        if words and words[0] not in ("Differences", "Slopes"):
            over = f"of averages over {self.grid.words}"
        if not self.is_average:
            over = f"at {self.grid.words}"
        if self.is_average and not np.all(self.grid.weights == 1):
            over += ", by their weights"
        sentences = [f"{target[0].upper()}{target[1:]}, {over}."]
        if self.model.design.factors:
            sentences.append(GROUP_WORDS[self.means.groups])
        return (" ".join(sentences), *self.remarks)


def _clear_group_remarks(rows: Rows) -> Rows:
    """The rows without remarks on groups that are not used."""
    return rows._replace(new_levels=())


def _target(model: Any, scale: str) -> str:
    """The quantity that is averaged, in words."""
    name = model.design.response
    if scale == "link":
        if model.design.against:
            return f"the log odds of each category of {name} against {model.design.levels[0]!r}"
        return f"the predictor of {name} ({model.law.link} link)"
    if model.design.levels:
        return f"the probability of each category of {name}"
    if model.law.takes_trials:
        return f"the probability of a success in {name}"
    if model.law.name == "bernoulli":
        return f"the probability of {name} = {model.design.observed.level or 1!r}"
    return model.law.response_words.format(name)


def predictions(model: Any, draws: Draws, key: Any, request: Request) -> AnswerTable:
    """Means of the response: `Glmm.predictions`."""
    scene = Scene(model, draws, key, request)
    rows = scene.read(scene.grid.table)
    if scene.is_average:
        values = scene.averages(rows, scene.cell_weights())
        tables = [scene.table({}, scene.labels(None), values, None)]
    else:
        tables = [
            scene.table({}, scene.labels(places), scene.means.row_means(_take(rows, places)), None)
            for places in scene.parts(rows)
        ]
    return join(tables, scene.notes())


def all_levels(
    model: Any, columns: Any, newdata: Any, at: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """The values of marginal means: `at`, and where rows are averaged all levels of the columns
    besides. A grid has these by itself.

    Raises:
      ValueError: a column that the formula does not read, or numbers without values in `at`.
    """
    if isinstance(newdata, str) and newdata in ("balanced", "typical"):
        return at
    require(at is None or isinstance(at, Mapping), "at", "values by column", type(at).__name__)
    values = dict(at or {})
    names = names_of_labels(columns)
    used = (*term_columns(model), *group_columns(model))
    strange = [name for name in names if name not in used]
    remedy = "predictions(by=) (--ask predictions) averages rows as they are, by any column."
    expected = f"columns of the formula, of {list(dict.fromkeys(used))}"
    require(not strange, "columns", expected, strange, remedy)
    for name in names:
        if name in values:
            continue
        variable = find_variable(model, name, "columns")
        is_level = bool(variable.names) or variable.is_binary
        remedy = f"Pass at={{{name!r}: [...]}}: all rows are set to each of these values."
        require(is_level, "columns", "levels, 0 and 1, or values in at=", repr(name), remedy)
        values[name] = variable.names or (0, 1)
    return values


def _take(rows: Rows, places: Int[np.ndarray, " M"]) -> Rows:
    return rows.part(slice(int(places[0]), int(places[-1]) + 1))


# --- comparisons ----------------------------------------------------------------------------------
class Settings(NamedTuple):
    """Tables in which a column is set, and the pairs of them that are compared.

    Attributes:
      variable: the column.
      make: for each setting the function from a table to the table that has it.
      pairs: (low, high, name) of each comparison.
      steps: for derivatives the distance between the two settings of each row, else None.
    """

    variable: Variable
    make: tuple[Callable[[TypedTable], TypedTable], ...]
    pairs: tuple[tuple[int, int, str], ...]
    steps: Callable[[TypedTable], np.ndarray] | None = None


def comparisons(
    model: Any, draws: Draws, key: Any, request: Request, columns: Any, kind: str
) -> AnswerTable:
    """Comparisons between values of columns: `Glmm.comparisons`."""
    comparison = find_comparison(kind)
    _check_kind(model, kind, request.scale)
    scene = Scene(model, draws, key, request)
    if scene.has_angles:
        comparison = find_turn(kind)
    changes = read_changes(model, columns)
    tables: list[AnswerTable] = []
    for name, change in changes.items():
        settings = make_settings(find_variable(model, name, "columns"), change, comparison.sign)
        tables += _compare(scene, settings, comparison)
    return join(tables, scene.notes(comparison.words))


def slopes(model: Any, draws: Draws, key: Any, request: Request, columns: Any) -> AnswerTable:
    """Derivatives by columns of numbers: `Glmm.slopes`."""
    scene = Scene(model, draws, key, request)
    derivative = Comparison(lambda high, low: high - low, 0.0, "Slopes", "/")
    if scene.has_angles:
        derivative = derivative._replace(compare=lambda high, low: wrap_angles(high - low))
    tables: list[AnswerTable] = []
    for name in _number_names(model, columns):
        variable = find_variable(model, name, "columns")
        remedy = "Differences between its levels: comparisons."
        is_number = variable.levels is None
        require(is_number, "columns", "columns of numbers", f"{name!r} of levels", remedy)
        tables += _compare(scene, _nearby_settings(variable), derivative)
    return join(tables, scene.notes("Slopes"))


def _compare(scene: Scene, settings: Settings, comparison: Comparison) -> Iterator[AnswerTable]:
    """A table for each pair of settings."""
    table = scene.grid.table
    titles = [{"term": settings.variable.name, "contrast": name} for _, _, name in settings.pairs]
    if settings.steps is not None:
        titles = [{"term": settings.variable.name}]
    divisor = np.ones(len(table))
    if settings.steps is not None:
        divisor = settings.steps(table)
    if scene.is_average and settings.steps is not None and scene.has_angles:
        slopes_by_row = _row_contrasts(scene, settings, comparison)
        contrast = scene.sums(slopes_by_row, scene.cell_weights() / divisor)
        yield scene.table(titles[0], scene.labels(None), contrast, comparison.null, True)
        return
    if scene.is_average:
        weights = scene.cell_weights() / divisor
        values = [scene.averages(_set_rows(scene, settings, i), weights) for i in _all(settings)]
        for title, (low, high, _) in zip(titles, settings.pairs, strict=True):
            contrast = comparison.compare(values[high], values[low])
            yield scene.table(title, scene.labels(None), contrast, comparison.null)
        return
    for i, title in enumerate(titles):
        for places, contrast in _row_contrasts(scene, settings, comparison, i):
            contrast = contrast / divisor[places][:, None]
            labels = scene.labels(places)
            is_slope = settings.steps is not None
            yield scene.table(title, labels, contrast, comparison.null, is_slope)


def _row_contrasts(
    scene: Scene, settings: Settings, comparison: Comparison, pair: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Places of rows, and their comparisons, (S, rows, K), of one pair of settings."""
    low, high, _ = settings.pairs[pair]
    below, above = (_set_rows(scene, settings, i) for i in (low, high))
    for places in scene.parts(below):
        x, y = (scene.means.row_means(_take(rows, places)) for rows in (below, above))
        yield places, comparison.compare(y, x)


def _all(settings: Settings) -> range:
    return range(len(settings.make))


def _set_rows(scene: Scene, settings: Settings, i: int) -> Rows:
    """The rows of one setting. Derivatives keep the groups of the rows as they are."""
    if settings.steps is None:
        return scene.read(settings.make[i](scene.grid.table))
    original = scene.read(scene.grid.table)
    rows = scene.read(settings.make[i](scene.grid.table), is_step=True)
    if settings.variable.name not in group_columns(scene.model):
        return rows
    return rows._replace(groups=original.groups, new_levels=original.new_levels)


def _check_kind(model: Any, kind: str, scale: str) -> None:
    """Raises ValueError for ratios of predictors, and for odds of what is no probability."""
    is_ratio = kind != "difference"
    remedy = "Ratios are of means: leave scale= (--link of the command line) out."
    require(not (is_ratio and scale == "link"), "kind", '"difference" of predictors', kind, remedy)
    has_odds = bool(model.design.levels) or model.law.link == "logit"
    expected = "a comparison of means, which are no probabilities"
    require(has_odds or "odds" not in kind, "kind", expected, kind)


def read_changes(model: Any, columns: Any) -> dict[str, Any]:
    """The columns with the change of each; None for the usual change."""
    if columns is None:
        changes: dict[str, Any] = dict.fromkeys(term_columns(model))
    elif isinstance(columns, Mapping):
        changes = dict(columns)
    else:
        changes = dict.fromkeys(names_of_labels(columns))
    require(bool(changes), "columns", "a column of the terms or more", "none")
    return changes


def _number_names(model: Any, columns: Any) -> list[str]:
    """The columns of numbers that are asked for: all of the terms for None."""
    if columns is not None:
        return names_of_labels(columns)
    names = [
        name for name in term_columns(model) if find_variable(model, name, "columns").levels is None
    ]
    require(bool(names), "formula", "a column of numbers", repr(model.design.formula))
    return names


def make_settings(variable: Variable, change: Any, sign: str) -> Settings:
    """The settings of a column by a change, as `Glmm.comparisons` describes it."""
    is_pair = isinstance(change, tuple | list) and len(change) == 2
    if variable.levels is not None:
        return _level_settings(variable, change, is_pair, sign)
    if change is None and variable.is_binary:
        change, is_pair = (0, 1), True
    if is_pair:
        low, high = change
        values = values_column(variable, [low, high], "columns").numbers()
        make = tuple(_number_setter(variable, value) for value in values)
        texts = [format_number(value) for value in values]
        return Settings(variable, make, ((0, 1, f"{texts[1]} {sign} {texts[0]}"),))
    step, name = _step(variable, change)
    make = (lambda table: table, _shift(variable, step))
    return Settings(variable, make, ((0, 1, name),))


def _step(variable: Variable, change: Any) -> tuple[float, str]:
    """The length of a step, and its name."""
    if change is None:
        return 1.0, "+1"
    if isinstance(change, str):
        expected = 'a number, a pair of numbers, or "sd"'
        require(change == "sd", "columns", f"for {variable.name!r} {expected}", repr(change))
        step = variable.spread
        return step, f"+1 sd ({format_number(step)})"
    is_number = isinstance(change, int | float | np.number) and np.isfinite(change) and change != 0
    expected = f'for {variable.name!r} a number, a pair of numbers, or "sd"'
    require(is_number, "columns", expected, repr(change))
    step = float(change)
    return step, f"{step:+g}"


def _level_settings(variable: Variable, change: Any, is_pair: bool, sign: str) -> Settings:
    names = variable.names
    if is_pair:
        codes = [variable.code(value, "columns") for value in change]
        pairs = [(0, 1)]
    else:
        expected = f'for {variable.name!r} "base", "pairwise", "sequential", or a pair of levels'
        choices = (None, "base", "pairwise", "sequential")
        require(change is None or change in choices, "columns", expected, repr(change))
        expected = f"at most {MOST_SETTINGS} levels of {variable.name!r}"
        require(len(names) <= MOST_SETTINGS, "columns", expected, len(names), "Pass a pair.")
        codes = list(range(len(names)))
        codes_in_order = range(len(names))
        pairs = [(variable.base, i) for i in codes_in_order if i != variable.base]
        if change == "pairwise":
            pairs = [(i, j) for i in codes_in_order for j in codes_in_order if i < j]
        elif change == "sequential":
            pairs = [(i, i + 1) for i in codes_in_order[:-1]]
    make = tuple(_level_setter(variable, code) for code in codes)
    labelled = tuple(
        (low, high, f"{names[codes[high]]} {sign} {names[codes[low]]}") for low, high in pairs
    )
    return Settings(variable, make, labelled)


def _nearby_settings(variable: Variable) -> Settings:
    """Two settings near each value, for derivatives."""
    spread = variable.spread or 1.0

    def half_steps(table: TypedTable) -> np.ndarray:
        size = np.abs(table.column("newdata", variable.name).numbers())
        by_value = np.where(size > 0, STEP_OF_VALUE * size, np.inf)
        return np.maximum(np.minimum(STEP * spread, by_value), LEAST_STEP * spread)

    def shift(table: TypedTable, side: float) -> TypedTable:
        numbers = table.column("newdata", variable.name).numbers()
        return with_column(table, variable.number_column(numbers + side * half_steps(table)))

    make = (lambda table: shift(table, -1.0), lambda table: shift(table, 1.0))
    return Settings(variable, make, ((0, 1, ""),), lambda table: 2 * half_steps(table))


def _number_setter(variable: Variable, value: float) -> Callable[[TypedTable], TypedTable]:
    return lambda table: with_column(table, variable.number_column(np.full(len(table), value)))


def _level_setter(variable: Variable, code: int) -> Callable[[TypedTable], TypedTable]:
    return lambda table: with_column(table, variable.level_column(np.full(len(table), code)))


def _shift(variable: Variable, step: float) -> Callable[[TypedTable], TypedTable]:
    def shift(table: TypedTable) -> TypedTable:
        numbers = table.column("newdata", variable.name).numbers()
        return with_column(table, variable.number_column(numbers + step))

    return shift
