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

WAITS_S = (0.2, 1.0, 5.0)
"""Waits between the attempts at a store that does not answer, or gives less than was asked."""
LIMIT_S, SPEED = 60.0, 1e6
"""Seconds that a request may take, and the bytes a second that come on top."""
FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, ImportError)
"""Errors that another attempt does not mend."""
WHOLE = "a whole Parquet file"
REMEDY = "fetch or write the file again"

Result = TypeVar("Result")


def is_address(source: object) -> bool:
    """Tells whether `source` is an address in a store that fsspec knows; files by http are
    downloaded instead.

    >>> is_address("s3://bucket/folder"), is_address("https://example.org/a.parquet"), is_address("folder")
    (True, False, False)
    """
    return (
        isinstance(source, str)
        and "://" in source
        and not source.lower().startswith(("http://", "https://"))
    )


# --- Parquet files --------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Block:
    """A row group of a Parquet file: its rows are first, ..., first + count - 1 of all, and above,
    above + 1, ... of those of the file."""

    file: str
    number: int
    first: int
    count: int
    above: int = 0

    def __str__(self) -> str:
        return f"{self.file}, rows {self.first:,} to {self.first + self.count - 1:,} of all"


def file_blocks(file: str, counts: Sequence[int], first: int) -> Iterator[Block]:
    """The row groups of a file that have rows, the first of them being row `first` of all."""
    above = 0
    for number, count in enumerate(counts):
        if count:
            yield Block(file, number, first + above, count, above)
        above += count


def shard_paths(path: Path) -> list[Path]:
    """The Parquet files of a folder in the order of their names; a file is its own only shard."""
    return [Path(part.file) for part in parquet_parts(path)] if path.is_dir() else [path]


def parquet_files(source: str | Path) -> list[str]:
    """The Parquet files of a folder in the order of their names; a file is its own only one."""
    return [part.file for part in parquet_parts(source)]


def parquet_parts(source: str | Path) -> list[Part]:
    """The Parquet files of a folder, with the columns that the names of folders within it give them
    (`column=value`); a file is its own only one. Hidden files, and those whose names begin with an
    underscore, are left out.

    Raises:
      DataError: files lie in folders of other names, or some in folders and some beside them.
    """
    if not is_address(source):
        path = Path(source).expanduser()
        kind = path_kind(path)
        if kind == "a folder":
            found = find_parts(local_names(path), source)
            parts = [Part(str(path / part.file), part.values) for part in found]
        else:
            parts = [] if kind == "none" else [Part(str(path), {})]
        for part in parts:
            check_regular(Path(part.file))
        return parts

    def found_there(asked: Request) -> list[Part]:
        with asked.track(0):
            store, path = _find_store(str(source))
            store.invalidate_cache()
            if path.endswith(".parquet") and not store.isdir(path):
                return [Part(store.unstrip_protocol(path), {})]
            begin = f"{path.rstrip('/')}/"
            parts = find_parts(_stored_names(store, begin), source)
            return [Part(store.unstrip_protocol(begin + part.file), part.values) for part in parts]

    return ask_with_retries(str(source), found_there)


MOST_ASKED = 50
"""Folders of a store, which are no parts, in which files are looked for: each is a request."""


def _stored_names(store: Any, begin: str) -> list[str]:
    """The paths of the Parquet files in a folder of a store, and in those within it; see
    `local_names`."""
    found: list[str] = []
    waiting = [""]
    left = MOST_ASKED
    while waiting:
        within = waiting.pop()
        left -= not is_part(within)
        if left < 0 and not is_part(within):
            continue
        try:
            entries = store.ls(f"{begin}{within}".rstrip("/"), detail=True)
        except FileNotFoundError:
            continue
        for entry in entries:
            name = entry["name"].rstrip("/").removeprefix(begin)
            if entry["type"] == "directory":
                check_no_log(name, begin)
                waiting += [] if is_hidden(name) or name == within else [name]
            elif name.endswith(".parquet"):
                found.append(name)
    return found


def no_parquet(source: str | Path, remedy: str = "check the path") -> DataError:
    """The error of a source without Parquet files; it names those that lie in folders within it."""
    path = Path(str(source)).expanduser()
    strays = find_strays(local_names(path)) if not is_address(source) and path.is_dir() else []
    got = f"none but {listed(strays, 3)}, which are left out" if strays else "none"
    tables = [] if is_address(source) or strays else find_other_tables(path)
    if tables:
        got = listed(tables, 3)
        remedy = "name one of them; a table in several files is read of Parquet alone"
    if strays:
        remedy = (
            "name the file, or its folder; files in folders called column=value are read, hidden "
            "ones are not"
        )
    return fail(source, "a Parquet file, or a folder of them", got, remedy)


