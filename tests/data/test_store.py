"""Rows in stores: the same as on disk; what a store does wrong is mended or said."""

import socket
import threading
import time

import jax
import numpy as np
import pytest

from tests.naming import naming
from vijax.data import DataError, rows
from vijax.data.reading import store

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
fsspec = pytest.importorskip("fsspec")


def fill(files, folder):
    for i in range(3):
        table = arrow.table({"a": np.arange(100.0) + 100 * i, "b": np.zeros(100)})
        with files.open(f"{folder}/part-{i}.parquet", "wb") as file:
            parquet.write_table(table, file, row_group_size=40)


def whole(found):
    return jax.tree.map(lambda *parts: np.concatenate(parts), *map(found.read, found.blocks))


@pytest.fixture
def memory(monkeypatch):
    files = fsspec.filesystem("memory")
    fill(files, "/rows")
    monkeypatch.setattr(store, "WAITS_S", (0.0, 0.0, 0.0))
    yield files
    files.rm("/rows", recursive=True)


def test_rows_of_an_address(memory):
    found = rows("memory://rows", "a")
    assert found.num_groups == 300
    assert np.array_equal(whole(found), np.arange(300.0))
    assert len(list(found.contents())) == 1
    assert rows("memory://rows/part-1.parquet").num_groups == 100
    with pytest.raises(DataError, match="memory://other: expected a Parquet file"):
        rows("memory://other")
    with pytest.raises(DataError, match="expected a file that may be read, got FileNotFoundError"):
        rows("memory://rows/part-7.parquet")


