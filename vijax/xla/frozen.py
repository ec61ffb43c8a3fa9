"""A user's function as a value: its code, and all values that it reads.

A function equals only itself, whatever it reads. But the values that it reads may change between
two calls: a variable of a notebook is bound to other data, an array is changed in place, an
attribute of an object is set. Then programs compiled for the earlier function would answer for the
present one. So a function of the user is copied together with the values that it reads, and is
compared by its code and these values.

The copies serve a second purpose: JAX (0.10) may keep using the contents that an array had when it
was first traced."""

from __future__ import annotations

import collections
import functools
import hashlib
import pickle
import threading
import types
import weakref
from collections.abc import Hashable
from typing import Any

import jax
import numpy as np

from vijax.xla.user_code import is_users, is_users_file, is_users_module, read_names

MOST_READ = 20_000
"""Values that a function may read, including values inside others; a function that reads more
equals no other."""
CONTAINERS = dict, list, set, bytearray, collections.deque
"""Types whose subclasses are not compared: they may treat their contents in any way."""
TABLES = ("pandas", "polars", "pyarrow")
"""Libraries whose tables are compared by their contents."""
PLAIN = int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range, slice, np.generic
"""Types of values that are compared by value and type."""
FIXED = (
    types.BuiltinFunctionType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.WrapperDescriptorType,
    np.ufunc,
    np.dtype,
)
"""Types of objects that do not change."""


class UnknownError(Exception):
    """A function reads something that cannot be compared."""


class Same:
    """An object that is compared by identity, and kept alive so that no other gets its address."""

    def __init__(self, x: Any):
        self._x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._x is other._x

    def __hash__(self) -> int:
        return id(self._x)


def freeze(x: Any) -> tuple[Any, Hashable]:
    """A copy of a user's function that keeps reading the present values, and a key.

    Equal functions have one copy; keys are equal for equal code that reads equal values. Methods
    and partial functions are copied with their contents; functions of vijax and of installed
    packages are returned as they are.

    Raises:
      UnknownError: the function reads something that cannot be compared.

    >>> y = np.zeros(2)
    >>> function = lambda: y.sum()
    >>> copy, before = freeze(function)
    >>> y[0] = 1.0
    >>> print(function(), copy(), freeze(function)[1] == before)
    1.0 0.0 False
    """
    try:
        copy, key = _Reader().read(x)
    except (
        Exception
    ) as error:  # a user's object may raise any error, a very deep one RecursionError
        raise UnknownError from error
    try:
        weakref.ref(copy)
    except TypeError:  # an object with slots alone
        return copy, key
    with _LOCK:  # equal functions are one, so that programs compiled for one serve the other
        # JAX keeps a NumPy array that it has traced in float32 as one of float32: float64 needs its
        # own copies.
        return _COPIES.setdefault((jax.config.jax_enable_x64, key), copy), key  # type: ignore[attr-defined]


_COPIES: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def snapshot(function: Any) -> Any:
    """A copy of a user's function that keeps reading the present values, one for all equal
    functions. A function that reads something that cannot be compared equals no other, and no
    program compiled before serves it. None stays.

    >>> scale = [2.0]
    >>> times = lambda x: scale[0] * x
    >>> copy = snapshot(times)
    >>> snapshot(times) is copy
    True
    >>> scale[0] = 3.0
    >>> snapshot(times) is copy
    False
    """
    if not is_function(function):
        return function
    try:
        return freeze(function)[0]
    except UnknownError:
        return functools.partial(function)


def is_function(x: Any) -> bool:
    """True for functions, methods, partial functions, and callable objects of a user's class."""
    if isinstance(x, types.FunctionType | types.MethodType | functools.partial):
        return True
    return callable(x) and not isinstance(x, type) and is_users(type(x).__module__)


