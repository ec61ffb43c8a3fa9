"""The most probable words of topics, found where the topics lie."""

from __future__ import annotations

import functools

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from vijax.arguments import Size, check_arguments
from vijax.checks import require
from vijax.families import Dirichlet


@check_arguments
def top_words(
    topics: Dirichlet, num_words: Size = 10
) -> tuple[Int[np.ndarray, "K n"], Float[np.ndarray, "K n"]]:
    """Ids of the most probable words of each topic, and their mean probabilities, descending.

    Topics that are split over devices (`vijax.scale.mesh(topics=)`) are sorted by each device; only
    the result comes to the host.

    Args:
      topics: `fit.posterior["topics"]`.
      num_words: number of words of each topic, at most all.

    Raises:
      ValueError: no Dirichlets, or a number of words below 1.

    >>> ids, probabilities = top_words(Dirichlet.from_concentration([[9.0, 1.0, 5.0]]), 2)
    >>> print(ids, probabilities.round(2))
    [[0 2]] [[0.6  0.33]]
    """
    is_law = isinstance(topics, Dirichlet)
    remedy = "Give fit.posterior['topics']."
    require(is_law, "topics", "Dirichlets over words", type(topics).__name__, remedy)
    concentration = jax.numpy.atleast_2d(topics.concentration)
    place = concentration.sharding
    count = min(num_words, concentration.shape[-1])
    if isinstance(place, NamedSharding) and any(place.spec):
        ids, probabilities = _find_top_by_part(concentration, count, place)
    else:
        ids, probabilities = _find_top(concentration, count)
    return np.asarray(ids), np.asarray(probabilities)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _find_top_by_part(
    concentration: Float[Array, "K V"], num_words: int, place: NamedSharding
) -> tuple[Array, Array]:
    """`_find_top` of topics that are split: each device sorts its own, since XLA would gather
    all."""
    split = P(place.spec[0])
    find = jax.shard_map(
        lambda part: _find_top(part, num_words),
        mesh=place.mesh,
        in_specs=split,
        out_specs=(split, split),
        check_vma=False,
    )
    return find(concentration)


@functools.partial(jax.jit, static_argnums=1)
def _find_top(concentration: Float[Array, "K V"], num_words: int) -> tuple[Array, Array]:
    """Ids and probabilities of the largest components."""
    largest, ids = jax.lax.top_k(concentration, num_words)
    return ids, largest / jax.numpy.sum(concentration, axis=-1, keepdims=True)
