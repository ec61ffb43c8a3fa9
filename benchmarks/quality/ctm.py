"""Quality of the correlated topic model: document completion by E-step, in training and at
identical parameters.

    python benchmarks/quality/ctm.py                                  # AP, K = 10, by proximal gradient and Laplace
    python benchmarks/quality/ctm.py --corpus nips --passes 12
    python benchmarks/quality/ctm.py --lbfgs 20                       # each document's bound beside L-BFGS on (m, L)

Reads the corpus from the folder named by VIJAX_DATA. Half of the documents are held out, and half
of the tokens of each of those is scored given the other half, nats per word, higher is better.
Topics are posterior modes at smoothing 1 (eta = 2), one step a pass over the training documents.
The scores at identical parameters are paired: same documents, same halves; the standard error is of
their difference. One line of JSON per result goes to --out."""

from __future__ import annotations

import argparse
import functools
import json
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from vijax import data
from vijax.evaluate import Score, gaussian_completion, unigram_score
from vijax.evaluate.score import ratio_estimate
from vijax.families import DirichletStats
from vijax.inference.estep import GaussianLocals, LogisticNormal
from vijax.inference.expectation import (
    blei_lafferty,
    bohning,
    delta_method,
    laplace,
    vector_monte_carlo,
)
from vijax.models.documents.likelihoods import likelihood_table

SLOW = {"max_iters": 300, "tol": 1e-4}  # of curvatures far from that of the bound
DRAWS = functools.partial(vector_monte_carlo, antithetic=True, matched=True)
ESTEPS = {
    "pg": lambda s: vi.estep.proximal_gradient(DRAWS(s)),
    "pg_slopes": lambda s: vi.estep.proximal_gradient(DRAWS(s, curvature="slopes")),
    "pg_refined": lambda s: vi.estep.proximal_gradient(DRAWS(4 * s), refine=16),
    "pg_diagonal": lambda s: vi.estep.proximal_gradient(DRAWS(s), "diagonal"),
    "laplace": lambda s: vi.estep.proximal_gradient(laplace()),
    "delta": lambda s: vi.estep.proximal_gradient(delta_method()),
    "blei_lafferty": lambda s: vi.estep.proximal_gradient(blei_lafferty(), "diagonal", **SLOW),
    "bohning": lambda s: vi.estep.proximal_gradient(bohning(), **SLOW),
}


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--corpus", default="ap")
    p.add_argument("--topics", type=int, default=10)
    p.add_argument(
        "--limit",
        type=int,
        default=None,
        help="training and held-out documents, at most this many each",
    )
    p.add_argument("--train", nargs="+", default=["pg", "laplace"], choices=sorted(ESTEPS))
    p.add_argument("--infer", nargs="+", default=sorted(ESTEPS), choices=sorted(ESTEPS))
    p.add_argument(
        "--passes",
        type=int,
        nargs="+",
        default=[12, 60],
        help="scores are taken after each of these",
    )
    p.add_argument(
        "--seeds", type=int, nargs="+", default=[0], help="of the split and of the start"
    )
    p.add_argument("--samples", type=int, default=64)
    p.add_argument(
        "--lbfgs", type=int, default=0, help="documents whose bound is compared with that of L-BFGS"
    )
    p.add_argument("--out", default=None)
    return p.parse_args()


