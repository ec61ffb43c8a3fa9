"""Checkpoints of any pytree: one .npz each, written atomically, verified when read, the last few
kept.

    step_00000120.npz   leaf/0, leaf/1, ...   the arrays of the tree
                        meta                  JSON: step, configuration, path, type and sha256 of each leaf
    step_00000120.rows/                       tables that lie with several processes or devices (vijax/scale/stored.py)

A file has its name only once it is complete and on the disk (temporary file, fsync, rename, fsync
of the folder): a kill at any moment leaves earlier checkpoints as they were. Tables by row are
written before it."""

from __future__ import annotations

import contextlib
import errno
import json
import shlex
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
from vijax.scale.stored import store_parts, store_tables

Tree = TypeVar("Tree")

FORMAT = 1


class CheckpointError(RuntimeError):
    """A checkpoint could not be written or read; the message says which, why, and the remedy."""


class OtherTreeError(CheckpointError):
    """A complete checkpoint holds another tree than the one that was expected."""


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

    If rows of tables in the tree lie with several processes (the `whole` of a callback's
    `Progress`), all processes call it together: each writes its own rows, in a folder that all see,
    and process 0 writes all else. Tables whose topics are split over devices
    (`vijax.scale.mesh(topics=)`) are written part by part.

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
    >>> checkpoint = latest(folder, like={"topics": np.zeros((2, 3))})
    >>> checkpoint.step, float(checkpoint.tree["topics"].sum())
    (7, 6.0)
    """
    folder = Path(folder)
    target = folder / f"step_{step:08d}.npz"
    if any(isinstance(leaf, Rows) for leaf in jax.tree.leaves(tree)):
        tree = with_stored_rows(folder, step, tree)
        if jax.process_index() > 0:
            return target
    try:
        tree = store_parts(folder / f"step_{step:08d}.rows", tree)
    except OSError as error:
        raise CheckpointError(_write_error(target, error)) from error
    arrays = _to_arrays(tree, {"format": FORMAT, "step": step, "config": dict(config or {})})
    try:
        own_folder(folder)
        write_arrays(target, arrays)
    except OSError as error:
        raise CheckpointError(_write_error(target, error)) from error
    for path in checkpoint_files(folder)[keep:]:
        path.unlink(missing_ok=True)
    for rows in folder.glob("step_*.rows"):
        if not rows.with_suffix(".npz").exists():
            shutil.rmtree(rows, ignore_errors=True)
    return target


def with_stored_rows(folder: str | Path, step: int, tree: Tree) -> Tree:
    """Writes the rows that lie with several processes, and returns a tree that process 0 can `save`
    alone. All processes call it."""
    return store_tables(Path(folder) / f"step_{step:08d}.rows", tree)


def checkpoint_files(folder: str | Path) -> list[Path]:
    """The checkpoints of a folder, newest first."""
    return sorted(
        Path(folder).glob("step_*.npz"), key=lambda path: (len(path.name), path.name), reverse=True
    )


def load(path: str | Path, like: Tree, check: Check = lambda config: None) -> Checkpoint:
    """Reads one checkpoint into the structure of `like` (arrays, or the shapes `jax.eval_shape`
    gives). Tables that several processes have written are read later: by `vijax.fit(state=)`, or by
    `numpy.asarray`.

    Args:
      path: the file.
      like: a tree of the structure that the file should hold.
      check: called with the configuration of the run that wrote it, before its tree is compared
        with `like`; may raise its own error.

    Raises:
      CheckpointError: the file is truncated or altered, or of another format.
      OtherTreeError: it is complete, and holds another tree than `like`.
    """
    step, config, infos, leaves = _read(Path(path))
    check(config)
    return Checkpoint(step, _build(like, infos, leaves, path), config, Path(path))


def _read(path: Path) -> tuple[int, dict[str, Any], list[dict[str, Any]], list[Any]]:
    """Step, configuration, and the leaves: first their descriptions, then their values."""
    try:
        return _parse(path)
    except CheckpointError:
        raise
    except Exception as error:
        # A damaged file makes zip, zlib, NumPy and JSON raise errors of some twenty types.
        reason = str(error) or type(error).__name__
        raise CheckpointError(
            f"{path}: the checkpoint is truncated or corrupt ({reason})"
        ) from error


def _parse(path: Path) -> tuple[int, dict[str, Any], list[dict[str, Any]], list[Any]]:
    """See `_read`; it raises errors of any type."""
    if not zipfile.is_zipfile(path):  # NumPy would advise to trust other files
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
    leaves: list[Any] = []
    for i, info in enumerate(meta["leaves"]):
        if "rows" in info:
            leaves.append(StoredRows.open(path.with_suffix(".rows"), info["rows"]))
        else:
            leaves.append(_verify(arrays[f"leaf/{i}"], info))
    return int(meta["step"]), dict(meta["config"]), meta["leaves"], leaves


def latest(
    folder: str | Path,
    like: Tree,
    warn: Callable[[str], None] = lambda message: None,
    check: Check = lambda config: None,
) -> Checkpoint:
    """The newest complete checkpoint; `warn` reports newer files that are damaged. Raises
    CheckpointError: there is none, or the newest complete one holds another tree than `like`. See
    `load` for `check`."""
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
    run = shlex.quote(str(Path(folder).parent))
    raise CheckpointError(
        f"{folder}: no checkpoint to go on from: none of the {len(files)} files is readable; "
        f"remove {folder}, and begin again (of a run: vijax resume {run})"
    )


def latest_config(folder: str | Path) -> Mapping[str, Any] | None:
    """The configuration in the newest complete checkpoint; None if there is none."""
    for path in checkpoint_files(folder):
        with contextlib.suppress(CheckpointError):
            return _read(path)[1]
    return None


# --- files ----------------------------------------------------------------------------------------
def _write_error(path: Path, error: OSError) -> str:
    """The message of a checkpoint that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"{path}: the disk is full; the checkpoint was not written, earlier ones are kept: "
            "free some space"
        )
    return f"{path}: the checkpoint could not be written ({error}); earlier ones are kept"


