"""Shards of texts: the same corpus as `read` gives, whoever does the work and however often it is
stopped."""

import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.naming import naming
from vijax.data import DataError, TextSettings, prepare, read
from vijax.data.to_shards import COUNTED, DONE, count_shard

RNG = np.random.default_rng(0)
WORDS = [f"{a}{b}ion" for a in ("act", "mot", "stat", "nat", "rat") for b in "abcdefghij"]
TEXTS = [(f"t{i}", " ".join(RNG.choice(WORDS, RNG.integers(0, 40)))) for i in range(60)]
SETTINGS = TextSettings(min_df=2, max_df=0.9, max_vocabulary=30, ngrams=2, stop_words=("actaion",))


def same(folder, texts=TEXTS, settings=SETTINGS):
    expected = read([text for _, text in texts], text=settings)
    got = read(folder)
    assert got.vocabulary == expected.vocabulary
    assert (got.to_scipy() != expected.to_scipy()).nnz == 0
    assert list(got.titles) == [title for title, _ in texts]
    assert got.texts[3] == expected.texts[3]


def test_shards_hold_the_corpus_that_read_gives(tmp_path):
    lines = []
    prepare(
        iter(TEXTS), tmp_path / "out", text=SETTINGS, shard_characters=1000, progress=lines.append
    )
    same(tmp_path / "out")
    number = json.loads((tmp_path / "out" / DONE).read_text())["shards"]
    assert number == len(list((tmp_path / "out").glob("part-*.parquet"))) > 5
    assert lines == [
        f"shards {done}: {i + 1}" for done in ("counted", "indexed") for i in range(number)
    ]
    assert not list((tmp_path / "out").glob("counted-*"))


def test_threads_and_a_given_vocabulary(tmp_path):
    words = ["motaion", "statcion", "none"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        prepare(
            iter(TEXTS),
            tmp_path / "out",
            vocabulary=words,
            executor=pool,
            shard_characters=500,
            in_flight=3,
        )
    got, expected = read(tmp_path / "out"), read([text for _, text in TEXTS], vocabulary=words)
    assert got.vocabulary == tuple(words)
    assert (got.to_scipy() != expected.to_scipy()).nnz == 0


class Stop(Exception):
    pass


@pytest.mark.parametrize("after", [1, 4, 9, 11, 14])
def test_what_was_stopped_goes_on(tmp_path, after):
    calls = []

    def until(line):
        calls.append(line)
        if len(calls) == after:
            raise Stop

    arguments = {"text": SETTINGS, "shard_characters": 1000}
    with pytest.raises(Stop):
        prepare(iter(TEXTS), tmp_path / "out", progress=until, **arguments)
    with pytest.raises(DataError, match="of these texts and settings"):
        prepare(iter(TEXTS), tmp_path / "out", shard_characters=4000)
    with pytest.raises(
        DataError, match="expected shards that are all there, got some, whose making was stopped"
    ):
        read(tmp_path / "out")
    more = []
    prepare(iter(TEXTS), tmp_path / "out", progress=more.append, **arguments)
    same(tmp_path / "out")
    number = json.loads((tmp_path / "out" / DONE).read_text())["shards"]
    assert len(more) == 2 * number - after  # nothing is done twice
    assert (
        prepare(iter(TEXTS), tmp_path / "out", progress=pytest.fail, **arguments)
        == tmp_path / "out"
    )


def test_shards_that_are_lost_or_too_many_are_refused(tmp_path):
    out, arguments = tmp_path / "out", {"text": SETTINGS, "shard_characters": 1000}
    with pytest.raises(Stop):
        prepare(iter(TEXTS), out, progress=until_stopped("shards indexed: 7"), **arguments)
    with pytest.raises(
        DataError, match=r"expected 3 shards, got 7 of an earlier call"
    ):  # the generator gives others now
        prepare(iter(TEXTS[:20]), out, **arguments)
    prepare(iter(TEXTS), tmp_path / "whole", **arguments)
    (tmp_path / "whole" / "part-000001.parquet").unlink()
    with pytest.raises(DataError, match=r"expected \d+ shards, got \d+"):
        read(tmp_path / "whole")


def until_stopped(at):
    def progress(line):
        if line == at:
            raise Stop

    return progress


def test_an_other_folder_or_no_texts_are_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="an empty folder"):
        prepare(iter(TEXTS), tmp_path / "mine")
    with pytest.raises(DataError, match="one document or more"):
        prepare(iter(()), tmp_path / "none")
    np.savez(tmp_path / "counts.npz", indptr=[0, 1], indices=[0], counts=[1])
    with pytest.raises(DataError, match="expected texts, got the format 'npz'"):
        prepare(tmp_path / "counts.npz", tmp_path / "counts")


