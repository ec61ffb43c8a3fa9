"""Loaders of a fit's minibatches: batch t is a function of (seed, t) alone, so a run can go on at
any step."""

from __future__ import annotations

import dataclasses
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
from vijax.data.minibatch import Share, SharedLoader
from vijax.data.reading.checks import fail
from vijax.data.schema.named_columns import Names, check_rows, names_of
from vijax.data.streams.document_loader import document_loader
from vijax.data.streams.documents import Shards
from vijax.data.streams.foreign import to_arrays
from vijax.data.streams.own_part import OwnPartLoader
from vijax.data.streams.parts import order_of_parts, part_of_pass
from vijax.data.streams.row_loader import row_loader
from vijax.data.streams.rows import Rows
from vijax.data.streams.stream import stream_loader


class Loader(Protocol):
    """Fixed-shape minibatches of a data set.

    A loader of your own may also have `contents()`: arrays that identify its data and their parts,
    in any order of the batches. By them a fit that goes on from a state knows whether its data are
    the same. Without `contents` the first batches are compared; with fixed parts all of them."""

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
    """Minibatches of a pytree of arrays with one leading axis of groups, of at most `batch_size` of
    them.

    A pass is cut evenly: its batches differ by one group at most, and smaller ones are padded. A
    short last batch, scaled by N / S like the others, would count like them, and be many times as
    noisy."""

    data: PyTree
    batch_size: int
    seed: int
    num_words: None = None
    is_fixed: bool = False  # the same batches in every pass, in another order
    kinds: tuple[intake.Kind, ...] | None = (
        None  # conversions of the arrays; None: they stay as they are
    )
    share: Share | None = None  # what this process reads of each batch; None: all of it
    leaf_columns: Names | None = (
        None  # the names of the columns of each array; None: no table is among them
    )

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
        for epoch in range(start // self.steps_per_epoch, -(-stop // self.steps_per_epoch)):
            order = self._order(0 if self.is_fixed else epoch)
            parts = (
                order_of_parts(self.seed, epoch, self.steps_per_epoch) if self.is_fixed else None
            )
            first = epoch * self.steps_per_epoch
            for step in range(max(start, first), min(stop, first + self.steps_per_epoch)):
                place = step - first
                if parts is None:
                    yield self._batch(order, place)
                else:
                    yield self._batch(order, parts[place])._replace(part=parts[place])

    def contents(self) -> Iterator[Any]:
        """Arrays that identify these data and their parts."""
        yield from jax.tree.leaves(self.data)
        if self.is_fixed:
            yield self._order(0)

    def _order(self, epoch: int) -> np.ndarray:
        if self.batch_size >= self.num_groups:
            return np.arange(self.num_groups)
        # Parts depend on the data alone, so that a fit can go on with another key.
        seed = [self.num_groups, self.steps_per_epoch] if self.is_fixed else [self.seed, epoch]
        return np.random.default_rng(seed).permutation(self.num_groups)

    def _batch(self, order: np.ndarray, i: int) -> Minibatch:
        first, stop = part_of_pass(self.num_groups, self.steps_per_epoch, i)
        rows = order[first:stop]
        slots = (
            self.batch_size
            if self.steps_per_epoch == 1
            else -(-self.num_groups // self.steps_per_epoch)
        )
        rows = np.pad(rows, (0, slots - len(rows)), constant_values=self.num_groups)
        if self.share is not None:
            rows = self.share.select(rows, self.num_groups)
        weights = (rows < self.num_groups).astype(np.float32)
        data = jax.tree.map(
            lambda x: np.asarray(x)[np.where(rows < self.num_groups, rows, 0)], self.data
        )
        if self.kinds is not None:
            data = intake.cast(self.kinds, data)
        rows = rows.astype(np.int32)
        return Minibatch(data, np.float32(self.num_groups), weights, rows=rows)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class CorpusLoader(SharedLoader):
    """Minibatches of a `vijax.data.Corpus`, stratified by document length."""

    corpus: Any
    batch_size: float  # N / S need not be an integer with this many parts
    seed: int
    is_fixed: bool = False  # the same batches in every pass, in another order
    share: Share | None = None  # see `ArrayLoader`

    @property
    def num_groups(self) -> int:
        """N, the number of documents."""
        return self.corpus.num_documents

    @property
    def vocabulary(self) -> Sequence[str] | None:
        """The words by id; None where they are not known."""
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

    def contents(self) -> Iterator[Any]:
        """Arrays that identify these documents and their parts."""
        yield from (self.corpus.indptr, self.corpus.indices, self.corpus.counts)
        if self.corpus.covariates is not None:
            yield self.corpus.covariates
        if self.is_fixed:
            yield from self._parts()[1]

    def _parts(self) -> tuple[Any, list[np.ndarray]]:
        """A stream of minibatches, and the documents of each part: they depend on the corpus alone,
        so that a fit can go on with another key."""
        from vijax.data import minibatches

        stream = dataclasses.replace(minibatches(self.corpus, self.batch_size, 0), share=self.share)
        return stream, stream.deal(0)

    def spread(self, count: int) -> Iterator[Minibatch]:
        """At most so many batches, spread over the first pass; the documents are dealt once for all
        of them."""
        from vijax.data import minibatches

        stream = minibatches(self.corpus, self.batch_size, self.seed)
        hands = stream.deal(0)
        some = range(0, stream.per_epoch, -(-stream.per_epoch // count))
        return (stream.gather([hand[i] for hand in hands]) for i in some)

    def _part(self, stream: Any, hands: list[np.ndarray], step: int) -> Minibatch:
        epoch, place = divmod(step, self.steps_per_epoch)
        part = order_of_parts(self.seed, epoch, self.steps_per_epoch)[place]
        return stream.gather([hand[part] for hand in hands])._replace(part=part)


USUAL = 256
"""Documents a step of stochastic algorithms where nothing is said: see benchmarks/README.md."""
USUAL_WORDS = 65_536
"""Words that a step of svi sees at least, where nothing is said and half of the documents have
them. Steps that see few words of each topic come to a worse end, which more passes do not make
good: of documents of 10 words, 256 a step are .4 nats a word behind (the same page). Draws of
topics, as of ssvi_a, do not want it."""


def usual_size(corpus: Any, num_words: int = 0) -> int:
    """The number of documents that a stochastic algorithm takes at a step by default.

    Args:
      corpus: with `num_documents` and `num_tokens`.
      num_words: words that they should have in all, if half of the documents have that many.

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
      data: a `Loader`, whose batches are not checked; a source of batches (`vijax.data.stream`); a
        corpus, anything that `vijax.data.read` reads, or `vijax.data.shards`, for models of
        documents; else `vijax.data.rows`, or a pytree of arrays (tensors of other libraries are
        made arrays) with one leading axis of groups, for a model of one group any arrays or None;
        None for a model that has its data.
      model: the model that reads the data.
      batch_size: groups a step; None takes the whole set, or for documents `usual_size(data,
        usual_words)` where `usual_words` is given.
      seed: seed of the order of the batches.
      num_parts: number of fixed batches that the data are cut into; None deals them anew in every
          pass.
      usual_words: words of a step of an algorithm of many small steps.

    Raises:
      ValueError: a loader or a data set of another library; no arrays of numbers, leading axes that
        differ, an empty set, numbers that are not finite (models with a check of their own decide
        that by it), numbers that do not fit into the types that the model reads
        (`vijax.contract.intake`), a batch larger than the set, or more words than the model has.

    Warns where documents have fewer words than the model.
    """
    if data is None:
        data = model.form.given
    if hasattr(data, "batches"):
        return data if hasattr(data, "steps_per_epoch") else _open_stream(data, model)
    given = data
    data = to_arrays(data)
    if model.form.documents is not None:
        corpus = _documents(data, model.form.documents)
        _check_batch_size(batch_size, corpus.num_documents)
        _check_words(corpus.vocab_size, model.form.documents)
        size: float | None = _size_of_parts(corpus.num_documents, num_parts, batch_size)
        size = (
            size if num_parts is None else corpus.num_documents / num_parts
        )  # which is dealt to any number of them
        usual = corpus.num_documents if usual_words is None else usual_size(corpus, usual_words)
        if isinstance(corpus, Shards):
            return document_loader(corpus, size or usual, seed, num_parts is not None)
        return CorpusLoader(corpus, size or usual, seed, num_parts is not None)
    got = "documents in shards" if isinstance(data, Shards) else "a corpus"
    remedy = (
        "Counts are corpus.to_scipy(), and the entries that plsa reads "
        "vijax.models.plsa_entries(corpus)."
    )
    require(
        not isinstance(data, Shards | Corpus),
        "data",
        "arrays, as this model reads no documents",
        got,
        remedy,
    )
    if isinstance(data, Rows):
        _check_batch_size(batch_size, data.num_groups)
        size = _size_of_parts(data.num_groups, num_parts, batch_size)
        return row_loader(data, model, size or data.num_groups, seed, num_parts is not None)
    if model.form.one_group:
        data = one_group(data)
    check_rows(given)
    check_own_data(data, model.form)
    check_numbers(data)
    (model.form.check or check_finite)(data)
    kinds = intake.data_kinds(model, data)
    intake.check(kinds, data)
    total = check_lengths(data)
    _check_entries(data, total, model)
    _check_batch_size(batch_size, total)
    size = _size_of_parts(total, num_parts, batch_size)
    # Locals that are carried from step to step have a row for each group of the batch, and no
    # padding.
    whole = total if model.locals.carried else padded_size(total)
    is_fixed = num_parts is not None
    names = names_of(given)
    return ArrayLoader(
        data, size or whole, seed, is_fixed=is_fixed, kinds=tuple(kinds), leaf_columns=names
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
    """Rows of the data (`vijax.contract.batch.count_rows`); for a density of all the data, those of
    the largest array."""
    if not model.form.one_group:
        return max(
            1, count_rows(loader.data) if isinstance(loader, ArrayLoader) else loader.num_groups
        )
    batch = next(iter(loader.batches(0, 1)))
    return max(
        1, *(np.shape(x)[1] if np.ndim(x) > 1 else 1 for x in jax.tree.leaves(batch.data)), 1
    )


def padded_size(total: int) -> int:
    """Rows of a batch of all the data, some of them padding, so that sets of nearly one size share
    a program: at most a sixteenth more, and at least 32.

    >>> [padded_size(total) for total in (31, 33, 1000, 1001, 100_000)]
    [31, 34, 1024, 1024, 102400]
    """
    grain = 1 << max(0, total.bit_length() - 5)
    return -(-total // grain) * grain


def _size_of_parts(total: int, num_parts: int | None, batch_size: int | None) -> int | None:
    """Groups in a part. Raises ValueError where there cannot be as many parts, or their size is
    given too."""
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
    """Raises ValueError where a model that was made for its own data is given others: of another
    form or, where its unknowns are in units of its own, of equal shapes with other numbers."""
    given = form.given
    if given is None or data is given:
        return
    names = lambda tree: (
        f"the arrays {', '.join(tree)}" if isinstance(tree, dict) else f"a {type(tree).__name__}"
    )
    known: Any = jax.tree.structure(given)
    if known != jax.tree.structure(data):
        got = names(data)
    elif form.in_units_of_given and not all(
        map(_are_near, jax.tree.leaves(given), jax.tree.leaves(data))
    ):
        got = "arrays of those names with other numbers"
    else:
        return
    raise ValueError(
        f"data: expected none, or model.data ({names(given)}), got {got}. The model was made for "
        "its own data: leave them out, or make the model of the others."
    )


def _are_near(own: Any, other: Any) -> bool:
    """True for equal arrays, and for arrays that are equal in float32, in which a fit may have read
    them."""
    own = np.asarray(own)
    other = np.asarray(other)
    if own.shape != other.shape or other.dtype.kind not in "iubf":
        return False
    with np.errstate(over="ignore"):
        return np.array_equal(own.astype(np.float32), other.astype(np.float32), equal_nan=True)


def _check_entries(data: PyTree, total: int, model: Model) -> None:
    """Checks, for a model made for given data, that all of them are there with the entries that
    they name."""
    if model.form.num_groups not in (None, total):
        raise ValueError(
            f"data: expected all {model.form.num_groups} groups that the model was made for, as "
            f"model.data is, got {total}. For some of them at a step, give batch_size."
        )
    if model.by_entry is not None:
        model.by_entry.reads(Minibatch(data, None))


def _documents(data: Any, form: DocumentForm) -> Corpus | Shards:
    """The documents, over the words of the model where it knows them."""
    if not isinstance(data, Shards):
        corpus = read_over_words(data, form.vocabulary, "data", form.names[1])
        require_own_covariates(corpus, form.described_by, "data")
        return corpus
    known = form.vocabulary
    words = data.vocabulary
    if known is not None and words is not None and not are_same(words, known):
        remedy = (
            "read them by vijax.data.shards(source, vocabulary=...) with the words of the model"
        )
        raise fail("data", "shards over the words of the model, in their order", "others", remedy)
    return data


def loader_words(loader: Any) -> tuple[str, ...] | None:
    """The words of the documents of a loader, or of one that is wrapped; None where they are not
    known."""
    while loader is not None:
        words = getattr(loader, "vocabulary", None)
        if words is not None:
            return tuple(words)
        loader = getattr(loader, "inner", None)
    return None


def loader_columns(loader: Any) -> Names | None:
    """The names of the columns of a loader's tables, or of one that is wrapped; None where no table
    is known."""
    while loader is not None:
        names = getattr(loader, "leaf_columns", None)
        if names is not None:
            return names if any(own is not None for own in names) else None
        loader = getattr(loader, "inner", None)
    return None


def _check_words(got: int, form: DocumentForm) -> None:
    """Checks word ids: ids beyond the model's topics would be looked up all the same, and give
    meaningless numbers."""
    most, (documents, words, argument) = form.vocab_size, form.names
    if got > most:
        raise ValueError(
            f"data: expected {words} numbered below the model's {argument}={most}, got "
            f"{documents} over {got} {words}. Make the model with {argument}={got}."
        )
    if got < most:
        warnings.warn(
            f"data: {documents} over {got} {words} for a model of {argument}={most}: {most - got} "
            f"of the model's {words} never occur, but are given weight all the same. Or make the "
            f"model with {argument}={got}.",
            stacklevel=4,
        )


def _check_batch_size(batch_size: int | None, total: int) -> None:
    if batch_size is not None and not (
        isinstance(batch_size, int | np.integer) and 1 <= batch_size <= total
    ):
        raise ValueError(
            f"batch_size: expected an integer from 1 to the {total} groups of the data, got "
            f"{batch_size}. Leave it out to take all the data at every step."
        )
