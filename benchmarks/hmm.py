"""Baum-Welch on a long sequence: time per iteration beside hmmlearn's.

    python benchmarks/hmm.py [--steps 10000] [--states 20] [--dim 2]

A hidden Markov model with diagonal Gaussian emissions by EM, one core: ours in float32, hmmlearn's
GaussianHMM (float64, compiled loops) in both of its implementations, "log" its default, from the
same start. Medians of CPU seconds per iteration after the first, the ratio in one run, and ours to
the first step, compilation included."""

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


def ours(y: np.ndarray, states: int, iterations: int) -> tuple[float, list[float], float, dict]:
    """Time of the first step and of later ones, the last log likelihood, and the parameters at the
    start."""
    model = vi.models.hmm(vi.models.emission.diagonal_gaussian(states, y.shape[1], shape=2.0))
    alg = vi.em(model, update=vi.update.kl())  # plain maximum likelihood, as the peer
    data = jnp.asarray(y)[None], jnp.ones((1, len(y)), bool)
    state = alg.init(jax.random.key(0), data)
    start = jax.tree.map(lambda x: np.asarray(x, np.float64), state.posterior.mode())
    step, times = jax.jit(alg.step), []
    for _ in range(iterations + 1):
        started = time.process_time()
        state, info = jax.block_until_ready(step(jax.random.key(0), state, data))
        times.append(time.process_time() - started)
    return times[0], times[1:], float(info.elbo), start


def hmmlearn(
    y: np.ndarray, states: int, iterations: int, implementation: str, start: dict
) -> tuple[list[float], float]:
    from hmmlearn.hmm import GaussianHMM

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    model = GaussianHMM(
        states,
        init_params="",
        n_iter=1,
        tol=-np.inf,
        min_covar=0.0,
        covars_prior=0.0,
        implementation=implementation,
    )
    model.startprob_ = start["initial"] / start["initial"].sum()
    model.transmat_ = start["transition"] / start["transition"].sum(1, keepdims=True)
    model.means_, model.covars_ = start["components"].mean, 1 / start["components"].precision
    y, times = y.astype(np.float64), []
    for _ in range(iterations + 1):
        started = time.process_time()
        model.fit(y)
        times.append(time.process_time() - started)
    return times[1:], model.monitor_.history[-1]


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--steps", type=int, default=10_000)
    p.add_argument("--states", type=int, default=20)
    p.add_argument("--dim", type=int, default=2)
    p.add_argument("--iterations", type=int, default=20)
    a = p.parse_args()
    y = sequence(a.steps, a.states, a.dim)
    first, later, elbo, start = ours(y, a.states, a.iterations)
    mine = float(np.median(later))
    row = {
        "method": "vijax",
        "cpu_s_per_iteration": round(mine, 4),
        "first_step_cpu_s": round(first, 2),
    }
    print(json.dumps({**row, "log_likelihood": round(elbo, 1)}), flush=True)
    for implementation in ("log", "scaling"):
        times, value = hmmlearn(y, a.states, a.iterations, implementation, start)
        peer = float(np.median(times))
        row = {"method": f"hmmlearn, {implementation}", "cpu_s_per_iteration": round(peer, 4)}
        print(
            json.dumps({**row, "log_likelihood": round(value, 1), "ratio": round(peer / mine, 2)}),
            flush=True,
        )


if __name__ == "__main__":
    main()
