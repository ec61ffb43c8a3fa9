"""Topics of as many as the data ask for: what `vijax.grow` of `vijax.models.hdp` finds, beside
restarts of `cavi`.

    python benchmarks/growing_topics.py
    python benchmarks/growing_topics.py --together    # births of several topics together: small sets of bars

Prints the tables of topics of benchmarks/results_growing.md. Bounds of all numbers of topics are of
one model. CPU seconds have compilation in them. The papers of NIPS need nips.npz in the folder that
VIJAX_DATA names."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from vijax.data import Corpus

IN_USE = 0.5


def bars(
    seed: int, num: int = 200, length: int = 100, side: int = 5, evenness: float = 0.1
) -> Corpus:
    """Documents whose topics are the rows and columns of a square of words; the less even, the
    fewer topics in each."""
    rng = np.random.default_rng(seed)
    eye, ones = np.eye(side), np.ones((1, side))
    shapes = np.concatenate([np.kron(eye, ones), np.kron(ones, eye)]) + 0.01
    shares = rng.dirichlet(np.full(2 * side, evenness), num)
    topics = shapes / shapes.sum(1, keepdims=True)
    return Corpus.from_counts(np.stack([rng.multinomial(length, p) for p in shares @ topics]))


def papers(train: int, test: int, size: int) -> tuple[Corpus, Corpus] | None:
    """Papers of NIPS, of the commonest words but for the hundred that are in most papers; None
    where not at hand."""
    path = Path(os.environ.get("VIJAX_DATA", ".")) / "nips.npz"
    if not path.exists():
        return None
    table = vi.data.read(path).to_scipy().tocsc()
    common = np.argsort(-np.asarray((table > 0).sum(0)).ravel(), kind="stable")[100 : 100 + size]
    rows = np.random.default_rng(0).permutation(table.shape[0])
    table = table[:, common].tocsr()
    return Corpus.from_counts(table[rows[:train]]), Corpus.from_counts(
        table[rows[train : train + test]]
    )


def used_in(fit: vi.Fit) -> int:
    """Topics that have half a table or more."""
    sticks: Any = fit.posterior["sticks"]
    return int(np.sum(np.asarray(sticks.alpha) - 1 >= IN_USE))


def row(name: str, how: str, fit: vi.Fit, elbo: float, test: Corpus, spent: float) -> None:
    """A line of the table."""
    score = fit.score(test, key=jax.random.key(0))
    print(
        f"| {name} | {how} | {used_in(fit)} | {elbo:,.1f} | {score.mean:.3f} | {spent:.0f} |",
        flush=True,
    )


def row_of_peer(name: str, path: str, test: Corpus) -> None:
    """A line of the table, of what benchmarks/peers_growing.py wrote: the same completion, at its
    mean topics."""
    found = np.load(path)
    weights = jnp.maximum(jnp.asarray(found["weights"]), 1e-6)  # alpha is 1
    given = jnp.asarray(found["topics"]), weights, test
    score = vi.evaluate.document_completion(*given, jax.random.key(0))
    how = f"bnpy from K = {found['start']}"
    print(
        f"| {name} | {how} | {len(weights)} | | {score.mean:.3f} | {found['spent']:.0f} |",
        flush=True,
    )


def best_of(restarts: int, model: vi.Model, data: Corpus) -> vi.Fit:
    """The best of restarts of `cavi`."""
    return vi.fit(
        vi.cavi(model), data, restarts=restarts, num_steps=300, tol=1e-7, key=jax.random.key(0)
    )


def together() -> None:
    """Growth of six bars in 3 x 3 words, 60 documents of 120 words, beside ten restarts of `cavi`
    told six."""
    columns = "data set", "key", "from", "topics", "bound", "above ten restarts", "laps", "CPU s"
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    make = lambda k: vi.models.hdp(k, 9, eta=0.1)
    for seed in range(2):
        data = bars(seed, 60, 120, 3, 0.2)
        best = float(best_of(10, make(6), data).elbo)
        for start in (1, 12):
            for key in range(2):
                began = time.process_time()
                fit = vi.grow(make, data, start=start, key=jax.random.key(key))
                elbo, spent = float(fit.trace["elbo"][-1]), time.process_time() - began
                found = (
                    f"{used_in(fit)} | {elbo:,.1f} | {elbo - best:.1f} | {fit.trace['laps'].sum()}"
                )
                print(f"| {seed} | {key} | {start} | {found} | {spent:.0f} |", flush=True)


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--only", default="", help="part of the name of a data set: the others are left out"
    )
    p.add_argument("--starts", type=int, nargs="*", help="numbers of topics from which grow starts")
    p.add_argument("--given", type=int, nargs="*", help="numbers of topics that cavi is given")
    p.add_argument("--restarts", type=int, default=10, help="restarts of cavi")
    p.add_argument(
        "--docs", type=int, default=200, help="papers of NIPS; a fifth as many are held out"
    )
    p.add_argument("--vocab", type=int, default=1000, help="words of NIPS")
    p.add_argument("--most", type=int, default=64, help="slots at most")
    p.add_argument("--laps", type=int, default=100, help="laps at most that a candidate is given")
    p.add_argument("--patience", type=int, default=2, help="rounds without an accepted move")
    p.add_argument(
        "--together", action="store_true", help="births of several topics together, and end"
    )
    p.add_argument(
        "--export",
        help="write the documents to this file, for benchmarks/peers_growing.py, and end",
    )
    p.add_argument("--peers", nargs="*", default=[], help="score the files that it wrote, and end")
    a = p.parse_args()
    if a.together:
        return together()
    sets = {"10 bars": (bars(0), bars(1), 0.1, [1, 50], [10, 20])}
    if (found := papers(a.docs, a.docs // 5, a.vocab)) is not None:
        sets["NIPS"] = (*found, 0.1, [1], [32])
    print(
        "| data | how | topics in use | bound | held-out, nats a word | CPU s "
        "|\n|---|---|---|---|---|---|"
    )
    for name, (train, test, eta, starts, given) in sets.items():
        if a.only not in name:
            continue
        if a.export or a.peers:
            if a.export:
                parts = {
                    part: x.to_scipy().toarray() for part, x in (("train", train), ("test", test))
                }
                np.savez(a.export, **parts, eta=eta)
            for path in a.peers:
                row_of_peer(name, path, test)
            continue

        def make(k: int, eta: float = eta, size: int = train.vocab_size) -> vi.Model:
            return vi.models.hdp(k, size, eta=eta)

        for start in a.starts if a.starts is not None else starts:
            began = time.process_time()
            fit = vi.grow(
                make,
                train,
                start=start,
                most=max(a.most, 2 * start),
                laps_each=a.laps,
                patience=a.patience,
                key=jax.random.key(0),
            )
            spent = time.process_time() - began
            row(name, f"grow from K = {start}", fit, float(fit.trace["elbo"][-1]), test, spent)
        for number in a.given if a.given is not None else given:
            began = time.process_time()
            fit = best_of(a.restarts, make(number), train)
            how = f"best of {a.restarts} restarts of cavi, K = {number}"
            row(name, how, fit, float(fit.elbo), test, time.process_time() - began)
    return None


if __name__ == "__main__":
    main()
