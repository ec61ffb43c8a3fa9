"""A step of `cavi` of mixtures of few components, their classes written out and not: CPU
milliseconds, in one process.

    python benchmarks/few_classes.py

100,000 rows of two columns. Both ways take turns; medians over seven turns of five steps. Figures
are in `results_speed.md`."""

from __future__ import annotations

import time

import jax
import numpy as np

import vijax as vi
from vijax.families.numeric import classes

ROWS, STEPS, TURNS = 100_000, 5, 7
EMISSIONS = {
    "full": vi.models.emission.full_gaussian,
    "diagonal": vi.models.emission.diagonal_gaussian,
}
WAYS = {"axis": 0, "written out": classes.FEW}


def compiled(kind: str, size: int, y, few: int):
    """A step that was traced with classes of up to `few` written out, and its state."""
    classes.FEW = few
    jax.clear_caches()
    alg = vi.cavi(vi.models.mixture(EMISSIONS[kind](size, 2)))
    state = vi.fit(alg, y, key=jax.random.key(0), num_steps=2).state
    return jax.jit(alg.step).lower(jax.random.key(1), state, y).compile(), state


def milliseconds(step, state, y) -> float:
    start = time.process_time()
    for _ in range(STEPS):
        state = step(jax.random.key(1), state, y)[0]
    jax.block_until_ready(state)
    return (time.process_time() - start) / STEPS * 1e3


def main() -> None:
    rng = np.random.default_rng(0)
    print("| covariances, components | " + " | ".join(WAYS) + " |\n|---|---|---|")
    for kind in EMISSIONS:
        for size in (2, 3, 5, 8):
            y = np.float32(
                rng.normal(size=(ROWS, 2))
                + 3.0 * rng.normal(size=(size, 2))[rng.integers(size, size=ROWS)]
            )
            steps = [compiled(kind, size, y, few) for few in WAYS.values()]
            taken = np.median([[milliseconds(*one, y) for one in steps] for _ in range(TURNS)], 0)
            print(
                f"| {kind}, {size} | " + " | ".join(f"{ms:.1f}" for ms in taken) + " |", flush=True
            )


if __name__ == "__main__":
    main()
