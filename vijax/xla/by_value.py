"""One object for equal settings, so that programs compiled for one serve all.

A model holds functions, and a function equals only itself; programs are compiled for these
functions. So a model that is made again with equal settings must be the same object, or everything
is compiled again. The same holds for algorithms.

These objects can also be pickled, though their functions cannot: another process makes them again
(`Remade`)."""

from __future__ import annotations

import collections
import functools
import inspect
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from vijax.xla.compiler import escape_trace
from vijax.xla.frozen import UnknownError, freeze, is_function
from vijax.xla.user_code import function_digest, same_function

Make = TypeVar("Make", bound=Callable)
T = TypeVar("T")

MOST = 8
"""Number of objects of each kind that are kept: the most recently used."""
KEPT = "_kept"
"""The attribute of `kept_with`."""
LARGE = 1 << 16
"""Arrays of more numbers are not compared; objects with such an array are made again each time."""


def cache_by_value(make: Make) -> Make:
    """Decorates a function that makes something immutable: equal arguments give the object made
    before.

    Arrays are compared by content, functions by their code and the values that they read
    (`vijax.xla.frozen`). The object is made of copies of the functions, which keep reading the
    values of this call. Objects of float32 and of float64 are kept apart.

    >>> @cache_by_value
    ... def pair(x, y=2.0):
    ...     return [x, y]
    >>> pair(1.0) is pair(x=1.0, y=2.0), pair(1.0) is pair(1), pair(np.ones(2)) is pair(np.ones(2))
    (True, False, True)
    """
    return _cache(make, lambda arguments: False)


def cache_while_used(make: Make) -> Make:
    """Decorates a function as `cache_by_value` does, for objects made of a user's functions. If one
    of these was made inside another function it may hold data, so that the cache keeps only a weak
    reference to the object.

    >>> @cache_while_used
    ... def model(energy):
    ...     return Function(energy)
    >>> model(len) is model(len), model(lambda x: x) is model(lambda x: x)
    (True, False)
    """
    return _cache(make, lambda arguments: any(map(_is_inner, jax.tree.leaves(arguments))))


def _is_inner(x: Any) -> bool:
    """True for functions made by another function, bound methods and partial functions."""
    return isinstance(x, types.MethodType | functools.partial) or (
        inspect.isfunction(x) and "<locals>" in x.__qualname__
    )


def _cache(make: Make, is_weak: Callable[[dict[str, Any]], bool]) -> Make:
    """See `cache_by_value`. If `is_weak(arguments)`, the cache keeps only a weak reference."""
    recent: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
    in_use: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
    signature = inspect.signature(make)
    lock = threading.Lock()

    @functools.wraps(make)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            functions = _Functions()
            own_args = functions.copy(args)
            own_kwargs = functions.copy(kwargs)
            key = (jax.config.jax_enable_x64, _key(functions.to_keys(bound.arguments)))  # type: ignore[attr-defined]
        except (TypeError, NotComparableError, UnknownError):
            # For wrong arguments the function raises its own error
            return _with_recipe(make(*args, **kwargs), call, args, kwargs)
        with lock:
            if key in recent:
                recent.move_to_end(key)
                return recent[key]
            if (existing := in_use.get(key)) is not None:
                return existing
        with escape_trace():  # the object may outlive a program that is being traced
            result = _with_recipe(make(*own_args, **own_kwargs), call, args, kwargs)
        with lock:
            if is_weak(bound.arguments):
                in_use[key] = result
            else:
                _put(recent, key, result)
        return result

    return call  # type: ignore[return-value]


