"""Documents in shards that are not held: which a fit visits, what is held, and what is said of bad
ones."""

import subprocess
import sys

import jax
import numpy as np
import pytest
import scipy.sparse

import vijax as vi
from tests.naming import naming
from tests.programs import compiled, names_since
from vijax.data import DataError
from vijax.data.corpora import shards as form
from vijax.data.loader import as_loader
from vijax.data.minibatch import Share
from vijax.data.streams import document_loader

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

N, V, BATCHES = 500, 800, 7
SMALL = 20_000
"""Bytes that hold a few steps."""
MODEL = vi.models.lda(3, V)


def write(folder, counts, files=3, size=60):
    """Shards of a matrix of counts, the words of each document in falling order."""
    ids = [np.flatnonzero(row)[::-1] for row in counts]
    of = [row[found] for row, found in zip(counts, ids, strict=True)]
    for i, rows in enumerate(np.array_split(np.arange(len(counts)), files)):
        columns = {"ids": [ids[d].tolist() for d in rows], "counts": [of[d].tolist() for d in rows]}
        columns["title"] = [str(d) for d in rows]
        parquet.write_table(arrow.table(columns), folder / f"part-{i}.parquet", row_group_size=size)


@pytest.fixture(scope="module")
def counts():
    """Lengths from 1 to hundreds; the first word of document d is d, which tells who is who."""
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.geometric(0.03, N), 300)
    counts = np.zeros((N, V), int)
    for d, n in enumerate(lengths):
        counts[d, N + rng.choice(V - N, n, replace=False)] = rng.integers(1, 5, n)
    counts[np.arange(N), np.arange(N)] = 1
    return counts


