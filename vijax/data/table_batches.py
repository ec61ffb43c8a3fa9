"""Data as tables, and batches as the places of their rows in these: so data lie on a device once,
and the host sends a few bytes of each group at a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from vijax.contract import intake
from vijax.contract.batch import Documents, Minibatch

SMALL_TYPES = (np.uint8, np.uint16)
"""Types in which whole numbers are stored where all of a table fit."""


class Picks(NamedTuple):
    """The groups of a batch by their places in the tables of a loader; batches may be stacked.

    Attributes:
      places: the place of each group in its table; for padding, that of another group. For
        documents a tuple with an array for each table.
      rows: see `Minibatch.rows`.
      part: see `Minibatch.part`.
    """

    places: PyTree
    rows: PyTree
    part: Any = None


class Table(NamedTuple):
    """Some groups of a data set, all of one shape.

    Attributes:
      num_rows: the number of groups.
      read: (first, stop) -> these groups, as NumPy arrays with a leading axis of groups.
    """

    num_rows: int
    read: Callable[[int, int], PyTree]

    @property
    def row_bytes(self) -> int:
        """Bytes of a group on a device."""
        if not self.num_rows:
            return 0
        leaves = jax.tree.leaves(self.read(0, 1))
        sizes = (jax.dtypes.canonicalize_dtype(x.dtype).itemsize * x[0].size for x in leaves)
        return sum(sizes)


@dataclasses.dataclass(frozen=True)
class TableBatches:
    """The data of a loader as tables, and its batches as places in them.

    Attributes:
      tables: the data.
      picks: (start, stop) -> the `Picks` of the batches of these steps, which are those of the
        loader.
      gather: (tables as arrays, picks, N) -> the batch. It equals others with equal settings.
    """

    tables: Sequence[Table]
    picks: Callable[[int, int], Iterator[Picks]]
    gather: Callable[[Sequence[PyTree], Picks, Any], Minibatch]

    @property
    def num_bytes(self) -> int:
        """Bytes of all tables on a device."""
        return sum(table.num_rows * table.row_bytes for table in self.tables)


def table_batches(loader: Any) -> TableBatches | None:
    """The data and the batches of a loader by place; None if it cannot say them. (A class that
    inherits from a loader may have other batches.)"""
    if "table_batches" not in vars(type(loader)):
        return None
    return loader.table_batches()


# --- rows -----------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class GatherRows:
    """Batches of rows. `kinds` are conversions of the arrays; None: they stay as they are."""

    kinds: tuple[intake.Kind, ...] | None = None

    def __call__(self, tables: Sequence[PyTree], picks: Picks, num_groups: Any) -> Minibatch:
        """See `TableBatches.gather`."""
        (table,) = tables
        data = jax.tree.map(lambda x: x[picks.places], table)
        if self.kinds is not None:
            data = intake.cast(self.kinds, data)
        weights = (picks.rows < num_groups).astype(jnp.float32)
        total = _repeat(num_groups, picks.rows)
        return Minibatch(data, total, weights, rows=picks.rows, part=picks.part)


def array_table(data: PyTree, num_rows: int, kinds: Sequence[intake.Kind] | None) -> Table:
    """Arrays as a table. Numbers of one or two bytes stay as they are, and become floats when they
    are gathered."""
    leaves, structure = jax.tree.flatten(data)

    def read(first: int, stop: int) -> PyTree:
        rows = [np.asarray(x[first:stop]) for x in map(intake.array, leaves)]
        if kinds is not None:
            pairs = zip(kinds, rows, strict=True)
            rows = [_cast_unless_short(kind, x) for kind, x in pairs]
        return jax.tree.unflatten(structure, rows)

    return Table(num_rows, read)


def _cast_unless_short(kind: intake.Kind, x: np.ndarray) -> np.ndarray:
    is_short = kind == "number" and x.dtype.itemsize <= 2 and x.dtype.kind in "iuf"
    if is_short:
        return x
    return intake.cast([kind], x)


# --- documents ------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class GatherDocuments:
    """Batches of documents, of which each table has those of similar length. `most_tokens` is by
    table, see `Documents.max_tokens`."""

    most_tokens: tuple[int, ...]

    def __call__(self, tables: Sequence[PyTree], picks: Picks, num_groups: Any) -> Minibatch:
        """See `TableBatches.gather`."""
        parts = zip(tables, picks.places, picks.rows, self.most_tokens, strict=True)
        data = tuple(_documents(*part, num_groups=num_groups) for part in parts)
        total = _repeat(num_groups, picks.rows[0])
        return Minibatch(data, total, rows=picks.rows, part=picks.part)


def _documents(table: Any, places: Any, rows: Any, max_tokens: int, num_groups: Any) -> Documents:
    is_real = rows < num_groups
    words, counts, covariates = table
    fill = lambda x: jnp.where(is_real[..., None], x[places], jnp.zeros((), x.dtype))
    if covariates is not None:
        covariates = fill(covariates)
    return Documents(
        fill(words).astype(jnp.int32),
        fill(counts).astype(jnp.float32),
        is_real.astype(jnp.float32),
        max_tokens,
        covariates=covariates,
    )


def document_table(
    rows: np.ndarray, read: Callable[[np.ndarray], Documents], vocab_size: int, max_tokens: int
) -> Table:
    """Documents as a table of words, counts and covariates.

    Args:
      rows: the numbers of the documents.
      read: numbers -> these documents, padded to the length of the table.
      vocab_size: V, larger than all ids of words.
      max_tokens: the most tokens of a document, which are no fewer than any count.
    """
    word_type = _smallest_type(vocab_size - 1, np.int32)
    count_type = _smallest_type(max_tokens, np.float32)

    def read_rows(first: int, stop: int) -> PyTree:
        docs = read(rows[first:stop])
        words = np.asarray(docs.words).astype(word_type)
        return words, np.asarray(docs.counts).astype(count_type), docs.covariates

    return Table(len(rows), read_rows)


def places_in_tables(tables: Sequence[np.ndarray], num_documents: int) -> np.ndarray:
    """The place of each document in its table; `tables` has the documents of each."""
    places = np.zeros(num_documents, np.int32)
    for rows in tables:
        places[rows] = np.arange(len(rows), dtype=np.int32)
    return places


def document_picks(hands: Sequence[np.ndarray], places: np.ndarray, num_documents: int) -> Picks:
    """The picks of a batch of documents: `hands` has their numbers for each table, padded by
    -1."""
    in_tables = tuple(np.where(hand < 0, 0, places[hand]).astype(np.int32) for hand in hands)
    rows = tuple(np.where(hand < 0, num_documents, hand).astype(np.int32) for hand in hands)
    return Picks(in_tables, rows)


def _smallest_type(largest: int, other: Any) -> Any:
    """The smallest type of whole numbers up to `largest`; `other` if none is small."""
    return next((kind for kind in SMALL_TYPES if largest <= np.iinfo(kind).max), other)


def _repeat(num_groups: Any, rows: Any) -> Any:
    """N for each of the stacked batches."""
    return jnp.full(rows.shape[:-1], num_groups, jnp.float32)
