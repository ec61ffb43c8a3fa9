"""How many passes `vijax.memoized` needs, beside coordinate ascent from the same start.

    python benchmarks/quality/memoized.py [--sets 8] [--points 20000] [--components 30] [--parts 40]

Mixtures of Gaussians with diagonal precisions, in eight dimensions, from seeds of k-means++ without
its rounds. Passes over the data until the bound is within 1e-4, relatively, of what coordinate
ascent reaches in the end (at most 400 passes), the first pass counted."""

from __future__ import annotations

import argparse

import jax
import numpy as np

import vijax as vi

DIM, SPREAD, NEAR = 8, 3.0, 1e-4


def points(number: int, components: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, SPREAD, (components, DIM))
    return (centres[rng.integers(components, size=number)] + rng.normal(size=(number, DIM))).astype(
        np.float32
    )


def passes(a: argparse.Namespace, seed: int) -> tuple[int, float, float, float]:
    """Of `cavi` and of `memoized` until they are near, and the bounds where both end."""
    y, key = points(a.points, a.components, seed), jax.random.key(2)
    emission = vi.models.emission.diagonal_gaussian(a.components, DIM)
    model = vi.models.mixture(
        emission, concentration=1.0, init=vi.init.kmeans_plus_plus(num_iters=0)
    )
    full = vi.fit(vi.cavi(model), y, num_steps=400, key=key, tol=1e-7).trace["elbo"]
    enough = full[-1] - NEAR * abs(full[-1])
    start = vi.fit(vi.cavi(model), y, num_steps=1, key=key).posterior
    alg = vi.memoized(model, a.parts)
    state = alg.init(key, vi.Minibatch(y[: a.points // a.parts], float(a.points)))._replace(
        posterior=start
    )
    needed = int(np.argmax(full >= enough))
    bound = vi.fit(alg, y, num_epochs=max(needed, 5), key=key, state=state).trace["elbo"]
    known = bound[a.parts :]  # during the first pass it is no bound yet
    near = np.flatnonzero(known >= enough)
    return needed, 1 + (near[0] + 1) / a.parts if len(near) else np.inf, full[-1], bound[-1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=8)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--components", type=int, default=30)
    parser.add_argument("--parts", type=int, default=40)
    a = parser.parse_args()
    print(
        "| data | `cavi`, passes | `memoized` | share | bounds in the end |\n|---|---|---|---|---|"
    )
    for seed in range(a.sets):
        full, parts, *ends = passes(a, seed)
        print(
            f"| {seed} | {full} | {parts:.1f} | {parts / full:.2f} | {ends[0]:.0f}, {ends[1]:.0f} "
            "|",
            flush=True,
        )


if __name__ == "__main__":
    main()
