import itertools
import threading

import jax
import numpy as np
import pytest

from vijax.data.corpora.corpus import Corpus
from vijax.data.minibatch import document_batches, full_batch, in_order, minibatches, prefetch
from vijax.data.synthetic import lda_corpus


@pytest.fixture(scope="module")
def corpus():
    """Lengths from 0 to hundreds; the first word of document d is d, which tells who is who."""
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.geometric(0.03, 500), 300)
    counts = np.zeros((500, 800), int)
    for d, n in enumerate(lengths):
        counts[d, 500 + rng.choice(300, n, replace=False)] = rng.integers(1, 5, n)
    counts[np.arange(500), np.arange(500)] = 1
    return Corpus.from_counts(counts)


def to_dense(batch, vocab_size):
    """Rows of counts of all real documents of a batch."""
    rows = []
    for documents in batch.data:
        dense = np.zeros((len(documents.words), vocab_size))
        np.add.at(dense, (np.arange(len(dense))[:, None], documents.words), documents.counts)
        assert not dense[documents.weights == 0].any()
        rows.append(dense[documents.weights == 1])
    return np.concatenate(rows)


def who(batch):
    return np.concatenate([d.words[d.weights == 1, 0] for d in batch.data])


@pytest.mark.parametrize("batch_size", [1, 7, 64, 333, 500])
def test_each_epoch_visits_each_document_once(corpus, batch_size):
    batches = minibatches(corpus, batch_size, seed=1, num_buckets=4)
    for epoch in range(2):
        steps = range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
        seen = [who(batches.at(step)) for step in (steps if batch_size > 1 else steps[:40])]
        everyone = np.concatenate(seen)
        assert len(set(everyone.tolist())) == len(everyone)
        assert batch_size == 1 or len(everyone) == 500
        sizes = [len(batch) for batch in seen]
        assert max(sizes) - min(sizes) <= 1


def test_batches_hold_the_documents(corpus):
    dense = corpus.to_scipy().toarray()
    for batch in minibatches(corpus, 60, seed=0, num_steps=10, num_buckets=4):
        np.testing.assert_array_equal(to_dense(batch, 800), dense[who(batch)])
        assert batch.num_groups == 500
        for documents in batch.data:
            assert documents.counts.sum(axis=1).max() <= documents.max_tokens
            assert (documents.words.dtype, documents.counts.dtype) == (np.int32, np.float32)


def test_shapes_never_change(corpus):
    shapes = {
        str(jax.tree.map(np.shape, batch)) + str(jax.tree.structure(batch))
        for batch in minibatches(corpus, 48, seed=5, num_steps=25, num_buckets=4)
    }
    assert len(shapes) == 1


def test_stream_resumes_at_any_step(corpus):
    whole = list(minibatches(corpus, 100, seed=2, num_steps=12, num_buckets=4))
    for start in (0, 3, 5, 11):
        part = list(
            minibatches(corpus, 100, seed=2, start=start, num_steps=12 - start, num_buckets=4)
        )
        assert len(part) == 12 - start
        jax.tree.map(np.testing.assert_array_equal, part, whole[start:])


def test_seed_and_epoch_change_the_order(corpus):
    batches = minibatches(corpus, 100, seed=2, num_buckets=4)
    assert set(who(batches.at(0))) != set(who(batches.at(batches.per_epoch)))
    assert set(who(batches.at(0))) != set(
        who(minibatches(corpus, 100, seed=3, num_buckets=4).at(0))
    )


def test_stream_is_endless_unless_told(corpus):
    batches = minibatches(corpus, 250, seed=0, num_buckets=4)
    assert len(list(itertools.islice(batches, 9))) == 9
    with pytest.raises(TypeError, match="num_steps"):
        len(batches)


def test_every_document_is_as_likely_in_every_place(corpus):
    # 600 epochs of T = 5: each document is in the first batch 120 times +- 6 s.d. of 9.8 (false
    # alarm 1e-6).
    batches = minibatches(corpus, 100, seed=0, num_buckets=4)
    first = np.zeros(500)
    for epoch in range(600):
        for hand in batches.deal(epoch):
            np.add.at(first, hand[0][hand[0] >= 0], 1)
    assert np.abs(first - 120).max() < 59


def test_full_batch_puts_results_back(corpus):
    batch, rows = full_batch(corpus, num_buckets=6)
    np.testing.assert_array_equal(who(batch), rows)
    assert all((documents.weights == 1).all() for documents in batch.data)
    tokens = np.concatenate([documents.counts.sum(axis=1) for documents in batch.data])
    np.testing.assert_array_equal(in_order(tokens, rows), corpus.tokens)


