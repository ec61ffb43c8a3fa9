"""Formulas such as `y ~ x + (x | g)` and a table, as arrays: the response, columns of common
effects, and groups.

The grammar and the columns are those of `vijax.data.formulas`. Bars are read as lme4 has them
(Bates, Maechler, Bolker and Walker 2015, table 2): effects of one bar are correlated, `||` makes
them independent, `g/h` stands for `g` and `g:h`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from vijax.checks import require
from vijax.data.formulas.design_columns import DesignColumns, Functions, Matrix, learn
from vijax.data.formulas.functions import (
    CLASS_COUNTS,
    COLUMN_MAKERS,
    PARTLY_KNOWN,
    RESPONSES,
    SPELLINGS,
    find_columns,
    label_columns,
    number_columns,
)
from vijax.data.formulas.hilbert_gp import Kernel
from vijax.data.formulas.parser import parse
from vijax.data.formulas.syntax import Call, Column, Formula, Node
from vijax.data.formulas.tokens import quote_name, refuse
from vijax.data.schema.schema import ColumnSchema, Schema
from vijax.data.schema.typed_columns import TypedTable, typed_table
from vijax.models.formulas.groups import Factor, NewLevels, read_factors
from vijax.models.formulas.laws import LAWS, Law
from vijax.models.formulas.laws.classes import shift_name
from vijax.models.formulas.observation import Facts
from vijax.models.formulas.observed_response import (
    Response,
    family_of_response,
    given_response,
    read_response,
)
from vijax.models.formulas.weighted import read_precisions

WhereNew = Literal["draw", "error"]
"""Treatment of groups that training does not have: their effects are drawn from the law of groups,
or they are an error."""


class ParameterTerms(NamedTuple):
    """The formula of a parameter of the law, as in `sigma ~ x + (1 | g)`.

    Attributes:
      name: the parameter.
      parsed: the formula.
      common: the columns of its terms outside bars, as learnt from training.
      step: for effects cs(x) of a cutpoint's own its number; None for a parameter.
    """

    name: str
    parsed: Formula
    common: DesignColumns
    step: int | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the coefficients: "sigma_x"; "x[0]" of a cutpoint."""
        if self.step is None:
            return tuple(f"{self.name}_{label}" for label in self.common.labels)
        return tuple(name_at_level(label, str(self.step)) for label in self.common.labels)


