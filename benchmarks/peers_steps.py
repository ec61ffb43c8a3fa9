"""A step of a network and of a mean-field guide, beside hand-written flax and NumPyro's: CPU time,
each in a process.

    python benchmarks/peers_steps.py [--repeats 5]

Reads usps.npz and a1a.npz from the folder named by VIJAX_DATA. The sides take turns, so that other
work on the machine meets all of them; medians over the repeats of the medians of seven runs.
Figures are in `results_speed.md`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BATCH, LATENT, HIDDEN, NETWORK_STEPS, GUIDE_STEPS = 128, 50, 400, 228, 5000


def folder() -> Path:
    return Path(os.environ["VIJAX_DATA"])


def pixels() -> np.ndarray:
    with np.load(folder() / "usps.npz") as file:
        return (file["X_milli"] > 0).astype(np.float32)[~file["is_test"]]


def design() -> tuple[np.ndarray, np.ndarray]:
    with np.load(folder() / "a1a.npz") as file:
        x = file["X_train"].astype(np.float32)
        return np.c_[x, np.ones(len(x), np.float32)], (file["y_train"] > 0).astype(np.float32)


# --- an autoencoder -------------------------------------------------------------------------------
def flax_network() -> Callable[[], Any]:
    """A hand-written step, called from Python with the rows of each batch."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax

    class Autoencoder(nn.Module):
        @nn.compact
        def __call__(self, x: Any, key: Any) -> Any:
            code = nn.Dense(2 * LATENT)(jnp.tanh(nn.Dense(HIDDEN)(x)))
            mean, log_sd = code[:, :LATENT], code[:, LATENT:]
            z = mean + jnp.exp(log_sd) * jax.random.normal(key, mean.shape)
            logits = nn.Dense(256)(jnp.tanh(nn.Dense(HIDDEN)(z)))
            penalty = 0.5 * jnp.sum(mean**2 + jnp.exp(2 * log_sd) - 1 - 2 * log_sd, -1)
            return jnp.mean(penalty - jnp.sum(x * logits - jax.nn.softplus(logits), -1))

    x, net, optimizer, key = pixels(), Autoencoder(), optax.adam(1e-3), jax.random.key(3)
    weights = net.init(jax.random.key(0), x[:BATCH], key)
    kept = {"now": (weights, optimizer.init(weights))}

    @jax.jit
    def step(weights: Any, memory: Any, x: Any, key: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda w: net.apply(w, x, key))(weights)
        change, memory = optimizer.update(gradient, memory, weights)
        return (optax.apply_updates(weights, change), memory), loss

    def run() -> Any:
        order = np.random.default_rng(0).permutation(len(x))
        for t in range(NETWORK_STEPS):
            first = t % (len(x) // BATCH) * BATCH
            kept["now"], loss = step(
                *kept["now"], x[order[first : first + BATCH]], jax.random.fold_in(key, t)
            )
        return jax.block_until_ready(loss)

    return run


def vijax_network() -> Callable[[], Any]:
    import jax

    import vijax as vi
    from vijax.app.catalogue.parts.networks import Halves, Perceptron, first_layers

    net, x = Perceptron("tanh"), pixels()
    encoder = (
        Halves(net, lambda mean, log_sd: (mean, log_sd)),
        first_layers([256, HIDDEN, 2 * LATENT], (0, 0)),
    )
    decoder = net, first_layers([LATENT, HIDDEN, 256], (0, 1))
    model = vi.models.vae(encoder, decoder, vi.models.observed.bernoulli(), latent_dim=LATENT)
    alg = vi.aevb(model, learning_rate=1e-3)
    return lambda: vi.fit(alg, x, num_steps=NETWORK_STEPS, batch_size=BATCH, key=jax.random.key(0))


# --- logistic regression --------------------------------------------------------------------------
def numpyro_guide() -> Callable[[], Any]:
    """NumPyro's own update, in one compiled scan."""
    import jax
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import SVI, Trace_ELBO, autoguide
    from numpyro.optim import Adam

    x, y = design()

    def model() -> None:
        w = numpyro.sample("w", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x @ w).to_event(1), obs=y)

    svi = SVI(model, autoguide.AutoNormal(model), Adam(0.01), Trace_ELBO())
    state = svi.init(jax.random.key(0))
    scanned = jax.jit(
        lambda s: jax.lax.scan(lambda s, _: (svi.update(s)[0], None), s, None, length=GUIDE_STEPS)[
            0
        ]
    )
    return lambda: jax.block_until_ready(svi.get_params(scanned(state)))


