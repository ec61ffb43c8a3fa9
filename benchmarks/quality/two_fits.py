"""LDA at equal CPU time: one fit and two fits whose word probabilities are averaged, beside one and
two chains of tomotopy.

    python benchmarks/quality/two_fits.py [bbc news20] [--topics 50 100] [--seconds 10 20 40 70]
    [--limit 20000] [--scored 500] [--seed 0] [--methods ...]

CPU seconds of a fresh process on one core: import, reading, compilation and all runs count, scores
do not. The two fits run side by side in one program; of two chains each has half of the time.
alpha = eta = 0.1, and nobody learns either. Document completion of documents that were held out,
nats per word. Reads the corpora in the folder named by VIJAX_DATA; the peer is installed into
build/peers, never into vijax's environment."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from equal_time import ALPHA, ETA, tomotopy_sweeps
from peers_lda import ONE_CORE, peers_python

OURS = {"vijax, one fit": 1, "vijax, two fits averaged": 2}
CHAINS = {
    "tomotopy, one sample": ("last", 1),
    "tomotopy, mean of 20 samples": ("mean", 1),
    "tomotopy, two chains": ("mean", 2),
}


def snapshot_times(seconds: list[float]) -> list[float]:
    """CPU seconds at which topics are kept: those asked for, and their halves."""
    return sorted({part * s for s in seconds for part in (0.5, 1.0)})


# --- in the peer's environment: needs no vijax ----------------------------------------------------
def chain_worker(folder: Path, topics: int, times: list[float], seed: int) -> None:
    """Keeps the last sample and the mean of 20 samples of a chain at these CPU seconds."""
    import scipy.sparse

    counts = scipy.sparse.load_npz(folder / "train.npz").tocsr()
    samples: list[np.ndarray] = []
    due = list(times)
    for sweep, current in enumerate(tomotopy_sweeps(counts, topics, seed), 1):
        if sweep % 10 == 0:
            samples = [*samples[-39:], current().copy()]
        while due and time.process_time() >= due[0]:
            when = due.pop(0)
            later_half = samples[-min(20, -(-len(samples) // 2)) :] or [current()]
            np.save(folder / f"last-{seed}-{when:g}.npy", current())
            np.save(folder / f"mean-{seed}-{when:g}.npy", np.mean(later_half, 0))
        if not due:
            return


# --- in vijax's environment -----------------------------------------------------------------------
def our_worker(corpus: str, folder: Path, a: argparse.Namespace) -> None:
    """Keeps the topics of one fit, or of two side by side, at these CPU seconds."""
    import jax
    from schedules import corpora

    import vijax as vi
    from vijax.fitting.restarts import each_state

    train, _ = corpora(corpus, a.limit)
    model = vi.models.lda(a.topics[0], train.vocab_size, ALPHA, ETA)
    due = list(a.seconds)
    aside = 0.0

    def states(progress: vi.Progress) -> list[Any]:
        if a.fits == 1:
            return [progress.state]
        return each_state(progress.whole)

    def look(progress: vi.Progress) -> bool:
        nonlocal aside
        jax.block_until_ready(progress.whole)
        begin = time.process_time()
        while due and begin - aside >= due[0]:
            tables = [state.posterior.plain()["topics"].mean() for state in states(progress)]
            np.save(folder / f"fits-{a.fits}-{due.pop(0):g}.npy", np.asarray(tables))
        aside += time.process_time() - begin
        return not due

    fit = vi.fit(
        vi.ssvi_a(model, estep=vi.estep.cvb0()),
        train,
        key=jax.random.key(a.seed),
        num_epochs=10_000,
        batch_size=256,
        restarts=a.fits,
        callbacks=[look],
    )
    elbo = fit.trace.get("restart_elbo", fit.trace["elbo"])
    print(json.dumps({"steps": len(elbo), "alg": repr(fit.alg)[:60]}), file=sys.stderr)


def run(command: list[str]) -> None:
    subprocess.run(command, env=os.environ | ONE_CORE, check=True)


def compare(corpus: str, topics: int, a: argparse.Namespace) -> dict[str, dict[float, float]]:
    """The score of each method at each time."""
    import jax
    import scipy.sparse
    from schedules import corpora

    from vijax.evaluate import document_completion

    train, test = corpora(corpus, a.limit)
    test = test[np.arange(min(a.scored, test.num_documents))]
    scores: dict[str, dict[float, float]] = {name: {} for name in a.methods}

    def score(name: str, when: float, tables: list[np.ndarray]) -> None:
        tables = [np.asarray(x, np.float32) for x in tables]
        tables = [x / x.sum(1, keepdims=True) for x in tables]
        completion = document_completion(tables, ALPHA, test, jax.random.key(1))
        scores[name][when] = float(completion.mean)

    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        scipy.sparse.save_npz(folder / "train.npz", train.to_scipy())
        common = ["--folder", text, "--topics", str(topics), "--limit", str(a.limit)]
        num_chains = max([CHAINS[name][1] for name in a.methods if name in CHAINS], default=0)
        for chain in range(num_chains):
            most = max(a.seconds) / (1 if chain == 0 else 2)
            times = [f"{t:g}" for t in snapshot_times(a.seconds) if t <= most]
            worker = ["--worker", "chain", "--seed", str(a.seed + 1000 * chain)]
            run([str(peers_python()), __file__, *worker, *common, "--seconds", *times])
        for fits in [OURS[name] for name in a.methods if name in OURS]:
            worker = ["--worker", "ours", "--fits", str(fits), "--seed", str(a.seed)]
            times = [f"{t:g}" for t in a.seconds]
            run([sys.executable, __file__, corpus, *worker, *common, "--seconds", *times])
        for name in a.methods:
            for when in a.seconds:
                if name in OURS:
                    score(name, when, list(np.load(folder / f"fits-{OURS[name]}-{when:g}.npy")))
                else:
                    kind, chains = CHAINS[name]
                    seeds = [a.seed + 1000 * chain for chain in range(chains)]
                    files = [folder / f"{kind}-{seed}-{when / chains:g}.npy" for seed in seeds]
                    score(name, when, [np.load(file) for file in files])
    return scores


def main() -> None:
    """Tables."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("corpora", nargs="*", default=["bbc", "news20"])
    p.add_argument("--topics", type=int, nargs="*", default=[50, 100])
    p.add_argument("--seconds", type=float, nargs="*", default=[10.0, 20.0, 40.0, 70.0])
    p.add_argument("--limit", type=int, default=20_000)
    p.add_argument("--scored", type=int, default=500)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--methods", nargs="*", default=[*OURS, *CHAINS])
    p.add_argument("--worker", help=argparse.SUPPRESS)
    p.add_argument("--fits", type=int, help=argparse.SUPPRESS)
    p.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker == "chain":
        return chain_worker(a.folder, a.topics[0], a.seconds, a.seed)
    if a.worker:
        return our_worker(a.corpora[0], a.folder, a)
    for corpus in a.corpora:
        for topics in a.topics:
            scores = compare(corpus, topics, a)
            times = a.seconds
            print(
                f"\n{corpus}, K = {topics}\n\n| CPU seconds | {' | '.join(map('{:g}'.format, times))} |"
            )
            print("|---" * (len(times) + 1) + "|")
            for name, row in scores.items():
                print(f"| {name} | {' | '.join(f'{row[s]:.3f}' for s in times)} |", flush=True)


if __name__ == "__main__":
    main()
