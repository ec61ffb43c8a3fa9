"""Graphs from edge lists and matrices: what every pair becomes, and what is refused."""

import numpy as np
import pytest

from tests.naming import naming
from vijax.data.tables.graph import GraphChoice, make_graph, split_graph
from vijax.data.tables.table_files import read_columns

NAN = float("nan")


def read(path, text, **choice):
    path.write_text(text)
    given = GraphChoice(**choice)
    return make_graph(read_columns(str(path), exact=(given.source, given.target)), given, str(path))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "graph.csv"


LIST = "source,target,weight\n007,b,2\n007,b,1\nb,c,\nc,c,4\nd,c,0\n"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"counts": True}, [[0, 3, 0, 0], [3, 0, NAN, 0], [0, NAN, 0, 0], [0, 0, 0, 0]]),
        (
            {"counts": True, "directed": True},
            [[0, 3, 0, 0], [0, 0, NAN, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
        ),
    ],
)
def test_edge_lists(path, choice, expected):
    """Names stay as they are written; rows of a pair add up; 0 is no edge, a missing weight a pair
    not observed."""
    graph = read(path, LIST, **choice)
    assert graph.columns == ("007", "b", "c", "d")
    np.testing.assert_array_equal(graph.x, expected)
    assert graph.notes == ("Edges from a node to itself are left out (1 such).",)
    assert graph.pairs.sum() == (11 if graph.directed else 5)