def gradient_alone() -> Callable[[], Any]:
    """Gradient descent: two products with the data a step, which no method of gradients is
    without."""
    import jax
    import jax.numpy as jnp

    x, y = map(jnp.asarray, design())
    gradient = jax.grad(lambda w: jnp.sum(jax.nn.softplus(x @ w) - y * (x @ w)))
    step = lambda w, _: (w - 1e-4 * gradient(w), None)
    scanned = jax.jit(lambda w: jax.lax.scan(step, w, None, length=GUIDE_STEPS)[0])
    return lambda: jax.block_until_ready(scanned(jnp.zeros(x.shape[1])))


def regression() -> tuple[Any, dict[str, np.ndarray]]:
    import jax
    import jax.numpy as jnp
    from jax.scipy.stats import norm

    import vijax as vi

    x, y = design()
    model = vi.density(
        {"w": vi.free(x.shape[1])},
        log_prior=lambda v: jnp.sum(norm.logpdf(v["w"])),
        log_lik=lambda v, row: row["y"] * (row["x"] @ v["w"]) - jax.nn.softplus(row["x"] @ v["w"]),
    )
    return vi.advi(model), {"x": x, "y": y}


def vijax_scan() -> Callable[[], Any]:
    """`vijax.advi` in a scan of the user's own."""
    import jax
    import jax.numpy as jnp

    import vijax as vi

    alg, data = regression()
    batch, keys = (
        vi.Minibatch(jax.tree.map(jnp.asarray, data), None),
        jax.random.split(jax.random.key(1), GUIDE_STEPS),
    )
    scanned = jax.jit(
        lambda s, keys: jax.lax.scan(lambda s, k: (alg.step(k, s, batch)[0], None), s, keys)[0]
    )
    state = alg.init(jax.random.key(0))
    return lambda: jax.block_until_ready(scanned(state, keys))


def vijax_guide() -> Callable[[], Any]:
    import jax

    import vijax as vi

    alg, data = regression()
    return lambda: vi.fit(alg, data, num_steps=GUIDE_STEPS, key=jax.random.key(0))


SIDES: dict[str, tuple[Callable[[], Callable[[], Any]], bool, int]] = {
    "autoencoder, flax and optax": (flax_network, False, NETWORK_STEPS),
    "autoencoder, flax and optax, vijax imported": (flax_network, True, NETWORK_STEPS),
    "autoencoder, `vijax.fit`": (vijax_network, True, NETWORK_STEPS),
    "mean field, NumPyro": (numpyro_guide, False, GUIDE_STEPS),
    "mean field, NumPyro, vijax imported": (numpyro_guide, True, GUIDE_STEPS),
    "mean field, the gradient alone": (gradient_alone, False, GUIDE_STEPS),
    "mean field, `vijax.advi` in a scan": (vijax_scan, True, GUIDE_STEPS),
    "mean field, `vijax.fit`": (vijax_guide, True, GUIDE_STEPS),
}


def measured(name: str) -> float:
    """CPU microseconds a step, in this process: the median of seven runs after a first."""
    make, imports, steps = SIDES[name]
    if imports:
        import vijax  # noqa: F401
    run, spent = make(), []
    run()
    for _ in range(7):
        began = time.process_time()
        run()
        spent.append(1e6 * (time.process_time() - began) / steps)
    return float(np.median(spent))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.inside:
        print(measured(a.inside))
        return
    found: dict[str, list[float]] = {name: [] for name in SIDES}
    for _ in range(a.repeats):
        for name, each in found.items():
            command = [sys.executable, __file__, "--inside", name]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            each.append(float(done.stdout.split()[-1]))
    print("| a step | CPU µs, median | least to most |\n|---|---|---|")
    for name, each in found.items():
        print(f"| {name} | {np.median(each):,.0f} | {min(each):,.0f} to {max(each):,.0f} |")


if __name__ == "__main__":
    main()