def parameters(posterior: vi.Product) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Topics, mu and Sigma^-1 at their modes."""
    mode = posterior.mode()
    return mode["topics"], mode["logits"].mean, mode["logits"].precision


def report(out: str | None, row: dict[str, Any]) -> None:
    print(" ".join(f"{k}={v}" for k, v in row.items()), flush=True)
    if out:
        with open(out, "a") as file:
            file.write(json.dumps(row) + "\n")


def compare(a: argparse.Namespace, row: dict, posterior: vi.Product, test: data.Corpus) -> Score:
    """Every E-step's score at the same parameters, and its difference from that of proximal
    gradients."""
    scores = {}
    for name in ["pg", *(n for n in a.infer if n != "pg")]:
        score = gaussian_completion(
            *parameters(posterior), test, jax.random.key(1234), estep=ESTEPS[name](a.samples)
        )
        scores[name] = score
        mean, error = ratio_estimate(score.log_probs - scores["pg"].log_probs, score.num_tokens)
        more = {"infer": name, "score": round(score.mean, 4), "se": round(score.standard_error, 4)}
        report(
            a.out, row | more | {"minus_pg": round(mean, 5), "se_of_difference": round(error, 5)}
        )
    return scores["pg"]


def train(
    a: argparse.Namespace, name: str, seed: int, corpus: data.Corpus, test: data.Corpus
) -> tuple[Any, dict]:
    model = vi.models.ctm(a.topics, corpus.vocab_size, eta=2.0, num_samples=a.samples)
    alg = vi.map(model, estep=ESTEPS[name](a.samples))
    state, spent, scores = None, 0.0, {}
    for passes in a.passes:
        began = time.process_time()
        fit = vi.fit(
            alg, corpus, key=jax.random.key(seed), num_steps=passes, state=state, steps_per_chunk=4
        )
        spent += time.process_time() - began
        state = fit.state
        bound, halved = fit.trace["local_elbo"], int(fit.trace["retractions"][-1])
        row = {
            "corpus": a.corpus,
            "train": name,
            "seed": seed,
            "passes": passes,
            "cpu_s": round(spent, 1),
        }
        row |= {
            "bound_per_word": round(float(bound[-1]) / corpus.num_tokens, 4),
            "halvings": halved,
        }
        scores[passes] = compare(a, row, fit.posterior, test)
    return fit, scores


def against_lbfgs(a: argparse.Namespace, posterior: vi.Product, corpus: data.Corpus) -> None:
    """Bounds of single documents at fixed parameters, on draws that none of the methods has
    seen."""
    jax.config.update("jax_enable_x64", True)
    topics, mean, precision = (
        jnp.asarray(np.asarray(x), jnp.float64) for x in parameters(posterior)
    )
    fresh, own = (antithetic(seed, 4000, len(mean)) for seed in (7, 8))
    picked = np.random.default_rng(0).choice(corpus.num_documents, a.lbfgs, replace=False)
    problem = padded(corpus, picked, topics, mean, precision)

    def log_joint(z: jax.Array, rows: jax.Array, counts: jax.Array) -> jax.Array:
        likelihood = vi.likelihood.softmax_mixture().log_prob((rows, counts), z)
        return likelihood - 0.5 * (z - mean) @ precision @ (z - mean)

    @jax.jit
    def bound(rows: jax.Array, counts: jax.Array, m: jax.Array, factor: jax.Array) -> jax.Array:
        return vi.reference.gaussian_bound(lambda z: log_joint(z, rows, counts), m, factor, fresh)

    found = {name: infer(ESTEPS[name](a.samples), problem) for name in a.infer}
    gaps: dict[str, list[float]] = {name: [] for name in a.infer}
    for d, document in enumerate(zip(problem.likelihood, problem.counts, strict=True)):
        words = document[1] > 0
        alone = functools.partial(log_joint, rows=document[0][words], counts=document[1][words])
        q = vi.reference.gaussian_by_lbfgs(
            alone, mean, own, factor=np.linalg.cholesky(np.linalg.inv(precision))
        )
        best = float(bound(*document, *q))
        for name, (means, factors) in found.items():
            gaps[name].append(float(bound(*document, means[d], factors[d])) - best)
    for name, gap in gaps.items():
        stats = {"mean": np.mean(gap), "least": np.min(gap), "largest": np.max(gap)}
        short = {"below_by_a_tenth": int(np.sum(np.array(gap) < -0.1))}
        report(
            a.out,
            {"bound_minus_lbfgs": name, "documents": len(gap)}
            | {k: round(v, 3) for k, v in stats.items()}
            | short,
        )


def antithetic(seed: int, count: int, size: int) -> jax.Array:
    half = np.random.default_rng(seed).normal(size=(count // 2, size))
    return jnp.asarray(np.concatenate([half, -half]))


def padded(
    corpus: data.Corpus,
    picked: np.ndarray,
    topics: jax.Array,
    mean: jax.Array,
    precision: jax.Array,
) -> Any:
    """The documents side by side, as many slots as the longest has words."""
    table, _ = likelihood_table(DirichletStats(jnp.log(topics)))
    slots = np.diff(corpus.indptr)[picked]
    words, counts = np.zeros((2, len(picked), slots.max()))
    for i, (d, n) in enumerate(zip(picked, slots, strict=True)):
        words[i, :n] = corpus.indices[corpus.indptr[d] :][:n]
        counts[i, :n] = corpus.counts[corpus.indptr[d] :][:n]
    return LogisticNormal(
        table[words.astype(int)], jnp.asarray(counts), precision @ mean, precision
    )


def infer(estep: Any, problem: LogisticNormal) -> tuple[jax.Array, jax.Array]:
    """m and L of each document."""
    docs, (size, _) = len(problem.counts), problem.precision.shape
    start = GaussianLocals(
        jnp.zeros((docs, size)), jnp.zeros((docs, size, size)), jnp.zeros(docs, jnp.int32)
    )
    local = jax.jit(estep.logistic_normal)(problem, start, jax.random.key(0))
    return local.mean, jnp.linalg.cholesky(jnp.linalg.inv(problem.precision + local.site))


def main() -> None:
    a = arguments()
    corpus = data.load_bag_of_words(a.corpus)
    for seed in a.seeds:
        training, test = corpus.split(held_out=0.5, seed=seed)
        if a.limit:
            training, test = training[np.arange(a.limit)], test[np.arange(a.limit)]
        print(
            f"train {training}, test {test}, unigram "
            f"{unigram_score(training, test, smoothing=1.0)}",
            flush=True,
        )
        last: dict[int, Score] = {}
        for name in a.train:
            fit, scores = train(a, name, seed, training, test)
            for passes, score in scores.items() if last else ():
                mean, error = ratio_estimate(
                    score.log_probs - last[passes].log_probs, score.num_tokens
                )
                row = {
                    "trained_by": name,
                    "minus_trained_by": a.train[0],
                    "seed": seed,
                    "passes": passes,
                }
                report(a.out, row | {"difference": round(mean, 5), "se": round(error, 5)})
            last = last or scores
            if a.lbfgs:
                against_lbfgs(a, fit.posterior, test)


if __name__ == "__main__":
    main()
