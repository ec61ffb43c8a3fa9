"""Baum-Welch on a long sequence: time per iteration beside hmmlearn's.

    python benchmarks/hmm.py [--steps 10000] [--states 20] [--dim 2]

A hidden Markov model with diagonal Gaussian emissions by EM, one core: ours in float32, hmmlearn's GaussianHMM
(float64, compiled loops) in both of its implementations. Medians of CPU seconds per iteration after the first, the
ratio in one run, and ours to the first step, compilation included.
"""

from __future__ import annotations

import argparse
import json
import logging
import time

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi


def sequence(steps: int, states: int, dim: int) -> np.ndarray:
    """A sticky chain whose states overlap."""
    rng = np.random.default_rng(0)
    stay, jumps = rng.uniform(size=steps) < 0.9, rng.integers(states, size=steps)
    z = np.zeros(steps, int)
    for t in range(1, steps):
        z[t] = z[t - 1] if stay[t] else jumps[t]
    centres = 3 * rng.normal(size=(states, dim))
    return (centres[z] + rng.normal(size=(steps, dim))).astype(np.float32)


def ours(y: np.ndarray, states: int, iterations: int) -> tuple[float, list[float], float]:
    alg = vi.em(vi.models.hmm(vi.models.emission.diagonal_gaussian(states, y.shape[1], shape=2.0)))
    data = jnp.asarray(y)[None], jnp.ones((1, len(y)), bool)
    state = alg.init(jax.random.key(0), data)
    step, times = jax.jit(alg.step), []
    for _ in range(iterations + 1):
        started = time.process_time()
        state, info = jax.block_until_ready(step(jax.random.key(0), state, data))
        times.append(time.process_time() - started)
    return times[0], times[1:], float(info.elbo)


def hmmlearn(y: np.ndarray, states: int, iterations: int, implementation: str) -> tuple[list[float], float]:
    from hmmlearn.hmm import GaussianHMM

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    model = GaussianHMM(states, n_iter=1, tol=-np.inf, implementation=implementation, random_state=0)
    model.fit(y.astype(np.float64))
    model.init_params, times = "", []
    for _ in range(iterations):
        started = time.process_time()
        model.fit(y.astype(np.float64))
        times.append(time.process_time() - started)
    return times, model.monitor_.history[-1]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--steps", type=int, default=10_000)
    p.add_argument("--states", type=int, default=20)
    p.add_argument("--dim", type=int, default=2)
    p.add_argument("--iterations", type=int, default=20)
    a = p.parse_args()
    y = sequence(a.steps, a.states, a.dim)
    first, later, elbo = ours(y, a.states, a.iterations)
    mine = float(np.median(later))
    row = {"method": "vijax", "cpu_s_per_iteration": round(mine, 4), "first_step_cpu_s": round(first, 2)}
    print(json.dumps({**row, "log_likelihood": round(elbo, 1)}), flush=True)
    for implementation in ("log", "scaling"):
        times, value = hmmlearn(y, a.states, a.iterations, implementation)
        peer = float(np.median(times))
        row = {"method": f"hmmlearn, {implementation}", "cpu_s_per_iteration": round(peer, 4)}
        print(json.dumps({**row, "log_likelihood": round(value, 1), "ratio": round(peer / mine, 2)}), flush=True)


if __name__ == "__main__":
    main()
