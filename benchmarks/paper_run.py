"""The experiment of Hoffman and Blei 2015, section 4.1, on documents synthesised from topics of
real text.

    python benchmarks/paper_run.py --folder runs/paper                       # 3.8 million documents, all methods
    python benchmarks/paper_run.py --folder runs/paper --documents 38000     # one in a hundred: what it will cost
    python benchmarks/paper_run.py --folder runs/paper --methods sgrld --eta 0.1
    python benchmarks/paper_run.py --folder runs/paper --chib 200            # the paper's estimate, of states kept

The same command goes on where it was stopped: every (method, eta) has one file of JSON, and the
state at each score, in the folder. Documents are written once, as texts, of which
`vijax.data.prepare` makes Parquet shards of word ids and counts, and mapped into memory. Times are
CPU seconds of fitting, without scoring."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

import vijax as vi
from vijax import data

GIBBS = vi.estep.gibbs()
METHODS = {
    "svi, mean field": lambda model, step: vi.svi(model, step_size=step),
    "svi, gibbs": lambda model, step: vi.svi(model, estep=GIBBS, step_size=step),
    "ssvi": lambda model, step: vi.ssvi(model, estep=GIBBS, step_size=step),
    "ssvi_a": lambda model, step: vi.ssvi_a(model, estep=GIBBS, step_size=step),
    "sgrld": lambda model, step: vi.sgrld(model, estep=GIBBS),
}
BLOCK, HELD_OUT = 50_000, 2_000


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--folder", type=Path, required=True)
    p.add_argument(
        "--source", default="ap.npz", help="counts of real text, in the folder VIJAX_DATA or a path"
    )
    p.add_argument("--documents", type=int, default=3_800_000)
    p.add_argument(
        "--vocabulary", type=int, default=7_700, help="the most frequent words of the source"
    )
    p.add_argument("--topics", type=int, default=100)
    p.add_argument("--batch", type=int, default=1_000)
    p.add_argument("--sweeps", type=int, default=2)
    p.add_argument("--length", type=float, default=100.0, help="mean words of a document")
    p.add_argument("--eta", type=float, nargs="+", default=[0.01, 0.1, 1.0])
    p.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    p.add_argument(
        "--scores",
        type=int,
        default=6,
        help="held-out scores of a run, evenly spaced in log documents",
    )
    p.add_argument(
        "--chib",
        type=int,
        default=0,
        help="score so many documents by Chib's estimator too, and fit nothing",
    )
    p.add_argument(
        "--start-steps",
        type=int,
        default=400,
        help="steps on the source for the topics to draw from",
    )
    p.add_argument("--start-eta", type=float, default=0.01, help="eta of the model of the source")
    return p.parse_args()


def source_topics(a: argparse.Namespace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Topics fitted to real text, how often each is drawn, and the words; kept in the folder."""
    kept = a.folder / "topics.npz"
    if not kept.exists():
        corpus = (
            data.read(a.source)
            if Path(a.source).exists()
            else data.read(Path(vi_data()) / a.source)
        )
        if corpus.vocab_size < a.vocabulary:
            raise SystemExit(
                f"--vocabulary: expected at most {corpus.vocab_size:,} of {a.source}, got "
                f"{a.vocabulary:,}"
            )
        seen = np.argsort(-np.bincount(corpus.indices, minlength=corpus.vocab_size), kind="stable")
        corpus = data.select_words(corpus, np.sort(seen[: a.vocabulary]))
        model = vi.models.lda(a.topics, corpus.vocab_size, alpha=0.1, eta=a.start_eta)
        fit = vi.fit(
            vi.ssvi_a(model), corpus, key=jax.random.key(0), num_steps=a.start_steps, batch_size=500
        )
        topics = np.asarray(fit.posterior["topics"].mean(), np.float64)
        mass = np.asarray(fit.posterior["topics"].concentration, np.float64).sum(1)
        # Letters alone, which texts are cut into, and none a stop word.
        words = np.array(
            [
                f"zq{''.join(chr(97 + int(digit)) for digit in str(i))}"
                for i in range(corpus.vocab_size)
            ]
        )
        np.savez(kept, topics=topics, shares=mass / mass.sum(), words=words)
    found = np.load(kept)
    return found["topics"], found["shares"], found["words"]


