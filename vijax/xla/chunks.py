"""Sums over groups in chunks that fit in cache; the gradient of each chunk is taken while its
intermediates are in cache.

Reverse mode over a whole batch keeps every intermediate of every group: a mixture of K Gaussians in
D dimensions keeps N x K x D floats, and reads them from memory twice. `sum_over_chunks`
differentiates one chunk at a time instead and adds up the gradients, and keeps nothing of the size
of the batch: half the time for a mixture of full-covariance Gaussians (N = 10,000, K = 30, D =
64, float32)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

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
