"""LDA by SVI from the default start, by schedule, beside scikit-learn's online variational Bayes.

    python benchmarks/quality/schedules.py [ap bbc news20] [--topics 50] [--passes 10] [--limit
    5000] [--seed 0]

Document completion of a held-out tenth, nats per word, at equal priors (alpha = 0.1, eta = 0.01).
Reads the corpora in the folder named by VIJAX_DATA."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import vijax as vi
from vijax import data
from vijax.evaluate import document_completion

ALPHA, ETA = 0.1, 0.01
SCHEDULES = {
    "(t + 1)^-0.75": vi.step_size.robbins_monro(),
    "(t + 10)^-0.5": vi.step_size.robbins_monro(offset=10.0, kappa=0.5),
    "the default, (t + 10)^-0.6": None,
}


def corpora(name: str, limit: int) -> tuple[Any, Any]:
    """Training documents and a held-out tenth, over the words of the former."""
    corpus = data.load_bag_of_words(name)
    rows = np.random.default_rng(0).permutation(corpus.num_documents)[:limit]
    train, test = corpus[rows].split(held_out=0.1, seed=0)
    seen = np.flatnonzero(train.word_counts())
    return data.select_words(train, seen), data.select_words(test, seen)


def topics(a: argparse.Namespace, train: Any) -> Iterator[tuple[str, Any]]:
    """Of each method."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = vi.models.lda(a.topics, train.vocab_size, ALPHA, ETA)
    for name, schedule in SCHEDULES.items():
        alg = vi.svi(model, step_size=schedule)
        fit = vi.fit(alg, train, key=jax.random.key(a.seed), num_epochs=a.passes, batch_size=256)
        yield f"vijax, {name}", fit.posterior["topics"].mean()
    for size in (128, 256):
        online = LatentDirichletAllocation(
            a.topics,
            doc_topic_prior=ALPHA,
            topic_word_prior=ETA,
            learning_method="online",
            batch_size=size,
            max_iter=a.passes,
            random_state=a.seed,
        )
        yield f"scikit-learn, batches of {size}", online.fit(train.to_scipy()).components_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["ap", "bbc", "news20"])
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--limit", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    for name in a.names:
        train, test = corpora(name, a.limit)
        for method, weights in topics(a, train):
            rows = np.array(weights, np.float32)
            score = document_completion(
                rows / rows.sum(1, keepdims=True), ALPHA, test, jax.random.key(1)
            )
            print(f"{name}: {method}: {score.mean:.4f}", flush=True)


if __name__ == "__main__":
    main()