# --- trees ----------------------------------------------------------------------------------------
def _paths(tree: Any) -> Iterator[tuple[str, Any]]:
    """Each leaf of a tree with its path."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        yield jax.tree_util.keystr(path), leaf


def _to_arrays(tree: Any, meta: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a file: the leaves, and `meta` with their descriptions."""
    arrays = {}
    infos: list[dict[str, Any]] = []
    for i, (path, leaf) in enumerate(_paths(tree)):
        if isinstance(leaf, StoredRows):
            infos.append({"path": path, "rows": leaf.describe()})
            continue
        array, kind = _to_array(leaf)
        arrays[f"leaf/{i}"] = array.view(storable(array.dtype))
        dtype = array.dtype.name
        infos.append({"path": path, "kind": kind, "dtype": dtype, "sha256": checksum(array)})
    text = json.dumps({**meta, "leaves": infos})
    return arrays | {"meta": np.frombuffer(text.encode(), np.uint8)}


def _to_array(leaf: Any) -> tuple[np.ndarray, str]:
    """A leaf as an array, and its kind: "key:implementation", "number" or "array"."""
    if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.array(jax.random.key_data(leaf)), f"key:{jax.random.key_impl(leaf)}"
    kind = "number" if isinstance(leaf, int | float) else "array"
    return np.array(leaf, order="C"), kind


def _verify(raw: np.ndarray, info: Mapping[str, Any]) -> Any:
    """The leaf that `save` was given. Raises ValueError where its checksum differs."""
    array = raw.view(np.dtype(info["dtype"]))
    if checksum(array) != info["sha256"]:
        raise ValueError(f"checksum of {info['path'] or 'the tree'} differs")
    kind, _, implementation = info["kind"].partition(":")
    if kind == "key":
        return jax.random.wrap_key_data(array, impl=implementation)
    return array.item() if kind == "number" else array


def _build(like: Any, infos: list[dict[str, Any]], leaves: list[Any], path: str | Path) -> Any:
    """The leaves in the structure of `like`. Raises OtherTreeError where they do not fit."""
    expected = {name: _form(leaf) for name, leaf in _paths(like)}
    forms = {info["path"]: _form(leaf) for info, leaf in zip(infos, leaves, strict=True)}
    for name in dict.fromkeys([*expected, *forms]):
        if expected.get(name) != forms.get(name):
            raise OtherTreeError(
                f"{path}: the checkpoint is of another model, or of another version of vijax: "
                f"{name or 'the tree'} should be {expected.get(name, 'absent')} and is "
                f"{forms.get(name, 'absent')}. "
                "Fit again, or go on with the version that wrote it"
            )
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _form(leaf: Any) -> str:
    """Type and shape, in words."""
    kind = leaf.dtype if hasattr(leaf, "dtype") else type(leaf).__name__
    return f"{kind} of shape {np.shape(leaf)}"
