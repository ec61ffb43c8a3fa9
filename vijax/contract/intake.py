"""The data on their way to a model: checked arrays, numbers as floats, indices as 32-bit integers,
masks as booleans.

A bound adds, squares and multiplies data in the type that they came in: 200 of uint8 squared is 64,
and JAX reads 3,000,000,000 of int64 as -1,294,967,296. So loaders, steps and questions to a fit all
take their data by `taken`."""

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
"""The largest change of a number by rounding to the model's floats, in standard deviations of its
column."""
BLOCK = 1 << 22
"""The numbers of a column block that is rounded at once."""


def cast_data(model: Model, data: PyTree) -> PyTree:
    """Data in the types that the model reads.

    Integers and booleans become floats, unless the model uses them as indices or masks: then they
    stay integers or booleans, and floats that are whole numbers become integers. The use is found
    by tracing the model. Raises ValueError on integers that do not fit, numbers whose digits the
    model's floats would lose, an index that is no whole number, and a mask that is neither 0 nor 1.
    """
    kinds = data_kinds(model, data)
    check(kinds, data)
    return cast(kinds, data)


def cast_for_score(model: Model, data: PyTree) -> PyTree:
    """As `taken`, but all digits are kept: integers become float64, and floats stay as they came,
    because scores are computed in float64 where possible."""
    kinds = data_kinds(model, data)
    check(kinds, data)
    leaves, structure = jax.tree.flatten(data)
    taken = [_cast_for_score(kind, array(x)) for kind, x in zip(kinds, leaves, strict=True)]
    return jax.tree.unflatten(structure, taken)


def _cast_for_score(kind: Kind, x: Any) -> Any:
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
        return [kind for part in parts for kind in _of_documents(part)]
    shapes = [jax.ShapeDtypeStruct(np.shape(x), array(x).dtype) for x in jax.tree.leaves(data)]
    structure = jax.tree.structure(data)
    what = "kinds", structure, tuple((x.shape, str(x.dtype)) for x in shapes)
    return cached_program(
        model, what, lambda of: found_kinds(jax.tree.unflatten(structure, shapes), _reading(of()))
    )


def can_read(model: Model, data: PyTree) -> bool:
    """Tells whether the model's bound can be traced with arrays of this structure and these
    shapes."""
    try:
        kinds = data_kinds(model, data)
        leaves, structure = jax.tree.flatten(data)
        both = zip(kinds, map(array, leaves), strict=True)
        shapes = [jax.ShapeDtypeStruct(x.shape, _dtype(kind, x.dtype)) for kind, x in both]
        jax.eval_shape(_reading(model), jax.tree.unflatten(structure, shapes))
    except Exception:  # whatever the user's function raises
        return False
    return True


def found_kinds(shapes: PyTree, read: Callable[[PyTree], Any]) -> list[Kind]:
    """The kind of each leaf: a number where the function can be traced with floats in its place,
    else an index, or a mask where it came as booleans. JAX takes no floats for indices, nor for
    logical operations. The shapes are those of the data, as `jax.ShapeDtypeStruct`s.

    >>> table = jnp.arange(5.0)
    >>> shapes = jax.ShapeDtypeStruct((), np.uint8), jax.ShapeDtypeStruct((), np.float64)
    >>> found_kinds(shapes, lambda data: data[0] ** 2 + table[data[1]])
    ['number', 'index']
    """
    leaves, structure = jax.tree.flatten(shapes)
    numbers: list[Kind] = ["number"] * len(leaves)

    def failure(kinds: Sequence[Kind]) -> str | None:
        """The message of the error with leaves of these kinds; None where there is none."""
        types = [
            jax.ShapeDtypeStruct(x.shape, _dtype(kind, x.dtype))
            for kind, x in zip(kinds, leaves, strict=True)
        ]
        try:
            jax.eval_shape(read, jax.tree.unflatten(structure, types))
        except Exception as error:  # whatever the user's function raises
            return str(error)
        return None

    if not any(_is_discrete(x) or _is_float(x) for x in leaves):
        return numbers
    with_numbers = failure(numbers)
    if with_numbers is None:
        return numbers
    # Floats that are whole numbers may be indices too: Python and pandas have such.
    for others in (_as_given(leaves), [_discrete_kind(x) for x in leaves]):
        if failure(others) is None:
            return _with_numbers(others, failure)
    # Nothing can be read: the function itself raises its error, of which indices are no part.
    return _as_given(leaves) if "Indexer" in with_numbers else numbers


