"""A user's function as a value: what it does, and all that it reads.

A function equals itself alone, whatever it reads. But what it reads may change between two calls: a
variable of a notebook is bound to other data, an array is changed in place, an attribute of an
object is set. Programs that were compiled for the function as it was would then answer for it as it
is. So a function that comes in is copied together with what it reads, and is compared by its code
and the values that it reads.

The copies serve a second purpose: JAX (0.10) may go on with what an array held when it was first
traced."""

from __future__ import annotations

import collections
import dis
import functools
import hashlib
import os
import pickle
import site
import sys
import sysconfig
import threading
import types
import weakref
from collections.abc import Hashable, Iterator
from typing import Any

import jax
import numpy as np

MOST_READ = 20_000
"""Values that a function may read, those inside others included; one that reads more is compared
with none."""
CONTAINERS = dict, list, set, bytearray, collections.deque
"""Types whose subclasses are not compared: nobody knows what they make of what they hold."""
TABLES = ("pandas", "polars", "pyarrow")
"""Libraries whose tables are compared by what they hold."""
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
    """Returns a copy of a user's function that reads what the function reads now, one for all
    functions that are equal; and a key, which is equal for equal code that reads equal values.
    Methods and partial functions are copied with what they hold; functions of vijax and of
    installed packages are returned as they are.

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
    ) as error:  # objects of others raise what they like, and very deep ones a RecursionError
        raise UnknownError from error
    try:
        weakref.ref(copy)
    except TypeError:  # an object with slots alone
        return copy, key
    with _LOCK:  # equal functions are one, so that programs compiled for one serve the other
        # JAX keeps an array of NumPy that it has traced in float32 as one of float32: float64 gets
        # copies of its own.
        return _COPIES.setdefault((jax.config.jax_enable_x64, key), copy), key  # type: ignore[attr-defined]


_COPIES: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def snapshot(function: Any) -> Any:
    """A copy of a user's function that reads what the function reads now: one for all equal ones. A
    function that reads something that cannot be compared is like no other, and nothing that was
    compiled before serves it. None stays.

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
    """True of functions, methods, partial functions, and objects of a user's class that can be
    called."""
    if isinstance(x, types.FunctionType | types.MethodType | functools.partial):
        return True
    return callable(x) and not isinstance(x, type) and _is_users(type(x).__module__)


