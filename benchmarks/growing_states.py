"""Growth of a sticky HDP-HMM beside restarts of `cavi`: ten sequences of 200 steps of five states.

python benchmarks/growing_states.py
"""

import time

import jax
import numpy as np

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
    for start in (1, 50):
        begun = time.process_time()
        fit = vi.grow(make, data, key=jax.random.key(start > 1), start=start)
        used, slots = fit.trace["in_use"][-1], fit.trace["slots"][-1]
        print(
            f"grow from {start}: {used} in use, {slots} slots, {fit.elbo:.2f}, {time.process_time() - begun:.0f} CPU s"
        )
    for slots in (STATES, 8):
        alg, begun = vi.cavi(make(slots)), time.process_time()
        run = lambda i, alg=alg: vi.fit(alg, data, num_steps=200, tol=1e-7, key=jax.random.key(i)).elbo
        elbo = sorted(run(i) for i in range(10))
        print(f"cavi, {slots} slots: {elbo[0]:.2f} to {elbo[-1]:.2f}, {time.process_time() - begun:.0f} CPU s")


if __name__ == "__main__":
    main()
