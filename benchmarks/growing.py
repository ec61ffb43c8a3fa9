"""Mixtures of as many components as the data ask for: what `vijax.grow` finds, beside restarts of
`cavi`.

    python benchmarks/growing.py > benchmarks/results_growing.md

Prints the tables of benchmarks/results_growing.md. Bounds of different numbers of slots cannot be
compared, because the last stick of a truncated process takes all. So each fit is put into as many
slots as components are in use, or as are true, and goes on by `cavi` there. CPU seconds have
compilation in them."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from vijax.data import synthetic
from vijax.growing import laps
from vijax.growing.slots import slot_axes
from vijax.inference.step import initial_state
from vijax.models import emission

sys.path.insert(0, str(Path(__file__).parent / "quality"))

Make = Callable[[int], Any]


class Data(NamedTuple):
    name: str
    train: np.ndarray
    test: np.ndarray
    make: Make
    true: int | None


def star(seed: int, num: int = 2000) -> np.ndarray:
    """Eight long Gaussians, the spokes of a wheel (as AsteriskK8 of bnpy)."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * rng.integers(8, size=num) / 8
    along, across = 3 + rng.normal(size=num), 0.1 * rng.normal(size=num)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([cos * along - sin * across, sin * along + cos * across], 1)


def bars(seed: int, num: int = 2000) -> np.ndarray:
    """Pictures of 25 pixels with one of ten bars each: pixels of the bar are on with .9, the others
    with .1."""
    rng = np.random.default_rng(seed)
    shapes = np.concatenate(
        [np.kron(np.eye(5), np.ones((1, 5))), np.kron(np.ones((1, 5)), np.eye(5))]
    ).reshape(10, 25)
    return (rng.uniform(size=(num, 25)) < 0.1 + 0.8 * shapes[rng.integers(10, size=num)]).astype(
        float
    )


def digits() -> np.ndarray:
    """Handwritten digits of scikit-learn, 64 pixels, on from half of the greatest value."""
    from sklearn.datasets import load_digits

    x = (load_digits().data > 7).astype(float)
    return x[np.random.default_rng(0).permutation(len(x))]


def faithful() -> np.ndarray | None:
    """Eruptions of Old Faithful, standardised; None where they are not at hand."""
    path = Path(os.environ.get("VIJAX_DATA", ".")) / "faithful.npz"
    if not path.exists():
        return None
    x = np.load(path)["X"]
    return np.random.default_rng(0).permutation((x - x.mean(0)) / x.std(0))


def data_sets() -> list[Data]:
    gaussians = lambda k: vi.models.dp_mixture(emission.full_gaussian(k, 2))
    bernoullis = lambda dim: lambda k: vi.models.dp_mixture(emission.bernoulli(k, dim))
    x, eruptions = digits(), faithful()
    return [
        Data("star of 8 Gaussians", star(0), star(1), gaussians, 8),
        Data("10 bars", bars(0), bars(1), bernoullis(25), 10),
        Data("digits", x[:1500], x[1500:], bernoullis(64), None),
        *(
            [Data("faithful", eruptions[:200], eruptions[200:], gaussians, 2)]
            if eruptions is not None
            else []
        ),
    ]


def in_slots(make: Make, train: Any, fit: vi.Fit, number: int) -> vi.Fit:
    """The fit in so many slots, the largest components first, settled by `cavi`."""
    q, num_slots = fit.posterior, int(fit.trace["slots"][-1])
    priors = [vi.cavi(make(k)).spec.model for k in (num_slots, number)]
    old, new = (m.prior({name: jnp.asarray(x) for name, x in m.hyper.items()}) for m in priors)
    alg = vi.cavi(make(number))
    if number != num_slots:
        q = laps.map_slots(slot_axes(old, new), q, old, jnp.eye(number, num_slots), new)
    hyper = {name: jnp.asarray(x) for name, x in alg.spec.model.hyper.items()}
    state = initial_state(alg.spec, hyper, q)
    return vi.fit(alg, train, state=state, num_steps=500, tol=1e-7, key=jax.random.key(0))


