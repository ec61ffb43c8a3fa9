"""The rows of a table of counts that are nearest to being pure: successive projections (Araujo et al. 2001; Gillis and
Vavasis 2014), with rows weighted by their counts.

Rows that are mixtures of K profiles, y_t ~ Poisson(sum_k n_tk p_k), lie in a cone whose edges are the profiles. The row
farthest from zero lies near an edge; after projection on the complement of this row, the farthest row lies near another
edge, and so on. With y_t / n_t, n_t the row's total, a row of two counts would look purest of all; with

    x_t = y_t / sqrt(n_t),    sum_f Var x_tf = 1,

noise is equally large in every row, and a row is chosen when its counts are evidence of its purity.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

_OTHERS = 0.5


def corner_rows(
    key: PRNGKeyArray, y: Float[Array, "T F"], weights: Float[Array, " T"], num_rows: int
) -> Int[Array, " K"]:
    """The numbers of `num_rows` rows of y, by successive projections.

    Args:
      key: half of the rows, drawn by it, are preferred (the squared lengths of the others count half), so that another
        key finds other rows where many are equally good.
      y: counts.
      weights: 0 in padding, which is taken only where nothing is left.
      num_rows: number of rows; beyond the rank of y they are filled up with rows that repeat others.

    >>> pure = jnp.array([[8.0, 0, 1, 0], [0, 9, 0, 0], [1, 0, 0, 8]])
    >>> mixed = jnp.array([[1.0, 0.3, 0.3], [0.3, 1.0, 0.3], [0.3, 0.3, 1.0]]) @ pure / 1.6
    >>> rows = corner_rows(jax.random.key(0), jnp.concatenate([mixed, pure]), jnp.ones(6), 3)
    >>> sorted(rows.tolist())
    [3, 4, 5]
    """
    total = jnp.sum(y, axis=1, keepdims=True)
    known = (weights > 0)[:, None]
    x = jnp.where(known, y / jnp.sqrt(jnp.maximum(total, 1.0)), 0.0)
    preferred = jnp.where(jax.random.bernoulli(key, 0.5, (len(y),)), 1.0, _OTHERS)
    tiny = jnp.finfo(x.dtype).tiny

    def choose(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        chosen, left = carry
        squares = jnp.sum(left**2, axis=1)
        row = jnp.argmax(squares * preferred).astype(jnp.int32)
        edge = left[row] / jnp.sqrt(jnp.maximum(squares[row], tiny))
        along = jnp.matmul(left, edge, precision="highest")
        return chosen.at[k].set(row), left - along[:, None] * edge

    return jax.lax.fori_loop(0, num_rows, choose, (jnp.zeros(num_rows, jnp.int32), x))[0]