def _with_numbers(kinds: list[Kind], failure: Callable[[Sequence[Kind]], str | None]) -> list[Kind]:
    """The kinds, with numbers in place of each that may be one."""
    alone: list[list[Kind]] = [[*kinds[:i], "number", *kinds[i + 1 :]] for i in range(len(kinds))]
    found: list[Kind] = [
        "number" if failure(changed) is None else kind
        for kind, changed in zip(kinds, alone, strict=True)
    ]
    return found if failure(found) is None else kinds


def _as_given(leaves: Sequence[Any]) -> list[Kind]:
    """Integers as indices, booleans as masks, floats as numbers."""
    return [_discrete_kind(x) if _is_discrete(x) else "number" for x in leaves]


def _discrete_kind(x: Any) -> Kind:
    if x.dtype == bool:
        return "mask"
    return "index" if _is_discrete(x) or _is_float(x) else "number"


def _is_float(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def _reading(model: Any) -> Callable[[PyTree], Any]:
    """The model's bound as a function of data."""
    key = jax.random.key(0)

    def read(data: PyTree) -> Any:
        hyper = jax.tree.map(
            lambda x: jnp.ones(jnp.shape(x), jnp.result_type(x)), dict(model.hyper)
        )  # shapes count
        stats = model.prior(hyper).sample_stats(key)
        return model.local_elbo(hyper, stats, Minibatch(data, None), key, model.estep).total

    return read


def _spread(kinds: PyTree, data: PyTree) -> list[Kind]:
    """A kind for each leaf. In data of another structure all leaves are numbers: the model's own
    checks find them."""
    try:
        return jax.tree.leaves(
            jax.tree.map(lambda kind, part: [kind] * len(jax.tree.leaves(part)), kinds, data)
        )
    except ValueError:
        return ["number"] * len(jax.tree.leaves(data))


def _of_documents(part: Any) -> list[Kind]:
    if isinstance(part, Documents):
        more = jax.tree.leaves(part)[3:]  # arrays beside words, counts and weights
        return [
            "index",
            "number",
            "number",
            *("index" if _is_discrete(array(x)) else "number" for x in more),
        ]
    return ["index" if _is_discrete(array(part)) else "number"]


def _is_discrete(x: Any) -> bool:
    return x.dtype == bool or jnp.issubdtype(x.dtype, jnp.integer)


def array(x: Any) -> Any:
    """The array itself; columns of tables, numbers and the like as NumPy arrays."""
    is_plain = isinstance(x, jax.Array | np.ndarray) and not isinstance(x, np.ma.MaskedArray)
    return x if is_plain else to_array(x)


# --- types ----------------------------------------------------------------------------------------
def cast(kinds: Sequence[Kind], data: PyTree) -> PyTree:
    """Data in the types of their kinds. No value is read, so that the data may be traced."""
    leaves, structure = jax.tree.flatten(data)
    return jax.tree.unflatten(
        structure, [_cast(kind, array(x)) for kind, x in zip(kinds, leaves, strict=True)]
    )


def _cast(kind: Kind, x: Any) -> Any:
    dtype = _dtype(kind, x.dtype)
    return x if x.dtype == dtype else x.astype(dtype)


def _dtype(kind: Kind, own: Any) -> Any:
    """The type that a leaf of this kind and type becomes; complex numbers and keys stay as they
    are."""
    if kind == "mask":
        return np.dtype(bool)
    if kind == "index":
        return np.dtype(np.int32)
    is_real = (
        np.issubdtype(own, np.bool_)
        or jnp.issubdtype(own, jnp.integer)
        or jnp.issubdtype(own, jnp.floating)
    )
    return jnp.result_type(float) if is_real else own


# --- values that do not fit -----------------------------------------------------------------------
def check(kinds: Sequence[Kind], data: PyTree, argument: str = "data") -> None:
    """ValueError at the first leaf that does not fit into the type of its kind; traced leaves
    pass."""
    for kind, (path, x) in zip(kinds, jax.tree_util.tree_leaves_with_path(data), strict=True):
        if not isinstance(x, jax.core.Tracer):
            CHECKS[kind](f"{argument}{jax.tree_util.keystr(path)}", np.asarray(array(x)))


def check_fits(x: np.ndarray) -> None:
    """ValueError at 64-bit integers that JAX would wrap, for the batches of a user's own loader."""
    own = jax.dtypes.canonicalize_dtype(x.dtype)
    if x.dtype.kind in "iu" and own != x.dtype and x.size:
        most = np.iinfo(own)
        fits = x.min() >= most.min and x.max() <= most.max
        require(
            fits,
            "data",
            f"integers from {most.min} to {most.max}",
            x,
            "Have the loader give floats.",
        )


def _check_index(name: str, x: np.ndarray) -> None:
    most = np.iinfo(np.int32)
    if (x.dtype.kind in "iu" and x.dtype.itemsize < 4) or x.dtype == bool:
        return
    remedy = (
        "The model uses them as indices. Code categories as 0, 1, 2, ...: numpy.unique(x, "
        "return_inverse=True)[1]."
    )
    expected = f"whole numbers from {most.min} to {most.max}"
    fits = (
        (x >= most.min) & (x <= most.max) & (x == np.floor(x) if x.dtype.kind not in "iu" else True)
    )
    require(fits, name, expected, x, remedy)


def _check_mask(name: str, x: np.ndarray) -> None:
    if x.dtype != bool:
        require(
            (x == 0) | (x == 1),
            name,
            "a mask: true and false, or 1 and 0",
            x,
            "The model uses them as a mask.",
        )


def _check_number(name: str, x: np.ndarray) -> None:
    """Digits that the model's floats do not hold matter where the numbers differ in those digits
    alone."""
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
    lost = np.flatnonzero((error > LOST * spread) & (spread > 0))
    if len(lost):
        column = int(lost[0])
        where = f" in column {column}" if x.ndim > 1 else ""
        raise ValueError(
            f"{name}: expected numbers whose differences {float_type} holds, got some near "
            f"{columns[0, column]:.6g}{where}, of standard deviation {spread[column]:.3g}, that "
            "it rounds by up to "
            f"{error[column]:.3g}. Subtract a constant from them (their mean, say), or work in "
            "float64: "
            "jax.config.update('jax_enable_x64', True)."
        )


def _rounding(columns: np.ndarray, float_type: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The largest error of rounding and the standard deviation of each column, without NaN and
    infinities."""
    width = columns.shape[1]
    error, count, total, squares = (np.zeros(width) for _ in range(4))
    origin = None
    wide = np.longdouble if columns.dtype.kind in "iu" else np.float64
    size = max(1, BLOCK // width)
    for block in (columns[start : start + size] for start in range(0, len(columns), size)):
        known = np.isfinite(block)
        exact = np.where(known, block, 0).astype(wide)
        with np.errstate(over="ignore"):  # an infinity is the answer
            error = np.maximum(error, np.abs(exact - exact.astype(float_type)).max(0))
        origin = exact[0] if origin is None else origin
        shifted = np.where(known, exact - origin, 0)
        count, total, squares = (
            count + known.sum(0),
            total + shifted.sum(0),
            squares + (shifted**2).sum(0),
        )
    count = np.maximum(count, 1)
    variance = np.maximum(squares / count - (total / count) ** 2, 0)
    return error.astype(float), np.sqrt(variance).astype(float)


CHECKS: dict[Kind, Callable[[str, np.ndarray], None]] = {
    "number": _check_number,
    "index": _check_index,
    "mask": _check_mask,
}
