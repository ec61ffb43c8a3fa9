"""Graphs on the command line: the score by hand, and a run on an edge list."""

import json
import types

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from vijax.app.catalogue import stochastic_block_model as listing
from vijax.app.cli import main
from vijax.app.sources.listing import Data
from vijax.data.tables.graph import Graph

Q = np.array([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5], [0.2, 0.8]])


def seen(edges, rates, is_point, test):
    """A fit of which all is given: memberships, posterior of the rates."""
    probs = types.SimpleNamespace(probs=Q[None])
    spec = types.SimpleNamespace(is_point=lambda name: is_point)
    fit = types.SimpleNamespace(
        locals=lambda data, key: {"z": probs},
        alg=types.SimpleNamespace(spec=spec),
        posterior={"rates": rates},
    )
    train = Graph(tuple("abcd"), np.where(np.isnan(test), 0.0, np.nan), test.shape != test.T.shape)
    settings = listing.Settings(num_blocks=2, edges=edges)
    return types.SimpleNamespace(
        fit=fit,
        data=Data(train, Graph(tuple("abcd"), test)),
        settings=settings,
        key=None,
        posterior=fit.posterior,
        point=lambda name: np.asarray(rates.mean()),
    )


def held_out(value):
    test = np.full((4, 4), np.nan)
    test[0, 1] = test[1, 0] = value
    test[2, 3] = test[3, 2] = 0.0
    return test


def pair(i, j, table):
    return sum(Q[i, k] * Q[j, m] * table[k][m] for k in range(2) for m in range(2))


def test_the_score_of_edges_by_hand():
    """Beta-Bernoulli predictive probabilities: (a, b, c) between blocks 11, 12, 22."""
    rates = vi.Beta.from_alpha_beta(np.array([2.0, 1.0, 3.0]), np.array([2.0, 4.0, 1.0]))
    mean = [[0.5, 0.2], [0.2, 0.75]]
    found = listing.score(seen("bernoulli", rates, False, held_out(1.0)))
    expected = [np.log(pair(0, 1, mean)), np.log(1 - pair(2, 3, mean))]
    np.testing.assert_allclose(found.mean, np.mean(expected), rtol=1e-6)
    assert found.number == 2
    assert (
        found.remarks == "area under the ROC curve 0.000"
    )  # the linked pair has the smaller chance
    assert pair(0, 1, mean) < pair(2, 3, mean)


@pytest.mark.parametrize("is_point", [False, True])
def test_the_score_of_counts_by_hand(is_point):
    """Gamma-Poisson predictive probabilities, by quadrature over the rate; at a point those of the
    mean here."""
    shape, rate = np.array([2.0, 1.0, 3.0]), np.array([2.0, 4.0, 1.0])
    grid = np.linspace(1e-6, 40, 200_001)
    step = grid[1] - grid[0]

    def chance(y, i):
        if is_point:
            return stats.poisson.pmf(y, shape[i] / rate[i])
        return (
            np.sum(stats.poisson.pmf(y, grid) * stats.gamma.pdf(grid, shape[i], scale=1 / rate[i]))
            * step
        )

    found = listing.score(
        seen("poisson", vi.Gamma.from_shape_rate(shape, rate), is_point, held_out(3.0))
    )
    table = lambda y: [[chance(y, 0), chance(y, 1)], [chance(y, 1), chance(y, 2)]]
    expected = [np.log(pair(0, 1, table(3.0))), np.log(pair(2, 3, table(0.0)))]
    np.testing.assert_allclose(found.mean, np.mean(expected), rtol=1e-4)


def test_the_area_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    chance, linked = rng.integers(0, 9, 60) / 9, rng.random(60) < 0.3
    wins = (chance[linked][:, None] > chance[~linked]) + 0.5 * (
        chance[linked][:, None] == chance[~linked]
    )
    np.testing.assert_allclose(listing._area(chance, linked), wins.mean())


def test_an_edge_list_is_fitted_scored_and_described(tmp_path, capsys):
    """Two cliques of names: who belongs to which block, and how often they are linked."""
    groups = [[f"{side}{i}" for i in range(8)] for side in "lr"]
    edges = [f"{a},{b}" for group in groups for i, a in enumerate(group) for b in group[:i]]
    (tmp_path / "links.csv").write_text("\n".join(["who,whom", *edges, "l0,r0"]) + "\n")
    (tmp_path / "graph.toml").write_text(
        '[model]\nname = "stochastic_block_model"\nnum_blocks = 2\n[data]\npath = '
        f'"{tmp_path / "links.csv"}"\n'
        'source = "who"\ntarget = "whom"\n[fit]\nnum_epochs = 4\n'
    )
    out = tmp_path / "run"
    assert main(["fit", str(tmp_path / "graph.toml"), "--out", str(out)]) == 0
    shown = {
        block["title"]: block for block in json.loads((out / "result.json").read_text())["blocks"]
    }
    block_of = {name: block for name, block, _ in shown["Nodes"]["rows"]}
    assert {len({block_of[name] for name in group}) for group in groups} == {1}
    assert block_of["l0"] != block_of["r0"]
    rates = np.array(shown["Links between blocks"]["values"])
    assert rates.diagonal().min() > 0.9 > 0.1 > rates[0, 1]
    assert "area under the ROC curve 1.000" in capsys.readouterr().out
    assert main(["evaluate", str(out), "--data", str(tmp_path / "links.csv")]) == 0
    assert "(120 pairs; area" in capsys.readouterr().out
    assert main(["fit", str(tmp_path / "graph.toml"), "--set", "data.weight=who"]) == 2
    assert "expected three columns of an edge list" in capsys.readouterr().err
