"""LDA by SVI and SSVI-A after some passes, by batch size: on what the default of `vijax.fit` rests.

    python benchmarks/quality/batch_sizes.py [ap bbc news20 dblp] [--topics 50] [--passes 10] [--limit 10000]

Document completion of a held-out tenth, nats per word. Reads the corpora in the folder named by VIJAX_DATA.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import numpy as np

import vijax as vi
from vijax import data

ROWS = {"svi": (vi.svi, vi.estep.mean_field(), 0.01), "ssvi_a": (vi.ssvi_a, vi.estep.cvb0(), 0.1)}


def corpora(name: str, limit: int) -> tuple[Any, Any]:
    """Training documents and a held-out tenth, over the words of the former."""
    corpus = data.load_bag_of_words(name)
    rows = np.random.default_rng(0).permutation(corpus.num_documents)[:limit]
    train, test = corpus[rows].split(held_out=0.1, seed=0)
    seen = np.flatnonzero(train.word_counts())
    return data.select_words(train, seen), data.select_words(test, seen)


def main() -> None:
    """A table."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("corpora", nargs="*", default=["ap", "bbc", "news20", "dblp"])
    p.add_argument("--rows", nargs="+", default=list(ROWS))
    p.add_argument("--sizes", type=int, nargs="+", default=[32, 64, 128, 256, 512, 1024])
    p.add_argument("--topics", type=int, default=50)
    p.add_argument("--passes", type=int, default=10)
    p.add_argument("--limit", type=int, default=10_000)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    for name in a.corpora:
        train, test = corpora(name, a.limit)
        print(f"\n{name}: {train}; K = {a.topics}, {a.passes} passes", flush=True)
        for row in a.rows:
            make, estep, eta = ROWS[row]
            model = vi.models.lda(a.topics, train.vocab_size, 0.1, eta, estep=estep)
            for size in [s for s in a.sizes if s <= train.num_documents]:
                begin = time.process_time()
                alg = make(model, lazy=size * 4 < train.num_documents)
                fit = vi.fit(alg, train, key=jax.random.key(a.seed), num_epochs=a.passes, batch_size=size)
                seconds = time.process_time() - begin
                score = fit.score(test, key=jax.random.key(1)).mean
                print(f"  {row}, batches of {size}: {score:.4f} ({seconds:.0f} CPU s)", flush=True)


if __name__ == "__main__":
    main()
