"""Figures 1 and 2 of Khan et al. 2016, section 7.1: GP classification by proximal gradients and by
stochastic gradients.

    python benchmarks/quality/gp_figures.py --data ionosphere sonar --out benchmarks/figures

Figure 1: examples read until the gap of the ELBO is 1e-2, by step size, for gradient descent (GD),
proximal gradients (PG), the same by Monte Carlo with 500 draws (PG-MC) and by minibatches of 5
(PG-SVI). Figure 2: gap of the ELBO and test log-loss against passes, the rate of each
stochastic-gradient method the best of its list by its last ELBO. Settings and baselines are those
of gp.py; all rates of a method share one compiled program."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gp import BASELINES, SETTINGS, Baseline, batches, first_below, gaussian_elbo, load, make_model

import vijax as vi
from vijax.inference.step_size import proximal

BETAS = (0.05, 0.15, 0.5, 1.5, 4.0)
RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


class Problem:
    """A data set, its model, and what is measured of a posterior."""

    def __init__(self, name: str):
        self.name = name
        x, y, x_test, self.label = load(name)
        self.model = make_model(name, x, y)
        self.best = SETTINGS[name][3]
        self.features, self.unexplained = self.model.new(self.model.hyper, x_test)

    def gap(self, elbo: list[float]) -> np.ndarray:
        return np.abs(np.asarray(elbo) / self.best - 1)

    def log_loss(self, mean: jax.Array, variance: jax.Array) -> jax.Array:
        """Bits; the expected likelihood under N(mean, variance) by quadrature."""
        lik, y = vi.likelihood.bernoulli_logit(), jnp.asarray(self.label)
        p = vi.expectation.expect(lambda y, z: jnp.exp(lik.log_prob(y, z)), lik, y, mean, variance)
        return -jnp.mean(jnp.log2(p))


Run = Callable[[float, int, int], tuple[list[float], list[float]]]
"""(step size, passes, seed) -> ELBO and log-loss before each pass and after the last."""


def proximal_run(problem: Problem, size: int | None, **choices: Any) -> Run:
    """`pg_svi` at a constant beta, a minibatch's beta that over N."""
    model, n = problem.model, problem.model.num_sites
    y = jnp.asarray(model.y)

    @jax.jit
    def measure(state: Any) -> tuple[jax.Array, jax.Array]:
        q = state.posterior["z"]
        mean, variance = q.prior.predict(q.condition(), problem.features)
        elbo = model.elbo(state.posterior)
        return elbo, problem.log_loss(mean, variance + problem.unexplained)

    @jax.jit
    def one_pass(beta: jax.Array, key: jax.Array, state: Any) -> Any:
        alg = vi.pg_svi(
            model,
            step_size=proximal(beta if size is None else beta / n),
            penalty_every=10**9,
            **choices,
        )

        def body(state: Any, batch: tuple) -> tuple:
            rows, weights = batch
            data = vi.Minibatch({"site": rows, "y": y[rows]}, n, weights)
            return alg.step(jax.random.fold_in(key, state.step), state, data)[0], None

        return jax.lax.scan(body, state, batches(key, n, size or n))[0]

    start = vi.pg_svi(model, **choices).init(jax.random.key(0))
    return lambda beta, passes, seed: follow(
        lambda k, s: one_pass(beta, k, s), start, measure, passes, seed
    )


def baseline_run(problem: Problem, baseline: Baseline, size: int) -> Run:
    """An optax optimiser of the same bound on (m, L)."""
    model, n = problem.model, problem.model.num_sites
    elbo, root = gaussian_elbo(model, baseline.whitened), model.prior(model.hyper).features
    start = {"mean": jnp.zeros(n), "factor": jnp.eye(n) if baseline.whitened else root}

    @jax.jit
    def measure(carry: tuple) -> tuple[jax.Array, jax.Array]:
        q = carry[0]
        solve = lambda b: (
            b if baseline.whitened else jax.scipy.linalg.solve_triangular(root, b, lower=True)
        )
        factor = problem.features @ solve(jnp.tril(q["factor"]))
        mean = problem.features @ solve(q["mean"])
        loss = problem.log_loss(mean, jnp.sum(factor**2, 1) + problem.unexplained)
        return elbo(q, jnp.arange(n), jnp.ones(n)), loss

    @jax.jit
    def one_pass(rate: jax.Array, key: jax.Array, carry: tuple) -> tuple:
        import optax

        optimizer = baseline.make(rate)  # type: ignore[arg-type]

        def body(carry: tuple, batch: tuple) -> tuple:
            q, opt = carry
            slope = jax.grad(lambda q: -elbo(q, *batch))(q)
            updates, opt = optimizer.update(slope, opt, q)
            return (optax.apply_updates(q, updates), opt), None

        return jax.lax.scan(body, carry, batches(key, n, size if baseline.minibatch else n))[0]

    begin = (start, baseline.make(0.1).init(start))
    return lambda rate, passes, seed: follow(
        lambda k, c: one_pass(rate, k, c), begin, measure, passes, seed
    )


