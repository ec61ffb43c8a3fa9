"""Hierarchical Poisson factorisation beside hpfrec, `implicit` (ALS, BPR) and popularity: hidden
items found, CPU time.

    python benchmarks/hpf.py compare --others ../others/bin/python    # 15 minutes of CPU
    python benchmarks/hpf.py scale                                    # a minute, synthetic ratings
    python benchmarks/hpf.py steps                                    # two minutes: dense steps, and by items
    python benchmarks/hpf.py cold                                     # two minutes: simulated users who took nothing

The other Python has hpfrec and implicit. Sets: `ap` and 3,000 posts of `news20` (VIJAX_DATA), and
3,000 docstrings of installed packages: documents are users, their words items. `--sets citeulike-a`
is who keeps which article at CiteULike (Wang, Chen and Li 2013, github.com/js05212/citeulike-a):
users.dat in the folder citeulike-a of VIJAX_DATA; or name the path of such a file, a line a user,
the number of items and then their ids. A fifth of each document's words is hidden
(`vijax.evaluate.hide`), and found by ranking all words that it is not known to have. Three seeds,
of what is hidden and of the start. K = 50, one thread. ALS: the best of four settings (alpha 1 or
10, regularisation .01 or 10) by a further tenth that is hidden from training; BPR (Rendle et al.
2009), the loss of LightFM without features: likewise, steps of .01 or .1, regularisation .01 or .1,
100 passes. Their time is one fit. Prints the rows of benchmarks/results_hpf.md."""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import scipy.sparse as sp

import vijax as vi
from vijax.evaluate import hide, ranking

K, SEEDS = 50, 3
Factors = tuple[np.ndarray, np.ndarray]
Way = Callable[[Any, int], tuple[Factors, float]]

HPFREC = """
import sys, time, numpy as np, scipy.sparse as sp, pandas as pd, hpfrec
folder, K, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
X = sp.load_npz(folder + "/in.npz").tocoo()
table = pd.DataFrame({"UserId": X.row, "ItemId": X.col, "Count": X.data.astype("float32")})
settings = dict(k=K, random_seed=seed, ncores=1, reindex=False, verbose=False, keep_all_objs=False, use_float=True)
model = hpfrec.HPF(stop_crit="maxiter", maxiter=100, check_every=100, produce_dicts=False, **settings)
begun = time.process_time()
model.fit(table)
np.savez(folder + "/out.npz", users=model.Theta, items=model.Beta, seconds=time.process_time() - begun)
"""
ALS = """
import sys, time, numpy as np, scipy.sparse as sp
from implicit.als import AlternatingLeastSquares
folder, K, seed, alpha, reg = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])
X = sp.load_npz(folder + "/in.npz").astype("float32").tocsr()
X.data[:] = 1
model = AlternatingLeastSquares(K, regularization=reg, alpha=alpha, iterations=15, num_threads=1, random_state=seed)
begun = time.process_time()
model.fit(X, show_progress=False)
found = dict(users=model.user_factors, items=model.item_factors)
np.savez(folder + "/out.npz", seconds=time.process_time() - begun, **found)
"""
BPR = ALS.replace(
    "als import AlternatingLeastSquares", "bpr import BayesianPersonalizedRanking"
).replace(
    "AlternatingLeastSquares(K, regularization=reg, alpha=alpha, iterations=15",
    "BayesianPersonalizedRanking(K, regularization=reg, learning_rate=alpha, iterations=100",
)


def data(name: str) -> sp.csr_array:
    """Documents by words, those with five different words or more."""
    path = (
        Path(os.environ.get("VIJAX_DATA", ".")) / name / "users.dat"
        if name == "citeulike-a"
        else Path(name)
    )
    if path.suffix == ".dat":
        return collections_of(path)
    corpus = vi.data.read("docstrings") if name == "docstrings" else vi.data.load_bag_of_words(name)
    counts = sp.csr_array(corpus.to_scipy())
    counts = counts[np.flatnonzero(np.diff(counts.indptr) >= 5)]
    return counts[np.random.default_rng(0).permutation(counts.shape[0])[:3000]]


