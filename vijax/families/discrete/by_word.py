"""Dirichlets over words, stored word by word, so that a step costs no more than the words that it
touches.

`TransposedDirichlet` holds K Dirichlets component by component: the numbers of a word are
contiguous, because a batch of documents reads and writes words. `DirichletByWord` holds

    lambda_kv = eta_vk + S a_vk,     Lambda_k = sum_v lambda_kv

A natural-gradient step lambda' = (1 - rho) lambda + rho (eta + m) keeps this form: S' = (1 - rho)
S, and a changes only where the message m is not zero. The law of a few columns W needs only these
and one number for all others: by the aggregation of the Dirichlet, (x_W, 1 - sum_W x) is
Dirichlet(lambda_W, Lambda - sum_W lambda_W)."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax.families.base import Family, family, positive_and_finite
from vijax.families.by_row import StoredByRow
from vijax.families.construction import delegate
from vijax.families.discrete.by_pair import DirichletOfPairs
from vijax.families.discrete.dirichlet import (
    Dirichlet,
    DirichletStats,
    expected_log,
    floored_log,
    normalized_gammas,
    share_excess,
)
from vijax.families.numeric import special
from vijax.families.numeric.excess import clip_rounding
from vijax.families.numeric.pathwise import sample_offset
from vijax.tree import register

BLOCK = 2**18
"""Numbers in a block of a pass over all of them: a block stays in a core's cache."""
PROMISED: dict[str, Any] = {"indices_are_sorted": True, "unique_indices": True}


class TransposedDirichletStats(NamedTuple):
    """log x, component by component."""

    by_word: Float[Array, "*shape v k"]

    @property
    def log(self) -> Float[Array, "*shape k v"]:
        """The logarithms in the layout of `DirichletStats`."""
        return jnp.swapaxes(self.by_word, -1, -2)