@pytest.fixture(scope="module")
def folder(counts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    write(folder, counts)
    (folder / "vocabulary.txt").write_text("".join(f"w{i}\n" for i in range(V)))
    return folder


def loader_of(folder, held=SMALL, seed=5, size=64, **more):
    return as_loader(vi.data.shards(folder, held_bytes=held), MODEL, size, seed, **more)


def who(batch):
    """The numbers of the real documents of a batch."""
    return np.concatenate(
        [rows[d.weights > 0] for rows, d in zip(batch.rows, batch.data, strict=True)]
    )


def dense(batch):
    """Rows of counts of its real documents."""
    found = []
    for d in batch.data:
        rows = np.zeros((len(d.words), V))
        np.add.at(rows, (np.arange(len(rows))[:, None], d.words), d.counts)
        found.append(rows[d.weights > 0])
    return np.concatenate(found)


@pytest.mark.parametrize("held", [SMALL, 1 << 28])
def test_a_pass_visits_each_document_once_in_batches_of_one_shape(
    folder, counts, held, monkeypatch
):
    monkeypatch.setattr(form, "ROWS", 25)
    loader = loader_of(folder, held)
    assert (loader.num_groups, loader.num_words) == (N, counts.sum())
    assert (loader.shards.sizes.whole is None) == (held == SMALL)
    steps = loader.steps_per_epoch
    passes, shapes, means = [], set(), []
    for epoch in range(2):
        batches = list(loader.batches(epoch * steps, (epoch + 1) * steps))
        passes.append(np.concatenate([who(batch) for batch in batches]))
        assert np.array_equal(np.sort(passes[-1]), np.arange(N))
        for batch in batches:
            np.testing.assert_array_equal(dense(batch), counts[who(batch)])
            assert batch.num_groups == N
            assert all((d.counts.sum(1) <= d.max_tokens).all() for d in batch.data)
            shapes.add(str((jax.tree.structure(batch), jax.tree.map(np.shape, batch))))
        sizes = [len(who(batch)) for batch in batches]
        assert max(sizes) - min(sizes) <= 1
        means += [(counts[who(batch)] > 0).sum(1).mean() for batch in batches]
    assert not np.array_equal(*passes)
    assert len(shapes) == 1
    assert np.std(means) < 3  # dealt by length; of 64 drawn alike it is 4 on average


def test_it_is_the_order_of_no_other_stratum(folder):
    """Documents of a stratum are alike likely at each place: the first place of many passes is no
    few of them."""
    loader = loader_of(folder, 1 << 28)
    steps = loader.steps_per_epoch
    first = [
        int(who(next(iter(loader.batches(epoch * steps, epoch * steps + 1))))[0])
        for epoch in range(60)
    ]
    assert len(set(first)) > 25


def test_what_is_held_and_where_a_run_begins_change_no_batch(folder):
    few, all_ = (loader_of(folder, held) for held in (SMALL, 1 << 28))
    expected = list(all_.batches(0, 20))
    for one, other in zip(few.batches(5, 20), expected[5:], strict=True):
        jax.tree.map(np.testing.assert_array_equal, one, other)
    for one, other in zip(few.spread(4), [expected[i] for i in (0, 2, 4, 6)], strict=True):
        jax.tree.map(np.testing.assert_array_equal, one, other)


def test_row_groups_are_read_once_for_all_steps_whose_documents_are_held(folder, monkeypatch):
    reads = []
    read = vi.data.streams.documents.Shards._read_block
    monkeypatch.setattr(
        vi.data.streams.documents.Shards,
        "_read_block",
        lambda self, block, rows: reads.append(block) or read(self, block, rows),
    )
    loader = loader_of(folder, 1 << 28)
    list(loader.batches(0, 2 * BATCHES))
    assert len(reads) == len(loader.shards.blocks) == 9
    reads.clear()
    loader = loader_of(folder, 60_000)
    ahead = loader._ahead
    assert 1 < ahead < loader.steps_per_epoch
    list(loader.batches(0, loader.steps_per_epoch))
    assert len(reads) <= 9 * (1 + -(-loader.steps_per_epoch // ahead))


def test_parts_are_the_same_in_every_pass(folder):
    first, second = (
        {
            int(b.part): np.sort(who(b))
            for b in loader_of(folder, seed=seed, size=None, num_parts=4).batches(i, i + 4)
        }
        for seed, i in ((5, 0), (6, 4))
    )
    assert sorted(first) == [0, 1, 2, 3]
    jax.tree.map(np.testing.assert_array_equal, first, second)
    assert np.array_equal(np.sort(np.concatenate(list(first.values()))), np.arange(N))


@pytest.mark.parametrize(("size", "devices"), [(64, 4), (3, 8)])
def test_processes_read_a_batch_between_them(folder, size, devices):
    loader = loader_of(folder, size=size)
    parts = [loader.with_share(Share(k, 2, devices)).batches(0, 3) for k in range(2)]
    for whole, *own in zip(loader.batches(0, 3), *parts, strict=True):
        assert np.array_equal(
            np.sort(np.concatenate([who(part) for part in own])), np.sort(who(whole))
        )
        shapes = {str(jax.tree.map(np.shape, part)) for part in own}
        assert len(shapes) == 1


def test_a_fit_goes_on_bit_for_bit_and_compiles_nothing_again(folder, counts):
    """And the topics' totals are those of all words: no document is lost or counted twice."""
    alg = vi.svi(MODEL, step_size=vi.step_size.robbins_monro(kappa=1.0))
    run = lambda steps, **more: vi.fit(
        alg,
        vi.data.shards(folder, held_bytes=SMALL),
        key=jax.random.key(0),
        num_steps=steps,
        batch_size=64,
        **more,
    )
    whole = run(16)
    before = compiled()
    again = run(16)
    assert names_since(before) == []
    in_two = run(16, state=run(6).state)
    jax.tree.map(np.testing.assert_array_equal, whole.state, again.state)
    jax.tree.map(np.testing.assert_array_equal, whole.state, in_two.state)
    topics = np.asarray(whole.posterior["topics"].concentration)
    assert topics.sum() == pytest.approx(counts.sum() + 3 * V * float(MODEL.hyper["eta"]), rel=0.1)


@pytest.mark.parametrize("held", [SMALL, 1 << 28])
def test_two_parts_of_the_documents_over_words_of_one(folder, counts, held):
    train, test = vi.data.shards(folder, held_bytes=held).split(60, 3)
    assert (train.num_documents, test.num_documents) == (N - 60, 60)
    parts = [part.take(np.arange(part.num_documents)) for part in (train, test)]
    numbers = [np.array([int(title) for title in part.titles]) for part in parts]
    assert np.array_equal(np.sort(np.concatenate(numbers)), np.arange(N))
    assert np.histogram(numbers[1], 5, (0, N))[0].min() > 3  # spread over the files
    for part, own, where in zip((train, test), parts, numbers, strict=True):
        assert (own.to_scipy().toarray() == counts[where]).all()
        assert np.array_equal(part.sizes.tokens, counts[where].sum(1))
        assert np.array_equal(part.sizes.words, counts[where].sum(0))
    seen = np.flatnonzero(train.sizes.words)
    over = test.select_words(seen)
    assert over.vocabulary == tuple(f"w{i}" for i in seen)
    assert (
        over.take(np.array([4, 9])).to_scipy().toarray() == counts[numbers[1][[4, 9]]][:, seen]
    ).all()
    twice = over.select_words(np.array([0, len(seen) - 1])).read(np.arange(60))
    dense = scipy.sparse.csr_matrix((twice.counts, twice.indices, twice.indptr), (60, 2)).toarray()
    assert (dense == counts[numbers[1]][:, seen[[0, -1]]]).all()
    batch = next(
        iter(as_loader(train.select_words(seen), vi.models.lda(3, len(seen)), 40, 0).batches(1, 2))
    )
    assert all((d.words < len(seen)).all() for d in batch.data)
    assert batch.num_groups == N - 60
    with pytest.raises(DataError, match=naming("held_out:", "500 documents")):
        vi.data.shards(folder).split(N, 0)


def test_shards_of_an_address(folder, counts):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.put(str(folder), "/documents", recursive=True)
    try:
        found = vi.data.shards("memory://documents")
        assert found.vocabulary == vi.data.shards(folder).vocabulary
        assert np.array_equal(found.sizes.tokens, counts.sum(1))
        assert (
            vi.data.corpora.shards.read_shards("memory://documents", None).to_scipy().toarray()
            == counts
        ).all()
        assert len(list(found.contents())) == 1
    finally:
        files.rm("/documents", recursive=True)


@pytest.mark.slow
def test_documents_of_an_object_store(folder, object_store):
    """The same batches as of the folder."""
    object_store.mkdir("documents")
    object_store.put(f"{folder}/*", "documents/all/")
    here, there = loader_of(folder), loader_of("s3://documents/all")
    for one, other in zip(here.batches(3, 12), there.batches(3, 12), strict=True):
        jax.tree.map(np.testing.assert_array_equal, one, other)


def test_bad_documents_are_named(folder, tmp_path):
    write(tmp_path, np.eye(4, dtype=int), files=1)
    assert vi.data.shards(tmp_path).vocab_size == 4
    with pytest.raises(DataError, match=r"rows 0 to 3 of all: expected word ids from 0 to 1"):
        _ = vi.data.shards(tmp_path, ["a", "b"]).sizes
    parquet.write_table(arrow.table({"a": [1]}), tmp_path / "part-9.parquet")
    with pytest.raises(DataError, match=naming("part-9.parquet:", "'counts'", "'ids'")):
        vi.data.shards(tmp_path)
    (tmp_path / "part-9.parquet").write_bytes((folder / "part-0.parquet").read_bytes()[:99])
    with pytest.raises(DataError, match=naming("part-9.parquet:", "Parquet")):
        vi.data.shards(tmp_path)
    with pytest.raises(DataError, match="a folder of them"):
        vi.data.shards(tmp_path / "nothing")
    (tmp_path / "part-9.parquet").unlink()
    (tmp_path / form.DONE).write_text('{"shards": 2}')
    with pytest.raises(DataError, match="expected 2 shards, got 1"):
        vi.data.shards(tmp_path)


def test_what_no_fit_can_do_is_refused(folder):
    with pytest.raises(ValueError, match="held_bytes=20,000"):
        loader_of(folder, size=None)
    with pytest.raises(ValueError, match="vocab_size=2"):
        as_loader(vi.data.shards(folder), vi.models.lda(3, 2), 10, 0)
    with pytest.raises(ValueError, match=naming("data:", "documents in")):
        as_loader(
            vi.data.shards(folder),
            vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1)),
            10,
            0,
        )


FLAT = """
import sys
import jax
import vijax as vi
documents = vi.data.shards(sys.argv[1], held_bytes=2**22)
alg = vi.svi(vi.models.lda(5, documents.vocab_size))
fit = vi.fit(alg, documents, key=jax.random.key(0), num_steps=60, batch_size=500)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_documents(tmp_path):
    """80,000 documents of 60 words (38 MB), an eighth of them, and the same steps; 4 MB of
    documents are held."""
    most = []
    for shards in (1, 8):
        folder = tmp_path / str(shards)
        folder.mkdir()
        for i in range(shards):
            ids = np.random.default_rng(i).integers(0, 20, (10_000, 60)) + 20 * np.arange(60)
            lists = {"ids": ids.astype(np.int32).tolist(), "counts": np.ones_like(ids).tolist()}
            parquet.write_table(
                arrow.table(lists), folder / f"part-{i}.parquet", row_group_size=2000
            )
        result = subprocess.run(
            [sys.executable, "-c", FLAT, str(folder)], check=True, capture_output=True, text=True
        )
        most.append(int(result.stdout) / 1024)
    assert most[1] - most[0] < 20, most


def test_strata_have_few_shapes():
    lengths = np.random.default_rng(0).geometric(0.01, 5000)
    found = document_loader.strata(lengths, 2 * lengths, 10)
    assert len(found.slots) <= 6
    assert found.slots[-1] == lengths.max()
    assert found.max_tokens[-1] == 2 * lengths.max()
    assert sum(found.counts) == 5000
    assert np.array_equal(np.sort(found.rows), np.arange(5000))


def test_read_makes_a_mapped_corpus_of_an_address(folder, counts, tmp_path, monkeypatch):
    """Once: it is found in the cache again, and made anew where the shards have changed."""
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setenv("VIJAX_CACHE", str(tmp_path))
    files = fsspec.filesystem("memory")
    files.put(str(folder), "/kept", recursive=True)
    try:
        corpus = vi.data.read("memory://kept")
        assert corpus.mapped
        assert (corpus.to_scipy().toarray() == counts).all()
        assert corpus.vocabulary[3] == "w3"
        vi.data.read("memory://kept")
        assert len(list((tmp_path / "corpora").iterdir())) == 1
        files.rm("/kept/part-2.parquet")
        assert vi.data.read("memory://kept").num_documents < N
        with pytest.raises(DataError, match="expected shards, got the format 'csv'"):
            vi.data.read("memory://kept", format="csv")
        with files.open("/kept/texts.parquet", "wb") as file:
            parquet.write_table(arrow.table({"text": ["a b"]}), file)
        with pytest.raises(DataError, match=naming("'counts'", "'ids'")):
            vi.data.read("memory://kept/texts.parquet")
        with pytest.raises(DataError, match="nowhere://a: expected an address that fsspec knows"):
            vi.data.read("nowhere://a")
    finally:
        files.rm("/kept", recursive=True)
