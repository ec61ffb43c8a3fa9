"""Parquet files on this machine, or in a store that fsspec knows: `s3://bucket/folder`, `gs://`,
`memory://`."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from vijax.data.reading.checks import DataError, fail, listed
from vijax.data.reading.files import check_regular, naming, parsing, path_kind, read_text
from vijax.data.reading.partitions import (
    Part,
    check_no_log,
    find_other_tables,
    find_parts,
    find_strays,
    is_hidden,
    is_part,
    local_names,
)
from vijax.extras import require_extra
from vijax.files import local_path

WAITS_S = (0.2, 1.0, 5.0)
"""Seconds between the attempts at a store that does not answer, or gives less than was asked
for."""
LIMIT_S = 60.0
"""Seconds that a request may take."""
SPEED = 1e6
"""Bytes for which a request may take a second more."""
FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, ImportError)
"""Errors that another attempt does not mend."""
WHOLE = "a whole Parquet file"
REMEDY = "fetch or write the file again"

Result = TypeVar("Result")


def is_address(source: object) -> bool:
    """True for an address in a store that fsspec knows; http addresses are downloaded instead.

    >>> is_address("s3://bucket/folder"), is_address("https://example.org/a.parquet"), is_address("folder")
    (True, False, False)
    """
    if not isinstance(source, str) or "://" not in source:
        return False
    return not source.lower().startswith(("http://", "https://"))


# --- Parquet files --------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Block:
    """A row group of a Parquet file.

    Attributes:
      file: the file.
      number: its number in the file.
      first: number of its first row among the rows of all files.
      count: number of its rows.
      above: number of rows above it in the file.
    """

    file: str
    number: int
    first: int
    count: int
    above: int = 0

    def __str__(self) -> str:
        return f"{self.file}, rows {self.first:,} to {self.first + self.count - 1:,} of all"


def file_blocks(file: str, counts: Sequence[int], first: int) -> Iterator[Block]:
    """The row groups of a file that have rows; the first row of the file is row `first` of all."""
    above = 0
    for number, count in enumerate(counts):
        if count:
            yield Block(file, number, first + above, count, above)
        above += count


def shard_paths(path: Path) -> list[Path]:
    """The Parquet files of a folder in the order of their names; for a file, the file itself."""
    if path.is_dir():
        return [Path(part.file) for part in parquet_parts(path)]
    return [path]


def parquet_files(source: str | Path) -> list[str]:
    """The Parquet files of a source in the order of their names; for a file, the file itself."""
    return [part.file for part in parquet_parts(source)]


def parquet_parts(source: str | Path) -> list[Part]:
    """The Parquet files of a folder, with the columns that names of inner folders (`column=value`)
    give them; for a file, the file itself. Hidden files, and files whose names begin with an
    underscore, are left out.

    Raises:
      DataError: files lie in folders with other names, or some in folders and some beside them.
    """
    if not is_address(source):
        return _local_parts(source)

    def ask(request: Request) -> list[Part]:
        with request.track(0):
            store, path = _find_store(str(source))
            store.invalidate_cache()
            if path.endswith(".parquet") and not store.isdir(path):
                return [Part(store.unstrip_protocol(path), {})]
            root = f"{path.rstrip('/')}/"
            parts = find_parts(_stored_names(store, root), source)
            return [Part(store.unstrip_protocol(root + part.file), part.values) for part in parts]

    return ask_with_retries(str(source), ask)


def _local_parts(source: str | Path) -> list[Part]:
    path = local_path(source)
    kind = path_kind(path)
    if kind == "none":
        return []
    parts = [Part(str(path), {})]
    if kind == "a folder":
        inner = find_parts(local_names(path), source)
        parts = [Part(str(path / part.file), part.values) for part in inner]
    for part in parts:
        check_regular(Path(part.file))
    return parts


MOST_ASKED = 50
"""The most folders of a store that are no parts and are searched for files: each is a request."""


def _stored_names(store: Any, root: str) -> list[str]:
    """The paths of the Parquet files in a folder of a store and in its inner folders; see
    `local_names`."""
    names: list[str] = []
    waiting = [""]
    num_left = MOST_ASKED
    while waiting:
        folder = waiting.pop()
        num_left -= not is_part(folder)
        if num_left < 0 and not is_part(folder):
            continue
        try:
            entries = store.ls(f"{root}{folder}".rstrip("/"), detail=True)
        except FileNotFoundError:
            continue
        for entry in entries:
            name = entry["name"].rstrip("/").removeprefix(root)
            if entry["type"] == "directory":
                check_no_log(name, root)
                waiting += [] if is_hidden(name) or name == folder else [name]
            elif name.endswith(".parquet"):
                names.append(name)
    return names


def no_parquet(source: str | Path, remedy: str = "check the path") -> DataError:
    """The error for a source without Parquet files; it names left-out files in inner folders."""
    path = local_path(str(source))
    strays = []
    tables = []
    if not is_address(source):
        strays = find_strays(local_names(path)) if path.is_dir() else []
        tables = [] if strays else find_other_tables(path)
    actual = "none"
    if strays:
        actual = f"none but {listed(strays, 3)}, which are left out"
        remedy = (
            "name the file, or its folder; files in folders called column=value are read, hidden "
            "ones are not"
        )
    elif tables:
        actual = listed(tables, 3)
        remedy = "name one of them; a table in several files is read of Parquet alone"
    return fail(source, "a Parquet file, or a folder of them", actual, remedy)


def open_parquet(file: Any, texts_once: bool = False) -> Any:
    """A Parquet file, opened; its pages are compared with their checksums if it has them.

    Args:
      file: a path, or a file.
      texts_once: True keeps repeated texts in memory once. A file of 1 MB can repeat a text of 20
        MB ten thousand times.
    """
    parquet = require_extra("pyarrow.parquet")
    settings = {"page_checksum_verification": True}
    opened = parquet.ParquetFile(file, **settings)
    if not texts_once:
        return opened
    names = _text_columns(opened)
    opened.close()
    if hasattr(file, "seek"):
        file.seek(0)
    return parquet.ParquetFile(file, read_dictionary=names, **settings)


def _text_columns(opened: Any) -> list[str]:
    types = require_extra("pyarrow.types")
    is_text = lambda kind: (
        types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind)
    )
    return [field.name for field in opened.schema_arrow if is_text(field.type)]


def from_parquet(file: str, read: Callable[[Any], Result], texts_once: bool = False) -> Result:
    """Reads from a Parquet file, with more attempts if its store does not answer; see
    `open_parquet`.

    Raises:
      DataError: the file is damaged or missing, or its store does not answer.
    """
    if is_address(file):

        def ask(request: Request) -> Result:
            with (
                _open_stored_file(file, request) as stored,
                open_parquet(stored, texts_once) as opened,
            ):
                return read(opened)

        return ask_with_retries(file, ask)
    with (
        naming(Path(file)),
        parsing(Path(file), WHOLE, REMEDY),
        open_parquet(file, texts_once) as opened,
    ):
        return read(opened)


def read_folder_text(source: str | Path, name: str) -> str | None:
    """The text of a file in a folder, on this machine or in a store; None without the file."""
    if not is_address(source):
        path = local_path(source) / name
        if not path.is_file():
            return None
        return read_text(path)
    file = f"{str(source).rstrip('/')}/{name}"

    def ask(request: Request) -> str | None:
        with request.track(0):
            store, path = _find_store(file)
            if not store.exists(path):
                return None
        with _open_stored_file(file, request) as stored:
            return stored.read().decode()

    return ask_with_retries(file, ask)


def describe_files(files: Sequence[str]) -> list[str]:
    """Texts that identify Parquet files: what each says of its row groups."""

    def read(file: Any) -> list[dict]:
        groups = range(file.metadata.num_row_groups)
        return [file.metadata.row_group(i).to_dict() for i in groups]

    return [repr(from_parquet(file, read)) for file in files]


# --- stores ---------------------------------------------------------------------------------------
class Request:
    """The requests to a store, one at a time: the start and the size of the present one, and the
    last error."""

    def __init__(self) -> None:
        self.fault: BaseException | None = None
        self._present: tuple[float, int] | None = None

    @contextlib.contextmanager
    def track(self, size: int) -> Iterator[None]:
        """Inside, a request for `size` bytes is under way."""
        self._present = time.monotonic(), size
        try:
            yield
        except BaseException as error:
            self.fault = error
            raise
        finally:
            self._present = None

    def late(self) -> TimeoutError | None:
        """An error if the present request takes longer than it may, else None."""
        present = self._present
        if present is None:
            return None
        start, size = present
        limit = LIMIT_S + size / SPEED
        if time.monotonic() - start > limit:
            return TimeoutError(f"no answer within {limit:.1f} s")
        return None


class Whole:
    """A stored file that gives as many bytes as are asked for, or raises an OSError."""

    def __init__(self, file: Any, request: Request):
        self._file = file
        self._request = request
        self.closed = False
        self._size = file.size if hasattr(file, "size") else None

    def read(self, size: int = -1) -> bytes:
        """The next `size` bytes, fewer only at the end of the file; -1: all."""
        wanted = size
        if self._size is not None:
            num_left = max(0, self._size - self._file.tell())
            if size < 0 or size > num_left:
                wanted = num_left
        with self._request.track(max(0, wanted)):
            data = self._file.read(size)
            if len(data) < wanted:
                raise OSError(f"{len(data):,} bytes in the place of {wanted:,}")
        return data

    def seek(self, *place: int) -> int:
        """Moves to a place of the file."""
        with self._request.track(0):
            return self._file.seek(*place)

    def tell(self) -> int:
        """The present place."""
        return self._file.tell()

    def close(self) -> None:
        """Marks the file as closed; the store closes it."""
        self.closed = True


NO_STORES = ("reference", "dask", "generic", "async_wrapper", "asyncwrapper", "asynclocal")
"""Kinds of addresses that hold no files: they name other addresses, also by templates, or run
elsewhere."""


def _find_store(address: str) -> tuple[Any, str]:
    """The store of an address, and the path in it. Raises DataError if it is no store of files."""
    for link in address.split("::"):
        kind = link.partition("://")[0].lower()
        if kind in NO_STORES:
            expected = "an address of a store of files"
            raise fail(address, expected, f"one of {kind}://", "name the files themselves")
    try:
        return require_extra("fsspec.core", "store").url_to_fs(address)
    except ValueError as error:
        expected = "an address that fsspec knows"
        raise fail(address, expected, str(error), "check what stands before ://") from error


@contextlib.contextmanager
def _open_stored_file(file: str, request: Request) -> Iterator[Whole]:
    with contextlib.ExitStack() as stack:
        with request.track(0):
            store, path = _find_store(file)
            stored = stack.enter_context(store.open(path, "rb"))
        yield Whole(stored, request)


def ask_with_retries(where: str, ask: Callable[[Request], Result]) -> Result:
    """The answer of a store, asked up to four times if it does not answer, or gives less than was
    asked for.

    Raises:
      DataError: there is no answer; or a complete answer is no Parquet file, and then it is not
        asked for again.
    """
    for wait in (*WAITS_S, None):
        request = Request()
        try:
            return _call_in_thread(ask, request)
        except (DataError, MemoryError):
            raise
        except FINAL as error:
            remedy = "install what is missing"
            if isinstance(error, OSError):
                remedy = "check the address"
            if isinstance(error, PermissionError):
                remedy = f"{remedy} and your rights there; {_credentials(where)}"
            raise fail(where, "a file that may be read", _error_text(error), remedy) from error
        except Exception as error:  # each store has errors of its own
            if (refusal := _find_refusal(error)) is not None:
                expected = "credentials that the store takes"
                actual = f"none, or such as it refuses: {_error_text(refusal)}"
                raise fail(where, expected, actual, _credentials(where)) from error
            if request.fault is None:
                actual = f"an unreadable one ({_error_text(error)})"
                raise fail(where, WHOLE, actual, REMEDY) from error
            if wait is None:
                actual = f"{_error_text(request.fault)}, {len(WAITS_S) + 1} times"
                remedy = "try again later: a run with checkpoints goes on"
                raise fail(
                    where, "a store that answers with whole files", actual, remedy
                ) from error
        time.sleep(wait)
    raise AssertionError


CREDENTIALS = re.compile(
    r"credential|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|TokenRefreshRequired|AccessDenied"
    r"|Anonymous caller|ClientAuthentication|\bForbidden\b|\bUnauthorized\b",
    re.IGNORECASE,
)
"""Words in the errors of stores that do not know who asks; another attempt does not mend them."""
OF_STORES = {
    "s3": "aws configure, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; FSSPEC_S3_ANON=true for "
    "a public one",
    "gs": "gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS",
    "abfs": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
OF_STORES |= {
    "s3a": OF_STORES["s3"],
    "gcs": OF_STORES["gs"],
    "az": OF_STORES["abfs"],
    "abfss": OF_STORES["abfs"],
}


def _find_refusal(error: BaseException) -> BaseException | None:
    """The error, or the one behind it, by which a store refuses the credentials; None for other
    errors."""
    checked: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in checked:
        if CREDENTIALS.search(f"{type(cause).__name__} {cause}"):
            return cause
        checked.append(cause)
        cause = cause.__cause__ or cause.__context__
    return None


def _credentials(where: str) -> str:
    """The remedy: credentials for the store of an address."""
    kind = where.partition("://")[0].lower()
    return f"give credentials ({OF_STORES.get(kind, f'as fsspec takes them for {kind}://')})"


def _call_in_thread(ask: Callable[[Request], Result], request: Request) -> Result:
    """The answer, or the error, of a call in a thread; a thread that hangs in a request is
    abandoned."""
    outcomes: list[Any] = []

    def call() -> None:
        try:
            outcomes.append((ask(request), None))
        except BaseException as error:
            outcomes.append((None, error))
        finally:
            finished.set()

    finished = threading.Event()
    threading.Thread(target=call, name="vijax-store", daemon=True).start()
    while not finished.wait(min(1.0, LIMIT_S / 4)):
        if (late := request.late()) is not None:
            request.fault = late
            raise late
    answer, error = outcomes[0]
    if error is not None:
        raise error
    return answer


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__} ({' '.join(str(error).split())[:120]})"
