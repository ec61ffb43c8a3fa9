"""A finite approximation to a Dirichlet-process mixture of Bernoullis: who finds the components
(Hoffman and Blei 2015, section 4.2)?

    python benchmarks/quality/finite_dp.py --figure benchmarks/figures/finite_dp.svg

K = 100, alpha = 20, D = 100, N = 1000, full data at every step; 8 data sets, two and a half minutes
on one core. Prints the tables of benchmarks/results_finite_dp.md. A component is used when its
expected count, lambda_pi - alpha / K, is at least 1/2 (for collapsed Gibbs: when it has an
observation). KL(p_true || p_hat) at the posterior means, by 20,000 draws; the oracle is the
posterior mean given the true labels."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import vijax as vi
from vijax.data import synthetic
from vijax.models.emission import bernoulli

K, DIM, ALPHA = 100, 100, 20.0
EMISSION = bernoulli(K, DIM)
HOLD = vi.step_size.hold_then_decay(200)
SMALL = vi.step_size.robbins_monro(scale=0.3, kappa=0.5)


class Row(NamedTuple):
    used: int
    kl: float
    retractions: int


Method = Callable[[np.ndarray, jax.Array], Row]


def model(init: vi.init.Init) -> vi.Model:
    return vi.models.mixture(EMISSION, concentration=ALPHA / K, init=init)


NEAR = model(vi.init.near_symmetric())


def variational(*phases: tuple[vi.Algorithm, int]) -> tuple[Callable, tuple]:
    """Algorithms that go on from one another's state, each up to a number of steps; and how to
    judge the end."""
    return _fitted, phases


def _fitted(phases: tuple, truth: synthetic.MixtureTruth, y: np.ndarray, key: jax.Array) -> Row:
    state, retractions = None, 0
    for alg, stop in phases:
        fit = vi.fit(alg, y, num_steps=stop, key=key, state=state, throw=False)
        state, retractions = fit.state, retractions + int(fit.trace["retractions"].sum())
    counts = np.asarray(fit.posterior["weights"].concentration) - ALPHA / K
    means = fit.posterior["weights"].mean(), fit.posterior["components"].mean()
    return Row(int(np.sum(counts >= 0.5)), divergence(truth, *means), retractions)


def _collapsed(phases: tuple, truth: synthetic.MixtureTruth, y: np.ndarray, key: jax.Array) -> Row:
    run = vi.reference.collapsed_gibbs_mixture(
        EMISSION, y, concentration=ALPHA / K, num_sweeps=200, key=key
    )
    used = len(np.unique(np.asarray(run.labels[-1])))
    return Row(used, divergence(truth, run.weights.mean(), run.components.mean()), 0)


@dataclasses.dataclass(frozen=True)
class plain_v(vi.estimator.ssvi):
    """V undamped, also at step size 1: the letter of Algorithm 1, for the ablation."""

    damping: float = 1.0

    def place(self, key, q, prior, rho):
        return super().place(key, q, prior, 0.0)


def with_v(schedule: vi.step_size.Schedule, control_variate: bool = False) -> vi.Algorithm:
    return vi.whole(
        vi.compose(NEAR, estimator=plain_v(control_variate=control_variate), step_size=schedule)
    )


WARM = vi.whole(vi.ssvi_a(NEAR, step_size=HOLD))
METHODS = {
    "collapsed Gibbs, 200 sweeps": (_collapsed, ()),
    "SSVI-A": variational((WARM, 500)),
    "SSVI, damping 0.3 (default)": variational((vi.whole(vi.ssvi(NEAR, step_size=HOLD)), 500)),
    "SSVI, damping 1": variational((vi.whole(vi.ssvi(NEAR, step_size=HOLD, damping=1.0)), 500)),
    "MF, near-symmetric": variational((vi.cavi(NEAR), 500)),
    "MF, Dirichlet(1) responsibilities": variational(
        (vi.cavi(model(vi.init.random_responsibilities(1.0))), 500)
    ),
    "MF, Dirichlet(0.1) responsibilities": variational(
        (vi.cavi(model(vi.init.random_responsibilities(0.1))), 500)
    ),
    "MF, k-means++": variational((vi.cavi(model(vi.init.kmeans_plus_plus())), 500)),
}
ABLATION = {
    "V, rho = 1 then decay": variational((with_v(HOLD), 500)),
    "V and control variate, rho = 1 then decay": variational((with_v(HOLD, True), 500)),
    "V, 0.3 t^-0.5": variational((with_v(SMALL), 500)),
    "V and control variate, 0.3 t^-0.5": variational((with_v(SMALL, True), 500)),
    "SSVI-A, 0.3 t^-0.5": variational((vi.whole(vi.ssvi_a(NEAR, step_size=SMALL)), 500)),
    "SSVI-A 200 steps, then V": variational((WARM, 200), (with_v(HOLD), 500)),
    "SSVI-A 200 steps, then V and control variate": variational(
        (WARM, 200), (with_v(HOLD, True), 500)
    ),
}


def divergence(
    truth: synthetic.MixtureTruth, weights: np.ndarray, probabilities: np.ndarray
) -> float:
    """KL(p_true || p_hat), by 20,000 draws."""
    rng = np.random.default_rng(0)
    z = rng.choice(K, 20_000, p=truth.weights)
    y = (rng.uniform(size=(len(z), DIM)) < truth.probabilities[z]).astype(float)
    gap = log_density(y, truth.weights, truth.probabilities) - log_density(
        y, weights, probabilities
    )
    return float(np.mean(gap))


def log_density(y: np.ndarray, weights: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    weights, p = (
        np.asarray(weights, float),
        np.clip(np.asarray(probabilities, float), 1e-12, 1 - 1e-12),
    )
    each = y @ np.log(p).T + (1 - y) @ np.log1p(-p).T + np.log(np.maximum(weights, 1e-300))
    largest = each.max(axis=1)
    return largest + np.log(np.exp(each - largest[:, None]).sum(axis=1))


def oracle(truth: synthetic.MixtureTruth, y: np.ndarray) -> float:
    """KL at the posterior means given the true labels."""
    one_hot = np.eye(K)[truth.labels]
    counts = one_hot.sum(0)
    return divergence(
        truth, (counts + ALPHA / K) / (len(y) + ALPHA), (one_hot.T @ y + 1) / (counts[:, None] + 2)
    )


def table(methods: dict, data: list, true: list[int], best: list[float]) -> dict[str, list[Row]]:
    """Runs everything, printing a row of the table for each method."""
    rows = {}
    heads = (
        "method",
        "used / true, mean (range)",
        "largest abs(used - true)",
        "KL",
        "KL - oracle, mean (range)",
        "retractions",
    )
    print("|", " | ".join(heads), "|\n|", "---|" * len(heads), sep="")
    for name, (run, phases) in methods.items():
        found = [
            run(phases, truth, y, jax.random.key(seed)) for seed, (y, truth) in enumerate(data)
        ]
        ratio = np.array([r.used for r in found]) / true
        gap, kl = np.array([r.kl for r in found]) - best, np.mean([r.kl for r in found])
        worst = max(abs(r.used - t) for r, t in zip(found, true, strict=True))
        spread = lambda x: f"{x.mean():.2f} ({x.min():.2f} to {x.max():.2f})"
        lost = np.mean([r.retractions for r in found])
        print(
            f"| {name} | {spread(ratio)} | {worst} | {kl:.2f} | {spread(gap)} | {lost:,.0f} |",
            flush=True,
        )
        rows[name] = found
    return rows


def draw(rows: dict[str, list[Row]], true: list[int], best: list[float], path: str) -> None:
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    shown = (
        "collapsed Gibbs, 200 sweeps",
        "SSVI-A",
        "SSVI, damping 0.3 (default)",
        "MF, near-symmetric",
        "MF, k-means++",
    )
    for marker, name in zip("osd^v", shown, strict=True):
        left.plot(true, [r.used for r in rows[name]], marker, label=name, alpha=0.7)
        right.plot(best, [r.kl for r in rows[name]], marker, alpha=0.7)
    for axis, values, label in ((left, true, "components"), (right, best, "KL(true || fitted)")):
        ends = [min(values), max(values)]
        axis.plot(ends, ends, "k-", linewidth=0.8)
        axis.set_ylabel(f"{label}, found" if axis is left else label)
    left.set_xlabel("components that generated the data")
    right.set_xlabel("KL given the true labels")
    fig.legend(loc="outside lower center", ncols=3, fontsize=8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path)


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--sets", type=int, default=8, help="data sets")
    p.add_argument("--figure", help="where to write the figure")
    a = p.parse_args()
    data = [synthetic.bernoulli_mixture(1000, K, DIM, ALPHA, seed) for seed in range(a.sets)]
    true = [len(np.unique(truth.labels)) for _, truth in data]
    best = [oracle(truth, y) for y, truth in data]
    print(
        f"components that generated the data: {true}; KL of the oracle: "
        f"{np.round(best, 2).tolist()}\n"
    )
    rows = table(METHODS, data, true, best)
    print()
    table(ABLATION, data, true, best)
    if a.figure:
        draw(rows, true, best, a.figure)


if __name__ == "__main__":
    main()
