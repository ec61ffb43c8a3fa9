"""The places of a fit's batches and state: on one device, or on those of a mesh."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterable, Iterator
from typing import Any, ClassVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from vijax.checks import require
from vijax.contract.batch import Documents, Minibatch
from vijax.data.minibatch import Share
from vijax.data.streams.stream import StreamLoader
from vijax.inference.compose import Algorithm, build_algorithm
from vijax.inference.messages import Parts, by_part
from vijax.inference.step_size import by_share
from vijax.inference.wrappers.beside import Warm
from vijax.inference.wrappers.wrapper import wrap
from vijax.scale import arrays, watch
from vijax.scale.devices import check_mesh
from vijax.scale.in_step import (
    Announcement,
    Rules,
    announce_batches,
    require_alike_streams,
    synchronize,
)
from vijax.scale.processes import any_process, from_first, require_alike
from vijax.scale.row_files import StoredRows
from vijax.scale.split_parts import SplitByPart, join_slices, slice_tables, table_places
from vijax.scale.steps import on_mesh
from vijax.topics.own_words import OwnWords
from vijax.tree import on_device


@dataclasses.dataclass(frozen=True)
class OneDevice:
    """One device, JAX's own choice: all stays as it is."""

    is_shared: ClassVar[bool] = False
    """True where other processes take part."""

    def adapt_algorithm(self, alg: Algorithm, loader: Any) -> Algorithm:
        """The algorithm as it runs there."""
        return alg

    def adapt_loader(self, loader: Any) -> Any:
        """The loader of the batches that it takes."""
        return loader

    def put_batches(self, stacked: Minibatch) -> Minibatch:
        """Batches, stacked along a leading axis, put there."""
        return jax.device_put(stacked)

    def put_state(self, state: Any) -> Any:
        """A state put there."""
        return state

    def require_alike_streams(self, loader: Any) -> None:
        """Raises ValueError where processes stream what does not go together."""
        require_no_part(loader, jax.process_count())

    def share_start(self, state: Any, **said: Any) -> Any:
        """A state from which all processes begin; `said` is what they must agree on."""
        return _read(state)

    def callback_state(self, state: Any) -> Any:
        """A state for callbacks: as it is on one device, but tables by row of several processes are
        `arrays.Rows`."""
        return state

    def plain_state(self, state: Any) -> Any:
        """A state as it is on one device."""
        return state

    def any_process(self, asked: bool) -> bool:
        """True where any process that runs the fit asks it."""
        return asked

    def announce(
        self, batches: Iterable[Minibatch], step: int, asked: int
    ) -> tuple[Iterable[Minibatch], Announcement | None]:
        """The batches of a chunk, and what other processes hear of them: None where there are no
        others."""
        return batches, None

    def synchronize(
        self, source: Generator, begun: int, length: int, total: int, loader: Any
    ) -> Generator:
        """The chunks of a source, as many in all processes."""
        return source


