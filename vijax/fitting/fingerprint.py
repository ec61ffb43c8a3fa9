"""A fingerprint of the data of a fit, 128 bits, by which a resumed fit recognises its data."""

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
"""Bytes that are read of each array for a fit on minibatches that remembers no single parts of the
data. They are spread evenly over the array; shorter arrays are read whole."""
WITH_WORDS = 0x5657
"""The sign of a mark that has words in it."""
BATCHES = 8
"""Batches that are read from a loader that has no `contents`."""


@dataclasses.dataclass(frozen=True)
class Mark:
    """The mark of its data in the state of a run: 128 bits of the data; if the words of documents
    or the names of columns are known, 64 bits of the data, 48 bits of these names, and the sign
    `WITH_WORDS`.

    Attributes:
      data: 128 bits of the data.
      words: eight bytes of the words or names; None where they are not known.
    """

    data: np.ndarray
    words: bytes | None

    @property
    def numbers(self) -> np.ndarray:
        """Four integers for the state."""
        if self.words is None:
            return self.data
        first, second = np.frombuffer(self.words, np.uint32)
        return np.array([*self.data[:2], first, (second & 0xFFFF) | WITH_WORDS << 16], np.uint32)

    def matches(self, stored: np.ndarray) -> bool:
        """True where a state is of these data. States of arrays have no names: their data
        alone are compared."""
        if self.words is None and _has_words(stored):
            return np.array_equal(stored[:2], self.data[:2])
        return np.array_equal(stored, self.numbers) or np.array_equal(stored, self.data)

    def is_of_other_words(self, stored: np.ndarray) -> bool:
        """True where a state is of other words or column names."""
        if self.words is None or self.matches(stored) or not _has_words(stored):
            return False
        return not np.array_equal(stored[2:], self.numbers[2:])


def _has_words(stored: np.ndarray) -> bool:
    return int(stored[3]) >> 16 == WITH_WORDS


def mark_words(words: Sequence[str]) -> np.ndarray:
    """The mark of a state that knows its words and no data, as `Mark.numbers`."""
    return Mark(UNKNOWN, vocabulary_mark(words)).numbers


def mark(loader: Any, spec: Spec, hyper: PyTree) -> Mark:
    """The mark of the data of a run; see `fingerprint`."""
    words = loader_words(loader)
    form = spec.model.form.documents
    if form is not None and form.described_by:
        # Documents with covariates: the coefficients mean these columns.
        words = (*(words or ()), form.described_by)
    if form is None and (columns := loader_columns(loader)) is not None:
        words = tuple(name for names in columns for name in ("table", *(names or ())))
    return Mark(fingerprint(loader, spec, hyper), None if words is None else vocabulary_mark(words))


def fingerprint(loader: Any, spec: Spec, hyper: PyTree) -> np.ndarray:
    """The fingerprint of the data of a run, of their parts, and of the E-step. If messages are
    remembered, which hold at fixed hyperparameters, it covers these too. It depends neither on the
    order of the batches nor on their size."""
    is_cut = spec.messages.num_parts is not None
    digest = hashlib.blake2b(digest_size=UNKNOWN.nbytes)
    max_bytes = None if is_cut or loader.steps_per_epoch == 1 else SAMPLE
    for array in _contents(loader, is_cut):
        _update(digest, array, max_bytes)
    digest.update(describe.setting(spec.estep).encode())
    if is_cut:
        for leaf in jax.tree.leaves(hyper):
            _update(digest, leaf)
    return np.frombuffer(digest.digest(), np.uint32)


def _contents(loader: Any, is_cut: bool) -> Iterable[Any]:
    """The contents of a loader, and its parts where they are fixed."""
    if hasattr(loader, "contents"):
        return loader.contents()
    return _part_digests(loader) if is_cut else _first_batches(loader)


def _part_digests(loader: Any) -> list[np.ndarray]:
    """Digests of the parts that a user's loader deals in one pass, by number of the part."""
    digests = {}
    for batch in loader.batches(0, loader.steps_per_epoch):
        digest = hashlib.blake2b(digest_size=UNKNOWN.nbytes)
        for leaf in jax.tree.leaves(batch._replace(part=None)):
            _update(digest, leaf)
        digests[int(batch.part)] = np.frombuffer(digest.digest(), np.uint8)
    return [digests[part] for part in sorted(digests)]


def _first_batches(loader: Any) -> Iterator[Any]:
    """The number of groups, and the arrays of the first batches."""
    yield np.int64(loader.num_groups)
    for batch in loader.batches(0, min(BATCHES, loader.steps_per_epoch)):
        yield from jax.tree.leaves(batch)


def _update(digest: Any, array: Any, max_bytes: int | None = None) -> None:
    """Adds an array to the digest as steps read it: doubles as floats, unless x64 is on. At most
    about `max_bytes` of it are read."""
    rows = np.atleast_1d(array)
    dtype = rows.dtype
    widest = {"f": jnp.result_type(float), "i": jnp.result_type(int)}.get(dtype.kind)
    if widest is not None and dtype.itemsize > widest.itemsize:
        dtype = widest
    digest.update(f"{dtype.name} {rows.shape}".encode())
    size = max(1, BLOCK // max(1, rows[:1].size * dtype.itemsize))
    starts: Sequence[int] | np.ndarray = range(0, len(rows), size)
    if max_bytes is not None and len(starts) > (count := max_bytes // BLOCK):
        starts = np.linspace(0, len(rows) - size, count).astype(int)
    with np.errstate(over="ignore"):
        for start in starts:
            digest.update(rows[start : start + size].astype(dtype).tobytes())
