"""LDA by SSVI-A whose documents are held to few topics, by how few: document completion after some passes.

    python benchmarks/quality/active_topics.py [ap news20] [--topics 100] [--active 8 16 32] [--passes 1 5 10 20]

A held-out tenth, nats per word, and CPU seconds with compilation. Reads the corpora in the folder named by VIJAX_DATA.
"""

from __future__ import annotations

import argparse
import time

import jax
import numpy as np
from schedules import corpora

import vijax as vi


def main() -> None:
    """A table."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("corpora", nargs="*", default=["ap"])
    p.add_argument("--topics", type=int, default=100)
    p.add_argument("--active", type=int, nargs="+", default=[8, 16, 32])
    p.add_argument("--passes", type=int, nargs="+", default=[1, 5, 10, 20])
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--limit", type=int, default=10_000)
    a = p.parse_args()
    for name in a.corpora:
        train, test = corpora(name, a.limit)
        print(f"\n{name}: {train}; K = {a.topics}, batches of {a.batch}; after {a.passes} passes", flush=True)
        model = vi.models.lda(a.topics, train.vocab_size, 0.1, 0.1, estep=vi.estep.cvb0())
        for active in (None, *a.active):
            alg, state, seconds, said = vi.ssvi_a(model, lazy=True, active_topics=active), None, 0.0, []
            for passes in a.passes:
                begin = time.process_time()
                key = jax.random.key(0)
                fit = vi.fit(alg, train, key=key, num_epochs=passes, batch_size=a.batch, state=state)
                state = jax.block_until_ready(fit.state)
                seconds += time.process_time() - begin
                said.append(f"{fit.score(test, key=jax.random.key(1)).mean:.4f} ({seconds:.0f} CPU s)")
            left = "" if active is None else f"; left out at the end {np.mean(fit.trace['left_out'][-5:]):.3f}"
            print(f"  {active or 'all'} topics a document: {', '.join(said)}{left}", flush=True)


if __name__ == "__main__":
    main()
