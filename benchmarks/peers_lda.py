"""Speed of LDA beside the libraries in common use, one core, CPU seconds, in one run.

    python benchmarks/peers_lda.py [--passes 6] [--peers sklearn gensim] [--eta 0.1] [--seed 0]
    [--out peers.jsonl]

Reads the AP corpus from the folder named by VIJAX_DATA; K = 100, batch 256, alpha = 0.1, (t +
1)^-0.75. The peers are installed into build/peers, never into vijax's environment, and run there in
a process of their own. Each method reports documents per CPU second after its first pass
(compilation apart) and the CPU seconds, compilation included, by which document completion on the
held-out tenth first reaches -7.92 nats per word. The last line is a cold start."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
ONE_CORE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": FLAGS,
}
TOPICS, BATCH, ALPHA, TARGET = 100, 256, 0.1, -7.92
OURS = {
    "vijax svi mean_field": ("svi", "mean_field"),
    "vijax ssvi_a cvb0": ("ssvi_a", "cvb0"),
    "vijax ssvi_a gibbs": ("ssvi_a", "gibbs"),
    "vijax ssvi cvb0": ("ssvi", "cvb0"),
}


# --- in the peers' environment: needs no vijax ----------------------------------------------------
def sklearn_passes(counts, passes, eta, seed):
    """Yields (cpu seconds of this pass, topics) of scikit-learn's online LDA."""
    import numpy as np
    from sklearn.decomposition import LatentDirichletAllocation

    lda = LatentDirichletAllocation(
        TOPICS, doc_topic_prior=ALPHA, topic_word_prior=eta, learning_decay=0.75, learning_offset=1.0,
        total_samples=counts.shape[0], random_state=seed,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    for _ in range(passes):
        order = rng.permutation(counts.shape[0])
        started = time.process_time()
        for i in range(0, len(order), BATCH):
            lda.partial_fit(counts[order[i : i + BATCH]])
        yield time.process_time() - started, lda.components_ / lda.components_.sum(1, keepdims=True)


def gensim_passes(counts, passes, eta, seed):
    """Yields (cpu seconds of this pass, topics) of gensim's online LDA."""
    import numpy as np
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel

    words = {i: str(i) for i in range(counts.shape[1])}
    lda = LdaModel(
        num_topics=TOPICS, id2word=words, alpha=[ALPHA] * TOPICS, eta=eta, decay=0.75, offset=1.0, chunksize=BATCH,
        random_state=seed, eval_every=None, iterations=100,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    for _ in range(passes):
        corpus = Sparse2Corpus(counts[rng.permutation(counts.shape[0])], documents_columns=False)
        started = time.process_time()
        lda.update(corpus, passes=1, update_every=1, chunksize=BATCH)
        yield time.process_time() - started, lda.get_topics()


def peer_worker(name: str, folder: Path, passes: int, eta: float, seed: int) -> None:
    import numpy as np
    import scipy.sparse

    counts = scipy.sparse.load_npz(folder / "train.npz").tocsr()
    peer = {"sklearn": sklearn_passes, "gensim": gensim_passes}[name]
    for i, (seconds, topics) in enumerate(peer(counts, passes, eta, seed)):
        np.save(folder / f"{name}-{i}.npy", topics)
        print(json.dumps({"seconds": seconds}), flush=True)


# --- in vijax's environment -----------------------------------------------------------------------
def ours_worker(name: str, passes: int, eta: float, seed: int) -> None:
    import jax

    import vijax as vi

    algorithm, estep = OURS[name]
    train, test = corpora()
    model = vi.models.lda(TOPICS, train.vocab_size, alpha=ALPHA, eta=eta)
    alg = getattr(vi, algorithm)(model, estep=getattr(vi.estep, estep)())
    state = None
    for i in range(passes):
        started = time.process_time()
        fit = vi.fit(
            alg,
            train,
            key=jax.random.key(seed),
            num_epochs=i + 1,
            batch_size=BATCH,
            state=state,
            steps_per_chunk=8,
        )
        seconds, state = time.process_time() - started, fit.state
        score = float(fit.score(test, key=jax.random.key(1)).mean)
        print(json.dumps({"seconds": seconds, "score": score}), flush=True)


def corpora():
    import numpy as np

    from vijax import data

    train, test = data.load_bag_of_words("ap").split(held_out=0.1, seed=0)
    seen = np.flatnonzero(train.word_counts())
    return data.select_words(train, seen), data.select_words(test, seen)


def peers_python() -> Path:
    home = Path(__file__).parent.parent / "build" / "peers"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run(
            [
                str(python),
                "-m",
                "pip",
                "install",
                "-q",
                "scikit-learn",
                "gensim",
                "scipy",
                "tomotopy",
            ],
            check=True,
        )
    return python


def lines_of(command: list[str]) -> list[dict]:
    done = subprocess.run(
        command, env=os.environ | ONE_CORE, check=True, stdout=subprocess.PIPE, text=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def scored(name: str, folder: Path, passes: list[dict]) -> list[dict]:
    import jax
    import numpy as np

    from vijax.evaluate import document_completion

    test = corpora()[1]
    for i, row in enumerate(passes):
        topics = np.load(folder / f"{name}-{i}.npy").astype(np.float32)
        topics /= topics.sum(1, keepdims=True)
        row["score"] = float(document_completion(topics, ALPHA, test, jax.random.key(1)).mean)
    return passes


def summary(name: str, passes: list[dict], num_documents: int) -> dict:
    later = [row["seconds"] for row in passes[1:]]
    spent, reached = 0.0, None
    for row in passes:
        spent += row["seconds"]
        if reached is None and row["score"] >= TARGET:
            reached = round(spent, 1)
    return {
        "method": name,
        "documents_per_cpu_second": round(num_documents / min(later)),
        "first_pass_s": round(passes[0]["seconds"], 1),
        f"cpu_s_to_{TARGET}": reached,
        "score": round(passes[-1]["score"], 4),
        "passes": len(passes),
    }


def cold_start() -> dict:
    """Import, build and one step in a fresh process, without a compilation cache."""
    code = (
        "import time, sys; sys.path.insert(0, 'benchmarks')\n"
        "import jax, vijax as vi, peers_lda as p\n"
        "train, _ = p.corpora()\n"
        "alg = vi.ssvi_a(vi.models.lda(p.TOPICS, train.vocab_size, .1, .1), "
        "estep=vi.estep.cvb0())\n"
        "vi.fit(alg, train, key=jax.random.key(0), num_steps=1, batch_size=p.BATCH)\n"
        "print(time.process_time())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | ONE_CORE, check=True, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    return {
        "method": "vijax cold first step (import, data, compile, one step)",
        "cpu_s": round(float(done.stdout), 1),
    }


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--passes", type=int, default=6)
    p.add_argument("--peers", nargs="*", default=["sklearn", "gensim"])
    p.add_argument("--ours", nargs="*", default=list(OURS))
    p.add_argument("--eta", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    p.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        if a.worker in OURS:
            return ours_worker(a.worker, a.passes, a.eta, a.seed)
        return peer_worker(a.worker, a.folder, a.passes, a.eta, a.seed)

    import scipy.sparse

    train, _ = corpora()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        scipy.sparse.save_npz(Path(folder) / "train.npz", train.to_scipy())
        chosen = ["--passes", str(a.passes), "--eta", str(a.eta), "--seed", str(a.seed)]
        base = [__file__, *chosen, "--folder", folder, "--worker"]
        for name in a.peers:
            found = scored(name, Path(folder), lines_of([str(peers_python()), *base, name]))
            rows.append(summary(name, found, train.num_documents))
            print(json.dumps(rows[-1]), flush=True)
        for name in a.ours:
            rows.append(summary(name, lines_of([sys.executable, *base, name]), train.num_documents))
            print(json.dumps(rows[-1]), flush=True)
    rows.append(cold_start())
    print(json.dumps(rows[-1]), flush=True)
    if a.out:
        Path(a.out).write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
