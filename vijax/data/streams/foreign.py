"""Data of other libraries: tensors become arrays, and loaders and data sets are told from
arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from vijax.arrays import require_no_times, unmasked
from vijax.data.reading.checks import fail

TENSORS = ("torch", "dask", "tensorflow", "cupy", "xarray", "mlx")
"""Libraries whose arrays are not NumPy's nor JAX's."""
OWN = ("vijax", "numpy", "jax", "jaxlib", "scipy", "pandas", "pyarrow", "polars")
"""Libraries whose arrays, tables and corpora are read as they are."""


def to_arrays(data: PyTree) -> PyTree:
    """Data with the tensors of other libraries as NumPy arrays, each computed once, and NaN where
    cells are masked.

    Raises:
      DataError: a loader, a data set or another source of batches instead of arrays, with the call
        that takes it; a tensor that NumPy cannot read.
      ValueError: a column of times in a table.
    """
    if _is_one_object(data):
        check_no_source(data)
    return jax.tree.map(_as_array, data)


def check_no_source(data: Any) -> None:
    """Raises a DataError for an object that gives batches or single rows, such as a `DataLoader`,
    with the call that takes it."""
    kind = type(data).__name__
    roots = _class_libraries(data)
    if isinstance(data, str | bytes) or hasattr(data, "__array__") or not roots.isdisjoint(OWN):
        return
    size = "len(loader.dataset)" if hasattr(data, "dataset") else "N"
    if "tensorflow" in roots:
        call = (
            "vijax.data.stream(lambda step: dataset.skip(step).as_numpy_iterator(), num_groups=N)"
        )
        remedy = f"batch it (dataset.batch(256)), and give {call}"
        raise fail("data", "arrays", f"the source {kind}", remedy)
    if hasattr(data, "tensors"):
        remedy = "give its tensors, dataset.tensors, as arrays"
        raise fail("data", "arrays", f"the data set {kind}", remedy)
    if "datasets" in roots and hasattr(data, "with_format"):
        remedy = (
            'give its columns, dataset.with_format("numpy")[:], of which {"x": ..., "y": ...} are '
            "a pytree"
        )
        raise fail("data", "arrays", f"the data set {kind}", remedy)
    if isinstance(data, Iterable):
        remedy = (
            f"say that they are batches: vijax.data.stream(loader, num_groups={size}, "
            "shuffled=True)"
        )
        raise fail("data", "arrays", f"the source {kind}", f"{remedy}, if it shuffles")
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        remedy = (
            "stack its rows to arrays, or have a loader make batches of them, for "
            "vijax.data.stream(loader)"
        )
        raise fail("data", "arrays", f"the data set {kind}", remedy)


def _is_one_object(data: Any) -> bool:
    """True if JAX sees the object as one leaf."""
    if isinstance(data, list | tuple | Mapping) or data is None:
        return False
    leaves = jax.tree.leaves(data)
    return len(leaves) == 1 and leaves[0] is data


def _as_array(leaf: Any) -> Any:
    require_no_times(leaf)
    leaf = unmasked(leaf)
    if isinstance(leaf, np.ndarray | jax.Array) or _class_libraries(leaf).isdisjoint(TENSORS):
        return leaf
    try:
        return np.asarray(leaf)
    except Exception as error:  # each library has errors of its own
        reason = " ".join(str(error).split())[:160]
        remedy = "give an array: of PyTorch x.detach().cpu().numpy(), of Dask x.compute()"
        actual = f"a {type(leaf).__name__} ({reason})"
        raise fail("data", "arrays that NumPy can read", actual, remedy) from error


def _class_libraries(data: Any) -> set[str]:
    """The libraries that an object's class and its bases are from."""
    return {kind.__module__.partition(".")[0] for kind in type(data).__mro__}
