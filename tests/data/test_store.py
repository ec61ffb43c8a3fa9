"""Rows in stores: the same as on disk; what a store does wrong is mended or said."""

import jax
import numpy as np
import pytest

from vijax.data import DataError, rows
from vijax.data.streams import store

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
    with pytest.raises(DataError, match=r"part-0.parquet: expected a store that answers.* 4 times\. To mend it"):
        found.read(found.blocks[0])


@pytest.mark.slow
def test_rows_of_an_object_store(monkeypatch):
    server = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    running = server.ThreadedMotoServer(port=0)
    running.start()
    try:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*running.get_host_and_port()))
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        files = fsspec.filesystem("s3")
        files.mkdir("shards")
        fill(files, "shards/rows")
        assert np.array_equal(whole(rows("s3://shards/rows", "a")), np.arange(300.0))
    finally:
        running.stop()