def vi_data() -> str:
    import os

    return os.environ.get("VIJAX_DATA", ".")


def synthesised(
    a: argparse.Namespace, number: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengths, word ids and counts of documents: log-normal lengths (sd of logarithms 0.9), shares
    of topics from a Dirichlet of total 10 around how often each topic is used, words by inverse
    cumulative shares."""
    topics, shares, _ = source_topics(a)
    rng = np.random.default_rng(seed)
    tokens = np.maximum(1, rng.lognormal(np.log(a.length) - 0.405, 0.9, number)).astype(int)
    weights = (
        rng.standard_gamma(np.broadcast_to(10 * shares, (number, len(shares)))).astype(np.float64)
        + 1e-12
    )
    cumulative = np.cumsum(weights, 1)
    row = np.repeat(np.arange(number), tokens)
    # One search over all documents: each has the unit interval after its number.
    target = row + rng.random(len(row)) * (1 - 1e-9)
    edges = (np.arange(number)[:, None] + cumulative / cumulative[:, -1:]).ravel()
    topic = np.minimum(np.searchsorted(edges, target) - row * len(shares), len(shares) - 1)
    by_word = (
        np.arange(len(topics))[:, None] + np.cumsum(topics, 1) / topics.sum(1, keepdims=True)
    ).ravel()
    word = (
        np.searchsorted(by_word, topic + rng.random(len(row)) * (1 - 1e-9))
        - topic * topics.shape[1]
    )
    pairs, counts = np.unique(
        row * topics.shape[1] + np.minimum(word, topics.shape[1] - 1), return_counts=True
    )
    return np.bincount(pairs // topics.shape[1], minlength=number), pairs % topics.shape[1], counts


def texts(a: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The documents, as texts; those held out come last."""
    total, words = a.documents + HELD_OUT, source_topics(a)[2].astype(object)
    for i, first in enumerate(range(0, total, BLOCK)):
        lengths, ids, counts = synthesised(a, min(BLOCK, total - first), 1 + i)
        tokens = np.repeat(words[ids], counts)
        ends = np.cumsum(np.bincount(np.repeat(np.arange(len(lengths)), lengths), counts)).astype(
            int
        )
        for number, said in enumerate(np.split(tokens, ends[:-1]), first):
            yield str(number), " ".join(said)


def write_shards(a: argparse.Namespace) -> Path:
    """The documents as shards; it goes on where it was stopped."""
    if (a.folder / "shards" / "prepared.json").exists():
        return a.folder / "shards"
    say = lambda line: print(line, flush=True)
    return data.prepare(
        texts(a), a.folder / "shards", vocabulary=list(source_topics(a)[2]), progress=say
    )


def part(corpus: data.Corpus, first: int, stop: int) -> data.Corpus:
    """Documents that lie together, mapped into memory where the corpus is: nothing is copied."""
    pairs = slice(int(corpus.indptr[first]), int(corpus.indptr[stop]))
    indptr = np.asarray(corpus.indptr[first : stop + 1]) - pairs.start
    return dataclasses.replace(
        corpus, indptr=indptr, indices=corpus.indices[pairs], counts=corpus.counts[pairs], notes=()
    )


def stem(a: argparse.Namespace, method: str, eta: float) -> str:
    return f"{method.replace(', ', '-').replace(' ', '_')}-{eta}-{a.documents}"


def algorithm(a: argparse.Namespace, method: str, eta: float, vocab_size: int) -> vi.Algorithm:
    model = vi.models.lda(a.topics, vocab_size, alpha=0.1, eta=eta)
    return METHODS[method](model, vi.step_size.robbins_monro(kappa=0.75))


def run(
    a: argparse.Namespace, method: str, eta: float, train: data.Corpus, test: data.Corpus
) -> None:
    """Fits, and writes each score when it is there, with the state: a run that is stopped goes on
    from its last one."""
    file, states = (
        a.folder / f"{stem(a, method, eta)}.json",
        a.folder / f"{stem(a, method, eta)}.states",
    )
    steps = a.sweeps * round(train.num_documents / a.batch)
    at = sorted({round(s) for s in np.geomspace(max(1, steps / 30), steps, a.scores)})
    found = json.loads(file.read_text()) if file.exists() else {"points": []}
    points, alg, key = (
        found["points"],
        algorithm(a, method, eta, train.vocab_size),
        jax.random.key(0),
    )
    state, done = None, points[-1]["documents"] // a.batch if points else 0
    if points and done < at[-1]:
        state = vi.checkpoint.load(
            state_file(states, done), like=jax.eval_shape(alg.init, key)
        ).tree
    for until in [step for step in at if step > done]:
        begun = time.process_time()
        fit = vi.fit(alg, train, key=key, num_steps=until, batch_size=a.batch, state=state)
        jax.block_until_ready(fit.state)
        seconds = time.process_time() - begun + (points[-1]["cpu_seconds"] if points else 0.0)
        state = fit.state
        vi.checkpoint.save(states, until, state, keep=a.scores)
        score = fit.score(test, key=jax.random.key(1))
        points.append(
            {
                "documents": until * a.batch,
                "cpu_seconds": round(seconds, 1),
                "score": float(score[0]),
            }
        )
        skipped = int(state.num_skipped)
        said = {
            "method": method,
            "eta": eta,
            "documents": train.num_documents,
            "skipped": skipped,
            "points": points,
        }
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(said) + "\n")
        partial.rename(file)
        print(f"{method}, eta {eta}: {points[-1]}", flush=True)


