"""Tables in Parquet files of which a run holds a sample, for its page and its score, and reads the
rest by parts."""

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
      whole: all of its training rows, read by parts.
      choice: the columns of x and the target.
    """

    whole: Rows = dataclasses.field(kw_only=True)
    choice: Choice = dataclasses.field(kw_only=True)

    def __len__(self) -> int:
        return self.whole.num_groups

    def read_as(self, arrange: Callable[[Any, Any], PyTree], settings: Any) -> Rows:
        """All training rows as a model reads them, in the units of the sample."""
        of = {field.name: getattr(self.whole, field.name) for field in dataclasses.fields(Rows)}
        return _ArrangedRows(
            **of, of=lambda table: arrange(self._scaled(table), settings), choice=self.choice
        )

    def _scaled(self, table: Table) -> Table:
        return table if self.scaling is None else table.standardise(self.scaling)


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
    """The data of a run on a table in Parquet files; None where the table has no more rows than may
    be held.

    Raises:
      ConfigError: the table has more, and the model or its algorithm needs all of them.
    """
    given = config.data
    heads = read_heads(given.path)
    numbers, index = number_columns(heads) if choice.columns is None else ((), ())
    names = choice.columns or tuple(
        name for name in numbers if name not in (choice.target, choice.group)
    )
    every = dict.fromkeys((*names, *([choice.target] if choice.target else [])))
    table = table_from_heads(heads, {name: name for name in every}, given.held_mb << 20)
    if table.num_groups <= given.sample:
        return None
    _check(config, table.num_groups)
    out, few = held_out_number(given, table.num_groups)
    train, test = table.split(out, given.split_seed) if out else (table, None)
    order = Permutation(train.num_groups, (given.split_seed, SPLIT + 1))
    held = np.sort(order(np.arange(min(given.sample, train.num_groups))))
    notes = Notes()
    for name in index:
        notes.add(index_note(name))
    notes.add(
        f"There are more rows than data.sample: the page and its pictures are of {len(held):,} of "
        f"them.{few}"
    )
    like = make_table(
        _take_rows(train, held), choice._replace(columns=tuple(names)), given.path, notes
    )
    choice = choice._replace(columns=like.columns, classes=like.classes)
    apart = (
        None if test is None else make_table(_take_rows(test, np.arange(out)), choice, given.path)
    )
    if given.standardise:
        like = like.standardise(manner="each" if given.standardise is True else given.standardise)
        apart = None if apart is None else apart.standardise(like.scaling)
    fields = {field.name: getattr(like, field.name) for field in dataclasses.fields(Table)}
    return Data(TableSample(**fields, whole=train, choice=choice), apart)


def _take_rows(rows: Rows, numbers: np.ndarray) -> NamedColumns:
    """Some of the rows, with their names."""
    return NamedColumns(rows.take(numbers), rows.row_names(numbers))


def held_out_number(given: Any, total: int) -> tuple[int, str]:
    """The number of rows or documents that are held out, and what to say where `data.held_out` asks
    for more.

    >>> from types import SimpleNamespace
    >>> held_out_number(SimpleNamespace(held_out=0.5, sample=100), 1000)
    (100, ' Held out are data.sample=100, in place of the 500 of data.held_out=0.5.')
    """
    asked = round(given.held_out * total)
    few = (
        f" Held out are data.sample={given.sample:,}, in place of the {asked:,} of "
        f"data.held_out={given.held_out:g}."
    )
    return min(asked, given.sample), few if asked > given.sample else ""


def _check(config: Any, number: int) -> None:
    """Raises a `ConfigError` where the rows cannot be read by parts."""
    given, listing, algorithm = config.data, config.listing, config.algorithm
    wrong = {
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
        "data.hold_out=entries holds them all": given.hold_out == "entries",
        "data.num_rows keeps some in the order of the files": given.num_rows is not None,
        "data.missing=drop leaves some of them out": given.missing == "drop"
        and not listing.missing,
        "data.missing_words looks at whole columns": bool(given.missing_words),
        "algorithm.warm_starts remembers something of each": getattr(
            algorithm, "warm_starts", False
        ),
        f"algorithm.name={algorithm.name} reads all of them at each step; algorithm.name=svi does "
        "not": (algorithm.name in ("em", "map", "cavi") and config.fit.batch_size is None),
    }
    for why, is_so in wrong.items():
        if is_so:
            raise ConfigError(
                f"{given.path}: {number:,} rows are more than data.sample={given.sample:,}, and so "
                f"they are read by parts; but {why}. To hold all of them, set data.sample={number}"
            )
