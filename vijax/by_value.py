"""One object for equal settings, so that what was compiled for the one serves the other.

A model is made of functions, which are equal to themselves alone, and programs are compiled for such functions. So a
model that is made again with equal settings had better be the very same object, and so had an algorithm of it.
"""

from __future__ import annotations

import collections
import functools
import inspect
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import jax
import numpy as np

Make = TypeVar("Make", bound=Callable)
T = TypeVar("T")

MOST = 8
"""How many objects of each kind are kept, those last asked for."""
LARGE = 1 << 16
"""Arrays of more numbers are not compared: what is made of them is made anew."""


def by_value(make: Make) -> Make:
    """The decorator of a function that makes something immutable: for equal arguments, the object it made before.

    Arrays are compared by content, functions by identity. What was made under another precision is another object.

    >>> @by_value
    ... def pair(x, y=2.0):
    ...     return [x, y]
    >>> pair(1.0) is pair(x=1.0, y=2.0), pair(1.0) is pair(1), pair(np.ones(2)) is pair(np.ones(2))
    (True, False, True)
    """
    made: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
    signature, lock = inspect.signature(make), threading.Lock()

    @functools.wraps(make)
    def one(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            key = (jax.config.jax_enable_x64, _key(bound.arguments))  # type: ignore[attr-defined]
        except (TypeError, _NotComparableError):  # wrong arguments too: the function itself says what is wrong
            return make(*args, **kwargs)
        with lock:
            if key in made:
                made.move_to_end(key)
                return made[key]
        result = make(*args, **kwargs)
        with lock:
            _put(made, key, result)
        return result

    return one  # type: ignore[return-value]


def of(owner: Any, x: T) -> T:
    """`x`, or what is equal to it and was handed here before with this owner, whose life it shares."""
    known = owner.__dict__.setdefault("_of_value", collections.OrderedDict())
    try:
        if x not in known:
            _put(known, x, x)  # type: ignore[arg-type]
        return known[x]
    except TypeError:  # it holds what has no hash, such as an array
        return x


def _put(kept: collections.OrderedDict, key: Hashable, x: Any) -> None:
    kept[key] = x
    if len(kept) > MOST:
        kept.popitem(last=False)


class _NotComparableError(Exception):
    """Of an argument that is traced or too large."""


def _key(x: Any) -> Hashable:
    if isinstance(x, dict):
        return tuple((name, _key(value)) for name, value in x.items())
    if isinstance(x, tuple | list):
        return (type(x), *map(_key, x))
    if isinstance(x, np.ndarray | jax.Array):
        if isinstance(x, jax.core.Tracer) or x.size > LARGE:
            raise _NotComparableError
        array = np.asarray(x)
        return type(x), array.dtype.str, array.shape, array.tobytes()
    try:
        hash(x)
    except TypeError:  # a family, say: a tree of arrays
        leaves, structure = jax.tree.flatten(x)
        if len(leaves) == 1 and leaves[0] is x:
            raise
        return type(x), structure, *map(_key, leaves)
    return type(x), x
