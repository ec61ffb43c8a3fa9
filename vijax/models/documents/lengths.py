"""Documents of similar lengths, joined by padding: a program compiles the E-step once for each
length, which is costly for some models."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from vijax.contract.batch import Documents

Groups = Sequence[tuple[Documents, PyTree]]
"""Documents of each length, with arrays by document."""


def join_lengths(groups: Groups, worth: int) -> list[tuple[Documents, PyTree]]:
    """The groups, where a group is padded to the length of the next and joined to it if this adds
    fewer than `worth` slots. The documents keep their order.

    >>> docs = lambda n, slots: Documents(jnp.zeros((n, slots), int), jnp.ones((n, slots)), jnp.ones(n), slots)
    >>> groups = [(docs(2, 3), jnp.zeros(2)), (docs(1, 5), jnp.zeros(1)), (docs(4, 9), jnp.zeros(4))]
    >>> [docs.words.shape for docs, _ in join_lengths(groups, worth=10)]
    [(3, 5), (4, 9)]
    """
    joined = list(groups[:1])
    for docs, state in groups[1:]:
        before, state_before = joined[-1]
        slots = max(before.words.shape[1], docs.words.shape[1])
        if sum(d.words.shape[0] * (slots - d.words.shape[1]) for d in (before, docs)) < worth:
            together = [
                (pad_documents(before, slots, docs), state_before),
                (pad_documents(docs, slots, before), state),
            ]
            joined[-1] = jax.tree.map(lambda *x: jnp.concatenate(x), *together)
        else:
            joined.append((docs, state))
    return joined


def pad_documents(docs: Documents, slots: int, other: Documents) -> Documents:
    """The documents with this number of slots, and the larger `max_tokens` of both."""
    wider = lambda x: jnp.pad(x, ((0, 0), (0, slots - x.shape[1])))
    max_tokens = max(docs.max_tokens, other.max_tokens)
    return Documents(
        wider(docs.words),
        wider(docs.counts),
        docs.weights,
        max_tokens,
        covariates=docs.covariates,
        codes=docs.codes,
    )


def split_documents(tree: PyTree, sizes: Sequence[int]) -> list[PyTree]:
    """Leaves by document, split into parts of these sizes.

    >>> split_documents(jnp.arange(3), [1, 2])
    [Array([0], dtype=int32), Array([1, 2], dtype=int32)]
    """
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    cut = lambda first, stop: jax.tree.map(lambda x: x[first:stop], tree)
    return [cut(stop - size, stop) for size, stop in zip(sizes, ends, strict=True)]