def follow(
    one_pass: Callable, state: Any, measure: Callable, passes: int, seed: int
) -> tuple[list[float], list[float]]:
    elbo, loss = [], []
    for epoch in range(passes + 1):
        value, bits = measure(state)
        elbo.append(float(value))
        loss.append(float(bits))
        if epoch < passes and np.isfinite(elbo[-1]):
            state = one_pass(jax.random.fold_in(jax.random.key(seed), epoch), state)
    return elbo, loss


def figure_1(problem: Problem, passes: int, folder: Path) -> dict:
    """Examples until the gap is 1e-2, by step size."""
    import matplotlib.pyplot as plt

    runs: dict[str, tuple[Run, tuple[float, ...]]] = {
        "GD": (baseline_run(problem, BASELINES["GD"], 5), RATES),
        "PG": (proximal_run(problem, None), BETAS),
        "PG-MC, 500 draws": (
            proximal_run(problem, None, expectation=vi.expectation.bonnet_price(500)),
            BETAS,
        ),
        "PG-SVI, batches of 5": (proximal_run(problem, 5), BETAS),
    }
    found: dict[str, dict[str, int | None]] = {}
    figure, axes = plt.subplots(figsize=(6, 4))
    for name, (run, sizes) in runs.items():
        reached = {size: first_below(problem.gap(run(size, passes, 0)[0]), 1e-2) for size in sizes}
        found[name] = {f"{size:g}": count for size, count in reached.items()}
        print(problem.name, "figure 1", name, found[name], flush=True)
        shown = [
            (size, count * problem.model.num_sites)
            for size, count in reached.items()
            if count is not None
        ]
        if shown:
            axes.loglog(*zip(*shown, strict=True), "o-", label=name)
    axes.set(
        xlabel="step size (beta; of PG-SVI, beta N)",
        ylabel="examples until the gap is 1e-2",
        title=f"{problem.name}; not shown: not within {passes} passes",
    )
    axes.legend(fontsize=7)
    figure.savefig(folder / f"{problem.name}_step_size.png", dpi=110, bbox_inches="tight")
    return found


def figure_2(problem: Problem, passes: int, search: int, folder: Path) -> dict:
    """Gap and log-loss against passes."""
    stable, small, rho = {"ionosphere": (2.0, 1.0, 0.5)}.get(problem.name, (0.5, 0.2, 1 / 3))
    inner = proximal_run(problem, 5, memory=True, inner_steps=8)
    curves = {
        f"PG, beta = {stable:g}": proximal_run(problem, None)(stable, passes, 0),
        f"PG-SVI, beta = {small:g}/n": proximal_run(problem, 5)(small, min(passes, 45), 0),
        f"PG-SVI, memory, 8 inner steps, rho = {rho:.2g}": inner(
            rho / (1 - rho) * problem.model.num_sites, min(passes, 20), 0
        ),
    }
    for name, baseline in BASELINES.items():
        run = baseline_run(problem, baseline, 5)
        ends = {rate: run(rate, search, 0)[0][-1] for rate in baseline.rates}
        best = max(ends, key=lambda rate: np.nan_to_num(ends[rate], nan=-np.inf))
        curves[f"{name}, rate {best:g}"] = run(best, passes, 0)
    draw(problem, curves, folder)
    return {name: {"elbo": elbo, "log_loss": loss} for name, (elbo, loss) in curves.items()}


def draw(
    problem: Problem, curves: dict[str, tuple[list[float], list[float]]], folder: Path
) -> None:
    """Both panels of figure 2, and their legend beneath."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5))
    colors = plt.get_cmap("tab20").colors[::2] + plt.get_cmap("tab20").colors[1::2]
    for i, (name, (elbo, loss)) in enumerate(curves.items()):
        style = {"label": name, "color": colors[i], "ls": "-" if i < 3 else "--"}
        left.semilogy(np.maximum(problem.gap(elbo), 1e-8), **style)
        right.plot(np.clip(loss, None, 3.0), **style)
    left.set(
        xlabel="passes over the data",
        ylabel="relative gap of the ELBO",
        title=problem.name,
        ylim=(1e-6, None),
    )
    right.set(xlabel="passes over the data", ylabel="test log-loss, bits (at most 3)")
    figure.legend(
        *left.get_legend_handles_labels(),
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=3,
        fontsize=8,
    )
    figure.savefig(folder / f"{problem.name}_gap.png", dpi=110, bbox_inches="tight")


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--data", nargs="+", default=["ionosphere", "sonar"], choices=["ionosphere", "sonar"]
    )
    p.add_argument("--passes", type=int, default=100)
    p.add_argument(
        "--search", type=int, default=30, help="passes after which a baseline's rate is chosen"
    )
    p.add_argument("--figures", type=int, nargs="+", default=[1, 2])
    p.add_argument("--out", type=Path, default=Path("figures"))
    a = p.parse_args()
    jax.config.update("jax_enable_x64", True)
    a.out.mkdir(parents=True, exist_ok=True)
    for name in a.data:
        problem = Problem(name)
        if 1 in a.figures:
            figure_1(problem, a.passes, a.out)
        if 2 in a.figures:
            curves = figure_2(problem, a.passes, a.search, a.out)
            (a.out / f"{name}_curves.json").write_text(json.dumps(curves))


if __name__ == "__main__":
    main()
