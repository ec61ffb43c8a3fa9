"""Hierarchical Poisson factorisation on the command line: users are documents, items their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vijax import models
from vijax.app.kinds.documents import DOCUMENTS
from vijax.app.kinds.listing import Data, Found, Listing, Seen, Tell
from vijax.app.page.blocks import Block, Table
from vijax.app.page.views import thinned
from vijax.app.settings.options import chooser, model_section
from vijax.app.settings.sections import row_section
from vijax.evaluate import hide, ranking
from vijax.inference import estep

LEADING = 10
"""Items that stand for a component."""
MOST_READ = 2000
"""Most users whose ranking is compared with popularity."""
RECOMMENDED = 10
"""Items that are recommended to each user."""

Settings = model_section(
    models.hpf,
    "what users take next: hierarchical Poisson factorisation",
    width="num_items",
    without=("features", "num_covariates"),
    num_components=20,
)
Estep = chooser(
    "[algorithm.estep]: how a user's weights are found.", "mean_field", "the method", mean_field=estep.mean_field
)
Algorithm = row_section("cavi", "the message to the items", Estep)


def describe(seen: Seen) -> list[Block]:
    """The items of each component, and how well hidden items are found, beside popularity."""
    items, names = np.asarray(seen.point("items"), np.float64), seen.data.names
    train = seen.data.train if seen.data.test is None else seen.data.test
    sample = train[thinned(train.num_documents, MOST_READ)]
    weight = items.sum(axis=0) * seen.fit.predict(sample).mean(axis=0)
    share = weight / max(float(weight.sum()), 1e-300)
    rows = []
    for k in np.argsort(-share, kind="stable"):
        best = np.argsort(-items[:, k], kind="stable")[:LEADING]
        rows.append([int(k), 100 * float(share[k]), ", ".join(names[i] for i in best)])
    return [Table(f"{len(rows)} components", ["", "per cent of counts", "items"], rows), *_rankings(seen, sample)]


def _rankings(seen: Seen, sample: Any) -> list[Block]:
    if not np.any(np.diff(sample.indptr) > 1):
        return []
    kept, hidden = hide(sample.to_scipy())
    popular = np.asarray(seen.data.train.to_scipy().sum(axis=0), float).reshape(-1, 1)
    ways = (
        ("this model", seen.fit.predict(kept), seen.point("items")),
        ("how often items are taken", np.ones((kept.shape[0], 1)), popular),
    )
    rows = []
    for name, users, items in ways:
        found = ranking(users, items, kept, hidden)
        rows.append([name, found.mean, found.recall])
    about = "A fifth of each user's items were hidden; " + (
        "these users were not seen in training." if seen.data.test is not None else "training has seen them all."
    )
    return [Table("Hidden items that are found", ["by", f"NDCG@{found.n}", f"recall@{found.n}"], rows, about)]


def transform(seen: Seen, users: Any, tell: Tell) -> Found:
    """The items that each user would take next, best first, and the weights of components."""
    names, number = np.asarray(seen.data.names, object), min(RECOMMENDED, len(seen.data.names))
    found = models.recommend(seen.fit, users, number).items
    tell(len(found))
    columns = {f"item_{r + 1}": np.where(ids >= 0, names[ids], "") for r, ids in enumerate(found.T)}
    return {**columns, "weight": seen.fit.predict(users)}


# --- users and items in the place of documents and words ------------------------------------------------------------
def tiles(facts: Mapping[str, Any]) -> dict[str, str]:
    """Tiles of the page."""
    return {
        "Users": f"{facts['documents']:,} | and {facts['held_out']:,} held out",
        "Items": f"{facts['vocabulary']:,} | taken {facts['tokens']:,} times",
    }


def in_short(data: Data) -> str:
    """A line for the screen."""
    train, test = data.whole, data.test
    held_out = f", and {test.num_documents:,} held out" if test is not None else ""
    return f"{train.num_documents:,} users, {len(data.names):,} items, taken {train.num_tokens:,} times{held_out}"


SOURCE = DOCUMENTS._replace(describe=in_short, tiles=tiles, results="recommendations", columns=("user", "taken"))
LISTING = Listing(
    Settings, SOURCE, Algorithm, describe, unit="user", per="user", transform=transform, predicts="item_1"
)
