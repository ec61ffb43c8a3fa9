"""What does it cost to write a mixture as an energy? Time per iteration beside a hand-written
bound, and scikit-learn.

    python benchmarks/energies.py [--n 10000] [--dim 64] [--components 30]

A Bayesian mixture of full-covariance Gaussians by coordinate ascent, one core, float32: the ready
model (an energy), the same with its local bound and E-step written by hand, and scikit-learn's
BayesianGaussianMixture (float64, its only precision up to 1.5; float32 after). Medians of CPU
seconds per iteration after the first, and the first step's time."""

from __future__ import annotations

import argparse
import json
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi


def hand_written(emission, weights: vi.Dirichlet) -> vi.Model:
    """The local bound log sum_k pi_k p(y | k), batched by hand: whose gradient is the M-step."""

    def local_elbo(s, y, key):
        c = s["components"]
        spread = (y[:, :, None] * y[:, None, :]).reshape(len(y), -1) @ c.precision.reshape(
            len(c.precision), -1
        ).T
        fit = y @ c.precision_times_mean.T - 0.5 * (
            spread + c.quadratic - c.log_det + y.shape[1] * jnp.log(2 * jnp.pi)
        )
        return jax.nn.logsumexp(s["weights"].log + fit, axis=1), None

    return vi.model(
        prior=vi.Product({"components": emission.prior, "weights": weights}), local_elbo=local_elbo
    )


def timed(step, state, y, steps: int) -> tuple[float, list[float]]:
    key, times = jax.random.key(0), []
    for _ in range(steps + 1):
        started = time.process_time()
        state, _ = jax.block_until_ready(step(key, state, y))
        times.append(time.process_time() - started)
    return times[0], times[1:]


def scikit_learn(y: np.ndarray, components: int, steps: int) -> float:
    from sklearn.mixture import BayesianGaussianMixture

    warnings.simplefilter("ignore")

    def run(iterations: int) -> float:
        peer = BayesianGaussianMixture(
            n_components=components, max_iter=iterations, tol=0.0, init_params="random_from_data", random_state=0,
            weight_concentration_prior_type="dirichlet_distribution",
        )  # fmt: skip
        started = time.process_time()
        peer.fit(y)
        return time.process_time() - started

    return (run(1 + steps) - run(1)) / steps


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--n", type=int, default=10_000)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--components", type=int, default=30)
    p.add_argument("--steps", type=int, default=10)
    a = p.parse_args()
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(a.components, a.dim)) * 3
    y = (centres[rng.integers(a.components, size=a.n)] + rng.normal(size=(a.n, a.dim))).astype(
        np.float32
    )
    emission = vi.models.emission.full_gaussian(a.components, a.dim)
    ready = vi.cavi(vi.models.mixture(emission))
    state = ready.init(jax.random.key(0), y)
    rows = {}
    by_hand = vi.cavi(hand_written(emission, ready.spec.model.prior({})["weights"]))
    for name, alg in (("energy", ready), ("hand-written", by_hand)):
        first, later = timed(jax.jit(alg.step), state, jnp.asarray(y), a.steps)
        rows[name] = float(np.median(later))
        row = {
            "method": name,
            "cpu_s_per_iteration": round(rows[name], 4),
            "first_step_cpu_s": round(first, 2),
        }
        print(json.dumps(row), flush=True)
    rows["sklearn"] = scikit_learn(y, a.components, a.steps)
    print(json.dumps({"method": "scikit-learn", "cpu_s_per_iteration": round(rows["sklearn"], 4)}))
    print(
        json.dumps(
            {
                "energy / hand-written": round(rows["energy"] / rows["hand-written"], 2),
                "sklearn / energy": round(rows["sklearn"] / rows["energy"], 2),
            }
        )
    )


if __name__ == "__main__":
    main()
