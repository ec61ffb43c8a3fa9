"""LDA at equal CPU time: held-out score against CPU seconds, beside tomotopy's collapsed Gibbs and
scikit-learn.

    python benchmarks/quality/equal_time.py [ap news20 imdb] [--topics 100] [--seconds 60] [--limit
    20000] [--seed 1]

Each method has one core and so many CPU seconds, compilation included, time spent on scores not;
each of two fits has half of them. eta = alpha = 0.1 for all, and none of them learns either.
Document completion of a held-out tenth, nats per word. Prints a table and writes
benchmarks/figures/equal_time.png. Reads the corpora in the folder named by VIJAX_DATA. The peers
are installed into build/peers, never into vijax's environment."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from peers_lda import ONE_CORE, peers_python

ALPHA = ETA = 0.1
QUICK = {"warm": True, "tol": 1e-2}
OURS: dict[str, dict[str, Any]] = {
    "vijax, SSVI-A, CVB0": {},
    "vijax, two fits averaged": {"fits": 2},
    "vijax, quick": QUICK,
    "vijax, warm starts": {"warm": True},
    "vijax, all words": {"by_words": False},
    "vijax, lazy": {"by_words": True},
    "vijax, lazy, 16 topics a document": {"by_words": True, "active": 16},
}
PEERS = {
    "tomotopy, collapsed Gibbs": "tomotopy",
    "tomotopy, mean of 20 samples": "mean",
    "scikit-learn, online, batches of 256": "sklearn",
}
GROWTH = 1.35
"""Of the CPU seconds from one score to the next."""


# --- in the peers' environment: needs no vijax ----------------------------------------------------
def tomotopy_sweeps(counts: Any, topics: int, seed: int) -> Iterator[Any]:
    """The topics after each sweep."""
    import tomotopy

    lda = tomotopy.LDAModel(k=topics, alpha=ALPHA, eta=ETA, seed=seed)
    lda.optim_interval = 0
    for start, end in zip(counts.indptr[:-1], counts.indptr[1:], strict=True):
        lda.add_doc(
            np.repeat(counts.indices[start:end], counts.data[start:end]).astype(str).tolist()
        )
    lda.train(0)
    ids = np.array(lda.used_vocabs, dtype=int)
    while True:
        lda.train(1, workers=1)
        found = np.zeros((topics, counts.shape[1]), np.float32)
        yield lambda found=found: _tomotopy_topics(lda, ids, found)


def tomotopy_means(counts: Any, topics: int, seed: int) -> Iterator[Any]:
    """The mean topics of the last 20 samples, ten sweeps apart; of fewer, of those of the later
    half of the sweeps."""
    samples: list[np.ndarray] = []
    for sweep, current in enumerate(tomotopy_sweeps(counts, topics, seed), 1):
        if sweep % 10 == 0:
            samples = [*samples[-39:], current().copy()]
            taken = samples[-min(20, -(-len(samples) // 2)) :]
            yield lambda taken=taken: np.mean(taken, 0)


def _tomotopy_topics(lda: Any, ids: np.ndarray, found: np.ndarray) -> np.ndarray:
    for k in range(len(found)):
        found[k, ids] = lda.get_topic_word_dist(k)
    return found


def sklearn_batches(counts: Any, topics: int, seed: int) -> Iterator[Any]:
    """The topics after each batch of online variational Bayes."""
    from sklearn.decomposition import LatentDirichletAllocation

    lda = LatentDirichletAllocation(
        topics,
        doc_topic_prior=ALPHA,
        topic_word_prior=ETA,
        total_samples=counts.shape[0],
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(counts.shape[0])
        for i in range(0, len(order), 256):
            lda.partial_fit(counts[order[i : i + 256]])
            yield lambda: lda.components_


def peer_worker(name: str, folder: Path, topics: int, seconds: float, seed: int) -> None:
    """Saves topics at growing CPU seconds, and says which."""
    import scipy.sparse

    counts = scipy.sparse.load_npz(folder / "train.npz").tocsr()
    begin, due, aside, i = time.process_time(), 1.0, 0.0, 0
    sides = {"tomotopy": tomotopy_sweeps, "mean": tomotopy_means, "sklearn": sklearn_batches}
    for current in sides[name](counts, topics, seed):
        spent = time.process_time() - begin - aside
        if spent >= due:
            np.save(folder / f"{name}-{i}.npy", current())
            print(json.dumps({"seconds": spent, "file": f"{name}-{i}.npy"}), flush=True)
            aside, due, i = time.process_time() - begin - spent, spent * GROWTH, i + 1
        if spent > seconds:
            return


# --- in vijax's environment -----------------------------------------------------------------------
def our_worker(name: str, corpus: str, topics: int, seconds: float, limit: int, seed: int) -> None:
    """Scores at growing CPU seconds; of several fits, one after the other, those of their
    average."""
    import jax
    from schedules import corpora

    import vijax as vi
    from vijax.evaluate import document_completion

    train, test = corpora(corpus, limit)
    choices = OURS[name]
    fits = choices.get("fits", 1)
    estep = vi.estep.cvb0(tol=choices.get("tol", 1e-3))
    model = vi.models.lda(topics, train.vocab_size, ALPHA, ETA, estep=vi.estep.cvb0())
    alg = vi.ssvi_a(model, estep=estep)
    if "warm" in choices:
        alg = vi.warm(alg)
    if choices.get("by_words"):
        alg = vi.topics.by_words(alg, choices.get("active"))
    elif "by_words" in choices:
        alg = vi.topics.all_words(alg)
    found: list[list[tuple[float, np.ndarray]]] = [[] for _ in range(fits)]

    def run(number: int) -> None:
        begin, aside = time.process_time(), 0.0

        def look(progress: vi.Progress) -> bool:
            nonlocal aside
            jax.block_until_ready(progress.state)
            spent = time.process_time() - begin - aside
            if spent >= GROWTH ** len(found[number]) / fits:
                found[number].append((spent, np.asarray(progress.state.posterior["topics"].mean())))
                if number == fits - 1:
                    report(len(found[number]) - 1)
                aside = time.process_time() - begin - spent
            return spent > seconds / fits

        vi.fit(
            alg,
            train,
            key=jax.random.key(seed + 1000 * number),
            num_epochs=10_000,
            batch_size=256,
            callbacks=[look],
        )

    def report(index: int) -> None:
        if all(index < len(each) for each in found):
            score = document_completion(
                [each[index][1] for each in found], ALPHA, test, jax.random.key(1)
            ).mean
            print(
                json.dumps(
                    {"seconds": sum(each[index][0] for each in found), "score": float(score)}
                ),
                flush=True,
            )

    for number in range(fits):
        run(number)


def lines_of(command: list[str]) -> list[dict[str, Any]]:
    """What a process prints."""
    done = subprocess.run(
        command, env=os.environ | ONE_CORE, check=True, stdout=subprocess.PIPE, text=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def peer_curve(name: str, corpus: str, a: argparse.Namespace) -> list[dict[str, Any]]:
    """A peer's scores, by vijax's own measure."""
    import jax
    import scipy.sparse
    from schedules import corpora

    from vijax.evaluate import document_completion

    train, test = corpora(corpus, a.limit)
    with tempfile.TemporaryDirectory() as folder:
        scipy.sparse.save_npz(Path(folder) / "train.npz", train.to_scipy())
        worker = [
            "--worker",
            PEERS[name],
            "--folder",
            folder,
            "--topics",
            str(a.topics),
            "--seconds",
            str(a.seconds),
        ]
        worker += ["--seed", str(a.seed)]
        rows = lines_of([str(peers_python()), __file__, *worker])
        for row in rows:
            topics = np.load(Path(folder) / row["file"]).astype(np.float32)
            topics /= topics.sum(1, keepdims=True)
            row["score"] = float(document_completion(topics, ALPHA, test, jax.random.key(1)).mean)
    return rows


def our_curve(name: str, corpus: str, a: argparse.Namespace) -> list[dict[str, Any]]:
    """Ours."""
    limits = ["--topics", str(a.topics), "--seconds", str(a.seconds), "--limit", str(a.limit)]
    limits += ["--seed", str(a.seed)]
    return lines_of([sys.executable, __file__, corpus, "--worker", name, *limits])


def at(rows: list[dict[str, Any]], seconds: float) -> str:
    """The last score by then."""
    known = [row["score"] for row in rows if row["seconds"] <= seconds]
    return f"{known[-1]:.3f}" if known else ""


def draw(curves: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """One panel a corpus."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(curves), figsize=(5 * len(curves), 4), squeeze=False, layout="constrained"
    )
    for ax, (corpus, methods) in zip(axes[0], curves.items(), strict=True):
        for name, rows in methods.items():
            ax.plot([r["seconds"] for r in rows], [r["score"] for r in rows], ".-", label=name)
        ax.set(xscale="log", title=corpus, xlabel="CPU seconds, compilation included")
        ax.set_xticks([1, 2, 5, 10, 20, 50], labels=["1", "2", "5", "10", "20", "50"])
        ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axes[0][0].set_ylabel("document completion, nats per word")
    axes[0][0].legend(fontsize="small")
    figure.savefig(Path(__file__).parent.parent / "figures" / "equal_time.png", dpi=110)


