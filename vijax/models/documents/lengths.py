"""Lengths of documents joined: each is a copy of the E-step in the program, which costs more to
compile for some models than for others."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from vijax.contract.batch import Documents

Groups = Sequence[tuple[Documents, PyTree]]
"""Documents of each length, and what goes with them, by document."""


def joined(groups: Groups, worth: int) -> list[tuple[Documents, PyTree]]:
    """The groups, in which a group is padded to the length of the next and joined to it where that
    adds fewer than `worth` slots. Their documents keep their order.

    >>> docs = lambda n, slots: Documents(jnp.zeros((n, slots), int), jnp.ones((n, slots)), jnp.ones(n), slots)
    >>> groups = [(docs(2, 3), jnp.zeros(2)), (docs(1, 5), jnp.zeros(1)), (docs(4, 9), jnp.zeros(4))]
    >>> [docs.words.shape for docs, _ in joined(groups, worth=10)]
    [(3, 5), (4, 9)]
    """
    done = list(groups[:1])
    for docs, rest in groups[1:]:
        before, rest_before = done[-1]
        slots = max(before.words.shape[1], docs.words.shape[1])
        if sum(d.words.shape[0] * (slots - d.words.shape[1]) for d in (before, docs)) < worth:
            together = [
                (padded(before, slots, docs), rest_before),
                (padded(docs, slots, before), rest),
            ]
            done[-1] = jax.tree.map(lambda *x: jnp.concatenate(x), *together)
        else:
            done.append((docs, rest))
    return done


def padded(docs: Documents, slots: int, other: Documents) -> Documents:
    """The documents in rows of so many slots, with room for the tokens of the others."""
    wider = lambda x: jnp.pad(x, ((0, 0), (0, slots - x.shape[1])))
    most = max(docs.max_tokens, other.max_tokens)
    return Documents(
        wider(docs.words),
        wider(docs.counts),
        docs.weights,
        most,
        covariates=docs.covariates,
        codes=docs.codes,
    )


def parted(tree: PyTree, sizes: Sequence[int]) -> list[PyTree]:
    """Leaves by document, cut into parts of so many documents.

    >>> parted(jnp.arange(3), [1, 2])
    [Array([0], dtype=int32), Array([1, 2], dtype=int32)]
    """
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    cut = lambda first, stop: jax.tree.map(lambda x: x[first:stop], tree)
    return [cut(stop - size, stop) for size, stop in zip(sizes, ends, strict=True)]
