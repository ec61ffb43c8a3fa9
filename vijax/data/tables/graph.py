"""Graphs, for models of who is linked with whom, from an edge list or an adjacency matrix."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from vijax.data.held_out import held_out_generator
from vijax.data.reading.checks import Notes, fail, listed
from vijax.data.schema.labels import label_name
from vijax.data.schema.name_words import COUNTS, words_of_name
from vijax.data.tables.columns import (
    Columns,
    as_numbers,
    check_parts,
    check_present,
    not_numbers,
    row_name,
    said_missing,
)

MOST_NODES = 5000
"""The most nodes of a graph: its matrix then takes 200 MB."""


@dataclasses.dataclass(frozen=True)
class Graph:
    """Nodes, and the edges or counts between them.

    Attributes:
      columns: names of the nodes.
      x: edges or counts from the node of the row to the node of the column; NaN for a pair that was
        not observed.
      directed: whether x may be asymmetric.
      notes: remarks for the user, such as on edges that are left out.
    """

    columns: tuple[str, ...]
    x: Float[np.ndarray, "N N"]
    directed: bool = False
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def pairs(self) -> Bool[np.ndarray, "N N"]:
        """A mask of the observed pairs, each once: off the diagonal, and in an undirected graph
        with i < j."""
        size = len(self.columns)
        is_pair = np.triu(np.ones((size, size), bool), 1)
        if self.directed:
            is_pair = ~np.eye(size, dtype=bool)
        return is_pair & np.isfinite(self.x)


class GraphChoice(NamedTuple):
    """The columns of a file that make a graph.

    Attributes:
      source: column of the nodes at which edges begin.
      target: column of the nodes at which they end.
      weight: column of their weights; without such a column all weights are 1.
      directed: whether an edge from a to b differs from one from b to a.
      counts: whether weights are counts, which add up; else a pair has an edge or none.
      nodes: the nodes, if known.
    """

    source: str = "source"
    target: str = "target"
    weight: str = "weight"
    directed: bool = False
    counts: bool = False
    nodes: tuple[str, ...] | None = None


def make_graph(
    columns: Columns, choice: GraphChoice, where: str, notes: Notes | None = None
) -> Graph:
    """The graph of an edge list, if the named columns exist, or else of a square matrix with a
    column per node.

    In an edge list a pair with a weight of 0 has no edge, like a pair that is not listed; a pair
    with a missing weight was not observed. Edges of an undirected graph may be listed once or in
    both directions; of counts all once, or all in both directions with equal counts.

    Raises:
      DataError: neither an edge list nor a square matrix; weights that are no edges or counts; an
        asymmetric matrix for an undirected graph; too many nodes, or other nodes than the known
        ones.

    >>> columns = {"source": np.array(["ann", "bob"], object), "target": np.array(["bob", "cy"], object)}
    >>> graph = make_graph(columns, GraphChoice(), "an example")
    >>> print(graph.columns, graph.x.tolist())
    ('ann', 'bob', 'cy') [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """
    notes = notes or Notes()
    is_list = choice.source in columns and choice.target in columns
    names, x = (_read_edges if is_list else _read_matrix)(columns, choice, where, notes)
    if choice.nodes is not None and tuple(names) != choice.nodes:
        unknown = [name for name in names if name not in choice.nodes] or list(names)
        expected = f"the nodes of the run, {listed(choice.nodes, 3)}"
        raise fail(where, expected, listed(unknown, 3), "name them alike")
    np.fill_diagonal(x, 0.0)
    return Graph(tuple(names), x, choice.directed, notes.texts())


# --- edge lists -----------------------------------------------------------------------------------
def _read_edges(
    all_columns: Columns, choice: GraphChoice, where: str, notes: Notes
) -> tuple[Sequence[str], Float[np.ndarray, "N N"]]:
    ends = []
    for column in (choice.source, choice.target):
        words = said_missing(all_columns, column)
        where_column = f"{where}, column {column!r}"
        at = row_name(all_columns)
        check_present(all_columns[column], "a node in every row", where_column, at, words=words)
        ends.append([label_name(value) for value in all_columns[column].tolist()])
    pairs = zip(*ends, strict=True)
    names = tuple(dict.fromkeys(name for pair in pairs for name in pair))
    if choice.nodes is not None and set(names) <= set(choice.nodes):
        names = choice.nodes
    _check_size(len(names), where)
    place = {name: i for i, name in enumerate(names)}
    rows, columns = (np.array([place[name] for name in end], int) for end in ends)
    weights = _weights(all_columns, choice, where, notes)
    if (loops := rows == columns).any():
        notes.add(f"Edges from a node to itself are left out ({int(loops.sum())} such).")
    is_edge = ~loops
    edges = rows[is_edge], columns[is_edge], weights[is_edge]
    x = _sum_weights(*edges, len(names))
    if not choice.directed:
        x = _join_directions(x, names, choice, where, notes)
    return names, x if choice.counts else np.minimum(x, 1.0)


def _weights(
    columns: Columns, choice: GraphChoice, where: str, notes: Notes
) -> Float[np.ndarray, " E"]:
    """The weights of edges; ones without a column of them. A column that is called as counts are
    must be told."""
    if choice.weight not in columns:
        unread = [name for name in columns if name not in (choice.source, choice.target)]
        by_name = [name for name in unread if is_name_of_counts(name)]
        if by_name:
            actual = f"none by this name beside {listed(by_name)}"
            remedy = f"say data.weight={by_name[0]}, or leave that column out of the file"
            raise fail(where, f"the column of weights, {choice.weight!r}", actual, remedy)
        if unread:
            notes.add(f"Columns that are not read: {listed(unread)}. Each row is an edge.")
        return np.ones(len(columns[choice.source]))
    where = f"{where}, column {choice.weight!r}"
    at = row_name(columns)
    weights = as_numbers(columns[choice.weight], where, at, "correct it, or name another column")
    _check_values(weights, choice, where, lambda place: f"in {at(place[0])}")
    return weights


def _sum_weights(
    rows: Int[np.ndarray, " E"],
    columns: Int[np.ndarray, " E"],
    weights: Float[np.ndarray, " E"],
    size: int,
) -> Float[np.ndarray, "N N"]:
    """Sums of weights from node to node; a pair with a missing weight is not observed."""
    x = np.zeros((size, size))
    np.add.at(x, (rows, columns), weights)
    return x


def _join_directions(
    x: Float[np.ndarray, "N N"],
    names: Sequence[str],
    choice: GraphChoice,
    where: str,
    notes: Notes,
) -> Float[np.ndarray, "N N"]:
    """The symmetric matrix of an undirected graph. Edges are listed once or all of them twice. Of
    counts anything between is refused: one more row must not change what the others mean."""
    is_listed = x != 0
    listed_twice = np.argwhere(np.triu(is_listed & is_listed.T))
    if np.array_equal(x, x.T, equal_nan=True):
        if choice.counts and len(listed_twice):
            notes.add(
                f"All {len(listed_twice):,} pairs are listed in both directions with equal "
                "weights: each counts once."
            )
        return x
    if choice.counts and len(listed_twice):
        i, j = listed_twice[0]
        actual = (
            f"{len(listed_twice):,} pairs in both directions, {names[i]!r} and {names[j]!r} among "
            f"them ({x[i, j]:g} and {x[j, i]:g}), in a list that is not the same in both"
        )
        remedy = (
            "list each pair once, with its count, or every pair in both directions with equal "
            "counts, or set model.directed = true"
        )
        raise fail(where, "an undirected graph of counts", actual, remedy)
    return x + x.T


# --- matrices -------------------------------------------------------------------------------------
def _read_matrix(
    columns: Columns, choice: GraphChoice, where: str, notes: Notes
) -> tuple[Sequence[str], Float[np.ndarray, "N N"]]:
    text = [name for name, values in columns.items() if not_numbers(values).any()]
    names = [name for name in columns if name not in text]
    if len(text) > 1 or not names or len(columns[names[0]]) != len(names):
        rows = len(next(iter(columns.values()), ()))
        actual = f"{rows} rows of the columns {listed(columns)}"
        expected = (
            f"an edge list, with the columns {choice.source!r} and {choice.target!r}, or a square "
            "matrix"
        )
        remedy = "name the columns of an edge list: data.source and data.target"
        raise fail(where, expected, actual, remedy)
    _check_size(len(names), where)
    if text and [label_name(value) for value in columns[text[0]].tolist()] != names:
        expected = f"rows in the order of the columns, {listed(names, 3)}"
        actual = f"{listed(columns[text[0]], 3)} in the column {text[0]!r}"
        raise fail(where, expected, actual, "bring them in one order")
    x = np.stack([as_numbers(columns[name]) for name in names], axis=1)
    off = np.where(np.eye(len(names), dtype=bool), 0.0, x)
    between = lambda place: f"between {names[place[0]]!r} and {names[place[1]]!r}"
    _check_values(off, choice, where, between)
    if not choice.directed and not np.array_equal(off, off.T, equal_nan=True):
        i, j = np.argwhere(~((off == off.T) | (np.isnan(off) & np.isnan(off.T))))[0]
        actual = f"{x[i, j]:g} from {names[i]!r} to {names[j]!r} and {x[j, i]:g} back"
        remedy = "fill in both halves, or set model.directed = true"
        raise fail(where, "a symmetric matrix", actual, remedy)
    return names, off


# --- checks ---------------------------------------------------------------------------------------
def _check_values(
    values: np.ndarray, choice: GraphChoice, where: str, place_name: Callable[[np.ndarray], str]
) -> None:
    is_valid = np.isin(values, (0.0, 1.0))
    if choice.counts:
        is_valid = (values >= 0) & (values == np.round(values)) & np.isfinite(values)
    bad = np.argwhere(~np.isnan(values) & ~is_valid)
    if len(bad):
        actual = f"{values[tuple(bad[0])]:g} {place_name(bad[0])} ({len(bad)} such)"
        expected = "counts 0, 1, 2, ..." if choice.counts else "edges, 0 or 1"
        remedy = "correct them" if choice.counts else 'of counts set model.edges = "poisson"'
        raise fail(where, expected, actual, remedy)


WORDS_OF_COUNTS = frozenset(
    {"weight", "weights", "n", "num", "number", "freq", "frequency", *COUNTS}
)


def is_name_of_counts(name: str) -> bool:
    """True for a name that counts have.

    >>> is_name_of_counts("Num_Emails"), is_name_of_counts("year")
    (True, False)
    """
    return bool(WORDS_OF_COUNTS & set(words_of_name(name)))


def _check_size(number: int, where: str) -> None:
    if not 2 <= number <= MOST_NODES:
        remedy = "take a part of the graph" if number > 2 else "check the file"
        raise fail(where, f"a graph of 2 to {MOST_NODES:,} nodes", f"{number:,}", remedy)


# --- in two parts ---------------------------------------------------------------------------------
def split_graph(graph: Graph, held_out: float, seed: int) -> tuple[Graph, Graph]:
    """Training and held-out parts, both with all nodes; each observed pair is held out with
    probability `held_out`. Raises DataError if a part would be empty."""
    pairs = graph.pairs
    out = pairs & (held_out_generator(seed).random(pairs.shape) < held_out)
    check_parts(int(out.sum()), int(pairs.sum()), held_out, "pairs")
    if not graph.directed:
        out = out | out.T
    train = np.where(out, np.nan, graph.x)
    test = np.where(out, graph.x, np.nan)
    return dataclasses.replace(graph, x=train), dataclasses.replace(graph, x=test)
