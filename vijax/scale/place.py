"""The places of a fit's batches and state: on one device, or on those of a mesh."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from vijax.contract.batch import Documents, Minibatch
from vijax.inference.compose import Algorithm, of_spec
from vijax.inference.step_size import by_share
from vijax.inference.wrappers.beside import Warm
from vijax.inference.wrappers.wrapper import wrap
from vijax.scale.devices import checked
from vijax.scale.steps import on_mesh
from vijax.topics.own_words import OwnWords


@dataclasses.dataclass(frozen=True)
class Here:
    """One device, JAX's own choice: all stays as it is."""

    def algorithm(self, alg: Algorithm, loader: Any) -> Algorithm:
        """The algorithm as it runs there."""
        return alg

    def loader(self, loader: Any) -> Any:
        """The loader of the batches that it takes."""
        return loader

    def batches(self, stacked: Minibatch) -> Minibatch:
        """Batches, stacked along a leading axis, put there."""
        return jax.device_put(stacked)

    def state(self, state: Any) -> Any:
        """A state put there."""
        return state

    def plain(self, state: Any) -> Any:
        """A state as it is on one device."""
        return state


@dataclasses.dataclass(frozen=True)
class There:
    """The devices of a mesh. Batches are padded to a number of groups that they divide, and split. Of a state they
    split what has a row for each group of the data: locals that are carried, with padding, and warm starts, where the
    devices divide them; the rest is whole on each.

    Attributes:
      mesh: the devices.
      axis: the name of its axis.
      rows: of each array of locals that are carried, the number of groups without padding.
      lead: 1 where a state is that of several runs, stacked, else 0.
    """

    mesh: Mesh
    axis: str
    rows: tuple[int, ...]
    lead: int

    def algorithm(self, alg: Algorithm, loader: Any) -> Algorithm:
        """See `Here`. Step sizes by the share of the data in a batch are those of a batch without padding."""
        spec = alg.spec
        if isinstance(spec.step_size, by_share) and spec.model.form.num_groups is not None:
            (batch,) = loader.batches(0, 1)
            here = np.shape(jax.tree.leaves(batch.data)[0])[0]
            spec = spec._replace(step_size=spec.step_size.of(here / spec.model.form.num_groups))
        same = of_spec(spec)
        for wrapper in alg.wrappers:
            same = wrap(same, wrapper)
        return on_mesh(same, self.mesh)

    def loader(self, loader: Any) -> Any:
        """See `Here`."""
        return Padded(loader, self.mesh.size)

    def batches(self, stacked: Minibatch) -> Minibatch:
        """See `Here`; stacked along a leading axis of steps."""
        split, whole = self._at(P(None, self.axis)), self._at(P())
        data = OwnWords(whole, split) if isinstance(stacked.data, OwnWords) else split  # type: ignore[arg-type]
        return jax.device_put(stacked, Minibatch(data, whole, split, split, whole, split))  # type: ignore[arg-type]

    def state(self, state: Any) -> Any:
        """See `Here`."""
        split, whole = self._at(P(*(None,) * self.lead, self.axis)), self._at(P())
        runs = state.states if self.lead else state
        more = lambda x: _with_rows(x, -len_of(x, self.lead) % self.mesh.size, self.lead)
        runs = runs._replace(local=jax.tree.map(more, runs.local))
        of_groups = lambda x: whole if len_of(x, self.lead) % self.mesh.size else split
        beside = {name: jax.tree.map(of_groups, x) if name == Warm.name else whole for name, x in runs.beside.items()}
        places = jax.tree.map(lambda _: whole, runs._replace(local=None, beside={}))._replace(
            local=split, beside=beside
        )
        if not self.lead:
            return jax.device_put(runs, places)
        others = jax.tree.map(lambda _: whole, state._replace(states=None))
        return jax.device_put(state._replace(states=runs), others._replace(states=places))

    def plain(self, state: Any) -> Any:
        """See `Here`."""
        state = jax.device_put(state, self.mesh.devices.flat[0])
        runs = state.states if self.lead else state
        leaves, structure = jax.tree.flatten(runs.local)
        cut = [x[:, :n] if self.lead else x[:n] for x, n in zip(leaves, self.rows, strict=True)]
        runs = runs._replace(local=jax.tree.unflatten(structure, cut))
        return state._replace(states=runs) if self.lead else runs

    def _at(self, spec: P) -> NamedSharding:
        return NamedSharding(self.mesh, spec)


def place(mesh: Mesh | None, state: Any) -> Here | There:
    """The place of a fit that begins at this state: of one run, or of several with their `states` stacked."""
    if mesh is None:
        return Here()
    runs, lead = getattr(state, "states", state), int(hasattr(state, "states"))
    return There(*checked(mesh), rows=tuple(len_of(x, lead) for x in jax.tree.leaves(runs.local)), lead=lead)


# --- padding --------------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Padded:
    """The batches of another loader, of a multiple of so many groups. Padding weighs nothing, and comes last."""

    inner: Any
    multiple: int

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "inner"), name)

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """See `vijax.fitting.loader.Loader`."""
        return (padded(batch, self.multiple) for batch in self.inner.batches(start, stop))


def padded(batch: Minibatch, multiple: int) -> Minibatch:
    """A batch with groups of weight 0 at its end, so that their number is a multiple; of documents of several lengths,
    of each length.

    >>> batch = padded(Minibatch(np.array([2.0, 3.0]), 5.0, rows=np.array([1, 4])), 4)
    >>> print(batch.data, batch.weights, batch.rows)
    [2. 3. 2. 2.] [1. 1. 0. 0.] [1 4 5 5]
    """
    if isinstance(batch.data, OwnWords):
        own = padded(batch._replace(data=batch.data.documents), multiple)
        return own._replace(data=dataclasses.replace(batch.data, documents=own.data))
    none = np.iinfo(np.int32).max if batch.num_groups is None else batch.num_groups  # a row that there is not
    if isinstance(batch.data, tuple) and all(isinstance(docs, Documents) for docs in batch.data):
        up = lambda fill: lambda x: _with_rows(x, -len_of(x) % multiple, fill=fill)
        return batch._replace(data=jax.tree.map(up(0), batch.data), rows=jax.tree.map(up(none), batch.rows))
    size = len_of(jax.tree.leaves(batch.data)[0])
    more = -size % multiple
    if more == 0:
        return batch
    weights = np.ones(size, np.float32) if batch.weights is None else batch.weights
    return batch._replace(
        data=jax.tree.map(lambda x: _with_rows(x, more), batch.data),  # numbers that the model can read
        weights=_with_rows(weights, more, fill=0),
        rows=jax.tree.map(lambda x: _with_rows(x, more, fill=none), batch.rows),
    )


def len_of(x: Any, axis: int = 0) -> int:
    """The length of an axis."""
    return int(np.shape(x)[axis])


def _with_rows(x: Any, count: int, axis: int = 0, fill: Any = None) -> Any:
    """An array with so many rows more, of one number or copies of its first."""
    if count == 0:
        return x
    first = np.take(np.asarray(x), [0], axis=axis)
    first = first if fill is None else np.full_like(first, fill)
    return np.concatenate([np.asarray(x), np.repeat(first, count, axis=axis)], axis=axis)
