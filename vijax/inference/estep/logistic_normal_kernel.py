"""The E-step of logistic-normal topics and its bound by compiled kernels (`vijax.xla.native`): what they are given.

The kernels draw as `jax.random` does, from keys of its usual kind, so that XLA finds the same q(z) up to rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, UInt32

from vijax.xla import native
from vijax.xla.gather import AtOnce, keys_of_chunks
from vijax.xla.random_bits import is_usual

Settings = dict[str, int | float]
"""Those of `proximal_gradient` with draws, by the names of the kernels."""


def inferred(settings: Settings | None, by_xla: Callable[..., Any], problem: Any, start: Any, key: PRNGKeyArray) -> Any:
    """q(z) of a chunk of documents by a kernel, where that can be used; else `by_xla(problem, start, key)`."""
    given = problem.likelihood.dtype
    if settings is None or not is_usual(key) or any(x.dtype != given for x in (*problem, start.mean, start.site)):
        return by_xla(problem, start, key)

    def by_kernel(problem: Any, start: Any, key: PRNGKeyArray) -> Any:
        linear = jnp.broadcast_to(problem.linear, start.mean.shape)
        numbers = problem.likelihood, problem.counts, linear, problem.precision, start.mean, start.site
        return type(start)(*native.call(f"logistic_normal_{given}", _like(start), *numbers, _seeds(key), **settings))

    return native.on_cpu(by_kernel, by_xla, problem, start, key)


def over_words(settings: Settings | None, num_samples: int, law: Any, key: PRNGKeyArray) -> AtOnce | None:
    """E-step, bound and its gradient in one compiled call, for `vijax.xla.gather.sum_over_rows`; None where a kernel
    has no such E-step, or cannot read the key.

    Args:
      settings: of the E-step; None where there is no kernel.
      num_samples: draws that the bound is averaged over.
      law: (statistics of the globals behind z, documents) -> `NormalWishartStats` of mu and Sigma^-1.
      key: that of the draws.
    """
    if settings is None or not is_usual(key):
        return None
    return functools.partial(_by_kernel, settings | {"bound_draws": num_samples}, law)


def _by_kernel(
    settings: Settings, law: Any, table: Array, given: Any, groups: Sequence[Any], key: PRNGKeyArray
) -> tuple[tuple[Array, tuple[Any, ...]], tuple[Array, Any]]:
    """See `vijax.xla.gather.AtOnce`: the total; the value of each document and its q(z); the gradient of the total in
    the table and in `given`."""
    total, found, gradient = jnp.zeros((), table.dtype), [], jnp.zeros_like(table)
    shared = jax.tree.map(jnp.zeros_like, given)
    for group, keys in zip(groups, keys_of_chunks(key, groups), strict=True):
        chunks = group.words.shape[:2]
        docs, start = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (group.documents, group.start))
        stats = law(given, docs)
        linear = jnp.broadcast_to(stats.precision_times_mean, start.mean.shape)
        for_estep, for_bound = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        if stats.precision_times_mean.ndim > 1:  # each document by itself
            for_estep = jax.vmap(lambda key: jax.random.split(key, chunks[1]))(for_estep)  # noqa: B023
        shapes = [docs.weights, stats.precision, table]
        results = [*_like(start), *(jax.ShapeDtypeStruct(x.shape, table.dtype) for x in shapes)]
        numbers = table, docs.words, docs.counts, docs.weights, linear, stats.precision, start.mean, start.site
        seeds = _seeds(for_estep), _seeds(for_bound)
        name, aliases = f"logistic_normal_step_{table.dtype}", {10: 5}
        *local, bound, second, gradient = native.call(
            name, results, *numbers, *seeds, gradient, aliases=aliases, **settings
        )
        local = type(start)(*local)
        of_law = functools.partial(_of_law, law, docs, local.mean)
        per_doc = bound + of_law(given)
        weighed = lambda given: (  # noqa: E731
            jnp.vdot(docs.weights, of_law(given)) - 0.5 * jnp.vdot(law(given, docs).precision, second)  # noqa: B023
        )
        shared = jax.tree.map(jnp.add, shared, jax.grad(weighed)(given))
        total += jnp.vdot(docs.weights, per_doc)
        found.append(jax.tree.map(lambda x: x.reshape(*chunks, *x.shape[1:]), (per_doc, local)))  # noqa: B023
    return (total, tuple(found)), (gradient, shared)


def _of_law(law: Any, docs: Any, mean: Array, given: Any) -> Array:
    """E_q[log N(z; mu, Sigma)] + K log(2 pi) / 2 of each document, but for -<Sigma^-1, E z z'> / 2."""
    stats = law(given, docs)
    return 0.5 * (stats.log_det - stats.quadratic) + jnp.sum(jnp.atleast_2d(stats.precision_times_mean) * mean, 1)


def _like(start: Any) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in start]


def _seeds(keys: PRNGKeyArray) -> UInt32[Array, "*keys 2"]:
    return jax.random.key_data(keys).reshape(-1, 2)
