"""The placement of a fit's batches and state: on one device, or on the devices of a mesh."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from vijax.checks import require
from vijax.contract.batch import Documents, Minibatch
from vijax.contract.model import Model
from vijax.data.minibatch import Share
from vijax.data.streams.stream import StreamLoader
from vijax.data.streams.threads import Maker, batch_makers, change_batches
from vijax.data.table_batches import Picks
from vijax.inference.compose import Algorithm, build_algorithm
from vijax.inference.messages import Parts, by_part
from vijax.inference.step_size import by_share
from vijax.inference.wrappers.beside import Warm
from vijax.inference.wrappers.wrapper import wrap
from vijax.scale import arrays, watch
from vijax.scale.by_topic import find_tables, spread
from vijax.scale.devices import check_mesh, count_topic_parts
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
from vijax.tree import to_device


@dataclasses.dataclass(frozen=True)
class OneDevice:
    """One device, JAX's own choice: everything stays as it is."""

    is_shared: ClassVar[bool] = False
    """True if other processes take part."""
    table_place: ClassVar[Any] = None
    """The sharding of data that lie on all devices (`vijax.scale.device_data`)."""
    batch_places: ClassVar[Any] = None
    """The shardings of batches, stacked along a leading axis of steps."""

    def adapt_algorithm(self, alg: Algorithm, loader: Any) -> Algorithm:
        """The algorithm as it runs on these devices."""
        return alg

    def adapt_loader(self, loader: Any) -> Any:
        """The loader of the batches for these devices."""
        return loader

    def put_batches(self, stacked: Minibatch) -> Minibatch:
        """Batches, stacked along a leading axis, on these devices."""
        return jax.device_put(stacked)

    @property
    def devices(self) -> list[Any]:
        """The devices of the fit."""
        return list(to_device(np.int32(0)).devices())

    def put_picks(self, stacked: Picks, num_groups: int) -> Picks:
        """Picks, stacked along a leading axis of steps, on these devices."""
        return jax.device_put(stacked)

    def put_state(self, state: Any) -> Any:
        """A state on these devices."""
        return state

    def require_alike_streams(self, loader: Any) -> None:
        """Raises ValueError if the streams of the processes do not go together."""
        require_no_part(loader, jax.process_count())

    def share_start(self, state: Any, **settings: Any) -> Any:
        """The state from which all processes start; `settings` must be the same in all."""
        return _join_parts(_read_tables(state))

    def callback_state(self, state: Any) -> Any:
        """The state for callbacks: on one device, but tables that are split over processes stay
        `arrays.Rows`."""
        return state

    def plain_state(self, state: Any) -> Any:
        """The state on one device, all tables read."""
        return state

    def any_process(self, asked: bool) -> bool:
        """True if any process of the fit asks."""
        return asked

    def announce(
        self, batches: Iterable[Minibatch], step: int, asked: int
    ) -> tuple[Iterable[Minibatch], Announcement | None]:
        """The batches of a chunk, and what other processes hear about them; None without other
        processes."""
        return batches, None

    def synchronize(
        self, source: Generator, start: int, length: int, total: int, loader: Any
    ) -> Generator:
        """The chunks of a source, equally many in all processes."""
        return source


