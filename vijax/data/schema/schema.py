"""The schema of a table: the kind of each column as decided from the training data. Later tables
are read by it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from vijax.checks import require
from vijax.data.schema.labels import Levels


@dataclasses.dataclass(frozen=True)
class ColumnSchema:
    """A column, and how it is read.

    Attributes:
      name: its name.
      roles: the roles in which the model reads it: "response", "term" or "group".
      kind: "number", "truth" (True and False), "label" or "time".
      levels: levels of labels; None for numbers.
      unit: unit of numbers, if given.
    """

    name: str
    roles: tuple[str, ...]
    kind: str
    levels: Levels | None = None
    unit: str | None = None


@dataclasses.dataclass(frozen=True)
class Schema:
    """The columns that a model reads.

    Attributes:
      columns: the columns, each once.
      labels: names of columns whose text is exact in a file, as they name levels.
      numbers: names of columns that are read as numbers, or else as text.
    """

    columns: tuple[ColumnSchema, ...]
    labels: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> ColumnSchema:
        require(name in self.names, "name", f"one of the columns {list(self.names)}", repr(name))
        return self.columns[self.names.index(name)]

    def to_json(self) -> dict[str, Any]:
        """The schema in JSON's own types.

        >>> schema = Schema((ColumnSchema("g", ("group",), "label", Levels(("a", "b"), "text")),), ("g",))
        >>> Schema.from_json(schema.to_json()) == schema
        True
        """
        columns = []
        for column in self.columns:
            levels = None
            if column.levels is not None:
                levels = {"names": list(column.levels.names), "kind": column.levels.kind}
            entry = {**dataclasses.asdict(column), "roles": list(column.roles), "levels": levels}
            columns.append(entry)
        return {"columns": columns, "labels": list(self.labels), "numbers": list(self.numbers)}

    @classmethod
    def from_json(cls, outline: Mapping[str, Any]) -> Schema:
        """The schema of `to_json`; KeyError or TypeError for anything else."""
        columns = []
        for entry in outline["columns"]:
            levels = None
            if entry["levels"] is not None:
                names = tuple(map(str, entry["levels"]["names"]))
                levels = Levels(names, entry["levels"]["kind"])
            roles = tuple(map(str, entry["roles"]))
            columns.append(
                ColumnSchema(str(entry["name"]), roles, str(entry["kind"]), levels, entry["unit"])
            )
        labels = tuple(map(str, outline["labels"]))
        return cls(tuple(columns), labels, tuple(map(str, outline["numbers"])))
