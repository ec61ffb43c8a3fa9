"""States whose tables of topics and words are split over devices by topics.

A table of K topics and V words, a message of it, and the memory of an optimiser lie in parts of K /
T topics on the T devices of a mesh's axis "topics"; XLA adds up what documents need of all topics.
Everything else is whole on each of these devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import PRNGKeyArray

from vijax import tree
from vijax.checks import require
from vijax.contract.model import Model
from vijax.inference.compose import Algorithm
from vijax.inference.state import Info, State
from vijax.inference.wrappers.wrapper import Wrapper, wrap
from vijax.scale import arrays
from vijax.scale.devices import TOPICS, check_mesh, count_topic_parts
from vijax.scale.row_files import StoredRows
from vijax.topics.own_words import word_tables


def split_topics(alg: Algorithm, mesh: Mesh) -> Algorithm:
    """The algorithm with its tables of topics split over an axis of the mesh; as it is on a mesh
    without this axis.

    Raises:
      ValueError: a model without such tables, or a number of topics that the axis does not divide.
    """
    parts = count_topic_parts(mesh)
    if parts == 1:
        return alg
    mesh, _ = check_mesh(mesh)
    sizes = _table_sizes(alg.spec.model)
    remedy = "Take vijax.scale.mesh(8), which splits batches alone."
    expected = "a model with tables over words, where topics are split: lda, hdp, ctm, hpf"
    require(sizes, "mesh", expected, "another model", remedy)
    for num_topics, _ in sizes:
        expected = f"parts of the topics that divide their number, {num_topics}"
        remedy = f"Take a multiple of {parts} topics, or other parts: mesh(topics=...)."
        require(num_topics % parts == 0, "mesh", expected, parts, remedy)
    return wrap(alg, SplitTopics(mesh))


@dataclasses.dataclass(frozen=True)
class SplitTopics(Wrapper):
    """The wrapper of `split_topics`: states before and after a step lie by topics, and starts are
    made there."""

    name: ClassVar[str] = "split_topics"

    mesh: Mesh

    def init(self, alg: Algorithm, key: PRNGKeyArray, batch: Any, hyper: Any) -> State:
        """See `Wrapper`."""
        return self._constrain(alg, alg.init(key, batch, hyper))

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        """See `Wrapper`."""
        new, info = alg.step(key, self._constrain(alg, state), batch)
        return self._constrain(alg, new), info

    def _constrain(self, alg: Algorithm, state: State) -> State:
        """The state by topics; locals and memories by group lie as `vijax.scale.place` put them."""
        by_group = {wrapper.name for wrapper in alg.wrappers if wrapper.of_groups}
        memories = {name: x for name, x in state.beside.items() if name in by_group}
        averages = {name: x for name, x in state.beside.items() if name not in by_group}
        globals_ = state._replace(local=None, beside=averages)
        places = spread(globals_, find_tables(alg.spec.model, globals_), self.mesh)
        globals_ = jax.lax.with_sharding_constraint(globals_, places)
        return globals_._replace(local=state.local, beside={**globals_.beside, **memories})


def spread(state: Any, tables: Mapping[str, P], mesh: Mesh) -> Any:
    """The places of a state's arrays on a mesh: tables are split, everything else is whole."""

    def place(path: Any, _: Any) -> NamedSharding:
        return NamedSharding(mesh, tables.get(jax.tree_util.keystr(path), P()))

    return jax.tree_util.tree_map_with_path(place, state)


def put_by_topic(model: Model, mesh: Mesh | None, state: Any) -> Any:
    """A state, or several stacked in its `states`, on the devices of a mesh, its tables split by
    topics: one that is read from files is never whole on a device. Without an axis of topics only
    such tables are read. Rows of groups stay in their files."""
    tables = find_tables(model, state)
    if mesh is None or count_topic_parts(mesh) == 1:

        def read(path: Any, x: Any) -> Any:
            if isinstance(x, StoredRows) and jax.tree_util.keystr(path) in tables:
                return tree.to_device(np.asarray(x))
            return x

        return jax.tree_util.tree_map_with_path(read, state)

    def put(x: Any, place: NamedSharding) -> Any:
        if not isinstance(x, StoredRows):
            return jax.device_put(x, place)
        if any(place.spec):
            return arrays.put(x, place)
        return x

    return jax.tree.map(put, state, spread(state, tables, check_mesh(mesh)[0]))


def find_tables(model: Model, state: Any) -> dict[str, P]:
    """The places in a state of its tables of topics and words, with the axis that is split: that of
    the topics. Leading axes (restarts, parts of the data) are whole.

    >>> import vijax as vi
    >>> alg = vi.svi(vi.models.lda(4, 9))
    >>> places = find_tables(alg.spec.model, alg.init(jax.random.key(0)))
    >>> {name: tuple(place) for name, place in places.items()}
    {".posterior['topics'].concentration": ('topics', None)}
    """
    sizes = _table_sizes(model)
    tables = {}
    for path, x in jax.tree_util.tree_leaves_with_path(state):
        shape = np.shape(x)
        lead = (None,) * (len(shape) - 2)
        if shape[-2:] in sizes:
            tables[jax.tree_util.keystr(path)] = P(*lead, TOPICS, None)
        elif shape[-2:][::-1] in sizes:
            tables[jax.tree_util.keystr(path)] = P(*lead, None, TOPICS)
    return tables


def _table_sizes(model: Model) -> set[tuple[int, int]]:
    """The numbers of topics and words of the tables over words."""
    names = list(word_tables(model))
    if not names:
        return set()
    laws = jax.eval_shape(model.prior, dict(model.hyper))
    num_words = model.form.documents.vocab_size  # type: ignore[union-attr]
    totals = [tree.parameters(laws[name])[0].size for name in names]
    return {(total // num_words, num_words) for total in totals}
