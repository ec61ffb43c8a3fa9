"""Lengths of documents joined into one copy of an E-step: the same answers, group by group, as
apart."""

import dataclasses
import importlib

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from vijax.inference.estep.logistic_normal import ProximalGradient
from vijax.models.documents.lengths import join_lengths

MODULE = importlib.import_module("vijax.models.documents.ctm")
RNG = np.random.default_rng(0)


def documents(size, slots):
    counts = RNG.integers(1, 4, size=(size, slots)).astype(np.float32)
    words = np.array([RNG.permutation(9)[:slots] for _ in range(size)])
    return vi.Documents(words, counts, np.ones(size, np.float32), int(counts.sum(1).max()))


class OneByOne(ProximalGradient):
    """Documents one by one, so that each has the same draws in groups of any shape."""

    def docs_per_chunk(self, num_slots, num_topics):
        return 1


def test_two_lengths_joined_say_what_they_say_apart(monkeypatch):
    batch = vi.Minibatch((documents(2, 3), documents(3, 6)), np.float32(5))
    plain = vi.estep.proximal_gradient(vi.expectation.laplace())
    estep = OneByOne(**{f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)})
    model = vi.models.ctm(2, 9, num_samples=4, estep=estep)
    stats = jax.jit(lambda: model.prior(model.hyper).expected_stats())()

    def found(worth):
        monkeypatch.setattr(MODULE, "_WORTH", worth)
        said = jax.jit(lambda key: model.local_elbo(model.hyper, stats, batch, key, estep))(
            jax.random.key(1)
        )
        return said.total, said.per_group, said.local

    apart, together = found(0), found(100)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5), apart, together
    )
    assert [len(bound) for bound in together[1]] == [2, 3]
    assert np.ptp(together[1][1]) > 0.1


def test_lengths_are_joined_by_the_padding_that_it_adds():
    groups = [(documents(4, slots), jnp.arange(4)) for slots in (2, 4, 9)]
    shapes = lambda worth: [docs.words.shape for docs, _ in join_lengths(groups, worth)]
    assert shapes(8) == [(4, 2), (4, 4), (4, 9)]
    assert shapes(9) == [(8, 4), (4, 9)]
    assert shapes(100) == [(12, 9)]
    ((docs, rest),) = join_lengths(groups, 100)
    assert docs.max_tokens == max(d.max_tokens for d, _ in groups)
    np.testing.assert_array_equal(docs.counts[4, :4], groups[1][0].counts[0])
    assert not docs.counts[:4, 2:].any()
    assert rest.tolist() == [0, 1, 2, 3] * 3