def state_file(states: Path, step: int) -> Path:
    return states / f"step_{step:08d}.npz"


def score_by_chib(a: argparse.Namespace, test: data.Corpus) -> None:
    """Chib's estimate of the probability of whole documents, as the paper scores, beside document
    completion, at the mean topics of each state that was kept."""
    some = test[np.arange(min(a.chib, test.num_documents))]
    for eta in a.eta:
        for method in a.methods:
            file = a.folder / f"{stem(a, method, eta)}.json"
            for point in json.loads(file.read_text())["points"] if file.exists() else ():
                alg = algorithm(a, method, eta, test.vocab_size)
                kept = state_file(file.with_suffix(".states"), point["documents"] // a.batch)
                state = vi.checkpoint.load(
                    kept, like=jax.eval_shape(alg.init, jax.random.key(0))
                ).tree
                begun = time.process_time()
                score = vi.evaluate.chib(
                    state.posterior["topics"].mean(), 0.1, some, jax.random.key(2)
                )
                spent = f"{time.process_time() - begun:.1f} CPU s"
                print(
                    f"{method}, eta {eta}, {point['documents']} documents: {point['score']:.3f}; "
                    f"{score}; {spent}",
                    flush=True,
                )


def main() -> None:
    a = arguments()
    a.folder.mkdir(parents=True, exist_ok=True)
    corpus = data.read(write_shards(a))
    train, test = part(corpus, 0, a.documents), part(corpus, a.documents, a.documents + HELD_OUT)
    test = test[np.arange(HELD_OUT)]
    print(
        f"{train.num_documents} documents of {train.num_tokens / train.num_documents:.1f} words",
        flush=True,
    )
    if a.chib:
        return score_by_chib(a, test)
    for eta in a.eta:
        for method in a.methods:
            run(a, method, eta, train, test)
    draw(a.folder)


def draw(folder: Path) -> None:
    """One figure: held-out score against documents seen and against CPU seconds."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
    runs = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    etas = sorted({run["eta"] for run in runs})
    for run in runs:
        look = {
            "color": f"C{list(METHODS).index(run['method'])}",
            "linestyle": ("-", "--", ":")[etas.index(run["eta"])],
        }
        for axis, name in zip(axes, ("documents", "cpu_seconds"), strict=True):
            x, y = ([point[what] for point in run["points"]] for what in (name, "score"))
            axis.semilogx(x, y, marker=".", label=f"{run['method']}, eta {run['eta']}", **look)
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.set_xlabel(
                name.replace("cpu_seconds", "CPU seconds").replace("documents", "documents seen")
            )
    axes[0].set_ylabel("held-out score, nats a word")
    axes[1].legend(fontsize=7, handlelength=4, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(folder / "paper_run.png", dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
