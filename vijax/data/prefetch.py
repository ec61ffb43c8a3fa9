"""The next items are made in a background thread while the current one is used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def prefetch(items: Iterable[Item], size: int = 2) -> Generator[Item, None, None]:
    """The same items in the same order, up to `size` of them made ahead of time.

    An exception in making an item is raised where that item was to come. Closing the generator, or leaving it by an
    exception such as KeyboardInterrupt, ends the thread.

    >>> list(prefetch(range(4)))
    [0, 1, 2, 3]
    """
    ready: queue.Queue = queue.Queue(max(size, 1))
    stop = threading.Event()
    thread = threading.Thread(target=_make, args=(items, ready, stop), name="vijax-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is _END:
                return
            if error is not None:
                raise error
            yield item
    finally:
        stop.set()
        _drain(ready)
        thread.join()


_END = StopIteration()


def _make(items: Iterable, ready: queue.Queue, stop: threading.Event) -> None:
    """Puts (item, None) for each item, then (None, how it ended); gives up once `stop` is set."""
    end: BaseException = _END
    try:
        for item in items:
            if stop.is_set():
                return
            ready.put((item, None))
    except BaseException as error:
        end = error
    if not stop.is_set():
        ready.put((None, end))


def _drain(ready: queue.Queue) -> None:
    """Makes room, so that the thread's pending `put` returns and it sees that it is to stop."""
    while not ready.empty():
        ready.get_nowait()
