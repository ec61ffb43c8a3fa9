"""Tables of gammas stored row by row: Gamma-Poisson factorisation, whose items are rows.

With a prior Gamma(c, d) of all entries, the entry of row i and column k has

    shape_ik = c + S a_ik,      rate_ik = S r_ik + t_k + u_i.

A count y_ui of a Poisson model informs only the shapes of row i. Its message to the rates is a sum
over users, the same for all items (t_k), and the message of a row's rate is the same for all
columns (u_i). So a step moves the shapes of the rows in the batch, K numbers t and V numbers u; r
holds the initial rates, and S takes it to zero.

`GammaRows` is the law that such a batch sees: an exponential family with natural parameters (shapes
of the batch's rows, -t, -u) and statistics (log x of these rows, sum_i x_ik, sum_k x_ik); all other
factors are its base measure. A step reads all V x K numbers only for the sums of the means, one
division and two additions an entry. `columns` computes them, so that no array of this size is
passed through the step."""

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
"""Numbers in a block of a pass over all of them: a block stays in a core's cache."""
PROMISED: dict[str, Any] = {"indices_are_sorted": True, "unique_indices": True}


class GammaRowsStats(NamedTuple):
    """Statistics of a table x of V rows and K columns that a Gamma-Poisson bound reads."""

    log: Float[Array, "w k"]  # log x of some rows
    by_column: Float[Array, " k"]  # sum_i x_ik, over all rows
    by_row: Float[Array, " v"]  # sum_k x_ik, for all rows


class Sums(NamedTuple):
    """Context of the columns of a table."""

    log_rate: Float[Array, "w k"]  # log rates of the rows of the columns
    by_column: Float[Array, " k"]  # sums of means over all rows
    by_row: Float[Array, " v"]  # sums of means over all columns
    prior_shape: Float[Array, ""]  # c


@family
class GammaRows(Family):
    """Some rows of a table of gammas and sums over all rows, as a step at mean statistics reads
    them. Its mean statistics are those of the table that made it (`GammaByRow.columns`), also after
    a step; `GammaByRow.with_columns` puts the columns back into the table, which has all methods of
    the law."""

    shape: Float[Array, "w k"]
    negative_column_rate: Float[Array, " k"]  # -t
    negative_row_rate: Float[Array, " v"]  # -u
    sums: Any = context_field()  # `Sums`

    Stats: ClassVar[type[tuple]] = GammaRowsStats
    event_ndims: ClassVar[tuple[int, ...]] = (2, 1, 1)

    def expected_stats(self) -> GammaRowsStats:
        log = special.digamma(self.shape) - self.sums.log_rate
        return GammaRowsStats(log, self.sums.by_column, self.sums.by_row)

    def in_domain(self) -> Self:
        signs = (self.shape > 0, self.negative_column_rate <= 0, self.negative_row_rate < 0)
        parameters = tree.parameters(self)
        return self.with_naturals(
            [sign & jnp.isfinite(x) for sign, x in zip(signs, parameters, strict=True)]
        )

    def flat(self) -> Self:
        zeros = jnp.zeros_like(self.negative_column_rate), jnp.zeros_like(self.negative_row_rate)
        return self.with_naturals((jnp.ones_like(self.shape), *zeros))

    def kl_to_prior(self, prior: Self) -> Float[Array, ""]:
        """Zero: `vijax.topics.by_words` evaluates the penalty of all rows."""
        return jnp.zeros((), self.shape.dtype)

    def _raise_unknown(self, *args: Any, **kwargs: Any) -> Any:
        """NotImplementedError: only the table of all rows has this method."""
        raise NotImplementedError("GammaRows: ask the table of all rows, state.posterior.plain().")

    log_normalizer = stats = sample = mean = mode = kl = entropy = _raise_unknown


