"""Dirichlet rows restricted to some of their entries: pairs (word, topic), and for each topic the
remainder, all other words together.

By the aggregation of the Dirichlet, the shares of the pairs of topic k and of its remainder are
Dirichlet(lambda_pairs, Lambda_k - sum lambda_pairs), for any choice of pairs that does not depend
on the draw."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, context_field, family, positive_and_finite
from vijax.families.numeric import special
from vijax.families.numeric.pathwise import log_gamma_from_offset, sample_offset
from vijax.xla import native

MOST_IDS = 2**31 - 1
_BITS = 32
_BLOCK = 8192


class DirichletOfPairsStats(NamedTuple):
    """Logarithms of the shares of the pairs, and of the remainder of each topic."""

    pairs: Float[Array, " p"]
    remainder: Float[Array, " k"]


@family
class DirichletOfPairs(Family):
    """K Dirichlets of different lengths.

    >>> q = DirichletOfPairs(jnp.array([1.0, 2.0, 4.0]), jnp.array([3.0, 4.0]), jnp.array([0, 0, 1]))
    >>> print(*(f"{share:.3f}" for share in q.mean()[0]))
    0.167 0.333 0.500
    """

    pairs: Float[Array, " p"]  # concentrations of the pairs
    remainder: Float[Array, " k"]  # concentration of all other words of each topic
    topic: Int[Array, " p"] = context_field()  # the topic of each pair; K for padding

    Stats: ClassVar[type[tuple]] = DirichletOfPairsStats
    event_ndims: ClassVar[tuple[int, ...]] = (1, 1)

    def totals(self) -> Float[Array, " k"]:
        """The total concentration of each topic."""
        return self._sum(self.pairs) + self.remainder

    def log_normalizer(self) -> Float[Array, ""]:
        terms = jnp.where(self._is_pair(), special.log_gamma(self.pairs), 0.0)
        return (
            jnp.sum(terms)
            + jnp.sum(special.log_gamma(self.remainder))
            - jnp.sum(special.log_gamma(self.totals()))
        )

    def stats(self, x: tuple[Array, Array]) -> DirichletOfPairsStats:
        return DirichletOfPairsStats(jnp.log(x[0]), jnp.log(x[1]))

    def expected_stats(self) -> DirichletOfPairsStats:
        level = special.digamma(self.totals())
        pairs = special.digamma(self.pairs) - self._gather(level)
        return DirichletOfPairsStats(pairs, special.digamma(self.remainder) - level)

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> DirichletOfPairsStats:
        """Logarithms of a draw: normalised gammas, one for each pair and for each remainder."""
        if shape:
            draws = jax.vmap(self.sample_stats)(jax.random.split(key, math.prod(shape)))
            return jax.tree.map(lambda x: x.reshape(*shape, -1), draws)
        key_pairs, key_remainder = jax.random.split(key)
        log_pairs = _log_gammas(key_pairs, self.pairs, jnp.sum(self._is_pair()))
        log_remainder = _log_gammas(key_remainder, self.remainder, self.remainder.size)
        top = log_remainder.at[self.topic].max(log_pairs, mode="drop")
        total = jnp.exp(log_remainder - top) + self._sum(jnp.exp(log_pairs - self._gather(top)))
        level = top + jnp.log(total)
        return DirichletOfPairsStats(log_pairs - self._gather(level), log_remainder - level)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> tuple[Array, Array]:
        return tuple(map(jnp.exp, self.sample_stats(key, shape)))  # type: ignore[return-value]

    def mean(self) -> tuple[Array, Array]:
        totals = self.totals()
        return self.pairs / self._gather(totals), self.remainder / totals

    def mode(self) -> Any:
        raise NotImplementedError(
            "The mode of a DirichletOfPairs is not defined: ask the posterior over all words."
        )

    def in_domain(self) -> Self:
        return dataclasses.replace(
            self,
            pairs=positive_and_finite(self.pairs),
            remainder=positive_and_finite(self.remainder),
        )

    def flat(self) -> Self:
        return dataclasses.replace(
            self, pairs=jnp.ones_like(self.pairs), remainder=jnp.ones_like(self.remainder)
        )

    def _is_pair(self) -> Array:
        return self.topic < self.remainder.size

    def _sum(self, x: Array) -> Array:
        """Sums over the pairs of each topic."""
        return jnp.zeros(self.remainder.shape, x.dtype).at[self.topic].add(x, mode="drop")

    def _gather(self, x: Array) -> Array:
        """The value of its topic for each pair."""
        return x.at[self.topic].get(mode="clip")


def _log_gammas(
    key: PRNGKeyArray, c: Float[Array, " n"], count: Int[Array, ""] | int
) -> Float[Array, " n"]:
    """Logarithms of gamma draws, block by block; entries from `count` on are padding."""
    size = min(_BLOCK, c.size)
    padded = jnp.pad(c, (0, -c.size % size), constant_values=1.0).reshape(-1, size)

    def draw(i: Array, draws: Array) -> Array:
        offset = sample_offset(jax.random.fold_in(key, i), padded[i])
        return draws.at[i].set(log_gamma_from_offset(padded[i], offset))

    num_blocks = -(-count // size)
    draws = jax.lax.fori_loop(0, num_blocks, draw, jnp.zeros_like(padded))
    return draws.reshape(-1)[: c.size]


class Distinct(NamedTuple):
    """The distinct ids, increasing and padded with `universe`; and the index in `ids` of each entry
    of the arrays, 0 for padding."""

    ids: Int[Array, " capacity"]
    places: list[Int[Array, ...]]


def distinct(arrays: list[Int[Array, ...]], universe: int, capacity: int) -> Distinct:
    """The distinct ids in some arrays, without sorting.

    Args:
      arrays: ids from 0; entries from `universe` on are padding.
      universe: a number above all ids.
      capacity: at least the number of distinct ids.

    Raises:
      ValueError: an id below 0, or a universe of more than 2^31 - 1 ids. For a traced id below 0
        the compiled kernel raises a `JaxRuntimeError`, and XLA treats the entry as padding.

    >>> ids, places = distinct([jnp.array([7, 2]), jnp.array([[2, 9]])], universe=9, capacity=3)
    >>> ids.tolist(), [place.tolist() for place in places]
    ([2, 7, 9], [[1, 0], [[0, 0]]])
    """
    remedy = (
        "An id is a pair of a word and a topic: take fewer topics or words, or let documents use "
        "all topics."
    )
    require(
        0 <= universe <= MOST_IDS, "universe", f"at most {MOST_IDS:,} ids", f"{universe:,}", remedy
    )
    flat = jnp.concatenate([jnp.ravel(ids) for ids in arrays]).astype(jnp.int32)
    if not isinstance(flat, jax.core.Tracer):
        require(flat >= 0, "ids", "none below 0", flat)
    results = [jax.ShapeDtypeStruct((size,), jnp.int32) for size in (capacity, flat.size)]
    by_xla = functools.partial(_distinct, universe, capacity)
    ids, places = native.run_kernel("distinct", results, by_xla, flat, universe=universe)
    parts = jnp.split(places, np.cumsum([x.size for x in arrays])[:-1])
    return Distinct(ids, [part.reshape(x.shape) for part, x in zip(parts, arrays, strict=True)])


def _distinct(universe: int, capacity: int, ids: Int[Array, " n"]) -> tuple[Array, Array]:
    """The distinct ids below `universe`, and the index of each entry among them; by a bit set."""
    is_id = (ids >= 0) & (ids < universe)
    marks = jnp.zeros(-(-universe // _BITS) * _BITS, bool)
    marks = marks.at[jnp.where(is_id, ids, marks.size)].set(True, mode="drop")
    bit = jnp.arange(_BITS, dtype=jnp.uint32)
    bits = marks.reshape(-1, _BITS).astype(jnp.uint32) << bit[None]
    words = jnp.sum(bits, axis=1, dtype=jnp.uint32)
    counts = jax.lax.population_count(words).astype(jnp.int32)
    before = jnp.cumsum(counts) - counts
    valid = jnp.clip(ids, 0, universe - 1)
    word = valid // _BITS
    lower_bits = (jnp.uint32(1) << (valid % _BITS).astype(jnp.uint32)) - jnp.uint32(1)
    lower_marks = words.at[word].get(mode="promise_in_bounds") & lower_bits
    rank = jax.lax.population_count(lower_marks).astype(jnp.int32)
    places = jnp.where(is_id, before.at[word].get(mode="promise_in_bounds") + rank, 0)
    padding = jnp.full(capacity, universe, jnp.int32)
    return padding.at[jnp.where(is_id, places, capacity)].set(ids, mode="drop"), places
