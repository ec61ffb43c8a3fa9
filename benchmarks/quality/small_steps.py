"""Small experiments on divergences, steps and printed formulas: claims of Khan et al. 2016, Hoffman
and Blei 2015, Pei 2019 and Blei, Kucukelbir and McAuliffe 2017.

    python benchmarks/quality/small_steps.py [--only normals ...] [--out
    benchmarks/results_small_steps.md]

`sizes` reads Ionosphere from the folder named by VIJAX_DATA; the rest is drawn here. Each takes
less than a minute of CPU time; float64."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from gp import SETTINGS, load, make_model, run_proximal
from printed import printed
from scipy import special, stats
from small_mixtures import head, row, text

import vijax as vi
from vijax.inference.estimator.base import estimate

KEY = jax.random.key(0)


# --- distances of normals -------------------------------------------------------------------------
def normals() -> Iterator[str]:
    yield from text("""
        The two pairs of normals by which Euclidean distance is said to mislead, the second number read as a variance
        and as a standard deviation. Overlap: the area under both densities.""")
    yield from head("pair", "read as", "distance", "KL", "overlap")
    for scale, apart in ((10_000.0, 10.0), (0.01, 0.1)):
        for name, variance in (("variance", scale), ("sd", scale**2)):
            a, b = (vi.Normal.from_mean_variance(m, variance) for m in (0.0, apart))
            overlap = 2 * stats.norm.cdf(-apart / 2 / np.sqrt(variance))
            yield row(
                f"N(0, {scale:g}), N({apart:g}, {scale:g})",
                name,
                f"{apart:g}",
                f"{a.kl(b):.2g}",
                f"{overlap:.2g}",
            )


# --- step sizes and batches of PG-SVI -------------------------------------------------------------
def sizes() -> Iterator[str]:
    yield from text("""
        GP classification of Ionosphere (N = 280), relative gap of the exact ELBO, seeds 0, 1 and 2 (mean). Above: 1,120
        steps of the same constant beta = 0.0036 = 1/N, by batch size. Below: 40 passes in batches of 5 by schedule.""")
    x, y, *_ = load("ionosphere")
    model, best = make_model("ionosphere", x, y), SETTINGS["ionosphere"][3]
    n = len(y)

    def gap(step_size: vi.step_size.Schedule, passes: int, batch: int) -> np.ndarray:
        runs = [
            run_proximal(model, {"step_size": step_size}, True, passes, batch, seed)[0]
            for seed in range(3)
        ]
        return np.abs(np.array(runs) / best - 1).mean(0)

    yield from head("batch", "gap")
    for batch in (1, 5, 20, 70):
        yield row(batch, f"{gap(vi.step_size.proximal(1 / n), 4 * batch, batch)[-1]:.1e}")
    yield from head("step size", "gap after 5 passes", "10", "20", "40")
    schedules = {
        "constant, beta = 1/N": vi.step_size.proximal(1 / n),
        "constant, beta = 0.5/N": vi.step_size.proximal(0.5 / n),
        "2/N (1 + t / 560)^-0.5": vi.step_size.robbins_monro(
            scale=2 / n * 560**0.5, offset=560.0, kappa=0.5
        ),
        "2/N (1 + t / 56)^-0.75": vi.step_size.robbins_monro(
            scale=2 / n * 56**0.75, offset=56.0, kappa=0.75
        ),
    }
    for name, schedule in schedules.items():
        found = gap(schedule, 40, 5)
        yield row(name, *(f"{found[t]:.1e}" for t in (5, 10, 20, 40)))


# --- two estimators of a gradient -----------------------------------------------------------------
def noise() -> Iterator[str]:
    yield from text("""
        Standard deviation of one number of the message (natural gradient in a mean), 16 draws a message, of q = N(0, I)
        and log p(x) = -|x - 1|^2 / 2, whose message is 1, by the number of variables.""")
    yield from head("variables", "reparameterised", "score function")
    for dim in (1, 10, 100, 1000):
        q = vi.Product({"x": vi.Normal.from_mean_variance(jnp.zeros(dim), 1.0)})
        found = []
        for estimator in (vi.estimator.reparameterised(16), vi.estimator.score_function(16)):

            def one(
                key: jax.Array, estimator: vi.estimator.Estimator = estimator, q: vi.Product = q
            ) -> jax.Array:
                bound = lambda s: jnp.sum(s["x"].value - 0.5 * s["x"].square)
                rule, size = {"x": estimator}, jnp.asarray(0.0)
                message = estimate(rule, ["x"], key, q, q, size, lambda s, _: (bound(s), None), {})
                return message.natural["x"].precision_times_mean[0]

            found.append(float(jax.jit(jax.vmap(one))(jax.random.split(KEY, 500)).std()))
        yield row(dim, *(f"{sd:.2f}" for sd in found))


# --- regression: posterior means and the truth ----------------------------------------------------
def regression() -> Iterator[str]:
    yield from text("""
        Linear regression with relevance priors (`vi.models.ard_regression`, `cavi`), eight columns: distance of the
        posterior mean from the true coefficients, root mean square over ten data sets.""")
    yield from head("n", "distance", "distance sqrt(n)")
    w = np.array([2.0, -1.0, 0.5, 0.2, 0.0, 0.0, 0.0, 0.0])
    alg = vi.cavi(vi.models.ard_regression(8))
    for n in (50, 500, 5_000, 50_000):
        squares = []
        for seed in range(10):
            rng = np.random.default_rng(seed)
            x = rng.normal(size=(n, 8))
            fit = vi.fit(alg, (x, x @ w + rng.normal(size=n)), num_steps=50, key=KEY)
            squares.append(np.sum((np.asarray(fit.posterior["coefficients"].location) - w) ** 2))
        distance = float(np.sqrt(np.mean(squares)))
        yield row(n, f"{distance:.4f}", f"{distance * np.sqrt(n):.2f}")


# --- formulas as printed --------------------------------------------------------------------------
def formulas() -> Iterator[str]:
    yield from text("""
        Pei's formulas by their letter, beside a derivation: the M-step's covariance about the old mean; the forward
        recursion with the transposed transition matrix, whose sum over states of alpha times beta should be the same at
        every time; the pair posterior, whose times are those of one step later; the divergence of an autoencoder.""")
    yield from head("formula", "measured", "as printed", "derived")
    yield from (covariance(), *markov(), divergence())


def covariance() -> str:
    """The objective of the M-step, from old means that are off."""
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(-2, 1, (100, 2)), rng.normal(2, 1, (100, 2))])
    old, pi = np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([0.5, 0.5])
    density = lambda m, s: np.stack(
        [stats.multivariate_normal(m[k], s[k]).logpdf(y) for k in (0, 1)], 1
    )
    r = special.softmax(density(old, [np.eye(2)] * 2) + np.log(pi), axis=1)
    new = (r.T @ y) / r.sum(0)[:, None]

    def value(centre: np.ndarray) -> float:
        spread = [
            (r[:, k, None] * (y - centre[k])).T @ (y - centre[k]) / r[:, k].sum() for k in (0, 1)
        ]
        return float(np.sum(r * density(new, spread)))

    return row(
        "M-step covariance", "objective of the M-step", f"{value(old):.1f}", f"{value(new):.1f}"
    )


def markov() -> Iterator[str]:
    rng = np.random.default_rng(1)
    k, steps = 3, 5
    pi, xi, eta = (
        rng.dirichlet(np.ones(k)),
        rng.dirichlet(np.ones(k), k),
        rng.dirichlet(np.ones(4), k),
    )
    x = rng.integers(4, size=steps)
    paths = np.array(list(itertools.product(range(k), repeat=steps)))
    p = pi[paths[:, 0]] * np.prod(xi[paths[:, :-1], paths[:, 1:]], 1) * np.prod(eta[paths, x], 1)
    beta = [np.ones(k)]
    for t in range(steps - 1, 0, -1):
        beta.insert(0, xi @ (beta[0] * eta[:, x[t]]))
    off, alphas = [], []
    for move in (xi, xi.T):  # as printed, sum_l alpha_l xi_kl; derived, sum_l alpha_l xi_lk
        alpha = [eta[:, x[0]] * pi]
        for t in range(1, steps):
            alpha.append(eta[:, x[t]] * (move @ alpha[-1]))
        off.append(max(abs(a @ b / p.sum() - 1) for a, b in zip(alpha, beta, strict=True)))
        alphas.append(alpha)
    yield row(
        "forward recursion",
        "sum of alpha beta off p(x) by",
        *(f"{o:.1g}" if o > 1e-9 else "0" for o in off),
    )
    j = 2
    pair = alphas[1][j][:, None] * xi * (beta[j + 1] * eta[:, x[j + 1]])
    exact = lambda s: np.array(
        [[p[(paths[:, s] == a) & (paths[:, s + 1] == b)].sum() for b in range(k)] for a in range(k)]
    )
    wrong = [np.abs(pair - exact(s)).max() / p.sum() for s in (j - 1, j)]
    yield row("pair posterior", "largest error", *(f"{o:.1g}" if o > 1e-9 else "0" for o in wrong))


def divergence() -> str:
    rng = np.random.default_rng(2)
    mu, sigma = rng.normal(size=6), rng.gamma(2.0, 0.5, 6)
    printed_ = -(6 / 2 + np.log(sigma).sum() - 0.5 * np.sum(mu**2 + sigma**2))
    q, prior = (
        vi.Normal.from_mean_variance(mu, sigma**2),
        vi.Normal.from_mean_variance(np.zeros(6), 1.0),
    )
    return row(
        "divergence of an autoencoder",
        "nats, six variables",
        float(printed_),
        float(jnp.sum(q.kl(prior))),
    )


EXPERIMENTS: dict[str, tuple[str, Callable[[], Iterator[str]]]] = {
    "normals": ("Distances of normals", normals),
    "sizes": ("Step sizes and batches of PG-SVI", sizes),
    "noise": ("Noise of two estimators of the gradient", noise),
    "regression": ("Regression: posterior means and the truth", regression),
    "formulas": ("Formulas as printed", formulas),
}


def page(names: list[str]) -> Iterator[str]:
    yield "# Small experiments on steps and formulas"
    yield ""
    yield "`python benchmarks/quality/small_steps.py`; what each is about stands in [the claims](../docs/claims.md)."
    for name in names:
        title, experiment = EXPERIMENTS[name]
        yield from ("", f"## {title}", "")
        with jax.enable_x64(True):
            yield from experiment()


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--only", nargs="*", choices=list(EXPERIMENTS), default=list(EXPERIMENTS))
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    printed(page(a.only), a.out)


if __name__ == "__main__":
    main()
