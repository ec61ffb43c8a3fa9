"""Tables of gammas stored row by row: Gamma-Poisson factorisation, whose items are rows.

With a prior Gamma(c, d) of all entries, of the entries of row i and column k

    shape_ik = c + S a_ik,      rate_ik = S r_ik + t_k + u_i.

A count y_ui of a Poisson model says something of the shapes of row i alone. All it says of rates is
a sum over users, the same for all items (t_k), and what a rate of the row says is the same for all
columns (u_i). So a step moves the shapes of the batch's own rows, K numbers t and V numbers u; r is
where the rates began, and S takes it to zero.

`GammaRows` is the law as such a batch sees it: an exponential family of natural parameters (shapes
of its own rows, -t, -u) and statistics (log x of its own rows, sum_i x_ik, sum_k x_ik), all else
being its base measure. The sums of means over all rows are one division and two additions an entry,
and the only thing that a step does with all V x K numbers. They are computed when the columns are
taken, so that nothing of this size travels through the step."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from vijax import tree
from vijax.families.base import context_field, family
from vijax.families.by_row import StoredByRow
from vijax.families.numeric import special
from vijax.families.scalar.gamma import Family, Gamma, GammaStats
from vijax.tree import register

BLOCK = 2**16
"""Numbers that are read at once where all are: they stay in a core's cache."""
PROMISED: dict[str, Any] = {"indices_are_sorted": True, "unique_indices": True}


class GammaRowsStats(NamedTuple):
    """Statistics of a table x of V rows and K columns that a Gamma-Poisson bound reads."""

    log: Float[Array, "w k"]  # log x of some rows
    by_column: Float[Array, " k"]  # sum_i x_ik, over all rows
    by_row: Float[Array, " v"]  # sum_k x_ik, of all rows


class Sums(NamedTuple):
    """Context of the columns of a table."""

    log_rate: Float[Array, "w k"]  # of their rows
    by_column: Float[Array, " k"]  # the sums of the means of all rows
    by_row: Float[Array, " v"]
    prior_shape: Float[Array, ""]  # of every entry


@family
class GammaRows(Family):
    """Some rows of a table of gammas, and sums over all, as a step at mean statistics reads them:
    its statistics are known where the columns were taken (`GammaByRow.columns`), and not where a
    step leads. `GammaByRow.with_columns` takes the columns after a step, and has all methods of the
    law."""

    shape: Float[Array, "w k"]
    negative_column_rate: Float[Array, " k"]  # -t
    negative_row_rate: Float[Array, " v"]  # -u
    sums: Any = context_field()  # `Sums`

    Stats: ClassVar[type[tuple]] = GammaRowsStats
    event_ndims: ClassVar[tuple[int, ...]] = (2, 1, 1)

    def expected_stats(self) -> GammaRowsStats:
        return GammaRowsStats(
            special.digamma(self.shape) - self.sums.log_rate, self.sums.by_column, self.sums.by_row
        )

    def in_domain(self) -> Self:
        inside = (self.shape > 0, self.negative_column_rate <= 0, self.negative_row_rate < 0)
        return self.with_naturals(
            [x & jnp.isfinite(y) for x, y in zip(inside, tree.parameters(self), strict=True)]
        )

    def flat(self) -> Self:
        zeros = jnp.zeros_like(self.negative_column_rate), jnp.zeros_like(self.negative_row_rate)
        return self.with_naturals((jnp.ones_like(self.shape), *zeros))

    def kl_to_prior(self, prior: Self) -> Float[Array, ""]:
        """Zero: the penalty is of all rows, and `vijax.topics.by_words` evaluates it of them."""
        return jnp.zeros((), self.shape.dtype)

    def _of_all(self, *given: Any, **named: Any) -> Any:
        """Raises NotImplementedError: it is known of all rows."""
        raise NotImplementedError("GammaRows: ask the table of all rows, state.posterior.plain().")

    log_normalizer = stats = sample = mean = mode = kl = entropy = _of_all