@pytest.mark.parametrize("batch_size", [64, 499, 10_000])
def test_document_batches_put_results_back(corpus, batch_size):
    tokens, rows, shapes = [], [], set()
    for batch, which in document_batches(corpus, batch_size):
        tokens += [documents.counts.sum(axis=1) for documents in batch.data]
        rows.append(which)
        shapes.add(str(jax.tree.map(np.shape, batch)))
    np.testing.assert_array_equal(
        in_order(np.concatenate(tokens), np.concatenate(rows)), corpus.tokens
    )
    assert len(shapes) == 1


def test_memory_mapped_corpus_gives_the_same_batches(corpus, tmp_path):
    mapped = Corpus.open(corpus.save(tmp_path))
    for one, other in zip(
        minibatches(corpus, 90, 0, 0, 7), minibatches(mapped, 90, 0, 0, 7), strict=True
    ):
        jax.tree.map(np.testing.assert_array_equal, one, other)
        assert not any(isinstance(leaf, np.memmap) for leaf in jax.tree.leaves(other))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"batch_size": 501},
            "batch_size: expected from 1 to 500, the number of documents, got 501.*batch_size=500",
        ),
        ({"batch_size": 0}, "batch_size: expected from 1 to 500"),
        ({"seed": -1}, "seed: expected an integer of 0 or more, got -1"),
        ({"start": -1}, "start: expected"),
        ({"num_buckets": 0}, "num_buckets: expected an integer of 1 or more"),
    ],
)
def test_bad_arguments(corpus, arguments, message):
    with pytest.raises(ValueError, match=message):
        minibatches(corpus, **{"batch_size": 10, "seed": 0} | arguments)


def test_little_is_padding():
    corpus, _ = lda_corpus(20_000, 20, 2000, document_length=100.0)
    batches = minibatches(corpus, 500, seed=0, num_buckets=4)
    slots = sum(documents.words.size for documents in batches.at(0).data)
    assert corpus.lengths.sum() / (batches.per_epoch * slots) > 0.9


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("vijax-prefetch")]


@pytest.mark.parametrize("size", [1, 2, 50])
def test_same_items_in_order(size):
    assert list(prefetch(range(20), size)) == list(range(20))
    assert not threads()


def test_exception_comes_where_the_item_would_have():
    def items():
        yield 1
        yield 2
        raise OSError("disk")

    stream = prefetch(items())
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(OSError, match="disk"):
        next(stream)
    assert not threads()


def test_closing_ends_the_thread():
    def forever():
        n = 0
        while True:
            yield n
            n += 1

    stream = prefetch(forever(), size=3)
    assert next(stream) == 0
    assert len(threads()) == 1
    stream.close()
    assert not threads()


def test_leaving_by_an_interrupt_ends_the_thread():
    def consume():
        stream = prefetch(iter(int, 1))
        try:
            for _ in stream:
                raise KeyboardInterrupt
        finally:
            stream.close()

    with pytest.raises(KeyboardInterrupt):
        consume()
    assert not threads()


def test_items_are_made_ahead():
    made, fourth = [], threading.Event()

    def items():
        for n in range(5):
            made.append(n)
            if n == 3:
                fourth.set()
            yield n

    stream = prefetch(items(), size=2)
    next(stream)
    assert fourth.wait(timeout=300)  # on a busy machine the thread may have to wait for its turn
    assert len(made) == 4  # one in use, two waiting, one in the thread's hand
    stream.close()


def test_documents_that_are_read_once_come_in_few_shapes(corpus):
    """Whatever set of them is asked for: what is compiled for one serves the others."""
    shapes = set()
    for size in (*range(1, 40), 200, 210, 499, 500):
        for batch, rows in document_batches(corpus[np.arange(size)], 1024):
            (documents,) = batch.data
            assert (documents.counts[rows == -1] == 0).all()
            assert documents.counts.sum(1).max() <= documents.max_tokens
            shapes.add((documents.words.shape, documents.max_tokens))
    assert len(shapes) <= 12
    assert {rows for (rows, _), _ in shapes} <= {8, 16, 32, 64, 256, (1 << 17) // 384}


def test_very_long_documents_come_few_at_a_time():
    long = Corpus.from_counts(np.ones((40, 20_000), int))
    assert {batch.data[0].words.shape for batch, _ in document_batches(long, 1024)} == {(5, 24_576)}
