"""Checks of arguments, whose errors name the argument, what was expected, what came, the remedy."""

from __future__ import annotations

import contextlib
import os
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.errors
import numpy as np

from vijax.arrays import unmasked


class RowError(ValueError):
    """A value in a row of data is not allowed.

    Attributes:
      row: the number of the row, from 0.
      column: the number of the column, from 0.

    >>> error = RowError("data: expected counts, got -1.0 in", 5, 1, "(3 such values). Remove them.")
    >>> print(error)
    data: expected counts, got -1.0 in row 5, column 1, counted from 0 (3 such values). Remove them.
    >>> error.relocate("line 7, column 'weight'")
    "data: expected counts, got -1.0 in line 7, column 'weight' (3 such values). Remove them."
    """

    def __init__(self, before: str, row: int, column: int, after: str):
        super().__init__(f"{before} row {row}, column {column}, counted from 0 {after}")
        self.row = row
        self.column = column
        self._before = before
        self._after = after

    def relocate(self, place: str) -> str:
        """The message with another name for row and column."""
        return f"{self._before} {place} {self._after}"


def require(ok: Any, argument: str, expected: str, got: Any, remedy: str = "") -> None:
    """Raises ValueError naming the argument if `ok` is false, has a false entry, or is an empty
    list; traced values pass.

    >>> require(np.array([2.0, -1.0]) > 0, "rate", "positive numbers", np.array([2.0, -1.0]))
    Traceback (most recent call last):
    ...
    ValueError: rate: expected positive numbers, got [2.0, -1.0].
    """
    if isinstance(ok, jax.core.Tracer):
        return
    is_empty = isinstance(ok, list | tuple) and not ok  # NumPy would find all its entries true
    # NumPy, not jnp: under jit even a constant would become a tracer
    if is_empty or not np.all(np.asarray(ok)):
        message = f"{argument}: expected {expected}, got {brief(got)}."
        raise ValueError(f"{message} {remedy}" if remedy else message)


def require_arrays(argument: str, tree: Any) -> None:
    """Raises ValueError naming the argument if a leaf of a tree is a function, such as the
    activation of a module.

    >>> require_arrays("points['net']", {"weights": np.ones(2), "activation": np.tanh})
    Traceback (most recent call last):
    ...
    ValueError: points['net']: expected a tree of arrays, got one with the function tanh. Equinox: ...
    """
    functions = [x for x in jax.tree.leaves(tree) if callable(x)]
    name = getattr(functions[0], "__name__", type(functions[0]).__name__) if functions else ""
    remedy = (
        "Equinox: params, static = eqx.partition(net, eqx.is_inexact_array), and "
        "eqx.combine(params, static) where it "
        "is called. Flax NNX: nnx.split."
    )
    require(not functions, argument, "a tree of arrays", f"one with the function {name}", remedy)


def require_integers(least: int = 1, **sizes: Any) -> None:
    """Raises ValueError naming the first argument that is no integer, or is below `least`.

    >>> require_integers(dim=2, num_states=1.5)
    Traceback (most recent call last):
    ...
    ValueError: num_states: expected an integer >= 1, got 1.5.
    """
    for name, size in sizes.items():
        is_integer = isinstance(size, int | np.integer) and not isinstance(size, bool)
        got = repr(size) if isinstance(size, str) else size
        require(is_integer and size >= least, name, f"an integer >= {least}", got)


def require_positive(**values: Any) -> None:
    """Raises ValueError naming the first argument that is no positive finite number (or array of
    them); traced values pass.

    >>> require_positive(scale=2.0, alpha="0.1")
    Traceback (most recent call last):
    ...
    ValueError: alpha: expected a positive number, got the string '0.1'. Write the number without quotes.
    """
    for name, value in values.items():
        require_numbers(name, value, expected="a positive number")
        if not isinstance(value, jax.core.Tracer):
            numbers = np.asarray(value)
            require((numbers > 0) & np.isfinite(numbers), name, "a positive number", value)


def require_numbers(argument: str, *values: Any, expected: str = "numbers") -> None:
    """Raises ValueError if a value is a string or None, or a list that holds one."""
    for value in values:
        if isinstance(value, str | bytes):
            remedy = "Write the number without quotes."
            require(False, argument, expected, f"the string {value!r}", remedy)
        leaves = [value]
        if not hasattr(value, "dtype"):
            leaves = jax.tree.leaves(value, is_leaf=lambda x: x is None)
        require(all(map(_is_numeric, leaves)), argument, expected, repr(value))


