"""Sums over the rows of a table that words look up, with the gradient accumulated row by row, in
place.

A bag-of-words model reads its topics through a gather, rows = table[words], and its message is the
gradient of the local bound in the table. Plain reverse mode would keep the rows of the whole batch
(docs x slots x K) and scatter them at the end, or add a dense V x K gradient per chunk.
`sum_over_rows` goes through chunks of documents that fit in cache, differentiates the bound of one
chunk at a time, and adds its row gradients to a single V x K accumulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.xla import native
from vijax.xla.chunks import ACCELERATOR_BYTES
from vijax.xla.device import count_parts

RowFunction = Callable[[Array, PyTree, Any, PRNGKeyArray], tuple[Array, PyTree]]
AtOnce = Callable[
    [Array, PyTree, Sequence[Any], PRNGKeyArray],
    tuple[tuple[Array, tuple[PyTree, ...]], tuple[Array, PyTree]],
]


def sum_over_rows(
    fn: RowFunction,
    table: Float[Array, "words topics"],
    shared: PyTree,
    chunks: Sequence[Any],
    key: PRNGKeyArray,
    at_once: AtOnce | None = None,
) -> tuple[Float[Array, ""], tuple[PyTree, ...]]:
    """Sum over chunks of `fn(table[chunk.words], shared, chunk, key)`, with a gradient that costs
    one pass.

    Under reverse-mode differentiation the forward pass computes value and gradient of each chunk in
    turn, so it keeps nothing of the size of the batch; without it, no gradient is computed. `fn`
    must not close over values that are themselves differentiated: pass them in `shared`.

    Args:
      fn: `(rows (docs, slots, K), shared, chunk, key) -> (scalar, aux)`, differentiable in `rows`
          and `shared`.
      table: the rows to look up, (V, K).
      shared: a pytree of floating-point arrays that every chunk reads.
      chunks: groups of equally shaped chunks (one per length bucket): pytrees, every leaf with a
        leading chunk axis, with an attribute `words`, integer, (chunks, docs, slots), all in [0,
        V). See `split_chunks`.
      key: split into one key per chunk.
      at_once: `(table, shared, chunks, key) -> (the results of this function, the gradients in
        table and shared)`, the same by a CPU kernel, which splits the key in the same way; None if
        `fn` has no kernel.

    Returns:
      The total, differentiable in `table` and `shared`; and for each group the `aux` of its chunks,
      stacked along a leading chunk axis. `aux` and `chunks` are constants to differentiation: their
      gradient is zero.

    >>> import jax, jax.numpy as jnp
    >>> from vijax.contract.batch import Documents
    >>> from vijax.xla.chunks import split_chunks
    >>> docs = Documents(jnp.array([[0, 2], [1, 0]]), jnp.array([[1.0, 2.0], [3.0, 0.0]]), jnp.ones(2), 3)
    >>> def log_mix(rows, weights, chunk, key):
    ...     return jnp.sum(chunk.counts * jnp.log(rows @ weights)), None
    >>> total = lambda table: sum_over_rows(log_mix, table, jnp.array([0.5, 0.5]), (split_chunks(docs, 1),), key)[0]
    >>> key, table = jax.random.key(0), jnp.array([[1.0, 1.0], [2.0, 2.0], [3.0, 1.0]])
    >>> jax.grad(total)(table)
    Array([[0.5 , 0.5 ],
           [0.75, 0.75],
           [0.5 , 0.5 ]], dtype=float32)
    """
    total, aux = _sum_over_rows(fn, at_once, table, shared, tuple(chunks), key)
    return total, jax.lax.stop_gradient(aux)


def sum_with_gradients(
    fn: RowFunction,
    table: Float[Array, "words topics"],
    shared: PyTree,
    chunks: Sequence[Any],
    key: PRNGKeyArray,
    at_once: AtOnce | None = None,
) -> tuple[tuple[Array, tuple[PyTree, ...]], tuple[Array, PyTree]]:
    """The results of `sum_over_rows`, and the gradients in table and `shared`, for a custom
    derivative of what the table is made of."""
    return _forward(fn, at_once, table, shared, tuple(chunks), key)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _sum_over_rows(fn, at_once, table, shared, groups, key):
    values_only = lambda results: results[0]
    return _use(at_once, values_only, partial(_sum_values, fn), table, shared, groups, key)


def _forward(fn, at_once, table, shared, groups, key):
    everything = lambda results: results
    return _use(at_once, everything, partial(_sum_gradients, fn), table, shared, groups, key)


def _use(at_once, select, by_chunk, table, shared, groups, key):
    """The results of `at_once` that `select` picks, if it can be used; else those of `by_chunk`."""
    if at_once is None or not _has_one_type(table, shared, groups):
        return by_chunk(table, shared, groups, key)

    def by_kernel(table, shared, groups, key):
        return select(at_once(table, shared, groups, key))

    return native.use_kernel(by_kernel, by_chunk, table, shared, groups, key)


def _has_one_type(table, *trees):
    """True if all numbers have the table's type, and kernels exist for that type."""
    arrays = map(jnp.asarray, jax.tree.leaves(trees))
    types = {x.dtype for x in arrays if jnp.issubdtype(x.dtype, jnp.floating)}
    return table.dtype in (np.float32, np.float64) and types <= {table.dtype}