@family
class TransposedDirichlet(Family):
    """K Dirichlets over V components, with the methods that a step needs; `plain()` has all
    methods.

    >>> q = TransposedDirichlet(jnp.array([[0.5, 1.0], [2.5, 1.0], [1.0, 2.0]]))
    >>> q.plain().concentration.tolist(), q.mean().round(3).tolist()
    ([[0.5, 2.5, 1.0], [1.0, 1.0, 2.0]], [[0.125, 0.25], [0.625, 0.25], [0.25, 0.5]])
    """

    concentration: Float[Array, "v k"]

    Stats: ClassVar[type[tuple]] = TransposedDirichletStats
    event_ndims: ClassVar[tuple[int, ...]] = (2,)
    block_axis: ClassVar[int | None] = 0

    def plain(self) -> Dirichlet:
        return Dirichlet(self.concentration.T)

    log_normalizer = delegate("log_normalizer", plain, lambda q, values: jnp.sum(values))
    mode = delegate("mode", plain, lambda q, mode: mode.T)

    def stats(self, x: Float[Array, "*shape v k"]) -> TransposedDirichletStats:
        return TransposedDirichletStats(floored_log(x))

    def expected_stats(self) -> TransposedDirichletStats:
        return TransposedDirichletStats(expected_log(self.concentration, axis=0))

    def sample_stats(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> TransposedDirichletStats:
        offset = sample_offset(key, self.concentration, shape)
        return TransposedDirichletStats(normalized_gammas(self.concentration, offset, axis=-2)[0])

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape v k"]:
        return jnp.exp(self.sample_stats(key, shape).by_word)

    def mean(self) -> Float[Array, "v k"]:
        return self.concentration / jnp.sum(self.concentration, axis=0, keepdims=True)

    def in_domain(self) -> Self:
        return type(self)(positive_and_finite(self.concentration))

    def flat(self) -> Self:
        return type(self)(jnp.ones_like(self.concentration))

    def log_base_measure(self, stats: Any) -> Float[Array, "*shape"]:
        return -jnp.sum(stats.by_word, axis=(-2, -1))


@register
@dataclasses.dataclass(frozen=True)
class DirichletByWord(StoredByRow):
    """K Dirichlets over V words, as `vijax.topics.by_words` stores them. A step reads `columns`;
    the methods of the law call `dense()`, which computes all K x V concentrations.

    >>> q = DirichletByWord.from_law(Dirichlet.from_concentration([[0.5, 2.5, 1.0]]), jnp.asarray(0.5))
    >>> q.mean().round(3).tolist()
    [[0.125, 0.625, 0.25]]
    >>> q.columns(jnp.array([1, 3])).concentration.T.tolist()
    [[2.5, 0.75, 0.75]]
    """

    entries: Float[Array, "v k"]  # a, so that the numbers of a word are contiguous
    scale: Float[Array, ""]  # S
    # eta: one number for all entries, for each word, or for each entry
    base: Float[Array, ""] | Float[Array, " v"] | Float[Array, "v k"]
    totals: Float[Array, " k"]  # Lambda

    Stats: ClassVar[type[tuple]] = DirichletStats
    event_ndims: ClassVar[tuple[int, ...]] = (1,)
    running: ClassVar[tuple[str, ...]] = ("totals",)
    draw_covers_rows: ClassVar[bool] = True

    @classmethod
    def from_law(cls, q: Dirichlet, base: Float[Array, ...]) -> Self:
        """The same law in this form; `base` is a number, (V,) or (K, V)."""
        entries = (q.concentration - jnp.atleast_2d(base)).T
        totals = jnp.sum(q.concentration, axis=1)
        return cls(entries, jnp.ones((), entries.dtype), jnp.array(base, entries.dtype).T, totals)

    def columns(self, words: Int[Array, " w"]) -> TransposedDirichlet:
        """The law of the shares of some words and of all others together: Dirichlets over w + 1
        components, or over w = V. Padding and the last component stand for equal parts of all other
        words.

        Args:
          words: ids, all different and increasing; ids from V on are padding.
        """
        num_words = len(self.entries)
        words = _append_padding(words, num_words)
        lam = self.concentrations(words)
        # The difference may cancel if the words have nearly all of the total.
        remainder = jnp.maximum(
            self.totals - jnp.sum(lam, axis=0), _remaining_base(self.base, words, num_words)
        )
        return TransposedDirichlet(_fill_padding(lam, words < num_words, remainder))

    def prior_columns(self, words: Int[Array, " w"]) -> TransposedDirichlet:
        return prior_columns(self.base, words, *self.entries.shape)

    def concentrations(self, words: Int[Array, " w"]) -> Float[Array, "w k"]:
        """Concentrations of these words; 0 for padding."""
        entries = self.entries.at[words].get(mode="clip", indices_are_sorted=True)
        lam = _base_rows(self.base, words) + self.scale * entries
        return jnp.where((words < len(self.entries))[:, None], lam, 0.0)

    def with_columns(
        self, words: Array, to: TransposedDirichlet, kept: Float[Array, ""], ok: Bool[Array, ""]
    ) -> Self:
        entries, scale = self._shrink(kept, self.entries)
        lam = to.concentration[: words.size]
        new = (lam - _base_rows(self.base, words)) / scale
        targets = jnp.where(ok, words, words + len(self.entries))  # beyond V nothing is written
        entries = entries.at[targets].set(new, mode="drop", **PROMISED)
        totals = jnp.sum(to.concentration, axis=0)
        return dataclasses.replace(self, entries=entries, scale=scale, totals=totals)

    def pairs(
        self, words: Int[Array, " w"], ids: Int[Array, " p"]
    ) -> tuple[DirichletOfPairs, DirichletOfPairs]:
        """The law of the shares of some pairs (word, topic) and of the remainder of each topic, all
        its other words together; and the prior of these shares.

        Args:
          words: as in `columns`.
          ids: i K + k for the pair of `words[i]` and topic k; all different, ids from w K on are
              padding.
        """
        num_words, num_topics = self.entries.shape
        word, topic, base = self._locate_pairs(words, ids)
        entries = self.entries.at[word, topic].get(mode="fill", fill_value=0.0)
        zeros = jnp.zeros(num_topics, base.dtype)
        law = DirichletOfPairs(base + self.scale * entries, zeros, topic)
        if self.base.ndim == 0:
            ones = (topic < num_topics).astype(base.dtype)
            num_pairs = law.with_naturals((ones, law.remainder)).totals()
            prior_remainder = self.base * (num_words - num_pairs)
        else:
            pair_total = law.with_naturals((base, law.remainder)).totals()
            prior_remainder = _total(self.base, num_words) - pair_total
        # If the pairs of a topic are all its words, the share of the remainder is nearly zero.
        prior_remainder = jnp.maximum(prior_remainder, jnp.finfo(base.dtype).tiny ** 0.5)
        remainder = jnp.maximum(self.totals - law.totals(), prior_remainder)
        prior = law.with_naturals((base, prior_remainder))
        return law.with_naturals((law.pairs, remainder)), prior

    def with_pairs(
        self, words: Array, ids: Array, to: DirichletOfPairs, kept: Array, ok: Array
    ) -> Self:
        """The law after a step of `pairs`; see `with_columns`."""
        entries, scale = self._shrink(kept, self.entries)
        word, topic, base = self._locate_pairs(words, ids)
        row = jnp.where(ok, word, len(entries))
        entries = entries.at[row, topic].set((to.pairs - base) / scale, mode="drop")
        return dataclasses.replace(self, entries=entries, scale=scale, totals=to.totals())

    def _locate_pairs(self, words: Array, ids: Array) -> tuple[Array, Array, Array]:
        """Word, topic and eta of each pair; V, K and 1 for padding."""
        num_words, num_topics = self.entries.shape
        is_pair = ids < words.size * num_topics
        word = jnp.where(is_pair, words.at[ids // num_topics].get(mode="clip"), num_words)
        topic = jnp.where(is_pair, ids % num_topics, num_topics)
        base = self.base
        if base.ndim > 0:
            base = base.at[(word, topic)[: base.ndim]].get(mode="clip")
        return word, topic, jnp.where(is_pair, base, 1.0)

    def resum(self) -> Self:
        """This law with its totals recomputed as sums over all words."""
        base = _total(self.base, len(self.entries))
        return dataclasses.replace(self, totals=base + self.scale * jnp.sum(self.entries, axis=0))

    def divergence_from_base(self) -> Float[Array, " k"]:
        """KL(q || Dirichlet(eta)): `kl` to the base as prior, in a third of the time, because it
        reads the numbers of a word in the order of storage."""
        parts, largest = self._parts_of_divergence()
        total = self.totals
        prior = _total(self.base, len(self.entries))
        value = parts - special.stirling_divergence(total, jnp.broadcast_to(prior, total.shape))

        def dense_kl() -> Array:
            base = jnp.broadcast_to(self.base.T, self.entries.shape[::-1])
            return self.dense().kl(Dirichlet(base))

        # If a word is more than half of a topic, large terms cancel in `value`, but on paper in
        # the formula of the dense law.
        is_dominated = jnp.any(largest > 0.5 * total)
        return jax.lax.cond(is_dominated, dense_kl, lambda: clip_rounding(value))

    def _parts_of_divergence(self) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """For each topic the sum of the words' terms of the divergence, and the largest
        concentration; block by block of words, so that no array of V x K numbers is written."""
        num_words, num_topics = self.entries.shape
        size = min(num_words, max(1, BLOCK // num_topics))
        prior = _total(self.base, num_words)
        shift = (prior - self.totals) / self.totals
        growth = prior / self.totals

        def add(i: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
            total, largest = sums
            start = jnp.minimum(i * size, num_words - size)
            entries = jax.lax.dynamic_slice_in_dim(self.entries, start, size)
            eta = self.base
            if eta.ndim > 0:
                eta = jax.lax.dynamic_slice_in_dim(eta, start, size)
            if eta.ndim == 1:
                eta = eta[:, None]
            lam, eta = jnp.broadcast_arrays(eta + self.scale * entries, eta)
            excess = eta * share_excess(lam, eta, shift, growth)
            parts = excess + special.stirling_divergence(lam, eta)
            # The last block begins inside the block before it.
            is_new = (start + jnp.arange(size) >= i * size)[:, None]
            total = total + jnp.sum(jnp.where(is_new, parts, 0.0), axis=0)
            return total, jnp.maximum(largest, jnp.max(lam, axis=0))

        zero = jnp.zeros_like(self.totals)
        return jax.lax.fori_loop(0, -(-num_words // size), add, (zero, zero))

    def dense(self) -> Dirichlet:
        """The law of all K x V concentrations."""
        return Dirichlet(self.base.T + self.scale * self.entries.T)

    @property
    def concentration(self) -> Float[Array, "k v"]:
        """lambda, all K x V concentrations."""
        return self.dense().concentration

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.totals.shape


def prior_columns(
    base: Float[Array, ...], words: Int[Array, " w"], num_words: int, num_topics: int
) -> TransposedDirichlet:
    """`DirichletByWord.columns` of the prior: eta of each component, from the `base` that
    `DirichletByWord` stores.

    >>> prior_columns(jnp.asarray(0.5), jnp.array([1, 3]), 3, 1).concentration.tolist()
    [[0.5], [0.5], [0.5]]
    """
    words = _append_padding(words, num_words)
    is_word = words < num_words
    eta = jnp.where(is_word[:, None], _base_rows(base, words), 0.0)
    columns = _fill_padding(eta, is_word, _remaining_base(base, words, num_words))
    return TransposedDirichlet(jnp.broadcast_to(columns, (len(columns), num_topics)))


def _append_padding(words: Array, num_words: int) -> Array:
    """The ids and, if they are not all V, one id more as padding for the other words; still
    distinct and increasing."""
    if len(words) == num_words:
        return words
    return jnp.append(words, jnp.maximum(words[-1] + 1, num_words))


def _fill_padding(lam: Array, is_word: Array, remainder: Array) -> Array:
    """The components, with an equal part of the remainder for each padding."""
    num_parts = jnp.maximum(jnp.sum(~is_word), 1).astype(remainder.dtype)
    return jnp.where(is_word[:, None], lam, remainder / num_parts)


def _total(base: Array, num_words: int) -> Array:
    """The sum of eta over all words: one number for all topics, or one for each."""
    return base * num_words if base.ndim == 0 else jnp.sum(base, axis=0)


def _base_rows(base: Array, words: Array) -> Float[Array, "w k"]:
    """eta of some words, one number for all topics or one for each; any number for padding."""
    if base.ndim == 0:
        return jnp.broadcast_to(base, (words.size, 1))
    rows = base.at[words].get(mode="fill", fill_value=0.0, **PROMISED)
    return rows[:, None] if base.ndim == 1 else rows


def _remaining_base(base: Array, words: Array, num_words: int) -> Array:
    """eta summed over all other words."""
    is_word = words < num_words
    if base.ndim == 0:
        return base * (num_words - jnp.sum(is_word)).astype(base.dtype)
    eta = jnp.where(is_word[:, None], _base_rows(base, words), 0.0)
    return jnp.maximum(_total(base, num_words) - jnp.sum(eta, axis=0), 0.0)