def open_parquet(file: Any, texts_once: bool = False) -> Any:
    """A Parquet file, opened; its pages are compared with their checksums where it has any.

    Args:
      file: a path, or a file.
      texts_once: whether a text that comes again and again is in memory once. A file of 1 MB can
        say a text of 20 MB ten thousand times.
    """
    parquet = require_extra("pyarrow.parquet")
    how = {"page_checksum_verification": True}
    opened = parquet.ParquetFile(file, **how)
    if not texts_once:
        return opened
    names = _columns_of_texts(opened)
    opened.close()
    if hasattr(file, "seek"):
        file.seek(0)
    return parquet.ParquetFile(file, read_dictionary=names, **how)


def _columns_of_texts(opened: Any) -> list[str]:
    types = require_extra("pyarrow.types")
    is_text = lambda kind: (
        types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind)
    )
    return [field.name for field in opened.schema_arrow if is_text(field.type)]


def from_parquet(file: str, read: Callable[[Any], Result], texts_once: bool = False) -> Result:
    """Reads from a Parquet file, and asks its store again where it does not answer; see
    `open_parquet`.

    Raises:
      DataError: the file is damaged or not there, or its store does not answer.
    """
    if not is_address(file):
        with (
            naming(Path(file)),
            parsing(Path(file), WHOLE, REMEDY),
            open_parquet(file, texts_once) as opened,
        ):
            return read(opened)

    def there(asked: Request) -> Result:
        with _open_stored(file, asked) as stored, open_parquet(stored, texts_once) as opened:
            return read(opened)

    return ask_with_retries(file, there)


def read_folder_text(source: str | Path, name: str) -> str | None:
    """The text of a file in a folder, on this machine or in a store; None where there is none."""
    if not is_address(source):
        path = Path(source).expanduser() / name
        return read_text(path) if path.is_file() else None
    file = f"{str(source).rstrip('/')}/{name}"

    def found(asked: Request) -> str | None:
        with asked.track(0):
            store, path = _find_store(file)
            if not store.exists(path):
                return None
        with _open_stored(file, asked) as stored:
            return stored.read().decode()

    return ask_with_retries(file, found)


def describe_files(files: Sequence[str]) -> list[str]:
    """The row groups of each Parquet file in its own words, which tell it from others."""
    of_file = lambda file: [
        file.metadata.row_group(i).to_dict() for i in range(file.metadata.num_row_groups)
    ]
    return [repr(from_parquet(file, of_file)) for file in files]


# --- stores ---------------------------------------------------------------------------------------
class Request:
    """The request that a store has not answered yet: since when, for how many bytes; and its last
    error."""

    def __init__(self) -> None:
        self.fault: BaseException | None = None
        self._now: tuple[float, int] | None = None

    @contextlib.contextmanager
    def track(self, size: int) -> Iterator[None]:
        """A request goes on inside."""
        self._now = time.monotonic(), size
        try:
            yield
        except BaseException as error:
            self.fault = error
            raise
        finally:
            self._now = None

    def late(self) -> TimeoutError | None:
        """The error where the present request takes longer than it may."""
        now = self._now
        if now is None:
            return None
        limit = LIMIT_S + now[1] / SPEED
        if time.monotonic() - now[0] > limit:
            return TimeoutError(f"no answer within {limit:.1f} s")
        return None


class Whole:
    """A stored file that gives as many bytes as are asked, or raises an OSError."""

    def __init__(self, file: Any, asked: Request):
        self._file, self._asked, self.closed = file, asked, False
        self._size = file.size if hasattr(file, "size") else None

    def read(self, size: int = -1) -> bytes:
        """So many bytes from here on, fewer at the end of the file alone; -1: all."""
        left = None if self._size is None else max(0, self._size - self._file.tell())
        wanted = left if left is not None and (size < 0 or size > left) else size
        with self._asked.track(max(0, wanted)):
            found = self._file.read(size)
            if wanted is not None and len(found) < wanted:
                raise OSError(f"{len(found):,} bytes in the place of {wanted:,}")
        return found

    def seek(self, *place: int) -> int:
        """Goes to a place of the file."""
        with self._asked.track(0):
            return self._file.seek(*place)

    def tell(self) -> int:
        """The present place."""
        return self._file.tell()

    def close(self) -> None:
        """Closes it."""
        self.closed = True


