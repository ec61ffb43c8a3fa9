"""Hierarchical Poisson factorisation on the command line: users are documents, items their
words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import optax

from vijax import models
from vijax.app.drawing.blocks import Block, Table
from vijax.app.drawing.views import spread_rows
from vijax.app.settings.options import build_from_section, chooser, model_section
from vijax.app.settings.sections import row_section
from vijax.app.sources.listing import Data, FittedRun, Listing, RowResults, Tell, held_out_score_key
from vijax.app.sources.ratings import RATINGS
from vijax.evaluate import hide, ranked, ranking
from vijax.evaluate.units import NDCG_MEANING
from vijax.inference import estep, learning
from vijax.xla import keys

LEADING = 10
"""Items that stand for a component."""
MOST_READ = 2000
"""Most users whose ranking is compared with popularity."""
RECOMMENDED = 10
"""Items that are recommended to each user."""
RATE = 0.05
"""Rate of Adam for the weights of features."""

Settings = model_section(
    models.hpf,
    "what users take next: hierarchical Poisson factorisation",
    width="num_items",
    without=("features", "num_covariates"),
    num_components=20,
)
Estep = chooser(
    "[algorithm.estep]: how a user's weights are found.",
    "mean_field",
    "the method",
    mean_field=estep.mean_field,
)
Algorithm = row_section("cavi", "the message to the items", Estep)


def build(settings: Any, data: Data) -> Any:
    """The model, which reads what is known of users and items."""
    users, items = (getattr(data.train, name, None) for name in ("users", "items"))
    known = {"features": items.x[: len(data.names)]} if items is not None else {}
    return build_from_section(
        settings, data, num_covariates=len(users.columns) if users is not None else 0, **known
    )


def learns(settings: Any, data: Data) -> Any:
    """The weights of features, where there are any."""
    found = {"users": "user_weights", "items": "feature_weights"}
    names = [
        weights for name, weights in found.items() if getattr(data.train, name, None) is not None
    ]
    return learning.learn(*names, optimizer=optax.adam(RATE)) if names else ()


def describe(run: FittedRun) -> list[Block]:
    """The items of each component, what features say, and how well hidden items are found, beside
    popularity."""
    items, names = np.asarray(run.point("items"), np.float64), run.data.names
    train = run.data.train if run.data.test is None else run.data.test
    sample = train[spread_rows(train.num_documents, MOST_READ)]
    weight = items.sum(axis=0) * run.fit.predict(sample).mean(axis=0)
    share = weight / max(float(weight.sum()), 1e-300)
    rows = []
    for k in np.argsort(-share, kind="stable"):
        best = np.argsort(-items[:, k], kind="stable")[:LEADING]
        rows.append([int(k), 100 * float(share[k]), ", ".join(names[i] for i in best)])
    components = Table(f"{len(rows)} components", ["", "per cent of counts", "items"], rows)
    return [components, *_features(run), *_rankings(run, sample)]


def _features(run: FittedRun) -> Iterator[Table]:
    """The components that each number of users, or of items, raises most and least."""
    for name, weights in (("users", "user_weights"), ("items", "feature_weights")):
        if (table := getattr(run.data.train, name, None)) is None:
            continue
        times = np.exp(np.asarray(run.fit.state.hyper[weights], np.float64))
        rows = []
        for column, of in zip(table.columns, times, strict=True):
            most, least = int(of.argmax()), int(of.argmin())
            rows.append([column, most, float(of[most]), least, float(of[least])])
        header = ["", "component", "times most", "component", "times least"]
        about = (
            "One standard deviation more multiplies the expected weights before anything was taken."
        )
        yield Table(f"What is known of {name}", header, rows, about)


def _rankings(run: FittedRun, sample: Any) -> list[Block]:
    if not np.any(np.diff(sample.indptr) > 1):
        return []
    left, hidden = hide(
        sample.to_scipy(), seed=keys.seed(held_out_score_key())
    )  # those of the held-out score
    kept = left if sample.covariates is None else models.with_covariates(left, sample.covariates)
    popular = np.asarray(run.data.train.to_scipy().sum(axis=0), float).reshape(-1, 1)
    ways = (
        ("this model", run.fit.predict(kept), run.point("items")),
        ("how often items are taken", np.ones((left.shape[0], 1)), popular),
    )
    rows = []
    for name, users, items in ways:
        found = ranking(users, items, left, hidden)
        rows.append([name, found.mean, found.recall])
    everybody = run.data.train if run.data.test is None else run.data.test
    few = f" These are {sample.num_documents:,} of {everybody.num_documents:,} users."
    about = (
        f"A fifth of each user's items were hidden. {NDCG_MEANING} Recall is the share of them "
        f"among the first {found.n}. "
        + (
            "These users were not seen in training."
            if run.data.test is not None
            else "Training has seen them all."
        )
        + (few if sample.num_documents < everybody.num_documents else "")
    )
    return [
        Table(
            "Hidden items that are found",
            ["by", f"NDCG@{found.n}", f"recall@{found.n}"],
            rows,
            about,
        )
    ]


def transform(run: FittedRun, users: Any, tell: Tell) -> RowResults:
    """The items that each user would take next, best first, and the weights of components."""
    import scipy.sparse

    more = getattr(run.data.train, "new_items", ())
    names, items = np.asarray([*run.data.names, *more], object), np.asarray(run.point("items"))
    if more:
        items = np.concatenate(
            [items, models.new_items(run.fit, run.data.train.items.x[len(items) :]).mean()]
        )
    weights, taken = run.fit.predict(users), scipy.sparse.csr_array(users.to_scipy())
    if (taken_new := getattr(users, "taken_new", None)) is not None:
        taken = scipy.sparse.csr_array(scipy.sparse.hstack([taken, taken_new]))
    taken.resize(taken.shape[0], len(items))
    found = ranked(weights, items, taken, min(RECOMMENDED, len(items))).items
    tell(len(found))
    columns = {f"item_{r + 1}": np.where(ids >= 0, names[ids], "") for r, ids in enumerate(found.T)}
    return {**columns, "weight": weights}


# --- users and items in the place of documents and words ------------------------------------------
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
    return (
        f"{train.num_documents:,} users, {len(data.names):,} items, taken {train.num_tokens:,} "
        f"times{held_out}"
    )


SOURCE = RATINGS._replace(
    describe=in_short, tiles=tiles, results="recommendations", columns=("user", "taken")
)
LISTING = Listing(
    Settings,
    SOURCE,
    Algorithm,
    describe,
    build=build,
    learns=learns,
    unit="user",
    per="user",
    score_unit="NDCG@20",
    transform=transform,
    predicts="item_1",
)
