"""Words of topics by group of documents: the table of probabilities, and its conditional given
drawn counts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families import Beta, Dirichlet, Product
from vijax.families.discrete.by_word import TransposedDirichletStats


def group_table(groups: int, stats: Any) -> tuple[TransposedDirichletStats, int]:
    """log of (1 - pi_gk) beta_kv + pi_gk delta_gkv by group and word, (G W, K), and W."""
    shared, group_words = (_word_rows(stats[name]) for name in ("topics", "content"))
    size, topics = shared.shape
    of_groups = jnp.moveaxis(group_words.reshape(size, groups, topics), 1, 0)
    switch = stats["own"]
    log_probs = jnp.logaddexp(
        shared[None] + switch.log1m[:, None, :], of_groups + switch.log[:, None, :]
    )
    return TransposedDirichletStats(log_probs.reshape(groups * size, topics)), size


def word_table(groups: int, stats: Any) -> Float[Array, "W K"]:
    """Log probabilities of words by topic; with groups all words of the first group, then of the
    second, and so on."""
    if groups:
        return group_table(groups, stats)[0].by_word
    return _word_rows(stats["topics"])


def conditional(
    groups: int, prior: Product, stats: Any, counts: Float[Array, "W K"], key: PRNGKeyArray
) -> dict[str, Any]:
    """The laws of topics, and with groups those of the groups' own words and of their shares, given
    counts of words by topic. The counts of a group are split at random into shared and own
    words."""
    if not groups:
        return {"topics": Dirichlet(prior["topics"].concentration + counts.T)}  # type: ignore[attr-defined]
    topics = counts.shape[1]
    by_group_and_word = counts.reshape(groups, -1, topics)
    own_words = jnp.moveaxis(_word_rows(stats["content"]).reshape(-1, groups, topics), 1, 0)
    share = jnp.exp(
        own_words
        + stats["own"].log[:, None]
        - word_table(groups, stats).reshape(groups, -1, topics)
    )
    own_counts = jax.random.binomial(key, by_group_and_word, jnp.clip(share, 0.0, 1.0))
    shared = by_group_and_word - own_counts
    of_own = jnp.moveaxis(own_counts, 1, 2)
    alpha, beta = jax.tree.leaves(prior["own"])
    return {
        "topics": Dirichlet(prior["topics"].concentration + shared.sum(0).T),  # type: ignore[attr-defined]
        "content": Dirichlet(prior["content"].concentration + of_own.reshape(groups * topics, -1)),  # type: ignore[attr-defined]
        "own": Beta(alpha + own_counts.sum(1), beta + shared.sum(1)),
    }


def _word_rows(table: Any) -> Float[Array, "W K"]:
    if isinstance(table, TransposedDirichletStats):
        return table.by_word
    return table.log.T