@dataclasses.dataclass(frozen=True)
class ManyDevices:
    """The devices of a mesh. Batches are padded to a number of groups that they divide, and split.
    Of a state they split what has a row for each group of the data, with padding: locals that are
    carried, and warm starts. They split the messages of parts, by entries, unless other processes
    have some of the devices. The rest is whole on each.

    Attributes:
      mesh: the devices.
      axis: the name of its axis.
      rows: of each array that is split, the number of groups without padding.
      lead: 1 where a state is that of several runs, stacked, else 0.
      reads_own: batches hold what this process reads of them, and not all.
    """

    mesh: Mesh
    axis: str
    rows: tuple[int, ...]
    lead: int
    reads_own: bool = False

    def adapt_algorithm(self, alg: Algorithm, loader: Any) -> Algorithm:
        """See `OneDevice`. Step sizes by the share of the data in a batch are those of a batch without
        padding."""
        spec = alg.spec
        if isinstance(spec.step_size, by_share) and spec.model.form.num_groups is not None:
            (batch,) = loader.batches(0, 1)
            here = np.shape(jax.tree.leaves(batch.data)[0])[0]
            spec = spec._replace(step_size=spec.step_size.of(here / spec.model.form.num_groups))
        if self._splits(spec.messages):
            spec = spec._replace(messages=SplitByPart(spec.messages.num_parts, axis=self.axis))
        same = build_algorithm(spec)
        for wrapper in alg.wrappers:
            same = wrap(same, wrapper)
        return on_mesh(same, self.mesh)

    def adapt_loader(self, loader: Any) -> Any:
        """See `OneDevice`. Each process reads its own part of a batch; steps by words have to see all of
        its words."""
        if self.is_shared:
            leave_end_unsaid(loader)
        if self.reads_own:
            return loader.with_share(
                Share(jax.process_index(), jax.process_count(), self.mesh.size)
            )
        return PaddedLoader(loader, self.mesh.size)

    def put_batches(self, stacked: Minibatch) -> Minibatch:
        """See `OneDevice`; stacked along a leading axis of steps."""
        split, whole = self._at(P(None, self.axis)), self._at(P())
        data = OwnWords(whole, split) if isinstance(stacked.data, OwnWords) else split  # type: ignore[arg-type]
        places: Any = Minibatch(data, whole, split, split, whole, split)  # type: ignore[arg-type]
        return arrays.put_own(stacked, places, 1) if self.reads_own else self._put(stacked, places)

    def put_state(self, state: Any) -> Any:
        """See `OneDevice`."""
        if self.is_shared:
            watch.ENTERED.mark()
        lead = (None,) * self.lead
        split, slices, whole = (
            self._at(P(*axes)) for axes in ((*lead, self.axis), (*lead, None, self.axis), ())
        )
        runs = self._runs(state)
        more = lambda x: _with_rows(x, -count_rows(x, self.lead) % self.mesh.size, self.lead)
        tables = jax.tree.map(more, row_tables(runs))
        if is_split := self._splits(runs.messages):
            runs = runs._replace(messages=slice_tables(runs.messages, self.mesh.size, self.lead))
        places = jax.tree.map(lambda _: whole, replace_tables(runs, None))
        places = replace_tables(places, jax.tree.map(lambda _: split, tables))
        if is_split:
            places = places._replace(messages=table_places(runs.messages, slices, whole))
        runs = replace_tables(runs, tables)
        if not self.lead:
            return self._put(runs, places)
        others = jax.tree.map(lambda _: whole, state._replace(states=None))
        return self._put(self._with(state, runs), others._replace(states=places))

    def require_alike_streams(self, loader: Any) -> None:
        """See `OneDevice`. Of own parts the first batches have one form; else they are the same."""
        if not self.reads_own:
            require_no_part(loader, jax.process_count())
        if self.is_shared and hasattr(loader, "is_stream"):
            (first,) = loader.batches(0, 1)
            require_alike_streams(loader, first, is_part(loader))

    def share_start(self, state: Any, **said: Any) -> Any:
        """See `OneDevice`. What is whole in every process is that of process 0: another machine may
        round otherwise."""
        if not self.is_shared:
            return _read(state)
        runs = self._runs(state)
        require_alike("fit", {"data": runs.data, **said})
        runs = replace_tables(from_first(replace_tables(runs, None)), row_tables(runs))
        return self._with(from_first(state._replace(states=None)), runs) if self.lead else runs

    def callback_state(self, state: Any) -> Any:
        """See `OneDevice`."""
        there, one = self._runs(state), self.mesh.devices.flat[0]
        is_split = self._splits(there.messages)
        state = self._with(state, there._replace(messages=None)) if is_split else state
        state = jax.tree.map(arrays.local, state) if self.is_shared else jax.device_put(state, one)
        runs = self._runs(state)
        leaves, structure = jax.tree.flatten(row_tables(runs))
        cut = [_without_padding(x, n, self.lead) for x, n in zip(leaves, self.rows, strict=True)]
        runs = replace_tables(runs, jax.tree.unflatten(structure, cut))
        if is_split:  # on the host: together they may be more than a device holds
            runs = runs._replace(messages=join_slices(there.messages, there.posterior, self.lead))
        return self._with(state, runs)

    def plain_state(self, state: Any) -> Any:
        """See `OneDevice`."""
        return _read(self.callback_state(state))

    def any_process(self, asked: bool) -> bool:
        """See `OneDevice`."""
        if self.is_shared:
            watch.ENTERED.left()
        return any_process(asked) if self.is_shared else asked

    def announce(
        self, batches: Iterable[Minibatch], step: int, asked: int
    ) -> tuple[Iterable[Minibatch], Announcement | None]:
        """See `OneDevice`."""
        if not self.is_shared:
            return batches, None
        read = list(batches)
        return read, announce_batches(read, step, asked, not self.reads_own)

    def synchronize(
        self, source: Generator, begun: int, length: int, total: int, loader: Any
    ) -> Generator:
        """See `OneDevice`."""
        if not self.is_shared:
            return source
        rules = Rules(
            length, total, is_same=not self.reads_own, says_end=hasattr(loader, "is_stream")
        )
        return synchronize(source, begun, rules)

    @property
    def is_shared(self) -> bool:
        """True where the mesh has devices of other processes."""
        return is_shared(self.mesh)

    def _runs(self, state: Any) -> Any:
        return state.states if self.lead else state

    def _with(self, state: Any, runs: Any) -> Any:
        return state._replace(states=runs) if self.lead else runs

    def _splits(self, messages: Any) -> bool:
        """True where devices have the messages of parts, or their memory, in slices."""
        return isinstance(messages, by_part | Parts) and not self.is_shared

    def _put(self, tree: Any, places: Any) -> Any:
        return arrays.put(tree, places) if self.is_shared else jax.device_put(tree, places)

    def _at(self, spec: P) -> NamedSharding:
        return NamedSharding(self.mesh, spec)