def table_of_mixtures(keys: int, only: str) -> None:
    print("| data | how | components in use | bound | in as many slots | held-out | laps | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    for data in (data for data in data_sets() if only in data.name):
        found = {}
        for start in (1, 50):
            for key in range(keys):
                began = time.process_time()
                fit = vi.grow(data.make, data.train, start=start, key=jax.random.key(key))
                spent, used = time.process_time() - began, int(fit.trace["in_use"][-1])
                small = in_slots(data.make, data.train, fit, used)
                found[used] = max(found.get(used, -np.inf), float(small.elbo))
                row(data, f"grow from K = {start}, key {key}", used, small, spent, fit)
        for number in sorted({*found, *([] if data.true is None else [data.true])}):
            began = time.process_time()
            best = vi.fit(
                vi.cavi(data.make(number)),
                data.train,
                restarts=10,
                num_steps=500,
                tol=1e-7,
                key=jax.random.key(0),
            )
            row(data, "best of ten restarts of cavi", number, best, time.process_time() - began)


def row(
    data: Data, how: str, used: int, fit: vi.Fit, spent: float, grown: vi.Fit | None = None
) -> None:
    score = fit.score(data.test, key=jax.random.key(0)).mean
    whole = "" if grown is None else f"{grown.elbo:,.1f}"
    steps = "" if grown is None else int(grown.trace["step"][-1])
    print(
        f"| {data.name} | {how} | {used} | {whole} | {fit.elbo:,.1f} | {score:.3f} | {steps} | "
        f"{spent:.0f} |",
        flush=True,
    )


def table_of_chains() -> None:
    """Five sequences of 400 steps of a chain of five states, in which it stays with .95."""
    rng, means = np.random.default_rng(0), np.array([[0, 0], [4, 0], [0, 4], [4, 4], [2, 2]])
    table = np.full((5, 5), 0.0125) + 0.9375 * np.eye(5)
    sequences = []
    for _ in range(5):
        path = [rng.integers(5)]
        while len(path) < 400:
            path.append(rng.choice(5, p=table[path[-1]]))
        sequences.append(means[path] + 0.7 * rng.normal(size=(400, 2)))
    data = vi.models.pad(sequences)

    def make(k: int) -> Any:
        how = {"transition_concentration": 1 / k, "initial_concentration": 1 / k, "stickiness": 5.0}
        return vi.models.hmm(emission.full_gaussian(k, 2), **how)

    print("| how | states in use | bound, of 16 states | CPU s |\n|---|---|---|---|")
    for start in (1, 8):
        began = time.process_time()
        fit = vi.grow(make, data, start=start, slots=16, most=16, key=jax.random.key(0))
        spent = time.process_time() - began
        print(
            f"| grow from {start} | {fit.trace['in_use'][-1]} | {fit.trace['elbo'][-1]:,.1f} | "
            f"{spent:.0f} |",
            flush=True,
        )
    began = time.process_time()
    fit = vi.fit(
        vi.cavi(make(16)), data, restarts=10, num_steps=200, tol=1e-7, key=jax.random.key(0)
    )
    used = int(np.sum(np.sum(np.asarray(fit.posterior["transition"].concentration), 0) - 6 >= 0.5))
    print(
        f"| best of ten restarts of cavi | {used} | {fit.elbo:,.1f} | "
        f"{time.process_time() - began:.0f} |"
    )


def table_of_the_finite_mixture(sets: int) -> None:
    """The mixture of Hoffman and Blei 2015, section 4.2, as in benchmarks/quality/finite_dp.py."""
    import finite_dp as paper

    print(
        "| data set | components, true | in use | bound | bound from the true labels | KL - "
        "oracle | CPU s |"
    )
    print("|---|---|---|---|---|---|---|")
    make = lambda k: vi.models.mixture(
        emission.bernoulli(k, paper.DIM), concentration=paper.ALPHA / paper.K
    )
    gaps = []
    for seed in range(sets):
        y, truth = synthetic.bernoulli_mixture(1000, paper.K, paper.DIM, paper.ALPHA, seed)
        began = time.process_time()
        fit = vi.grow(make, y, slots=paper.K, most=paper.K, patience=4, key=jax.random.key(seed))
        spent = time.process_time() - began
        means = fit.posterior["weights"].mean(), fit.posterior["components"].mean()
        gaps.append(paper.divergence(truth, *means) - paper.oracle(truth, y))
        true, used = len(np.unique(truth.labels)), int(fit.trace["in_use"][-1])
        best = from_labels(make(paper.K), truth.labels, y)
        print(
            f"| {seed} | {true} | {used} | {fit.trace['elbo'][-1]:,.1f} | {best:,.1f} | "
            f"{gaps[-1]:.3f} | {spent:.0f} |",
            flush=True,
        )
    print(f"\nKL - oracle: mean {np.mean(gaps):.3f}, {np.min(gaps):.3f} to {np.max(gaps):.3f}.")


def from_labels(model: Any, labels: np.ndarray, y: np.ndarray) -> float:
    """The bound that `cavi` comes to from the true labels."""
    alg, size = vi.cavi(model), model.prior({})["weights"].concentration.shape[0]
    one_hot = np.eye(size, dtype=np.float32)[labels]
    add = lambda q, *leaves: jax.tree.map(lambda x, m: jnp.asarray(x) + m, q, type(q)(*leaves))
    prior = model.prior({})
    q = vi.Product(
        {
            "components": add(prior["components"], one_hot.T @ y, one_hot.T @ (1 - y)),
            "weights": add(prior["weights"], one_hot.sum(0)),
        }
    )
    state = initial_state(alg.spec, {}, jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), q))
    return float(vi.fit(alg, y, state=state, num_steps=200, key=jax.random.key(0)).elbo)


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--keys", type=int, default=2, help="random keys of each start")
    p.add_argument("--sets", type=int, default=8, help="data sets of the finite mixture")
    p.add_argument(
        "--only", default="", help="part of the name of a data set: the others are left out"
    )
    p.add_argument(
        "--export", help="write the data to this file, for benchmarks/peers_growing.py, and end"
    )
    a = p.parse_args()
    if a.export:
        np.savez(
            a.export,
            **{
                f"{d.name}|{part}": getattr(d, part)
                for d in data_sets()
                for part in ("train", "test")
            },
        )
        return
    if a.keys:
        table_of_mixtures(a.keys, a.only)
        print()
    if a.keys and not a.only:
        table_of_chains()
        print()
    if a.sets:
        table_of_the_finite_mixture(a.sets)


if __name__ == "__main__":
    main()
