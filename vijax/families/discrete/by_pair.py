"""Dirichlet rows restricted to some of their entries: pairs (word, topic), and for each topic all
other words together.

By the aggregation of the Dirichlet, the shares of topic k's own pairs and of the rest are
Dirichlet(lambda_pairs, Lambda_k - sum lambda_pairs), whichever pairs are chosen, as long as the
choice does not look at the draw."""

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
    """Logarithms of the shares of the pairs, and of the rest of each topic."""

    pairs: Float[Array, " p"]
    rest: Float[Array, " k"]


@family
class DirichletOfPairs(Family):
    """K Dirichlets of different lengths, one after the other.

    >>> q = DirichletOfPairs(jnp.array([1.0, 2.0, 4.0]), jnp.array([3.0, 4.0]), jnp.array([0, 0, 1]))
    >>> print(*(f"{share:.3f}" for share in q.mean()[0]))
    0.167 0.333 0.500
    """

    pairs: Float[Array, " p"]  # concentrations of the pairs
    rest: Float[Array, " k"]  # concentration of all other words of each topic
    topic: Int[Array, " p"] = context_field()  # of each pair; K for padding

    Stats: ClassVar[type[tuple]] = DirichletOfPairsStats
    event_ndims: ClassVar[tuple[int, ...]] = (1, 1)

    def totals(self) -> Float[Array, " k"]:
        """The total concentration of each topic."""
        return self._sum(self.pairs) + self.rest

    def log_normalizer(self) -> Float[Array, ""]:
        own = jnp.where(self._real(), special.log_gamma(self.pairs), 0.0)
        return (
            jnp.sum(own)
            + jnp.sum(special.log_gamma(self.rest))
            - jnp.sum(special.log_gamma(self.totals()))
        )

    def stats(self, x: tuple[Array, Array]) -> DirichletOfPairsStats:
        return DirichletOfPairsStats(jnp.log(x[0]), jnp.log(x[1]))

    def expected_stats(self) -> DirichletOfPairsStats:
        level = special.digamma(self.totals())
        pairs = special.digamma(self.pairs) - self._of_topic(level)
        return DirichletOfPairsStats(pairs, special.digamma(self.rest) - level)

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> DirichletOfPairsStats:
        """Logarithms of a draw: normalised gammas, one for each pair and one for each rest."""
        if shape:
            draws = jax.vmap(self.sample_stats)(jax.random.split(key, math.prod(shape)))
            return jax.tree.map(lambda x: x.reshape(*shape, -1), draws)
        key_pairs, key_rest = jax.random.split(key)
        log_pairs = _log_gammas(key_pairs, self.pairs, jnp.sum(self._real()))
        log_rest = _log_gammas(key_rest, self.rest, self.rest.size)
        top = log_rest.at[self.topic].max(log_pairs, mode="drop")
        total = jnp.exp(log_rest - top) + self._sum(jnp.exp(log_pairs - self._of_topic(top)))
        level = top + jnp.log(total)
        return DirichletOfPairsStats(log_pairs - self._of_topic(level), log_rest - level)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> tuple[Array, Array]:
        return tuple(map(jnp.exp, self.sample_stats(key, shape)))  # type: ignore[return-value]

    def mean(self) -> tuple[Array, Array]:
        totals = self.totals()
        return self.pairs / self._of_topic(totals), self.rest / totals

    def mode(self) -> Any:
        raise NotImplementedError(
            "The mode of a DirichletOfPairs is not defined: ask the posterior over all words."
        )

    def in_domain(self) -> Self:
        return dataclasses.replace(
            self, pairs=positive_and_finite(self.pairs), rest=positive_and_finite(self.rest)
        )

    def flat(self) -> Self:
        return dataclasses.replace(
            self, pairs=jnp.ones_like(self.pairs), rest=jnp.ones_like(self.rest)
        )

    def _real(self) -> Array:
        return self.topic < self.rest.size

    def _sum(self, x: Array) -> Array:
        """Sums over the pairs of each topic."""
        return jnp.zeros(self.rest.shape, x.dtype).at[self.topic].add(x, mode="drop")

    def _of_topic(self, x: Array) -> Array:
        """The topic's value at each of its pairs."""
        return x.at[self.topic].get(mode="clip")


