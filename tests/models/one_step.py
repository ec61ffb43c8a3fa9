"""One step of a case of the registry, in float64: the state before it, the batch, and what the step
makes of others.

A step from a given state is a function of the data alone. So a law of the data can be read off one
step, where a whole fit would compare two starts. Each case compiles its start and its step once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from tests.models.registry import Case
from vijax.contract.intake import cast_data
from vijax.data import full_batch

STEP_KEY = jax.random.key(1)
MOVED = 3
"""Steps from the start to the state that the laws look at: away from any symmetry of the start."""


class Stepped(NamedTuple):
    """What a step tells: the state after it, the objective, bounds by group, and the locals."""

    state: Any
    elbo: np.ndarray
    per_group: Any
    result: np.ndarray

    def globals(self) -> Any:
        """All that belongs to no single group."""
        return self.state.posterior, self.state.hyper, self.elbo


class Begun(NamedTuple):
    """A case at work: its batch, a state, and the compiled start and step."""

    batch: vi.Minibatch
    state: Any
    init: Callable[..., Any]
    step: Callable[..., Any]

    @property
    def places(self) -> np.ndarray:
        """0, ..., N - 1, for the groups of the batch."""
        return np.arange(size_of(self.batch.data))

    def start(self, batch: vi.Minibatch) -> Any:
        """The start on another batch of the same shapes."""
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, self.init(jax.random.key(0), as_whole(batch)))

    def again(self, batch: vi.Minibatch | None = None, state: Any = None) -> Stepped:
        """The next step, of another batch or from another state of the same shapes."""
        with jax.enable_x64(True):
            state = self.state if state is None else state
            after, info = self.step(STEP_KEY, state, self.batch if batch is None else batch)
            return Stepped(
                *jax.tree.map(np.asarray, (after, info.elbo, info.per_group, info.result))
            )


@functools.cache
def algorithm(case: Case, double: bool) -> Any:
    """The algorithm on the model, in one of the two precisions; made once."""
    with jax.enable_x64(True) if double else contextlib.nullcontext():
        return getattr(vi, case.algorithm)(case.make(), **case.choices)


def batch_of(case: Case, data: Any = None) -> vi.Minibatch:
    """Data as a batch of all groups, each of weight 1."""
    model = algorithm(case, True).spec.model
    data = case.data if data is None else data
    with jax.enable_x64(True):
        if model.form.documents is not None:
            return full_batch(data, 1)[0]
        return vi.Minibatch(
            cast_data(model, data), np.float64(size_of(data)), np.ones(size_of(data))
        )


def as_whole(batch: vi.Minibatch) -> vi.Minibatch:
    """The batch that says that it is the whole set, so that full-data algorithms carry locals from
    step to step."""
    return batch._replace(num_groups=None)


def size_of(data: Any) -> int:
    return len(jax.tree.leaves(data)[0])


@functools.cache
def begun(case: Case) -> Begun:
    """A case after a few steps."""
    alg, batch = algorithm(case, True), batch_of(case)
    with jax.enable_x64(True):
        init, step = jax.jit(alg.init), jax.jit(alg.step)
        state = init(jax.random.key(0), as_whole(batch))
        for t in range(MOVED):
            state, info = step(jax.random.key(10 + t), state, batch)
        assert np.all(np.isfinite(info.elbo))
        return Begun(jax.tree.map(np.asarray, batch), jax.tree.map(np.asarray, state), init, step)


# --- what is done to data and states --------------------------------------------------------------
def groups_taken(tree: Any, rows: np.ndarray) -> Any:
    """Each array at these groups; what has none of their axis stays."""
    take = lambda x: x[rows] if np.ndim(x) and np.shape(x)[0] == len(rows) else x
    return jax.tree.map(take, tree)


def with_groups(
    begun: Begun, rows: np.ndarray, weights: np.ndarray | None = None
) -> tuple[vi.Minibatch, Any]:
    """Batch and state whose groups are these ones, with these weights."""
    state = begun.state._replace(local=groups_taken(begun.state.local, rows))
    batch = begun.batch
    moved = batch._replace(data=groups_taken(batch.data, rows), rows=groups_taken(batch.rows, rows))
    return weighed(moved, weights), state


def weighed(batch: vi.Minibatch, weights: np.ndarray | None) -> vi.Minibatch:
    """The batch with these weights of its groups."""
    if weights is None:
        return batch
    if batch.weights is not None:
        return batch._replace(weights=weights)
    (documents,) = batch.data
    return batch._replace(data=(dataclasses.replace(documents, weights=weights),))


def relabelled(tree: Any, order: np.ndarray) -> Any:
    """Each array with every axis of this length in this order."""

    def relabel(x: Any) -> Any:
        for axis, size in enumerate(np.shape(x)):
            x = np.take(x, order, axis) if size == len(order) else x
        return x

    return jax.tree.map(relabel, tree)


def in_words_order(data: Any, order: np.ndarray) -> Any:
    """Data whose columns are in another order: documents name the places of their words."""

    def documents(x: Any) -> Any:
        place = np.argsort(order)
        return dataclasses.replace(x, words=place[x.words].astype(x.words.dtype))

    is_documents = lambda x: isinstance(x, vi.Documents)
    move = lambda x: documents(x) if is_documents(x) else relabelled(x, order)
    return jax.tree.map(move, data, is_leaf=is_documents)


def assert_near(got: Any, wanted: Any, rtol: float = 1e-8, what: str = "") -> None:
    """Equal up to rounding, relative to the largest number of each array."""
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    for (path, a), b in zip(jax.tree.leaves_with_path(got), jax.tree.leaves(wanted), strict=True):
        if jnp.issubdtype(jnp.asarray(a).dtype, jax.dtypes.prng_key) or not np.size(b):
            continue
        a, b = np.asarray(a, float), np.asarray(b, float)
        scale = float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0))
        name = f"{what}{jax.tree_util.keystr(path)}"
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale, err_msg=name)
