"""Dirichlets over words, stored word by word, so that a step costs no more than the words that it
touches.

`TransposedDirichlet` holds K Dirichlets component by component: the numbers of a word are
contiguous, as a batch of documents reads and writes them. `DirichletByWord` holds

    lambda_kv = eta_vk + S a_vk,     Lambda_k = sum_v lambda_kv

A natural-gradient step lambda' = (1 - rho) lambda + rho (eta + m) leaves the form as it is: S' = (1
- rho) S, and a changes only where the message m is not zero. Laws of a few columns W need only
these and one number for all others: by the aggregation of the Dirichlet, (x_W, 1 - sum_W x) is
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
"""Numbers that are read at once where all are: they stay in a core's cache."""
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
    """K Dirichlets over V components, with the methods that a step needs; `plain()` has all.

    >>> q = TransposedDirichlet(jnp.array([[0.5, 1.0], [2.5, 1.0], [1.0, 2.0]]))
    >>> q.plain().concentration.tolist(), q.mean().round(3).tolist()
    ([[0.5, 2.5, 1.0], [1.0, 1.0, 2.0]], [[0.125, 0.25], [0.625, 0.25], [0.25, 0.5]])
    """

    concentration: Float[Array, "v k"]

    Stats: ClassVar[type[tuple]] = TransposedDirichletStats
    event_ndims: ClassVar[tuple[int, ...]] = (2,)

    def plain(self) -> Dirichlet:
        return Dirichlet(self.concentration.T)

    log_normalizer = delegate("log_normalizer", plain, lambda q, each: jnp.sum(each))
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
    """K Dirichlets over V words, as `vijax.topics.by_words` keeps them. A step takes `columns`; the
    methods of the law are those of `dense()`, which computes all K x V concentrations.

    >>> q = DirichletByWord.from_law(Dirichlet.from_concentration([[0.5, 2.5, 1.0]]), jnp.asarray(0.5))
    >>> q.mean().round(3).tolist()
    [[0.125, 0.625, 0.25]]
    >>> q.columns(jnp.array([1, 3])).concentration.T.tolist()
    [[2.5, 0.75, 0.75]]
    """

    entries: Float[Array, "v k"]  # a, so that the numbers of a word are contiguous
    scale: Float[Array, ""]  # S
    base: (
        Float[Array, ""] | Float[Array, " v"] | Float[Array, "v k"]
    )  # eta: one for all, for a word, for each
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
        """The law of the shares of some words, and of all others together: Dirichlets over w + 1
        components, or w = V. The padding and the last component stand for equal parts of all other
        words.

        Args:
          words: ids, all different and increasing; those from V on are padding.
        """
        words = _and_one_more(words, len(self.entries))
        known = words < len(self.entries)
        lam = self.of_words(words)
        # The difference may cancel where the words have nearly all of the total.
        rest = jnp.maximum(
            self.totals - jnp.sum(lam, axis=0), _rest_of(self.base, words, len(self.entries))
        )
        return TransposedDirichlet(_with_rest(lam, known, rest))

    def prior_columns(self, words: Int[Array, " w"]) -> TransposedDirichlet:
        return prior_columns(self.base, words, *self.entries.shape)

    def of_words(self, words: Int[Array, " w"]) -> Float[Array, "w k"]:
        """Concentrations of these words; 0 for padding."""
        entries = self.entries.at[words].get(mode="clip", indices_are_sorted=True)
        lam = _at(self.base, words) + self.scale * entries
        return jnp.where((words < len(self.entries))[:, None], lam, 0.0)

    def with_columns(
        self, words: Array, to: TransposedDirichlet, kept: Float[Array, ""], ok: Bool[Array, ""]
    ) -> Self:
        entries, scale = self._shrink(kept, self.entries)
        lam = to.concentration[: words.size]
        new = (lam - _at(self.base, words)) / scale
        at = jnp.where(ok, words, words + len(self.entries))
        entries = entries.at[at].set(new, mode="drop", **PROMISED)
        return dataclasses.replace(
            self, entries=entries, scale=scale, totals=jnp.sum(to.concentration, axis=0)
        )

    def pairs(
        self, words: Int[Array, " w"], ids: Int[Array, " p"]
    ) -> tuple[DirichletOfPairs, DirichletOfPairs]:
        """The law of the shares of some pairs (word, topic), and of all other words of each topic
        together; and the same for the prior.

        Args:
          words: as in `columns`.
          ids: i K + k of the pair of `words[i]` and topic k; all different, those from w K on
              padding.
        """
        num_words, num_topics = self.entries.shape
        word, topic, base = self._of_pairs(words, ids)
        known = topic < num_topics
        entries = self.entries.at[word, topic].get(mode="fill", fill_value=0.0)
        seen = DirichletOfPairs(
            base + self.scale * entries, jnp.zeros(num_topics, base.dtype), topic
        )
        if self.base.ndim == 0:
            rest = self.base * (
                num_words - seen.with_naturals((known.astype(base.dtype), seen.rest)).totals()
            )
        else:
            rest = _total(self.base, num_words) - seen.with_naturals((base, seen.rest)).totals()
        # Where a topic's pairs are all its words there is no rest: its share is as good as zero.
        rest = jnp.maximum(rest, jnp.finfo(base.dtype).tiny ** 0.5)
        left = jnp.maximum(self.totals - seen.totals(), rest)
        return seen.with_naturals((seen.pairs, left)), seen.with_naturals((base, rest))

    def with_pairs(
        self, words: Array, ids: Array, to: DirichletOfPairs, kept: Array, ok: Array
    ) -> Self:
        """The law after a step of `pairs`; see `with_columns`."""
        entries, scale = self._shrink(kept, self.entries)
        word, topic, base = self._of_pairs(words, ids)
        at = jnp.where(ok, word, len(entries))
        entries = entries.at[at, topic].set((to.pairs - base) / scale, mode="drop")
        return dataclasses.replace(self, entries=entries, scale=scale, totals=to.totals())

    def _of_pairs(self, words: Array, ids: Array) -> tuple[Array, Array, Array]:
        """Word, topic and eta of each pair; V, K and 1 for padding."""
        num_words, num_topics = self.entries.shape
        known = ids < words.size * num_topics
        word = jnp.where(known, words.at[ids // num_topics].get(mode="clip"), num_words)
        topic = jnp.where(known, ids % num_topics, num_topics)
        place = (word, topic)[: self.base.ndim]
        base = self.base.at[place].get(mode="clip") if place else self.base
        return word, topic, jnp.where(known, base, 1.0)

    def resum(self) -> Self:
        """This law with its totals summed anew over all words."""
        base = _total(self.base, len(self.entries))
        return dataclasses.replace(self, totals=base + self.scale * jnp.sum(self.entries, axis=0))

    def divergence_from_base(self) -> Float[Array, " k"]:
        """KL(q || Dirichlet(eta)): `kl` of a prior that is the base, in a third of the time, for
        the numbers of a word are read as they lie."""
        parts, largest = self._parts_of_divergence()
        total, prior = self.totals, _total(self.base, len(self.entries))
        value = parts - special.stirling_divergence(total, jnp.broadcast_to(prior, total.shape))
        # Where a word is more than half of a topic, large terms cancel, which the dense law's form
        # does on paper.
        by_dense = lambda: self.dense().kl(
            Dirichlet(jnp.broadcast_to(self.base.T, self.entries.shape[::-1]))
        )
        return jax.lax.cond(jnp.any(largest > 0.5 * total), by_dense, lambda: clip_rounding(value))

    def _parts_of_divergence(self) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """The sum of what single words add to the divergence, and the largest concentration, of
        each topic; block by block of words, so that nothing of the size of all is written."""
        num_words, num_topics = self.entries.shape
        size = min(num_words, max(1, BLOCK // num_topics))
        prior = _total(self.base, num_words)
        shift, growth = (prior - self.totals) / self.totals, prior / self.totals

        def add(i: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
            start = jnp.minimum(i * size, num_words - size)
            entries = jax.lax.dynamic_slice_in_dim(self.entries, start, size)
            eta = (
                self.base
                if self.base.ndim == 0
                else jax.lax.dynamic_slice_in_dim(self.base, start, size)
            )
            eta = eta[:, None] if eta.ndim == 1 else eta
            lam, eta = jnp.broadcast_arrays(eta + self.scale * entries, eta)
            parts = eta * share_excess(lam, eta, shift, growth) + special.stirling_divergence(
                lam, eta
            )
            new = (start + jnp.arange(size) >= i * size)[
                :, None
            ]  # the last block begins in the one before it
            return found[0] + jnp.sum(jnp.where(new, parts, 0.0), axis=0), jnp.maximum(
                found[1], jnp.max(lam, axis=0)
            )

        zero = jnp.zeros_like(self.totals)
        return jax.lax.fori_loop(0, -(-num_words // size), add, (zero, zero))

    def dense(self) -> Dirichlet:
        """All concentrations."""
        return Dirichlet(self.base.T + self.scale * self.entries.T)

    @property
    def concentration(self) -> Float[Array, "k v"]:
        """lambda."""
        return self.dense().concentration

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.totals.shape


def prior_columns(
    base: Float[Array, ...], words: Int[Array, " w"], num_words: int, num_topics: int
) -> TransposedDirichlet:
    """The prior's counterpart of `DirichletByWord.columns`: eta of each component, from the base as
    that keeps it.

    >>> prior_columns(jnp.asarray(0.5), jnp.array([1, 3]), 3, 1).concentration.tolist()
    [[0.5], [0.5], [0.5]]
    """
    words = _and_one_more(words, num_words)
    known = words < num_words
    here = jnp.where(known[:, None], _at(base, words), 0.0)
    columns = _with_rest(here, known, _rest_of(base, words, num_words))
    return TransposedDirichlet(jnp.broadcast_to(columns, (len(columns), num_topics)))


def _and_one_more(words: Array, num_words: int) -> Array:
    """The ids and one more as padding, for the rest, where words are missing; distinct and
    increasing as before."""
    return (
        words
        if len(words) == num_words
        else jnp.append(words, jnp.maximum(words[-1] + 1, num_words))
    )


def _with_rest(lam: Array, known: Array, rest: Array) -> Array:
    """The components with padding replaced by equal parts of the rest."""
    parts = jnp.maximum(jnp.sum(~known), 1).astype(rest.dtype)
    return jnp.where(known[:, None], lam, rest / parts)


def _total(base: Array, num_words: int) -> Array:
    """The sum of eta over all words: one for all topics, or one of each."""
    return base * num_words if base.ndim == 0 else jnp.sum(base, axis=0)


def _at(base: Array, words: Array) -> Float[Array, "w k"]:
    """eta of some words, the same in all topics or one of each; any number for padding."""
    if base.ndim == 0:
        return jnp.broadcast_to(base, (words.size, 1))
    found = base.at[words].get(mode="fill", fill_value=0.0, **PROMISED)
    return found[:, None] if base.ndim == 1 else found


def _rest_of(base: Array, words: Array, num_words: int) -> Array:
    """eta summed over all words but these."""
    known = words < num_words
    if base.ndim == 0:
        return base * (num_words - jnp.sum(known)).astype(base.dtype)
    here = jnp.where(known[:, None], _at(base, words), 0.0)
    return jnp.maximum(_total(base, num_words) - jnp.sum(here, axis=0), 0.0)
