"""LDA by SSVI-A whose documents are held to few topics, by how few: document completion after some
passes.

    python benchmarks/quality/active_topics.py [ap news20] [--topics 100] [--active 8 16 32:0.02]
    [--passes 1 5 10 20]

32:0.02 stands for `active=32, left_out=0.02`; all topics are run too, unless --no-dense is
said. The score is of a held-out tenth, nats per word, and CPU seconds with compilation. Reads the
corpora in the folder named by VIJAX_DATA."""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import numpy as np
from schedules import corpora

import vijax as vi


def main() -> None:
    """A table."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("corpora", nargs="*", default=["ap"])
    p.add_argument("--topics", type=int, default=100)
    p.add_argument("--active", nargs="+", default=["8", "16", "32", "32:0.02"])
    p.add_argument("--passes", type=int, nargs="+", default=[1, 5, 10, 20])
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--no-dense", action="store_true")
    p.add_argument("--limit", type=int, default=10_000)
    a = p.parse_args()
    for name in a.corpora:
        train, test = corpora(name, a.limit)
        print(
            f"\n{name}: {train}; K = {a.topics}, batches of {a.batch}; after {a.passes} passes",
            flush=True,
        )
        model = vi.models.lda(a.topics, train.vocab_size, 0.1, 0.1, estep=vi.estep.cvb0())
        for given in ([] if a.no_dense else ["all"]) + a.active:
            alg = vi.topics.by_words(vi.ssvi_a(model), **choice(given))
            state, seconds, said = None, 0.0, []
            for passes in a.passes:
                begin = time.process_time()
                key = jax.random.key(0)
                fit = vi.fit(
                    alg, train, key=key, num_epochs=passes, batch_size=a.batch, state=state
                )
                state = jax.block_until_ready(fit.state)
                seconds += time.process_time() - begin
                said.append(
                    f"{fit.score(test, key=jax.random.key(1)).mean:.4f} ({seconds:.0f} CPU s)"
                )
            print(f"  {given} topics a document: {', '.join(said)}{at_the_end(fit)}", flush=True)


def choice(given: str) -> dict[str, Any]:
    """What `vijax.topics.by_words` is told."""
    if given == "all":
        return {}
    most, _, share = given.partition(":")
    return {"active": int(most), "left_out": float(share or 0)}


def at_the_end(fit: vi.Fit) -> str:
    """What the last steps left out, and how many topics their documents used."""
    if "left_out" not in fit.trace:
        return ""
    left, used = (np.mean(fit.trace[name][-5:]) for name in ("left_out", "active_topics"))
    return f"; at the end {left:.3f} left out, {used:.1f} topics"


if __name__ == "__main__":
    main()
