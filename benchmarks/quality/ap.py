"""Quality of LDA on the AP corpus: document completion by algorithm, E-step, eta and seed.

    python benchmarks/quality/ap.py --algorithm ssvi_a --estep gibbs --eta 0.1 0.01 --passes 15
    --seeds 0 1 2

Reads the AP corpus from the folder named by VIJAX_DATA. 10 % of the documents are held out, words
unseen in training dropped, alpha = 0.1, step sizes (t + 1)^-0.75; scores are nats per word of the
second half of each held-out document. One line of JSON per run goes to --out, beside the table on
the screen."""

from __future__ import annotations

import argparse
import json
import time

import jax
import numpy as np

import vijax as vi
from vijax import data

ESTEPS = {
    "mean_field": lambda a: vi.estep.mean_field(),
    "gibbs": lambda a: vi.estep.gibbs(num_sweeps=a.sweeps, burn_in=a.burn_in),
    "cvb0": lambda a: vi.estep.cvb0(),
}


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--corpus", default="ap")
    p.add_argument("--algorithm", default="ssvi_a", choices=["svi", "ssvi", "ssvi_a"])
    p.add_argument("--estep", default="gibbs", choices=sorted(ESTEPS))
    p.add_argument("--eta", type=float, nargs="+", default=[0.1])
    p.add_argument("--alpha", type=float, default=0.1)
    p.add_argument("--topics", type=int, default=100)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument(
        "--passes", type=int, nargs="+", default=[15], help="scores are taken after each of these"
    )
    p.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    p.add_argument("--kappa", type=float, default=0.75)
    p.add_argument("--offset", type=float, default=1.0)
    p.add_argument("--sweeps", type=int, default=5)
    p.add_argument("--burn-in", type=int, default=5)
    p.add_argument("--damping", type=float, default=None)
    p.add_argument("--no-control-variate", action="store_true")
    p.add_argument("--ramp", type=float, default=None)
    p.add_argument("--learn", nargs="*", default=[])
    p.add_argument(
        "--then-cavi",
        type=int,
        default=0,
        help="mean-field iterations on all documents from the solution",
    )
    p.add_argument("--out", default=None)
    return p.parse_args()


def algorithm(a: argparse.Namespace, model: vi.Model) -> vi.Algorithm:
    choices = {"estep": ESTEPS[a.estep](a), "learn": tuple(a.learn)}
    choices["step_size"] = vi.step_size.robbins_monro(offset=a.offset, kappa=a.kappa)
    if a.algorithm == "ssvi":
        choices |= {} if a.damping is None else {"damping": a.damping}
        choices |= {} if a.ramp is None else {"sweeps_of_ramp": a.ramp}
        choices["control_variate"] = not a.no_control_variate
    elif a.ramp:
        choices["ramp"] = vi.step_size.ramp(a.ramp)
    return getattr(vi, a.algorithm)(model, **choices)


def run(
    a: argparse.Namespace, eta: float, seed: int, train: data.Corpus, test: data.Corpus
) -> None:
    alg = algorithm(a, vi.models.lda(a.topics, train.vocab_size, alpha=a.alpha, eta=eta))
    state, spent, retractions, skipped = None, 0.0, 0, 0
    for passes in a.passes:
        started = time.process_time()
        fit = vi.fit(
            alg, train, key=jax.random.key(seed), num_epochs=passes, batch_size=a.batch, state=state
        )
        spent += time.process_time() - started
        state = fit.state
        retractions += int(fit.trace["retractions"].sum())
        skipped += int((fit.trace["result"] != 0).sum())
        score = fit.score(test, key=jax.random.key(1234))
        row = {
            "algorithm": a.algorithm,
            "estep": a.estep,
            "eta": eta,
            "seed": seed,
            "passes": passes,
            "completion": round(float(score.mean), 4),
            "se": round(float(score.standard_error), 4),
            "cpu_s": round(spent, 1),
            "retractions": retractions,
            "skipped": skipped,
            "settings": {
                k: v
                for k, v in vars(a).items()
                if k not in ("eta", "seeds", "passes", "out", "algorithm")
            },
        }
        if a.then_cavi and passes == a.passes[-1]:
            row |= polished(a, eta, state, train, test)
        if a.learn:
            row["hyper"] = {k: np.asarray(v).mean().round(4).item() for k, v in state.hyper.items()}
        print(" ".join(f"{k}={v}" for k, v in row.items() if k != "settings"), flush=True)
        if a.out:
            with open(a.out, "a") as file:
                file.write(json.dumps(row) + "\n")


def polished(
    a: argparse.Namespace, eta: float, state: vi.State, train: data.Corpus, test: data.Corpus
) -> dict:
    """Which local optimum of the mean-field ELBO the solution lies at (Hoffman and Blei 2015,
    Figure 3), by coordinate ascent."""
    alg = vi.cavi(
        vi.models.lda(a.topics, train.vocab_size, alpha=a.alpha, eta=eta),
        estep=vi.estep.mean_field(),
    )
    start = alg.init(jax.random.key(0))._replace(posterior=state.posterior)
    fit = vi.fit(
        alg, train, key=jax.random.key(0), num_steps=a.then_cavi, state=start, steps_per_chunk=5
    )
    score = fit.score(test, key=jax.random.key(1234))
    return {
        "cavi_elbo_per_word": round(float(fit.trace["elbo"][-1]) / train.num_tokens, 4),
        "cavi_completion": round(float(score.mean), 4),
    }


def main() -> None:
    a = arguments()
    corpus = data.load_bag_of_words(a.corpus)
    train, test = corpus.split(held_out=0.1, seed=0)
    seen = np.flatnonzero(train.word_counts())
    train, test = data.select_words(train, seen), data.select_words(test, seen)
    print(f"train {train}, test {test}", flush=True)
    for eta in a.eta:
        for seed in a.seeds:
            run(a, eta, seed, train, test)


if __name__ == "__main__":
    main()
