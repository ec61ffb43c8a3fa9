"""The E-step of logistic-normal topics and its bound by compiled kernels (`vijax.xla.native`): what
they are given.

The kernels draw as `jax.random` does, from keys of its usual kind, so that XLA finds the same q(z)
up to rounding. In a step each chunk has the key of each of its documents, `chunk.keys`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from vijax.xla import native
from vijax.xla.gather import AtOnce
from vijax.xla.random_bits import is_usual

Settings = dict[str, int | float]
"""Those of `proximal_gradient` with draws, by the names of the kernels."""


def inferred(
    settings: Settings | None,
    by_xla: Callable[..., Any],
    problem: Any,
    start: Any,
    key: PRNGKeyArray,
) -> Any:
    """q(z) of a chunk of documents by a kernel, where that can be used; else `by_xla(problem,
    start, key)`."""
    given = problem.likelihood.dtype
    if (
        settings is None
        or not is_usual(key)
        or any(x.dtype != given for x in (*problem, start.mean, start.site))
    ):
        return by_xla(problem, start, key)

    def by_kernel(problem: Any, start: Any, key: PRNGKeyArray) -> Any:
        linear = jnp.broadcast_to(problem.linear, start.mean.shape)
        numbers = (
            problem.likelihood,
            problem.counts,
            linear,
            problem.precision,
            start.mean,
            start.site,
        )
        words = jax.random.key_data(key)
        return type(start)(
            *native.call(f"logistic_normal_{given}", _like(start), *numbers, words, **settings)
        )

    return native.use_kernel(by_kernel, by_xla, problem, start, key)


def table_step(
    settings: Settings | None, num_samples: int, law: Any, key: PRNGKeyArray
) -> AtOnce | None:
    """E-step, bound and its gradient in one compiled call, for `vijax.xla.gather.sum_over_rows`;
    None where a kernel has no such E-step, or cannot read the key.

    Args:
      settings: of the E-step; None where there is no kernel.
      num_samples: draws that the bound is averaged over.
      law: (statistics of the globals behind z, documents) -> `NormalWishartStats` of mu and
          Sigma^-1.
      key: that of the draws.
    """
    if settings is None or not is_usual(key):
        return None
    return functools.partial(_by_kernel, settings | {"bound_draws": num_samples}, law)


def _by_kernel(
    settings: Settings, law: Any, table: Array, given: Any, groups: Sequence[Any], key: PRNGKeyArray
) -> tuple[tuple[Array, tuple[Any, ...]], tuple[Array, Any]]:
    """See `vijax.xla.gather.AtOnce`: the total; the value of each document and its q(z); the
    gradient of the total in the table and in `given`."""
    total, found, gradient = jnp.zeros((), table.dtype), [], jnp.zeros_like(table)
    shared = jax.tree.map(jnp.zeros_like, given)
    for group in groups:
        chunks = group.words.shape[:2]
        flat = lambda x: x.reshape(-1, *x.shape[2:])
        docs, start, keys = jax.tree.map(flat, (group.documents, group.start, group.keys))
        stats = law(given, docs)
        linear = jnp.broadcast_to(stats.precision_times_mean, start.mean.shape)
        ids = docs.words.astype(jnp.int32)
        numbers = (
            table,
            ids,
            docs.counts,
            docs.weights,
            linear,
            stats.precision,
            start.mean,
            start.site,
            keys,
        )
        results = [*_like(start), *_like((docs.weights, stats.precision, table))]
        name = f"logistic_normal_step_{table.dtype}"
        *local, bound, second, gradient = native.call(
            name, results, *numbers, gradient, aliases={9: 5}, **settings
        )
        local = type(start)(*local)
        weighed = functools.partial(_weighed, law, docs, local.mean, second)
        shared = jax.tree.map(jnp.add, shared, jax.grad(weighed)(given))
        per_doc = bound + _of_law(stats, local.mean)
        total += jnp.vdot(docs.weights, per_doc)
        found.append(jax.tree.map(functools.partial(_in_chunks, chunks), (per_doc, local)))
    return (total, tuple(found)), (gradient, shared)


def _in_chunks(chunks: tuple[int, ...], x: Array) -> Array:
    return x.reshape(*chunks, *x.shape[1:])


def _of_law(stats: Any, mean: Array) -> Array:
    """E_q[log N(z; mu, Sigma)] + K log(2 pi) / 2 of each document, but for -<Sigma^-1, E z z'> /
    2."""
    return 0.5 * (stats.log_det - stats.quadratic) + jnp.sum(
        jnp.atleast_2d(stats.precision_times_mean) * mean, 1
    )


def _weighed(law: Any, docs: Any, mean: Array, second: Array, given: Any) -> Array:
    """E_q[log N(z; mu, Sigma)] of all documents by their weights; `second` is the sum of E z z'."""
    stats = law(given, docs)
    return jnp.vdot(docs.weights, _of_law(stats, mean)) - 0.5 * jnp.vdot(stats.precision, second)


def _like(arrays: Sequence[Array]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
