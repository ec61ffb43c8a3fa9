"""LDA by SVI and SSVI-A after some passes, by batch size: on what the default of `vijax.fit` rests.

    python benchmarks/quality/batch_sizes.py [ap bbc news20 dblp] [--topics 50] [--passes 10]
    [--limit 10000]

Document completion of a held-out tenth, nats per word. Reads the corpora in the folder named by
VIJAX_DATA."""

from __future__ import annotations

import argparse
import time

import jax
from schedules import corpora

import vijax as vi

ROWS = {"svi": (vi.svi, vi.estep.mean_field(), 0.01), "ssvi_a": (vi.ssvi_a, vi.estep.cvb0(), 0.1)}


def main() -> None:
    """A table."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
                wrap = vi.topics.all_words
                if size * 4 < train.num_documents:
                    wrap = vi.topics.by_words
                fit = vi.fit(
                    wrap(make(model)),
                    train,
                    key=jax.random.key(a.seed),
                    num_epochs=a.passes,
                    batch_size=size,
                )
                seconds = time.process_time() - begin
                score = fit.score(test, key=jax.random.key(1)).mean
                print(f"  {row}, batches of {size}: {score:.4f} ({seconds:.0f} CPU s)", flush=True)


if __name__ == "__main__":
    main()
