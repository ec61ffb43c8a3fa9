"""Batches that come from elsewhere, in an order of their own: by grain, PyTorch or Ray, or without
an end."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import PyTree

from vijax.contract import intake
from vijax.contract.array_checks import check_arrays, check_finite
from vijax.contract.batch import Documents, Minibatch
from vijax.contract.model import Model
from vijax.data.minibatch import padded_documents
from vijax.data.reading.checks import DataError, fail
from vijax.data.streams.documents import corpus_from_arrow, is_arrow
from vijax.data.streams.named_batches import NamedBatches

UNKNOWN = 2**31 - 1
"""Steps of a pass of which nobody knows the end."""


READ_AGAIN = "For more, give a source that can be read again."


class Source(Protocol):
    """Batches from elsewhere: `vijax.fit` takes whatever has these two."""

    num_groups: float | None
    """N, the number of groups in all; None where nobody knows."""

    def batches(self, start_step: int) -> Iterator[Any]:
        """The batches of steps start_step, start_step + 1, ...: where they are a function of the
        step, a run that goes on is one that was never stopped."""


@dataclasses.dataclass(frozen=True)
class Stream:
    """A source, as `stream` returns it; `is_part`: each process gives its own (`own_part`)."""

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

    A batch is a pytree of arrays (of PyTorch or Arrow too; a list is a tuple, of one tensor that
    tensor, as a loader of a `TensorDataset` gives them) with one leading axis of groups, a table of
    pandas, polars or Arrow or a record batch being a matrix of its columns; for models of
    documents, whatever `vijax.data.read` reads, over the model's words, or an Arrow table or record
    batch with the columns `ids` and `counts` of shards; or a `vijax.Minibatch`. Columns of tables
    are those of the first batch by their names, in whatever order they come later, and so are those
    of tables that the fit is asked about. Batches of one size share a program. The first is checked
    as arrays are; of later ones, steps that are not finite are skipped.

    N scales each batch up to all groups. Where it is not known, it is the number of groups that
    came so far, N_t = (1 - forget) N_(t-1) + S. As long as it grows, a batch weighs less than those
    after it (under steps 1 / t that of step j as j / t): a guess of N is better than none. With
    `forget` it stays at S / forget, as if the data were the last so many groups: q is as wide as
    these allow, and can follow data that change. Under steps of constant size rho = `forget` that
    is streaming variational Bayes with a forgetting rate: lambda becomes eta + (1 - rho) (lambda -
    eta) + the message of the batch (Broderick et al. 2013, section 2.1; Honkela and Valpola 2003).
    A number of your own is the population size of McInerney, Ranganath and Blei (2015, section 2).

    In a fit of several processes each has to give the same batches (all are compared), or say that
    it gives its own part of them: `vijax.data.own_part`.

    Args:
      batches: a source with `batches` and `num_groups`; a function from a step to the batches from
        there on; or an iterable, which is begun anew at its end and where a run goes on.
      num_groups: N; None where nobody knows.
      forget: share of what came before that each batch puts out of mind, 0 or more and below 1.
      shuffled: the order is random, and needs no warning.

    >>> found = stream([np.zeros(10), np.ones(10)], 20, shuffled=True)
    >>> float(next(found.batches(0)).sum()), found.num_groups
    (0.0, 20)
    """
    if not 0 <= forget < 1:
        raise fail(
            "forget",
            "a share, 0 or more and below 1",
            repr(forget),
            "give that of one batch, such as 0.01",
        )
    if isinstance(batches, Stream):
        return batches
    if hasattr(batches, "batches"):
        source: Any = batches
        num_groups = source.num_groups if num_groups is None else num_groups
        batches = source.batches
    if num_groups is not None and not (math.isfinite(num_groups) and num_groups > 0):
        raise fail(
            "num_groups",
            "a positive number, or None",
            repr(num_groups),
            "give None where nobody knows it",
        )
    if not callable(batches):
        if not isinstance(batches, Iterable):
            got = type(batches).__name__
            raise fail(
                "batches",
                "an iterable, or a function of a step",
                got,
                "see help(vijax.data.stream)",
            )
        items: Iterable[Any] = batches
        return Stream(lambda step: iter(items), num_groups, forget, shuffled)
    return Stream(batches, num_groups, forget, shuffled)


