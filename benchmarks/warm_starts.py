"""What warm starts of E-steps save: CPU seconds a pass, and the objective, of fits with and
without, side by side.

    python benchmarks/warm_starts.py [lda-mean-field lda-cvb0 lda-ssvi-a ctm factorial-hmm]
    [--passes 10] [--topics 50]

The corpus is the Associated Press in the folder named by VIJAX_DATA (`--corpus` takes another); the
HMMs are synthetic. Passes of both fits alternate in one process, and the first, which compiles, is
left out of the time."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import vijax as vi
from vijax import data

BATCH = 256


class Case(NamedTuple):
    """Attributes:
    alg: the algorithm, without warm starts.
    data: training data.
    score: fit -> number, larger is better.
    """

    alg: vi.Algorithm
    data: Any
    score: Callable[[Any], float]


def of_topics(
    a: argparse.Namespace, model: Callable[[int], Any], row: Callable, **choices: Any
) -> Case:
    """Held-out score, nats per word."""
    corpus = data.load_bag_of_words(a.corpus)
    train, test = corpus.split(held_out=0.1, seed=0)
    made = model(corpus.vocab_size)
    score = lambda fit: fit.score(test, key=jax.random.key(0)).mean
    return Case(row(made, **choices), train, score)


def lda(a: argparse.Namespace, row: Callable, estep: Any) -> Case:
    """LDA."""
    return of_topics(a, lambda size: vi.models.lda(a.topics, size, 0.1, 0.01), row, estep=estep)


def ctm(a: argparse.Namespace) -> Case:
    """Correlated topics, half as many."""
    return of_topics(a, lambda size: vi.models.ctm(a.topics // 2, size), vi.svi)


def factorial_hmm(a: argparse.Namespace) -> Case:
    """Three chains behind sequences of 30 numbers; the objective."""
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.uniform(size=(2000, 30, 3)) < 0.2, axis=1) % 2
    y = states @ np.array([1.0, 2.0, 4.0]) + 0.3 * rng.normal(size=(2000, 30))
    model = vi.models.factorial_hmm(1, 3, 2)
    data = y[..., None].astype(np.float32), np.ones(y.shape, bool)
    last = lambda fit: float(np.mean(fit.trace["elbo"][-20:])) / y.size
    return Case(vi.svi(model), data, last)


CASES: dict[str, Callable[[argparse.Namespace], Case]] = {
    "lda-mean-field": lambda a: lda(a, vi.svi, vi.estep.mean_field()),
    "lda-cvb0": lambda a: lda(a, vi.svi, vi.estep.cvb0()),
    "lda-ssvi-a": lambda a: lda(a, vi.ssvi_a, vi.estep.mean_field()),
    "ctm": ctm,
    "factorial-hmm": factorial_hmm,
}


def main() -> None:
    """Prints a line for each pass."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--corpus", default="ap")
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--passes", type=int, default=10)
    a = parser.parse_args()
    for name in a.cases:
        case = CASES[name](a)
        algs = {False: case.alg, True: vi.warm(case.alg)}
        fits: dict[bool, Any] = {False: None, True: None}
        print(
            f"{name}\n{'pass':>5} {'cold, s':>9} {'warm, s':>9} {'ratio':>6} {'cold':>10} "
            f"{'warm':>10}"
        )
        for epoch in range(1, a.passes + 1):
            seconds = {}
            for warm, alg in algs.items():
                begun = time.process_time()
                state = None if fits[warm] is None else fits[warm].state
                fits[warm] = vi.fit(
                    alg,
                    case.data,
                    key=jax.random.key(0),
                    num_epochs=epoch,
                    batch_size=BATCH,
                    state=state,
                )
                seconds[warm] = time.process_time() - begun
            scores = {warm: case.score(fit) for warm, fit in fits.items()}
            print(
                f"{epoch:5} {seconds[False]:9.2f} {seconds[True]:9.2f} "
                f"{seconds[False] / seconds[True]:6.2f} "
                f"{scores[False]:10.4f} {scores[True]:10.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
