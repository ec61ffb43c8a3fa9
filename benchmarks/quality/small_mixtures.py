"""Small experiments on mixtures, about claims of Blei, Kucukelbir and McAuliffe 2017, Pei 2019,
Hoffman and Blei 2015 (section 4.2) and a tutorial on the univariate mixture.

    python benchmarks/quality/small_mixtures.py [--only evidence ...] [--out
    benchmarks/results_small_mixtures.md]

Needs no data: everything is drawn here. Each experiment takes less than a minute of CPU time;
float64."""

from __future__ import annotations

import argparse
import itertools
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from printed import printed
from scipy import special, stats

import vijax as vi
from vijax.data import synthetic
from vijax.models import emission

KEY = jax.random.key(0)
WIDE = 100.0
"""Prior variance of the means."""


def univariate(k: int, known: bool = True, init: vi.init.Init | None = None) -> vi.Model:
    """The mixture of the review's sections 2 and 3: unit variances, weights 1 / K where they are
    known."""
    return vi.models.mixture(
        emission.unit_gaussian(k, 1, variance=WIDE), weights=1 / k if known else None, init=init
    )


def drawn(n: int, means: tuple[float, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (np.array(means)[rng.integers(len(means), size=n)] + rng.normal(size=n))[:, None]


def moments(fit: vi.Fit) -> tuple[np.ndarray, np.ndarray]:
    q = fit.posterior["components"]
    return np.asarray(q.mean())[:, 0], np.asarray(q.variance())[:, 0]


def text(words: str) -> list[str]:
    return textwrap.wrap(" ".join(words.split()), 120)


def row(*cells: object) -> str:
    return "| " + " | ".join(f"{c:.3f}" if isinstance(c, float) else str(c) for c in cells) + " |"


def head(*cells: str) -> Iterator[str]:
    yield from ("", row(*cells), "|" + "---|" * len(cells))


# --- the bound and the evidence -------------------------------------------------------------------
def log_evidence(y: np.ndarray, k: int) -> float:
    """By the sum over all K^n assignments (the review's eq. 9)."""
    n, terms = len(y), []
    for z in itertools.product(range(k), repeat=n):
        parts = [y[np.array(z) == j, 0] for j in range(k)]
        terms.append(
            sum(
                stats.multivariate_normal(np.zeros(len(p)), np.eye(len(p)) + WIDE).logpdf(p)
                for p in parts
                if len(p)
            )
        )
    return float(special.logsumexp(terms)) - n * np.log(k)


def as_printed(y: np.ndarray, m: np.ndarray, s2: np.ndarray) -> float:
    """The tutorial's ELBO by its letter: the expected log q of the means inside the sum over data,
    with a plus."""
    score = y * m - 0.5 * (m**2 + s2)
    phi = special.softmax(score, axis=1)
    log_prior = -0.5 * np.log(2 * np.pi * WIDE) - 0.5 * (m**2 + s2) / WIDE
    log_lik = -0.5 * np.log(2 * np.pi) - 0.5 * y**2 + score
    log_q = -0.5 * np.log(2 * np.pi * np.e * s2)
    return float(
        log_prior.sum()
        + np.sum(phi * (log_lik - np.log(len(m))))
        - np.sum(special.xlogy(phi, phi))
        + len(y) * log_q.sum()
    )


def evidence() -> Iterator[str]:
    yield from text("""
        Two components, prior variance 100; the evidence by the sum over all assignments, seconds with
        it; ELBO of `cavi`, the best of ten starts; the KL divergence that is between them; and the
        tutorial's formula for the ELBO by its letter.""")
    yield from head("n", "assignments", "s", "log evidence", "ELBO", "KL", "formula as printed")
    for n in (4, 8, 12):
        y, started = drawn(n, (-2.0, 2.0), 3), time.process_time()
        exact = log_evidence(y, 2)
        spent = time.process_time() - started
        fit = vi.fit(vi.cavi(univariate(2)), y, num_steps=100, restarts=10, key=KEY)
        bound = float(fit.trace["elbo"][-1])
        yield row(
            n, 2**n, f"{spent:.1f}", exact, bound, exact - bound, as_printed(y, *moments(fit))
        )


# --- spread and modes -----------------------------------------------------------------------------
def spread() -> Iterator[str]:
    yield from text("""
        60 points of a mixture of three (means -3, 0, 3): posterior standard deviations of the sorted
        means by `cavi`, Gibbs sampling (20,000 sweeps) and NUTS (labels summed out, 2 chains of 1,000 +
        2,000). Exchanges: times that the order of the means changes from one draw to the next.""")
    y, model = drawn(60, (-3.0, 0.0, 3.0), 0), univariate(3)
    yield from head("method", "sd of the means", "exchanges", "CPU s")
    for name in ("cavi, 10 starts", "Gibbs", "NUTS"):
        started = time.process_time()
        if name.startswith("cavi"):
            fit = vi.fit(vi.cavi(model), y, num_steps=100, restarts=10, key=KEY)
            m, s2 = moments(fit)
            sd, exchanges = np.sqrt(s2[np.argsort(m)]), ""
        else:
            if name == "Gibbs":
                draws = np.asarray(
                    vi.reference.gibbs(model, y, key=KEY, num_samples=20_000).globals["components"]
                )[None, ..., 0]
            else:
                chains = vi.reference.nuts(
                    model, y, key=KEY, num_samples=2000, warmup=1000, chains=2
                )
                draws = np.asarray(chains.globals["components"])[..., 0]
            order = np.argsort(draws, axis=-1)
            exchanges = str(np.sum(np.any(order[:, 1:] != order[:, :-1], axis=-1)))
            sd = np.sort(draws, axis=-1).reshape(-1, 3).std(0)
        yield row(
            name,
            ", ".join(f"{x:.3f}" for x in sd),
            exchanges,
            f"{time.process_time() - started:.1f}",
        )


# --- large samples --------------------------------------------------------------------------------
def consistency() -> Iterator[str]:
    yield from text("""
        Two overlapping components (means -1 and 1, weights known): the variational posterior mean
        beside the maximum likelihood estimate (`em`), and q's variances beside the inverse Fisher
        information; worst of the two means.""")
    yield from head(
        "n", "distance to the truth", "mean - MLE", "n (mean - MLE)", "variance of q / of the MLE"
    )
    for n in (100, 1_000, 10_000, 100_000):
        y = drawn(n, (-1.0, 1.0), 1)
        fits = [vi.fit(make(univariate(2)), y, num_steps=400, key=KEY) for make in (vi.cavi, vi.em)]
        m, s2 = moments(fits[0])
        best = np.sort(np.asarray(fits[1].posterior["components"].mean())[:, 0])
        log_lik = lambda mu, y=y: jnp.sum(jax.nn.logsumexp(-0.5 * (y - mu) ** 2, axis=1))
        variance = np.diag(np.linalg.inv(-np.asarray(jax.hessian(log_lik)(best))))
        gap = np.abs(np.sort(m) - best).max()
        yield row(
            n,
            np.abs(np.sort(m) - [-1, 1]).max(),
            f"{gap:.1e}",
            f"{n * gap:.2f}",
            float((s2[np.argsort(m)] / variance).max()),
        )


def criterion() -> Iterator[str]:
    yield from text("""
        Which K has the largest bound (best of five starts, 100 steps), of 20 data sets of 300 points
        from K = 3 (means 3 apart), weights unknown; and of the held-out log predictive density of 300
        others.""")
    sizes = (1, 2, 3, 4, 5)
    data = [
        (drawn(300, (-3.0, 0.0, 3.0), s), drawn(300, (-3.0, 0.0, 3.0), 100 + s)) for s in range(20)
    ]
    bound, held_out = np.zeros((2, len(sizes), len(data)))
    for i, k in enumerate(sizes):
        alg = vi.cavi(univariate(k, known=False))
        for j, (y, other) in enumerate(data):
            fit = vi.fit(alg, y, num_steps=100, restarts=5, key=KEY)
            bound[i, j], held_out[i, j] = fit.trace["elbo"][-1], fit.score(other, key=KEY).mean
    yield from head("chosen by", *(f"K = {k}" for k in sizes))
    for name, table in (("bound", bound), ("held-out density", held_out)):
        yield row(name, *np.bincount(table.argmax(0), minlength=len(sizes)))


def held_out() -> Iterator[str]:
    yield from text("""
        Steps of coordinate ascent that lose more than 1e-6 of a nat, of the bound and of the mean log predictive
        density of 1,000 other points. Ten data sets of 100 points from K = 3, means 3 apart, fitted with K = 4,
        weights unknown, 100 steps from random responsibilities.""")
    falls = np.zeros((10, 2))
    model = univariate(4, known=False, init=vi.init.random_responsibilities(1.0))
    alg = vi.cavi(model)
    step = jax.jit(alg.step)
    for seed in range(10):
        y, other = drawn(100, (-3.0, 0.0, 3.0), seed), drawn(1000, (-3.0, 0.0, 3.0), 100 + seed)
        state, curves = alg.init(jax.random.key(seed), y), []
        for t in range(100):
            density = model.queries["score"]({}, state.posterior, other, None).mean
            state, info = step(jax.random.fold_in(KEY, t), state, y)
            curves.append((float(info.elbo), float(density)))
        falls[seed] = np.sum(np.diff(np.array(curves), axis=0) < -1e-6, axis=0)
    yield from head("of", "steps that lost", "data sets with such a step")
    for i, name in enumerate(("bound", "held-out density")):
        yield row(name, int(falls[:, i].sum()), int(np.sum(falls[:, i] > 0)))


# --- the cost of a step ---------------------------------------------------------------------------
def cost() -> Iterator[str]:
    yield from text("""
        CPU milliseconds of a step, compiled, K = 5, median of 20: coordinate ascent on all n points,
        `svi` on 500 of them.""")
    yield from head("n", "`cavi`", "`svi`")
    for n in (1_000, 10_000, 100_000, 1_000_000):
        y, spent = jnp.asarray(drawn(n, (-6.0, -3.0, 0.0, 3.0, 6.0), 2)), []
        for alg, batch in (
            (vi.cavi(univariate(5)), y),
            (vi.svi(univariate(5), num_groups=n), y[:500]),
        ):
            step, state, seconds = jax.jit(alg.step), alg.init(KEY, batch), []
            for t in range(21):
                started = time.process_time()
                state, _ = jax.block_until_ready(step(jax.random.fold_in(KEY, t), state, batch))
                seconds.append(time.process_time() - started)
            spent.append(1e3 * np.median(seconds[1:]))
        yield row(n, *(f"{s:.2f}" for s in spent))


# --- EM -------------------------------------------------------------------------------------------
def em() -> Iterator[str]:
    yield from text("""
        EM of five Gaussians of full covariance in the plane, 300 points, 20 random starts, 200 steps;
        and of means alone with variance epsilon, from the start of Lloyd's k-means: points whose
        likeliest component is not their k-means cluster.""")
    rng = np.random.default_rng(4)
    y = rng.normal(scale=4.0, size=(5, 2))[rng.integers(5, size=300)] + rng.normal(size=(300, 2))
    model = vi.models.mixture(
        emission.full_gaussian(5, 2), init=vi.init.random_responsibilities(0.1)
    )
    ends = np.array(
        [
            vi.fit(vi.em(model), y, num_steps=200, key=jax.random.key(s), throw=False).trace["elbo"]
            for s in range(20)
        ]
    )
    yield from head("measured", "value")
    yield row("largest log likelihood", f"{ends[:, -1].max():.1f}")
    yield row("starts within 0.5 of it", int(np.sum(ends[:, -1] > ends[:, -1].max() - 0.5)))
    yield row("smallest log likelihood", f"{ends[:, -1].min():.1f}")
    yield row("steps that lost more than 1e-6", int(np.sum(np.diff(ends, axis=1) < -1e-6)))
    from sklearn.cluster import KMeans

    start = y[rng.choice(300, 5, replace=False)]
    lloyd = KMeans(5, init=start, n_init=1, max_iter=1000, tol=0).fit(y)
    for epsilon in (4.0, 1.0, 1e-2):
        alg = vi.em(vi.models.mixture(emission.unit_gaussian(5, 2), weights=1 / 5))
        begun = vi.Normal.from_mean_variance(start / np.sqrt(epsilon), np.ones((5, 2)))
        state = alg.init(KEY, y)._replace(posterior=vi.Product({"components": begun}))
        fit = vi.fit(alg, y / np.sqrt(epsilon), num_steps=300, state=state, key=KEY)
        labels = np.asarray(fit.locals(y / np.sqrt(epsilon), key=KEY)["z"].probs).argmax(1)
        yield row(
            f"not in their cluster, epsilon = {epsilon:g}", int(np.sum(labels != lloyd.labels_))
        )


# --- starts of a Dirichlet-process mixture --------------------------------------------------------
def starts() -> Iterator[str]:
    yield from text("""
        The mixture of Bernoullis of `finite_dp.py` (data set 1, float32), 500 steps from four starts:
        components used, expected count at least 1/2.""")
    y, truth = synthetic.bernoulli_mixture(seed=1)
    yield from head("start", "`cavi`", "`ssvi_a`", "true")
    made = {
        "near-symmetric": vi.init.near_symmetric(),
        "Dirichlet(1)": vi.init.random_responsibilities(1.0),
        "Dirichlet(0.1)": vi.init.random_responsibilities(0.1),
        "k-means++": vi.init.kmeans_plus_plus(),
    }
    for name, init in made.items():
        model, used = (
            vi.models.mixture(emission.bernoulli(100, 100), concentration=0.2, init=init),
            [],
        )
        hold = vi.step_size.hold_then_decay(200)
        for alg in (vi.cavi(model), vi.whole(vi.ssvi_a(model, step_size=hold))):
            fit = vi.fit(alg, y, num_steps=500, key=jax.random.key(1))
            used.append(
                int(np.sum(np.asarray(fit.posterior["weights"].concentration) - 0.2 >= 0.5))
            )
        yield row(name, *used, len(np.unique(truth.labels)))


EXPERIMENTS: dict[str, tuple[str, Callable[[], Iterator[str]], bool]] = {
    "evidence": ("The bound, the evidence and what is between them", evidence, True),
    "spread": ("Spread and modes", spread, True),
    "consistency": ("Large samples", consistency, True),
    "criterion": ("The bound as a criterion", criterion, True),
    "held_out": ("The held-out density along the way", held_out, True),
    "cost": ("The cost of a step", cost, True),
    "em": ("EM: local maxima, and k-means as its limit", em, True),
    "starts": ("Starts of a Dirichlet-process mixture", starts, False),
}


def page(names: list[str]) -> Iterator[str]:
    yield "# Small experiments on mixtures"
    yield ""
    yield from text("""
        `python benchmarks/quality/small_mixtures.py`; what each is about stands in [the
        claims](../docs/claims.md).""")
    for name in names:
        title, experiment, double = EXPERIMENTS[name]
        yield from ("", f"## {title}", "")
        with jax.enable_x64(double):
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
