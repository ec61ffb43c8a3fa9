"""GP classification beside scikit-learn, GPflow and GPJax: from nothing, at N = 1,000, and with
inducing inputs.

    python benchmarks/peers_gp_size.py cold ours            # or sklearn: N = 200, import, fit and prediction
    python benchmarks/peers_gp_size.py fit ours             # or sklearn: N = 1,000, programs compiled before
    python benchmarks/peers_gp_size.py inducing ours --inducing 200     # or gpflow, gpjax: N = 20,000

One process for each line, one thread. Labels of a smooth function of two columns with noise; kernel
4 exp(-d^2 / 2), fixed; logistic likelihood. GPflow 2.9.2 and GPJax 1.0.0 want environments of their
own. `inducing` times a step on all data, and of a pass in minibatches of 200: natural gradients in
vijax and GPflow (`SVGP`, whitened, 20 Gauss-Hermite points), Adam on the whitened bound in GPJax.
CPU seconds; medians."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

for _name in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
):
    os.environ.setdefault(_name, "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import numpy as np  # noqa: E402  (after the thread counts)

BATCH = 200


def data(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    y = np.where(np.sin(2 * x[:, 0]) + x[:, 1] + 0.5 * rng.normal(size=n) > 0, 1, -1)
    return x, y, rng.normal(size=(100, 2))


def sklearn(n: int) -> Callable[[], Any]:
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    x, y, new = data(n)
    model = GaussianProcessClassifier(ConstantKernel(4.0) * RBF(1.0), optimizer=None)
    return lambda: model.fit(x, y).predict_proba(new)[:3, 1]


def ours(n: int) -> Callable[[], Any]:
    import jax

    import vijax as vi

    x, y, new = data(n)

    def fit() -> Any:
        hyper, lik = {"scale": 2.0, "length": 1.0}, vi.likelihood.bernoulli_logit()
        model = vi.models.gp(x, y, "rbf", lik, hyper=hyper, jitter=1e-4)
        found = vi.fit(vi.pg_svi(model), model.data, num_steps=STEPS, key=jax.random.key(0))
        return np.asarray(model.predictive(found.posterior, new, 1))[:3]

    return fit


STEPS = 8
"""The bound is then within 2e-4 nats of its limit, at N = 200 and at N = 1,000."""


def step_ours(n: int, m: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import jax

    import vijax as vi

    x, y, _ = data(n)
    hyper, lik = {"scale": 2.0, "length": 1.0}, vi.likelihood.bernoulli_logit()
    model = vi.models.gp(x, y, "rbf", lik, hyper=hyper, jitter=1e-3, inducing=x[:m])
    alg = vi.pg_svi(model, step_size=vi.step_size.constant(0.5))
    state, key = jax.jit(alg.init)(jax.random.key(0)), jax.random.key(0)
    step = jax.jit(lambda state: alg.step(key, state, model.data))
    parts = vi.pg_svi(model)
    run = lambda: (
        vi.fit(parts, model.data, num_steps=n // BATCH, batch_size=BATCH, key=key).posterior
    )
    return lambda: jax.block_until_ready(step(state)), lambda: jax.block_until_ready(run())


def step_gpflow(n: int, m: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import gpflow
    import tensorflow as tf

    gpflow.config.set_default_float(np.float32)
    gpflow.config.set_default_jitter(1e-3)
    x, y, _ = data(n)
    x, y = x.astype(np.float32), y[:, None].astype(np.float32)

    class Logit(gpflow.likelihoods.ScalarLikelihood):
        def _scalar_log_prob(self, X, F, Y):  # type: ignore[no-untyped-def]
            return tf.math.log_sigmoid(Y * F)

        def _conditional_mean(self, X, F):  # type: ignore[no-untyped-def]
            return 2 * tf.sigmoid(F) - 1

        def _conditional_variance(self, X, F):  # type: ignore[no-untyped-def]
            return 1 - self._conditional_mean(X, F) ** 2

    kernel = gpflow.kernels.SquaredExponential(variance=4.0, lengthscales=1.0)
    model = gpflow.models.SVGP(kernel, Logit(), x[:m].copy(), num_data=n)
    gpflow.set_trainable(model, False)
    gpflow.set_trainable(model.q_mu, True)
    gpflow.set_trainable(model.q_sqrt, True)
    natural = gpflow.optimizers.NaturalGradient(gamma=0.1)

    @tf.function
    def step(a: Any, b: Any) -> None:
        natural.minimize(lambda: model.training_loss((a, b)), [(model.q_mu, model.q_sqrt)])

    whole = tf.constant(x), tf.constant(y)
    parts = [
        (tf.constant(x[i : i + BATCH]), tf.constant(y[i : i + BATCH])) for i in range(0, n, BATCH)
    ]
    return lambda: step(*whole), lambda: [step(a, b) for a, b in parts]


def step_gpjax(n: int, m: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import equinox as eqx
    import gpjax as gpx
    import jax
    import optax

    x, y, _ = data(n)
    x, y = x.astype(np.float32), (y[:, None] > 0).astype(np.float32)
    kernel = gpx.kernels.RBF(lengthscale=1.0, variance=4.0)
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=kernel)
    q = gpx.variational_families.WhitenedVariationalGaussian(
        prior * gpx.likelihoods.Bernoulli(), x[:m]
    )
    params, rest = eqx.partition(q, eqx.is_inexact_array)
    adam = optax.adam(0.01)
    opt = adam.init(params)

    @jax.jit
    def step(params: Any, opt: Any, a: Any, b: Any) -> Any:
        loss = lambda p: (
            -gpx.objectives.elbo(eqx.combine(p, rest), gpx.Dataset(X=a, y=b, n_total=n))
        )
        moves, opt = adam.update(jax.grad(loss)(params), opt, params)
        return optax.apply_updates(params, moves), opt

    def a_pass() -> Any:
        at = params, opt
        for i in range(0, n, BATCH):
            at = step(*at, x[i : i + BATCH], y[i : i + BATCH])
        return jax.block_until_ready(at)

    return lambda: jax.block_until_ready(step(params, opt, x, y)), a_pass


def timed(function: Callable[[], Any], repeats: int) -> float:
    function()
    found = []
    for _ in range(repeats):
        began = time.process_time()
        function()
        found.append(time.process_time() - began)
    return statistics.median(found)


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("case", choices=["cold", "fit", "inducing"])
    p.add_argument("side", choices=["ours", "sklearn", "gpflow", "gpjax"])
    p.add_argument("--inducing", type=int, default=200)
    p.add_argument("--repeats", type=int, default=7)
    a = p.parse_args()
    if a.case == "cold":
        found = {"ours": ours, "sklearn": sklearn}[a.side](200)()
        print(f"{a.side}: {time.process_time():.2f} CPU s, probabilities {np.round(found, 3)}")
    elif a.case == "fit":
        print(
            f"{a.side}: {timed({'ours': ours, 'sklearn': sklearn}[a.side](1000), a.repeats):.2f} "
            "CPU s"
        )
    else:
        steps = {"ours": step_ours, "gpflow": step_gpflow, "gpjax": step_gpjax}[a.side](
            20_000, a.inducing
        )
        whole, a_pass = (timed(step, a.repeats) for step in steps)
        print(
            f"{a.side}: M = {a.inducing}: a step on all data {1e3 * whole:.1f} CPU ms, a pass "
            f"{1e3 * a_pass:.0f}"
        )


if __name__ == "__main__":
    main()
