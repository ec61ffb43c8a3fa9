"""The next items are made in a background thread while the current one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")


def prefetch(items: Iterable[Item], size: int = 2) -> Generator[Item, None, None]:
    """The same items in the same order, up to `size` of them made ahead of time.

    An exception in making an item is raised where that item was to come. Closing the generator, or leaving it by an
    exception such as KeyboardInterrupt, ends the thread.

    >>> list(prefetch(range(4)))
    [0, 1, 2, 3]
    """
    iterator, end = iter(items), object()
    pool = ThreadPoolExecutor(1, "vijax-prefetch")
    make: Any = lambda: pool.submit(next, iterator, end)
    try:
        ahead = deque(make() for _ in range(max(size, 1) + 1))  # and one in the thread's hand
        while (item := ahead.popleft().result()) is not end:
            ahead.append(make())
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