class StreamLoader:
    """Minibatches of a stream. The batch of step 0 is kept: the start is made from it."""

    num_words = None
    is_stream = True
    warns_of_end = True
    """False where others say that the source has ended."""

    def __init__(self, source: Stream, model: Model):
        self.source, self.model = source, model
        self._first: Any = None
        self._rest: Iterator[Any] | None = None  # behind the first, while nobody has taken it
        self._kinds: list[Any] | None = None
        self._structure: Any = None
        self._named = NamedBatches()
        self._is_single: bool | None = None  # whether a list of one array is that array
        documents = model.form.documents
        self.vocabulary: tuple[str, ...] | None = (
            None if documents is None else documents.vocabulary
        )

    @property
    def num_groups(self) -> Any:
        """N, or None."""
        return self.source.num_groups

    @property
    def leaf_columns(self) -> tuple[tuple[str, ...] | None, ...] | None:
        """The names of the columns of each table in a batch; None where an array has none, or
        nothing was read yet."""
        return self._named.leaf_columns

    @property
    def steps_per_epoch(self) -> int:
        """N / S rounded up, and 2 at least; where N is not known more than any run has."""
        if self.num_groups is None:
            return UNKNOWN
        return max(2, math.ceil(self.num_groups / _size(next(self.batches(0, 1)))))

    def contents(self) -> Iterator[Any]:
        """Nothing: a stream is not known again."""
        return iter(())

    def spread(self, count: int) -> Iterator[Minibatch]:
        """The first batch."""
        return self.batches(0, 1)

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """See `vijax.data.loader.Loader`. Warns where the source ends before."""
        seen = None
        keep = 1 - self.source.forget
        for step, item in zip(range(start, stop), self._items(start, stop), strict=False):
            batch = self._minibatch(item, step)
            if batch.num_groups is None:
                size = _size(batch)
                before = _groups_before(size, keep, step) if seen is None else seen
                seen = keep * before + size
                batch = batch._replace(num_groups=np.float32(self.num_groups or seen))
            yield batch

    def _items(self, step: int, stop: int) -> Iterator[Any]:
        """The items of the source, which is asked again at its end."""
        if step == 0:
            if self._first is None:
                self._rest = iter(self.source.batches(0))
                self._first = next(self._rest, None)
                if self._first is None:
                    raise fail(
                        "data",
                        "one batch or more",
                        "none",
                        "a generator that was read once has no more",
                    )
            yield self._first
            step = 1
        items, self._rest = (self._rest if step == 1 else None), None
        while step < stop:
            begun = step
            anew = items is None
            for item in iter(self.source.batches(step)) if items is None else items:
                yield item
                step += 1
            if anew and step == begun:
                if self.warns_of_end:
                    text = (
                        f"data: the source ended after {step} of {stop} steps, and so does the fit."
                    )
                    warnings.warn(f"{text} {READ_AGAIN}", stacklevel=2)
                return
            items = None

    def _minibatch(self, item: Any, step: int) -> Minibatch:
        if isinstance(item, Minibatch):
            return item._replace(data=self._named.arrange(item.data, step))
        if self.model.form.documents is not None:
            return Minibatch(self._documents(item, step), None)
        data = self._from_list(item) if isinstance(item, list) else item
        data = jax.tree.map(np.asarray, self._named.arrange(data, step))
        structure = jax.tree.structure(data), [np.shape(x)[1:] for x in jax.tree.leaves(data)]
        try:
            check_arrays(data)
            if self._kinds is None:
                (self.model.form.check or check_finite)(data)
                kinds = intake.data_kinds(self.model, data)
                intake.check(kinds, data)
                self._kinds, self._structure = kinds, structure
        except ValueError as error:
            raise DataError(f"batch of step {step}: {error}") from error
        if structure != self._structure:
            remedy = "have the source give arrays of one structure"
            raise fail(
                f"batch of step {step}",
                f"arrays as in the first, {self._structure}",
                str(structure),
                remedy,
            )
        return Minibatch(intake.cast(self._kinds, data), None)

    def _from_list(self, item: list[Any]) -> PyTree:
        """A batch that is a list of arrays, as loaders of PyTorch give it: a tuple of them; of one
        array alone that array, where the model reads no tuple of one."""
        if len(item) != 1:
            return tuple(item)
        if self._is_single is None:
            single, pair = (jax.tree.map(np.asarray, data) for data in (item[0], tuple(item)))
            self._is_single = not intake.can_read(self.model, pair) and intake.can_read(
                self.model, single
            )
        return item[0] if self._is_single else tuple(item)

    def _documents(self, item: Any, step: int) -> PyTree:
        """A batch of documents, over the words of the model, or else of the first batch that has
        words."""
        corpus = _corpus(item, self.model.form.documents.vocab_size, step)  # type: ignore[union-attr]
        if corpus.vocabulary is not None and self.vocabulary is None:
            self.vocabulary = tuple(corpus.vocabulary)
        if corpus.vocabulary is not None and self.vocabulary is not corpus.vocabulary:
            from vijax.data.known_words import are_same

            if not are_same(corpus.vocabulary, self.vocabulary or ()):
                remedy = (
                    "read every batch with the same words: vijax.data.read(texts, vocabulary=words)"
                )
                got = f"others, such as {', '.join(list(corpus.vocabulary)[:5])}"
                raise fail(
                    f"batch of step {step}",
                    "the words of the batches before, in their order",
                    got,
                    remedy,
                )
        return _pad(corpus)