def collections_of(path: Path) -> sp.csr_array:
    """Users by items of lines "n id id ...", users with five items or more."""
    items = [np.array(line.split()[1:], int) for line in path.read_text().splitlines()]
    rows = np.repeat(np.arange(len(items)), [len(ids) for ids in items])
    width = 1 + max(int(ids.max()) for ids in items if len(ids))
    counts = sp.csr_array(
        (np.ones(len(rows), int), (rows, np.concatenate(items))), (len(items), width)
    )
    return counts[np.flatnonzero(np.diff(counts.indptr) >= 5)]


def ours(feedback: str, minibatches: bool) -> Way:
    """100 sweeps of all users, or 20 passes of thirty steps, of 50 to 1,000 users (the settings of
    docs/how-to/recommend.md); the time includes a program that is compiled."""

    def run(kept: Any, seed: int) -> tuple[Factors, float]:
        model = vi.models.hpf(K, kept.shape[1], feedback=feedback)
        size = min(1000, max(50, kept.shape[0] // 30))
        how = {"batch_size": size, "num_epochs": 20} if minibatches else {"num_steps": 100}
        begun = time.process_time()
        fit = vi.fit(
            (vi.svi if minibatches else vi.cavi)(model), kept, key=jax.random.key(seed), **how
        )
        users = fit.predict(kept)
        return (users, np.asarray(fit.posterior["items"].mean())), time.process_time() - begun

    return run


def theirs(python: str, script: str, *settings: float) -> Way:
    """A fit by another package, in its own Python."""

    def run(kept: Any, seed: int) -> tuple[Factors, float]:
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        with tempfile.TemporaryDirectory() as folder:
            sp.save_npz(Path(folder) / "in.npz", sp.csr_matrix(kept))
            arguments = [folder, str(K), str(seed + 1), *map(str, settings)]
            clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            subprocess.run(
                [python, "-c", script, *arguments],
                check=True,
                env={**clean, **one},
                stdout=subprocess.DEVNULL,
            )
            found = np.load(Path(folder) / "out.npz")
            return (found["users"], found["items"]), float(found["seconds"])

    return run


def best(python: str, name: str, script: str, settings: list[tuple[float, float]]) -> Way:
    """A package at the settings that rank best what is hidden from a part of the training data."""

    def run(kept: Any, seed: int) -> tuple[Factors, float]:
        less, more = hide(kept, 0.1, seed=seed + 100)
        score = lambda setting: (
            ranking(*theirs(python, script, *setting)(less, seed)[0], less, more).mean
        )
        chosen = max(settings, key=score)
        print(f"  {name}: {chosen}", file=sys.stderr)
        return theirs(python, script, *chosen)(kept, seed)

    return run


def popularity(kept: Any, seed: int) -> tuple[Factors, float]:
    taken = np.asarray((kept > 0).sum(axis=0), float).reshape(-1, 1)
    return (np.ones((kept.shape[0], 1)), taken), 0.0


def als(python: str) -> Way:
    """ALS of `implicit`, the best of four settings."""
    return best(python, "ALS", ALS, [*itertools.product((1.0, 10.0), (0.01, 10.0))])


def compare(names: list[str], python: str | None, only: str) -> None:
    ways: dict[str, Way] = {"popularity": popularity}
    for feedback in ("implicit", "counts"):
        ways[f"`cavi`, {feedback}"] = ours(feedback, False)
    ways["`svi`, implicit"] = ours("implicit", True)
    if python is not None:
        bpr = [*itertools.product((0.01, 0.1), (0.01, 0.1))]
        ways |= {"hpfrec": theirs(python, HPFREC), "implicit, ALS": als(python)}
        ways["implicit, BPR"] = best(python, "BPR", BPR, bpr)
    ways = {name: way for name, way in ways.items() if only in name}
    print(
        "| set | users x items | ratings | by | NDCG@20 | recall@20 | CPU s "
        "|\n|---|---|---|---|---|---|---|"
    )
    for name in names:
        counts = data(name)
        parts = [hide(counts, 0.2, seed) for seed in range(SEEDS)]
        size = f"{counts.shape[0]:,} x {counts.shape[1]:,} | {counts.nnz:,}"
        for way, run in ways.items():
            found = []
            for seed, (kept, hidden) in enumerate(parts):
                factors, seconds = run(kept, seed)
                score = ranking(*factors, kept, hidden)
                found.append((score.mean, score.recall, seconds))
            (ndcg, recall, seconds), (spread, other, _) = (
                np.mean(found, 0),
                np.std(found, 0, ddof=1),
            )
            scores = f"{ndcg:.4f} ± {spread:.4f} | {recall:.4f} ± {other:.4f}"
            print(f"| {name} | {size} | {way} | {scores} | {seconds:.1f} |", flush=True)


def synthetic(num_ratings: int, num_items: int = 10_000, seed: int = 0) -> sp.csr_array:
    """Users of twenty tastes, items of Zipf's law within each, 29 ratings a user on average before
    they are merged."""
    rng = np.random.default_rng(seed)
    users = num_ratings * 10 // 286
    popular, kind = 1 / (np.arange(num_items) + 10.0), rng.integers(0, 20, num_items)
    rows = np.repeat(
        np.arange(users), np.minimum(rng.lognormal(2.8, 1.05, users).astype(int) + 1, 2000)
    )
    bounds, chance = rng.dirichlet(np.full(20, 0.2), users).cumsum(1), rng.random(len(rows))
    blocks = [slice(first, first + 2**20) for first in range(0, len(rows), 2**20)]
    taste = np.concatenate(
        [(bounds[rows[some]] < chance[some][:, None]).sum(1) for some in blocks]
    ).clip(0, 19)
    columns = np.zeros(len(rows), int)
    for k in range(20):
        own, mine = np.flatnonzero(kind == k), taste == k
        columns[mine] = rng.choice(own, mine.sum(), p=popular[own] / popular[own].sum())
    return sp.csr_array(
        sp.coo_array((np.ones(len(rows), int), (rows, columns)), (users, num_items))
    )


def scale(numbers: list[int]) -> None:
    print(
        "| ratings | users | CPU s a pass | a step, ms | NDCG@20, passes | memory, GB "
        "|\n|---|---|---|---|---|---|"
    )
    for number in numbers:
        kept, hidden = hide(synthetic(number), 0.1)
        corpus, model, key = (
            vi.data.read(kept),
            vi.models.hpf(K, kept.shape[1], feedback="implicit"),
            jax.random.key(0),
        )
        fit = vi.fit(vi.svi(model), corpus, num_steps=2, batch_size=1000, key=key)  # compiles
        for passes in (2, 10):
            begun = time.process_time()
            fit = vi.fit(vi.svi(model), corpus, num_epochs=passes, batch_size=1000, key=key)
            seconds = time.process_time() - begun
            items, some = np.asarray(fit.posterior["items"].mean()), slice(0, 5000)
            score = ranking(fit.predict(kept[some]), items, kept[some], hidden[some])
            steps, peak = (
                len(fit.trace["elbo"]),
                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            )
            size, pace = (
                f"{kept.nnz:,} | {kept.shape[0]:,}",
                f"{seconds / passes:.2f} | {1e3 * seconds / steps:.0f}",
            )
            print(f"| {size} | {pace} | {score.mean:.3f}, {passes} | {peak:.2f} |", flush=True)


def steps() -> None:
    print(
        "| items | users of a batch | items of a batch | dense step, ms | by items, ms "
        "|\n|---|---|---|---|---|"
    )
    for num_items, size in ((10_000, 1000), (10_000, 100), (100_000, 200)):
        corpus, model = (
            vi.data.read(synthetic(300_000, num_items)),
            vi.models.hpf(K, num_items, feedback="implicit"),
        )
        plain = list(itertools.islice(vi.data.minibatches(corpus, size, 0), 21))
        own = [vi.topics.renumbered(batch, num_items) for batch in plain]
        seen, found = max(len(batch.data.words) for batch in own), []
        for lazy in (False, True):
            alg, batches = vi.svi(model), plain
            if lazy:
                alg = vi.topics.by_words(alg)
                batches = [vi.topics.renumbered(b, num_items, seen) for b in plain]
            state, step = (
                jax.jit(alg.init)(jax.random.key(0), batches[0]),
                jax.jit(alg.step, donate_argnums=1),
            )
            state, _ = jax.block_until_ready(step(jax.random.key(0), state, batches[0]))
            begun = time.process_time()
            for batch in batches[1:]:
                state, _ = step(jax.random.key(0), state, batch)
            jax.block_until_ready(state)
            found.append(50 * (time.process_time() - begun))
        print(
            f"| {num_items:,} | {size:,} | {seen:,} | {found[0]:.0f} | {found[1]:.0f} |", flush=True
        )


def newcomers(counts: Any, numbers: np.ndarray, num_new: int) -> dict[str, float]:
    """NDCG@20 of all that the last users took, by fits of two components to the others alone: with
    their numbers, with those of other users, without; and by popularity."""
    counts = sp.csr_array(counts)
    old, new = (
        np.arange(counts.shape[0] - num_new),
        np.arange(counts.shape[0] - num_new, counts.shape[0]),
    )
    rows, none = np.r_[0, new], sp.csr_array((num_new, counts.shape[1]), dtype=int)
    # The first row is of training: users who all took nothing are refused.
    nothing, hidden = (
        sp.vstack([counts[[0]], none]).tocsr(),
        sp.vstack([0 * counts[[0]], counts[new]]).tocsr(),
    )
    rank = lambda users, items: ranking(users, items, nothing, hidden).mean
    found = {"popularity": rank(np.ones((len(rows), 1)), popularity(counts[old], 0)[0][1])}
    mixed = numbers[np.random.default_rng(0).permutation(len(numbers))]
    for name, known in (
        ("without numbers", None),
        ("with numbers of other users", mixed),
        ("with numbers", numbers),
    ):
        width = 0 if known is None else known.shape[1]
        users = lambda part, at, known=known: (
            vi.data.read(part) if known is None else vi.models.with_covariates(part, known[at])
        )
        model = vi.models.hpf(2, counts.shape[1], num_covariates=width)
        learnt = {"learn": vi.learn("user_weights", optimizer=optax.adam(0.05))} if width else {}
        alg = vi.cavi(model, **learnt)
        fit = vi.fit(alg, users(counts[old], old), num_steps=150, key=jax.random.key(0))
        found[name] = rank(fit.predict(users(nothing, rows)), fit.posterior["items"].mean())
    return found


def cold(num_sets: int = 10) -> None:
    """Two kinds of users, told apart by a number, beside one that says nothing; 200 in training,
    200 who took nothing; 60 items."""
    found = []
    for seed in range(num_sets):
        rng, kind = np.random.default_rng(seed), np.arange(400) % 2
        numbers = np.stack([kind - 0.5, rng.normal(size=400)], 1)
        means, items = np.where(np.eye(2)[kind] > 0, 2.0, 0.1), rng.gamma(0.3, 0.3, (2, 60))
        counts = rng.poisson(means * rng.gamma(2.0, 0.5, (400, 1)) @ items)
        by_truth = ranking(means[200:], items.T, np.zeros((200, 60)), counts[200:]).mean
        found.append({**newcomers(counts, numbers, 200), "by the truth": by_truth})
    print("| by | NDCG@20 |\n|---|---|")
    for name in found[0]:
        scores = [one[name] for one in found]
        print(f"| {name} | {np.mean(scores):.3f} ± {np.std(scores, ddof=1):.3f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["compare", "scale", "steps", "cold"])
    parser.add_argument("--sets", nargs="*", default=["ap", "news20", "docstrings"])
    parser.add_argument("--others", help="a Python in which hpfrec and implicit are installed")
    parser.add_argument(
        "--only", default="", help="of compare, those whose names have this in them"
    )
    sizes = [200_000, 500_000, 2_000_000]
    parser.add_argument(
        "--ratings",
        nargs="*",
        type=int,
        default=sizes,
        help="of scale, before those of one pair are merged",
    )
    given = parser.parse_args()
    if given.what == "compare":
        compare(given.sets, given.others, given.only)
    elif given.what == "scale":
        scale(given.ratings)
    elif given.what == "cold":
        cold()
    else:
        steps()
