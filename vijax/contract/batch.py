"""What a step is given: a minibatch of groups, and the bag-of-words layout of a group of documents."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from vijax.tree import register


class Minibatch(NamedTuple):
    """Some of the N groups of a data set.

    Attributes:
      data: what the model reads, a pytree of arrays of fixed shapes (padding is masked by weights the model knows).
      num_groups: scalar, N, the number of groups in the whole data set; None where this is all of it.
      weights: 1 for a group, 0 for padding, for data whose leaves have one leading axis of groups; None where all
        count, or where the data carry their own.
      local: where an iterative E-step starts, from the state: locals that full-data algorithms carry, or those of these
        groups as last seen (`vijax.warm`); else None.
      part: which part of the data set this is, where that is cut into parts once for all (`vijax.memoized`).
      rows: which of the N groups these are, N where a row is padding; of documents a tuple, an array for each of the
        `Documents`. None where that is not known.
    """

    data: PyTree
    num_groups: Float[Array, ""] | np.floating | float | None
    weights: Float[Array, " groups"] | None = None
    local: PyTree = None
    part: Int[Array, ""] | np.integer | int | None = None
    rows: PyTree = None


@register
@dataclasses.dataclass(frozen=True)
class Documents:
    """Documents of similar length as padded rows of unique words.

    Attributes:
      words: word ids; padding slots hold 0.
      counts: how often each word occurs; 0 in padding slots.
      weights: 1 for a document, 0 for a padding row.
      max_tokens: static bound on the tokens of any row (a shape: it sizes the E-steps that walk over tokens).
    """

    words: Int[Array, "docs slots"]
    counts: Float[Array, "docs slots"]
    weights: Float[Array, " docs"]
    max_tokens: int = dataclasses.field(metadata={"static": True})


def one_group(data: PyTree) -> PyTree:
    """Data, whatever they are, as a data set of one group; None as that of a model that reads none."""
    return jax.tree.map(
        lambda x: (x if isinstance(x, jax.Array) else np.asarray(x))[None], 0.0 if data is None else data
    )


def is_whole(batch: Minibatch) -> bool:
    """Whether a batch is known to hold all N groups; false of one whose N or weights are traced, and so unknown."""
    if batch.num_groups is None:
        return True
    documents = [x for x in jax.tree.leaves(batch.data, is_leaf=_is_documents) if _is_documents(x)]
    weights = [x.weights for x in documents] if documents else [batch.weights]
    if any(isinstance(x, jax.core.Tracer) for x in (batch.num_groups, *weights)):
        return False
    if weights[0] is None:
        size = np.shape(jax.tree.leaves(batch.data)[0])[0]
    else:
        size = sum(int(np.sum(np.asarray(x) > 0)) for x in weights)
    return bool(size == batch.num_groups)


def _is_documents(x: Any) -> bool:
    return isinstance(x, Documents)


def weighted_sum(weights: Float[Array, " groups"], values: Float[Array, " groups"]) -> Float[Array, ""]:
    """<weights, values>, rows of weight 0 left out whatever they hold: 0 times NaN is NaN.

    >>> float(weighted_sum(jnp.array([1.0, 0.0]), jnp.array([2.0, jnp.nan])))
    2.0
    """
    return jnp.vdot(weights, jnp.where(weights > 0, values, 0.0))


def fill_padding(data: PyTree, weights: Float[Array, " groups"]) -> PyTree:
    """`data` with a copy of a row that counts in the place of each row of weight 0. So nothing that padding holds
    reaches a bound or its gradient: the logarithm of a padded 0 is -inf, and 0 times that is NaN in both. Leaves
    without the axis of groups stay as they are.

    >>> print(fill_padding(jnp.array([0.0, 3.0, 4.0]), jnp.array([0.0, 1.0, 1.0])))
    [3. 3. 4.]
    """
    counts = weights > 0
    row = jnp.argmax(counts)

    def fill(leaf: Any) -> Any:
        if jnp.shape(leaf)[:1] != weights.shape:
            return leaf
        leaf = jnp.asarray(leaf)
        return jnp.where(counts.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, leaf[row])

    return jax.tree.map(fill, data)
