"""The user's own code: which functions are his, the names that they read, and a digest by which a
later process sees that a function has changed."""

from __future__ import annotations

import dis
import functools
import hashlib
import os
import site
import sys
import sysconfig
import types
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

SIMPLE = int, float, complex, bool, str, bytes, type(None), np.generic
"""Types of values that count by what `repr` prints."""


def is_users(module: str | None) -> bool:
    """True for the name of a module outside installed packages."""
    loaded = sys.modules.get(module or "")
    path = getattr(loaded, "__file__", None)
    if path is None:
        return loaded is not None and loaded.__name__ == "__main__"
    return is_users_file(path)


def is_users_module(x: Any) -> bool:
    """True for a module outside installed packages."""
    return isinstance(x, types.ModuleType) and is_users_file(getattr(x, "__file__", None) or "")


@functools.cache
def is_users_file(path: str) -> bool:
    """True for a file outside installed packages, and for cells of a notebook."""
    is_builtin = path.startswith("<frozen")
    return not is_builtin and not os.path.realpath(path).startswith(_package_folders())


@functools.cache
def _package_folders() -> tuple[str, ...]:
    """Folders of Python, of installed packages, and of vijax itself."""
    paths = [*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()]
    folders = {
        os.path.realpath(path) + os.sep
        for path in paths
        if path.rstrip("/").endswith(("packages", "python" + _VERSION))
    }
    folders.add(os.path.dirname(os.path.dirname(__file__)) + os.sep)
    return tuple(sorted(folders))


_VERSION = sysconfig.get_python_version()


@functools.cache
def read_names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Global names and attributes that code reads, including code of functions inside it."""
    names = set()
    attributes = set()
    for part in _codes(code):
        for instruction in dis.get_instructions(part):
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


def function_digest(function: Any) -> str:
    """A digest of what a user's function computes: its instructions, the numbers, texts and arrays
    that it reads, and the functions of the user that it calls. Names of local variables, comments
    and docstrings do not count; nor do objects of other types, such as a logger.

    It starts with the version of Python, whose instructions it digests. "" where something that
    the function reads cannot be read by this, such as an object that makes new ones for ever.

    >>> function_digest(lambda x: x + 1) == function_digest(lambda y: y + 1)
    True
    >>> function_digest(lambda x: x + 1) == function_digest(lambda x: x + 2)
    False
    """
    digest = _Digest()
    try:
        digest.add(function)
    except Exception:  # an object of the user's may raise any error
        return ""
    return f"{_VERSION}:{digest.hexdigest()}"


def same_function(digest: str, function: Any) -> bool:
    """False where a function computes something else than the one of the digest. True where that
    is unknown: the digest is of another version of Python, or one of the two is empty."""
    if not digest.startswith(f"{_VERSION}:"):
        return True
    return function_digest(function) in (digest, "")


def _is_code(name: str, entry: Any) -> bool:
    """False for entries of a class that say where and how it was written, such as its first
    line."""
    return not name.startswith("__") or isinstance(entry, types.FunctionType)


def _digest_alone(x: Any) -> str:
    """A digest of one value, by which the members of a set are put in order."""
    digest = _Digest()
    digest.add(x)
    return digest.hexdigest()


class _Digest:
    """A digest that values are added to. Each object is read once, so that cycles end."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._seen: dict[int, Any] = {}  # keeps the objects alive, so that addresses stay theirs

    def hexdigest(self) -> str:
        """The digest of all that was added."""
        return self._hash.hexdigest()

    def add(self, x: Any) -> None:
        """Adds a value by its contents; only the type of one whose contents do not count."""
        self._write(type(x).__qualname__)
        if isinstance(x, SIMPLE):
            self._write(repr(x))
            return
        if id(x) in self._seen:
            return
        self._seen[id(x)] = x
        if isinstance(x, types.FunctionType):
            self._add_function(x)
        elif isinstance(x, types.MethodType):
            self._add_several([x.__func__, x.__self__])
        elif isinstance(x, functools.partial):
            self._add_several([x.func, *x.args, *x.keywords, *x.keywords.values()])
        elif isinstance(x, np.ndarray | jax.Array):
            self._add_array(x)
        elif type(x) in (list, tuple):
            self._add_several(x)
        elif type(x) in (set, frozenset):
            self._add_several(sorted(map(_digest_alone, x)))
        elif type(x) is dict:
            self._add_several([*x, *x.values()])
        elif isinstance(x, type):
            self._add_class(x)
        elif hasattr(x, "__wrapped__"):  # `jax.jit` of a function
            self.add(x.__wrapped__)
        elif is_users(type(x).__module__):
            self._add_object(x)

    def _write(self, text: str) -> None:
        self._hash.update(text.encode("utf-8", "surrogatepass") + b"\0")

    def _add_several(self, values: Any) -> None:
        self._write(str(len(values)))
        for value in values:
            self.add(value)

    def _add_array(self, x: Any) -> None:
        is_data = not isinstance(x, jax.core.Tracer) and x.dtype.kind in "biufc"
        if is_data:
            array = np.ascontiguousarray(x)
            self._write(f"{array.dtype} {array.shape}")
            self._hash.update(array.tobytes())

    def _add_object(self, x: Any) -> None:
        """An object of a user's class: its attributes, and how it is called."""
        attributes = getattr(x, "__dict__", {})
        self._add_several([*attributes, *attributes.values()])
        self.add(type(x))

    def _add_class(self, x: type) -> None:
        """A user's class: its methods and what it defines."""
        for parent in x.__mro__:
            if is_users(parent.__module__):
                entries = vars(parent)
                names = [name for name, entry in entries.items() if _is_code(name, entry)]
                self._add_several([*names, *(entries[name] for name in names)])

    def _add_function(self, x: types.FunctionType) -> None:
        if not is_users_file(x.__code__.co_filename):
            self._write(f"{x.__module__}.{x.__qualname__}")
            return
        self._add_code(x.__code__)
        self._add_several([x.__defaults__, x.__kwdefaults__])
        for cell in x.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:  # not bound yet
                self._write("empty")
        names, attributes = read_names(x.__code__)
        for name in sorted(names & set(x.__globals__)):
            value = x.__globals__[name]
            self._write(name)
            self.add(value)
            if is_users_module(value):
                fields = vars(value)
                self._add_several([fields[field] for field in sorted(attributes & set(fields))])

    def _add_code(self, code: types.CodeType) -> None:
        """Instructions with what they read. Local variables count by their places."""
        for instruction in dis.get_instructions(code):
            self._write(instruction.opname)
            if "FAST" in instruction.opname or "DEREF" in instruction.opname:
                self._write(str(instruction.arg))
            elif isinstance(instruction.argval, types.CodeType):
                self._add_code(instruction.argval)
            elif isinstance(instruction.argval, frozenset):
                self._write(str(sorted(map(repr, instruction.argval))))
            else:
                self._write(repr(instruction.argval))