def require_on_host(function: str, *arguments: Any) -> None:
    """Raises ValueError if `jax.jit`, `vmap`, `grad` or `scan` traces a function that runs a whole
    fit: its arguments, or the program in which it is called."""
    probe = jax.numpy.add(0, 1)  # traced within a program, even if the arguments are not
    is_traced = any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((probe, arguments)))
    require(
        not is_traced,
        function,
        "to be called with numbers, outside of jax.jit, vmap, grad and scan",
        "values that JAX traces",
        "It stops, checks and chooses on the host. Pure, and made to be traced, are the steps: "
        "state = "
        "alg.init(key, batch), then state, info = alg.step(key, state, batch). For several starts "
        "side by side: "
        "restarts=.",
    )


def check_key(key: Any, remedy: str = "") -> None:
    """Raises ValueError unless it is a random key, typed or raw."""
    is_raw = isinstance(key, jax.Array | np.ndarray) and key.dtype == np.uint32 and key.ndim == 1
    require(
        _is_typed_key(key) or is_raw, "key", "a random key such as jax.random.key(0)", key, remedy
    )


def _is_typed_key(x: Any) -> bool:
    return isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


# --- functions of the user ------------------------------------------------------------------------
UNTRACED = {
    jax.errors.TracerBoolConversionError: (
        "a Python condition (if, while, and, or, not)",
        "Write jnp.where(condition, a, b) in the place of if, & and | in the place of and and or.",
    ),
    jax.errors.TracerArrayConversionError: (
        "a function of NumPy or SciPy",
        "Use jax.numpy in the place of numpy, jax.scipy.stats in the place of scipy.stats.",
    ),
    jax.errors.NonConcreteBooleanIndexError: (
        "a condition as an index, x[condition],",
        "Write jnp.where(condition, x, 0.0), whose shape does not depend on values.",
    ),
    jax.errors.TracerIntegerConversionError: (
        "a size, a range or an index of a Python list",
        "Sizes have to be known numbers; jnp.take(x, i) reads an array at an index that is traced.",
    ),
    jax.errors.ConcretizationTypeError: (
        "a function of math, or float() or int(),",
        "Use jax.numpy in the place of math: jnp.log for math.log. Leave float() out.",
    ),
}
"""JAX's error -> a description of its cause, and the remedy; subclasses come first."""
INSTALLED = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
LIBRARIES = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parent, *INSTALLED))
"""Folders of code that is not the user's own."""


@contextlib.contextmanager
def traceable(argument: str) -> Iterator[None]:
    """Replaces JAX's error in a user's function that it cannot trace: a ValueError names the
    function, its line and the remedy."""
    try:
        yield
    except tuple(UNTRACED) as error:
        cause, remedy = next(words for kind, words in UNTRACED.items() if isinstance(error, kind))
        got = f"{cause} of values that JAX traces{_user_line(error)}"
        raise ValueError(
            f"{argument}: expected operations that JAX can trace, got {got}. {remedy}"
        ) from error


def _user_line(error: BaseException) -> str:
    """The last line of the user's own code that led to an error, as text; empty without one."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(LIBRARIES)
    ]
    if not frames:
        return ""
    frame = frames[-1]
    code = f": `{frame.line}`" if frame.line else ""
    return f", in {frame.name} ({frame.filename}, line {frame.lineno}){code}"


def finite_array(argument: str, x: Any) -> np.ndarray:
    """Numbers as a float64 array; raises ValueError naming the argument if one is not finite."""
    x = np.asarray(unmasked(x), np.float64)
    require(np.isfinite(x), argument, "finite numbers", x)
    return x


def _is_numeric(leaf: Any) -> bool:
    kind = getattr(getattr(leaf, "dtype", None), "kind", "f")
    return leaf is not None and not isinstance(leaf, str | bytes) and kind not in "USO"


def brief(x: Any) -> str:
    """A value as text for an error message; a large array is shown by its shape and range."""
    if isinstance(x, jax.core.Tracer) or not hasattr(x, "dtype"):
        return str(x)
    if _is_typed_key(x):
        return "a random key"
    x = np.asarray(x)
    if x.size <= 8:
        return str(x.tolist())
    finite = x[np.isfinite(x)]
    if not finite.size:
        return f"an array of shape {x.shape}, none finite"
    bad = f", {x.size - finite.size} not finite" if finite.size < x.size else ""
    values = f"[{finite.min():.6g}, {finite.max():.6g}]"
    return f"an array of shape {x.shape} with values in {values}{bad}"
