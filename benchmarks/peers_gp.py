"""Natural gradients for GP classification beside GPflow's: the same bound after the same steps, and
the time of a step.

    python benchmarks/peers_gp.py ours --out ours.json
    /path/to/gpflow/bin/python benchmarks/peers_gp.py gpflow --out gpflow.json    # an environment of its own: numpy < 2
    python benchmarks/peers_gp.py compare ours.json gpflow.json

Ionosphere (N = 280), the settings of quality/gp.py, full data, the same Gauss-Hermite points on
both sides, float64, one core, natural-gradient steps of size rho from the prior. GPflow: `VGP`
under `NaturalGradient(gamma=rho)`, its step compiled by `tf.function`. The derivatives differ on
the way: GPflow differentiates the quadrature, vijax integrates the derivatives; with enough points
both are those of the bound. CPU time of the process, the best of several runs of steps after
compilation."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

for name in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
):
    os.environ.setdefault(name, "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import numpy as np  # noqa: E402  (after the thread counts)

DATA = Path(os.environ.get("VIJAX_DATA", Path(__file__).parents[2] / "shared" / "data"))
LOG_LENGTH, LOG_SCALE, JITTER, POINTS = 1.0, 2.5, 1e-2, 100


def load() -> tuple[np.ndarray, np.ndarray]:
    data = np.load(DATA / "ionosphere.npz")
    return data["X_train"], data["y_train"]


def timed(steps: Callable[[int], None], count: int, repeats: int) -> float:
    """CPU milliseconds a step: the least of `repeats` runs."""
    best = np.inf
    for _ in range(repeats):
        began = time.process_time()
        steps(count)
        best = min(best, time.process_time() - began)
    return 1e3 * best / count


def ours(rho: float, steps: int, repeats: int) -> dict:
    import jax
    import jax.numpy as jnp

    import vijax as vi

    jax.config.update("jax_enable_x64", True)
    x, y = load()

    def kernel(a, b):  # type: ignore[no-untyped-def]
        distance = jnp.sum(a**2, 1)[:, None] + jnp.sum(b**2, 1)[None] - 2 * a @ b.T
        return np.exp(2 * LOG_SCALE) * jnp.exp(
            -jnp.maximum(distance, 0.0) / (2 * np.exp(2 * LOG_LENGTH))
        )

    expectation = vi.expectation.gauss_hermite(POINTS)
    model = vi.models.gp(
        x, y, kernel, vi.likelihood.bernoulli_logit(), jitter=JITTER, expectation=expectation
    )
    alg = vi.pg_svi(model, step_size=vi.step_size.constant(rho))
    step = jax.jit(lambda state: alg.step(jax.random.key(0), state, model.data))
    elbo, state = [], alg.init(jax.random.key(0))
    for _ in range(steps):
        state, info = step(state)
        elbo.append(float(info.elbo))

    def go(count: int) -> None:
        now = alg.init(jax.random.key(0))
        for _ in range(count):
            now, info = step(now)
        jax.block_until_ready((now, info))

    return {"name": f"vijax, jax {jax.__version__}", "elbo": elbo, "ms": timed(go, 100, repeats)}


def gpflow_side(rho: float, steps: int, repeats: int) -> dict:
    import gpflow
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    x, y = load()
    kernel = gpflow.kernels.SquaredExponential(
        variance=np.exp(2 * LOG_SCALE), lengthscales=np.exp(LOG_LENGTH)
    )
    kernel += gpflow.kernels.White(JITTER - gpflow.config.default_jitter())

    class Logit(gpflow.likelihoods.ScalarLikelihood):
        """Bernoulli(invlink=tf.sigmoid) takes the logarithm of a sigmoid that has underflowed, and
        gives NaN here."""

        def _scalar_log_prob(self, X, F, Y):  # type: ignore[no-untyped-def]
            return tf.math.log_sigmoid(Y * F)

        def _conditional_mean(self, X, F):  # type: ignore[no-untyped-def]
            return 2 * tf.sigmoid(F) - 1

        def _conditional_variance(self, X, F):  # type: ignore[no-untyped-def]
            return 1 - self._conditional_mean(X, F) ** 2

    likelihood = Logit()
    likelihood.quadrature = gpflow.quadrature.NDiagGHQuadrature(1, POINTS)
    model = gpflow.models.VGP((x, y[:, None]), kernel, likelihood)
    gpflow.set_trainable(model, False)
    gpflow.set_trainable(model.q_mu, True)
    gpflow.set_trainable(model.q_sqrt, True)
    natural = gpflow.optimizers.NaturalGradient(gamma=rho)
    start = model.q_mu.numpy(), model.q_sqrt.numpy()
    loss = model.training_loss

    @tf.function
    def step() -> tf.Tensor:
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        return model.q_mu[0, 0]

    elbo = []
    for _ in range(steps):
        elbo.append(float(model.elbo()))
        step()

    def go(count: int) -> None:
        model.q_mu.assign(start[0])
        model.q_sqrt.assign(start[1])
        for _ in range(count):
            step().numpy()

    return {
        "name": f"GPflow {gpflow.__version__}, TensorFlow {tf.__version__}",
        "elbo": elbo,
        "ms": timed(go, 100, repeats),
    }


def compare(paths: list[Path]) -> None:
    a, b = (json.loads(path.read_text()) for path in paths)
    gaps = np.abs(np.array(a["elbo"]) / np.array(b["elbo"]) - 1)
    first, gap = gaps[0], np.max(gaps)
    last = [f"{side['elbo'][-1]:.6f}" for side in (a, b)]
    print(
        f"{a['name']}: {a['ms']:.2f} CPU ms a step; {b['name']}: {b['ms']:.2f}; ratio "
        f"{b['ms'] / a['ms']:.1f}"
    )
    print(
        f"ELBO of {len(a['elbo'])} steps: first relative difference {first:.1e}, largest "
        f"{gap:.1e}; last {last}"
    )


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("side", choices=["ours", "gpflow", "compare"])
    p.add_argument("paths", nargs="*", type=Path)
    p.add_argument("--rho", type=float, default=0.5)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--out", type=Path, default=None)
    a = p.parse_args()
    if a.side == "compare":
        compare(a.paths)
        return
    result = (ours if a.side == "ours" else gpflow_side)(a.rho, a.steps, a.repeats)
    print(
        result["name"],
        f"{result['ms']:.2f} CPU ms a step, ELBO after {a.steps - 1} steps "
        f"{result['elbo'][-1]:.8f}",
    )
    if a.out:
        a.out.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