def _sum_values(fn, table, shared, groups, key):
    def add_chunk(total, chunk, key):
        value, aux = fn(_rows(table, chunk.words), shared, chunk, key)
        return total + value, aux

    return _scan_groups(add_chunk, jnp.zeros((), table.dtype), groups, key)


def _sum_gradients(fn, table, shared, groups, key):
    value_and_grad = jax.value_and_grad(fn, argnums=(0, 1), has_aux=True)

    def add_chunk(carry, chunk, key):
        total, table_grad, shared_grad = carry
        rows = _rows(table, chunk.words)
        (value, aux), (rows_grad, grad) = value_and_grad(rows, shared, chunk, key)
        table_grad = table_grad.at[chunk.words].add(rows_grad, mode="promise_in_bounds")
        return (total + value, table_grad, jax.tree.map(jnp.add, shared_grad, grad)), aux

    zero = jnp.zeros((), table.dtype)
    zeros = zero, jnp.zeros_like(table), jax.tree.map(jnp.zeros_like, shared)
    (total, *grads), aux = _scan_groups(add_chunk, zeros, groups, key)
    return (total, aux), tuple(grads)


def _backward(fn, at_once, grads, cotangents):
    table_grad, shared_grad = jax.tree.map(lambda g: cotangents[0] * g, grads)
    return table_grad, shared_grad, None, None


_sum_over_rows.defvjp(_forward, _backward)


def _scan_groups(body, carry, groups, key):
    """`body(carry, chunk, key) -> (carry, aux)` over every chunk of every group; one compiled body
    per group."""
    ends = np.cumsum([group.words.shape[0] for group in groups])
    # One split for all groups: a split in each group would be compiled for each
    keys = jnp.split(jax.random.split(key, ends[-1]), ends[:-1]) if groups else []
    auxs = []
    for group, group_keys in zip(groups, keys, strict=True):
        carry, aux = jax.lax.scan(lambda c, x: body(c, *x), carry, (group, group_keys))
        auxs.append(aux)
    return carry, tuple(auxs)


def _rows(table, words):
    return table.at[words].get(mode="promise_in_bounds")


def docs_per_chunk(
    num_slots: int, num_topics: int, cache_bytes: int = 2**18, most: int | None = None
) -> int:
    """The number of rows of `num_slots` x `num_topics` float32 that fill a cache, at least one and
    at most `most`. On an accelerator it is far larger: every operation has its cost there, and
    cache size does not matter. Where topics are split over devices, each has its share of a row.

    >>> docs_per_chunk(num_slots=128, num_topics=64) if jax.default_backend() == "cpu" else 8
    8
    """
    if jax.default_backend() != "cpu":
        cache_bytes = ACCELERATOR_BYTES
        most = None
    share = -(-num_topics // count_parts())
    docs = max(1, cache_bytes // (4 * max(1, num_slots) * share))
    return docs if most is None else min(docs, most)