class _Reader:
    """Reads one function, and all that it reads in turn. Each object is read once, so that circles
    end."""

    def __init__(self) -> None:
        self._read: dict[int, tuple[Any, Hashable]] = {}
        self._alive: list[Any] = []  # what was read, so that no other object gets its address

    def read(self, x: Any) -> tuple[Any, Hashable]:
        """The copy of a value, itself where it cannot change or nobody knows how to copy it; and
        its key."""
        if isinstance(x, PLAIN):
            return x, (
                type(x),
                repr(x) if isinstance(x, float | complex | np.generic | slice) else x,
            )
        if id(x) in self._read:
            return self._read[id(x)]
        self._alive.append(x)
        if len(self._alive) > MOST_READ:
            raise UnknownError
        self._read[id(x)] = x, ("again", len(self._alive))  # for a value that holds itself
        self._read[id(x)] = self._of_type(x)
        return self._read[id(x)]

    def _of_type(self, x: Any) -> tuple[Any, Hashable]:
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
            is_copied = any(a is not b for a, b in zip(copies, x, strict=True))
            return type(x)(*copies) if is_copied else x, (type(x), key)
        if isinstance(x, types.ModuleType):
            return x, Same(x)  # what a function reads of one is read beside it
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
        digest = hashlib.blake2b(
            np.ascontiguousarray(x).view(np.uint8).data if x.size else b""
        ).digest()
        is_fixed = not x.flags.writeable and x.base is None
        return x if is_fixed else x.copy(), (type(x), x.dtype.str, x.shape, digest, mask)

    def _container(self, x: Any) -> tuple[Any, Hashable]:
        """A copy of a container. An empty one is itself: the function may be about to fill it."""
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
        """A class is itself; of a user's class attributes count, which may be set later."""
        if not _is_users(getattr(x, "__module__", "")):
            return x, Same(x)
        is_read = lambda name, value: (
            not name.startswith("__") or isinstance(value, types.FunctionType)
        )
        parents = [one for one in x.__mro__ if _is_users(getattr(one, "__module__", ""))]
        own = [
            (name, value)
            for one in parents
            for name, value in vars(one).items()
            if is_read(name, value)
        ]
        names, values = [name for name, _ in own], [value for _, value in own]
        return x, (Same(x), tuple(names), self._several(values)[1])

    def _object(self, x: Any) -> tuple[Any, Hashable]:
        """Something else: by its own equality, or by its attributes. A dict or list of another
        type, and an object of a user's class that is one, holds more than its attributes."""
        type_key = self.read(type(x))[1]
        if isinstance(x, CONTAINERS):
            raise UnknownError
        if type(x).__hash__ is not object.__hash__:
            try:
                hash(x)
                return x, (type_key, x)
            except Exception:  # it has no hash, or one that fails: its attributes say what it is
                pass
        attributes = _attributes_of(x)
        if not attributes:
            if callable(x):  # a compiled function, say
                return x, Same(x)
            if attributes is None:
                raise UnknownError
        if (
            not _is_users(type(x).__module__) and callable(x) and hasattr(x, "__wrapped__")
        ):  # `jax.jit` of a function
            return x, Same(x)
        names, values = list(attributes), list(attributes.values())
        copies, key = self._several(values)
        is_plain = _is_users(type(x).__module__) or isinstance(x, types.SimpleNamespace)
        if not is_plain:
            return x, (type_key, tuple(names), key)
        copy = (
            types.SimpleNamespace()
            if isinstance(x, types.SimpleNamespace)
            else object.__new__(type(x))
        )
        for name, value in zip(names, copies, strict=True):
            object.__setattr__(copy, name, value)
        return copy, (type_key, tuple(names), key)

    def _function(self, x: types.FunctionType) -> tuple[Any, Hashable]:
        if not _is_users_file(x.__code__.co_filename):
            return self._installed(x)
        cells = x.__closure__ or ()
        empty = tuple(types.CellType() for _ in cells)
        copy = types.FunctionType(x.__code__, dict(x.__globals__), x.__name__, None, empty)
        self._read[id(x)] = copy, ("again", len(self._alive))  # it may call itself
        names, attributes = _names_in(x.__code__)
        keys: list[Hashable] = [x.__code__, x.__module__]
        for name in sorted(names & set(x.__globals__)):
            value, key = self.read(x.__globals__[name])
            copy.__globals__[name] = value
            keys.append((name, key))
            if isinstance(value, types.ModuleType) and _is_users_file(
                getattr(value, "__file__", None) or ""
            ):
                read = sorted(attributes & set(vars(value)))
                keys.append((*read, self._several([vars(value)[one] for one in read])[1]))
        for cell, new in zip(cells, copy.__closure__ or (), strict=True):
            try:
                value, key = self.read(cell.cell_contents)
            except ValueError as error:  # not bound yet
                raise UnknownError from error
            new.cell_contents = value
            keys.append(key)
        copy.__defaults__, key = self._defaults(x.__defaults__)
        copy.__kwdefaults__, more = self._defaults(x.__kwdefaults__)
        for name in ("__qualname__", "__module__", "__doc__"):
            setattr(copy, name, getattr(x, name))
        copy.__dict__.update(x.__dict__)
        return copy, ("function", *keys, key, more)

    def _defaults(self, values: Any) -> tuple[Any, Hashable]:
        return (None, None) if values is None else self.read(values)

    def _installed(self, x: types.FunctionType) -> tuple[Any, Hashable]:
        """A function of an installed package: itself. One that another function made is compared by
        what it holds, for that may be the user's; vijax makes its own of functions that were frozen
        before."""
        cells = x.__closure__ or ()
        if not cells or (x.__module__ or "").startswith("vijax."):
            return x, Same(x)
        contents = []
        for cell in cells:
            try:
                contents.append(cell.cell_contents)
            except ValueError:
                return x, Same(x)
        return x, (
            x.__code__,
            x.__module__,
            self._several(contents)[1],
            self._defaults(x.__defaults__)[1],
        )


def _attributes_of(x: Any) -> dict[str, Any] | None:
    """The attributes of an object by name, those in slots among them; None where it has no place
    for any."""
    slots = [name for one in type(x).__mro__ for name in _named(vars(one).get("__slots__", ()))]
    own = getattr(x, "__dict__", None)
    if own is None and not slots:
        return None
    filled = {
        name: getattr(x, name)
        for name in slots
        if name not in ("__dict__", "__weakref__") and hasattr(x, name)
    }
    return {**(own or {}), **filled}


def _named(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


# --- what is the user's ---------------------------------------------------------------------------
def _installed_places() -> tuple[str, ...]:
    """Folders of Python, of installed packages, and of vijax itself."""
    paths = [*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()]
    known = {
        os.path.realpath(path)
        for path in paths
        if path.rstrip("/").endswith(("packages", "python" + _VERSION))
    }
    return tuple(
        sorted(
            {path + os.sep for path in known}
            | {os.path.dirname(os.path.dirname(__file__)) + os.sep}
        )
    )


_VERSION = sysconfig.get_python_version()


@functools.cache
def _is_users_file(path: str) -> bool:
    """True of a file that is no part of an installed package, and of cells of a notebook."""
    return not path.startswith("<frozen") and not os.path.realpath(path).startswith(
        _installed_places()
    )


def _is_users(module: str | None) -> bool:
    """True of a module that is no part of an installed package."""
    found = sys.modules.get(module or "")
    path = getattr(found, "__file__", None)
    if path is None:
        return found is not None and found.__name__ == "__main__"
    return _is_users_file(path)


@functools.cache
def _names_in(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Global names that code reads, and attributes; of functions inside it too."""
    names, attributes = set(), set()
    for one in _codes(code):
        for instruction in dis.get_instructions(one):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.add(instruction.argval)
            elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                attributes.add(instruction.argval)
    return frozenset(names), frozenset(attributes)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