@dataclasses.dataclass(frozen=True)
class ManyDevices:
    """The devices of a mesh.

    Batches are split by groups, and padded so that the devices divide their groups. In a state,
    tables with a row for each group of the data are split and padded: carried locals and warm
    starts. The messages of parts are split by entries, unless some devices belong to other
    processes. Where the mesh has an axis of topics, tables of topics and words are split along it
    (`vijax.scale.by_topic`), also those of a result. Everything else is whole on each device.

    Attributes:
      mesh: the devices.
      axis: the name of its axis.
      rows: number of groups of each split table, without padding.
      lead: 1 if a state stacks several runs, else 0.
      reads_own: batches hold only the groups that this process reads.
      tables: the places in a run's state of tables that are split by topics, and how.
    """

    mesh: Mesh
    axis: str
    rows: tuple[int, ...]
    lead: int
    reads_own: bool = False
    tables: Mapping[str, P] = dataclasses.field(default_factory=dict)

    def adapt_algorithm(self, alg: Algorithm, loader: Any) -> Algorithm:
        """See `OneDevice`. Step sizes by the share of the data in a batch count no padding."""
        spec = alg.spec
        if isinstance(spec.step_size, by_share) and spec.model.form.num_groups is not None:
            (batch,) = loader.batches(0, 1)
            size = np.shape(jax.tree.leaves(batch.data)[0])[0]
            spec = spec._replace(step_size=spec.step_size.choose(size / spec.model.form.num_groups))
        if self._splits(spec.messages):
            spec = spec._replace(messages=SplitByPart(spec.messages.num_parts, axis=self.axis))
        adapted = build_algorithm(spec)
        for wrapper in alg.wrappers:
            adapted = wrap(adapted, wrapper)
        return on_mesh(adapted, self.mesh)

    def adapt_loader(self, loader: Any) -> Any:
        """See `OneDevice`. Each process reads its own share of a batch, unless the loader has no
        shares (as in steps by words, which need all words of a batch)."""
        if self.is_shared:
            silence_end(loader)
        if self.reads_own:
            return loader.with_share(
                Share(jax.process_index(), jax.process_count(), self._num_shares)
            )
        return PaddedLoader(loader, self._num_shares)

    def put_batches(self, stacked: Minibatch) -> Minibatch:
        """See `OneDevice`; batches are stacked along a leading axis of steps."""
        places: Any = self.batch_places
        if isinstance(stacked.data, OwnWords):
            replicated: Any = self.table_place
            places = places._replace(data=OwnWords(replicated, places.data))
        if self.reads_own:
            return arrays.put_own(stacked, places, 1)
        return self._put(stacked, places)

    @property
    def devices(self) -> list[Any]:
        """See `OneDevice`."""
        return list(self.mesh.devices.flat)

    @property
    def table_place(self) -> NamedSharding:
        """See `OneDevice`."""
        return self._sharding(P())

    @property
    def batch_places(self) -> Any:
        """See `OneDevice`."""
        split = self._sharding(P(None, self.axis))
        replicated = self._sharding(P())
        return Minibatch(split, replicated, split, split, replicated, split)  # type: ignore[arg-type]

    def put_picks(self, stacked: Picks, num_groups: int) -> Picks:
        """See `OneDevice`. They are padded so that the devices divide them."""
        multiple = self._num_shares
        add = lambda x, fill: _add_rows(x, -count_rows(x, 1) % multiple, 1, fill)
        split = self._sharding(P(None, self.axis))
        picks = Picks(
            jax.tree.map(lambda x: add(x, None), stacked.places),
            jax.tree.map(lambda x: add(x, num_groups), stacked.rows),
            stacked.part,
        )
        return jax.device_put(picks, Picks(split, split, self._sharding(P())))

    def put_state(self, state: Any) -> Any:
        """See `OneDevice`."""
        if self.is_shared:
            watch.ENTERED.mark()
        lead = (None,) * self.lead
        split = self._sharding(P(*lead, self.axis))
        slices = self._sharding(P(*lead, None, self.axis))
        replicated = self._sharding(P())
        runs = self._runs(state)
        tables = jax.tree.map(self._pad_rows, row_tables(runs))
        splits_messages = self._splits(runs.messages)
        if splits_messages:
            runs = runs._replace(messages=slice_tables(runs.messages, self.mesh.size, self.lead))
        places = spread(replace_tables(runs, None), self.tables, self.mesh)
        places = replace_tables(places, jax.tree.map(lambda _: split, tables))
        if splits_messages:
            places = places._replace(messages=table_places(runs.messages, slices, replicated))
        runs = replace_tables(runs, tables)
        if not self.lead:
            return self._put(runs, places)
        outer = jax.tree.map(lambda _: replicated, state._replace(states=None))
        return self._put(self._with_runs(state, runs), outer._replace(states=places))

    def require_alike_streams(self, loader: Any) -> None:
        """See `OneDevice`. The first batches must be the same, or have one form if each process
        streams its own part."""
        if not self.reads_own:
            require_no_part(loader, jax.process_count())
        if self.is_shared and hasattr(loader, "is_stream"):
            (first,) = loader.batches(0, 1)
            require_alike_streams(loader, first, is_part(loader))

    def share_start(self, state: Any, **settings: Any) -> Any:
        """See `OneDevice`. Arrays that are whole in every process come from process 0, for another
        machine may round otherwise."""
        if not self.is_shared:
            return _read_tables(state)
        runs = self._runs(state)
        require_alike("fit", {"data": runs.data, **settings})
        runs = replace_tables(self._from_first(replace_tables(runs, None)), row_tables(runs))
        if not self.lead:
            return runs
        return self._with_runs(from_first(state._replace(states=None)), runs)

    def _from_first(self, runs: Any) -> Any:
        """States as process 0 has them: tables of topics lie on their devices, everything else on
        the host."""
        leaves, structure = jax.tree_util.tree_flatten_with_path(runs)
        by_path = {jax.tree_util.keystr(path): x for path, x in leaves}
        on_host = {path: x for path, x in by_path.items() if path not in self.tables}
        values = from_first(on_host)
        for path, x in by_path.items():  # in one order in all processes
            if path in self.tables:
                values[path] = arrays.from_first(x, self.mesh)
        return jax.tree.unflatten(structure, [values[path] for path in by_path])

    def callback_state(self, state: Any) -> Any:
        """See `OneDevice`."""
        placed_runs = self._runs(state)
        splits_messages = self._splits(placed_runs.messages)
        if splits_messages:
            state = self._with_runs(state, placed_runs._replace(messages=None))
        if self.is_shared:
            local = functools.partial(arrays.local, on_one=not self.tables)
            state = jax.tree.map(local, state)
        elif not self.tables:  # of topics a device has its part
            state = jax.device_put(state, self.mesh.devices.flat[0])
        runs = self._runs(state)
        leaves, structure = jax.tree.flatten(row_tables(runs))
        cut = [_cut_padding(x, n, self.lead) for x, n in zip(leaves, self.rows, strict=True)]
        runs = replace_tables(runs, jax.tree.unflatten(structure, cut))
        if splits_messages:  # on the host: together they may be more than a device holds
            runs = runs._replace(
                messages=join_slices(placed_runs.messages, placed_runs.posterior, self.lead)
            )
        return self._with_runs(state, runs)

    def plain_state(self, state: Any) -> Any:
        """See `OneDevice`."""
        return _read_tables(self.callback_state(state))

    def any_process(self, asked: bool) -> bool:
        """See `OneDevice`."""
        if not self.is_shared:
            return asked
        watch.ENTERED.leave()
        return any_process(asked)

    def announce(
        self, batches: Iterable[Minibatch], step: int, asked: int
    ) -> tuple[Iterable[Minibatch], Announcement | None]:
        """See `OneDevice`."""
        if not self.is_shared:
            return batches, None
        read = list(batches)
        return read, announce_batches(read, step, asked, not self.reads_own)

    def synchronize(
        self, source: Generator, start: int, length: int, total: int, loader: Any
    ) -> Generator:
        """See `OneDevice`."""
        if not self.is_shared:
            return source
        is_stream = hasattr(loader, "is_stream")
        return synchronize(source, start, Rules(length, total, not self.reads_own, is_stream))

    @property
    def is_shared(self) -> bool:
        """True if the mesh has devices of other processes."""
        return is_shared(self.mesh)

    def _runs(self, state: Any) -> Any:
        return state.states if self.lead else state

    def _with_runs(self, state: Any, runs: Any) -> Any:
        return state._replace(states=runs) if self.lead else runs

    def _splits(self, messages: Any) -> bool:
        """True if each device has a slice of the messages of parts, or of their memory."""
        return isinstance(messages, by_part | Parts) and not self.is_shared and not self.tables

    @property
    def _num_shares(self) -> int:
        """The number of parts into which a batch is split."""
        return int(self.mesh.shape[self.axis])

    def _pad_rows(self, x: Any) -> Any:
        return _add_rows(x, -count_rows(x, self.lead) % self._num_shares, self.lead)

    def _put(self, tree: Any, places: Any) -> Any:
        return arrays.put(tree, places) if self.is_shared else jax.device_put(tree, places)

    def _sharding(self, spec: P) -> NamedSharding:
        return NamedSharding(self.mesh, spec)


