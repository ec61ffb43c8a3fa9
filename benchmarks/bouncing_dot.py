"""A dot that goes to and fro in a tube, seen as noisy images (Johnson et al. 2016, section 5): what
comes next.

    python benchmarks/bouncing_dot.py [--steps 1500] [--seed 0] [--states 1]

100 sequences of 50 images of 20 pixels, noise .05; 50 others for test, of which the first 25 images
are given. The place is a triangle wave of period 20, which no linear system of few dimensions
makes, and which networks bend to one. Printed for each method: root mean squared error of the
expected image beside the one without noise, 1 and 5 steps ahead and over 20 steps; the share of
noisy pixels in 90 % intervals; error of smoothed images; CPU seconds of the fit, compilation
included. Beside `dynamic_svae`: the last image; the mean of all; the dot carried on at constant
velocity, from centres of mass of the last five images (told how it looks, not that it turns back);
and a `vae` of the same networks, which knows no order, with the last of its latents repeated, or
with a linear dynamical system fitted to them afterwards. The noise is learnt; of `dynamic_svae`
three starts are made, and the one of the highest bound is kept."""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi

PIXELS, NOISE, WIDTH, GIVEN, AHEAD, LATENT, HIDDEN = 20, 0.05, 0.08, 25, 20, 4, 50
RATE, STARTS = 0.01, 3


