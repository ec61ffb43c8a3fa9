"""What lazy steps save: documents per CPU second of dense and lazy algorithms, side by side.

    python benchmarks/lazy.py [--words 7000 20000 100000 1000000] [--batch 256] [--topics 100]
    [--passes 3] python benchmarks/lazy.py --words 20000 --topics 500 --batch 1024 --active 16
    --rows ssvi_a

Documents have 30 words, drawn by Zipf's law. Passes of both fits alternate in one process; the
first, which compiles, is left out. The machine's other work counts for nothing in CPU seconds, but
for what it takes of the caches: look at the ratios."""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import numpy as np

import vijax as vi

KEY = jax.random.key(0)
LENGTH = 30
DENSE_BELOW = 5e7
"""Numbers in the topics from which the dense algorithm is left out: a step would take seconds."""


def documents(vocab_size: int, number: int) -> vi.data.Corpus:
    """Bags of words by Zipf's law (Mandelbrot's, whose most frequent words are less so)."""
    rng = np.random.default_rng(0)
    weights = 1.0 / (np.arange(vocab_size) + 10.0)
    words = rng.choice(vocab_size, (number, LENGTH), p=weights / weights.sum()).astype(np.int32)
    words.sort(axis=1)
    new = np.diff(words, axis=1, prepend=-1) != 0
    starts = np.flatnonzero(new)
    counts = np.diff(starts, append=new.size)
    ends = np.concatenate([[0], np.cumsum(new.sum(axis=1))])
    return vi.data.Corpus(ends, words[new], counts, vocab_size=vocab_size)


class Passes:
    """A fit that goes on pass by pass, and the CPU seconds of each."""

    def __init__(self, alg: Any, corpus: Any, batch_size: int):
        self.alg, self.corpus, self.batch_size = alg, corpus, batch_size
        self.state: Any = None
        self.seconds: list[float] = []

    def go_on(self) -> None:
        """One more."""
        steps = (0 if self.state is None else int(self.state.step)) + round(
            self.corpus.num_documents / self.batch_size
        )
        begin = time.process_time()
        fit = vi.fit(
            self.alg,
            self.corpus,
            num_steps=steps,
            batch_size=self.batch_size,
            key=KEY,
            state=self.state,
        )
        self.state = jax.block_until_ready(fit.state)
        self.seconds.append(time.process_time() - begin)

    @property
    def rate(self) -> float:
        """Documents per CPU second, of the best pass but the first."""
        return self.corpus.num_documents / min(self.seconds[1:])


def main() -> None:
    """A table."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--words", type=int, nargs="+", default=[7_000, 20_000, 100_000, 1_000_000])
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--topics", type=int, default=100)
    p.add_argument("--passes", type=int, default=3)
    p.add_argument("--documents", type=int, default=12_800)
    p.add_argument("--rows", nargs="+", default=["ssvi_a", "svi"])
    p.add_argument("--active", type=int, help="topics of a document at most, as a third way")
    p.add_argument(
        "--left-out", type=float, default=0.0, help="of its words, by which it may use fewer"
    )
    a = p.parse_args()
    print(f"K = {a.topics}, batches of {a.batch}; documents per CPU second\n")
    print(
        "| V | row | dense | lazy | active topics | dense : lazy : active "
        "|\n|---|---|---|---|---|---|"
    )
    for size in a.words:
        corpus = documents(size, a.documents)
        for row in a.rows:
            runs = {name: Passes(alg, corpus, a.batch) for name, alg in ways(a, row, size).items()}
            for _ in range(a.passes + 1):
                for run in runs.values():
                    run.go_on()
            rates = [
                runs[name].rate if name in runs else None for name in ("dense", "lazy", "active")
            ]
            least = rates[0] or rates[1] or 1.0
            shown = [f"{rate:,.0f}" if rate else "" for rate in rates]
            ratio = " : ".join(f"{rate / least:.1f}" if rate else "-" for rate in rates)
            print(f"| {size:,} | {row} | {' | '.join(shown)} | {ratio} |", flush=True)


def ways(a: argparse.Namespace, row: str, vocab_size: int) -> dict[str, Any]:
    """The algorithms to compare."""
    estep = vi.estep.cvb0() if row == "ssvi_a" else vi.estep.mean_field()
    model = vi.models.lda(a.topics, vocab_size, 0.1, 0.1, estep=estep)
    make = getattr(vi, row)
    alg = make(model)
    made = {"dense": vi.topics.all_words(alg), "lazy": vi.topics.by_words(alg)}
    if vocab_size * a.topics > DENSE_BELOW:
        del made["dense"]
    if a.active is not None:
        made["active"] = vi.topics.by_words(alg, a.active, a.left_out)
    return made


if __name__ == "__main__":
    main()
