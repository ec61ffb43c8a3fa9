"""Calls of the compiled kernels (`vijax.xla.native`) for the E-step of logistic-normal topics and
its bound.

The kernels draw as `jax.random` does, from keys of its usual kind, so XLA finds the same q(z) up to
rounding. In a step each chunk has the keys of its documents, `chunk.keys`."""

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
"""Settings of `proximal_gradient` with draws, by the names of the kernels."""


def infer_locals(
    settings: Settings | None,
    run_xla: Callable[..., Any],
    problem: Any,
    start: Any,
    key: PRNGKeyArray,
) -> Any:
    """q(z) of a chunk of documents, by the kernel if it serves; else `run_xla(problem, start,
    key)`."""
    dtype = problem.likelihood.dtype
    is_mixed = any(x.dtype != dtype for x in (*problem, start.mean, start.site))
    if settings is None or not is_usual(key) or is_mixed:
        return run_xla(problem, start, key)

    def run_kernel(problem: Any, start: Any, key: PRNGKeyArray) -> Any:
        linear = jnp.broadcast_to(problem.linear, start.mean.shape)
        inputs = (
            problem.likelihood,
            problem.counts,
            linear,
            problem.precision,
            start.mean,
            start.site,
            jax.random.key_data(key),
        )
        results = native.call(f"logistic_normal_{dtype}", _shapes(start), *inputs, **settings)
        return type(start)(*results)

    return native.use_kernel(run_kernel, run_xla, problem, start, key)


def table_step(
    settings: Settings | None, num_samples: int, law: Any, key: PRNGKeyArray
) -> AtOnce | None:
    """A function for `vijax.xla.gather.sum_over_rows`: E-step, bound and its gradient in one
    compiled call. None if there is no kernel, or it cannot read the key.

    Args:
      settings: settings of the E-step; None if there is no kernel.
      num_samples: number of draws that the bound is averaged over.
      law: (statistics of the globals behind z, documents) -> `NormalWishartStats` of mu and
        Sigma^-1.
      key: random key of the draws.
    """
    if settings is None or not is_usual(key):
        return None
    return functools.partial(_run_step, settings | {"bound_draws": num_samples}, law)


def _run_step(
    settings: Settings, law: Any, table: Array, stats: Any, groups: Sequence[Any], key: PRNGKeyArray
) -> tuple[tuple[Array, tuple[Any, ...]], tuple[Array, Any]]:
    """See `vijax.xla.gather.AtOnce`.

    Returns:
      The total; for each group the values of its documents and their q(z); the gradient of the
      total in the table, and in the statistics behind z.
    """
    total, results, gradient = jnp.zeros((), table.dtype), [], jnp.zeros_like(table)
    stats_gradient = jax.tree.map(jnp.zeros_like, stats)
    for group in groups:
        chunks = group.words.shape[:2]
        flatten = lambda x: x.reshape(-1, *x.shape[2:])
        docs, start, keys = jax.tree.map(flatten, (group.documents, group.start, group.keys))
        normal = law(stats, docs)
        linear = jnp.broadcast_to(normal.precision_times_mean, start.mean.shape)
        inputs = (
            table,
            docs.words.astype(jnp.int32),
            docs.counts,
            docs.weights,
            linear,
            normal.precision,
            start.mean,
            start.site,
            keys,
            gradient,
        )
        shapes = _shapes((*start, docs.weights, normal.precision, table))
        name = f"logistic_normal_step_{table.dtype}"
        *local, bound, second, gradient = native.call(
            name, shapes, *inputs, aliases={9: 5}, **settings
        )
        local = type(start)(*local)
        law_value = functools.partial(_weighted_law, law, docs, local.mean, second)
        stats_gradient = jax.tree.map(jnp.add, stats_gradient, jax.grad(law_value)(stats))
        per_doc = bound + _document_law(normal, local.mean)
        total += jnp.vdot(docs.weights, per_doc)
        split = lambda x, chunks=chunks: x.reshape(*chunks, *x.shape[1:])
        results.append(jax.tree.map(split, (per_doc, local)))
    return (total, tuple(results)), (gradient, stats_gradient)


def _document_law(normal: Any, mean: Array) -> Array:
    """E_q[log N(z; mu, Sigma)] + K log(2 pi) / 2 of each document, without -<Sigma^-1, E z z'> /
    2."""
    linear = jnp.sum(jnp.atleast_2d(normal.precision_times_mean) * mean, 1)
    return 0.5 * (normal.log_det - normal.quadratic) + linear


def _weighted_law(law: Any, docs: Any, mean: Array, second: Array, stats: Any) -> Array:
    """The sum over documents of weight times E_q[log N(z; mu, Sigma)]; `second` is the weighted sum
    of E z z'."""
    normal = law(stats, docs)
    linear = jnp.vdot(docs.weights, _document_law(normal, mean))
    return linear - 0.5 * jnp.vdot(normal.precision, second)


def _shapes(arrays: Sequence[Array]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