@register
@dataclasses.dataclass(frozen=True)
class GammaByRow(StoredByRow):
    """A table of V x K gammas, as `vijax.topics.by_words` stores it. A step reads `columns`; the
    methods of the law call `dense()`.

    >>> items = Gamma.from_shape_rate([[1.0, 2.0], [3.0, 4.0]], 2.0)
    >>> q = GammaByRow.from_law(items, jnp.asarray(0.5), jnp.asarray(1.0))
    >>> q.mean().tolist()
    [[0.5, 1.0], [1.5, 2.0]]
    >>> batch = q.columns(jnp.array([1, 2]))
    >>> mu = batch.expected_stats()
    >>> batch.shape[0].tolist(), mu.by_column.tolist(), mu.by_row.tolist()
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
        """The same law in this form; `base_shape` and `base_rate` are two numbers, the shape and
        rate of the prior."""
        dtype = q.shape.dtype
        num_rows, num_columns = q.shape.shape
        by_column = jnp.zeros(num_columns, dtype)
        by_row = jnp.zeros(num_rows, dtype)
        shape = jnp.asarray(base_shape, dtype)
        rate = jnp.asarray(base_rate, dtype)
        rates = jnp.broadcast_to(q.rate, q.shape.shape)
        return cls(q.shape - shape, jnp.ones((), dtype), rates, by_column, by_row, shape, rate)

    def columns(self, words: Int[Array, " w"]) -> GammaRows:
        take = lambda x: x.at[words].get(mode="clip", indices_are_sorted=True)
        rate = self.scale * take(self.rates) + self.by_column + take(self.by_row)[:, None]
        entries = self.entries.at[words].get(mode="fill", fill_value=0.0, **PROMISED)
        sums = Sums(jnp.log(rate), *self.summed_means(), self.base_shape)
        shape = self.base_shape + self.scale * entries
        return GammaRows(shape, -self.by_column, -self.by_row, sums)

    def prior_columns(self, words: Int[Array, " w"]) -> GammaRows:
        """`columns` of the prior, whose rates are all in u. Its sums are placeholders, because
        nothing reads its statistics."""
        shape = jnp.broadcast_to(self.base_shape, (words.size, self.entries.shape[1]))
        rate = jnp.broadcast_to(self.base_rate, self.by_row.shape)
        placeholders = Sums(shape, self.by_column, self.by_row, self.base_shape)
        return GammaRows(shape, jnp.zeros_like(self.by_column), -rate, placeholders)

    def summed_means(self) -> tuple[Float[Array, " k"], Float[Array, " v"]]:
        """Sums of the means over rows and over columns; block by block of rows, so that no array of
        V x K numbers is written."""
        num_rows, num_columns = self.entries.shape
        size = min(num_rows, max(1, BLOCK // num_columns))

        def add(i: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
            by_column, by_row = sums
            start = jnp.minimum(i * size, num_rows - size)
            block = lambda x: jax.lax.dynamic_slice_in_dim(x, start, size)
            rate = self.scale * block(self.rates) + self.by_column + block(self.by_row)[:, None]
            mean = (self.base_shape + self.scale * block(self.entries)) / rate
            # The last block begins inside the block before it.
            is_new = (start + jnp.arange(size) >= i * size).astype(mean.dtype)
            by_column = by_column + jnp.matmul(is_new, mean, precision="highest")
            row_sums = jnp.matmul(mean, jnp.ones(num_columns, mean.dtype), precision="highest")
            return by_column, jax.lax.dynamic_update_slice_in_dim(by_row, row_sums, start, 0)

        zeros = jnp.zeros_like(self.by_column), jnp.zeros_like(self.by_row)
        return jax.lax.fori_loop(0, -(-num_rows // size), add, zeros)

    def with_columns(
        self, words: Array, to: GammaRows, kept: Float[Array, ""], ok: Bool[Array, ""]
    ) -> Self:
        (entries, rates), scale = self._shrink(kept, (self.entries, self.rates))
        targets = jnp.where(ok, words, words + len(self.entries))  # beyond V nothing is written
        new = (to.shape - self.base_shape) / scale
        entries = entries.at[targets].set(new, mode="drop", **PROMISED)
        sums = {"by_column": -to.negative_column_rate, "by_row": -to.negative_row_rate}
        return dataclasses.replace(self, entries=entries, scale=scale, rates=rates, **sums)

    def divergence_from_base(self) -> Float[Array, "v k"]:
        return self.dense().kl(Gamma(self.base_shape, -self.base_rate))

    def dense(self) -> Gamma:
        """The law of all shapes and rates."""
        rate = self.scale * self.rates + self.by_column + self.by_row[:, None]
        return Gamma(self.base_shape + self.scale * self.entries, -rate)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.entries.shape
