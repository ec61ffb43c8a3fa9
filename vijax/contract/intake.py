"""Casts of the data of a model, with checks: numbers become floats, indices 32-bit integers, masks
booleans.

A bound adds, squares and multiplies data in their own type: 200 of uint8 squared is 64, and JAX
reads 3,000,000,000 of int64 as -1,294,967,296. So loaders, steps and questions to a fit all cast
their data by `cast_data`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from vijax.arrays import to_array
from vijax.checks import require
from vijax.contract.batch import Documents, Minibatch
from vijax.contract.model import Model
from vijax.xla.compiler import cached_program

Kind = Literal["number", "index", "mask"]
LOST = 0.01
"""Largest change of a number by rounding to the model's floats, in standard deviations of its
column."""
BLOCK = 1 << 22
"""Number of entries that are rounded at once."""


def cast_data(model: Model, data: PyTree) -> PyTree:
    """Data in the types that the model reads.

    Integers and booleans become floats, unless the model uses them as indices or masks: then they
    stay integers or booleans, and floats that are whole numbers become integers. The use is found
    by tracing the model.

    Raises:
      ValueError: an integer does not fit, the model's floats would lose digits of a number, an
        index is no whole number, or a mask is neither 0 nor 1.
    """
    kinds = data_kinds(model, data)
    check(kinds, data)
    return cast(kinds, data)


def cast_for_score(model: Model, data: PyTree) -> PyTree:
    """As `cast_data`, but without loss of digits: integers become float64, and floats do not
    change, because scores are computed in float64 if possible."""
    kinds = data_kinds(model, data)
    check(kinds, data)
    leaves, structure = jax.tree.flatten(data)
    cast_leaves = [_cast_exactly(kind, array(x)) for kind, x in zip(kinds, leaves, strict=True)]
    return jax.tree.unflatten(structure, cast_leaves)


def _cast_exactly(kind: Kind, x: Any) -> Any:
    if kind != "number":
        return _cast(kind, x)
    return np.asarray(x, np.float64) if _is_discrete(x) else x


# --- the kinds of arrays --------------------------------------------------------------------------
def data_kinds(model: Model, data: PyTree) -> list[Kind]:
    """The kind of each leaf of the data."""
    if model.form.kinds is not None:
        return _spread(model.form.kinds, data)
    if model.form.documents is not None:
        parts = jax.tree.leaves(data, is_leaf=lambda x: isinstance(x, Documents))
        return [kind for part in parts for kind in _document_kinds(part)]
    shapes = [jax.ShapeDtypeStruct(np.shape(x), array(x).dtype) for x in jax.tree.leaves(data)]
    structure = jax.tree.structure(data)
    name = "kinds", structure, tuple((x.shape, str(x.dtype)) for x in shapes)
    like = jax.tree.unflatten(structure, shapes)
    return cached_program(model, name, lambda read: trace_kinds(like, _bound_of_data(read())))


def can_read(model: Model, data: PyTree) -> bool:
    """True if the bound of the model can be traced with arrays of this structure and these
    shapes."""
    try:
        kinds = data_kinds(model, data)
        leaves, structure = jax.tree.flatten(data)
        pairs = zip(kinds, map(array, leaves), strict=True)
        shapes = [jax.ShapeDtypeStruct(x.shape, _dtype(kind, x.dtype)) for kind, x in pairs]
        jax.eval_shape(_bound_of_data(model), jax.tree.unflatten(structure, shapes))
    except Exception:  # the user's function may raise anything
        return False
    return True


def trace_kinds(shapes: PyTree, read: Callable[[PyTree], Any]) -> list[Kind]:
    """The kind of each leaf. It is a number if the function can be traced with floats for it; else
    a mask if it is boolean, and an index otherwise. JAX takes no floats for indices, nor for
    logical operations.

    Args:
      shapes: the data as `jax.ShapeDtypeStruct`s.
      read: a function of the data.

    >>> table = jnp.arange(5.0)
    >>> shapes = jax.ShapeDtypeStruct((), np.uint8), jax.ShapeDtypeStruct((), np.float64)
    >>> trace_kinds(shapes, lambda data: data[0] ** 2 + table[data[1]])
    ['number', 'index']
    """
    leaves, structure = jax.tree.flatten(shapes)
    numbers: list[Kind] = ["number"] * len(leaves)

    def failure(kinds: Sequence[Kind]) -> str | None:
        """The message of the error with leaves of these kinds; None if there is no error."""
        types = [
            jax.ShapeDtypeStruct(x.shape, _dtype(kind, x.dtype))
            for kind, x in zip(kinds, leaves, strict=True)
        ]
        try:
            jax.eval_shape(read, jax.tree.unflatten(structure, types))
        except Exception as error:  # the user's function may raise anything
            return str(error)
        return None

    if not any(_is_discrete(x) or _is_float(x) for x in leaves):
        return numbers
    error = failure(numbers)
    if error is None:
        return numbers
    # Floats that are whole numbers may be indices too: Python and pandas make such floats.
    for kinds in (_dtype_kinds(leaves), [_discrete_kind(x) for x in leaves]):
        if failure(kinds) is None:
            return _add_numbers(kinds, failure)
    # No kinds can be traced: the function raises its own error later, not one about indices.
    return _dtype_kinds(leaves) if "Indexer" in error else numbers


def _add_numbers(kinds: list[Kind], failure: Callable[[Sequence[Kind]], str | None]) -> list[Kind]:
    """The kinds, with "number" for each leaf that may be a number."""
    new: list[Kind] = list(kinds)
    for i in range(len(kinds)):
        if failure([*kinds[:i], "number", *kinds[i + 1 :]]) is None:
            new[i] = "number"
    return new if failure(new) is None else kinds


def _dtype_kinds(leaves: Sequence[Any]) -> list[Kind]:
    """The kinds by type: integers are indices, booleans masks, floats numbers."""
    return [_discrete_kind(x) if _is_discrete(x) else "number" for x in leaves]


def _discrete_kind(x: Any) -> Kind:
    if x.dtype == bool:
        return "mask"
    return "index" if _is_discrete(x) or _is_float(x) else "number"


def _is_float(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def _bound_of_data(model: Any) -> Callable[[PyTree], Any]:
    """The bound of the model as a function of data."""
    key = jax.random.key(0)

    def read(data: PyTree) -> Any:
        # Only the shapes of hyperparameters matter.
        ones = lambda x: jnp.ones(jnp.shape(x), jnp.result_type(x))
        hyper = jax.tree.map(ones, dict(model.hyper))
        stats = model.prior(hyper).sample_stats(key)
        return model.local_elbo(hyper, stats, Minibatch(data, None), key, model.estep).total

    return read


def _spread(kinds: PyTree, data: PyTree) -> list[Kind]:
    """A kind for each leaf. In data of another structure all leaves are numbers, and the model's
    checks find them."""
    repeat = lambda kind, part: [kind] * len(jax.tree.leaves(part))
    try:
        return jax.tree.leaves(jax.tree.map(repeat, kinds, data))
    except ValueError:
        return ["number"] * len(jax.tree.leaves(data))


def _document_kinds(part: Any) -> list[Kind]:
    """The kinds of the arrays of `Documents`, or of another array of a model of documents."""
    if isinstance(part, Documents):
        covariates = jax.tree.leaves(part)[3:]  # arrays beside words, counts and weights
        return ["index", "number", "number", *map(_array_kind, covariates)]
    return [_array_kind(part)]


def _array_kind(x: Any) -> Kind:
    return "index" if _is_discrete(array(x)) else "number"


def _is_discrete(x: Any) -> bool:
    return x.dtype == bool or jnp.issubdtype(x.dtype, jnp.integer)


def array(x: Any) -> Any:
    """An array unchanged; columns of tables, numbers and the like as NumPy arrays."""
    is_plain = isinstance(x, jax.Array | np.ndarray) and not isinstance(x, np.ma.MaskedArray)
    return x if is_plain else to_array(x)


# --- types ----------------------------------------------------------------------------------------
def cast(kinds: Sequence[Kind], data: PyTree) -> PyTree:
    """Data in the types of their kinds. No value is read, so the data may be traced."""
    leaves, structure = jax.tree.flatten(data)
    cast_leaves = [_cast(kind, array(x)) for kind, x in zip(kinds, leaves, strict=True)]
    return jax.tree.unflatten(structure, cast_leaves)


def _cast(kind: Kind, x: Any) -> Any:
    dtype = _dtype(kind, x.dtype)
    if x.dtype == dtype:
        return x
    return x.astype(dtype)


def _dtype(kind: Kind, dtype: Any) -> Any:
    """The new type of a leaf of this kind and type. Complex numbers and keys do not change."""
    if kind == "mask":
        return np.dtype(bool)
    if kind == "index":
        return np.dtype(np.int32)
    is_real = (
        np.issubdtype(dtype, np.bool_)
        or jnp.issubdtype(dtype, jnp.integer)
        or jnp.issubdtype(dtype, jnp.floating)
    )
    if is_real:
        return jnp.result_type(float)
    return dtype


# --- values that do not fit -----------------------------------------------------------------------
def check(kinds: Sequence[Kind], data: PyTree, argument: str = "data") -> None:
    """Raises ValueError at the first leaf that does not fit into the type of its kind. Traced
    leaves pass."""
    for kind, (path, x) in zip(kinds, jax.tree_util.tree_leaves_with_path(data), strict=True):
        if not isinstance(x, jax.core.Tracer):
            CHECKS[kind](f"{argument}{jax.tree_util.keystr(path)}", np.asarray(array(x)))


def check_fits(x: np.ndarray) -> None:
    """Raises ValueError at 64-bit integers that JAX would wrap, in batches of a user's loader."""
    dtype = jax.dtypes.canonicalize_dtype(x.dtype)
    if x.dtype.kind in "iu" and dtype != x.dtype and x.size:
        limits = np.iinfo(dtype)
        fits = x.min() >= limits.min and x.max() <= limits.max
        expected = f"integers from {limits.min} to {limits.max}"
        require(fits, "data", expected, x, "Have the loader give floats.")