NO_STORES = ("reference", "dask", "generic", "async_wrapper", "asyncwrapper", "asynclocal")
"""Kinds of addresses that hold no files: what they name says what else is read, by templates too,
or runs elsewhere."""


def _find_store(address: str) -> tuple[Any, str]:
    """The store of an address, and the path in it. Raises DataError: it is of no store of files."""
    for link in address.split("::"):
        kind = link.partition("://")[0].lower()
        if kind in NO_STORES:
            raise fail(
                address,
                "an address of a store of files",
                f"one of {kind}://",
                "name the files themselves",
            )
    try:
        return require_extra("fsspec.core", "store").url_to_fs(address)
    except ValueError as error:
        raise fail(
            address, "an address that fsspec knows", str(error), "check what stands before ://"
        ) from error


@contextlib.contextmanager
def _open_stored(file: str, asked: Request) -> Iterator[Whole]:
    with contextlib.ExitStack() as stack:
        with asked.track(0):
            store, path = _find_store(file)
            stored = stack.enter_context(store.open(path, "rb"))
        yield Whole(stored, asked)


def ask_with_retries(where: str, ask: Callable[[Request], Result]) -> Result:
    """Returns the answer of a store, asked up to four times where it does not answer, or gives less
    than was asked.

    Raises:
      DataError: there is no answer; or it was whole, and is no Parquet file, which is not asked for
          again.
    """
    for wait in (*WAITS_S, None):
        asked = Request()
        try:
            return _call_in_thread(ask, asked)
        except (DataError, MemoryError):
            raise
        except FINAL as error:
            remedy = (
                "check the address" if isinstance(error, OSError) else "install what is missing"
            )
            if isinstance(error, PermissionError):
                remedy = f"{remedy} and your rights there; {_credentials(where)}"
            raise fail(where, "a file that may be read", _error_text(error), remedy) from error
        except Exception as error:  # each store has errors of its own
            if (refusal := _find_refusal(error)) is not None:
                got = f"none, or such as it refuses: {_error_text(refusal)}"
                raise fail(
                    where, "credentials that the store takes", got, _credentials(where)
                ) from error
            if asked.fault is None:
                raise fail(
                    where, WHOLE, f"an unreadable one ({_error_text(error)})", REMEDY
                ) from error
            if wait is None:
                tries = f"{_error_text(asked.fault)}, {len(WAITS_S) + 1} times"
                remedy = "try again later: a run with checkpoints goes on"
                raise fail(where, "a store that answers with whole files", tries, remedy) from error
        time.sleep(wait)
    raise AssertionError


CREDENTIALS = re.compile(
    r"credential|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|TokenRefreshRequired|AccessDenied"
    r"|Anonymous caller|ClientAuthentication|\bForbidden\b|\bUnauthorized\b",
    re.IGNORECASE,
)
"""What stores say where they do not know who asks; to ask again does not mend it."""
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
    """The error, or the one behind it, by which a store says that it does not know who asks; None
    of another."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        if CREDENTIALS.search(f"{type(at).__name__} {at}"):
            return at
        seen.append(at)
        at = at.__cause__ or at.__context__
    return None


def _credentials(where: str) -> str:
    """The remedy: credentials of the store of an address."""
    kind = where.partition("://")[0].lower()
    return f"give credentials ({OF_STORES.get(kind, f'as fsspec takes them for {kind}://')})"


def _call_in_thread(ask: Callable[[Request], Result], asked: Request) -> Result:
    """The answer, or the error, of a call in a thread; a thread that hangs in a request is left
    behind."""
    found: list[Any] = []

    def call() -> None:
        try:
            found.append((ask(asked), None))
        except BaseException as error:
            found.append((None, error))
        finally:
            done.set()

    done = threading.Event()
    threading.Thread(target=call, name="vijax-store", daemon=True).start()
    while not done.wait(min(1.0, LIMIT_S / 4)):
        if (late := asked.late()) is not None:
            asked.fault = late
            raise late
    answer, error = found[0]
    if error is not None:
        raise error
    return answer


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__} ({' '.join(str(error).split())[:120]})"