def test_edges_in_both_directions_count_once(path):
    once, both = "from,to,n\na,b,2\nb,c,1\n", "from,to,n\na,b,2\nb,c,1\nc,b,1\nb,a,2\n"
    names = {"source": "from", "target": "to", "weight": "n", "counts": True}
    for text in (once, both):
        np.testing.assert_array_equal(
            read(path, text, **names).x, [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
        )
    np.testing.assert_array_equal(
        read(path, "source,target\na,b\nb,a\na,b\nb,c\n").x, [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    )


@pytest.mark.parametrize("extra", ["c,a,1", "b,c,1", "a,b,2"])
def test_counts_of_a_pair_do_not_depend_on_other_rows(path, extra):
    """One more row turned a list in both directions into one in which all counts are doubled."""
    both = "source,target,weight\na,b,2\nb,a,2\nc,d,3\nd,c,3\n"
    graph = read(path, both, counts=True)
    assert (graph.x[0, 1], graph.x[2, 3]) == (2, 3)
    assert graph.notes[0].startswith("All 2 pairs are listed in both directions")
    with pytest.raises(ValueError, match=naming("2", "'a'", "'b'")):
        read(path, both + extra + "\n", counts=True)
    assert read(path, both + extra + "\n", counts=True, directed=True).x[2, 3] == 3


@pytest.mark.parametrize(
    "rows", ["node,a,b,c\na,7,1,\nb,1,7,0\nc,,0,7\n", "a,b,c\n7,1,\n1,7,0\n,0,7\n"]
)
def test_matrices(path, rows):
    """With names of the rows or without; the diagonal is not looked at."""
    graph = read(path, rows)
    assert graph.columns == ("a", "b", "c")
    np.testing.assert_array_equal(graph.x, [[0, 1, NAN], [1, 0, 0], [NAN, 0, 0]])


def test_matrices_of_numpy(tmp_path):
    y = np.triu(np.random.default_rng(0).poisson(1.0, (5, 5)), 1)
    np.save(tmp_path / "y.npy", y)
    read = lambda **choice: make_graph(
        read_columns(str(tmp_path / "y.npy")), GraphChoice(counts=True, **choice), "y.npy"
    )
    np.testing.assert_array_equal(read(directed=True).x, y)
    with pytest.raises(ValueError, match=naming("0", "model.directed")):
        read()


def test_nodes_that_are_known_keep_their_order(path):
    text = "source,target\nc,b\n"
    np.testing.assert_array_equal(
        read(path, text, nodes=("a", "b", "c")).x, [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    )
    with pytest.raises(ValueError, match=naming("'a'", "'b'", "'c'")):
        read(path, text, nodes=("a", "b"))


@pytest.mark.parametrize(
    ("text", "choice", "message"),
    [
        (
            "source,target,weight\na,b,2\n",
            {},
            r"edges, 0 or 1, got 2 in line 2 .*model.edges = \"poisson\"",
        ),
        (
            "source,target,weight\na,b,0.5\n",
            {"counts": True},
            r"counts 0, 1, 2, \.\.\., got 0.5 in line 2",
        ),
        ("source,target,weight\na,b,-1\n", {"counts": True}, r"got -1 in line 2"),
        (
            "source,target,weight\na,b,many\n",
            {},
            "column 'weight': expected numbers, got 'many' in line 2",
        ),
        (
            "source,target\na,b\n,c\n",
            {},
            "column 'source': expected a node in every row, got a missing .* in line 3",
        ),
        (
            "from,to\na,b\n",
            {},
            "expected an edge list, with the columns 'source' and 'target', or a square matrix",
        ),
        (
            "a,b,c\n0,1,0\n1,0,0\n",
            {},
            "or a square matrix, got 2 rows of the columns 'a', 'b', 'c'",
        ),
        ("a,b\n0,1\n0,0\n", {}, "a symmetric matrix, got 1 from 'a' to 'b' and 0 back"),
        ("a,b\n0,3\n3,0\n", {}, "edges, 0 or 1, got 3 between 'a' and 'b'"),
        (
            "node,a,b\nb,0,1\na,1,0\n",
            {},
            "rows in the order of the columns, 'a', 'b', got 'b', 'a'",
        ),
        ("source,target\na,a\n", {}, "a graph of 2 to 5,000 nodes, got 1"),
    ],
)
def test_what_is_no_graph_is_said(path, text, choice, message):
    with pytest.raises(ValueError, match=message):
        read(path, text, **choice)


@pytest.mark.parametrize("directed", [False, True])
def test_every_observed_pair_is_in_one_part(directed):
    x = np.random.default_rng(1).integers(0, 2, (40, 40)).astype(float)
    x = x if directed else np.triu(x, 1) + np.triu(x, 1).T
    x[3, 7] = x[7, 3] = NAN
    np.fill_diagonal(x, 0.0)
    graph = make_graph(
        dict(zip(map(str, range(40)), x.T, strict=True)), GraphChoice(directed=directed), "x"
    )
    train, test = split_graph(graph, 0.25, seed=0)
    np.testing.assert_array_equal(train.pairs | test.pairs, graph.pairs)
    assert not (train.pairs & test.pairs).any()
    assert not np.isfinite(train.x[3, 7] + test.x[3, 7])
    share, number = test.pairs.sum() / graph.pairs.sum(), graph.pairs.sum()
    assert abs(share - 0.25) < 4 * np.sqrt(0.25 * 0.75 / number)
    for part in (train, test):
        np.testing.assert_array_equal(part.x[part.pairs], graph.x[part.pairs])
        assert directed or np.array_equal(part.x, part.x.T, equal_nan=True)
    with pytest.raises(ValueError, match=r"data\.held_out: expected a share"):
        split_graph(graph, 1e-9, 0)


def test_a_column_called_as_counts_is_told_or_refused(path):
    """It was dropped, and all counts were ones."""
    text = "source,target,num_emails\na,b,9\nb,c,7\n"
    with pytest.raises(ValueError, match=naming("'weight'", "'num_emails'")):
        read(path, text, counts=True)
    assert read(path, text, counts=True, weight="num_emails").x[0, 1] == 9
    graph = read(path, "source,target,year\na,b,2009\nb,c,2010\n", counts=True)
    assert graph.notes == ("Columns that are not read: 'year'. Each row is an edge.",)