def main() -> None:
    """Tables and a figure."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("corpora", nargs="*", default=["ap", "news20", "imdb"])
    p.add_argument("--topics", type=int, default=100)
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--limit", type=int, default=20_000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--methods", nargs="*", default=[*OURS, *PEERS])
    p.add_argument("--worker", help=argparse.SUPPRESS)
    p.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker in OURS:
        return our_worker(a.worker, a.corpora[0], a.topics, a.seconds, a.limit, a.seed)
    if a.worker:
        return peer_worker(a.worker, a.folder, a.topics, a.seconds, a.seed)
    curves: dict[str, dict[str, Any]] = {}
    for corpus in a.corpora:
        curves[corpus] = {name: our_curve(name, corpus, a) for name in OURS if name in a.methods}
        curves[corpus] |= {name: peer_curve(name, corpus, a) for name in PEERS if name in a.methods}
        times = [s for s in (5, 10, 20, 40, 60, 120, 300) if s <= a.seconds * 1.2]
        print(f"\n{corpus}, K = {a.topics}\n\n| CPU seconds | {' | '.join(map(str, times))} |")
        print("|---" * (len(times) + 1) + "|")
        for name, rows in curves[corpus].items():
            print(f"| {name} | {' | '.join(at(rows, s) for s in times)} |", flush=True)
    if not set(OURS | PEERS) - set(a.methods):
        draw(curves)


if __name__ == "__main__":
    main()
