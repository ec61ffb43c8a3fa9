"""Documents and the table of their words in one compiled call: E-step, bound and its gradient.

No array of the size (documents, slots, topics) is written in between: a document's rows are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.xla import native

Begin = Callable[[Array, Array, Array | None], Array]


def over_words(
    name: str,
    begin: Begin,
    settings: dict[str, int | float],
    table: Float[Array, "words topics"],
    alpha: Float[Array, " topics"],
    groups: Sequence[Any],
) -> tuple[tuple[Array, tuple[tuple[Array, Array], ...]], tuple[Array, Array]]:
    """The E-step, bound and gradient in one call; see `vijax.xla.gather.AtOnce`.

    Args:
      name: name of the kernel.
      begin: (counts, alpha, the last gamma or None) -> gamma at which a document begins.
      settings: settings of the kernel.
      table: likelihoods by word.
      alpha: concentration of the prior; its gradient is zero.
      groups: chunks of `Documents` with attributes `documents` and `start_above`.

    Returns:
      The total of the expected log likelihood, weighted by document; the value of each document, and gamma; the
      gradient of the total in the table.
    """
    total, found, gradient = jnp.zeros((), table.dtype), [], jnp.zeros_like(table)
    for group in groups:
        docs = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), group)
        counts, weights = (x.astype(table.dtype) for x in (docs.documents.counts, docs.documents.weights))
        start = begin(counts, alpha, docs.start_above(alpha)).astype(table.dtype)
        results = [jax.ShapeDtypeStruct(shape, table.dtype) for shape in (start.shape, weights.shape, table.shape)]
        given = table, docs.documents.words, counts, weights, alpha, start, gradient
        gamma, bound, gradient = native.call(f"{name}_{table.dtype}", results, *given, aliases={6: 2}, **settings)
        total += jnp.vdot(weights, bound)
        chunks = group.words.shape[:2]
        found.append((bound.reshape(chunks), gamma.reshape(*chunks, -1)))
    return (total, tuple(found)), (gradient, jnp.zeros_like(alpha))