def stream_loader(source: Any, model: Model) -> StreamLoader:
    """A loader of a source; warns of an order that nobody vouches for.

    Raises:
      ValueError: a model of one group, or of given data.
    """
    form = model.form
    if form.one_group or form.given is not None or model.by_entry is not None:
        raise fail(
            "data",
            "arrays, of a model whose groups are not rows",
            "a source of batches",
            "give the arrays",
        )
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


def _groups_before(size: float, keep: float, step: int) -> float:
    """Groups in mind before a step, if all batches were of this size."""
    return size * step if keep == 1 else size * (1 - keep**step) / (1 - keep)


def _size(batch: Minibatch) -> float:
    """Groups in a batch that count."""
    if isinstance(batch.data, tuple) and all(isinstance(x, Documents) for x in batch.data):
        return sum(float(np.sum(x.weights)) for x in batch.data)
    if batch.weights is not None:
        return float(np.sum(np.asarray(batch.weights) > 0))
    return float(np.shape(jax.tree.leaves(batch.data)[0])[0])


def _corpus(item: Any, vocab_size: int, step: int) -> Any:
    """A batch of documents."""
    from vijax.data.read import read

    corpus = (
        corpus_from_arrow(item, vocab_size, f"batch of step {step}")
        if is_arrow(item)
        else read(item)
    )
    if corpus.vocab_size > vocab_size:
        remedy = "vijax.data.with_vocabulary(corpus, words) leaves other words out"
        raise fail(
            f"batch of step {step}",
            f"{vocab_size} words, as the model has",
            str(corpus.vocab_size),
            remedy,
        )
    return corpus


def _pad(corpus: Any) -> PyTree:
    """Documents, padded to powers of two, so that few shapes occur."""
    most = (max(1, int(np.max(x))) for x in (corpus.lengths, corpus.tokens))
    slots, tokens = (1 << max(3, (x - 1).bit_length()) for x in most)
    return (padded_documents(corpus, np.arange(corpus.num_documents), slots, tokens),)
