"""The first state of a run, made by one program. It runs once, so XLA compiles it quickly."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from vijax.contract.batch import Minibatch, is_whole
from vijax.contract.general import drop_points
from vijax.contract.model import Hyper
from vijax.data.loader import Loader
from vijax.fitting.restarts import update_runs
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


def copy_state(state: Any) -> Any:
    """A copy of a state that chunks may consume: the caller keeps the original, and no two leaves
    share a buffer. Tables in files stay there."""
    leaves, structure = jax.tree.flatten(state)
    copies = iter(_copy([leaf for leaf in leaves if not isinstance(leaf, StoredRows)]))
    return jax.tree.unflatten(
        structure, [leaf if isinstance(leaf, StoredRows) else next(copies) for leaf in leaves]
    )


@quick_jit
def _copy(leaves: list[Any]) -> list[Any]:
    return [jnp.copy(leaf) for leaf in leaves]


def start(alg: Algorithm, loader: Loader, key: PRNGKeyArray, hyper: Hyper, constants: Hyper) -> Any:
    """The state of step 0, which steps may consume.

    Args:
      alg: the algorithm.
      loader: its first batch serves models whose start depends on the data.
      key: random key of the start.
      hyper: values of all points.
      constants: points that the state does not hold (`vijax.contract.general.constants`).
    """
    batch = next(iter(loader.batches(0, 1)))
    num_groups = None  # N, where the program needs it as a constant
    if isinstance(batch, Minibatch) and any(wrapper.of_groups for wrapper in alg.wrappers):
        num_groups = float(batch.num_groups or loader.num_groups)  # a shape
        batch = batch._replace(num_groups=None)
    elif isinstance(batch, Minibatch) and is_whole(batch):
        batch = batch._replace(num_groups=None)  # None means all data, also for a traced batch
    model = alg.spec.model
    has_large_globals = count_numbers(jax.eval_shape(model.prior, dict(model.hyper))) >= 8 * LARGE
    jit = step_jit if has_large_globals or count_numbers(batch) >= LARGE else quick_jit
    program = cached_program(
        alg.init, (jit, num_groups), lambda init_ref: jit(_bind(init_ref, num_groups))
    )
    points = {**hyper, **constants}
    try:
        state = program(key, batch, points)
    except READS_VALUES:  # a user's start may compute in NumPy
        state = copy_state(alg.init(key, _with_num_groups(batch, num_groups), points))
    return update_runs(state, lambda runs: drop_points(runs, constants))


def _with_num_groups(batch: Any, num_groups: float | None) -> Any:
    """The batch with this N; as it is for None."""
    return batch if num_groups is None else batch._replace(num_groups=num_groups)


def _bind(init_ref: weakref.ref[Callable], num_groups: float | None) -> Callable[..., Any]:
    """The start with N as a constant, where shapes depend on it."""

    def begin(key: PRNGKeyArray, batch: Any, hyper: Any) -> Any:
        init: Any = init_ref()
        return jax.tree.map(jnp.copy, init(key, _with_num_groups(batch, num_groups), hyper))

    return begin