@register
@dataclasses.dataclass(frozen=True)
class GammaByRow(StoredByRow):
    """A table of V x K gammas, as `vijax.topics.by_words` keeps it. A step takes `columns`; the
    methods of the law are those of `dense()`.

    >>> items = Gamma.from_shape_rate([[1.0, 2.0], [3.0, 4.0]], 2.0)
    >>> q = GammaByRow.from_law(items, jnp.asarray(0.5), jnp.asarray(1.0))
    >>> q.mean().tolist()
    [[0.5, 1.0], [1.5, 2.0]]
    >>> seen = q.columns(jnp.array([1, 2]))
    >>> seen.shape[0].tolist(), seen.expected_stats().by_column.tolist(), seen.expected_stats().by_row.tolist()
    ([3.0, 4.0], [2.0, 3.0], [1.5, 3.5])
    """

    entries: Float[Array, "v k"]  # a
    scale: Float[Array, ""]  # S
    rates: Float[Array, "v k"]  # r
    by_column: Float[Array, " k"]  # t
    by_row: Float[Array, " v"]  # u
    base_shape: Float[Array, ""]  # c
    base_rate: Float[Array, ""]  # d

    Stats: ClassVar[type[tuple]] = GammaStats
    event_ndims: ClassVar[tuple[int, ...]] = (0, 0)

    @classmethod
    def from_law(cls, q: Gamma, base_shape: Float[Array, ""], base_rate: Float[Array, ""]) -> Self:
        """The same law in this form; `base_shape` and `base_rate` are those of the prior, one
        number each."""
        dtype = q.shape.dtype
        zeros = [jnp.zeros(size, dtype) for size in q.shape.shape[::-1]]
        shape, rate = jnp.asarray(base_shape, dtype), jnp.asarray(base_rate, dtype)
        rates, by_column, by_row = jnp.broadcast_to(q.rate, q.shape.shape), *zeros
        return cls(q.shape - shape, jnp.ones((), dtype), rates, by_column, by_row, shape, rate)

    def columns(self, words: Int[Array, " w"]) -> GammaRows:
        take = lambda x: x.at[words].get(mode="clip", indices_are_sorted=True)
        rate = self.scale * take(self.rates) + self.by_column + take(self.by_row)[:, None]
        entries = self.entries.at[words].get(mode="fill", fill_value=0.0, **PROMISED)
        sums = Sums(jnp.log(rate), *self.summed_means(), self.base_shape)
        return GammaRows(
            self.base_shape + self.scale * entries, -self.by_column, -self.by_row, sums
        )

    def prior_columns(self, words: Int[Array, " w"]) -> GammaRows:
        """The prior's counterpart of `columns`, of which no statistics are asked: all of its rates
        is of rows."""
        shape = jnp.broadcast_to(self.base_shape, (words.size, self.entries.shape[1]))
        rate = jnp.broadcast_to(self.base_rate, self.by_row.shape)
        unknown = Sums(shape, self.by_column, self.by_row, self.base_shape)
        return GammaRows(shape, jnp.zeros_like(self.by_column), -rate, unknown)

    def summed_means(self) -> tuple[Float[Array, " k"], Float[Array, " v"]]:
        """Sums of the means over rows and over columns; block by block of rows, so that nothing of
        the size of all is written."""
        num_rows, num_columns = self.entries.shape
        size = min(num_rows, max(1, BLOCK // num_columns))

        def add(i: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
            start = jnp.minimum(i * size, num_rows - size)
            block = lambda x: jax.lax.dynamic_slice_in_dim(x, start, size)
            rate = self.scale * block(self.rates) + self.by_column + block(self.by_row)[:, None]
            mean = (self.base_shape + self.scale * block(self.entries)) / rate
            is_new = (
                start + jnp.arange(size) >= i * size
            )  # the last block begins within the one before it
            by_column = found[0] + jnp.matmul(is_new.astype(mean.dtype), mean, precision="highest")
            of_rows = jnp.matmul(mean, jnp.ones(num_columns, mean.dtype), precision="highest")
            return by_column, jax.lax.dynamic_update_slice_in_dim(found[1], of_rows, start, 0)

        zeros = jnp.zeros_like(self.by_column), jnp.zeros_like(self.by_row)
        return jax.lax.fori_loop(0, -(-num_rows // size), add, zeros)

    def with_columns(
        self, words: Array, to: GammaRows, kept: Float[Array, ""], ok: Bool[Array, ""]
    ) -> Self:
        (entries, rates), scale = self._shrink(kept, (self.entries, self.rates))
        at = jnp.where(ok, words, words + len(self.entries))
        entries = entries.at[at].set((to.shape - self.base_shape) / scale, mode="drop", **PROMISED)
        rated = {"by_column": -to.negative_column_rate, "by_row": -to.negative_row_rate}
        return dataclasses.replace(self, entries=entries, scale=scale, rates=rates, **rated)

    def divergence_from_base(self) -> Float[Array, "v k"]:
        return self.dense().kl(Gamma(self.base_shape, -self.base_rate))

    def dense(self) -> Gamma:
        """All shapes and rates."""
        rate = self.scale * self.rates + self.by_column + self.by_row[:, None]
        return Gamma(self.base_shape + self.scale * self.entries, -rate)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.entries.shape
