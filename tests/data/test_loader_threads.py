"""Batches made by two threads are those of one, bit for bit and in their order."""

import dataclasses
import functools
import threading
import time

import jax
import numpy as np
import pytest

import vijax as vi
from vijax.data import synthetic
from vijax.data.loader import ArrayLoader, CorpusLoader, as_loader
from vijax.data.minibatch import Share
from vijax.data.streams import threads
from vijax.data.streams.threads import batch_makers, read_batches
from vijax.scale.place import PaddedLoader
from vijax.topics.own_words import OwnWordsLoader

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def corpus():
    return synthetic.lda_corpus(300, 5, 200, 30.0)[0]


@pytest.fixture
def threaded(monkeypatch):
    """Also small batches are made by threads, on a CPU too."""
    monkeypatch.setattr(threads, "LEAST_BYTES", 0)
    monkeypatch.setattr(threads, "USUAL_THREADS", {"cpu": 2})


def workers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("vijax-loader")]


def of_arrays(corpus, folder):
    x = np.random.default_rng(0).normal(size=(101, 3)).astype(np.float32)
    return ArrayLoader({"x": x, "y": x[:, 0]}, 10, 3)


def of_rows(corpus, folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    x = np.random.default_rng(0).normal(size=101)
    parquet.write_table(pyarrow.table({"a": x}), folder / "rows.parquet", row_group_size=17)
    mean = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
    return as_loader(vi.data.rows(folder, ["a"]), mean, 10, 3)


def of_shards(corpus, folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    columns = {
        "ids": np.split(np.asarray(corpus.indices), corpus.indptr[1:-1]),
        "counts": np.split(np.asarray(corpus.counts).astype(np.int32), corpus.indptr[1:-1]),
    }
    table = pyarrow.table({name: [list(x) for x in column] for name, column in columns.items()})
    parquet.write_table(table, folder / "documents.parquet", row_group_size=50)
    (folder / "vocabulary.txt").write_text("".join(f"w{i}\n" for i in range(200)))
    return as_loader(vi.data.shards(folder), vi.models.lda(3, 200), 40, 3)


LOADERS = {
    "arrays": of_arrays,
    "fixed parts": lambda *given: dataclasses.replace(of_arrays(*given), is_fixed=True),
    "the part of a process": lambda *given: of_arrays(*given).with_share(Share(1, 2, 4)),
    "rows": of_rows,
    "shards": of_shards,
    "documents": lambda corpus, folder: CorpusLoader(corpus, 40, 3),
    "fixed parts of documents": lambda corpus, folder: CorpusLoader(corpus, 40, 3, is_fixed=True),
    "documents of a process": lambda corpus, folder: CorpusLoader(
        corpus, 40, 3, share=Share(0, 2, 2)
    ),
    "by words": lambda corpus, folder: OwnWordsLoader(CorpusLoader(corpus, 40, 3), 200),
    "padded": lambda corpus, folder: PaddedLoader(CorpusLoader(corpus, 40, 3), 4),
    "padded by words": lambda corpus, folder: PaddedLoader(
        OwnWordsLoader(CorpusLoader(corpus, 40, 3), 200), 4
    ),
}


@pytest.mark.parametrize("name", LOADERS)
def test_batches_of_two_threads_are_those_of_one(name, corpus, tmp_path, threaded):
    """Over the end of a pass, and from its middle."""
    loader = LOADERS[name](corpus, tmp_path)
    assert batch_makers(loader, 0, 1) is not None
    steps = 3, 2 * loader.steps_per_epoch + 1
    one = list(loader.batches(*steps))
    two = list(read_batches(loader, *steps, threads=2))
    assert len(one) == len(two) == steps[1] - steps[0]
    for a, b in zip(one, two, strict=True):
        assert jax.tree.structure(a) == jax.tree.structure(b)
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            assert np.asarray(x).dtype == np.asarray(y).dtype
            np.testing.assert_array_equal(x, y)
    assert not workers()


def test_a_loader_around_another_has_no_makers_by_its_attributes(corpus):
    """They would give batches that it did not change."""

    class Doubled:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def batches(self, start, stop):
            return (batch._replace(num_groups=2.0) for batch in self.inner.batches(start, stop))

    loader = Doubled(CorpusLoader(corpus, 40, 3))
    assert batch_makers(loader, 0, 3) is None
    assert batch_makers(OwnWordsLoader(loader, 200), 0, 3) is None
    assert [batch.num_groups for batch in read_batches(loader, 0, 3, threads=2)] == [2.0] * 3


def test_arrays_that_are_not_numpys_are_read_by_one_thread():
    class Lazy:
        shape = (10,)

        def __array__(self, dtype=None, copy=None):
            return np.arange(10.0)

    assert batch_makers(ArrayLoader(Lazy(), 5, 0), 0, 2) is None


class Several:
    """Makers that say when they are called."""

    def __init__(self, fails=None):
        self.fails, self.running, self.most, self.made = fails, 0, 0, []

    def makers(self, start, stop):
        return (functools.partial(self.make, i) for i in range(start, stop))

    def make(self, i):
        self.running += 1
        self.most = max(self.most, self.running)
        time.sleep(0.01 if i % 2 else 0.03)
        self.running -= 1
        if i == self.fails:
            raise OSError("disk")
        self.made.append(i)
        return np.full(3, i)


def test_two_batches_are_made_at_once_and_come_in_order(threaded):
    loader = Several()
    assert [int(x[0]) for x in read_batches(loader, 0, 12, threads=2)] == list(range(12))
    assert loader.most == 2
    assert not workers()


def test_an_error_comes_in_the_place_of_its_batch_and_ends_the_threads(threaded):
    batches = read_batches(Several(fails=4), 0, 12, threads=2)
    assert [int(next(batches)[0]) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(OSError, match="disk"):
        next(batches)
    assert not workers()


def test_closing_ends_the_threads_and_few_are_made_ahead(threaded):
    loader = Several()
    batches = read_batches(loader, 0, 100, threads=2)
    next(batches), next(batches)
    assert len(workers()) == 2
    batches.close()
    assert not workers()
    assert len(loader.made) <= 6


def test_small_batches_stay_in_one_thread():
    loader = Several()
    assert len(list(read_batches(loader, 0, 5, threads=2))) == 5
    assert loader.most == 1


def test_a_fit_of_two_threads_is_that_of_one(corpus, monkeypatch):
    """Bit for bit; on a CPU one thread is usual."""
    fit = lambda: vi.fit(
        vi.svi(vi.models.lda(3, 200)), corpus, key=KEY, num_epochs=3, batch_size=40
    )
    one = fit().posterior["topics"].concentration
    monkeypatch.setattr(threads, "LEAST_BYTES", 0)
    monkeypatch.setattr(threads, "USUAL_THREADS", {})
    counted = []
    make = CorpusLoader.makers
    monkeypatch.setattr(CorpusLoader, "makers", lambda *a: (counted.append(a), make(*a))[1])
    np.testing.assert_array_equal(fit().posterior["topics"].concentration, one)
    assert len(counted) == 1
    assert not workers()


def test_a_fit_that_is_stopped_ends_the_threads(corpus, threaded):
    alg = vi.svi(vi.models.lda(3, 200))
    stop = lambda progress: progress.step >= 10
    fit = vi.fit(alg, corpus, key=KEY, num_epochs=500, batch_size=40, callbacks=[stop])
    assert int(fit.state.step) < 100
    assert not workers()