class _Functions:
    """The functions among the arguments of one call: copies of them, and their keys."""

    def __init__(self) -> None:
        self._frozen: dict[int, tuple[Any, Hashable]] = {}

    def copy(self, x: Any) -> Any:
        """The arguments with copies in the place of functions."""
        return self._replace(x, 0)

    def to_keys(self, x: Any) -> Any:
        """The arguments with keys in the place of functions."""
        return self._replace(x, 1)

    def _replace(self, x: Any, part: int) -> Any:
        """The arguments with part 0 (copy) or 1 (key) of each frozen function in its place."""
        if is_function(x):
            if id(x) not in self._frozen:
                self._frozen[id(x)] = freeze(x)
            return self._frozen[id(x)][part]
        if type(x) in (tuple, list):
            return type(x)(self._replace(item, part) for item in x)
        if type(x) is dict:
            return {name: self._replace(item, part) for name, item in x.items()}
        return x


def _with_recipe(result: Any, make: Callable, args: tuple, kwargs: dict) -> Any:
    """The object with the call that made it, unless arguments are traced."""
    if inspect.isfunction(result):
        result = Function(result)
    # Traced arguments do not outlive their trace
    is_traced = any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((args, kwargs)))
    if isinstance(result, Remade) and not is_traced:
        # The end of its birth: nobody but the functions that make it, one within the other, has it
        # yet, and the outermost call is the one that a pickle can make again. No field: calls are
        # no part of its value, and what `dataclasses.replace` makes is not what the call makes.
        object.__setattr__(result, "_recipe", (make, args, kwargs))
    return result


def pickle_as_call(result: T, make: Callable, *args: Any) -> T:
    """`result`, which pickles as the call `make(*args)`."""
    return _with_recipe(result, make, args, {})


def make_again(x: T) -> T:
    """The object made again by the call that made it, in the present precision; the object itself
    if it has no call."""
    recipe = getattr(x, "_recipe", None)
    return x if recipe is None else _made(*recipe)


class Remade:
    """An object that pickles as the call that made it, if a cached function made it."""

    _recipe: tuple[Callable, tuple, dict] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != KEPT}

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._recipe is None:
            return super().__reduce_ex__(protocol)
        make, args, kwargs = self._recipe
        return _made, (make, args, kwargs, _digests(args, kwargs))


class Function(Remade):
    """A function that a cached function made; its `repr` is the call."""

    def __init__(self, function: Callable):
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        if self._recipe is None:
            return repr(self.function)
        make, args, kwargs = self._recipe
        arguments = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        return f"{make.__name__}({', '.join(arguments)})"


def _made(  # its name is in pickles
    make: Callable, args: tuple, kwargs: dict, digests: Sequence[str] = ()
) -> Any:
    """The object of a pickle.

    Args:
      make: makes it.
      args: arguments.
      kwargs: arguments by name.
      digests: of the functions among the arguments, when the object was pickled; none in older
        pickles.
    """
    functions = _functions(args, kwargs)
    changed = [
        getattr(function, "__qualname__", type(function).__qualname__)
        for function, digest in zip(functions, digests, strict=False)
        if not same_function(digest, function)
    ]
    if changed:
        warnings.warn(CHANGED.format(names=", ".join(changed)), stacklevel=2)
    return make(*args, **kwargs)


CHANGED = (
    "What was saved was made of {names}. Since then this function, or one that it calls, or a "
    "value that it reads, has changed, and answers are by the present one. Put the code back as it "
    "was, or fit again."
)


def _digests(args: tuple, kwargs: dict) -> list[str]:
    """Digests of the functions among the arguments of a call."""
    return [function_digest(function) for function in _functions(args, kwargs)]


def _functions(args: tuple, kwargs: dict) -> list[Any]:
    """The functions among the arguments of a call."""
    leaves = jax.tree.leaves((args, kwargs))
    return [leaf for leaf in leaves if is_function(leaf) or hasattr(leaf, "__wrapped__")]


def intern(owner: Any, x: T) -> T:
    """`x`, or an equal object that this owner was given before. The owner keeps the most recently
    used objects, a fixed number of each type."""
    try:
        hash(x)
    except TypeError:  # it holds something without a hash, such as an array
        return x
    with _OWNERS:
        objects = kept_with(owner).setdefault(type(x), collections.OrderedDict())
        equal = objects.pop(x, x)
        _put(objects, equal, equal)
        return equal


