"""A dot that goes to and fro in a tube, seen as noisy images (Johnson et al. 2016, section 5): what comes next.

    python benchmarks/bouncing_dot.py [--steps 1500] [--seed 0]

100 sequences of 50 images of 20 pixels, noise .05; 50 others for test, of which the first 25 images are given. The place
is a triangle wave of period 20, which no linear system of few dimensions makes, and which networks bend to one. Printed
for each method: root mean squared error of the expected image beside the one without noise, 1, 5 and 20 steps ahead;
the share of noisy pixels in 90 % intervals; error of smoothed images; CPU seconds of the fit, compilation included.
Beside `dynamic_svae`: a `vae` of the same networks, which knows no order, with the linear dynamical system fitted to its
latents afterwards, or with their last step repeated; the last image; and the mean of all images.
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi

PIXELS, NOISE, GIVEN, AHEAD, LATENT, HIDDEN = 20, 0.05, 25, 20, 4, 50
SHOWN = (1, 5, 20)


def images(number: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Images with and without noise, (number, 50, PIXELS)."""
    place = 0.15 + 0.7 * np.abs((rng.uniform(0, 2, (number, 1)) + 0.1 * np.arange(50)) % 2 - 1)
    clean = np.exp(-0.5 * ((np.linspace(0, 1, PIXELS) - place[..., None]) / 0.08) ** 2)
    return (clean + NOISE * rng.normal(size=clean.shape)).astype(np.float32), clean


def perceptron(key: Any, sizes: list[int]) -> Any:
    pairs = list(itertools.pairwise(sizes))
    keys = jax.random.split(key, len(pairs))
    return [(jax.random.normal(k, s) / np.sqrt(s[0]), jnp.zeros(s[1])) for k, s in zip(keys, pairs, strict=True)]


def network(layers: Any, h: Any) -> Any:
    for w, b in layers[:-1]:
        h = jnp.tanh(h @ w + b)
    return h @ layers[-1][0] + layers[-1][1]


def mean_and_log_sd(params: Any, y: Any) -> Any:
    mean, log_sd = jnp.split(network(params, y), 2)
    return mean, log_sd - 1.0


def networks(seed: int, latent_dim: int) -> Any:
    keys = jax.random.split(jax.random.key(seed), 2)
    encoder = perceptron(keys[0], [PIXELS, HIDDEN, 2 * latent_dim])
    return (mean_and_log_sd, encoder), (network, perceptron(keys[1], [latent_dim, HIDDEN, PIXELS]))


def dynamic(train: np.ndarray, given: Any, whole: Any, steps: int, seed: int, num_states: int, latent_dim: int) -> Any:
    encoder, decoder = networks(seed, latent_dim)
    observed = vi.models.observed.gaussian(sd=NOISE)
    model = vi.models.dynamic_svae(
        latent_dim, vi.models.as_potentials(encoder), decoder, observed, num_states, stickiness=5.0
    )
    alg = vi.aevb(model, learning_rate=0.01)
    fit = vi.fit(alg, vi.models.pad(train), num_steps=steps, batch_size=20, key=jax.random.key(seed))
    return fit.forecast(jax.random.key(1), 200, given, AHEAD), model.reconstruct(fit, whole), fit


def plain(train: np.ndarray, given: Any, whole: Any, steps: int, seed: int) -> Any:
    """A VAE; its latents by sequence, and its decoder."""
    encoder, decoder = networks(seed, LATENT)
    model = vi.models.vae(encoder, decoder, vi.models.observed.gaussian(sd=NOISE), latent_dim=LATENT)
    rows = train.reshape(-1, PIXELS)
    alg = vi.aevb(model, learning_rate=0.01)
    fit = vi.fit(alg, rows, num_steps=steps, batch_size=1000, key=jax.random.key(seed))
    latents = lambda y: np.asarray(fit.locals(y.reshape(-1, PIXELS), key=jax.random.key(0))["z"].mean()).reshape(
        *y.shape[:2], -1
    )
    decoded = jax.jit(jax.vmap(lambda z: network(fit.state.hyper["decoder"], z)))
    return latents, lambda z: np.asarray(decoded(z.reshape(-1, LATENT))).reshape(*z.shape[:-1], PIXELS)


def after_plain(latents: Any, decoded: Any, train: np.ndarray, given: Any) -> Any:
    """Draws by a linear dynamical system of the latents of a VAE."""
    model = vi.models.linear_gaussian_state_space(LATENT, LATENT, rate=0.01)
    fit = vi.fit(vi.cavi(model), vi.models.pad(latents(train)), num_steps=100, key=jax.random.key(0))
    z = np.asarray(fit.forecast(jax.random.key(1), 200, (latents(given[0]), given[1]), AHEAD))
    return decoded(z) + NOISE * np.random.default_rng(0).normal(size=(*z.shape[:-1], PIXELS))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--steps", type=int, default=1500)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    rng = np.random.default_rng(a.seed)
    (train, _), (test, clean) = images(100, rng), images(50, rng)
    given, whole = (test[:, :GIVEN], np.ones((50, GIVEN), bool)), (test, np.ones(test.shape[:2], bool))
    to_come, seen = clean[:, GIVEN : GIVEN + AHEAD], test[:, GIVEN : GIVEN + AHEAD]

    def row(name: str, expected: np.ndarray, draws: Any, smoothed: Any, seconds: float) -> None:
        error = lambda x, y: np.sqrt(np.mean((x - y) ** 2))
        errors = " | ".join(f"{error(expected[:, h - 1], to_come[:, h - 1]):.3f}" for h in SHOWN)
        inside = ""
        if draws is not None:
            low, high = np.quantile(draws, [0.05, 0.95], axis=0)
            inside = f"{np.mean((seen >= low) & (seen <= high)):.2f}"
        fits = "" if smoothed is None else f"{error(smoothed, clean):.3f}"
        print(f"| {name} | {errors} | {inside} | {fits} | {seconds:.0f} |", flush=True)

    print("| method | 1 ahead | 5 ahead | 20 ahead | in 90 % | smoothed | CPU s |\n|---|---|---|---|---|---|---|")
    row("the last image", np.repeat(test[:, GIVEN - 1 : GIVEN], AHEAD, 1), None, None, 0.0)
    row("the mean of all", np.broadcast_to(train.mean((0, 1)), to_come.shape), None, None, 0.0)
    begun = time.process_time()
    latents, decoded = plain(train, given, whole, a.steps, a.seed)
    middle = time.process_time()
    last = decoded(np.repeat(latents(test)[:, GIVEN - 1 : GIVEN], AHEAD, 1))
    row("`vae`, its last latents", last, None, decoded(latents(test)), middle - begun)
    draws = after_plain(latents, decoded, train, given)
    row("`vae`, then a linear system", draws.mean(0), draws, None, time.process_time() - begun)
    for name, states, width in (("`dynamic_svae`", 1, LATENT), ("`dynamic_svae`, two states", 2, LATENT)):
        begun = time.process_time()
        draws, smoothed, fit = map(lambda x: x, dynamic(train, given, whole, a.steps, a.seed, states, width))
        draws = np.asarray(draws)
        row(name, draws.mean(0), draws, np.asarray(smoothed), time.process_time() - begun)
        if states == 1:
            moves = np.asarray(fit.posterior["dynamics"].mean().coefficients[0])[:width].T + np.eye(width)
            print(np.linalg.eigvals(moves).round(3), flush=True)


if __name__ == "__main__":
    main()