def choose_placement(
    mesh: Mesh | None, state: Any, loader: Any = None, model: Model | None = None
) -> OneDevice | ManyDevices:
    """The placement of a fit that starts at this state: one run, or several stacked in its
    `states`. The model says which tables are of topics."""
    if mesh is None:
        return OneDevice()
    runs = getattr(state, "states", state)
    lead = int(hasattr(state, "states"))
    rows = tuple(count_rows(x, lead) for x in jax.tree.leaves(row_tables(runs)))
    mesh, axis = check_mesh(mesh)
    tables = {}
    if model is not None and count_topic_parts(mesh) > 1:
        tables = find_tables(model, replace_tables(runs, None))
    placement = ManyDevices(mesh, axis, rows=rows, lead=lead, tables=tables)
    processes = [device.process_index for device in placement.mesh.devices.flat]
    are_equal = len({processes.count(k) for k in processes}) == 1
    has_shares = hasattr(type(loader), "with_share")
    reads_own = placement.is_shared and processes == sorted(processes) and are_equal and has_shares
    return dataclasses.replace(placement, reads_own=reads_own)


def row_tables(run: Any) -> tuple[Any, Any]:
    """The tables by row of a state: carried locals and warm starts."""
    return run.local, run.beside.get(Warm.name)


def replace_tables(run: Any, tables: tuple[Any, Any] | None) -> Any:
    """A state with other tables by row, or with none."""
    local, warm = tables or (None, None)
    beside = {name: x for name, x in run.beside.items() if name != Warm.name}
    if warm is not None:
        beside[Warm.name] = warm
    return run._replace(local=local, beside=beside)


def is_shared(mesh: Mesh | None) -> bool:
    """True for a mesh with devices of other processes."""
    return mesh is not None and any(
        device.process_index != jax.process_index() for device in mesh.devices.flat
    )


