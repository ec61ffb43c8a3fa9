"""Growth of a sticky HDP-HMM beside restarts of `cavi`: ten sequences of 200 steps of five states.

    python benchmarks/growing_states.py
    python benchmarks/growing_states.py --one-place    # states that differ in spread and shape alone

The truncation is part of the model. So each fit that grew is also put into as many slots as it
uses, and settles there by `cavi`. CPU seconds have compilation in them. Held-out scores are of ten
other sequences, at the means of the globals."""

import argparse
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from growing import in_slots

import vijax as vi

STATES, STEPS, SEQUENCES, STAY = 5, 200, 10, 0.98


def sequences(seed: int = 0) -> np.ndarray:
    """Sequences of a chain that stays, with normal emissions in two columns; the means are of seed
    0."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(STATES, 2)) * 6
    rng = rng if seed == 0 else np.random.default_rng(seed)
    return np.stack([means[path_of(rng)] + rng.normal(size=(STEPS, 2)) for _ in range(SEQUENCES)])


def path_of(rng: np.random.Generator) -> list[int]:
    """The states of a sequence."""
    moves = np.full((STATES, STATES), (1 - STAY) / (STATES - 1))
    np.fill_diagonal(moves, STAY)
    path = [int(rng.integers(STATES))]
    for _ in range(STEPS - 1):
        path.append(int(rng.choice(STATES, p=moves[path[-1]])))
    return path


def in_one_place(seed: int) -> np.ndarray:
    """Sequences of states whose means are all zero: of covariances .09 I, I, 9 I and two long ones
    that cross."""
    rng, turn = np.random.default_rng(seed), np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    spreads = np.stack(
        [0.3 * np.eye(2), np.eye(2), 3.0 * np.eye(2), turn * [3.0, 0.3], turn * [0.3, 3.0]]
    )
    draw = lambda path: np.einsum("tij,tj->ti", spreads[path], rng.normal(size=(STEPS, 2)))
    return np.stack([draw(path_of(rng)) for _ in range(SEQUENCES)])


def make(k: int) -> vi.Model:
    """The model of k slots."""
    return vi.models.hdp_hmm(vi.models.emission.full_gaussian(k, 2), stickiness=10.0)


def held_out(found: Mapping[str, np.ndarray]) -> float:
    """Mean log density of a step of other sequences, by the forward recursion at these means."""
    y = sequences(1)
    from_mean = y[:, :, None] - found["mean"]
    spread = np.einsum("ntki,kij,ntkj->ntk", from_mean, found["precision"], from_mean)
    density = 0.5 * (
        np.linalg.slogdet(found["precision"])[1] - y.shape[-1] * np.log(2 * np.pi) - spread
    )
    with np.errstate(divide="ignore"):
        at, moves = np.log(found["initial"]) + density[:, 0], np.log(found["transition"])
    for t in range(1, y.shape[1]):
        at = np.logaddexp.reduce(at[:, :, None] + moves, axis=1) + density[:, t]
    return float(np.logaddexp.reduce(at, axis=1).mean() / y.shape[1])


def means_of(fit: vi.Fit) -> dict[str, np.ndarray]:
    """The means of a fit, as benchmarks/peers_growing.py writes them."""
    q, stats = fit.posterior, fit.posterior["components"].expected_stats()
    by_name = {
        "initial": q["initial"].mean(),
        "transition": q["transition"].mean(),
        "precision": stats.precision,
    }
    mean = np.linalg.solve(stats.precision, np.asarray(stats.precision_times_mean)[..., None])[
        ..., 0
    ]
    return {"mean": mean, **{name: np.asarray(x, np.float64) for name, x in by_name.items()}}


def best_of_ten(slots: int, data: Any) -> vi.Fit:
    """The best of ten restarts of `cavi`."""
    alg = vi.cavi(make(slots))
    run = lambda i: vi.fit(alg, data, num_steps=200, tol=1e-7, key=jax.random.key(i))
    return max(map(run, range(10)), key=lambda fit: fit.elbo)


def one_place(slots: int = 16) -> None:
    """Growth of states in one place, beside ten restarts of `cavi`, all in as many slots."""
    print("| data set | how | states in use | bound | CPU s |\n|---|---|---|---|---|")
    for seed in range(3):
        data = vi.models.pad(in_one_place(seed))
        for key, patience in ((0, 2), (1, 2), (2, 2), (0, 4)):
            begun = time.process_time()
            fit = vi.grow(
                make, data, key=jax.random.key(key), slots=slots, most=slots, patience=patience
            )
            found = (
                f"{fit.trace['in_use'][-1]} | {fit.elbo:,.1f} | {time.process_time() - begun:.0f}"
            )
            print(
                f"| {seed} | grow from K = 1, key {key}, `patience={patience}` | {found} |",
                flush=True,
            )
        begun = time.process_time()
        best = best_of_ten(slots, data)
        print(
            f"| {seed} | best of ten restarts | | {best.elbo:,.1f} | "
            f"{time.process_time() - begun:.0f} |",
            flush=True,
        )


def main() -> None:
    """Prints a line for each way."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--one-place",
        action="store_true",
        help="states that differ in spread and shape alone, and end",
    )
    p.add_argument(
        "--export",
        help="write the sequences to this file, for benchmarks/peers_growing.py, and end",
    )
    p.add_argument("--peers", nargs="*", default=[], help="score the files that it wrote, and end")
    a = p.parse_args()
    if a.one_place:
        return one_place()
    if a.export:
        return np.savez(a.export, train=sequences())
    if a.peers:
        for found in map(np.load, a.peers):
            used, score = int(np.sum(found["steps"] >= 0.5)), held_out(found)
            print(
                f"| bnpy from K = {found['start']} | | {used} | | | {score:.4f} | "
                f"{found['spent']:.0f} |"
            )
        return None
    data = vi.models.pad(sequences())
    columns = "how", "slots", "states in use", "bound", "in as many slots", "held-out", "CPU s"
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for start in (1, 50):
        begun = time.process_time()
        fit = vi.grow(make, data, key=jax.random.key(start > 1), start=start)
        spent, used = time.process_time() - begun, int(fit.trace["in_use"][-1])
        small = in_slots(make, data, fit, used)
        slots, score = fit.trace["slots"][-1], held_out(means_of(small))
        bounds = f"{fit.elbo:,.2f} | {small.elbo:,.2f}"
        print(
            f"| grow from K = {start} | {slots} | {used} | {bounds} | {score:.4f} | {spent:.0f} |",
            flush=True,
        )
    for slots in (8, STATES):
        begun = time.process_time()
        best = best_of_ten(slots, data)
        spent, score = time.process_time() - begun, held_out(means_of(best))
        bounds = f"{best.elbo:,.2f} | " if slots != STATES else f"| {best.elbo:,.2f}"
        print(
            f"| best of 10 restarts of cavi | {slots} | {slots} at most | {bounds} | {score:.4f} "
            f"| {spent:.0f} |"
        )
    return None


if __name__ == "__main__":
    main()
