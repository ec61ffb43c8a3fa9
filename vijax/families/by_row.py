"""Storage of tables row by row (words, items), so that a step costs no more than the rows that it
touches.

Natural parameters of the rows are eta + S a. A natural-gradient step lambda' = (1 - rho) lambda +
rho (eta + m) leaves the form as it is: S' = (1 - rho) S, and a changes only where the message m is
not zero. What a batch needs to know of all other rows is the family's own matter."""

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
"""The least S: entries of a stay below 1e12 times those of lambda."""


class StoredByRow(Family):
    """A law of a table in this form, of which `vijax.topics.by_words` gives a step some rows."""

    entries: Float[Array, "v k"]  # a, so that the numbers of a row are contiguous
    scale: Float[Array, ""]  # S

    running: ClassVar[tuple[str, ...]] = ()
    """Fields that steps add to, whose rounding errors `resum` mends."""
    draw_covers_rows: ClassVar[bool] = False
    """True where a draw of `columns` is one of all rows."""

    @abc.abstractmethod
    def columns(self, words: Int[Array, " w"]) -> Any:
        """The law that a batch sees: of these rows, and of what it needs to know of all others.

        Args:
          words: ids of rows, all different and increasing; those from V on are padding.
        """

    @abc.abstractmethod
    def prior_columns(self, words: Int[Array, " w"]) -> Any:
        """The prior's counterpart of `columns`."""

    @abc.abstractmethod
    def with_columns(
        self, words: Array, to: Any, kept: Float[Array, ""], ok: Bool[Array, ""]
    ) -> Self:
        """The law after a step.

        Args:
          words: as in `columns`.
          to: the columns after the step.
          kept: 1 - rho, the factor by which the step shrank lambda - eta of the other rows; 1 where
              it was not taken.
          ok: True where the step was taken.
        """

    @abc.abstractmethod
    def divergence_from_base(self) -> Float[Array, ...]:
        """KL from the prior; its sum is that of the table."""

    def resum(self) -> Self:
        """This law with its running fields computed anew."""
        return self

    @abc.abstractmethod
    def dense(self) -> Family:
        """The law of all rows."""

    def plain(self) -> Family:
        return self.dense()

    def _shrink(self, kept: Float[Array, ""], tables: Any) -> tuple[Any, Array]:
        """Tables that S scales, and S, after a step; S is folded into them, at most once, by a
        loop, because that keeps their arrays in place."""
        fold = lambda x: (jax.tree.map(lambda table: table * x[1], x[0]), jnp.ones_like(x[1]))
        return jax.lax.while_loop(lambda x: x[1] < FOLD_BELOW, fold, (tables, self.scale * kept))

    _law = operator.methodcaller("dense")  # that of the class that inherits
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