def _log_gammas(
    key: PRNGKeyArray, c: Float[Array, " n"], count: Int[Array, ""] | int
) -> Float[Array, " n"]:
    """Logarithms of gamma draws, block by block up to the first `count`; the rest is padding."""
    size = min(_BLOCK, c.size)
    padded = jnp.pad(c, (0, -c.size % size), constant_values=1.0).reshape(-1, size)

    def draw(i: Array, out: Array) -> Array:
        return out.at[i].set(
            log_gamma_from_offset(padded[i], sample_offset(jax.random.fold_in(key, i), padded[i]))
        )

    return jax.lax.fori_loop(0, -(-count // size), draw, jnp.zeros_like(padded)).reshape(-1)[
        : c.size
    ]


class Distinct(NamedTuple):
    """The distinct ids, increasing and filled up with `universe`; and the index in `ids` of each
    given entry, 0 for entries that are no id."""

    ids: Int[Array, " capacity"]
    places: list[Int[Array, ...]]


def distinct(given: list[Int[Array, ...]], universe: int, capacity: int) -> Distinct:
    """The distinct ids among the given ones, without sorting.

    Args:
      given: arrays of ids from 0; entries from `universe` on are padding.
      universe: a number above all ids.
      capacity: at least the number of distinct ids.

    Raises:
      ValueError: an id below 0 (where ids are traced, the compiled kernel raises a
        `JaxRuntimeError`, and XLA takes the entry for padding); a universe of more ids than 31 bits
        can tell apart.

    >>> found = distinct([jnp.array([7, 2]), jnp.array([[2, 9]])], universe=9, capacity=3)
    >>> found.ids.tolist(), [place.tolist() for place in found.places]
    ([2, 7, 9], [[1, 0], [[0, 0]]])
    """
    remedy = (
        "An id is a pair of a word and a topic: take fewer topics or words, or let documents use "
        "all topics."
    )
    require(
        0 <= universe <= MOST_IDS, "universe", f"at most {MOST_IDS:,} ids", f"{universe:,}", remedy
    )
    flat = jnp.concatenate([jnp.ravel(ids) for ids in given]).astype(jnp.int32)
    if not isinstance(flat, jax.core.Tracer):
        require(flat >= 0, "ids", "none below 0", flat)
    results = [jax.ShapeDtypeStruct((size,), jnp.int32) for size in (capacity, flat.size)]
    by_xla = functools.partial(_distinct, universe, capacity)
    ids, places = native.run_kernel("distinct", results, by_xla, flat, universe=universe)
    parts = jnp.split(places, np.cumsum([x.size for x in given])[:-1])
    return Distinct(ids, [part.reshape(x.shape) for part, x in zip(parts, given, strict=True)])


def _distinct(universe: int, capacity: int, ids: Int[Array, " n"]) -> tuple[Array, Array]:
    """The distinct ids below `universe`, and the place of each entry; by a bit set."""
    known = (ids >= 0) & (ids < universe)
    marks = jnp.zeros(-(-universe // _BITS) * _BITS, bool)
    marks = marks.at[jnp.where(known, ids, marks.size)].set(True, mode="drop")
    bit = jnp.arange(_BITS, dtype=jnp.uint32)
    words = jnp.sum(
        marks.reshape(-1, _BITS).astype(jnp.uint32) << bit[None], axis=1, dtype=jnp.uint32
    )
    counts = jax.lax.population_count(words).astype(jnp.int32)
    before = jnp.cumsum(counts) - counts
    at = jnp.clip(ids, 0, universe - 1)
    word, below = at // _BITS, (jnp.uint32(1) << (at % _BITS).astype(jnp.uint32)) - jnp.uint32(1)
    inside = jax.lax.population_count(words.at[word].get(mode="promise_in_bounds") & below).astype(
        jnp.int32
    )
    places = jnp.where(known, before.at[word].get(mode="promise_in_bounds") + inside, 0)
    out = jnp.full(capacity, universe, jnp.int32)
    return out.at[jnp.where(known, places, capacity)].set(ids, mode="drop"), places