def killed(target, texts, settings):
    """Counts as usual; the worker of one shard is killed when another has done the first."""
    if "t20" not in dict(texts):
        return count_shard(target, texts, settings)
    while not (target.parent / COUNTED.format(0)).exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_processes_and_one_that_is_killed(tmp_path, monkeypatch):
    arguments = {"text": SETTINGS, "shard_characters": 1000}
    spawn = multiprocessing.get_context("spawn")
    with monkeypatch.context() as patched, concurrent.futures.ProcessPoolExecutor(2, spawn) as pool:
        patched.setattr("vijax.data.to_shards.count_shard", killed)
        with pytest.raises(DataError, match="one that was killed, perhaps for memory"):
            prepare(iter(TEXTS), tmp_path / "out", executor=pool, **arguments)
    assert (tmp_path / "out" / COUNTED.format(0)).exists()
    with concurrent.futures.ProcessPoolExecutor(2, spawn) as pool:
        prepare(iter(TEXTS), tmp_path / "out", executor=pool, **arguments)
    same(tmp_path / "out")


class Fails(concurrent.futures.Executor):
    """All calls end in an error of this class."""

    def __init__(self, kind):
        self.kind = kind

    def submit(self, call, /, *arguments, **more):
        future = concurrent.futures.Future()
        future.set_exception(self.kind("count-7", 3))
        return future


def test_workers_that_dask_gave_up_are_said_and_other_errors_stay(tmp_path):
    """Dask's error is known by its name: it is not installed here."""
    dask, mine = (
        type("KilledWorker", (Exception,), {"__module__": of})
        for of in ("distributed.scheduler", "mine")
    )
    with pytest.raises(
        DataError,
        match=naming("executor:", "workers"),
    ):
        prepare(iter(TEXTS), tmp_path / "out", executor=Fails(dask))
    with pytest.raises(mine, match="count-7"):
        prepare(iter(TEXTS), tmp_path / "out", executor=Fails(mine))


