"""A fingerprint of the data of a fit, 128 bits, by which a fit that goes on from a state recognises
its data."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from vijax.contract import describe
from vijax.data.known_words import vocabulary_mark
from vijax.data.loader import loader_columns, loader_words
from vijax.inference.spec import Spec

UNKNOWN = np.zeros(4, np.uint32)
"""The fingerprint in a state that `vijax.fit` has not seen."""
BLOCK = 1 << 22
"""Bytes that are read at once."""
SAMPLE = 1 << 26
"""Bytes of each array that are read where steps are of minibatches and nothing is remembered of
each part of the data. They are spread evenly over the array; shorter arrays are read whole."""
WITH_WORDS = 0x5657
"""The sign of a mark that has words in it."""
BATCHES = 8
"""Batches that are read of a loader that has no `contents`."""


@dataclasses.dataclass(frozen=True)
class Mark:
    """The mark of the data of a run in its state: 128 bits of the data; where the words of
    documents or the names of columns are known, 64 bits of the data, 48 of these names, and a sign
    that says so.

    Attributes:
      data: 128 bits of the data.
      words: eight bytes of the words or names; None where they are not known.
    """

    data: np.ndarray
    words: bytes | None

    @property
    def stored(self) -> np.ndarray:
        """Four integers for the state."""
        if self.words is None:
            return self.data
        first, second = np.frombuffer(self.words, np.uint32)
        return np.array([*self.data[:2], first, (second & 0xFFFF) | WITH_WORDS << 16], np.uint32)

    def is_of(self, stored: np.ndarray) -> bool:
        """True where a state is of these data; earlier releases stored no words, and arrays have no
        names."""
        if self.words is None and _has_words(stored):
            return np.array_equal(stored[:2], self.data[:2])
        return np.array_equal(stored, self.stored) or np.array_equal(stored, self.data)

    def is_of_other_words(self, stored: np.ndarray) -> bool:
        """True where a state is of other words, or columns of other names, than these."""
        if self.words is None or self.is_of(stored) or not _has_words(stored):
            return False
        return not np.array_equal(stored[2:], self.stored[2:])


def _has_words(stored: np.ndarray) -> bool:
    return int(stored[3]) >> 16 == WITH_WORDS


def of_words(words: Sequence[str]) -> np.ndarray:
    """The mark of a state that names its words and no data, as `Mark.stored`."""
    return Mark(UNKNOWN, vocabulary_mark(words)).stored


def mark(loader: Any, spec: Spec, hyper: PyTree) -> Mark:
    """The mark of the data of a run; see `fingerprint`."""
    words, form = loader_words(loader), spec.model.form.documents
    described_by = "" if form is None else form.described_by
    if described_by:  # a model of documents with covariates, whose coefficients mean these columns
        words = (*(words or ()), described_by)
    if form is None and (columns := loader_columns(loader)) is not None:
        words = tuple(name for names in columns for name in ("table", *(names or ())))
    return Mark(fingerprint(loader, spec, hyper), None if words is None else vocabulary_mark(words))


def fingerprint(loader: Any, spec: Spec, hyper: PyTree) -> np.ndarray:
    """The fingerprint of the data of a run, of their parts, and of the E-step; where messages are
    remembered, which hold at fixed hyperparameters, of these too. It depends neither on the order
    of the batches nor on their size."""
    is_cut = spec.messages.num_parts is not None
    digest = hashlib.blake2b(digest_size=UNKNOWN.nbytes)
    most = None if is_cut or loader.steps_per_epoch == 1 else SAMPLE
    for array in _contents(loader, is_cut):
        _read(digest, array, most)
    digest.update(describe.setting(spec.estep).encode())
    for leaf in jax.tree.leaves(hyper) if is_cut else ():
        _read(digest, leaf, None)
    return np.frombuffer(digest.digest(), np.uint32)


def _contents(loader: Any, is_cut: bool) -> Iterable[Any]:
    """The contents of a loader, and its parts where they are fixed."""
    if hasattr(loader, "contents"):
        return loader.contents()
    return _of_parts(loader) if is_cut else _of_first_batches(loader)


def _of_parts(loader: Any) -> list[np.ndarray]:
    """The parts of one pass of a user's own loader, in any order."""
    found = {}
    for batch in loader.batches(0, loader.steps_per_epoch):
        digest = hashlib.blake2b(digest_size=UNKNOWN.nbytes)
        for leaf in jax.tree.leaves(batch._replace(part=None)):
            _read(digest, leaf, None)
        found[int(batch.part)] = np.frombuffer(digest.digest(), np.uint8)
    return [found[part] for part in sorted(found)]


def _of_first_batches(loader: Any) -> Iterator[Any]:
    yield np.int64(loader.num_groups)
    for batch in loader.batches(0, min(BATCHES, loader.steps_per_epoch)):
        yield from jax.tree.leaves(batch)


def _read(digest: Any, array: Any, most: int | None) -> None:
    """Adds an array to the digest as steps read it: doubles as floats, unless x64 is on."""
    rows = np.atleast_1d(array)
    widest = {"f": jnp.result_type(float), "i": jnp.result_type(int)}.get(rows.dtype.kind)
    dtype = widest if widest is not None and rows.dtype.itemsize > widest.itemsize else rows.dtype
    digest.update(f"{dtype.name} {rows.shape}".encode())
    size = max(1, BLOCK // max(1, rows[:1].size * dtype.itemsize))
    starts: Sequence[int] | np.ndarray = range(0, len(rows), size)
    if most is not None and len(starts) > (count := most // BLOCK):
        starts = np.linspace(0, len(rows) - size, count).astype(int)
    with np.errstate(over="ignore"):
        for start in starts:
            digest.update(rows[start : start + size].astype(dtype).tobytes())