def kept_with(owner: Any) -> dict[Any, Any]:
    """What was computed of an object and is kept for as long as it lives; for the caller to fill.

    It hangs on the object, though this be frozen: what is kept may hold the object, and a table of
    weak references beside it would then keep both for ever. It is no field, and so no part of the
    value of the object, nor of what `dataclasses.replace` makes of it."""
    return owner.__dict__.setdefault(KEPT, {})


_OWNERS = threading.Lock()
"""One lock for all owners, so that these can be copied and pickled; it is held for a look-up."""


def _put(objects: collections.OrderedDict, key: Any, x: Any) -> None:
    """Stores an object as the most recently used, and drops the oldest if there are too many."""
    objects[key] = x
    if len(objects) > MOST:
        objects.popitem(last=False)


def structure_key(x: Any, argument: Any = None) -> Hashable:
    """A key that is equal for objects that hold equal values, and for functions of vijax with the
    same code and equal values. A user's function equals only itself, for the values that it reads
    may have changed. For `argument`, an object somewhere inside, only shapes count.

    >>> plus = lambda a: functools.partial(max, a)
    >>> structure_key(plus(1.0)) == structure_key(plus(1.0)) != structure_key(plus(2.0))
    True

    Raises:
      NotComparableError: it holds itself, a traced array or a large one.
    """
    return _key(x, (), argument)


class NotComparableError(Exception):
    """An argument is traced, too large to compare, or holds itself."""


def _contents_key(x: Any, outer: tuple[int, ...], argument: Any) -> Hashable:
    """The key of a function or object by its contents; None if it is compared by itself."""
    if x is argument and x is not None:
        leaves, tree = jax.tree.flatten(x)
        shapes = ((np.shape(leaf), str(jax.numpy.result_type(leaf))) for leaf in leaves)
        return type(x), tree, *shapes
    if isinstance(x, types.FunctionType) and (x.__module__ or "").startswith("vijax."):
        cells = [cell.cell_contents for cell in x.__closure__ or ()]
        parts: list[Any] = [x.__code__, x.__module__, x.__defaults__, x.__kwdefaults__, cells]
    elif isinstance(x, types.MethodType):
        parts = [x.__func__, x.__self__]
    elif isinstance(x, functools.partial):
        parts = [x.func, x.args, x.keywords]
    elif type(x).__module__.startswith("vijax.") and type(x).__hash__ is object.__hash__:
        parts = [{name: value for name, value in vars(x).items() if name not in _NO_VALUE}]
    else:
        return None
    if id(x) in outer:
        raise NotComparableError
    return (type(x), *(_key(part, (*outer, id(x)), argument) for part in parts))


_NO_VALUE = ("_recipe", KEPT)
"""Attributes that are no part of an object's value."""


def _key(x: Any, outer: tuple[int, ...] | None = None, argument: Any = None) -> Hashable:
    """A key that is equal for equal values. Functions are compared by identity; with `outer`, the
    ids of the objects around x, by their contents."""
    if outer is not None and (contents := _contents_key(x, outer, argument)) is not None:
        return contents
    to_key = functools.partial(_key, outer=outer, argument=argument)
    if isinstance(x, dict):
        return tuple((name, to_key(value)) for name, value in x.items())
    if isinstance(x, tuple | list):
        return (type(x), *map(to_key, x))
    if isinstance(x, np.ndarray | jax.Array):
        if isinstance(x, jax.core.Tracer) or x.size > LARGE:
            raise NotComparableError
        array = np.asarray(x)
        mask = np.ma.getmaskarray(x).tobytes() if isinstance(x, np.ma.MaskedArray) else b""
        return type(x), array.dtype.str, array.shape, array.tobytes(), mask
    try:
        hash(x)
    except TypeError:  # a tree of arrays, such as a family
        leaves, tree = jax.tree.flatten(x)
        if len(leaves) == 1 and leaves[0] is x:
            raise
        return type(x), tree, *map(to_key, leaves)
    return type(x), x
