"""A look at a table: its columns, which of them are identifiers, which could be a target or a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from vijax.app.looks.look import Look
from vijax.app.settings.typed_toml import ConfigError, flatten
from vijax.data.tables.columns import are_missing, as_numbers, not_numbers
from vijax.data.tables.table_files import read_columns

MOST_LISTED = 30
"""Columns that are told of."""
WIDE = 10.0
"""Deviations of columns that differ by more are brought to one scale."""
MANY = 15
"""Columns beyond which covariances are taken diagonal."""
KINDS = {"binary": "two classes", "count": "counts 0, 1, 2, ...", "real": "numbers"}


class Column(NamedTuple):
    """What is known of a column.

    Attributes:
      name: its name.
      values: numbers, NaN where one is missing; None of text.
      distinct: how many different values there are.
      missing: how many are missing.
      number: of rows.
    """

    name: str
    values: np.ndarray | None
    distinct: int
    missing: int
    number: int

    @property
    def counts(self) -> bool:
        """Whether all are 0, 1, 2, ..."""
        return self.values is not None and not self.missing and bool(np.all(_whole(self.values) & (self.values >= 0)))

    @property
    def binary(self) -> bool:
        """Whether all are 0 or 1."""
        return self.values is not None and bool(np.isin(self.values, (0.0, 1.0)).all())

    @property
    def identifies(self) -> bool:
        """Whether it numbers the rows, or names each of them."""
        unique = self.distinct == self.number > 2
        return unique and (self.values is None or (not self.missing and bool(np.all(_whole(self.values)))))

    def suits(self, kind: str) -> bool:
        """Whether it could be a target of that kind."""
        if kind == "binary":
            return self.distinct == 2 and not self.missing
        if self.values is None or self.missing or self.distinct < 3 or self.identifies:
            return False
        return self.counts if kind == "count" else True

    def __str__(self) -> str:
        if self.identifies:
            return f"{self.name}: identifies the rows"
        missing = f", {self.missing:,} missing" if self.missing else ""
        if self.values is None:
            return f"{self.name}: text, {self.distinct:,} different{missing}"
        low, high = np.nanmin(self.values), np.nanmax(self.values)
        return f"{self.name}: numbers from {low:.4g} to {high:.4g}, {self.distinct:,} different{missing}"


def _whole(values: np.ndarray) -> np.ndarray:
    return values == np.floor(values)


def columns_at(data: str) -> list[Column]:
    """The columns of a table, in their order."""
    return [_column(name, values) for name, values in read_columns(data).items()]


def _column(name: str, values: np.ndarray) -> Column:
    text = bool(not_numbers(values).any())
    numbers = None if text else as_numbers(values)
    missing = are_missing(values) if numbers is None else np.isnan(numbers)
    known = (values if numbers is None else numbers)[~missing]
    distinct = len(set(map(str, known.tolist())))
    return Column(name, numbers if len(known) else None, distinct, int(missing.sum()), len(values))


# --- tables ----------------------------------------------------------------------------------------------------------
def look_at_table(data: str, listing: Any, begun: Any) -> Look:
    """Which columns are what, as far as can be told, and settings that suit them.

    Raises:
      ConfigError: no column could be the target that the model predicts, or none is of numbers.
    """
    found = columns_at(data)
    known = flatten(begun)
    kind = listing.target(begun.model) if listing.target is not None and "model.image" not in known else None
    target = _target(found, kind, data, listing.name) if kind else None
    group = _group([c for c in found if c is not target]) if listing.wants_group else None
    left = [c for c in found if c not in (target, group)]
    columns = [c for c in left if c.values is not None and not c.identifies and (listing.missing or not c.missing)]
    if not columns:
        raise ConfigError(f"{data}: no column of numbers is left to learn from: {'; '.join(map(str, found))}")
    settings: dict[str, Any] = {"data.columns": [c.name for c in columns]}
    why = {"data.columns": _left_out([c for c in left if c not in columns])}
    if target is not None:
        settings["data.target"] = target.name
        why["data.target"] = (
            f"The last column of {KINDS[listing.target(begun.model)]}; name another if it is not the one."
        )
    if group is not None:
        settings["data.group"] = group.name
        why["data.group"] = f"{group.distinct:,} different in {group.number:,} rows."
    units = group.distinct if group else 1 if listing.wants_group else found[0].number
    settings["data.held_out"] = 0.0 if units == 1 else 0.1 if units >= 10 else -(-100 // units) / 100
    if listing.wants_group and group is None:
        why["data.held_out"] = "No column looks like groups, and so all rows are one."
    settings |= _scale(columns) | _emission(columns, known) | _networks(columns, known) | _batches(known, found)
    facts = [f"{found[0].number:,} rows; columns:", *(f"  {column}" for column in found[:MOST_LISTED])]
    facts += [f"  and {len(found) - MOST_LISTED} more"] if len(found) > MOST_LISTED else []
    return Look(facts, settings, {key: text for key, text in why.items() if text}, WITHOUT)


def _target(found: list[Column], kind: str, data: str, model: str) -> Column:
    candidates = [column for column in found if column.suits(kind)]
    if not candidates:
        known = "; ".join(map(str, found[:MOST_LISTED]))
        raise ConfigError(f"{data}: {model} predicts a column of {KINDS[kind]}, and there is none: {known}")
    return candidates[-1]


def _group(found: list[Column]) -> Column | None:
    """A column whose values come again and again: one of text, or else of whole numbers."""
    repeated = [c for c in found if 2 <= c.distinct <= c.number / 2 and not c.missing]
    text = [c for c in repeated if c.values is None]
    return next(iter([*text, *(c for c in repeated if c.counts)]), None)


def _left_out(columns: list[Column]) -> str:
    return f"Left out: {'; '.join(map(str, columns[:MOST_LISTED]))}." if columns else ""


def _scale(columns: list[Column]) -> dict[str, Any]:
    if all(column.counts for column in columns):
        return {}
    deviations = [float(np.nanstd(c.values)) for c in columns if c.values is not None]
    spread = [d for d in deviations if d > 0]
    return {"data.standardise": bool(spread and max(spread) > WIDE * min(spread))}


def _emission(columns: list[Column], known: Mapping[str, Any]) -> dict[str, Any]:
    """What components emit: binary columns, counts, or numbers."""
    if "model.emission.name" not in known:
        return {}
    if all(column.binary for column in columns):
        return {"model.emission.name": "bernoulli"}
    if all(column.counts for column in columns):
        return {"model.emission.name": "poisson"}
    return {"model.emission.name": "full_gaussian" if len(columns) <= MANY else "diagonal_gaussian"}


def _networks(columns: list[Column], known: Mapping[str, Any]) -> dict[str, Any]:
    if "model.networks.hidden" not in known:
        return {}
    law = "bernoulli" if all(column.binary for column in columns) else "gaussian"
    size = min(known["model.latent_dim"], max(1, len(columns) // 2))
    return {"model.observed.name": law, "model.latent_dim": size}


def _batches(known: Mapping[str, Any], found: list[Column]) -> dict[str, Any]:
    size = known["fit.batch_size"]
    return {} if size is None else {"fit.batch_size": min(size, max(1, found[0].number // 4))}


OF_EMISSIONS = ("location", "strength", "variance", "degrees", "shape", "rate", "alpha", "beta", "eta")
WITHOUT = frozenset(
    ["model.image", "model.observed.threshold", "model.observed.sd"]
    + [f"model.emission.{name}" for name in OF_EMISSIONS]
)
"""Settings of the data that a configuration is tried on."""
