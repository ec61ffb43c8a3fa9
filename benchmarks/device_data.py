"""Batches from the host beside batches that are gathered where the data lie: what the host does for
a document, and whole fits. CPU seconds; on a CPU, the host's part is what an accelerator would
wait for.

    python benchmarks/device_data.py [--documents 200000]"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

import vijax as vi
from vijax.data import synthetic
from vijax.data.loader import CorpusLoader
from vijax.data.minibatch import prefetch
from vijax.data.streams.threads import read_batches
from vijax.data.table_batches import table_batches
from vijax.fitting.loop import stack
from vijax.scale import device_data
from vijax.topics.own_words import OwnWordsLoader

WORDS, LENGTH, CHUNK = 8_000, 100.0, 10


def cpu_seconds(run: Callable[[], Any]) -> float:
    """CPU seconds of this process, the least of three runs."""
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def drain(items: Iterable[Any]) -> None:
    for _ in items:
        pass


def stacked(items: Iterable[Any], count: int) -> None:
    """Chunks of ten, as a fit makes them."""
    iterator = iter(items)
    for _ in range(count // CHUNK):
        stack(iterator, CHUNK, CHUNK)


def host_part(corpus: vi.data.Corpus, size: int) -> None:
    loader = CorpusLoader(corpus, size, 0)
    steps = loader.steps_per_epoch
    source = table_batches(loader)
    assert source is not None
    batch = next(iter(loader.batches(0, 1)))
    picks = next(iter(source.picks(0, 1)))
    ways = {
        "batches": lambda: stacked(loader.batches(0, steps), steps),
        "batches by words": lambda: drain(OwnWordsLoader(loader, WORDS).batches(0, steps)),
        "places in tables": lambda: stacked(source.picks(0, steps), steps),
        "the order alone": lambda: drain([next(iter(source.picks(0, 1)))]),
        "tables, once": lambda: [table.read(0, table.num_rows) for table in source.tables],
    }
    sent = {"batches": batch, "batches by words": batch, "places in tables": picks}
    for name, run in ways.items():
        rate = corpus.num_documents / cpu_seconds(run)
        num_bytes = sum(np.asarray(x).nbytes for x in jax.tree.leaves(sent.get(name, ())))
        row(name, size, f"{rate:,.0f}", round(num_bytes / size) or "")
    row("a document in tables", "", "", round(source.num_bytes / corpus.num_documents))


def by_threads(corpus: vi.data.Corpus, size: int, repeats: int = 8) -> None:
    """Batches that one and two threads make, in turns, and the thread that reads them ahead: the
    best by CPU time and by the clock, which other programs disturb."""
    loaders = {
        "batches": CorpusLoader(corpus, size, 0),
        "batches by words": OwnWordsLoader(CorpusLoader(corpus, size, 0), WORDS),
    }
    for name, loader in loaders.items():
        seconds: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
        for _, count in itertools.product(range(repeats), seconds):
            begin = time.process_time(), time.perf_counter()
            drain(prefetch(read_batches(loader, 0, loader.steps_per_epoch, count)))
            end = time.process_time(), time.perf_counter()
            seconds[count].append((end[0] - begin[0], end[1] - begin[1]))
        for count, times in seconds.items():
            by_cpu, by_clock = (f"{len(corpus) / min(x):,.0f}" for x in zip(*times, strict=True))
            row(f"{name}, {count} thread(s)", size, by_cpu, f"by the clock {by_clock}")


def fits(corpus: vi.data.Corpus) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200_000, 5)).astype(np.float32) + 4 * rng.integers(0, 3, 200_000)[:, None]
    mixture = vi.svi(vi.models.mixture(vi.models.emission.diagonal_gaussian(3, dim=5)))
    cases: dict[str, tuple[Any, Any, int]] = {
        "`svi`, mixture of 3, 5 columns": (mixture, x, 500),
        "the same": (mixture, x, 20),
        "`svi`, `lda` of 10": (vi.svi(vi.models.lda(10, WORDS)), corpus, 2_000),
    }
    for name, (alg, data, size) in cases.items():
        rates = []
        for share in ("0", "0.5"):
            os.environ[device_data.SWITCH] = share
            run = lambda: vi.fit(alg, data, key=jax.random.key(0), num_epochs=1, batch_size=size)
            run()
            rates.append(
                len(data) / cpu_seconds(run)
                if data is x
                else corpus.num_documents / cpu_seconds(run)
            )
        row(name, f"{size:,}", *(f"{rate:,.0f}" for rate in rates))


def row(*cells: Any) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=200_000)
    a = parser.parse_args()
    corpus = synthetic.lda_corpus(a.documents, 100, WORDS, LENGTH, alpha=0.05, eta=0.02)[0]
    row("what the host does", "documents a step", "documents a CPU s", "bytes a document, sent")
    row("---", "---", "---", "---")
    host_part(corpus, 2_000)
    by_threads(corpus, 16_000)
    row("fit", "groups a step", "groups a CPU s, from the host", "on the device")
    row("---", "---", "---", "---")
    fits(corpus)


if __name__ == "__main__":
    main()
