"""Words of topics by group of documents: a table of them, and the message of counts that were drawn
for it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families import Beta, Dirichlet, Product
from vijax.families.discrete.by_word import TransposedDirichletStats


def by_group(groups: int, stats: Any) -> tuple[TransposedDirichletStats, int]:
    """log of (1 - pi_gk) beta_kv + pi_gk delta_gkv by group and word, (G W, K), and W."""
    shared, own = (_by_word(stats[name]) for name in ("topics", "content"))
    size, topics = shared.shape
    of_groups = jnp.moveaxis(own.reshape(size, groups, topics), 1, 0)
    switch = stats["own"]
    log_probs = jnp.logaddexp(
        shared[None] + switch.log1m[:, None, :], of_groups + switch.log[:, None, :]
    )
    return TransposedDirichletStats(log_probs.reshape(groups * size, topics)), size


def table_of(groups: int, stats: Any) -> Float[Array, "W K"]:
    """Log probabilities of words by topic; with groups of the words of one after those of
    another."""
    return by_group(groups, stats)[0].by_word if groups else _by_word(stats["topics"])


def conditional(
    groups: int, prior: Product, stats: Any, counts: Float[Array, "W K"], key: PRNGKeyArray
) -> dict[str, Any]:
    """The laws of topics, and with groups of the groups' own words and of their share, given how
    often each word was drawn from each topic. Of a group's counts those of its own words are
    drawn."""
    if not groups:
        return {"topics": Dirichlet(prior["topics"].concentration + counts.T)}  # type: ignore[attr-defined]
    topics = counts.shape[1]
    by_group_and_word = counts.reshape(groups, -1, topics)
    own = jnp.moveaxis(_by_word(stats["content"]).reshape(-1, groups, topics), 1, 0)
    share = jnp.exp(
        own + stats["own"].log[:, None] - table_of(groups, stats).reshape(groups, -1, topics)
    )
    apart = jax.random.binomial(key, by_group_and_word, jnp.clip(share, 0.0, 1.0))
    shared = by_group_and_word - apart
    of_own = jnp.moveaxis(apart, 1, 2)
    return {
        "topics": Dirichlet(prior["topics"].concentration + shared.sum(0).T),  # type: ignore[attr-defined]
        "content": Dirichlet(prior["content"].concentration + of_own.reshape(groups * topics, -1)),  # type: ignore[attr-defined]
        "own": Beta(
            *(
                x + y.sum(1)
                for x, y in zip(jax.tree.leaves(prior["own"]), (apart, shared), strict=True)
            )
        ),
    }


def _by_word(table: Any) -> Float[Array, "W K"]:
    return table.by_word if isinstance(table, TransposedDirichletStats) else table.log.T