def choose_placement(mesh: Mesh | None, state: Any, loader: Any = None) -> OneDevice | ManyDevices:
    """The place of a fit that begins at this state: of one run, or of several with their `states`
    stacked."""
    if mesh is None:
        return OneDevice()
    runs, lead = getattr(state, "states", state), int(hasattr(state, "states"))
    there = ManyDevices(
        *check_mesh(mesh),
        rows=tuple(count_rows(x, lead) for x in jax.tree.leaves(row_tables(runs))),
        lead=lead,
    )
    of = [device.process_index for device in there.mesh.devices.flat]
    in_parts = of == sorted(of) and len({of.count(k) for k in of}) == 1
    return dataclasses.replace(
        there, reads_own=there.is_shared and in_parts and hasattr(type(loader), "shared")
    )


def row_tables(run: Any) -> tuple[Any, Any]:
    """The tables by row of a state: locals that are carried, and warm starts."""
    return run.local, run.beside.get(Warm.name)


def replace_tables(run: Any, tables: tuple[Any, Any] | None) -> Any:
    """A state with other tables, or with none."""
    local, warm = tables or (None, None)
    rest = {name: x for name, x in run.beside.items() if name != Warm.name}
    return run._replace(local=local, beside=rest if warm is None else {**rest, Warm.name: warm})


def is_shared(mesh: Mesh | None) -> bool:
    """True for a mesh with devices of other processes."""
    return mesh is not None and any(
        device.process_index != jax.process_index() for device in mesh.devices.flat
    )


# --- streams --------------------------------------------------------------------------------------
def is_part(loader: Any) -> bool:
    """True for a stream of which each process gives its own part."""
    return hasattr(loader, "is_stream") and loader.source.is_part


def leave_end_unsaid(loader: Any) -> None:
    """Has a stream be silent about its end, of which the processes tell each other
    (`vijax.scale.in_step`)."""
    while loader is not None:
        if isinstance(loader, StreamLoader):
            loader.warns_of_end = False
        loader = getattr(loader, "inner", None)


def require_no_part(loader: Any, processes: int) -> None:
    """Raises ValueError for a part of a stream that would be fitted by itself."""
    require(
        processes == 1 or not is_part(loader),
        "mesh",
        f"the devices of all {processes} processes, each with its own part of the stream",
        "none, or another mesh",
        "Give mesh=vijax.scale.mesh().",
    )


# --- padding --------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class PaddedLoader:
    """The batches of another loader, of a multiple of so many groups. Padding weighs nothing, and
    comes last."""

    inner: Any
    multiple: int

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "inner"), name)

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """See `vijax.data.loader.Loader`."""
        return (pad_batch(batch, self.multiple) for batch in self.inner.batches(start, stop))


def pad_batch(batch: Minibatch, multiple: int) -> Minibatch:
    """A batch with groups of weight 0 at its end, so that their number is a multiple; of documents
    of several lengths, of each length.

    >>> batch = pad_batch(Minibatch(np.array([2.0, 3.0]), 5.0, rows=np.array([1, 4])), 4)
    >>> print(batch.data, batch.weights, batch.rows)
    [2. 3. 2. 2.] [1. 1. 0. 0.] [1 4 5 5]
    """
    if isinstance(batch.data, OwnWords):
        own = pad_batch(batch._replace(data=batch.data.documents), multiple)
        return own._replace(data=dataclasses.replace(batch.data, documents=own.data))
    none = (
        np.iinfo(np.int32).max if batch.num_groups is None else batch.num_groups
    )  # a row that there is not
    if isinstance(batch.data, tuple) and all(isinstance(docs, Documents) for docs in batch.data):
        up = lambda fill: lambda x: _with_rows(x, -count_rows(x) % multiple, fill=fill)
        return batch._replace(
            data=jax.tree.map(up(0), batch.data), rows=jax.tree.map(up(none), batch.rows)
        )
    size = count_rows(jax.tree.leaves(batch.data)[0])
    more = -size % multiple
    if more == 0:
        return batch
    weights = np.ones(size, np.float32) if batch.weights is None else batch.weights
    return batch._replace(
        data=jax.tree.map(
            lambda x: _with_rows(x, more), batch.data
        ),  # numbers that the model can read
        weights=_with_rows(weights, more, fill=0),
        rows=jax.tree.map(lambda x: _with_rows(x, more, fill=none), batch.rows),
    )


def count_rows(x: Any, axis: int = 0) -> int:
    """The length of an axis."""
    return int(np.shape(x)[axis])


def _read(state: Any) -> Any:
    """A state with its tables by row whole, here."""
    whole = lambda x: on_device(np.asarray(x)) if isinstance(x, arrays.Rows | StoredRows) else x
    return jax.tree.map(whole, state)


def _without_padding(x: Any, length: int, axis: int) -> Any:
    """The first rows of an array along its axis of groups."""
    return x.first(length) if isinstance(x, arrays.Rows) else x[:, :length] if axis else x[:length]


def _with_rows(x: Any, count: int, axis: int = 0, fill: Any = None) -> Any:
    """An array with so many rows more, of one number or copies of its first."""
    if count == 0:
        return x
    if isinstance(x, StoredRows):
        return x.pad(count)
    first = np.take(np.asarray(x), [0], axis=axis)
    first = first if fill is None else np.full_like(first, fill)
    return np.concatenate([np.asarray(x), np.repeat(first, count, axis=axis)], axis=axis)
