"""Loaders of a fit's minibatches.

Batch t is a function of (seed, t) alone, so a run can resume at any step."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import PyTree

from vijax.checks import require
from vijax.contract import intake
from vijax.contract.array_checks import check_finite, check_lengths, check_numbers
from vijax.contract.batch import DataForm, DocumentForm, Minibatch, count_rows, one_group
from vijax.contract.model import Model
from vijax.data.corpora.corpus import Corpus
from vijax.data.known_words import are_same, read_over_words, require_own_covariates
from vijax.data.minibatch import Share, SharedLoader, padded_documents
from vijax.data.reading.checks import fail
from vijax.data.schema.named_columns import Names, check_rows, find_names
from vijax.data.streams.document_loader import document_loader
from vijax.data.streams.documents import Shards
from vijax.data.streams.foreign import to_arrays
from vijax.data.streams.own_part import OwnPartLoader
from vijax.data.streams.parts import order_of_parts, part_of_pass
from vijax.data.streams.row_loader import row_loader
from vijax.data.streams.rows import Rows
from vijax.data.streams.stream import stream_loader
from vijax.data.streams.threads import Maker
from vijax.data.table_batches import (
    GatherDocuments,
    GatherRows,
    Picks,
    Table,
    TableBatches,
    array_table,
    document_picks,
    document_table,
    places_in_tables,
)


class Loader(Protocol):
    """Minibatches of a data set, all of one shape.

    A loader of your own may also have `contents()`: arrays that identify its data and their parts,
    in any order of the batches. From them a fit that resumes from a state can tell whether its
    data are the same. Without `contents` it compares the first batches, or with fixed parts all."""

    @property
    def num_groups(self) -> int:
        """N."""

    @property
    def num_words(self) -> int | None:
        """Tokens in the whole set, where this has a meaning, else None."""

    @property
    def steps_per_epoch(self) -> int:
        """Minibatches in one pass."""

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """Batches of steps start, ..., stop - 1."""


@dataclasses.dataclass(frozen=True)
class ArrayLoader(SharedLoader):
    """Minibatches of at most `batch_size` groups from a pytree of arrays with one leading axis.

    A pass is cut evenly: batch sizes differ by one at most, and smaller batches are padded. If only
    the last batch were short, N / S would scale it like the others, and make it much noisier."""

    data: PyTree
    batch_size: int
    seed: int
    num_words: None = None
    is_fixed: bool = False  # the same batches in every pass, in another order
    # conversions of the arrays; None: they stay as they are
    kinds: tuple[intake.Kind, ...] | None = None
    share: Share | None = None  # the part of each batch that this process reads; None: all of it
    # column names of each array; None: none of them is a table
    leaf_columns: Names | None = None

    @property
    def num_groups(self) -> int:
        """N, the length of the leading axis."""
        return int(np.shape(jax.tree.leaves(self.data)[0])[0])

    @property
    def steps_per_epoch(self) -> int:
        """ceil(N / S)."""
        return -(-self.num_groups // self.batch_size)

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """See `Loader`."""
        return (self._batch(picks) for picks in self._picks(start, stop))

    def makers(self, start: int, stop: int) -> Iterator[Maker] | None:
        """See `vijax.data.streams.threads`. Arrays that are not NumPy's may not be read by two
        threads."""
        if not all(isinstance(x, np.ndarray) for x in jax.tree.leaves(self.data)):
            return None
        return (functools.partial(self._batch, picks) for picks in self._picks(start, stop))

    def table_batches(self) -> TableBatches:
        """See `vijax.data.table_batches`."""
        table = array_table(self.data, self.num_groups, self.kinds)
        return TableBatches([table], self._picks, GatherRows(self.kinds))

    def _picks(self, start: int, stop: int) -> Iterator[Picks]:
        """The rows of the batches of some steps."""
        for epoch in range(start // self.steps_per_epoch, -(-stop // self.steps_per_epoch)):
            order = self._order(0 if self.is_fixed else epoch)
            parts = None
            if self.is_fixed:
                parts = order_of_parts(self.seed, epoch, self.steps_per_epoch)
            first = epoch * self.steps_per_epoch
            for step in range(max(start, first), min(stop, first + self.steps_per_epoch)):
                place = step - first
                if parts is None:
                    yield self._pick(order, place)
                else:
                    yield self._pick(order, parts[place])._replace(part=parts[place])

    def contents(self) -> Iterator[Any]:
        """Arrays that identify these data and their parts."""
        yield from jax.tree.leaves(self.data)
        if self.is_fixed:
            yield self._order(0)

    def _order(self, epoch: int) -> np.ndarray:
        if self.batch_size >= self.num_groups:
            return np.arange(self.num_groups)
        # Fixed parts depend on the data alone, so that a fit can resume with another key.
        seed = [self.num_groups, self.steps_per_epoch] if self.is_fixed else [self.seed, epoch]
        return np.random.default_rng(seed).permutation(self.num_groups)

    def _pick(self, order: np.ndarray, i: int) -> Picks:
        first, stop = part_of_pass(self.num_groups, self.steps_per_epoch, i)
        rows = order[first:stop]
        slots = -(-self.num_groups // self.steps_per_epoch)
        if self.steps_per_epoch == 1:
            slots = self.batch_size
        rows = np.pad(rows, (0, slots - len(rows)), constant_values=self.num_groups)
        if self.share is not None:
            rows = self.share.select(rows, self.num_groups)
        places = np.where(rows < self.num_groups, rows, 0)
        return Picks(places.astype(np.int32), rows.astype(np.int32))

    def _batch(self, picks: Picks) -> Minibatch:
        weights: Any = (picks.rows < self.num_groups).astype(np.float32)
        data = jax.tree.map(lambda x: np.asarray(x)[picks.places], self.data)
        if self.kinds is not None:
            data = intake.cast(self.kinds, data)
        total: Any = np.float32(self.num_groups)
        return Minibatch(data, total, weights, rows=picks.rows, part=picks.part)


@dataclasses.dataclass(frozen=True)
class CorpusLoader(SharedLoader):
    """Minibatches of a `vijax.data.Corpus`, stratified by document length."""

    corpus: Any
    batch_size: float  # not an integer if the number of parts does not divide N
    seed: int
    is_fixed: bool = False  # the same batches in every pass, in another order
    share: Share | None = None  # see `ArrayLoader`

    @property
    def num_groups(self) -> int:
        """N, the number of documents."""
        return self.corpus.num_documents

    @property
    def vocabulary(self) -> Sequence[str] | None:
        """The words by id; None if they are unknown."""
        return self.corpus.vocabulary

    @property
    def num_words(self) -> int:
        """Tokens in the corpus."""
        return int(self.corpus.num_tokens)

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one pass: N / S, rounded."""
        return max(1, round(self.num_groups / self.batch_size))

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """See `Loader`."""
        from vijax.data import minibatches

        if self.is_fixed:
            stream, hands = self._parts()
            return (self._part(stream, hands, step) for step in range(start, stop))
        stream = minibatches(
            self.corpus, self.batch_size, self.seed, start=start, num_steps=stop - start
        )
        return iter(dataclasses.replace(stream, share=self.share))

    def makers(self, start: int, stop: int) -> Iterator[Maker]:
        """See `vijax.data.streams.threads`."""
        from vijax.data import minibatches

        if self.is_fixed:
            stream, hands = self._parts()
            return (
                functools.partial(self._part, stream, hands, step) for step in range(start, stop)
            )
        stream = minibatches(
            self.corpus, self.batch_size, self.seed, start=start, num_steps=stop - start
        )
        return dataclasses.replace(stream, share=self.share).makers()

    def table_batches(self) -> TableBatches:
        """See `vijax.data.table_batches`."""
        from vijax.data import minibatches

        corpus = self.corpus
        stream = minibatches(corpus, self.batch_size, self.seed)
        if self.is_fixed:
            stream, _ = self._parts()
        members = [np.sort(bucket.rows) for bucket in stream.buckets]

        def table(bucket: Any, rows: np.ndarray) -> Table:
            read = lambda some: padded_documents(corpus, some, bucket.slots, bucket.max_tokens)
            return document_table(rows, read, corpus.vocab_size, bucket.max_tokens)

        tables = list(map(table, stream.buckets, members))
        places = places_in_tables(members, self.num_groups)
        picks = functools.partial(self._picks, stream, places)
        gather = GatherDocuments(tuple(bucket.max_tokens for bucket in stream.buckets))
        return TableBatches(tables, picks, gather)

    def _picks(self, stream: Any, places: np.ndarray, start: int, stop: int) -> Iterator[Picks]:
        """The documents of the batches of some steps; `places` are those of all documents."""
        hands: Any = None
        if self.is_fixed:
            hands = stream.deal(0)
        for step in range(start, stop):
            epoch, place = divmod(step, self.steps_per_epoch)
            if self.is_fixed:
                part = order_of_parts(self.seed, epoch, self.steps_per_epoch)[place]
                picks = document_picks([hand[part] for hand in hands], places, self.num_groups)
                yield picks._replace(part=part)
                continue
            if place == 0 or step == start:
                hands = stream.deal(epoch)
            yield document_picks([hand[place] for hand in hands], places, self.num_groups)

    def contents(self) -> Iterator[Any]:
        """Arrays that identify these documents and their parts."""
        yield from (self.corpus.indptr, self.corpus.indices, self.corpus.counts)
        if self.corpus.covariates is not None:
            yield self.corpus.covariates
        if self.is_fixed:
            yield from self._parts()[1]

    def _parts(self) -> tuple[Any, list[np.ndarray]]:
        """A stream of minibatches, and the documents of each part.

        They depend on the corpus alone, so that a fit can resume with another key."""
        from vijax.data import minibatches

        stream = dataclasses.replace(minibatches(self.corpus, self.batch_size, 0), share=self.share)
        return stream, stream.deal(0)

    def spread(self, count: int) -> Iterator[Minibatch]:
        """At most `count` batches, spread over the first pass, whose documents are dealt once."""
        from vijax.data import minibatches

        stream = minibatches(self.corpus, self.batch_size, self.seed)
        hands = stream.deal(0)
        steps = range(0, stream.per_epoch, -(-stream.per_epoch // count))
        return (stream.gather([hand[i] for hand in hands]) for i in steps)

    def _part(self, stream: Any, hands: list[np.ndarray], step: int) -> Minibatch:
        epoch, place = divmod(step, self.steps_per_epoch)
        part = order_of_parts(self.seed, epoch, self.steps_per_epoch)[place]
        return stream.gather([hand[part] for hand in hands])._replace(part=part)


USUAL = 256
"""Default number of documents a step of stochastic algorithms: see benchmarks/README.md."""
USUAL_WORDS = 65_536
"""Default least number of words a step of svi, if half of the documents have that many. Steps that
see few words of each topic end at a worse bound, and more passes do not make up for it: with
documents of 10 words, 256 a step are .4 nats a word behind (the same page). Algorithms that draw
topics, such as ssvi_a, need no such minimum."""


def usual_size(corpus: Any, num_words: int = 0) -> int:
    """The number of documents that a stochastic algorithm takes at a step by default.

    Args:
      corpus: with `num_documents` and `num_tokens`.
      num_words: words wanted in all, if half of the documents have that many.

    >>> from vijax.data import Corpus
    >>> titles = Corpus.from_counts(np.ones((3000, 5), int))
    >>> usual_size(titles), usual_size(titles, 5000), usual_size(titles, 50_000)
    (256, 1000, 1500)
    """
    wanted = int(num_words * corpus.num_documents / max(1, corpus.num_tokens))
    return min(max(USUAL, min(wanted, corpus.num_documents // 2)), corpus.num_documents)


def as_loader(
    data: Any,
    model: Model,
    batch_size: int | None,
    seed: int,
    num_parts: int | None = None,
    usual_words: int | None = None,
) -> Loader:
    """A loader of anything the model can read.

    Args:
      data: a `Loader`, whose batches are not checked; a source of batches (`vijax.data.stream`);
        for models of documents a corpus, anything that `vijax.data.read` reads, or
        `vijax.data.shards`; for other models `vijax.data.rows`, or a pytree of arrays (tensors of
        other libraries are converted) with one leading axis of groups; for a model of one group any
        arrays or None; for a model that holds its data None.
      model: the model that reads the data.
      batch_size: groups a step; None takes the whole set, or for documents `usual_size(data,
        usual_words)` if `usual_words` is given.
      seed: seed of the order of the batches.
      num_parts: number of fixed batches that the data are cut into; None deals new ones in every
        pass.
      usual_words: words a step of an algorithm of many small steps.

    Raises:
      ValueError: a loader or a data set of another library; no arrays of numbers, leading axes that
        differ, an empty set, numbers that are not finite (a model with its own check decides
        that by it), numbers that do not fit into the types that the model reads
        (`vijax.contract.intake`), a batch larger than the set, or more words than the model has.

    Warns if documents have fewer words than the model.
    """
    if data is None:
        data = model.form.given
    if hasattr(data, "batches"):
        if hasattr(data, "steps_per_epoch"):
            return data
        return _open_stream(data, model)
    raw_data = data
    data = to_arrays(data)
    if model.form.documents is not None:
        corpus = _documents(data, model.form.documents)
        _check_batch_size(batch_size, corpus.num_documents)
        _check_words(corpus.vocab_size, model.form.documents)
        return _corpus_loader(corpus, batch_size, seed, num_parts, usual_words)
    _refuse_documents(data)
    if isinstance(data, Rows):
        _check_batch_size(batch_size, data.num_groups)
        size = _size_of_parts(data.num_groups, num_parts, batch_size)
        return row_loader(data, model, size or data.num_groups, seed, num_parts is not None)
    return _array_loader(raw_data, data, model, batch_size, seed, num_parts)


def _corpus_loader(
    corpus: Corpus | Shards,
    batch_size: int | None,
    seed: int,
    num_parts: int | None,
    usual_words: int | None,
) -> Loader:
    total = corpus.num_documents
    size: float | None = _size_of_parts(total, num_parts, batch_size)
    if num_parts is not None:
        size = total / num_parts  # documents are dealt to any number of parts
    usual = total if usual_words is None else usual_size(corpus, usual_words)
    if isinstance(corpus, Shards):
        return document_loader(corpus, size or usual, seed, num_parts is not None)
    return CorpusLoader(corpus, size or usual, seed, num_parts is not None)


def _refuse_documents(data: Any) -> None:
    actual = "documents in shards" if isinstance(data, Shards) else "a corpus"
    remedy = (
        "Counts are corpus.to_scipy(), and the entries that plsa reads "
        "vijax.models.plsa_entries(corpus)."
    )
    expected = "arrays, as this model reads no documents"
    require(not isinstance(data, Shards | Corpus), "data", expected, actual, remedy)


def _array_loader(
    given: Any,
    data: PyTree,
    model: Model,
    batch_size: int | None,
    seed: int,
    num_parts: int | None,
) -> ArrayLoader:
    """A loader of arrays, which it checks; `given` are the data before their conversion."""
    if model.form.one_group:
        data = one_group(data)
    check_rows(given)
    check_own_data(data, model.form)
    check_numbers(data)
    (model.form.check or check_finite)(data)
    kinds = intake.data_kinds(model, data)
    intake.check(kinds, data)
    if model.form.check_indices is not None:
        model.form.check_indices(data, kinds)
    total = check_lengths(data)
    _check_entries(data, total, model)
    _check_batch_size(batch_size, total)
    size = _size_of_parts(total, num_parts, batch_size)
    # Locals that are carried from step to step have a row for each group of the batch, and no
    # padding.
    full_size = total if model.locals.carried else padded_size(total)
    is_fixed = num_parts is not None
    return ArrayLoader(
        data,
        size or full_size,
        seed,
        is_fixed=is_fixed,
        kinds=tuple(kinds),
        leaf_columns=find_names(given),
    )


def _open_stream(source: Any, model: Model) -> Loader:
    loader = stream_loader(source, model)
    return OwnPartLoader(loader.source, model) if loader.source.is_part else loader


def all_groups(data: Any, model: Model) -> PyTree:
    """All data of a model as one batch, without padding. Raises as `as_loader` does."""
    loader = as_loader(data, model, None, 0)
    (batch,) = loader.batches(0, 1)
    return jax.tree.map(lambda x: np.asarray(x)[: loader.num_groups], batch.data)


def num_rows(model: Model, loader: Loader) -> int:
    """Number of rows of the data (`vijax.contract.batch.count_rows`).

    For a density of all the data it is the number of rows of the largest array."""
    if not model.form.one_group:
        if isinstance(loader, ArrayLoader):
            return max(1, count_rows(loader.data))
        return max(1, loader.num_groups)
    batch = next(iter(loader.batches(0, 1)))
    leaves = jax.tree.leaves(batch.data)
    return max(1, *(np.shape(x)[1] if np.ndim(x) > 1 else 1 for x in leaves), 1)


def padded_size(total: int) -> int:
    """Rows of a batch of all the data, some of them padding: at least 32, and at most a sixteenth
    more than `total`. Sets of nearly one size so share a program.

    >>> [padded_size(total) for total in (31, 33, 1000, 1001, 100_000)]
    [31, 34, 1024, 1024, 102400]
    """
    grain = 1 << max(0, total.bit_length() - 5)
    return -(-total // grain) * grain


def _size_of_parts(total: int, num_parts: int | None, batch_size: int | None) -> int | None:
    """Groups in a part.

    Raises:
      ValueError: the groups cannot be cut into this many parts, or their size is given too.
    """
    if num_parts is None:
        return batch_size
    if batch_size is not None:
        raise ValueError(
            f"batch_size: expected none, got {batch_size}: vijax.memoized(model, "
            f"num_parts={num_parts}) says how many parts the data have."
        )
    size = -(-total // num_parts)
    if -(-total // size) != num_parts:
        raise ValueError(
            f"num_parts: expected a number of parts that {total} groups can be cut into evenly, "
            f"got {num_parts}. Parts of {size} are {-(-total // size)}."
        )
    return size


def check_own_data(data: PyTree, form: DataForm) -> None:
    """Checks that a model made for its own data is given no others.

    Raises:
      ValueError: the data have another form or, if the model's unknowns are in units of its data,
        the same shapes with other numbers.
    """
    own_data = form.given
    if own_data is None or data is own_data:
        return
    expected: Any = jax.tree.structure(own_data)
    if expected != jax.tree.structure(data):
        actual = _names_text(data)
    elif form.in_units_of_given and not all(
        map(_are_near, jax.tree.leaves(own_data), jax.tree.leaves(data))
    ):
        actual = "arrays of those names with other numbers"
    else:
        return
    raise ValueError(
        f"data: expected none, or model.data ({_names_text(own_data)}), got {actual}. The model "
        "was made for its own data: leave them out, or make the model of the others."
    )


def _names_text(tree: PyTree) -> str:
    if isinstance(tree, dict):
        return f"the arrays {', '.join(tree)}"
    return f"a {type(tree).__name__}"


def _are_near(own: Any, given: Any) -> bool:
    """True for arrays that are equal, or equal in float32 (a fit may have read them so)."""
    own = np.asarray(own)
    given = np.asarray(given)
    if own.shape != given.shape or given.dtype.kind not in "iubf":
        return False
    with np.errstate(over="ignore"):
        return np.array_equal(own.astype(np.float32), given.astype(np.float32), equal_nan=True)


def _check_entries(data: PyTree, total: int, model: Model) -> None:
    """Checks that a model made for given data gets all of them, with the entries that they name."""
    if model.form.num_groups not in (None, total):
        raise ValueError(
            f"data: expected all {model.form.num_groups} groups that the model was made for, as "
            f"model.data is, got {total}. For some of them at a step, give batch_size."
        )
    if model.by_entry is not None:
        model.by_entry.reads(Minibatch(data, None))


def _documents(data: Any, form: DocumentForm) -> Corpus | Shards:
    """The documents, over the words of the model if it knows them."""
    if not isinstance(data, Shards):
        corpus = read_over_words(data, form.vocabulary, "data", form.names[1])
        require_own_covariates(corpus, form.described_by, "data")
        return corpus
    expected = form.vocabulary
    words = data.vocabulary
    if expected is not None and words is not None and not are_same(words, expected):
        remedy = (
            "read them by vijax.data.shards(source, vocabulary=...) with the words of the model"
        )
        raise fail("data", "shards over the words of the model, in their order", "others", remedy)
    return data


def loader_words(loader: Any) -> tuple[str, ...] | None:
    """The words of the documents of a loader, or of a loader that it wraps; None if unknown."""
    while loader is not None:
        words = getattr(loader, "vocabulary", None)
        if words is not None:
            return tuple(words)
        loader = getattr(loader, "inner", None)
    return None


def loader_columns(loader: Any) -> Names | None:
    """The column names of the tables of a loader, or of a loader that it wraps; None without a
    table."""
    while loader is not None:
        names = getattr(loader, "leaf_columns", None)
        if names is not None:
            if not any(columns is not None for columns in names):
                return None
            return names
        loader = getattr(loader, "inner", None)
    return None


def _check_words(got: int, form: DocumentForm) -> None:
    """Checks word ids: ids beyond the model's topics would be looked up all the same, and give
    wrong numbers."""
    vocab_size, (documents, words, argument) = form.vocab_size, form.names
    if got > vocab_size:
        raise ValueError(
            f"data: expected {words} numbered below the model's {argument}={vocab_size}, got "
            f"{documents} over {got} {words}. Make the model with {argument}={got}."
        )
    if got < vocab_size:
        warnings.warn(
            f"data: {documents} over {got} {words} for a model of {argument}={vocab_size}: "
            f"{vocab_size - got} of the model's {words} never occur, but are given weight all the "
            f"same. Or make the model with {argument}={got}.",
            stacklevel=4,
        )


def _check_batch_size(batch_size: int | None, total: int) -> None:
    is_integer = isinstance(batch_size, int | np.integer)
    if batch_size is not None and not (is_integer and 1 <= batch_size <= total):
        raise ValueError(
            f"batch_size: expected an integer from 1 to the {total} groups of the data, got "
            f"{batch_size}. Leave it out to take all the data at every step."
        )
