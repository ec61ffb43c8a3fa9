"""Names of columns in a stream: those of the first table, by which the columns of later tables are
found."""

from __future__ import annotations

import warnings
from typing import Any

import jax
from jaxtyping import PyTree

from vijax.data.reading.checks import DataError, listed
from vijax.data.schema.by_name import matrix_names, order_columns, table_names
from vijax.data.schema.named_columns import check_rows

REMEDY = (
    "Have the source give tables with the columns of its first batch, in any order; others are "
    "left out."
)


class NamedBatches:
    """The columns of a stream's tables by name, in the order of the first batch; arrays are taken
    as they come.

    Attributes:
      leaf_columns: the names of the columns of each table or array in a batch, None where it has
        none; None before the first batch.
    """

    def __init__(self) -> None:
        self.leaf_columns: tuple[tuple[str, ...] | None, ...] | None = None
        self._keys: tuple[str, ...] | None = None  # of batches that are mappings
        self._has_said = False

    def arrange(self, data: PyTree, step: int) -> PyTree:
        """A batch with the columns of the first, in their order; warns once of columns left out.

        Raises:
          DataError: a table lacks a column, or has two of one name; or the rows of several tables
            are in different orders.

        >>> import pandas
        >>> batches, first = NamedBatches(), pandas.DataFrame({"a": [1.0], "b": [2.0]})
        >>> [batches.arrange(table, step).to_numpy().tolist() for step, table in enumerate([first, first[["b", "a"]]])]
        [[[1.0, 2.0]], [[1.0, 2.0]]]
        """
        try:
            check_rows(data, "batch")
        except ValueError as error:
            raise DataError(f"batch of step {step}: {error}") from error
        is_first = self.leaf_columns is None
        if is_first and isinstance(data, dict):
            self._keys = table_names(data)
        if self._keys is not None and isinstance(data, dict):
            data = self._arrange_table(self._keys, data, step)
        leaves, structure = jax.tree.flatten(data)
        if self.leaf_columns is None:
            self.leaf_columns = tuple(map(matrix_names, leaves))
        if len(leaves) != len(self.leaf_columns):  # the loader says so
            return data
        pairs = zip(self.leaf_columns, leaves, strict=True)
        arranged = [
            leaf if names is None else self._arrange_table(names, leaf, step)
            for names, leaf in pairs
        ]
        return jax.tree.unflatten(structure, arranged)

    def _arrange_table(self, names: tuple[str, ...], table: Any, step: int) -> Any:
        location = f"batch of step {step}"
        try:
            arranged = order_columns(names, table, location, "the first batch", REMEDY)
        except ValueError as error:
            raise DataError(str(error)) from error
        extra = [name for name in table_names(table) or () if name not in names]
        if arranged is not table and extra and not self._has_said:
            self._has_said = True
            text = f"{location}: not read: {listed(extra)}, which the first batch does not have."
            warnings.warn(f"{text} So it is with later batches.", stacklevel=2)
        return arranged
