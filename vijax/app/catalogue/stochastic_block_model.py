"""Stochastic block models of graphs on the command line."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Float
from scipy import stats

from vijax import models
from vijax.app.drawing import views
from vijax.app.drawing.blocks import Block, Heat, Table
from vijax.app.rows.by_row import RowScore
from vijax.app.settings.options import model_section
from vijax.app.settings.sections import EnergyAlgorithm
from vijax.app.sources.graphs import GRAPHS, adjacency
from vijax.app.sources.listing import FittedRun, Listing, RowResults, Tell
from vijax.models.factors.stochastic_block_model import rates_matrix

MOST_DRAWN = 60
"""Number of nodes in the picture of the graph."""
MOST_NAMED = 6
"""Number of nodes that stand for a block."""

Settings = model_section(
    models.stochastic_block_model, "blocks of the nodes of a graph", num_blocks=3
)


# --- the score ------------------------------------------------------------------------------------
def score(run: FittedRun) -> RowScore:
    """Log predictive probability of each held-out pair.

    It is sum_kl q(z_i = k) q(z_j = l) E[p(y_ij | B_kl)].
    """
    test = run.data.test
    rows, columns = np.nonzero(test.pairs)
    y = test.x[rows, columns]
    q = memberships(run, run.data.train)
    chance = np.einsum("nk,nkl,nl->n", q[rows], _chances(run, y), q[columns])
    remarks = ""
    if run.settings.edges == "bernoulli" and 0 < y.sum() < len(y):
        linked = np.where(y > 0, chance, 1 - chance)
        remarks = f"area under the ROC curve {_area(linked, y > 0):.3f}"
    return RowScore.of(np.log(np.maximum(chance, 1e-300)), "pair", remarks)


def memberships(run: FittedRun, graph: Any) -> Float[np.ndarray, "N K"]:
    """q of the block of each node, given the observed pairs of a graph."""
    z: Any = run.fit.locals(adjacency(graph), key=run.key)["z"]
    return np.asarray(z.probs[0], np.float64)


def _chances(run: FittedRun, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n K K"]:
    """E[p(y | B)] for each observation and pair of blocks."""
    counts = y[:, None, None]
    if run.settings.edges == "bernoulli":
        mean = _rates(run.point("rates"))
        return np.where(counts > 0, mean, 1 - mean)
    if run.fit.alg.spec.is_point("rates"):
        return stats.poisson.pmf(counts, _rates(run.point("rates")))
    q: Any = run.posterior["rates"]
    shape, rate = _rates(q.shape), _rates(q.rate)
    return stats.nbinom.pmf(counts, shape, rate / (1 + rate))


def _rates(values: Array) -> Float[np.ndarray, "K K"]:
    return np.asarray(rates_matrix(values), np.float64)


def _area(chance: Float[np.ndarray, " n"], linked: np.ndarray) -> float:
    """The area under the ROC curve: how often a linked pair has the larger chance."""
    ranks = stats.rankdata(chance)
    number = int(linked.sum())
    wins = ranks[linked].sum() - number * (number + 1) / 2
    return float(wins / (number * (len(linked) - number)))


# --- the page -------------------------------------------------------------------------------------
def describe(run: FittedRun) -> list[Block]:
    """Blocks, the rates between them, the graph in the order of blocks, and every node's block."""
    names = run.data.train.columns
    q = memberships(run, run.data.train)
    size = q.shape[1]
    block = q.argmax(axis=1)
    certainty = q.max(axis=1)
    order = np.lexsort((-certainty, block))
    nodes_by_block = [order[block[order] == k] for k in range(size)]
    weights = np.asarray(run.point("weights"), float)
    labels = [f"block {k + 1}" for k in range(size)]
    nodes_drawn = order[views.spread_rows(len(order), MOST_DRAWN)]
    drawn_names = [names[i] for i in nodes_drawn]
    quantity = "probability of an edge" if run.settings.edges == "bernoulli" else "mean count"
    members = []
    for nodes_of_block in nodes_by_block:
        listed = [names[i] for i in nodes_of_block[:MOST_NAMED]]
        if len(nodes_of_block) > MOST_NAMED:
            listed.append("...")
        members.append(", ".join(listed))
    blocks = [
        [labels[k], float(weights[k]), len(nodes_by_block[k]), members[k]] for k in range(size)
    ]
    links = _rates(run.point("rates"))
    about = f"The {quantity} from the block of the row to that of the column."
    graph = np.nan_to_num(run.data.train.x[np.ix_(nodes_drawn, nodes_drawn)])
    order_note = "Nodes in the order of their blocks"
    if len(nodes_drawn) < len(order):
        number = f"{len(nodes_drawn):,} of {len(order):,}"
        order_note += f": {number}, evenly spread; tables/nodes.csv has all"
    order_note += "."
    nodes = [[names[i], int(block[i]) + 1, float(certainty[i])] for i in order]
    return [
        Table("Blocks", ["", "weight", "nodes", "members"], blocks, "The surest members of each."),
        Heat("Links between blocks", labels, labels, links, about),
        Heat("The graph", drawn_names, drawn_names, graph, order_note),
        Table("Nodes", ["", "block", "probability"], nodes),
    ]


def transform(run: FittedRun, graph: Any, tell: Tell) -> RowResults:
    """The block of each node given all pairs of its graph, and the probabilities of all blocks,
    numbered from 1 as on the page."""
    probs = memberships(run, graph)
    tell(len(probs))
    columns = {f"probability_{k + 1}": column for k, column in enumerate(probs.T)}
    return {"block": probs.argmax(axis=1) + 1, **columns}


LISTING = Listing(
    Settings,
    GRAPHS,
    EnergyAlgorithm,
    describe,
    adjacency,
    score,
    unit="graph",
    per="graph",
    missing=True,
    transform=transform,
    predicts="block",
    needs_rows=True,
)
