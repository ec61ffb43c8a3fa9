"""Sums over groups in chunks that fit in cache; the gradient of each chunk is taken while its
intermediates are in cache.

Reverse mode over a whole batch keeps every intermediate of every group: a mixture of K Gaussians in
D dimensions keeps N x K x D floats, and reads them from memory twice. `sum_over_chunks`
differentiates one chunk at a time instead and adds up the gradients, and keeps nothing of the size
of the batch: half the time for a mixture of full-covariance Gaussians (N = 10,000, K = 30, D =
64, float32).

Large tables are cut into blocks. XLA fuses elementwise work into few passes over memory, but not
across a reduction, a transposition or two uses of an expensive number: there it writes a table for
each. A loop over blocks reads and writes its tables once, and a block stays in a core's cache.
Tables of one block are not cut: small models compile to programs without loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from vijax.xla.device import count_parts

ACCELERATOR_BYTES = 2**29  # rows given to an accelerator at once: enough to keep it busy
CACHE_BYTES = 2**22
LEAST_GROUPS = 64  # per chunk: fewer would not fill the vector units

ChunkFunction = Callable[[PyTree, PyTree], tuple[Float[Array, ""], PyTree]]


def sum_over_chunks(
    fn: ChunkFunction, shared: PyTree, chunks: PyTree
) -> tuple[Float[Array, ""], PyTree]:
    """Sum over chunks of `fn(shared, chunk)`, with a gradient in `shared` that costs one pass.

    Under reverse-mode differentiation value and gradient of each chunk are computed together;
    without it, no gradient is computed. `fn` must not close over values that are themselves
    differentiated: pass them in `shared`.

    Args:
      fn: `(shared, chunk) -> (scalar, aux)`, differentiable in `shared`.
      shared: a pytree of floating-point arrays that every chunk reads.
      chunks: a pytree, every leaf with a leading axis of chunks; see `split_chunks`.

    Returns:
      The total, differentiable in `shared`, and the `aux` of the chunks, stacked along a leading
      axis. `aux` and `chunks` are constants to differentiation.

    >>> chunks = split_chunks(jnp.arange(6.0), most=2)
    >>> total = lambda slope: sum_over_chunks(lambda b, y: (jnp.sum(b * y**2), None), slope, chunks)[0]
    >>> print(*jax.value_and_grad(total)(2.0))
    110.0 55.0
    """
    total, aux = _sum(fn, shared, chunks)
    return total, jax.lax.stop_gradient(aux)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _sum(fn: ChunkFunction, shared: PyTree, chunks: PyTree) -> tuple[Array, PyTree]:
    def add(total: Array, chunk: PyTree) -> tuple[Array, PyTree]:
        value, aux = fn(shared, chunk)
        return total + value, aux

    value = jax.eval_shape(lambda: fn(shared, jax.tree.map(lambda x: x[0], chunks))[0])
    return jax.lax.scan(add, jnp.zeros((), value.dtype), chunks)


def _forward(
    fn: ChunkFunction, shared: PyTree, chunks: PyTree
) -> tuple[tuple[Array, PyTree], PyTree]:
    value_and_grad = jax.value_and_grad(fn, has_aux=True)

    def add(carry: PyTree, chunk: PyTree) -> tuple[PyTree, PyTree]:
        (value, aux), grad = value_and_grad(shared, chunk)
        return jax.tree.map(jnp.add, carry, (value, grad)), aux

    like = jax.eval_shape(lambda: value_and_grad(shared, jax.tree.map(lambda x: x[0], chunks)))
    (value, _), grad = like
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (value, grad))
    (total, grad), aux = jax.lax.scan(add, zeros, chunks)
    return (total, aux), grad


def _backward(fn: ChunkFunction, grad: PyTree, cotangents: Any) -> tuple[PyTree, None]:
    return jax.tree.map(lambda g: cotangents[0] * g, grad), None


_sum.defvjp(_forward, _backward)


def split_chunks(tree: PyTree, most: int, repeat_last: bool = False) -> PyTree:
    """Splits the leading axis of every leaf into equal chunks of at most `most` rows, with fewer
    added rows than there are chunks. The added rows are zeros (a zero row of `Documents` is a
    padding document), or copies of the last row for data in which zeros have no meaning.

    >>> split_chunks(jnp.arange(5), 4)
    Array([[0, 1, 2],
           [3, 4, 0]], dtype=int32)
    """

    def split(leaf: Array) -> Array:
        chunks = max(1, -(-leaf.shape[0] // most))
        missing = -leaf.shape[0] % chunks
        if missing and repeat_last:
            leaf = jnp.concatenate([leaf, jnp.repeat(leaf[-1:], missing, axis=0)])
        elif missing:
            leaf = jnp.pad(leaf, [(0, missing)] + [(0, 0)] * (leaf.ndim - 1))
        return leaf.reshape(chunks, -1, *leaf.shape[1:])

    return jax.tree.map(split, tree)


def merge_chunks(tree: PyTree, size: int) -> PyTree:
    """The inverse of `split_chunks`: joins the two leading axes of every leaf and keeps the first
    `size` rows."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:size], tree)


