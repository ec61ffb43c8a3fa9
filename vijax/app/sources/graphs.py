"""Graphs as data of a run: an edge list or an adjacency matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax.app.settings.sections import GraphData, read_dialect
from vijax.app.settings.typed_toml import ConfigError, Entry
from vijax.app.sources.listing import Data, New, Source
from vijax.app.sources.tables import check_no_column
from vijax.data.reading.checks import Notes, fail, nearest
from vijax.data.tables.columns import Columns
from vijax.data.tables.graph import Graph, GraphChoice, make_graph, split_graph
from vijax.data.tables.table_files import read_columns

USUAL = GraphData()
"""Default names of columns."""


def adjacency(graph: Graph, settings: Any = None) -> np.ndarray:
    """The graph as its model reads it, (1, N, N), in the working precision."""
    return np.asarray(graph.x, jnp.result_type(float))[None]


def load_graph(config: Any) -> Data:
    """The graph; its held-out part has other pairs of the same nodes."""
    section: GraphData = config.data
    graph = _read(config, section.path, None)
    if section.held_out == 0.0:
        return Data(graph, None)
    return Data(*split_graph(graph, section.held_out, section.split_seed))


def _read(config: Any, path: str, nodes: tuple[str, ...] | None) -> Graph:
    section = config.data
    notes = Notes()
    is_own = path == section.path
    columns = read_columns(
        path,
        section.synthetic_seed,
        section.num_rows if is_own else None,
        read_dialect(section),
        section.sha256 if is_own else None,
        (section.source, section.target),
        notes,
    )
    _check_columns(section, columns, path)
    counts = config.model.edges == "poisson"
    choice = GraphChoice(
        section.source, section.target, section.weight, config.model.directed, counts, nodes
    )
    return make_graph(columns, choice, path, notes)


def _check_columns(section: GraphData, columns: Columns, path: str) -> None:
    """Raises a DataError if a column that the user has named is missing; a column of the default
    name may be missing."""
    for key in ("source", "target", "weight"):
        name = getattr(section, key)
        usual = getattr(USUAL, key)
        if name != usual and name not in columns:
            remedy = f"name another, or leave it out, data.{key}; {nearest(name, columns)}"
            raise fail(path, f"a column {name!r} (data.{key})", "none of that name", remedy)


def _other(config: Any, data: Data, path: str, column: str | None) -> Graph:
    """Another graph of the same nodes, such as a later state."""
    check_no_column(column, "a graph must have the nodes")
    return _read(config, path, data.train.columns)


def _facts(data: Data) -> dict[str, Any]:
    """The sizes of a graph, in JSON's own types."""
    train: Graph = data.train
    pairs = train.pairs
    size = len(train.columns)
    held_out = 0 if data.test is None else int(data.test.pairs.sum())
    possible = size * (size - 1) // (1 if train.directed else 2)
    return {
        "nodes": size,
        "directed": train.directed,
        "edges": int((train.x[pairs] > 0).sum()),
        "pairs": int(pairs.sum()),
        "held_out": held_out,
        "missing": possible - int(pairs.sum()) - held_out,
    }


def _tiles(facts: dict[str, Any]) -> dict[str, str]:
    kind = "directed" if facts["directed"] else "undirected"
    tiles = {
        "Nodes": f"{facts['nodes']:,} | {kind}",
        "Linked pairs": f"{facts['edges']:,} | of {facts['pairs']:,}, and {facts['held_out']:,} "
        "held out",
    }
    if facts["missing"]:
        tiles["Pairs not observed"] = f"{facts['missing']:,}"
    return tiles


def _digest(data: Data) -> Iterator[Any]:
    for graph in data.parts:
        yield "\n".join(graph.columns).encode()
        yield np.ascontiguousarray(graph.x, np.float64).data


def _describe(data: Data) -> str:
    facts = _facts(data)
    kind = "a directed" if facts["directed"] else "an undirected"
    parts = [f"{kind} graph of {facts['nodes']:,} nodes"]
    parts.append(f"{facts['edges']:,} of {facts['pairs']:,} pairs linked")
    if facts["missing"]:
        parts.append(f"{facts['missing']:,} pairs not observed")
    if facts["held_out"]:
        parts.append(f"{facts['held_out']:,} pairs held out")
    return ", ".join(parts)


def _check(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` unless the three columns of an edge list have three names."""
    section = config.data
    names = [section.source, section.target, section.weight]
    if len(set(names)) < len(names):
        key = next(key for key in ("source", "target", "weight") if f"data.{key}" in entries)
        origin = entries[f"data.{key}"].origin
        raise ConfigError(
            f"{origin}: data.{key}: expected three columns of an edge list, got {', '.join(names)}"
        )


def _new(config: Any, data: Data, source: Any, column: str | None) -> New:
    """A graph of the same nodes; None: the run's own, with the pairs of training."""
    check_no_column(column, "a graph must have the nodes")
    if source is not None and not isinstance(source, str | Path):
        raise ConfigError(
            f"data: expected the path of a graph, got {type(source).__name__}; save it as a file"
        )
    graph = data.train if source is None else _read(config, str(source), data.train.columns)
    return New(graph, {"node": list(graph.columns)}, graph.notes)


GRAPHS = Source(
    section=GraphData,
    load=load_graph,
    other=_other,
    facts=_facts,
    tiles=_tiles,
    digest=_digest,
    describe=_describe,
    check=_check,
    keep=lambda folder, data: None,  # results for nodes need the training graph
    kept_files=(),
    kept=lambda folder: None,
    new=_new,
    results="nodes",
)
