"""Growth of a sticky HDP-HMM beside restarts of `cavi`: ten sequences of 200 steps of five states.

    python benchmarks/growing_states.py

The truncation is part of the model. So each fit that grew is also put into as many slots as it uses, and settles there
by `cavi`. CPU seconds have compilation in them.
"""

import time

import jax
import numpy as np
from growing import in_slots

import vijax as vi

STATES, STEPS, SEQUENCES, STAY = 5, 200, 10, 0.98


def sequences() -> tuple:
    """Sequences of a chain that stays, with normal emissions in two columns."""
    rng = np.random.default_rng(0)
    moves = np.full((STATES, STATES), (1 - STAY) / (STATES - 1))
    np.fill_diagonal(moves, STAY)
    means = rng.normal(size=(STATES, 2)) * 6
    found = []
    for _ in range(SEQUENCES):
        path = [rng.integers(STATES)]
        for _ in range(STEPS - 1):
            path.append(rng.choice(STATES, p=moves[path[-1]]))
        found.append(means[path] + rng.normal(size=(STEPS, 2)))
    return vi.models.pad(found)


def make(k: int) -> vi.Model:
    """The model of k slots."""
    return vi.models.hdp_hmm(vi.models.emission.full_gaussian(k, 2), stickiness=10.0)


def main() -> None:
    """Prints a line for each way."""
    data = sequences()
    print("| how | slots | states in use | bound | in as many slots | CPU s |\n|---|---|---|---|---|---|")
    for start in (1, 50):
        begun = time.process_time()
        fit = vi.grow(make, data, key=jax.random.key(start > 1), start=start)
        spent, used = time.process_time() - begun, int(fit.trace["in_use"][-1])
        small = in_slots(make, data, fit, used)
        slots = fit.trace["slots"][-1]
        print(f"| grow from K = {start} | {slots} | {used} | {fit.elbo:,.2f} | {small.elbo:,.2f} | {spent:.0f} |")
    for slots in (8, STATES):
        alg, begun = vi.cavi(make(slots)), time.process_time()
        run = lambda i, alg=alg: vi.fit(alg, data, num_steps=200, tol=1e-7, key=jax.random.key(i)).elbo
        best, spent = max(map(run, range(10))), time.process_time() - begun
        whole, few = (f"{best:,.2f}", "") if slots != STATES else ("", f"{best:,.2f}")
        print(f"| best of 10 restarts of cavi | {slots} | {slots} at most | {whole} | {few} | {spent:.0f} |")


if __name__ == "__main__":
    main()