def images(number: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Images with and without noise, (number, 50, PIXELS)."""
    clean = dots(
        0.15 + 0.7 * np.abs((rng.uniform(0, 2, (number, 1)) + 0.1 * np.arange(50)) % 2 - 1)
    )
    return (clean + NOISE * rng.normal(size=clean.shape)).astype(np.float32), clean


def dots(place: np.ndarray) -> np.ndarray:
    """Images of a dot at these places."""
    return np.exp(-0.5 * ((np.linspace(0, 1, PIXELS) - place[..., None]) / WIDTH) ** 2)


def carried_on(given: np.ndarray) -> np.ndarray:
    """The dot at constant velocity, by the line through the centres of mass of the last five
    images."""
    bright = np.where(given[:, -5:] > 0.2, given[:, -5:], 0.0)
    centre = bright @ np.linspace(0, 1, PIXELS) / bright.sum(-1)
    slope, level = np.polyfit(np.arange(-4, 1), centre.T, 1)
    return dots(level[:, None] + slope[:, None] * np.arange(1, AHEAD + 1))


def perceptron(key: Any, sizes: list[int]) -> Any:
    pairs = list(itertools.pairwise(sizes))
    keys = jax.random.split(key, len(pairs))
    return [
        (jax.random.normal(k, s) / np.sqrt(s[0]), jnp.zeros(s[1]))
        for k, s in zip(keys, pairs, strict=True)
    ]


def network(layers: Any, h: Any) -> Any:
    for w, b in layers[:-1]:
        h = jnp.tanh(h @ w + b)
    return h @ layers[-1][0] + layers[-1][1]


def mean_and_log_sd(params: Any, y: Any) -> Any:
    mean, log_sd = jnp.split(network(params, y), 2)
    return mean, log_sd - 1.0


def with_noise(params: Any, z: Any) -> Any:
    layers, log_sd = params
    return network(layers, z), log_sd


def networks(seed: int) -> Any:
    keys = jax.random.split(jax.random.key(seed), 2)
    encoder = perceptron(keys[0], [PIXELS, HIDDEN, 2 * LATENT])
    decoder = perceptron(keys[1], [LATENT, HIDDEN, PIXELS]), jnp.log(0.3)
    return (mean_and_log_sd, encoder), (with_noise, decoder)


def dynamic(train: np.ndarray, steps: int, seed: int, num_states: int) -> Any:
    """The best fit of `dynamic_svae`."""

    def one(seed: int) -> Any:
        encoder, decoder = networks(seed)
        parts = vi.models.as_potentials(encoder), decoder, vi.models.observed.gaussian()
        alg = vi.aevb(
            vi.models.dynamic_svae(LATENT, *parts, num_states, stickiness=5.0), learning_rate=RATE
        )
        fit = vi.fit(
            alg, vi.models.pad(train), num_steps=steps, batch_size=20, key=jax.random.key(seed)
        )
        print(f"  start {seed}: bound {bound_of(fit):.0f}", flush=True)
        return fit

    return max(map(one, range(seed, seed + STARTS)), key=bound_of)


def bound_of(fit: Any) -> float:
    """The mean of the last bounds."""
    return float(np.mean(fit.trace["elbo"][-100:]))


def plain(train: np.ndarray, steps: int, seed: int) -> Any:
    """A VAE: the latents of sequences, and its decoder."""
    encoder, decoder = networks(seed)
    model = vi.models.vae(encoder, decoder, vi.models.observed.gaussian(), latent_dim=LATENT)
    rows, alg = train.reshape(-1, PIXELS), vi.aevb(model, learning_rate=RATE)
    fit = vi.fit(alg, rows, num_steps=steps, batch_size=1000, key=jax.random.key(seed))
    mean = lambda rows: np.asarray(fit.locals(rows, key=jax.random.key(0))["z"].mean())
    decoded = jax.jit(jax.vmap(lambda z: network(fit.state.hyper["decoder"][0], z)))
    return (
        lambda y: mean(y.reshape(-1, PIXELS)).reshape(*y.shape[:2], LATENT),
        lambda z: np.asarray(decoded(z.reshape(-1, LATENT))).reshape(*z.shape[:-1], PIXELS),
    )


def after_plain(latents: Any, decoded: Any, train: np.ndarray, given: Any) -> np.ndarray:
    """Draws by a linear dynamical system of the latents of a VAE."""
    model = vi.models.linear_gaussian_state_space(LATENT, LATENT, rate=0.01)
    fit = vi.fit(
        vi.cavi(model), vi.models.pad(latents(train)), num_steps=100, key=jax.random.key(0)
    )
    z = np.asarray(fit.forecast(jax.random.key(1), 200, (latents(given[0]), given[1]), AHEAD))
    return decoded(z) + NOISE * np.random.default_rng(0).normal(size=(*z.shape[:-1], PIXELS))


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--steps", type=int, default=1500)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--states", type=int, default=1, help="laws of motion of dynamic_svae")
    a = p.parse_args()
    rng = np.random.default_rng(a.seed)
    (train, _), (test, clean) = images(100, rng), images(50, rng)
    given, whole = (
        (test[:, :GIVEN], np.ones((50, GIVEN), bool)),
        (test, np.ones(test.shape[:2], bool)),
    )
    to_come, seen = clean[:, GIVEN : GIVEN + AHEAD], test[:, GIVEN : GIVEN + AHEAD]
    begun = time.process_time()

    def row(
        name: str,
        expected: np.ndarray,
        draws: Any = None,
        smoothed: Any = None,
        fitted: bool = True,
    ) -> None:
        error = lambda x, y: np.sqrt(np.mean((x - y) ** 2))
        parts = (slice(1), slice(4, 5), slice(AHEAD))
        errors = " | ".join(f"{error(expected[:, part], to_come[:, part]):.3f}" for part in parts)
        inside = ""
        if draws is not None:
            low, high = np.quantile(draws, [0.05, 0.95], axis=0)
            inside = f"{np.mean((seen >= low) & (seen <= high)):.2f}"
        fits = "" if smoothed is None else f"{error(smoothed, clean):.3f}"
        seconds = f"{time.process_time() - begun:.0f}" if fitted else ""
        print(f"| {name} | {errors} | {inside} | {fits} | {seconds} |", flush=True)

    print(
        "| method | 1 ahead | 5 ahead | 1 to 20 | in 90 % | smoothed | CPU s "
        "|\n|---|---|---|---|---|---|---|"
    )
    row("the last image", np.repeat(given[0][:, -1:], AHEAD, 1), fitted=False)
    row("the mean of all", np.broadcast_to(train.mean((0, 1)), to_come.shape), fitted=False)
    row("constant velocity", carried_on(given[0]), fitted=False)
    latents, decoded = plain(train, a.steps, a.seed)
    row(
        "`vae`, the last latents",
        decoded(np.repeat(latents(given[0])[:, -1:], AHEAD, 1)),
        None,
        decoded(latents(test)),
    )
    draws = after_plain(latents, decoded, train, given)
    row("`vae`, then a linear system", draws.mean(0), draws)
    begun = time.process_time()
    fit = dynamic(train, a.steps, a.seed, a.states)
    draws = np.asarray(fit.forecast(jax.random.key(1), 200, given, AHEAD))
    row(
        "`dynamic_svae`",
        draws.mean(0),
        draws,
        np.asarray(fit.alg.spec.model.reconstruct(fit, whole)),
    )
    for k, moves in enumerate(np.asarray(fit.posterior["dynamics"].mean().coefficients)):
        print(
            f"state {k}: eigenvalues",
            np.linalg.eigvals(moves[:LATENT].T + np.eye(LATENT)).round(3),
            flush=True,
        )


if __name__ == "__main__":
    main()
