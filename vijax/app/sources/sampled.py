"""Tables in Parquet files of which a run holds a sample in memory, for its page and its score; it
reads the others by parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import PyTree

from vijax.app.settings.sections import EnergyAlgorithm, ProximalAlgorithm
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.sources.listing import Data
from vijax.data.reading.checks import Notes
from vijax.data.reading.partitions import index_note
from vijax.data.reading.store import Block
from vijax.data.schema.row_names import RowNames
from vijax.data.streams.permutation import Permutation
from vijax.data.streams.rows import SPLIT, Rows, number_columns, read_heads, table_from_heads
from vijax.data.tables.columns import NamedColumns
from vijax.data.tables.table import Choice, Table, make_table


@dataclasses.dataclass(frozen=True)
class TableSample(Table):
    """A sample of the training rows of a table.

    Attributes:
      whole: all its training rows, read by parts.
      choice: the columns of x and the target.
    """

    whole: Rows = dataclasses.field(kw_only=True)
    choice: Choice = dataclasses.field(kw_only=True)

    def __len__(self) -> int:
        return self.whole.num_groups

    def read_as(self, arrange: Callable[[Any, Any], PyTree], settings: Any) -> Rows:
        """All training rows as a model reads them, in the units of the sample."""
        fields = {field.name: getattr(self.whole, field.name) for field in dataclasses.fields(Rows)}
        return _ArrangedRows(
            **fields,
            of=lambda table: arrange(self._standardise(table), settings),
            choice=self.choice,
        )

    def _standardise(self, table: Table) -> Table:
        if self.scaling is None:
            return table
        return table.standardise(self.scaling)


@dataclasses.dataclass(frozen=True)
class _ArrangedRows(Rows):
    """Rows as a model reads them."""

    of: Callable[[Table], PyTree] = dataclasses.field(kw_only=True)
    choice: Choice = dataclasses.field(kw_only=True)

    def read(self, block: Block) -> PyTree:
        names = RowNames(np.arange(block.above + 1, block.above + block.count + 1))
        return self.of(
            make_table(NamedColumns(super().read(block), names), self.choice, block.file)
        )


def load_sample(config: Any, choice: Choice) -> Data | None:
    """The data of a run on a table in Parquet files; None if all rows may be held in memory.

    Args:
      config: the settings of the run.
      choice: the columns that it reads.

    Raises:
      ConfigError: there are more rows, and the model or its algorithm needs all of them.
    """
    section = config.data
    heads = read_heads(section.path)
    numbers, index = number_columns(heads) if choice.columns is None else ((), ())
    roles = (choice.target, choice.group)
    names = choice.columns or tuple(name for name in numbers if name not in roles)
    target = [choice.target] if choice.target else []
    wanted = dict.fromkeys((*names, *target))
    table = table_from_heads(heads, {name: name for name in wanted}, section.held_mb << 20)
    if table.num_groups <= section.sample:
        return None
    _check(config, table.num_groups)
    num_held_out, remark = held_out_number(section, table.num_groups)
    train, test = table.split(num_held_out, section.split_seed) if num_held_out else (table, None)
    order = Permutation(train.num_groups, (section.split_seed, SPLIT + 1))
    rows = np.sort(order(np.arange(min(section.sample, train.num_groups))))
    notes = Notes()
    for name in index:
        notes.add(index_note(name))
    notes.add(
        f"There are more rows than data.sample: the page and its pictures are of {len(rows):,} of "
        f"them.{remark}"
    )
    like = make_table(
        _take_rows(train, rows), choice._replace(columns=tuple(names)), section.path, notes
    )
    choice = choice._replace(columns=like.columns, classes=like.classes)
    test_table = None
    if test is not None:
        test_table = make_table(_take_rows(test, np.arange(num_held_out)), choice, section.path)
    if section.standardise:
        manner: Any = "each" if section.standardise is True else section.standardise
        like = like.standardise(manner=manner)
        if test_table is not None:
            test_table = test_table.standardise(like.scaling)
    fields = {field.name: getattr(like, field.name) for field in dataclasses.fields(Table)}
    return Data(TableSample(**fields, whole=train, choice=choice), test_table)


def _take_rows(rows: Rows, numbers: np.ndarray) -> NamedColumns:
    """Some of the rows, with their names."""
    return NamedColumns(rows.take(numbers), rows.row_names(numbers))


def held_out_number(section: Any, total: int) -> tuple[int, str]:
    """The number of rows or documents to hold out, and a remark if `data.held_out` asks for more.

    >>> from types import SimpleNamespace
    >>> held_out_number(SimpleNamespace(held_out=0.5, sample=100), 1000)
    (100, ' Held out are data.sample=100, in place of the 500 of data.held_out=0.5.')
    """
    wanted = round(section.held_out * total)
    remark = (
        f" Held out are data.sample={section.sample:,}, in place of the {wanted:,} of "
        f"data.held_out={section.held_out:g}."
    )
    return min(wanted, section.sample), remark if wanted > section.sample else ""


def _check(config: Any, number: int) -> None:
    """Raises a `ConfigError` if the rows cannot be read by parts."""
    section = config.data
    listing = config.listing
    algorithm = config.algorithm
    obstacles = {
        f"{listing.name} reads groups of rows, which parts would cut": listing.wants_group,
        "each row has a site in the posterior, which is held": isinstance(
            algorithm, ProximalAlgorithm
        ),
        listing.not_by_parts: bool(listing.not_by_parts),
        f"the start, scales and page of {listing.name} are made of all rows; in Python: "
        "vijax.fit(vijax.aevb(model), vijax.data.rows(...), batch_size=1000)": not isinstance(
            algorithm, EnergyAlgorithm | ProximalAlgorithm
        ),
        f"what {listing.name} finds is of the training rows themselves": listing.needs_rows,
        "data.hold_out=entries holds them all": section.hold_out == "entries",
        "data.num_rows keeps some in the order of the files": section.num_rows is not None,
        "data.missing=drop leaves some of them out": section.missing == "drop"
        and not listing.missing,
        "data.missing_words looks at whole columns": bool(section.missing_words),
        "algorithm.warm_starts remembers something of each": getattr(
            algorithm, "warm_starts", False
        ),
        f"algorithm.name={algorithm.name} reads all of them at each step; algorithm.name=svi does "
        "not": (algorithm.name in ("em", "map", "cavi") and config.fit.batch_size is None),
    }
    for obstacle, is_so in obstacles.items():
        if is_so:
            raise ConfigError(
                f"{section.path}: {number:,} rows are more than data.sample={section.sample:,}, "
                f"and so they are read by parts; but {obstacle}. To hold all of them, set "
                f"data.sample={number}"
            )