def _check_index(name: str, x: np.ndarray) -> None:
    """Raises ValueError unless all entries are whole numbers of 32 bits."""
    if (x.dtype.kind in "iu" and x.dtype.itemsize < 4) or x.dtype == bool:
        return
    limits = np.iinfo(np.int32)
    expected = f"whole numbers from {limits.min} to {limits.max}"
    remedy = (
        "The model uses them as indices. Code categories as 0, 1, 2, ...: numpy.unique(x, "
        "return_inverse=True)[1]."
    )
    fits = (x >= limits.min) & (x <= limits.max)
    if x.dtype.kind not in "iu":
        fits = fits & (x == np.floor(x))
    require(fits, name, expected, x, remedy)


def _check_mask(name: str, x: np.ndarray) -> None:
    """Raises ValueError unless all entries are 0 or 1."""
    if x.dtype == bool:
        return
    expected = "a mask: true and false, or 1 and 0"
    require((x == 0) | (x == 1), name, expected, x, "The model uses them as a mask.")


def _check_number(name: str, x: np.ndarray) -> None:
    """Raises ValueError if the model's floats do not hold the differences between the numbers of a
    column."""
    float_type = np.dtype(jnp.result_type(float))
    if x.dtype.kind not in "iuf" or not x.size or x.dtype.itemsize < 4:
        return
    if x.dtype.kind == "f" and x.dtype.itemsize <= float_type.itemsize:
        return
    exact = 2 ** (np.finfo(float_type).nmant + 1)
    if x.dtype.kind in "iu" and x.min() >= -exact and x.max() <= exact:
        return
    columns = x.reshape(-1, x.shape[-1] if x.ndim > 1 else 1)
    error, spread = _rounding(columns, float_type)
    remedy = "Scale the data, or work in float64: jax.config.update('jax_enable_x64', True)."
    require(np.isfinite(error), name, f"numbers that {float_type} holds", x, remedy)
    bad = np.flatnonzero((error > LOST * spread) & (spread > 0))
    if len(bad):
        column = int(bad[0])
        place = f" in column {column}" if x.ndim > 1 else ""
        raise ValueError(
            f"{name}: expected numbers whose differences {float_type} holds, got some near "
            f"{columns[0, column]:.6g}{place}, of standard deviation {spread[column]:.3g}, that "
            f"it rounds by up to {error[column]:.3g}. Subtract a constant from them (their mean, "
            "say), or work in float64: jax.config.update('jax_enable_x64', True)."
        )


def _rounding(columns: np.ndarray, float_type: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The largest rounding error and the standard deviation of each column, without NaN and
    infinities."""
    width = columns.shape[1]
    error, count, total, squares = (np.zeros(width) for _ in range(4))
    origin = None
    wide = np.longdouble if columns.dtype.kind in "iu" else np.float64
    size = max(1, BLOCK // width)
    for start in range(0, len(columns), size):
        block = columns[start : start + size]
        is_finite = np.isfinite(block)
        exact = np.where(is_finite, block, 0).astype(wide)
        with np.errstate(over="ignore"):  # the result may be infinite
            error = np.maximum(error, np.abs(exact - exact.astype(float_type)).max(0))
        if origin is None:
            origin = exact[0]
        shifted = np.where(is_finite, exact - origin, 0)
        count = count + is_finite.sum(0)
        total = total + shifted.sum(0)
        squares = squares + (shifted**2).sum(0)
    count = np.maximum(count, 1)
    variance = np.maximum(squares / count - (total / count) ** 2, 0)
    return error.astype(float), np.sqrt(variance).astype(float)


CHECKS: dict[Kind, Callable[[str, np.ndarray], None]] = {
    "number": _check_number,
    "index": _check_index,
    "mask": _check_mask,
}
