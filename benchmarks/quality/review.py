"""The experiments of "Variational inference: a review for statisticians" (Blei, Kucukelbir and
McAuliffe 2017): Figures 1, 2, 3 and 6.

    python benchmarks/quality/review.py [--out benchmarks/figures] [--only correlated starts
    ellipses histograms nuts]

Needs no data: everything is drawn here. Figures go to --out, numbers to the screen as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import multivariate_normal

import vijax as vi
from vijax.models import emission

INK, SOFT, BLUE, VIOLET, GREEN = "#1b2330", "#9aa5b1", "#2a6fdb", "#7e57c2", "#1b998b"


def say(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def save(figure: Any, out: Path, name: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / f"{name}.png", bbox_inches="tight", dpi=90)
    plt.close(figure)


def ellipse(mean: np.ndarray, covariance: np.ndarray, radius: float = 2.0) -> np.ndarray:
    """The contour at `radius` standard deviations, (100, 2)."""
    angles = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    return mean + radius * (np.linalg.cholesky(covariance) @ circle).T


# --- Figure 1: mean field against a correlated Gaussian -------------------------------------------
def correlated(out: Path) -> None:
    """The best product of two normals for N(0, S): variances 1 / (S^-1)_dd, not S_dd."""
    covariance = np.array([[1.0, 0.9], [0.9, 1.0]])
    precision = jnp.asarray(np.linalg.inv(covariance))

    def log_density(s: Any) -> jax.Array:
        a, b = s["a"], s["b"]
        quadratic = (
            precision[0, 0] * a.square
            + 2 * precision[0, 1] * a.value * b.value
            + precision[1, 1] * b.square
        )
        return -0.5 * quadratic - np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(covariance)[1]

    far = vi.conditional(vi.Normal.from_mean_variance(2.0, 1.0))
    model = vi.energy_model(
        globals={"a": far, "b": far},
        energy=lambda s, y: 0.0 * y * s["a"].value,
        example=0.0,
        prior_energy=log_density,
    )
    fit = vi.fit(vi.cavi(model), jnp.zeros(1), num_steps=200, key=jax.random.key(0))
    q = fit.posterior
    mean, variance = (
        np.array([float(f(q[name])) for name in "ab"])
        for f in (lambda q: q.mean(), lambda q: q.variance())
    )
    say(
        figure=1, mean=mean.round(6).tolist(), variance=variance.round(6).tolist(),
        closed_form=(1 / np.diag(np.asarray(precision, float))).round(6).tolist(), 
        kl=round(-float(fit.trace["elbo"][-1]), 6), closed_form_kl=round(float(-0.5 * np.log(1 - 0.9**2)), 6),
    )  # fmt: skip
    figure, ax = plt.subplots(figsize=(4, 4))
    ax.plot(*ellipse(np.zeros(2), covariance).T, color=VIOLET, label="exact posterior")
    ax.plot(*ellipse(mean, np.diag(variance)).T, color=GREEN, label="mean field")
    ax.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
    ax.legend(frameon=False)
    save(figure, out, "review_1_mean_field")


# --- Figure 2: ten random starts ------------------------------------------------------------------
def traces(model: vi.Model, y: jax.Array, starts: int, steps: int) -> tuple[Any, np.ndarray]:
    """Final states and ELBO traces (starts, steps) of coordinate ascent: one program for all
    starts."""
    alg = vi.cavi(model)

    def run(key: jax.Array) -> tuple[Any, jax.Array]:
        def body(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            state, info = alg.step(key, state, y)
            return state, info.elbo

        return jax.lax.scan(body, alg.init(key, y), jax.random.split(key, steps))

    states, elbo = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), starts))
    return states, np.asarray(elbo)


def starts(out: Path) -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=5.0, size=(10, 2))
    y = jnp.asarray(centres[rng.integers(10, size=1000)] + rng.normal(size=(1000, 2)))
    model = vi.models.mixture(
        emission.unit_gaussian(10, 2), init=vi.init.random_responsibilities(0.1)
    )
    _, elbo = traces(model, y, starts=10, steps=100)
    drops = np.max((elbo[:, :-1] - elbo[:, 1:]) / np.abs(elbo[:, 1:]))
    say(
        figure=2, starts=10, final_elbo=elbo[:, -1].astype(float).round(2).tolist(),
        best_minus_worst=round(float(np.ptp(elbo[:, -1])), 2), largest_relative_drop=float(drops),
    )  # fmt: skip
    figure, ax = plt.subplots(figsize=(6, 3.5))
    ax.plot(np.arange(1, 101), elbo.T, linewidth=1.2)
    ax.set(
        xlabel="iteration",
        ylabel="ELBO",
        xscale="log",
        ylim=(np.quantile(elbo, 0.02), elbo.max() + 5),
    )
    save(figure, out, "review_2_starts")


# --- Figure 3: a mixture in two dimensions, its ellipses on the way -------------------------------
def gaussians(
    rng: np.random.Generator, n: int, means: np.ndarray, roots: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    z = rng.integers(len(means), size=n)
    return means[z] + np.einsum("nij,nj->ni", roots[z], rng.normal(size=(n, 2))), z


def ellipses(out: Path) -> None:
    rng = np.random.default_rng(3)
    means, roots = (
        rng.normal(scale=4.0, size=(5, 2)),
        np.tril(rng.normal(size=(5, 2, 2))) + 0.6 * np.eye(2),
    )
    (y, z), (held_out, _) = (gaussians(rng, n, means, roots) for n in (500, 500))
    model = vi.models.mixture(
        emission.full_gaussian(5, 2, strength=0.05), init=vi.init.random_responsibilities()
    )
    alg = vi.cavi(model)
    _, of_all = traces(model, jnp.asarray(y), starts=10, steps=120)
    best = jax.random.split(jax.random.key(0), 10)[of_all[:, -1].argmax()]
    step, state = jax.jit(alg.step), alg.init(best, y)
    elbo, predictive, posteriors = [], [], [state.posterior]
    for t in range(120):
        state, info = step(jax.random.key(t), state, y)
        elbo.append(float(info.elbo))
        posteriors.append(state.posterior)
        predictive.append(model.queries["score"]({}, state.posterior, held_out, None).mean)
    gains = np.diff(elbo)
    truth = np.log(
        np.mean(
            [
                multivariate_normal(m, r @ r.T).pdf(held_out)
                for m, r in zip(means, roots, strict=True)
            ],
            0,
        )
    )
    say(
        figure=3, final_elbo_of_all=of_all[:, -1].astype(float).round(1).tolist(),
        elbo=[round(elbo[0], 1), round(elbo[-1], 1)], smallest_gain=float(gains.min()),
        held_out=round(predictive[-1], 3), held_out_truth=round(float(truth.mean()), 3),
    )  # fmt: skip
    shown = [0, 5, 15, 30, 60, 120]
    figure, axes = plt.subplots(2, 4, figsize=(13, 6.2))
    for ax, t in zip(axes.ravel()[:6], shown, strict=True):
        ax.scatter(*y.T, c=z, s=3, cmap="Set2")
        components, weights = (
            posteriors[t]["components"],
            np.asarray(posteriors[t]["weights"].mean()),
        )
        location, precision = components.location, components.precision_law().mean()
        for k in range(5):
            contour = ellipse(
                np.asarray(location[k], float), np.linalg.inv(np.asarray(precision[k], float))
            )
            ax.plot(*contour.T, color=INK, alpha=0.25 + 0.75 * float(weights[k] > 0.02))
        ax.set(title=f"iteration {t}", xticks=[], yticks=[])
    for ax, values, label in (
        (axes[1, 2], elbo, "ELBO"),
        (axes[1, 3], predictive, "held-out log predictive"),
    ):
        ax.plot(np.arange(1, 121), values, color=BLUE)
        ax.set(title=label, xlabel="iteration")
    save(figure, out, "review_3_ellipses")


# --- Figure 6: the size of the image histograms ---------------------------------------------------
def histograms(rng: np.random.Generator, profiles: np.ndarray, n: int) -> np.ndarray:
    """n images' colour histograms, (n, 576): three channels of 192 bins; of each image 10,000
    pixels, drawn from the profile of its cluster, shifted a little and mixed with a share of grey
    that is its own."""
    z = rng.integers(len(profiles), size=n)
    shifted = np.stack(
        [
            np.roll(profiles[k], s, axis=-1)
            for k, s in zip(z, rng.integers(-6, 7, size=n), strict=True)
        ]
    )
    grey = rng.beta(1, 6, size=(n, 1, 1))
    p = (1 - grey) * shifted + grey / 192
    return np.stack([rng.multinomial(10_000, p[:, c]) for c in range(3)], 1).reshape(n, 576) / 100.0


def profiles(rng: np.random.Generator, k: int) -> np.ndarray:
    """Colour profiles of k clusters, (k, 3, 192): in each channel a mixture of three bumps."""
    bins = np.arange(192)
    centre, width = rng.uniform(0, 192, size=(k, 3, 3, 1)), rng.uniform(6, 30, size=(k, 3, 3, 1))
    bumps = np.exp(-0.5 * ((bins - centre) / width) ** 2) * rng.gamma(1.0, size=(k, 3, 3, 1))
    return bumps.sum(2) / bumps.sum((2, 3))[..., None]


def image_histograms(out: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = profiles(rng, 30)
    y, held_out = (histograms(rng, shapes, n) for n in (10_000, 1_000))
    mean, spread = y.mean(0), y.std(0) + 1e-3
    y, held_out = (((x - mean) / spread).astype(np.float32) for x in (y, held_out))
    curves = {}
    for name, make, steps, size in (("cavi", vi.cavi, 60, None), ("svi", vi.svi, 300, 500)):
        model = vi.models.mixture(emission.diagonal_gaussian(30, 576), concentration=1 / 30)
        seen, started = [], time.perf_counter()
        keep = lambda p: seen.append(
            (time.perf_counter() - started, jax.tree.map(np.asarray, p.state.posterior))
        )
        fit = vi.fit(
            make(model), y, num_steps=steps, batch_size=size, key=jax.random.key(0), callbacks=[keep],
            steps_per_chunk=steps // 6,
        )  # fmt: skip
        points = [
            (seconds, model.queries["score"]({}, q, held_out, None).mean) for seconds, q in seen
        ]
        curves[name] = points
        used = int((np.asarray(fit.posterior["weights"].mean()) > 1e-3).sum())
        say(
            figure=6, method=name, n=10_000, dim=576, components=30, steps=steps, seconds=round(points[-1][0], 1),
            held_out=round(points[-1][1], 2), used=used, curve=[(round(s, 1), round(v, 1)) for s, v in points],
        )  # fmt: skip
    figure, ax = plt.subplots(figsize=(5, 3.4))
    for name, points in curves.items():
        ax.plot(*np.array(points).T, marker="o", label=name.upper())
    ax.set(xlabel="seconds, compilation included", ylabel="held-out log predictive")
    ax.legend(frameon=False)
    save(figure, out, "review_6_histograms")


# --- Figure 6, scaled down: beside NUTS -----------------------------------------------------------
def beside_nuts(out: Path) -> None:
    """Held-out log predictive against seconds: coordinate ascent, and NUTS, labels summed out.
    Components may be exchanged, which the predictive density does not mind."""
    rng = np.random.default_rng(1)
    means = rng.normal(scale=3.0, size=(4, 5))
    y, held_out = (means[rng.integers(4, size=n)] + rng.normal(size=(n, 5)) for n in (300, 500))
    emitted = emission.diagonal_gaussian(4, 5)
    model = vi.models.mixture(emitted)
    points = []
    started = time.perf_counter()
    for steps in (5, 30):
        fit = vi.fit(vi.cavi(model), y, num_steps=steps, restarts=5, key=jax.random.key(0))
        jax.block_until_ready(fit.state)
        points.append(
            (
                time.perf_counter() - started,
                model.queries["score"]({}, fit.posterior, held_out, None).mean,
            )
        )
    q = fit.posterior
    say(
        figure="6, scaled down",
        method="cavi, 5 restarts",
        seconds=round(points[-1][0], 1),
        held_out=round(points[-1][1], 3),
    )

    @jax.jit
    @jax.vmap
    def densities(draw: Any) -> jax.Array:
        """log p(held-out rows | draw)."""
        stats, log_weights = q["components"].stats(draw["components"]), jnp.log(draw["weights"])
        return jax.vmap(lambda y: jax.nn.logsumexp(log_weights + emitted.log_likelihood(stats, y)))(
            jnp.asarray(held_out)
        )

    for warmup, draws in ((100, 50), (500, 500)):
        started = time.perf_counter()
        chains = vi.reference.nuts(
            model, y, key=jax.random.key(0), num_samples=draws, warmup=warmup, chains=2
        )
        jax.block_until_ready(chains.globals)
        seconds = time.perf_counter() - started
        flat = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:]),
            {n: chains.globals[n] for n in ("components", "weights")},
        )
        each = np.asarray(jax.nn.logsumexp(densities(flat), axis=0) - np.log(2 * draws))
        say(
            figure="6, scaled down", method=f"NUTS, 2 chains, {warmup} + {draws}", seconds=round(seconds, 1),
            held_out=round(float(each.mean()), 3), divergent=int(np.sum(np.asarray(chains.divergent))),
        )  # fmt: skip
    truth = np.log(np.mean([multivariate_normal(m, np.eye(5)).pdf(held_out) for m in means], 0))
    say(figure="6, scaled down", method="truth", held_out=round(float(truth.mean()), 3))


EXPERIMENTS: dict[str, Callable[[Path], None]] = {
    "correlated": correlated,
    "starts": starts,
    "ellipses": ellipses,
    "histograms": image_histograms,
    "nuts": beside_nuts,
}


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--out", type=Path, default=Path("benchmarks/figures"))
    p.add_argument("--only", nargs="*", choices=list(EXPERIMENTS), default=list(EXPERIMENTS))
    a = p.parse_args()
    for name in a.only:
        EXPERIMENTS[name](a.out)


if __name__ == "__main__":
    main()
