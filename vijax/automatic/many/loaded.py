"""`vijax.glmm.many.load`: fits of a file, with the table and the responses that they were fitted
to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from jaxtyping import PRNGKeyArray

from vijax.automatic.many.columns import read_responses
from vijax.automatic.many.fits import ManyFits
from vijax.automatic.many.marks import are_equal, differing_columns, mark_numbers
from vijax.automatic.many.regressions import (
    Request,
    RowNumbers,
    Task,
    column_reader,
    fit_task,
    make_task,
    many,
    model_maker,
    read_shared_rows,
)
from vijax.automatic.many.saved import read_saved_fits
from vijax.checks import require
from vijax.models.formulas import formula as reader
from vijax.models.formulas.laws import find_law
from vijax.models.formulas.weighted import with_positive_weight


def load(path: str | Path, table: Any = None, responses: Any = None) -> ManyFits:
    """Fits that `ManyFits.save` has written.

    Args:
      path: the file.
      table: the table of training, for `predictors` of other rows. Its weights and
        precisions are in the file.
      responses: the responses of training, for `model` of one of them; with the table.

    Raises:
      ValueError: a file of something else, a table or responses of other numbers.
    """
    fields = read_saved_fits(path)
    fits = ManyFits(**fields)
    if table is None:
        expected = "the table of training beside the responses"
        require(responses is None, "table", expected, "none")
        return fits
    typed = reader.read_table(fits.formula, table)
    expected = f"the {len(fits.weights)} rows of training"
    require(len(typed) == len(fits.weights), "table", expected, f"{len(typed)} rows")
    rows, _ = with_positive_weight(typed, fits.weights)
    changed_columns = differing_columns(rows, fits.marks["table"])
    remedy = "Pass the rows that were fitted, in their order."
    actual = f"other cells in {changed_columns}"
    require(not changed_columns, "table", "the table of training", actual, remedy)
    law = find_law(fits.family, fits.quantile)
    request = Request(fits.formula, law, fits.priors, fits.nodes)
    precisions = None
    if fits.precisions.size:
        precisions = fits.precisions
    row_numbers = RowNumbers(fits.weights, precisions, fits.precision_column)
    shared = read_shared_rows(request, typed, row_numbers)
    design = shared.design
    is_same = design.coefficients == fits.coefficients
    require(is_same, "table", f"one with {list(fits.coefficients)}", design.coefficients)
    fields["read_columns"] = column_reader(design)
    if responses is not None:
        columns = read_responses(responses, table, len(typed))
        columns = columns._replace(values=columns.values[fits.weights > 0])
        is_own = columns.names == fits.responses
        is_own &= are_equal(mark_numbers(columns.values), fits.marks["responses"])
        require(is_own, "responses", "the responses of training", "others", remedy)
        fields["make_model"] = model_maker(Task(request, shared, columns))
    return ManyFits(**fields)


P = ParamSpec("P")
Made = TypeVar("Made", covariant=True)


class Many(Protocol):
    """`vijax.glmm.many`, and with it `load`, and its two halves: `task` reads and checks, `fit`
    fits."""

    load: Callable[..., ManyFits]
    task: Callable[..., Task]
    fit: Callable[..., ManyFits]

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
    typed_many.task = make_task
    typed_many.fit = fit_task
    typed = cast(WithMany[P, Made], function)
    typed.many = typed_many
    return typed
