"""Checkpoints of any pytree: one .npz each, written atomically, verified when read, the last few
kept.

    step_00000120.npz   leaf/0, leaf/1, ...   the arrays of the tree
                        meta                  JSON: step, configuration, path, type and sha256 of each leaf
    step_00000120.rows/                       tables whose rows lie with several processes (vijax/scale/stored.py)

A file appears under its name only once it is whole and on the disk (temporary file, fsync, rename,
fsync of the folder), so that a kill at any moment leaves the previous checkpoints as they were.
Tables by row are written before it."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from vijax.files import check_declared_sizes, checksum, own_folder, storable, write_arrays
from vijax.scale.arrays import Rows
from vijax.scale.row_files import StoredRows
from vijax.scale.stored import store_tables

Tree = TypeVar("Tree")

FORMAT = 1


class CheckpointError(RuntimeError):
    """A checkpoint that could not be written or read; the message says which, why, and what can be
    done."""


class OtherTreeError(CheckpointError):
    """A whole checkpoint, of something else than was asked for."""


Check = Callable[[Mapping[str, Any]], None]


class Checkpoint(NamedTuple):
    """The contents of a checkpoint."""

    step: int  # number of steps taken
    tree: Any  # the state that `save` was given
    config: Mapping[str, Any]  # the flat configuration of the run that wrote it
    path: Path  # the file


def save(
    folder: str | Path, step: int, tree: Any, config: Mapping[str, Any] | None = None, keep: int = 3
) -> Path:
    """Writes a checkpoint of `tree` at `step`, then removes all but the newest `keep`.

    Of a tree with tables by row that lie with several processes (the `whole` of a callback's
    `Progress`), all processes call it together: each writes its own rows, in a folder that all see,
    and process 0 the rest.

    Args:
      folder: the folder, made if it is missing.
      step: its number, which orders checkpoints.
      tree: any pytree of arrays, typed keys and Python numbers.
      config: configuration of the run; `latest` compares it.
      keep: number of checkpoints to keep.

    Raises:
      CheckpointError: the disk is full or cannot be written; earlier checkpoints are untouched.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = save(folder, 7, {"topics": np.ones((2, 3))})
    >>> found = latest(folder, like={"topics": np.zeros((2, 3))})
    >>> found.step, float(found.tree["topics"].sum())
    (7, 6.0)
    """
    folder = Path(folder)
    target = folder / f"step_{step:08d}.npz"
    if any(isinstance(leaf, Rows) for leaf in jax.tree.leaves(tree)):
        tree = with_stored_rows(folder, step, tree)
        if jax.process_index() > 0:
            return target
    arrays = _to_arrays(tree, {"format": FORMAT, "step": step, "config": dict(config or {})})
    try:
        own_folder(folder)
        write_arrays(target, arrays)
    except OSError as error:
        raise CheckpointError(_unwritable(target, error)) from error
    for old in checkpoint_files(folder)[keep:]:
        old.unlink(missing_ok=True)
    for rows in folder.glob("step_*.rows"):
        if not rows.with_suffix(".npz").exists():
            shutil.rmtree(rows, ignore_errors=True)
    return target


def with_stored_rows(folder: str | Path, step: int, tree: Tree) -> Tree:
    """A tree for `save` by process 0 alone: the rows that lie with several processes are written.
    All call it."""
    return store_tables(Path(folder) / f"step_{step:08d}.rows", tree)


def checkpoint_files(folder: str | Path) -> list[Path]:
    """The checkpoints of a folder, newest first."""
    return sorted(
        Path(folder).glob("step_*.npz"), key=lambda path: (len(path.name), path.name), reverse=True
    )


def load(path: str | Path, like: Tree, check: Check = lambda config: None) -> Checkpoint:
    """Reads one checkpoint into the structure of `like` (arrays, or the shapes `jax.eval_shape`
    gives). Tables that several processes have written are read where they are asked for: by
    `vijax.fit(state=)`, by `numpy.asarray`.

    Args:
      path: the file.
      like: a tree of the structure that the file should hold.
      check: called with the configuration of the run that wrote it, before its tree is compared
        with `like`; may raise an error of its own.

    Raises:
      CheckpointError: the file is truncated or altered, or of another format.
      OtherTreeError: it is whole, and holds another tree than `like`.
    """
    step, config, meta, leaves = _read(Path(path))
    check(config)
    return Checkpoint(step, _into(like, meta, leaves, path), config, Path(path))


def _read(path: Path) -> tuple[int, dict[str, Any], list[dict[str, Any]], list[Any]]:
    """Step, configuration, and the leaves with their descriptions."""
    try:
        if not zipfile.is_zipfile(
            path
        ):  # for other files NumPy says that the reader should trust them
            raise CheckpointError(
                f"{path}: the checkpoint is truncated or corrupt (it is no whole .npz file)"
            )
        with path.open("rb") as raw:
            check_declared_sizes(raw)
            with np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop("meta").tobytes())
        if meta["format"] != FORMAT:
            raise CheckpointError(
                f"{path}: format {meta['format']} of another vijax; this one reads format {FORMAT}"
            )
        rows = path.with_suffix(".rows")
        leaves = [
            StoredRows.open(rows, leaf["rows"])
            if "rows" in leaf
            else _verified(arrays[f"leaf/{i}"], leaf)
            for i, leaf in enumerate(meta["leaves"])
        ]
        return int(meta["step"]), dict(meta["config"]), meta["leaves"], leaves
    except CheckpointError:
        raise
    except (
        Exception
    ) as error:  # a damaged file makes zip, zlib, NumPy and JSON raise errors of some twenty types
        reason = str(error) or type(error).__name__
        raise CheckpointError(
            f"{path}: the checkpoint is truncated or corrupt ({reason})"
        ) from error


def latest(
    folder: str | Path,
    like: Tree,
    warn: Callable[[str], None] = lambda message: None,
    check: Check = lambda config: None,
) -> Checkpoint:
    """The newest whole checkpoint; newer ones that are not whole are reported by `warn` and
    skipped. Raises CheckpointError: there is none; or the newest whole one holds another tree than
    `like`. See `load` for `check`."""
    files = checkpoint_files(folder)
    for path in files:
        try:
            return load(path, like, check)
        except OtherTreeError:
            raise  # earlier ones are of the same run
        except CheckpointError as error:
            warn(f"{error}; trying the one before")
    if not files:
        raise CheckpointError(
            f"{folder}: no checkpoint to go on from: there is none; start again with `vijax fit`"
        )
    raise CheckpointError(
        f"{folder}: no checkpoint to go on from: none of the {len(files)} files is readable; "
        f"remove {folder}, and "
        f"begin again (of a run: vijax resume {Path(folder).parent})"
    )


def latest_config(folder: str | Path) -> Mapping[str, Any] | None:
    """The configuration in the newest whole checkpoint; None if there is none."""
    for path in checkpoint_files(folder):
        with contextlib.suppress(CheckpointError):
            return _read(path)[1]
    return None


def latest_places(folder: str | Path) -> tuple[str, ...]:
    """The places of the arrays in the tree of the newest whole checkpoint, such as
    `.posterior['z'].linear`; none where there is no checkpoint."""
    for path in checkpoint_files(folder):
        with contextlib.suppress(CheckpointError):
            return tuple(str(leaf["path"]) for leaf in _read(path)[2])
    return ()


# --- files ----------------------------------------------------------------------------------------
def _unwritable(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"{path}: the disk is full; the checkpoint was not written, earlier ones are kept: "
            "free some space"
        )
    return f"{path}: the checkpoint could not be written ({error}); earlier ones are kept"


# --- trees ----------------------------------------------------------------------------------------
def _paths(tree: Any) -> Iterator[tuple[str, Any]]:
    return (
        (jax.tree_util.keystr(path), leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    )


def _to_arrays(tree: Any, meta: dict[str, Any]) -> dict[str, np.ndarray]:
    arrays, meta["leaves"] = {}, []
    for i, (path, leaf) in enumerate(_paths(tree)):
        if isinstance(leaf, StoredRows):
            meta["leaves"].append({"path": path, "rows": leaf.describe()})
            continue
        array, kind = _to_array(leaf)
        arrays[f"leaf/{i}"] = array.view(storable(array.dtype))
        meta["leaves"].append(
            {"path": path, "kind": kind, "dtype": array.dtype.name, "sha256": checksum(array)}
        )
    return arrays | {"meta": np.frombuffer(json.dumps(meta).encode(), np.uint8)}


def _to_array(leaf: Any) -> tuple[np.ndarray, str]:
    """A leaf as an array, and its kind: a typed key by its implementation, a Python number, an
    array."""
    if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.array(jax.random.key_data(leaf)), f"key:{jax.random.key_impl(leaf)}"
    return np.array(leaf, order="C"), "number" if isinstance(leaf, int | float) else "array"


def _verified(stored: np.ndarray, leaf: Mapping[str, Any]) -> Any:
    """The leaf that `save` was given, verified."""
    array = stored.view(np.dtype(leaf["dtype"]))
    if checksum(array) != leaf["sha256"]:
        raise ValueError(f"checksum of {leaf['path'] or 'the tree'} differs")
    kind, _, implementation = leaf["kind"].partition(":")
    if kind == "key":
        return jax.random.wrap_key_data(array, impl=implementation)
    return array.item() if kind == "number" else array


def _into(like: Any, meta: list[dict[str, Any]], leaves: list[Any], path: str | Path) -> Any:
    expected = {name: _form(leaf) for name, leaf in _paths(like)}
    found = {leaf["path"]: _form(value) for leaf, value in zip(meta, leaves, strict=True)}
    for name in dict.fromkeys([*expected, *found]):
        if expected.get(name) != found.get(name):
            raise OtherTreeError(
                f"{path}: the checkpoint is of another model, or of another version of vijax: "
                f"{name or 'the tree'} should be {expected.get(name, 'absent')} and is "
                f"{found.get(name, 'absent')}. "
                "Fit again, or go on with the version that wrote it"
            )
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _form(leaf: Any) -> str:
    """Type and shape, in words."""
    kind = leaf.dtype if hasattr(leaf, "dtype") else type(leaf).__name__
    return f"{kind} of shape {np.shape(leaf)}"
