"""Storage of tables row by row (words, items), so that a step costs no more than the rows that it
touches.

The natural parameters of the rows are eta + S a. A natural-gradient step lambda' = (1 - rho) lambda
+ rho (eta + m) keeps this form: S' = (1 - rho) S, and a changes only where the message m is not
zero. Each family chooses what a batch reads about all other rows."""

from __future__ import annotations

import abc
import operator
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from vijax.families.base import Family
from vijax.families.construction import delegate

FOLD_BELOW = 1e-12
"""The smallest S: entries of a stay below 1e12 times the entries of lambda."""


class StoredByRow(Family):
    """A law of a table in this form; `vijax.topics.by_words` gives a step some of its rows."""

    entries: Float[Array, "v k"]  # a, so that the numbers of a row are contiguous
    scale: Float[Array, ""]  # S

    running: ClassVar[tuple[str, ...]] = ()
    """Fields that steps add to; `resum` removes their rounding errors."""
    draw_covers_rows: ClassVar[bool] = False
    """True if a draw of `columns` is a draw of all rows."""

    @abc.abstractmethod
    def columns(self, words: Int[Array, " w"]) -> Any:
        """The law that a batch sees: these rows, and what the batch reads about all others.

        Args:
          words: ids of rows, all different and increasing; ids from V on are padding.
        """

    @abc.abstractmethod
    def prior_columns(self, words: Int[Array, " w"]) -> Any:
        """`columns` of the prior."""

    @abc.abstractmethod
    def with_columns(
        self, words: Array, to: Any, kept: Float[Array, ""], ok: Bool[Array, ""]
    ) -> Self:
        """The law after a step.

        Args:
          words: as in `columns`.
          to: the columns after the step.
          kept: 1 - rho, the factor by which the step shrank lambda - eta of the other rows; 1 if
              the step was rejected.
          ok: True if the step was taken.
        """

    @abc.abstractmethod
    def divergence_from_base(self) -> Float[Array, ...]:
        """KL from the prior; its entries sum to the divergence of the table."""

    def resum(self) -> Self:
        """This law with its running fields recomputed."""
        return self

    @abc.abstractmethod
    def dense(self) -> Family:
        """The law of all rows."""

    def plain(self) -> Family:
        return self.dense()

    def _shrink(self, kept: Float[Array, ""], tables: Any) -> tuple[Any, Array]:
        """The tables that S scales, and S, after a step. A small S is folded into the tables; the
        loop runs at most once, and a loop keeps the arrays in place."""

        def fold(state: tuple[Any, Array]) -> tuple[Any, Array]:
            tables, scale = state
            return jax.tree.map(lambda table: table * scale, tables), jnp.ones_like(scale)

        is_small = lambda state: state[1] < FOLD_BELOW
        return jax.lax.while_loop(is_small, fold, (tables, self.scale * kept))

    _law = operator.methodcaller("dense")  # calls the `dense` of the subclass
    log_normalizer = delegate("log_normalizer", _law)
    stats = delegate("stats", _law)
    expected_stats = delegate("expected_stats", _law)
    sample = delegate("sample", _law)
    sample_stats = delegate("sample_stats", _law)
    mean = delegate("mean", _law)
    marginal_laws = delegate("marginal_laws", _law)
    mode = delegate("mode", _law)
    entropy = delegate("entropy", _law)
    kl = delegate("kl", _law)
    log_prob = delegate("log_prob", _law)
    in_domain = delegate("in_domain", _law)
    flat = delegate("flat", _law)