def groups_per_chunk(fn: Callable[..., Any], *args: Any) -> int:
    """The number of evaluations of `fn(*args)`, the bound of one group, whose largest intermediates
    fill the cache. It is larger if the arguments exceed the cache, because their gradient is added
    up once per chunk.

    >>> if jax.default_backend() == "cpu":
    ...     print(groups_per_chunk(lambda y: jnp.sum(jnp.outer(y, y)), jnp.ones(64)))
    256
    """
    outputs = [out.aval for equation in jax.make_jaxpr(fn)(*args).eqns for out in equation.outvars]
    largest = max((4 * aval.size for aval in outputs if hasattr(aval, "size")), default=4)
    budget = CACHE_BYTES if jax.default_backend() == "cpu" else ACCELERATOR_BYTES
    arguments = sum(4 * jnp.size(leaf) for leaf in jax.tree.leaves(args))
    return max(LEAST_GROUPS, max(budget, arguments) // max(largest, 1))


# --- blocks of tables ----------------------------------------------------------------------------
CPU_BLOCK = 2**18
"""Numbers in a block that stays in a core's cache."""
ACCELERATOR_BLOCK = 2**25
"""Numbers in a block that keeps an accelerator busy."""
Table = Array | Callable[[], Array]


def block_length(shape: Sequence[int], axis: int) -> int:
    """The length of a block along an axis; the whole length if the table is at most two blocks.
    Where XLA splits tables over devices along another axis, each device has its share of a block.

    >>> block_length((2, 3), 1)
    3
    """
    block = ACCELERATOR_BLOCK
    if jax.default_backend() == "cpu":
        block = CPU_BLOCK
    numbers = -(-math.prod(shape) // count_parts())
    if numbers <= 2 * block:
        return shape[axis]
    return max(1, block * shape[axis] // numbers)


def map_blocks(
    fn: Callable[..., tuple[Array, ...]],
    axes: Sequence[int],
    result_axes: Sequence[int],
    *tables: Array,
    over: tuple[Array, ...] = (),
) -> tuple[Array, ...]:
    """`fn(*tables)`, computed block by block.

    Args:
      fn: blocks -> results; a part of a result depends on the same part of the tables only.
      axes: the axis along which each table is cut; all are equally long there.
      result_axes: the same of each result.
      *tables: the tables.
      over: arrays of the shapes of the results, which nobody reads any more: the results are
        written over them. Without them they take new memory, which is filled once more.

    >>> table = jnp.arange(6.0).reshape(2, 3)
    >>> double, total = map_blocks(lambda x: (2 * x.T, jnp.sum(x, 0)), (1,), (0, 0), table)
    >>> double.tolist(), total.tolist()
    ([[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]], [3.0, 5.0, 7.0])
    """
    length = tables[0].shape[axes[0]]
    size = block_length(tables[0].shape, axes[0])
    if size == length:
        return fn(*tables)

    def put(i: Array, results: tuple[Array, ...]) -> tuple[Array, ...]:
        start = jnp.minimum(i * size, length - size)  # the last block begins inside the one before
        parts = fn(*_cut(tables, axes, start, size))
        zipped = zip(results, parts, result_axes, strict=True)
        return tuple(
            lax.dynamic_update_slice_in_dim(x, part, start, axis) for x, part, axis in zipped
        )

    def fill(part: Any, axis: int) -> Array:
        shape = list(part.shape)
        shape[axis] = length
        # No zeros: of equal constants XLA would make one array, and copy it.
        return jnp.ones(shape, part.dtype)

    parts = jax.eval_shape(lambda: fn(*_cut(tables, axes, 0, size)))
    results = over or tuple(map(fill, parts, result_axes))
    return lax.fori_loop(0, -(-length // size), put, results)


def sum_blocks(fn: Callable[..., PyTree], axes: Sequence[int], *tables: Table) -> PyTree:
    """The sum of `fn(*blocks)` over the blocks of tables.

    Args:
      fn: blocks -> a pytree of numbers or arrays.
      axes: the axis along which each table is cut.
      *tables: the tables. A function without arguments stands for a table that is made of few
        numbers, such as a prior: only its blocks are computed. The first table is an array.

    >>> print(sum_blocks(jnp.sum, (1,), jnp.ones((2, 3))))
    6.0
    """
    first: Any = tables[0]
    length = first.shape[axes[0]]
    size = block_length(first.shape, axes[0])
    if size == length:
        return fn(*map(_table, tables))

    def add(i: Array, total: PyTree) -> PyTree:
        return jax.tree.map(jnp.add, total, fn(*_cut(tables, axes, i * size, size)))

    count, remainder = divmod(length, size)
    shapes = jax.eval_shape(lambda: fn(*_cut(tables, axes, 0, size)))
    total = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    total = lax.fori_loop(0, count, add, total)
    if remainder:
        last = fn(*_cut(tables, axes, count * size, remainder))
        total = jax.tree.map(jnp.add, total, last)
    return total


def _cut(tables: Sequence[Table], axes: Sequence[int], start: Any, size: int) -> list[Array]:
    """A block of each table."""
    pairs = zip(tables, axes, strict=True)
    return [lax.dynamic_slice_in_dim(_table(x), start, size, axis) for x, axis in pairs]


def _table(table: Table) -> Array:
    """A table, made if it is given by a function."""
    if callable(table):
        return table()
    return table
