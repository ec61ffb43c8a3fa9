"""Batches from elsewhere, in their own order: from grain, PyTorch or Ray, or without an end."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import PyTree

from vijax.arrays import to_array
from vijax.contract import intake
from vijax.contract.array_checks import check_arrays, check_finite
from vijax.contract.batch import Documents, Minibatch
from vijax.contract.model import Model
from vijax.data.minibatch import padded_documents
from vijax.data.reading.checks import DataError, fail
from vijax.data.streams.documents import corpus_from_arrow, is_arrow
from vijax.data.streams.named_batches import NamedBatches

UNKNOWN = 2**31 - 1
"""Steps of a pass whose end is unknown."""

READ_AGAIN = "For more, give a source that can be read again."


class Source(Protocol):
    """Batches from elsewhere: `vijax.fit` takes any object with these two."""

    num_groups: float | None
    """N, the number of groups in all; None if unknown."""

    def batches(self, start_step: int) -> Iterator[Any]:
        """The batches of steps start_step, start_step + 1, ... If they are a function of the step,
        a resumed run is the same as one that was never stopped."""


@dataclasses.dataclass(frozen=True)
class Stream:
    """A source, as `stream` returns it; `is_part`: each process gives its own part (`own_part`)."""

    batches: Callable[[int], Iterator[Any]]
    num_groups: float | None
    forget: float = 0.0
    shuffled: bool = False
    is_part: bool = False


def stream(
    batches: Source | Iterable[Any] | Callable[[int], Iterator[Any]],
    num_groups: float | None = None,
    *,
    forget: float = 0.0,
    shuffled: bool = False,
) -> Stream:
    """Batches from elsewhere, for `vijax.fit(alg, stream(...), num_steps=...)`.

    A batch is a pytree of arrays with one leading axis of groups. Arrays of PyTorch or Arrow are
    read too; a list becomes a tuple, or its tensor if it has just one, as loaders of a
    `TensorDataset` give it; a table of pandas, polars or Arrow or a record batch becomes a matrix
    of its columns. For models of documents a batch is whatever `vijax.data.read` reads, over the
    model's words, or an Arrow table or record batch with the columns `ids` and `counts` of shards.
    Or it is a `vijax.Minibatch`. The first batch's tables name the columns; later tables, and
    tables that the fit is asked about, are read by these names, in whatever order their columns
    are. Batches of one size share a program. The first is checked as arrays are; of later ones,
    steps that are not finite are skipped.

    N scales each batch up to all groups. If it is unknown, it is the number of groups so far, N_t =
    (1 - forget) N_(t-1) + S. While N_t grows, a batch weighs less than later ones (under steps 1 /
    t, batch j has weight j / t): a guess of N is better than none. With `forget` N_t stays at S /
    forget, as if the data were just that many last groups: q is as wide as these allow, and can
    follow data that change. Under steps of constant size rho = `forget` that is streaming
    variational Bayes with a forgetting rate: lambda becomes eta + (1 - rho) (lambda - eta) + the
    message of the batch (Broderick et al. 2013, section 2.1; Honkela and Valpola 2003). A number of
    your own is the population size of McInerney, Ranganath and Blei (2015, section 2).

    In a fit of several processes each has to give the same batches (all are compared), or say that
    it gives its own part of them: `vijax.data.own_part`.

    Args:
      batches: a source with `batches` and `num_groups`; a function from a step to the batches from
        that step on; or an iterable, which is read again from its start at its end and when a run
        resumes.
      num_groups: N; None if unknown.
      forget: share of the groups so far that each batch makes the fit forget, 0 or more and below
        1.
      shuffled: True if the order is random, and needs no warning.

    >>> source = stream([np.zeros(10), np.ones(10)], 20, shuffled=True)
    >>> float(next(source.batches(0)).sum()), source.num_groups
    (0.0, 20)
    """
    if not 0 <= forget < 1:
        expected = "a share, 0 or more and below 1"
        raise fail("forget", expected, repr(forget), "give that of one batch, such as 0.01")
    if isinstance(batches, Stream):
        return batches
    if hasattr(batches, "batches"):
        source: Any = batches
        if num_groups is None:
            num_groups = source.num_groups
        batches = source.batches
    if num_groups is not None and not (math.isfinite(num_groups) and num_groups > 0):
        remedy = "give None where nobody knows it"
        raise fail("num_groups", "a positive number, or None", repr(num_groups), remedy)
    if not callable(batches):
        if not isinstance(batches, Iterable):
            actual = type(batches).__name__
            expected = "an iterable, or a function of a step"
            raise fail("batches", expected, actual, "see help(vijax.data.stream)")
        items: Iterable[Any] = batches
        return Stream(lambda step: iter(items), num_groups, forget, shuffled)
    return Stream(batches, num_groups, forget, shuffled)


class StreamLoader:
    """Minibatches of a stream. It stores the batch of step 0, which the start is made from."""

    num_words = None
    is_stream = True
    warns_of_end = True
    """False if something else reports that the source has ended."""

    def __init__(self, source: Stream, model: Model):
        self.source = source
        self.model = model
        self._first: Any = None
        self._rest: Iterator[Any] | None = None  # the batches behind the first, until they are read
        self._kinds: list[Any] | None = None
        self._structure: Any = None
        self._named = NamedBatches()
        self._is_single: bool | None = None  # whether a list of one array is that array
        self.vocabulary: tuple[str, ...] | None = None
        if model.form.documents is not None:
            self.vocabulary = model.form.documents.vocabulary

    @property
    def num_groups(self) -> Any:
        """N, or None."""
        return self.source.num_groups

    @property
    def leaf_columns(self) -> tuple[tuple[str, ...] | None, ...] | None:
        """Column names of each table in a batch; None for an array without, or before the first
        batch is read."""
        return self._named.leaf_columns

    @property
    def steps_per_epoch(self) -> int:
        """N / S rounded up, and at least 2; if N is unknown, more than any run has."""
        if self.num_groups is None:
            return UNKNOWN
        return max(2, math.ceil(self.num_groups / _size(next(self.batches(0, 1)))))

    def contents(self) -> Iterator[Any]:
        """Nothing: a stream cannot be identified."""
        return iter(())

    def spread(self, count: int) -> Iterator[Minibatch]:
        """The first batch."""
        return self.batches(0, 1)

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """See `vijax.data.loader.Loader`. Warns if the source ends before step `stop`."""
        total: Any = None
        keep = 1 - self.source.forget
        for step, item in zip(range(start, stop), self._items(start, stop), strict=False):
            batch = self._minibatch(item, step)
            if batch.num_groups is None:
                size = _size(batch)
                before = _previous_groups(size, keep, step) if total is None else total
                total = keep * before + size
                batch = batch._replace(num_groups=np.float32(self.num_groups or total))
            yield batch

    def _items(self, step: int, stop: int) -> Iterator[Any]:
        """The items of the source, which is read again from its start when it ends."""
        if step == 0:
            yield self._first_item()
            step = 1
        items = None
        if step == 1:
            items = self._rest
        self._rest = None
        while step < stop:
            start = step
            is_reread = items is None
            for item in iter(self.source.batches(step)) if items is None else items:
                yield item
                step += 1
            if is_reread and step == start:
                if self.warns_of_end:
                    text = (
                        f"data: the source ended after {step} of {stop} steps, and so does the fit."
                    )
                    warnings.warn(f"{text} {READ_AGAIN}", stacklevel=2)
                return
            items = None

    def _first_item(self) -> Any:
        if self._first is None:
            self._rest = iter(self.source.batches(0))
            self._first = next(self._rest, None)
            if self._first is None:
                remedy = "a generator that was read once has no more"
                raise fail("data", "one batch or more", "none", remedy)
        return self._first

    def _minibatch(self, item: Any, step: int) -> Minibatch:
        if isinstance(item, Minibatch):
            return item._replace(data=self._named.arrange(item.data, step))
        if self.model.form.documents is not None:
            return Minibatch(self._documents(item, step), None)
        data = self._from_list(item) if isinstance(item, list) else item
        data = jax.tree.map(to_array, self._named.arrange(data, step))
        leaves = jax.tree.leaves(data)
        structure = jax.tree.structure(data), [np.shape(x)[1:] for x in leaves]
        try:
            check_arrays(data)
            if self._kinds is None:
                (self.model.form.check or check_finite)(data)
                kinds = intake.data_kinds(self.model, data)
                intake.check(kinds, data)
                self._kinds = kinds
                self._structure = structure
        except ValueError as error:
            raise DataError(f"batch of step {step}: {error}") from error
        if structure != self._structure:
            expected = f"arrays as in the first, {self._structure}"
            remedy = "have the source give arrays of one structure"
            raise fail(f"batch of step {step}", expected, str(structure), remedy)
        return Minibatch(intake.cast(self._kinds, data), None)

    def _from_list(self, item: list[Any]) -> PyTree:
        """A batch from a list of arrays, as loaders of PyTorch give it: a tuple of them; from one
        array alone that array, unless the model reads a tuple of one."""
        if len(item) != 1:
            return tuple(item)
        if self._is_single is None:
            single = jax.tree.map(to_array, item[0])
            pair = jax.tree.map(to_array, tuple(item))
            reads_pair = intake.can_read(self.model, pair)
            self._is_single = not reads_pair and intake.can_read(self.model, single)
        return item[0] if self._is_single else tuple(item)

    def _documents(self, item: Any, step: int) -> PyTree:
        """A batch of documents, over the words of the model, or else of the first batch with
        words."""
        corpus = _corpus(item, self.model.form.documents.vocab_size, step)  # type: ignore[union-attr]
        if corpus.vocabulary is not None and self.vocabulary is None:
            self.vocabulary = tuple(corpus.vocabulary)
        if corpus.vocabulary is not None and self.vocabulary is not corpus.vocabulary:
            from vijax.data.known_words import are_same

            if not are_same(corpus.vocabulary, self.vocabulary or ()):
                location = f"batch of step {step}"
                expected = "the words of the batches before, in their order"
                actual = f"others, such as {', '.join(list(corpus.vocabulary)[:5])}"
                remedy = (
                    "read every batch with the same words: vijax.data.read(texts, vocabulary=words)"
                )
                raise fail(location, expected, actual, remedy)
        return _pad(corpus)


def stream_loader(source: Any, model: Model) -> StreamLoader:
    """A loader of a source; warns of an order that is not said to be random.

    Raises:
      ValueError: a model of one group, or of given data.
    """
    form = model.form
    if form.one_group or form.given is not None or model.by_entry is not None:
        expected = "arrays, of a model whose groups are not rows"
        raise fail("data", expected, "a source of batches", "give the arrays")
    source = stream(source)
    if not source.shuffled and not source.forget:
        warnings.warn(
            "data: batches are taken in the order in which they come, which is trusted. Rows "
            "sorted by time or label give a wrong fit in silence. Where the source shuffles, say "
            "so: vijax.data.stream(source, shuffled=True). Where the last rows are to count "
            "most, say forget=.",
            stacklevel=4,
        )
    return StreamLoader(source, model)


def _previous_groups(size: float, keep: float, step: int) -> float:
    """Groups remembered before a step, if all batches had this size."""
    return size * step if keep == 1 else size * (1 - keep**step) / (1 - keep)


def _size(batch: Minibatch) -> float:
    """Number of groups in a batch with a weight above 0."""
    if isinstance(batch.data, tuple) and all(isinstance(x, Documents) for x in batch.data):
        return sum(float(np.sum(x.weights)) for x in batch.data)
    if batch.weights is not None:
        return float(np.sum(np.asarray(batch.weights) > 0))
    return float(np.shape(jax.tree.leaves(batch.data)[0])[0])


def _corpus(item: Any, vocab_size: int, step: int) -> Any:
    """A batch of documents."""
    from vijax.data.read import read

    location = f"batch of step {step}"
    corpus = corpus_from_arrow(item, vocab_size, location) if is_arrow(item) else read(item)
    if corpus.vocab_size > vocab_size:
        remedy = "vijax.data.with_vocabulary(corpus, words) leaves other words out"
        raise fail(
            location, f"{vocab_size} words, as the model has", str(corpus.vocab_size), remedy
        )
    return corpus


def _pad(corpus: Any) -> PyTree:
    """Documents, padded to powers of two, so that few shapes occur."""
    longest = (max(1, int(np.max(x))) for x in (corpus.lengths, corpus.tokens))
    slots, tokens = (1 << max(3, (x - 1).bit_length()) for x in longest)
    return (padded_documents(corpus, np.arange(corpus.num_documents), slots, tokens),)
