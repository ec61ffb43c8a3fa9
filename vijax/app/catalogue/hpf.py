"""Hierarchical Poisson factorisation on the command line: users are documents, items words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import optax

from vijax import models
from vijax.app.drawing.blocks import TITLE_OF_HIDDEN, Block, Table
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
"""Number of items that stand for a component."""
MOST_READ = 2000
"""Most users whose ranking is compared with popularity."""
RECOMMENDED = 10
"""Number of items that are recommended to each user."""
RATE = 0.05
"""Rate of Adam for the weights of features."""

Settings = model_section(
    models.hpf,
    "what users take next (hierarchical Poisson factorisation)",
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
    """The model, which reads the features of users and items."""
    users, items = (getattr(data.train, name, None) for name in ("users", "items"))
    arguments: dict[str, Any] = {"num_covariates": 0 if users is None else len(users.columns)}
    if items is not None:
        arguments["features"] = items.x[: len(data.names)]
    return build_from_section(settings, data, **arguments)


def learns(settings: Any, data: Data) -> Any:
    """The weights of features, if there are any."""
    weights_of = {"users": "user_weights", "items": "feature_weights"}
    has_features = lambda name: getattr(data.train, name, None) is not None
    names = [weights for name, weights in weights_of.items() if has_features(name)]
    if not names:
        return ()
    return learning.learn(*names, optimizer=optax.adam(RATE))


def describe(run: FittedRun) -> list[Block]:
    """The items of each component, the effects of features, and rankings of hidden items."""
    items = np.asarray(run.point("items"), np.float64)
    names = run.data.names
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
    """The components that each feature of users, or of items, raises most and least."""
    for name, weights in (("users", "user_weights"), ("items", "feature_weights")):
        table = getattr(run.data.train, name, None)
        if table is None:
            continue
        times = np.exp(np.asarray(run.fit.state.hyper[weights], np.float64))
        rows = []
        for column, factors in zip(table.columns, times, strict=True):
            highest, lowest = int(factors.argmax()), int(factors.argmin())
            rows.append([column, highest, float(factors[highest]), lowest, float(factors[lowest])])
        header = ["", "component", "times most", "component", "times least"]
        about = (
            "One standard deviation more multiplies the expected weights before anything was taken."
        )
        yield Table(f"What is known of {name}", header, rows, about)


def _rankings(run: FittedRun, sample: Any) -> list[Block]:
    if not np.any(np.diff(sample.indptr) > 1):
        return []
    # The same items are hidden as for the held-out score.
    remaining, hidden = hide(sample.to_scipy(), seed=keys.seed(held_out_score_key()))
    visible = remaining
    if sample.covariates is not None:
        visible = models.with_covariates(remaining, sample.covariates)
    popular = np.asarray(run.data.train.to_scipy().sum(axis=0), float).reshape(-1, 1)
    methods = (
        ("this model", run.fit.predict(visible), run.point("items")),
        ("how often items are taken", np.ones((remaining.shape[0], 1)), popular),
    )
    rows = []
    for name, users, items in methods:
        result = ranking(users, items, remaining, hidden)
        rows.append([name, result.mean, result.recall])
    everybody = run.data.train if run.data.test is None else run.data.test
    about = (
        f"A fifth of each user's items were hidden. {NDCG_MEANING} Recall is the share of them "
        f"among the first {result.n}. "
    )
    if run.data.test is not None:
        about += "These users were not seen in training."
    else:
        about += "Training has seen them all."
    if sample.num_documents < everybody.num_documents:
        about += f" These are {sample.num_documents:,} of {everybody.num_documents:,} users."
    header = ["by", f"NDCG@{result.n}", f"recall@{result.n}"]
    return [Table(TITLE_OF_HIDDEN, header, rows, about)]


def transform(run: FittedRun, users: Any, tell: Tell) -> RowResults:
    """The items that each user would take next, best first, and the weights of components."""
    import scipy.sparse

    new_names = getattr(run.data.train, "new_items", ())
    names = np.asarray([*run.data.names, *new_names], object)
    items = np.asarray(run.point("items"))
    if new_names:
        new_features = run.data.train.items.x[len(items) :]
        items = np.concatenate([items, models.new_items(run.fit, new_features).mean()])
    weights = run.fit.predict(users)
    counts = scipy.sparse.csr_array(users.to_scipy())
    new_counts = getattr(users, "taken_new", None)
    if new_counts is not None:
        counts = scipy.sparse.csr_array(scipy.sparse.hstack([counts, new_counts]))
    counts.resize(counts.shape[0], len(items))
    items_ranked = ranked(weights, items, counts, min(RECOMMENDED, len(items))).items
    tell(len(items_ranked))
    columns = {
        f"item_{r + 1}": np.where(ids >= 0, names[ids], "") for r, ids in enumerate(items_ranked.T)
    }
    return {**columns, "weight": weights}


# --- users and items in the place of documents and words ------------------------------------------
def tiles(facts: Mapping[str, Any]) -> dict[str, str]:
    """The tiles of the page."""
    return {
        "Users": f"{facts['documents']:,} | and {facts['held_out']:,} held out",
        "Items": f"{facts['vocabulary']:,} | taken {facts['tokens']:,} times",
    }


def outline(data: Data) -> str:
    """The data in a line for the screen."""
    train, test = data.whole, data.test
    held_out = f", and {test.num_documents:,} held out" if test is not None else ""
    return (
        f"{train.num_documents:,} users, {len(data.names):,} items, taken {train.num_tokens:,} "
        f"times{held_out}"
    )


SOURCE = RATINGS._replace(
    describe=outline, tiles=tiles, results="recommendations", columns=("user", "taken")
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
