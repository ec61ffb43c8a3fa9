"""Batches of a loader that several threads make.

A loader that knows the rows of each batch before it reads any can make each by itself: it has
`makers(start, stop)`, functions that return the batches of these steps. Two threads call them, and
the batches come in the order of the steps, the same bit for bit. Other loaders (streams, your own,
files that are not held as a whole) are read in one thread."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from vijax.contract.batch import Minibatch

THREADS = 2
"""Threads that make batches for accelerators."""
USUAL_THREADS = {"cpu": 1}
"""Other usual numbers. On a CPU a second thread would take the cores of the steps."""
LEAST_BYTES = 2**18
"""Bytes of a batch from which on a second thread is worth its handing over."""

Maker = Callable[[], Minibatch]


def count_threads(platform: str) -> int:
    """The threads that make batches for devices of a platform.

    >>> count_threads("cpu"), count_threads("gpu")
    (1, 2)
    """
    return USUAL_THREADS.get(platform, THREADS)


def read_batches(loader: Any, start: int, stop: int, threads: int = 1) -> Iterator[Minibatch]:
    """The batches of steps start, ..., stop - 1, made by so many threads where they are large.

    An exception is raised in the place of its batch. Closing the iterator ends the threads."""
    makers = None
    if threads > 1:
        makers = batch_makers(loader, start, stop)
    if makers is None:
        return loader.batches(start, stop)
    return _make_batches(makers, threads)


def batch_makers(loader: Any, start: int, stop: int) -> Iterator[Maker] | None:
    """The makers of a loader; None if it has none. A loader around another has none by the other's
    attributes: it would give batches that it did not change."""
    if not hasattr(type(loader), "makers"):
        return None
    return loader.makers(start, stop)


def change_batches(
    change: Callable[[Minibatch], Minibatch], makers: Iterator[Maker] | None
) -> Iterator[Maker] | None:
    """Makers of changed batches."""
    if makers is None:
        return None
    return (functools.partial(_call_both, change, make) for make in makers)


def call_each(makers: Iterator[Maker]) -> Iterator[Minibatch]:
    """The batches of makers. A maker is let go before the next is asked for, with what it reads."""
    return map(_call, makers)


def _call(make: Maker) -> Minibatch:
    return make()


def _call_both(change: Callable[[Minibatch], Minibatch], make: Maker) -> Minibatch:
    return change(make())


def _make_batches(makers: Iterator[Maker], threads: int) -> Iterator[Minibatch]:
    for make in makers:
        batch = make()
        yield batch
        if sum(np.asarray(x).nbytes for x in jax.tree.leaves(batch)) >= LEAST_BYTES:
            break
    yield from _make_in_order(makers, threads)


def _make_in_order(makers: Iterator[Maker], threads: int) -> Iterator[Minibatch]:
    pool = ThreadPoolExecutor(threads, "vijax-loader")
    try:
        futures = deque(map(pool.submit, itertools.islice(makers, threads + 1)))
        while futures:
            batch = futures.popleft().result()
            futures.extend(map(pool.submit, itertools.islice(makers, 1)))
            yield batch
    finally:
        pool.shutdown(cancel_futures=True)