# --- streams --------------------------------------------------------------------------------------
def is_part(loader: Any) -> bool:
    """True for a stream in which each process gives its own part."""
    return hasattr(loader, "is_stream") and loader.source.is_part


def silence_end(loader: Any) -> None:
    """Keeps a stream from warning at its end: `vijax.scale.in_step` warns for all processes."""
    while loader is not None:
        if isinstance(loader, StreamLoader):
            loader.warns_of_end = False
        loader = getattr(loader, "inner", None)


def require_no_part(loader: Any, processes: int) -> None:
    """Raises ValueError if one part of a stream would be fitted alone."""
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
    """The batches of another loader, padded to a multiple of `multiple` groups. Padding has weight
    0 and comes last."""

    inner: Any
    multiple: int

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "inner"), name)

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """See `vijax.data.loader.Loader`."""
        return (pad_batch(batch, self.multiple) for batch in self.inner.batches(start, stop))

    def makers(self, start: int, stop: int) -> Iterator[Maker] | None:
        """See `vijax.data.streams.threads`."""
        pad = functools.partial(pad_batch, multiple=self.multiple)
        return change_batches(pad, batch_makers(self.inner, start, stop))


def pad_batch(batch: Minibatch, multiple: int) -> Minibatch:
    """A batch whose number of groups is a multiple: groups of weight 0 follow at its end. Documents
    of several lengths are padded at each length.

    >>> batch = pad_batch(Minibatch(np.array([2.0, 3.0]), 5.0, rows=np.array([1, 4])), 4)
    >>> print(batch.data, batch.weights, batch.rows)
    [2. 3. 2. 2.] [1. 1. 0. 0.] [1 4 5 5]
    """
    if isinstance(batch.data, OwnWords):
        padded = pad_batch(batch._replace(data=batch.data.documents), multiple)
        return padded._replace(data=dataclasses.replace(batch.data, documents=padded.data))
    # The row number of padding: beyond all rows. A float32 of 2**24 or more may be less than N.
    beyond: Any = np.iinfo(np.int32).max
    if batch.num_groups is not None and batch.num_groups < 1 << 24:
        beyond = batch.num_groups
    if isinstance(batch.data, tuple) and all(isinstance(docs, Documents) for docs in batch.data):
        return batch._replace(
            data=jax.tree.map(lambda x: _fill_rows(x, multiple, 0), batch.data),
            rows=jax.tree.map(lambda x: _fill_rows(x, multiple, beyond), batch.rows),
        )
    size = count_rows(jax.tree.leaves(batch.data)[0])
    missing = -size % multiple
    if missing == 0:
        return batch
    weights = np.ones(size, np.float32) if batch.weights is None else batch.weights
    return batch._replace(
        data=jax.tree.map(lambda x: _add_rows(x, missing), batch.data),  # numbers a model can read
        weights=_add_rows(weights, missing, fill=0),
        rows=jax.tree.map(lambda x: _add_rows(x, missing, fill=beyond), batch.rows),
    )


def count_rows(x: Any, axis: int = 0) -> int:
    """The length of an axis."""
    return int(np.shape(x)[axis])


def _read_tables(state: Any) -> Any:
    """A state with its tables by row read whole into this process."""

    def read(x: Any) -> Any:
        return to_device(np.asarray(x)) if isinstance(x, arrays.Rows | StoredRows) else x

    return jax.tree.map(read, state)


def _join_parts(state: Any) -> Any:
    """A state whose arrays lie on one device each: those on several (`vijax.scale.by_topic`) are
    joined on the host."""

    def join(x: Any) -> Any:
        if isinstance(x, jax.Array) and len(x.sharding.device_set) > 1:
            return to_device(np.asarray(x))
        return x

    return jax.tree.map(join, state)


def _cut_padding(x: Any, length: int, axis: int) -> Any:
    """The first rows of an array along its axis of groups, 0 or 1."""
    if isinstance(x, arrays.Rows):
        return x.first(length)
    return x[:, :length] if axis else x[:length]


def _fill_rows(x: Any, multiple: int, fill: Any) -> Any:
    """An array whose number of rows is a multiple, the new rows of one number."""
    return _add_rows(x, -count_rows(x) % multiple, fill=fill)


def _add_rows(x: Any, count: int, axis: int = 0, fill: Any = None) -> Any:
    """An array with `count` more rows, of one number or copies of its first row."""
    if count == 0:
        return x
    if isinstance(x, StoredRows):
        return x.pad(count)
    first = np.take(np.asarray(x), [0], axis=axis)
    if fill is not None:
        first = np.full_like(first, fill)
    return np.concatenate([np.asarray(x), np.repeat(first, count, axis=axis)], axis=axis)
