"""Hidden Markov models beside hmmlearn on unseen sequences.

    python benchmarks/hmm_held_out.py mocap6.npz [--states 8 16] [--seeds 0 1 2] [--covariances full]
    python benchmarks/hmm_held_out.py simulated [--states 6]
    python benchmarks/hmm_held_out.py mocap6.npz --begun-there [--by cavi]

The file is `bnpy/datasets/mocap6/dataset.npz` of github.com/bnpy/bnpy (X, doc_range). Two of six
sequences are left out, and all standardised by the others. "simulated" are sticky chains of 4, 8
and 12 columns with 300 rows to fit, and 3,000 unseen ones. Up to 100 iterations; nats a step of the
unseen sequences, medians over seeds: of hmmlearn with its defaults, of `em` without and with its
shrinkage of covariances, of `map`, of `cavi`.

With --begun-there: are these two algorithms, or two starts? Nats a step of the fitted and of the
unseen sequences: of hmmlearn with its defaults, of plain `em` (or `cavi`) at its point, of hmmlearn
without a prior, begun where that ended."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from hmmlearn.hmm import GaussianHMM

import vijax as vi

UNSEEN = (4, 5), (2, 5), (0, 3), (1, 4)
EMISSIONS = {
    "full": vi.models.emission.full_gaussian,
    "diag": vi.models.emission.diagonal_gaussian,
}
Sequences = list[np.ndarray]


def nats(model: Any, sequences: Sequences) -> float:
    """Log likelihood a step."""
    steps = sum(map(len, sequences))
    return model.score(np.concatenate(sequences), [len(y) for y in sequences]) / steps


def fitted(model: Any, sequences: Sequences) -> Any:
    """hmmlearn's model, fitted."""
    return model.fit(np.concatenate(sequences), [len(y) for y in sequences])


def as_theirs(fit: vi.Fit, num_states: int, kind: str) -> Any:
    """hmmlearn's model at the means of a fit, without priors."""
    estimates: dict[str, Any] = {name: q.mean() for name, q in fit.estimates.items()}
    mean, precision = (np.asarray(x, float) for x in tuple(estimates["components"])[:2])
    model = GaussianHMM(
        num_states, kind, n_iter=100, init_params="", covars_prior=0.0, covars_weight=0.0
    )
    model.startprob_, model.transmat_ = (
        np.asarray(estimates[name], float) for name in ("initial", "transition")
    )
    model.startprob_ /= model.startprob_.sum()
    model.transmat_ /= model.transmat_.sum(1, keepdims=True)
    covariance = 1 / precision
    if kind == "full":
        covariance = np.linalg.inv(precision)
        covariance = (covariance + covariance.transpose(0, 2, 1)) / 2
    model.means_, model.covars_ = mean, covariance
    return model


# --- data -----------------------------------------------------------------------------------------
def splits(file: str, num_states: int) -> Iterator[tuple[str, Sequences, Sequences]]:
    """Each a name, sequences to fit and unseen ones, standardised by those to fit."""
    for name, train, test in _raw_splits(file, num_states):
        mean, spread = np.concatenate(train).mean(0), np.concatenate(train).std(0)
        yield name, *([(y - mean) / spread for y in part] for part in (train, test))


def _raw_splits(file: str, num_states: int) -> Iterator[tuple[str, Sequences, Sequences]]:
    if file == "simulated":
        for dim in (4, 8, 12):
            y = simulated(num_states, dim, np.random.default_rng(dim))
            yield f"{dim} columns", [y[:300]], [y[300:]]
        return
    arrays = np.load(file)
    every = np.split(arrays["X"], arrays["doc_range"][1:-1])
    for unseen in UNSEEN:
        train, test = (
            [y for i, y in enumerate(every) if (i in unseen) == is_test]
            for is_test in (False, True)
        )
        yield f"{unseen[0] + 1} and {unseen[1] + 1}", train, test


def simulated(num_states: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """A chain that stays at .9, whose states have correlated columns of their own."""
    means = 2 * rng.normal(size=(num_states, dim))
    roots = rng.normal(size=(num_states, dim, dim)) / np.sqrt(dim) + 0.5 * np.eye(dim)
    state, rows = 0, []
    for _ in range(3300):
        if rng.random() > 0.9:
            state = rng.integers(num_states)
        rows.append(means[state] + roots[state] @ rng.normal(size=dim))
    return np.array(rows)


# --- tables ---------------------------------------------------------------------------------------
def compare(a: argparse.Namespace) -> None:
    """A row for each split: medians over seeds of nats a step of unseen sequences."""
    print(
        "| unseen, states | hmmlearn | `em`, plain | `em` | `map` | `cavi` |\n|---|---|---|---|---|---|"
    )
    for states in a.states:
        for name, train, test in splits(a.file, states):
            model = vi.models.hmm(EMISSIONS[a.covariances](states, train[0].shape[1]))
            algorithms = (
                vi.em(model, update=vi.update.kl()),
                vi.em(model),
                vi.map(model),
                vi.cavi(model),
            )
            peers = [
                fitted(GaussianHMM(states, a.covariances, n_iter=100, random_state=seed), train)
                for seed in a.seeds
            ]
            values = [np.median([nats(peer, test) for peer in peers])]
            values += [np.median(scores(alg, train, test, a.seeds)) for alg in algorithms]
            cells = " | ".join(f"{value:.2f}" for value in values)
            print(f"| {name}, {states} | {cells} |", flush=True)


def scores(alg: Any, train: Sequences, test: Sequences, seeds: list[int]) -> list[float]:
    """Nats a step of unseen sequences, for each seed."""
    data, unseen = (vi.models.pad([y.astype(np.float32) for y in part]) for part in (train, test))
    fits = [
        vi.fit(alg, data, key=jax.random.key(seed), num_steps=100, throw=False) for seed in seeds
    ]
    return [float(fit.score(unseen, key=jax.random.key(0)).mean) for fit in fits]


def begun_there(a: argparse.Namespace) -> None:
    """A row for each seed: hmmlearn, ours, and hmmlearn begun where ours ended."""
    print(
        "| unseen, states, seed | hmmlearn: fitted, unseen | vijax | hmmlearn begun there "
        "|\n|---|---|---|---|"
    )
    kind = a.covariances
    for states in a.states:
        for name, train, test in splits(a.file, states):
            model = vi.models.hmm(EMISSIONS[kind](states, train[0].shape[1]))
            alg = vi.cavi(model) if a.by == "cavi" else vi.em(model, update=vi.update.kl())
            data = vi.models.pad([y.astype(np.float32) for y in train])
            for seed in a.seeds:
                fit = vi.fit(alg, data, key=jax.random.key(seed), num_steps=100)
                theirs = fitted(GaussianHMM(states, kind, n_iter=100, random_state=seed), train)
                all_three = (
                    theirs,
                    as_theirs(fit, states, kind),
                    fitted(as_theirs(fit, states, kind), train),
                )
                cells = " | ".join(f"{nats(m, train):.2f}, {nats(m, test):.2f}" for m in all_three)
                print(f"| {name}, {states}, {seed} | {cells} |", flush=True)


def main() -> None:
    """Prints a table."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("file")
    p.add_argument("--states", type=int, nargs="*", default=[8, 16])
    p.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    p.add_argument("--by", choices=("em", "cavi"), default="em")
    p.add_argument("--covariances", choices=tuple(EMISSIONS), default="full")
    p.add_argument("--begun-there", action="store_true")
    a = p.parse_args()
    logging.disable(logging.WARNING)
    if a.begun_there:
        begun_there(a)
    else:
        compare(a)


if __name__ == "__main__":
    main()
