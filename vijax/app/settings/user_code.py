"""Python files that a configuration names: the only input that is executed.

A file is executed if its user has named it in a `vijax fit` on this machine, and only while it is
unchanged:

- `vijax fit` records the checksum of the file in the run's config.toml, and in a list in the user's
  cache folder;
- later commands execute the file only if it still has the run's checksum, and the list has it. So
  code in a run folder of somebody else is never executed.

The executed bytes are the checked bytes. Files that it imports are not checked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from vijax.app.settings.typed_toml import ConfigError
from vijax.data.reading.cache import cache_folder
from vijax.terminal import printable

ALLOW = "VIJAX_ALLOW_CODE"
"""The environment variable by which a user allows a checksum that is not on the list."""


class Code(NamedTuple):
    """A file that was read."""

    path: str
    text: bytes

    @property
    def sha256(self) -> str:
        """Its checksum."""
        return hashlib.sha256(self.text).hexdigest()


def read_code(path: str, setting: str) -> Code:
    """A file, not executed."""
    try:
        return Code(path, Path(path).read_bytes())
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(
            f"{setting}: expected a Python file that can be read, got {path} ({reason})"
        ) from error


def allow_named_file(config: Any) -> Any:
    """The configuration of a new run, with the checksum of the Python file that it names; the
    checksum is put on the list. For `vijax fit` alone. A configuration without a file is
    unchanged."""
    model = config.model
    if getattr(model, "file", None) is None:
        return config
    digest = read_code(model.file, "model.file").sha256
    if model.sha256 not in (None, digest):
        return config  # `execute_file` refuses it
    # If the list cannot be written, later commands say how to allow the code.
    with contextlib.suppress(OSError):
        _list_entry(digest).parent.mkdir(parents=True, exist_ok=True)
        _list_entry(digest).touch()
    return dataclasses.replace(config, model=dataclasses.replace(model, sha256=digest))


def execute_file(path: str, sha256: str | None, setting: str) -> ModuleType:
    """The file as a module, executed once in this process and announced on standard error."""
    code = read_code(path, setting)
    if sha256 != code.sha256:
        then = sha256[:12] if sha256 else "not noted"
        sum_now = code.sha256[:12]
        raise ConfigError(
            f"{setting}: {path} has changed since the run began (sha256 {then} then, {sum_now} "
            "now), and is not executed; put it back as it was, or start again: vijax fit"
        )
    if os.environ.get(ALLOW) != code.sha256 and not _list_entry(code.sha256).is_file():
        raise ConfigError(
            f"{setting}: {path} is Python code that you have not named in a `vijax fit` on this "
            "machine, and it is not "
            f"executed. Read it first; if you trust it, allow it: {ALLOW}={code.sha256}"
        )
    return _module(code)


@functools.cache
def _module(code: Code) -> ModuleType:
    print(printable(f"Code: executing {code.path}"), file=sys.stderr, flush=True)
    module = ModuleType(Path(code.path).stem)
    module.__file__ = code.path
    with locate_errors(code.path):
        # Its user has named it (see above).
        exec(compile(code.text, code.path, "exec"), module.__dict__)
    return module


@contextlib.contextmanager
def locate_errors(path: str) -> Iterator[None]:
    """Turns an error in a user's file into one that names its line, so that vijax is not blamed."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        line = _error_line_number(path, error)
        if isinstance(error, SyntaxError) and error.filename == path:
            line = error.lineno
        place = path if line is None else f"{path}, line {line}"
        message = error.msg if isinstance(error, SyntaxError) else error
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ConfigError(f"{place}: {kind}{message}") from error


def _error_line_number(path: str, error: BaseException | None) -> int | None:
    """The last line of a file in the traceback of an error, or of its causes; None without one."""
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        if lines:
            return lines[-1]
        error = error.__cause__
    return None


# --- the list -------------------------------------------------------------------------------------
def _list_entry(sha256: str) -> Path:
    """The empty file that stands for a checksum on the list."""
    return cache_folder() / "code" / sha256
