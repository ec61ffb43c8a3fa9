"""The state that a run begins with, made by one program, which is compiled quickly for it runs
once."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from vijax.contract.batch import Minibatch, is_whole
from vijax.contract.general import without_points
from vijax.contract.model import Hyper
from vijax.data.loader import Loader
from vijax.fitting.restarts import in_runs
from vijax.inference.compose import Algorithm
from vijax.scale.row_files import StoredRows
from vijax.xla.compiler import LARGE, cached_program, count_numbers, quick_jit, step_jit

READS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""The errors of JAX where Python asks a traced array for its values."""


def copied(state: Any) -> Any:
    """A copy of a state that chunks may consume: the caller keeps the original, and no two leaves
    share a buffer. Tables in files stay there."""
    leaves, structure = jax.tree.flatten(state)
    copies = iter(_copied([x for x in leaves if not isinstance(x, StoredRows)]))
    return jax.tree.unflatten(
        structure, [x if isinstance(x, StoredRows) else next(copies) for x in leaves]
    )


@quick_jit
def _copied(leaves: list[Any]) -> list[Any]:
    return [jnp.copy(x) for x in leaves]


def start(alg: Algorithm, loader: Loader, key: PRNGKeyArray, hyper: Hyper, more: Hyper) -> Any:
    """The state of step 0, to be consumed. The first batch serves models whose start depends on the
    data; `hyper` are the values of all points, and `more` those that the state does not hold
    (`vijax.contract.general.constants`)."""
    batch = next(iter(loader.batches(0, 1)))
    known = None
    if isinstance(batch, Minibatch) and any(own.of_groups for own in alg.wrappers):
        known, batch = (
            float(batch.num_groups or loader.num_groups),
            batch._replace(num_groups=None),
        )  # a shape
    elif isinstance(batch, Minibatch) and is_whole(batch):
        batch = batch._replace(num_groups=None)  # which states this, also where it is traced
    model = alg.spec.model
    globals_too = count_numbers(jax.eval_shape(model.prior, dict(model.hyper))) >= 8 * LARGE
    compiled = step_jit if globals_too or count_numbers(batch) >= LARGE else quick_jit
    program = cached_program(alg.init, (compiled, known), lambda init: compiled(_bind(init, known)))
    try:
        state = program(key, batch, {**hyper, **more})
    except READS_VALUES:  # a start of the user's own may compute in NumPy
        batch = batch if known is None else batch._replace(num_groups=known)
        state = copied(alg.init(key, batch, {**hyper, **more}))
    return in_runs(state, lambda runs: without_points(runs, more))


def _bind(of: weakref.ref[Callable], num_groups: float | None) -> Callable[..., Any]:
    """The start with N as a constant, where shapes depend on it."""

    def begin(key: PRNGKeyArray, batch: Any, hyper: Any) -> Any:
        init: Any = of()
        batch = batch if num_groups is None else batch._replace(num_groups=num_groups)
        return jax.tree.map(jnp.copy, init(key, batch, hyper))

    return begin