def killed_twice(target, texts, settings):
    """Counts as usual; the worker of one shard is killed the first two times."""
    kills = target.parent.with_name("kills")
    if "t20" in dict(texts) and (number := len(list(kills.iterdir()))) < 2:
        (kills / str(number)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    count_shard(target, texts, settings)


@pytest.mark.slow
def test_a_cluster_of_dask_whose_workers_are_killed(tmp_path, monkeypatch):
    """Dask gives a shard up where it may try no other worker, and that is said. The same again,
    with the same client, goes on; the next worker that is killed does not stop it, for now Dask may
    try another."""
    of_it = "Dask is beside the environment of the tests: .ci/run installs it there"
    dask = pytest.importorskip("dask", reason=of_it)
    distributed = pytest.importorskip("distributed", reason=of_it)
    monkeypatch.setattr("vijax.data.to_shards.count_shard", killed_twice)
    kills, arguments = tmp_path / "kills", {"text": SETTINGS, "shard_characters": 1000}
    kills.mkdir()
    # On a busy machine a worker is not there again within the 15 s for which Dask waits for it.
    settings = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.deploy.lost-worker-timeout": "10 minutes",
    }
    workers = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": None,
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(**workers) as cluster,
        distributed.Client(cluster) as client,
    ):
        with pytest.raises(
            DataError,
            match="expected workers that live, got one that was killed, perhaps for memory",
        ):
            prepare(iter(TEXTS), tmp_path / "out", executor=client.get_executor(), **arguments)
        assert len(list(kills.iterdir())) == 1
        cluster.scheduler.allowed_failures = 3
        prepare(iter(TEXTS), tmp_path / "out", executor=client.get_executor(), **arguments)
    assert len(list(kills.iterdir())) == 2
    same(tmp_path / "out")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_full_disk_is_said_and_what_was_written_is_kept(tmp_path, workers):
    """A disk of 96 kB, which is then made larger."""
    out, disk = tmp_path / "disk" / "out", tmp_path / "disk"
    disk.mkdir()
    mount = lambda size: ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(disk)]
    if (
        sys.platform != "linux"
        or subprocess.run(mount("size=96k"), check=False, capture_output=True).returncode
    ):
        pytest.skip("no disk can be made here")
    rng = np.random.default_rng(1)
    texts = [(name, f"{text} {' '.join(rng.choice(WORDS, 400))}") for name, text in TEXTS]
    arguments = {"text": SETTINGS, "shard_characters": 10_000}
    try:
        with contextlib.ExitStack() as stack:
            pool = (
                stack.enter_context(concurrent.futures.ThreadPoolExecutor(workers))
                if workers
                else None
            )
            with pytest.raises(DataError, match=naming("out:", "none left", "run the same again")):
                prepare(iter(texts), out, executor=pool, **arguments)
        kept = {path.name for path in out.iterdir()}
        # Which of two workers' shards finds no room is chance; one worker writes them in order.
        assert COUNTED.format(0) in kept or (
            workers and [name for name in kept if name.startswith("counted-")]
        )
        assert not [name for name in kept if name.endswith(".tmp")]
        subprocess.run(mount("remount,size=9m"), check=True)
        lines = []
        prepare(iter(texts), out, progress=lines.append, **arguments)
        number = json.loads((out / DONE).read_text())["shards"]
        assert len(lines) == 2 * number - len(
            [name for name in kept if not name.startswith("prep")]
        )
        same(out, texts)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_vocabulary_by_hash_is_never_closed(tmp_path):
    """Counts by hand: hashes of letters from another process, which has another seed of Python's
    own hash."""
    texts = [("a", "cat dog dog"), ("b", "new cat"), ("c", "")]
    script = (
        "from vijax.data.to_shards import hash_words; print(*hash_words(['cat', 'dog', 'new'], 5))"
    )
    env = {**os.environ, "PYTHONHASHSEED": "1"}
    said = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, env=env
    ).stdout
    places = dict(zip(["cat", "dog", "new"], map(int, said.split()), strict=True))
    first, second = tmp_path / "first", tmp_path / "second"
    settings = TextSettings(stop_words=None)
    prepare(iter(texts[:1]), first, vocabulary="hash: 5", text=settings)
    prepare(iter(texts), second, vocabulary="hash:5**1", text=settings, shard_characters=1)
    expected = np.zeros((3, 5))
    for row, (_, text) in enumerate(texts):
        for word in text.split():
            expected[row, places[word]] += 1
    assert np.array_equal(read(second).to_scipy().toarray(), expected)
    assert np.array_equal(read(first).to_scipy().toarray(), expected[:1])
    names = read(second).vocabulary
    assert names[places["dog"]] == "dog"
    assert [name for i, name in enumerate(names) if i not in places.values()] == [
        f"#{i}" for i in range(5) if i not in places.values()
    ]
    one = prepare(iter(texts), tmp_path / "one", vocabulary="hash:1", text=settings)
    assert read(one).to_scipy().toarray().tolist() == [[3], [2], [0]]
    for wrong in ("hash:", "hash:0", "hash:2**40", "hash:9**999999999", "hash:2^18"):
        with pytest.raises(DataError, match=naming("vocabulary:", "10,000,000")):
            prepare(iter(texts), tmp_path / "other", vocabulary=wrong)
