"""A fingerprint of the data of a fit, 128 bits, by which a fit that goes on from a state recognises its data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from vijax.contract import describe
from vijax.inference.spec import Spec

UNKNOWN = np.zeros(4, np.uint32)
"""The fingerprint in a state that `vijax.fit` has not seen."""
BLOCK = 1 << 22
"""Bytes that are read at once."""
SAMPLE = 1 << 26
"""Bytes of each array that are read where steps are of minibatches and nothing is remembered of each part of the data.
They are spread evenly over the array; shorter arrays are read whole."""
BATCHES = 8
"""Batches that are read of a loader that has no `contents`."""


def fingerprint(loader: Any, spec: Spec, hyper: PyTree) -> np.ndarray:
    """The fingerprint of the data of a run, of their parts, and of the E-step; where messages are remembered, which
    hold at fixed hyperparameters, of these too. It depends neither on the order of the batches nor on their size."""
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