class Short:
    """A file that gives less than is asked."""

    def __init__(self, file):
        self.file = file

    def __getattr__(self, name):
        return getattr(self.file, name)

    def read(self, size=-1):
        return self.file.read(size)[:-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


@pytest.mark.parametrize("fault", ["503", "time", "short"])
@pytest.mark.parametrize("times", [3, 4])
def test_a_store_is_asked_again_and_then_named(memory, monkeypatch, fault, times):
    found = rows("memory://rows", "a")
    left, right = [times], type(memory).open

    def opened(self, path, *arguments, **how):
        file = right(self, path, *arguments, **how)
        if left[0] == 0:
            return file
        left[0] -= 1
        if fault == "short":
            return Short(file)
        raise (OSError("503 Slow Down") if fault == "503" else TimeoutError("timed out"))

    monkeypatch.setattr(type(memory), "open", opened)
    if times == 3:
        assert np.array_equal(found.read(found.blocks[0]), np.arange(40.0))
        return
    with pytest.raises(DataError, match=naming("part-0.parquet:", "4")):
        found.read(found.blocks[0])


class NoCredentialsError(Exception):
    """As botocore's, which is no OSError."""

    def __init__(self):
        super().__init__("Unable to locate credentials")


REFUSALS = {
    "none": (
        NoCredentialsError(),
        "credentials that the store takes, got none, or such as it refuses: NoCredentials",
    ),
    "wrong": (
        OSError("An error occurred (InvalidAccessKeyId) when calling GetObject"),
        "InvalidAccessKeyId",
    ),
    "expired": (RuntimeError("ExpiredToken: the provided token has expired"), "ExpiredToken"),
    "no right": (PermissionError("Forbidden"), "a file that may be read, got PermissionError"),
}


@pytest.mark.parametrize("kind", ["none", "wrong", "expired", "no right"])
def test_a_store_without_credentials_is_not_asked_again_and_says_so(memory, monkeypatch, kind):
    """It was asked four times, and advised to try later."""
    refusal, message = REFUSALS[kind]
    found = rows("memory://rows", "a")
    times = []

    def opened(self, path, *arguments, **how):
        times.append(path)
        raise refusal

    monkeypatch.setattr(type(memory), "open", opened)
    with pytest.raises(
        DataError, match=f"part-0.parquet: expected .*{message}.*credentials .as fsspec takes them"
    ):
        found.read(found.blocks[0])
    assert len(times) == 1


def test_what_gives_credentials_is_said_by_store(monkeypatch):
    monkeypatch.setattr(
        store, "_find_store", lambda address: (_ for _ in ()).throw(NoCredentialsError())
    )
    for kind, remedy in {
        "s3": "AWS_ACCESS_KEY_ID",
        "gs": "gcloud auth",
        "az": "AZURE_STORAGE_ACCOUNT_KEY",
    }.items():
        with pytest.raises(DataError, match=f"To mend it: give credentials .*{remedy}"):
            rows(f"{kind}://bucket/folder")


class Hung:
    """A file that does not answer."""

    def __init__(self, file, over):
        self.file, self.over = file, over

    def __getattr__(self, name):
        return getattr(self.file, name)

    def read(self, size=-1):
        self.over.wait(30)
        return self.file.read(size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


@pytest.mark.parametrize("times", [3, 4])
def test_a_store_that_hangs_is_left_after_a_time(memory, monkeypatch, times):
    found = rows("memory://rows", "a")
    left, right, over = [times], type(memory).open, threading.Event()

    def opened(self, path, *arguments, **how):
        file = right(self, path, *arguments, **how)
        left[0] -= 1
        return Hung(file, over) if left[0] >= 0 else file

    monkeypatch.setattr(type(memory), "open", opened)
    monkeypatch.setattr(store, "LIMIT_S", 0.1)
    try:
        if times == 3:
            assert np.array_equal(found.read(found.blocks[0]), np.arange(40.0))
            return
        with pytest.raises(
            DataError,
            match=naming("part-0.parquet:", "0.1", "4"),
        ):
            found.read(found.blocks[0])
    finally:
        over.set()


def test_no_thread_is_left_of_requests_that_are_answered(memory):
    found, before = rows("memory://rows", "a"), threading.active_count()
    for block in 20 * found.blocks:
        found.read(block)
    assert threading.active_count() <= before + 1  # the last may be about to end


def test_a_request_may_take_longer_if_it_is_large(monkeypatch):
    request = store.Request()
    with request.track(10**9):
        begun = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: begun + 500)
        assert request.late() is None
        monkeypatch.setattr(time, "monotonic", lambda: begun + 1070)
        assert "no answer within 1060.0 s" in str(request.late())


@pytest.mark.parametrize("damage", ["other", "cut", "torn"])
def test_damage_is_said_at_once(memory, monkeypatch, damage):
    """It is no outage: the file came whole."""
    found = rows("memory://rows", "a")
    with memory.open("/rows/part-0.parquet", "rb") as file:
        right = file.read()
    wrong = {
        "other": b"a,b\n1,2\n" * 99,
        "cut": right[: len(right) // 2],
        "torn": b"\0" * (len(right) // 2),
    }[damage]
    wrong += right[len(wrong) :] if damage == "torn" else b""
    with memory.open("/rows/part-0.parquet", "wb") as file:
        file.write(wrong)
    opened, times = type(memory).open, []
    monkeypatch.setattr(
        type(memory), "open", lambda self, *a, **how: times.append(a) or opened(self, *a, **how)
    )
    with pytest.raises(DataError, match=naming("part-0.parquet:", "Parquet")):
        found.read(found.blocks[0])
    assert len(times) == 1


@pytest.mark.slow
def test_rows_of_an_object_store(object_store):
    object_store.mkdir("shards")
    fill(object_store, "shards/rows")
    assert np.array_equal(whole(rows("s3://shards/rows", "a")), np.arange(300.0))


@pytest.mark.slow
def test_an_object_store_that_takes_calls_and_says_nothing_is_named(monkeypatch):
    """By the real client of S3, whose own limits are longer."""
    pytest.importorskip("s3fs")
    monkeypatch.setattr(store, "LIMIT_S", 1.0)
    monkeypatch.setattr(store, "WAITS_S", (0.0, 0.0, 0.0))
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").clear_instance_cache()
        begun = time.monotonic()
        with pytest.raises(
            DataError,
            match=naming("s3", "1.0", "4"),
        ):
            rows("s3://silent/rows")
        assert time.monotonic() - begun < 30
