"""What a model of documents says beside what every model does."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Array, Float, PRNGKeyArray, PyTree


class OfDocuments(NamedTuple):
    """Its data are bags of words, which any text reader of `vijax.data` supplies.

    Attributes:
      vocab_size: V; the ids of words are below it.
      shares: (stats, locals of one length bucket, key) -> expected topic shares of its documents; None where there are
        none.
    """

    vocab_size: int
    shares: Callable[[PyTree, PyTree, PRNGKeyArray], Float[Array, "docs K"]] | None = None
