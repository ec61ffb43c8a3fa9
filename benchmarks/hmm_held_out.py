"""Hidden Markov models beside hmmlearn on unseen sequences: are these two algorithms, or two
starts?

    python benchmarks/hmm_held_out.py mocap6.npz [--states 8 16] [--seeds 0 1 2] [--by cavi
    --covariances diag]

The file is `bnpy/datasets/mocap6/dataset.npz` of github.com/bnpy/bnpy (X, doc_range). Two of six
sequences are left out, and all standardised by the others. Up to 100 iterations; nats a step of the
fitted and of the unseen sequences: of hmmlearn with its defaults, of vijax at means of its
posterior, of hmmlearn without a prior, begun where vijax ended."""

from __future__ import annotations

import argparse
import logging
from typing import Any

import jax
import numpy as np
from hmmlearn.hmm import GaussianHMM

import vijax as vi

UNSEEN = (4, 5), (2, 5), (0, 3)


def nats(model: Any, sequences: list[np.ndarray]) -> float:
    """Log likelihood a step."""
    return model.score(np.concatenate(sequences), [len(y) for y in sequences]) / sum(
        map(len, sequences)
    )


def fitted(model: Any, sequences: list[np.ndarray]) -> Any:
    """hmmlearn's model, fitted."""
    return model.fit(np.concatenate(sequences), [len(y) for y in sequences])


def as_theirs(fit: vi.Fit, num_states: int, kind: str) -> Any:
    """hmmlearn's model at the means of a fit, without priors."""
    found: dict[str, Any] = {name: q.mean() for name, q in fit.estimates.items()}
    mean, precision = (np.asarray(x, float) for x in tuple(found["components"])[:2])
    model = GaussianHMM(
        num_states, kind, n_iter=100, init_params="", covars_prior=0.0, covars_weight=0.0
    )
    model.startprob_, model.transmat_ = (
        np.asarray(found[name], float) for name in ("initial", "transition")
    )
    model.startprob_ /= model.startprob_.sum()
    model.transmat_ /= model.transmat_.sum(1, keepdims=True)
    cov = np.linalg.inv(precision) if kind == "full" else 1 / precision
    model.means_, model.covars_ = (
        mean,
        (cov + cov.transpose(0, 2, 1)) / 2 if kind == "full" else cov,
    )
    return model


def main() -> None:
    """Prints a table."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("file")
    p.add_argument("--states", type=int, nargs="*", default=[8, 16])
    p.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    p.add_argument("--by", choices=("em", "cavi"), default="em")
    p.add_argument("--covariances", choices=("full", "diag"), default="full")
    a = p.parse_args()
    kind, row = a.covariances, vi.em if a.by == "em" else vi.cavi
    emission = (
        vi.models.emission.full_gaussian if kind == "full" else vi.models.emission.diagonal_gaussian
    )
    logging.disable(logging.WARNING)
    file = np.load(a.file)
    every = np.split(file["X"], file["doc_range"][1:-1])
    print(
        "| unseen, states, seed | hmmlearn: fitted, unseen | vijax | hmmlearn begun there "
        "|\n|---|---|---|---|"
    )
    for states in a.states:
        for unseen in UNSEEN:
            train, test = (
                [y for i, y in enumerate(every) if (i in unseen) == kept] for kept in (False, True)
            )
            mean, sd = np.concatenate(train).mean(0), np.concatenate(train).std(0)
            train, test = ([(y - mean) / sd for y in part] for part in (train, test))
            for seed in a.seeds:
                model = vi.models.hmm(emission(states, mean.size))
                data = vi.models.pad([y.astype(np.float32) for y in train])
                fit = vi.fit(row(model), data, key=jax.random.key(seed), num_steps=100)
                theirs = fitted(GaussianHMM(states, kind, n_iter=100, random_state=seed), train)
                all_three = (
                    theirs,
                    as_theirs(fit, states, kind),
                    fitted(as_theirs(fit, states, kind), train),
                )
                cells = " | ".join(f"{nats(m, train):.2f}, {nats(m, test):.2f}" for m in all_three)
                print(
                    f"| {unseen[0] + 1} and {unseen[1] + 1}, {states}, {seed} | {cells} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
