import itertools

import numpy as np
import pytest

from vijax.data.buckets import bucket_edges, length_buckets


def padded_size(lengths, edges, num_parts):
    which = np.searchsorted(edges, lengths)
    number = np.bincount(which, minlength=len(edges))
    return sum(-(-n // num_parts) * max(edge, 1) for n, edge in zip(number, edges, strict=True))


@pytest.mark.parametrize("num_parts", [1, 7])
@pytest.mark.parametrize("num_buckets", [1, 2, 3])
def test_edges_are_nearly_the_best_of_all(num_buckets, num_parts):
    lengths = np.random.default_rng(num_buckets).geometric(0.2, 60)
    values = np.unique(lengths)
    choices = itertools.combinations(values[:-1], num_buckets - 1)
    best = min(
        padded_size(lengths, np.array([*choice, values[-1]]), num_parts) for choice in choices
    )
    edges = bucket_edges(lengths, num_buckets, num_parts)
    assert len(edges) <= num_buckets
    assert best <= padded_size(lengths, edges, num_parts) <= best / 0.98


def test_buckets_partition_the_documents():
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 2000, 5000)
    tokens = lengths + rng.integers(0, 9, 5000)
    buckets = length_buckets(lengths, tokens, 6)
    assert len(buckets) == 6
    np.testing.assert_array_equal(
        np.sort(np.concatenate([b.rows for b in buckets])), np.arange(5000)
    )
    for bucket in buckets:
        assert bucket.slots == max(lengths[bucket.rows].max(), 1)
        assert bucket.max_tokens == max(tokens[bucket.rows].max(), 1)


def test_equal_lengths_need_one_bucket():
    assert bucket_edges(np.full(9, 4), 6).tolist() == [4]


def test_empty_documents_get_a_slot():
    (bucket,) = length_buckets(np.zeros(3, int), np.zeros(3, int), 4)
    assert (bucket.slots, bucket.max_tokens) == (1, 1)


def test_a_bucket_must_save_more_than_it_costs_to_compile():
    """Unless somebody says how many there are to be."""
    few, many = (np.random.default_rng(0).geometric(0.02, size) for size in (10, 20_000))
    assert len(length_buckets(few, few)) == 1
    assert len(length_buckets(few, few, 4)) == 4
    assert len(length_buckets(many, many)) > 3
    assert len(length_buckets(many, many, price=1e9)) == 1
    assert 1 < len(length_buckets(many, many, price=1e6)) < len(length_buckets(many, many))