class _Reader:
    """Reads one function and, in turn, all values that it reads. Each object is read once, so that
    cycles end."""

    def __init__(self) -> None:
        self._read: dict[int, tuple[Any, Hashable]] = {}
        self._alive: list[
            Any
        ] = []  # the objects read, so that no other object gets their addresses

    def read(self, x: Any) -> tuple[Any, Hashable]:
        """A copy of a value and its key; the value itself if it cannot change, or if it is unknown
        how to copy it."""
        if isinstance(x, PLAIN):
            is_exact = not isinstance(x, float | complex | np.generic | slice)
            return x, (type(x), x if is_exact else repr(x))
        if id(x) in self._read:
            return self._read[id(x)]
        self._alive.append(x)
        if len(self._alive) > MOST_READ:
            raise UnknownError
        self._read[id(x)] = x, ("again", len(self._alive))  # for a value that holds itself
        self._read[id(x)] = self._read_by_type(x)
        return self._read[id(x)]

    def _read_by_type(self, x: Any) -> tuple[Any, Hashable]:
        if isinstance(x, types.FunctionType):
            return self._function(x)
        if isinstance(x, types.MethodType):
            function, function_key = self.read(x.__func__)
            owner, owner_key = self.read(x.__self__)
            return types.MethodType(function, owner), ("method", function_key, owner_key)
        if isinstance(x, functools.partial):
            parts, key = self._several([x.func, *x.args, *x.keywords.values()])
            count = 1 + len(x.args)
            keywords = dict(zip(x.keywords, parts[count:], strict=True))
            copy = functools.partial(parts[0], *parts[1:count], **keywords)
            return copy, ("partial", count, tuple(x.keywords), key)
        if isinstance(x, np.ndarray):
            return self._array(x)
        if isinstance(x, jax.Array):
            if isinstance(x, jax.core.Tracer):
                raise UnknownError
            return x, Same(x)
        if type(x) in (list, tuple, set, frozenset, dict):
            return self._container(x)
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            copies, key = self._several(list(x))
            has_copies = any(a is not b for a, b in zip(copies, x, strict=True))
            return type(x)(*copies) if has_copies else x, (type(x), key)
        if isinstance(x, types.ModuleType):
            return x, Same(x)  # a function's names in a module are read with the function
        if isinstance(x, type):
            return self._class(x)
        if isinstance(x, FIXED):
            return x, Same(x)
        if isinstance(x, staticmethod | classmethod):
            return x, (type(x), self.read(x.__func__)[1])
        if isinstance(x, property):
            return x, (property, self._several([x.fget, x.fset, x.fdel])[1])
        if (type(x).__module__ or "").partition(".")[0] in TABLES:
            return x, (type(x), hashlib.blake2b(pickle.dumps(x, 5)).digest())
        return self._object(x)

    def _several(self, values: list[Any]) -> tuple[list[Any], Hashable]:
        pairs = [self.read(value) for value in values]
        return [copy for copy, _ in pairs], tuple(key for _, key in pairs)

    def _array(self, x: np.ndarray) -> tuple[Any, Hashable]:
        if x.dtype.hasobject:
            _, key = self._several(x.ravel().tolist())
            return x.copy(), (type(x), x.shape, key)
        mask = np.ma.getmaskarray(x).tobytes() if isinstance(x, np.ma.MaskedArray) else b""
        data = np.ascontiguousarray(x).view(np.uint8).data if x.size else b""
        digest = hashlib.blake2b(data).digest()
        is_fixed = not x.flags.writeable and x.base is None
        return x if is_fixed else x.copy(), (type(x), x.dtype.str, x.shape, digest, mask)

    def _container(self, x: Any) -> tuple[Any, Hashable]:
        """A copy of a container. An empty one stays itself: the function may be about to fill
        it."""
        if not x and not isinstance(x, tuple | frozenset):
            return x, Same(x)
        if isinstance(x, dict):
            names, name_key = self._several(list(x))
            values, key = self._several(list(x.values()))
            return dict(zip(names, values, strict=True)), (dict, name_key, key)
        copies, key = self._several(list(x))
        if isinstance(x, set | frozenset):
            return type(x)(x), (type(x), frozenset(key))  # type: ignore[call-overload]
        return type(x)(copies), (type(x), key)

    def _class(self, x: type) -> tuple[Any, Hashable]:
        """The class itself; the key of a user's class has its attributes, which may be set
        later."""
        if not is_users(getattr(x, "__module__", "")):
            return x, Same(x)
        names = []
        values = []
        for parent in x.__mro__:
            if not is_users(getattr(parent, "__module__", "")):
                continue
            for name, value in vars(parent).items():
                if not name.startswith("__") or isinstance(value, types.FunctionType):
                    names.append(name)
                    values.append(value)
        return x, (Same(x), tuple(names), self._several(values)[1])

    def _object(self, x: Any) -> tuple[Any, Hashable]:
        """Another object, compared by its own equality or by its attributes. A dict or list of
        another type, or of a user's class, holds more than its attributes, and is refused."""
        type_key = self.read(type(x))[1]
        if isinstance(x, CONTAINERS):
            raise UnknownError
        if type(x).__hash__ is not object.__hash__:
            try:
                hash(x)
                return x, (type_key, x)
            except Exception:  # it has no hash, or one that fails: it is compared by its attributes
                pass
        attributes = _attributes(x)
        if not attributes:
            if callable(x):  # such as a compiled function
                return x, Same(x)
            if attributes is None:
                raise UnknownError
        is_own = is_users(type(x).__module__)
        if not is_own and callable(x) and hasattr(x, "__wrapped__"):  # `jax.jit` of a function
            return x, Same(x)
        names = list(attributes)
        copies, key = self._several(list(attributes.values()))
        is_namespace = isinstance(x, types.SimpleNamespace)
        if not is_own and not is_namespace:
            return x, (type_key, tuple(names), key)
        copy = types.SimpleNamespace() if is_namespace else object.__new__(type(x))
        for name, value in zip(names, copies, strict=True):
            object.__setattr__(copy, name, value)
        return copy, (type_key, tuple(names), key)

    def _function(self, x: types.FunctionType) -> tuple[Any, Hashable]:
        if not is_users_file(x.__code__.co_filename):
            return self._package_function(x)
        cells = x.__closure__ or ()
        empty = tuple(types.CellType() for _ in cells)
        copy = types.FunctionType(x.__code__, dict(x.__globals__), x.__name__, None, empty)
        self._read[id(x)] = copy, ("again", len(self._alive))  # it may call itself
        names, attributes = read_names(x.__code__)
        keys: list[Hashable] = [x.__code__, x.__module__]
        for name in sorted(names & set(x.__globals__)):
            value, key = self.read(x.__globals__[name])
            copy.__globals__[name] = value
            keys.append((name, key))
            if is_users_module(value):
                read = sorted(attributes & set(vars(value)))
                keys.append((*read, self._several([vars(value)[field] for field in read])[1]))
        for cell, new in zip(cells, copy.__closure__ or (), strict=True):
            try:
                value, key = self.read(cell.cell_contents)
            except ValueError as error:  # not bound yet
                raise UnknownError from error
            new.cell_contents = value
            keys.append(key)
        copy.__defaults__, defaults_key = self._defaults(x.__defaults__)
        copy.__kwdefaults__, kwdefaults_key = self._defaults(x.__kwdefaults__)
        for name in ("__qualname__", "__module__", "__doc__"):
            setattr(copy, name, getattr(x, name))
        copy.__dict__.update(x.__dict__)
        return copy, ("function", *keys, defaults_key, kwdefaults_key)

    def _defaults(self, values: Any) -> tuple[Any, Hashable]:
        return (None, None) if values is None else self.read(values)

    def _package_function(self, x: types.FunctionType) -> tuple[Any, Hashable]:
        """A function of an installed package, itself. One that another function made is compared by
        its contents, which may be the user's; vijax makes its own from functions that are frozen
        already."""
        cells = x.__closure__ or ()
        if not cells or (x.__module__ or "").startswith("vijax."):
            return x, Same(x)
        contents = []
        for cell in cells:
            try:
                contents.append(cell.cell_contents)
            except ValueError:
                return x, Same(x)
        contents_key = self._several(contents)[1]
        return x, (x.__code__, x.__module__, contents_key, self._defaults(x.__defaults__)[1])


def _attributes(x: Any) -> dict[str, Any] | None:
    """The attributes of an object by name, including slots; None if it has no place for any."""
    slots = [
        name for kind in type(x).__mro__ for name in _slot_names(vars(kind).get("__slots__", ()))
    ]
    attributes = getattr(x, "__dict__", None)
    if attributes is None and not slots:
        return None
    filled = {
        name: getattr(x, name)
        for name in slots
        if name not in ("__dict__", "__weakref__") and hasattr(x, name)
    }
    return {**(attributes or {}), **filled}


def _slot_names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
