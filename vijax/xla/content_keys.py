"""Random keys from the contents of a row, not from its place. So a row has the same draws alone,
among others, in another order, and in a batch of another size.

Rows with the same contents have the same draws. So a row that counts twice is the same as two equal
rows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree, UInt32


def row_keys(key: PRNGKeyArray, codes: UInt32[Array, " rows"]) -> PRNGKeyArray:
    """A key for each row, from one key and the codes of the rows."""
    return jax.vmap(jax.random.fold_in, (None, 0))(key, codes)


def fold_in_each(key: PRNGKeyArray, number: Any) -> PRNGKeyArray:
    """`jax.random.fold_in` of one key, or of each of several."""
    if jnp.ndim(key) == 0:
        return jax.random.fold_in(key, number)
    return jax.vmap(lambda key: jax.random.fold_in(key, number))(key)


def bag_codes(
    words: Int[Array, "docs slots"], counts: Float[Array, "docs slots"]
) -> UInt32[Array, " docs"]:
    """A code of each bag of words, which depends neither on the order of words nor on padding.

    >>> words, counts = jnp.array([[4, 7, 0], [7, 4, 0], [7, 4, 0]]), jnp.array([[1.0, 2, 0], [2, 1, 0], [1, 2, 0]])
    >>> one, same, other = bag_codes(words, counts).tolist()
    >>> one == same, one == other, one == int(bag_codes(words[:1, :2], counts[:1, :2])[0])
    (True, False, True)
    """
    codes = _mix(_mix(words.astype(jnp.uint32)) ^ _bits(counts))
    return _mix(jnp.sum(jnp.where(counts > 0, codes, 0), 1, dtype=jnp.uint32))


def row_codes(data: PyTree) -> UInt32[Array, " rows"]:
    """A code of each row of arrays whose leading axis is that of rows. Zeros count nothing, so that
    padding with zeros at the end of an axis changes no code; numbers are compared in float32.

    >>> x = jnp.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
    >>> one, other, same = row_codes(x).tolist()
    >>> one == same, one == other
    (True, False)
    """
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(data)]
    total = jnp.zeros(leaves[0].shape[0], jnp.uint32)
    for number, leaf in enumerate(leaves):
        bits = _bits(leaf)
        places = jnp.full((), number + 1, jnp.uint32)
        for axis in range(1, leaf.ndim):
            shape = [1] * leaf.ndim  # with all axes, so that no rank is promoted
            shape[axis] = leaf.shape[axis]
            index = jnp.arange(leaf.shape[axis], dtype=jnp.uint32).reshape(shape)
            places = _mix(places ^ _mix(index + jnp.uint32(axis)))
        codes = jnp.where(bits == 0, 0, _mix(bits ^ places))
        total += jnp.sum(codes, tuple(range(1, leaf.ndim)), dtype=jnp.uint32)
    return _mix(total)


def exact_row_codes(data: PyTree) -> UInt32[Array, " rows"]:
    """As `row_codes`, but of all digits of numbers, including the digits of float64 and of integers
    that float32 drops.

    >>> numbers = jnp.array([2**24, 2**24 + 1])  # one number in float32
    >>> one, other = exact_row_codes(numbers).tolist()
    >>> one == other
    False
    """
    return row_codes([_float32_parts(jnp.asarray(leaf)) for leaf in jax.tree.leaves(data)])


def _float32_parts(x: Array) -> tuple[Array, ...]:
    """Numbers as float32, and the remainders: zeros, which count nothing, for numbers that float32
    holds."""
    if x.dtype in (jnp.bool_, jnp.float32, jnp.float16, jnp.bfloat16):
        return (x.astype(jnp.float32),)
    rounded = x.astype(jnp.float32)
    return rounded, (x - rounded.astype(x.dtype)).astype(jnp.float32)


def distinct_codes(
    codes: UInt32[Array, " rows"], weights: Float[Array, " rows"] | None = None
) -> UInt32[Array, " rows"]:
    """Codes that differ also between equal rows, by the order of these rows: for draws that must be
    independent, if many rows are alike. Rows of weight 0 come last.

    >>> codes = jnp.array([5, 7, 5], jnp.uint32)
    >>> distinct = distinct_codes(codes)
    >>> len(set(distinct.tolist())), distinct[1] == distinct_codes(codes[1:2])[0]
    (3, Array(True, dtype=bool))
    """
    padding = jnp.zeros(codes.shape, bool) if weights is None else weights <= 0
    order = jnp.lexsort((padding, codes))
    ranked = codes[order]
    rank = jnp.arange(len(codes)) - jnp.searchsorted(ranked, ranked, side="left")
    return codes.at[order].set(_mix(ranked + jnp.uint32(0x9E3779B9) * rank.astype(jnp.uint32)))


def distinct_row_keys(key: PRNGKeyArray, data: PyTree, weights: Any = None) -> PRNGKeyArray:
    """A key for each row of arrays, by its contents, and for equal rows by their order."""
    return row_keys(key, distinct_codes(row_codes(data), weights))


def _bits(x: Array) -> UInt32[Array, ...]:
    """The bits of numbers as float32; -0 is 0."""
    x = x.astype(jnp.float32)
    return jax.lax.bitcast_convert_type(jnp.where(x == 0, 0.0, x), jnp.uint32)


def _mix(x: UInt32[Array, ...]) -> UInt32[Array, ...]:
    """Bits that each depend on all bits of x: the finaliser of MurmurHash3, after the sum with a
    constant, so that 0 does not stay 0."""
    x = x + jnp.uint32(0x9E3779B9)
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
