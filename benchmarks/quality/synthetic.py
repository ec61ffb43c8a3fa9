"""Is structured SVI insensitive to eta? A large synthetic corpus with known topics (Hoffman and
Blei 2015, section 4.1, Figure 2).

    python benchmarks/quality/synthetic.py --documents 100000 --passes 2.5 --batch 500 --eta 0.1 1.0

Documents are drawn from LDA with K = 100, V = 8000, alpha = 0.1, topics from Dirichlet(0.05), 100
words each. Scores are document completion in nats per word on 1000 held-out documents; "truth" is
that of the topics that made the corpus."""

from __future__ import annotations

import argparse
import json
import time

import jax
import jax.numpy as jnp

import vijax as vi
from vijax import evaluate
from vijax.data import synthetic

METHODS = {
    "svi mean_field": ("svi", "mean_field"),
    "ssvi_a cvb0": ("ssvi_a", "cvb0"),
    "ssvi cvb0": ("ssvi", "cvb0"),
}


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--documents", type=int, default=100_000)
    p.add_argument("--length", type=float, default=100.0)
    p.add_argument("--topics", type=int, default=100)
    p.add_argument("--words", type=int, default=8000)
    p.add_argument("--true-eta", type=float, default=0.05)
    p.add_argument("--passes", type=float, default=2.5)
    p.add_argument("--batch", type=int, default=500)
    p.add_argument("--eta", type=float, nargs="+", default=[0.1, 1.0])
    p.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    p.add_argument("--out")
    a = p.parse_args()
    corpus, truth = synthetic.lda_corpus(
        a.documents + 1000,
        a.topics,
        a.words,
        document_length=a.length,
        alpha=0.1,
        eta=a.true_eta,
        seed=0,
    )
    train, test = corpus.split(held_out=1000, seed=0)
    best = evaluate.document_completion(
        jnp.asarray(truth.topics, jnp.float32), 0.1, test, jax.random.key(1)
    )
    print(json.dumps({"method": "truth", "completion": round(float(best.mean), 4)}), flush=True)
    for eta in a.eta:
        for name in a.methods:
            algorithm, estep = METHODS[name]
            model = vi.models.lda(a.topics, a.words, alpha=0.1, eta=eta)
            alg = getattr(vi, algorithm)(model, estep=getattr(vi.estep, estep)())
            started = time.process_time()
            fit = vi.fit(alg, train, key=jax.random.key(0), num_epochs=a.passes, batch_size=a.batch)
            row = {
                "method": name,
                "eta": eta,
                "updates": int(fit.state.step),
                "cpu_s": round(time.process_time() - started),
                "completion": round(float(fit.score(test, key=jax.random.key(1)).mean), 4),
                "retractions": int(fit.trace["retractions"].sum()),
            }  # fmt: skip
            print(json.dumps(row), flush=True)
            if a.out:
                with open(a.out, "a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
