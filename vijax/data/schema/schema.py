"""The schema of a table: what each column was taken for when training data came in. Later tables
are read by it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from vijax.checks import require
from vijax.data.schema.labels import Levels


@dataclasses.dataclass(frozen=True)
class ColumnSchema:
    """A column, and what it was taken for.

    Attributes:
      name: its name.
      roles: "response", "term" or "group", what the model reads it as.
      kind: "number", "truth" (True and False), "label" or "time".
      levels: of labels; None of numbers.
      unit: of numbers, where one was given.
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
      columns: each once.
      labels: names of those whose text is exact in a file: they name levels.
      numbers: names of those that are read as numbers, or as text where they are none.
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
            levels = (
                None
                if column.levels is None
                else {"names": list(column.levels.names), "kind": column.levels.kind}
            )
            columns.append(
                {**dataclasses.asdict(column), "roles": list(column.roles), "levels": levels}
            )
        return {"columns": columns, "labels": list(self.labels), "numbers": list(self.numbers)}

    @classmethod
    def from_json(cls, outline: Mapping[str, Any]) -> Schema:
        """The schema of `to_json`; KeyError or TypeError for what is none."""
        columns = []
        for entry in outline["columns"]:
            levels = entry["levels"]
            own = (
                None if levels is None else Levels(tuple(map(str, levels["names"])), levels["kind"])
            )
            roles = tuple(map(str, entry["roles"]))
            columns.append(
                ColumnSchema(str(entry["name"]), roles, str(entry["kind"]), own, entry["unit"])
            )
        return cls(
            tuple(columns), tuple(map(str, outline["labels"])), tuple(map(str, outline["numbers"]))
        )