class Rows(NamedTuple):
    """Rows of a table, as a regression reads them.

    Attributes:
      x: columns of common effects, (N, p).
      offset: known part of the predictor, (N,); of each predictor, (N, C), where parameters of the
        law have formulas.
      steps: indicators of the steps of monotone terms, (N, steps of all).
      smooths: columns of each block of smooth terms, (N, q).
      z: columns of the effects of each factor, (N, d).
      groups: the group of each row by factor, (N,); -1 for a group that training does not have.
      new_levels: groups that training does not have, for each factor with such rows.
      notes: further remarks on these rows for the user.
    """

    x: Float[np.ndarray, "N p"]
    offset: Float[np.ndarray, " N *C"]
    steps: Float[np.ndarray, "N D"]
    smooths: tuple[Float[np.ndarray, "N q"], ...]
    z: tuple[Float[np.ndarray, "N d"], ...]
    groups: tuple[Int[np.ndarray, " N"], ...]
    new_levels: tuple[NewLevels, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def common(self) -> Float[np.ndarray, "N P"]:
        """The columns that are of no group: those of coefficients, steps of monotone terms, blocks
        of smooth terms."""
        return np.concatenate([self.x, self.steps, *self.smooths], 1)

    def part(self, places: slice | Int[np.ndarray, " n"]) -> Rows:
        """Some of the rows, with the notes of all."""
        return self._replace(
            x=self.x[places],
            offset=self.offset[places],
            steps=self.steps[places],
            smooths=tuple(columns[places] for columns in self.smooths),
            z=tuple(z[places] for z in self.z),
            groups=tuple(groups[places] for groups in self.groups),
            new_levels=tuple(new.part(places) for new in self.new_levels),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Design:
    """A formula with its columns as the rows of training define them; it reads new rows alike.

    Attributes:
      parsed: the formula.
      y: the response, (N,).
      trials: number of trials of each row, (N,); ones where the response is no proportion.
      labels: names of the columns of common effects; "Intercept" is the column of ones.
      categorical: True for a column that only codes categories.
      factors: the grouping factors; the one with the most effects comes first.
      rows: the rows of training.
      observed: how the response is read; None for a formula without one.
      against: categories of the response that have a predictor each, against the base; empty where
        there is one predictor.
      common: the columns of the terms outside bars, as learnt from training.
      schema: the columns with the role and the kind of each.
      further: formulas of parameters of the law, with their columns; they are predictors 1, 2, ...
        of a row.
      slots: the number of the predictor that each column of x enters.
      facts: what is known of the rows of training beside the response
        (`vijax.models.formulas.observation`).
      precisions: the column of the precisions of rows; None for an array, or without them.
    """

    parsed: Formula
    y: Float[np.ndarray, " N"]
    trials: Float[np.ndarray, " N"]
    labels: tuple[str, ...]
    categorical: tuple[bool, ...]
    factors: tuple[Factor, ...]
    rows: Rows
    observed: Response | None
    against: tuple[str, ...]
    common: DesignColumns
    schema: Schema
    further: tuple[ParameterTerms, ...]
    slots: tuple[int, ...]
    facts: Facts
    precisions: str | None = None

    @property
    def formula(self) -> str:
        """The formula as it was given."""
        return self.parsed.text

    @property
    def response(self) -> str:
        """The name of the response."""
        if self.observed is None:
            return ""
        return self.observed.name

    @property
    def levels(self) -> tuple[str, ...]:
        """The categories of the response in their order; y has their numbers. Among named
        categories the base comes first. Empty for a response of numbers."""
        if self.observed is None:
            return ()
        return self.observed.categories

    @property
    def is_main(self) -> Bool[np.ndarray, " p"]:
        """True for the columns of x that enter the predictor of the response."""
        return np.array(self.slots, int) == 0

    @property
    def main_offset(self) -> Float[np.ndarray, " N"]:
        """The known part of the predictor of the response in the rows of training."""
        return self.rows.offset.reshape(len(self.y), -1)[:, 0]

    @property
    def all_formulas(self) -> str:
        """All formulas as they were given."""
        of_parameters = (terms.parsed.text for terms in self.further if terms.step is None)
        return ", ".join([self.formula, *of_parameters])

    @property
    def learnt(self) -> tuple[DesignColumns, ...]:
        """The columns of the terms outside bars, for each predictor."""
        return (self.common, *(terms.common for terms in self.further))

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The beginning of the names of coefficients of each predictor: "", "sigma_"."""
        return ("", *(f"{terms.name}_" for terms in self.further))

    @property
    def steps(self) -> tuple[tuple[str, int, int], ...]:
        """The coefficient, the number of steps and the predictor of each monotone term."""
        predictors = enumerate(zip(self.prefixes, self.learnt, strict=True))
        return tuple(
            (prefix + steps.label, steps.size, slot)
            for slot, (prefix, learnt) in predictors
            for steps in learnt.steps
        )

    @property
    def smooths(self) -> tuple[tuple[str, int, int], ...]:
        """The name, the number of columns and the predictor of each block of smooth terms."""
        predictors = enumerate(zip(self.prefixes, self.learnt, strict=True))
        return tuple(
            (prefix + block.label, block.size, slot)
            for slot, (prefix, learnt) in predictors
            for block in learnt.smooth_blocks()
        )

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The variances of the coefficients of Gaussian processes, by the name of the block."""
        predictors = zip(self.prefixes, self.learnt, strict=True)
        return {
            prefix + block.label: block.kernel
            for prefix, learnt in predictors
            for block in learnt.smooth_blocks()
            if block.kernel is not None
        }

    @property
    def coefficients(self) -> tuple[str, ...]:
        """Names of the coefficients, column by column, and for each column by predictor."""
        return tuple(
            name_at_level(label, level)
            for label in self.labels
            for level in self.against or (None,)
        )

    def with_response(
        self, name: str, y: Float[np.ndarray, " n"], places: Int[np.ndarray, " n"]
    ) -> Design:
        """This design of a formula without a response, with one of its own in some of its rows.
        Knots, means, levels and groups stay those of all rows. The response is no column of the
        formula: where one has its name, it is called "y (response)"."""
        while name in self.schema.names:
            name = f"{name} (response)"
        quoted = quote_name(name)
        text = f"{quoted} {self.formula.lstrip()}"
        parsed = dataclasses.replace(
            self.parsed, text=text, response=Column(name, (0, len(quoted)))
        )
        schema = dataclasses.replace(
            self.schema,
            columns=(ColumnSchema(name, ("response",), "number"), *self.schema.columns),
            numbers=(name, *self.schema.numbers),
        )
        return dataclasses.replace(
            self,
            parsed=parsed,
            y=y,
            trials=np.ones(len(y)),
            rows=self.rows.part(places),
            facts={fact: numbers[places] for fact, numbers in self.facts.items()},
            observed=given_response(parsed),
            schema=schema,
        )

    def response_and_trials(
        self, table: Any
    ) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """The response of other rows and their trials; ValueError if its column is missing."""
        assert self.observed is not None
        rows = typed_table(table, self.schema.labels, self.schema.numbers)
        require_whole(rows, self.observed.columns)
        return self.observed.values(rows)

    def read_facts(self, table: Any) -> Facts:
        """Numbers of other rows beside the response, by name."""
        assert self.observed is not None
        rows = typed_table(table, self.schema.labels, self.schema.numbers)
        facts = self.observed.facts(rows)
        if "precision" in self.facts:
            expected = "the name of a column, to read other rows"
            require(self.precisions is not None, "precisions", expected, "an array")
            facts["precision"] = read_precisions(self.precisions, rows)
        return facts

    def row_precisions(self, table: Any) -> Float[np.ndarray, " N"] | None:
        """The precisions of rows: of training for None; of other rows by their column, one without
        it. None where the model has none."""
        if "precision" not in self.facts:
            return None
        if table is None:
            return self.facts["precision"]
        rows = typed_table(table, self.schema.labels, self.schema.numbers)
        if self.precisions is None or self.precisions not in rows.columns:
            return np.ones(len(rows))
        return read_precisions(self.precisions, rows)

    def own_parameters(self, law: Law) -> tuple[str, ...]:
        """The parameters of the law that have no formula and are not known."""
        without = {terms.name for terms in self.further}
        if self.observed is not None and not self.observed.has_sigma:
            without.add("sigma")
        return tuple(name for name in law.aux if name not in without)

    def read_rows(self, table: Any, new_levels: WhereNew = "draw") -> Rows:
        """Other rows, with the knots of splines, levels of categories and statistics of training.

        Args:
          table: any table with the columns of the terms.
          new_levels: "draw" takes groups that training does not have, "error" refuses them.

        Raises:
          ValueError: a column is missing, or has missing values or values that training does not
              have.
        """
        rows = typed_table(table, self.schema.labels, self.schema.numbers)
        rows.check_truths(self.schema)
        bars = [bar for factor in self.factors for bar in factor.bars]
        columns = [name for learnt in self.learnt for name in learnt.columns]
        for bar in bars:
            columns += bar.columns
        for factor in self.factors:
            columns += factor.columns
        require_whole(rows, columns)
        x, offset, steps = _side_by_side([learnt.matrix(rows) for learnt in self.learnt])
        own_labels = set(self.labels)  # those of cutpoints have no intercepts
        labels = (*self.common.labels, *(x for terms in self.further for x in terms.labels))
        x = x[:, [label in own_labels for label in labels]]
        groups = tuple(factor.row_groups(rows) for factor in self.factors)
        by_factor = zip(self.factors, groups, strict=True)
        new = [factor.new_levels(rows, row_groups) for factor, row_groups in by_factor]
        strangers = tuple(levels for levels in new if levels is not None)
        require(
            not strangers or new_levels == "draw",
            "table",
            "groups that training has",
            *_refusal(strangers),
        )
        notes = tuple(note for learnt in (*self.learnt, *bars) for note in learnt.beyond(rows))
        z = tuple(factor.effects(rows) for factor in self.factors)
        smooths = tuple(x for learnt in self.learnt for x in learnt.smooth_columns(rows))
        return Rows(x, offset, steps, smooths, z, groups, strangers, notes)


def _refusal(strangers: tuple[NewLevels, ...]) -> tuple[str, str]:
    remedy = (
        'Correct them, or take new_levels="draw": their effects are drawn from the law of groups.'
    )
    return "; ".join(map(str, strangers)), remedy


def name_at_level(name: str, level: str | None) -> str:
    """The name of a coefficient for one category of the response, as Bambi has it.

    >>> name_at_level("x", "b"), name_at_level("h[v]", "b"), name_at_level("x", None)
    ('x[b]', 'h[v, b]', 'x')
    """
    if level is None:
        return name
    if name.endswith("]"):
        return f"{name[:-1]}, {level}]"
    return f"{name}[{level}]"


def read(
    formula: str,
    table: Any,
    law: Law | None = None,
    base: str | None = None,
    functions: Functions | None = None,
    argument: str = "formula",
    order: Sequence[Any] | None = None,
    further: Sequence[str] = (),
    weights: Float[np.ndarray, " N"] | None = None,
) -> Design:
    """Reads a formula and a table.

    Args:
      formula: `response ~ terms`, as `vijax.glmm` describes it; or `~ terms`, without a response.
      table: columns by name (a dict, a table of pandas, polars or pyarrow), or the path of a file.
      law: the law of the response; None takes one of numbers. Laws of ordered categories have no
          intercept.
      base: the category that others are compared with, for named categories; None takes the first.
      functions: the user's own functions by name.
      argument: what the formula is called in messages.
      order: the categories of the response as they rise, for ordered ones; None takes numbers as
        they rise, or the order of an ordered column.
      further: formulas of parameters of the law, "sigma ~ terms".
      weights: positive weights of the rows, by which means, deviations and quantiles count; None
        for ones.

    Raises:
      ValueError: a formula that cannot be read, a column that the table lacks, missing values.
    """
    require(isinstance(formula, str), argument, "text", type(formula).__name__)
    functions = check_functions(functions)
    if law is None:
        law = LAWS["gaussian"]
    parsed = parse(formula, argument, functions)
    parameters = parse_parameters(further, law, functions)
    merged = merge(parsed, parameters.values())
    roles = column_roles(merged, bool(law.categories))
    rows = typed_table(table, *roles)
    require(len(rows) > 0, "table", "a row or more", "none")
    observed = None
    if parsed.response is not None:
        observed = read_response(parsed, rows, law, base, functions, order, weights)
    used = _used_columns(merged, observed)
    used.check(rows, argument)
    plain, specific = _split_specific(parsed, law)
    common = learn(parsed, plain, rows, functions, weights)
    further_terms = tuple(
        ParameterTerms(name, part, learn(part, part.addends, rows, functions, weights))
        for name, part in parameters.items()
    )
    if specific and observed is not None:
        step_columns = learn(parsed, specific, rows, functions, weights)
        _check_specific(common, step_columns, argument)
        further_terms = tuple(
            ParameterTerms(shift_name(step), parsed, step_columns, step)
            for step in range(len(observed.categories) - 1)
        )
    predictors = _predictors(common, further_terms, rows, law.is_ordered)
    effects = read_factors({"": parsed, **parameters}, rows, functions, weights)
    factors, z, groups = _largest_first(*effects)
    matrix, smooths = predictors.matrix, predictors.smooths
    y, trials, facts = _response_values(observed, rows, law, parameters)
    return Design(
        parsed=parsed,
        y=y,
        trials=trials,
        labels=predictors.labels,
        categorical=predictors.categorical,
        factors=factors,
        rows=Rows(matrix.x, matrix.offset, matrix.steps, smooths, z, groups),
        observed=observed,
        against=observed.categories[1:] if law.is_named and observed is not None else (),
        common=common,
        schema=used.schema(rows, roles),
        further=further_terms,
        facts=facts,
        slots=predictors.slots,
    )


Addends = list[tuple[str, Node]]
"""Signs and parts of a formula."""


def _split_specific(parsed: Formula, law: Law) -> tuple[Addends, Addends]:
    """The terms of all categories, and those of effects cs(x), without the cs.

    Raises:
      ValueError: cs(...) of a law without steps, after a minus, or of other than one term.
    """
    plain: Addends = []
    specific: Addends = []
    for sign, node in parsed.addends:
        if not (isinstance(node, Call) and node.function == "cs"):
            plain.append((sign, node))
            continue
        span = node.span
        if not law.has_steps:
            expected = 'family="sratio", for effects by category'
            remedy = "Of cumulative categories such effects can give negative probabilities."
            actual = f"{node} with {law.name!r}"
            raise refuse(parsed.argument, parsed.text, span, expected, actual, remedy)
        if sign == "-" or node.named or len(node.arguments) != 1:
            actual = f"{'-' * (sign == '-')}{node}"
            remedy = "Write cs(x) + cs(z)."
            raise refuse(parsed.argument, parsed.text, span, "cs(x), one term", actual, remedy)
        specific.append((sign, node.arguments[0]))
    return plain, specific


def _check_specific(common: DesignColumns, own: DesignColumns, argument: str) -> None:
    """Raises ValueError for effects cs(x) of no column, and beside those of x itself."""
    labels = [label for label in own.labels if label != "Intercept"]
    require(bool(labels), argument, "a column in cs(...)", "a number")
    repeated = sorted(set(labels) & set(common.labels))
    remedy = "The effects at cutpoints are whole ones: leave the common one out."
    require(
        not repeated,
        argument,
        "columns outside of cs(...), or inside",
        f"{repeated} in both",
        remedy,
    )


class _UsedColumns(NamedTuple):
    """The columns of a table that formulas read, by their part."""

    response: tuple[str, ...]
    terms: tuple[str, ...]
    grouping: tuple[str, ...]

    def check(self, rows: TypedTable, argument: str) -> None:
        """Raises ValueError if the table lacks one, or a row lacks a cell of one."""
        for name in (*self.response, *self.terms, *self.grouping):
            rows.column(argument, name)
        can_drop = argument == "formula"  # `glmm` has the argument, covariates of topics do not
        require_whole(rows, (*self.response, *self.terms, *self.grouping), can_drop)

    def schema(self, rows: TypedTable, read_as: ColumnRoles) -> Schema:
        """The columns, with the role and the kind of each."""
        by_role = (("response", self.response), ("term", self.terms), ("group", self.grouping))
        roles: dict[str, list[str]] = {}
        for role, names in by_role:
            for name in names:
                roles.setdefault(name, []).append(role)
        columns = []
        for name, column_roles in roles.items():
            column = rows.columns[name]
            kind, levels = column.kind, None
            if column_roles == ["group"] or kind == "label":
                kind, levels = "label", column.labels().levels()
            columns.append(ColumnSchema(name, tuple(column_roles), kind, levels))
        return Schema(tuple(columns), *read_as)


def _used_columns(merged: Formula, observed: Response | None) -> _UsedColumns:
    terms = term_columns(dataclasses.replace(merged, response=None))
    grouping = tuple(dict.fromkeys(_grouping_columns(merged)))
    if observed is None:
        return _UsedColumns((), terms, grouping)
    return _UsedColumns(observed.columns, terms, grouping)


class _Predictors(NamedTuple):
    """The columns of all predictors of a law, side by side; `Design` describes the fields."""

    matrix: Matrix
    smooths: tuple[Float[np.ndarray, "N q"], ...]
    labels: tuple[str, ...]
    categorical: tuple[bool, ...]
    slots: tuple[int, ...]


def _predictors(
    common: DesignColumns, further: Sequence[ParameterTerms], rows: TypedTable, is_ordered: bool
) -> _Predictors:
    """The columns of the predictor of the response, and of those of parameters. Laws of ordered
    categories have cutpoints, and no intercept."""
    learnt = [common, *(terms.common for terms in further)]
    matrix = _side_by_side([columns.matrix(rows) for columns in learnt])
    bare_labels = [label for columns in learnt for label in columns.labels]
    labels = [*common.labels, *(label for terms in further for label in terms.labels)]
    categorical = [is_code for columns in learnt for is_code in columns.categorical]
    slots = [slot for slot, columns in enumerate(learnt) for _ in columns.labels]
    if is_ordered:
        slopes = [i for i, label in enumerate(bare_labels) if label != "Intercept"]
        matrix = matrix._replace(x=matrix.x[:, slopes])
        labels = [labels[i] for i in slopes]
        categorical = [categorical[i] for i in slopes]
        slots = [slots[i] for i in slopes]
    smooths = tuple(block for columns in learnt for block in columns.smooth_columns(rows))
    return _Predictors(matrix, smooths, tuple(labels), tuple(categorical), tuple(slots))


def _largest_first(
    factors: Sequence[Factor], z: Sequence[np.ndarray], groups: Sequence[np.ndarray]
) -> tuple[tuple[Factor, ...], tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Factors with the columns of their effects and the groups of rows: the factor with the most
    effects comes first."""
    num_effects = [len(factor.levels) * len(factor.labels) for factor in factors]
    order = sorted(range(len(factors)), key=lambda i: -num_effects[i])
    return (
        tuple(factors[i] for i in order),
        tuple(z[i] for i in order),
        tuple(groups[i] for i in order),
    )


def _response_values(
    observed: Response | None, rows: TypedTable, law: Law, parameters: Collection[str]
) -> tuple[np.ndarray, np.ndarray, Facts]:
    """The response, its trials and facts beside it; ones where a formula has no response."""
    if observed is None:
        ones = np.ones(len(rows))
        return ones, ones, {}
    y, trials = observed.values(rows)
    facts = observed.facts(rows)
    _check_family(observed, law)
    _check_sigma(observed, parameters)
    return y, trials, facts


def _side_by_side(matrices: Sequence[Matrix]) -> Matrix:
    """The columns of all predictors, (N, p), their offsets, (N,) for one and (N, C) for more, and
    their steps."""
    if len(matrices) == 1:
        return matrices[0]
    x = np.concatenate([matrix.x for matrix in matrices], 1)
    offset = np.stack([matrix.offset for matrix in matrices], 1)
    return Matrix(x, offset, np.concatenate([matrix.steps for matrix in matrices], 1))


def parse_parameters(
    texts: Sequence[str], law: Law, functions: Collection[str] = ()
) -> dict[str, Formula]:
    """Formulas of parameters of a law, by the parameter. ValueError for another response than a
    parameter of this law, and for two formulas of one."""
    parameters: dict[str, Formula] = {}
    names = law.modelled_parameters
    expected = f'formulas of parameters of "{law.name}": {list(names)}'
    remedy = "Its predictor is that of the formula."
    if names:
        remedy = f'Write "{names[0]} ~ x".'
    for text in texts:
        parsed = parse(text, "formulas", functions)
        node = parsed.response
        if node is None:
            raise refuse("formulas", text, (0, 1), expected, "none to the left of ~", remedy)
        name = getattr(node, "name", str(node))
        if name not in names:
            raise refuse("formulas", text, node.span, expected, repr(name), remedy)
        require(name not in parameters, "formulas", "one for each parameter", f"two of {name!r}")
        parameters[name] = parsed
    return parameters


def merge(parsed: Formula, others: Iterable[Formula]) -> Formula:
    """A formula with the terms of others too, for the columns that they read."""
    formulas = [parsed, *others]
    addends = tuple(addend for formula in formulas for addend in formula.addends)
    bars = tuple(bar for formula in formulas for bar in formula.bars)
    return dataclasses.replace(parsed, addends=addends, bars=bars)


def check_functions(functions: Mapping[str, Any] | None) -> Functions:
    """The user's own functions; ValueError if one has a listed name or is not a function."""
    is_mapping = functions is None or isinstance(functions, Mapping)
    require(is_mapping, "functions", "functions by name: {'f': f}", type(functions).__name__)
    for name, function in (functions or {}).items():
        listed = (*COLUMN_MAKERS, *RESPONSES, CLASS_COUNTS, *PARTLY_KNOWN, *SPELLINGS)
        is_listed = name in listed
        is_free = isinstance(name, str) and name.isidentifier() and not is_listed
        require(is_free, "functions", "names that no listed function has", name)
        require(
            callable(function), "functions", f"a function for {name!r}", type(function).__name__
        )
    return dict(functions or {})


class ColumnRoles(NamedTuple):
    """The roles in which a formula reads the columns of a file.

    Attributes:
      labels: names of levels, exact text.
      numbers: numbers, or text where the column has none.
    """

    labels: tuple[str, ...]
    numbers: tuple[str, ...]


def _grouping_columns(parsed: Formula) -> list[str]:
    return [name for bar in parsed.bars for name in bar.columns]


def _term_nodes(parsed: Formula) -> list[Node]:
    """The terms outside bars, and those before each bar."""
    return [node for _, node in parsed.addends] + [bar.terms for bar in parsed.bars]


def column_roles(parsed: Formula, has_categories: bool = False) -> ColumnRoles:
    """The roles of columns; `has_categories` says that the response is one of categories."""
    nodes = _term_nodes(parsed)
    labels = _grouping_columns(parsed)
    response = parsed.response
    is_label = has_categories and isinstance(response, Column)
    if response is not None and not is_label:
        nodes.append(response)
    labels += [name for node in nodes for name in label_columns(node)]
    if response is not None and is_label:
        labels += find_columns(response)
    numbers = [name for node in nodes for name in number_columns(node)]
    return ColumnRoles(tuple(dict.fromkeys(labels)), tuple(dict.fromkeys(numbers)))


def read_table(
    formula: str,
    table: Any,
    functions: Functions | None = None,
    family: str | None = None,
    further: Sequence[str] = (),
) -> TypedTable:
    """A table, read for a formula and `further` ones of parameters; levels in a file are exact
    text."""
    functions = check_functions(functions)
    parsed = parse(formula, functions=functions)
    parsed = merge(parsed, [parse(text, "formulas", functions) for text in further])
    has_categories = family is not None and bool(LAWS[family].categories)
    return typed_table(table, *column_roles(parsed, has_categories))


def term_columns(parsed: Formula) -> tuple[str, ...]:
    """The columns that a formula reads as numbers or categories, in its terms and its response."""
    nodes = _term_nodes(parsed)
    if parsed.response is not None:
        nodes.append(parsed.response)
    return tuple(dict.fromkeys(name for node in nodes for name in find_columns(node)))


def named_columns(parsed: Formula, with_response: bool = True) -> tuple[str, ...]:
    """The columns that a formula names."""
    if not with_response:
        parsed = dataclasses.replace(parsed, response=None)
    return tuple(dict.fromkeys((*term_columns(parsed), *_grouping_columns(parsed))))


def usual_family(formula: str, rows: TypedTable, functions: Functions | None = None) -> str:
    """The name of the law that follows the response."""
    parsed = parse(formula, functions=check_functions(functions))
    return family_of_response(parsed, rows)


def _check_family(observed: Response, law: Law) -> None:
    """Raises ValueError if a response of two categories has a law of numbers."""
    allows_two = law.name in ("bernoulli", "binomial") or law.categories
    remedy = (
        f'{observed.name} is 1 where it is {observed.level!r}: family="bernoulli", or give numbers.'
    )
    actual = f"{law.name!r} for a column of two categories"
    require(observed.kind != "level" or allows_two, "family", "a law of categories", actual, remedy)


def require_whole(rows: TypedTable, names: Any, can_drop: bool = False) -> None:
    """Raises ValueError if columns have missing values, with the names of their rows. `can_drop`
    says that the caller has an argument that leaves them out."""
    holes = {}
    for name in dict.fromkeys(names):
        missing = np.flatnonzero(rows.column("table", name).missing)
        if len(missing):
            holes[name] = missing
    actual = " and ".join(
        f"none of {name!r} in {rows.list_rows(missing.tolist())}" for name, missing in holes.items()
    )
    cells = [
        cell
        for name, places in holes.items()
        for cell in rows.column("table", name).values[places].tolist()
    ]
    are_blank = any(isinstance(cell, str) for cell in cells)
    # Pandas takes blanks for a value.
    cleaned = "table.replace(r'^\\s*$', float('nan'), regex=True)" if are_blank else "table"
    with_pandas = f"{cleaned}.dropna(subset={list(holes)})"
    remedy = f"Remove these rows, with pandas as {with_pandas}, or fill them in."
    if can_drop:
        remedy = f'Pass missing="drop" to leave them out, as {with_pandas} does, or fill them in.'
    require(not holes, "table", "values in all columns of the formula", actual, remedy)


def _check_sigma(observed: Response, parameters: Collection[str]) -> None:
    """Raises ValueError if known standard errors stand in place of a sigma with a formula."""
    is_free = observed.has_sigma or "sigma" not in parameters
    remedy = "Write se(y, s, sigma=True) for both."
    require(is_free, "formulas", "none of sigma, which is known", "one of sigma", remedy)
