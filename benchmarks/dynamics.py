"""Switching dynamics beside dynamax's and ssm's: segmentation, held-out density, smoothing, CPU
time.

    python benchmarks/dynamics.py --method vijax|dynamax|ssm [--task
    laps|lorenz|speech|hidden_laps|hidden_lorenz] python benchmarks/dynamics.py --method vijax|ssm
    --task recurrent_laps|recurrent_lorenz python benchmarks/dynamics.py --task falls

`laps`: the track of `synthetic:laps` seen directly, 20 sequences, 4 for test; AR-HMM of four
states. `lorenz`: the attractor seen directly. `speech`: recordings of spoken digits as eight
cepstra, if $VIJAX_DATA is there.
`hidden_`: six or ten columns that see the same through a random map, with noise; SLDS of two or
    three dimensions.
`recurrent_`: the same; systems that switch where the path is. Ours begin after the best SLDS, then
by themselves; of ssm there are two laws of transitions, `recurrent` and `recurrent_only`.
`falls`: 800 steps of laps behind noise; how far the bound falls in the second half of 120 steps, in
both precisions. Held-out density of AR-HMMs: log p of steps 2, 3, ... of the test sequences at the
parameters found, by one function for all, per step, in the data's units. `smoothing`: root mean
squared error of the expected columns, over the noise's deviation, in training. Time: CPU seconds of
the fit with and without its first run. Peers are in an environment of their own (`pip install
dynamax`; `pip install cython numpy setuptools`, then `pip install --no-build-isolation ssm`)."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.fft import dct
from scipy.special import logsumexp


class Task(NamedTuple):
    """Sequences, the states that are known, and what the models are told."""

    train: list[np.ndarray]
    test: list[np.ndarray]
    states: list[np.ndarray] | None
    num_states: int
    clean: list[np.ndarray] | None = None  # the columns without noise
    noise: float = 0.0
    latent_dim: int = 0
    recurrent: bool = False
    restarts: int = 4


def laps(num_rows: int = 3000) -> tuple[list[np.ndarray], list[np.ndarray]]:
    from vijax.data.tables.synthetic_tables import laps as draw

    columns = draw(np.random.default_rng(0), num_rows)
    number = columns["sequence"].astype(int)
    split = lambda x: [x[number == n] for n in range(number.max() + 1)]
    return split(np.stack([columns["x1"], columns["x2"]], 1)), split(columns["part"].astype(int))


def lorenz() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """20 paths of 200 steps of 0.02, about mean 0 and of deviation 1; the state is the wing, x < 0
    or x > 0."""
    rng, paths = np.random.default_rng(0), []
    for _ in range(20):
        x = rng.normal(size=3) * 5 + [0, 0, 25]
        path = []
        for t in range(10 * 300):
            d = np.array(
                [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]
            )
            x = x + 0.002 * d
            if t >= 1000 and t % 10 == 0:
                path.append(x)
        paths.append(np.array(path))
    every = np.concatenate(paths)
    mean, deviation = every.mean(0), every.std(0)
    states = [(path[:, 0] > 0).astype(int) for path in paths]
    return [
        (path - mean) / deviation + 0.01 * rng.normal(size=path.shape) for path in paths
    ], states


def speech() -> list[np.ndarray]:
    """Spoken digits, a real track: the first eight cosine coefficients of log spectra (cepstra),
    standardised."""
    stored = np.load(Path(os.environ["VIJAX_DATA"]) / "fsdd_power.npz")
    y = dct(np.log(stored["S"].T + 1e-8), norm="ortho")[:, :8]
    y, ends = (y - y.mean(0)) / y.std(0), stored["frame_offsets"]
    return [y[a:b] for a, b in itertools.pairwise(ends)]


def task(name: str) -> Task:
    """The data of a task by name."""
    kind, _, seen = name.partition("_")
    if seen or name == "falls":
        paths, states = laps(800) if name == "falls" else {"laps": laps, "lorenz": lorenz}[seen]()
        rng, dim = np.random.default_rng(1), paths[0].shape[1]
        through, noise = rng.normal(size=(dim, 6 if dim == 2 else 10)), 0.2
        clean = [path @ through for path in paths]
        y = [c + noise * rng.normal(size=c.shape) for c in clean]
        return Task(y, [], states, 4 if dim == 2 else 2, clean, noise, dim, kind == "recurrent")
    if name == "speech":
        y = speech()
        return Task([x for i, x in enumerate(y) if i % 5], y[::5], None, 10)
    y, states = {"laps": laps, "lorenz": lorenz}[name]()
    return Task(y[:16], y[16:], states[:16], 4 if name == "laps" else 2)


def density(y: list[np.ndarray], initial: Any, transition: Any, a: Any, b: Any, cov: Any) -> float:
    """log p of steps 2, 3, ..., per step: x_t ~ N(a_k x_{t-1} + b_k, cov_k); the first step has a
    state, and says nothing."""
    total, steps = 0.0, sum(len(path) - 1 for path in y)
    roots = np.linalg.cholesky(cov)
    for path in y:
        message = np.log(initial)
        for t in range(1, len(path)):
            left = np.linalg.solve(roots, (path[t] - (a @ path[t - 1] + b))[..., None])[..., 0]
            logs = -0.5 * (left**2).sum(1) - np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)
            logs = logs - 0.5 * path.shape[1] * np.log(2 * np.pi)
            message = logsumexp(message[:, None] + np.log(transition), 0) + logs
        total += logsumexp(message)
    return float(total / steps)


def agreement(states: list[np.ndarray] | None, found: list[np.ndarray]) -> float | None:
    from sklearn.metrics import adjusted_rand_score

    if states is None:
        return None
    return round(float(adjusted_rand_score(np.concatenate(states), np.concatenate(found))), 3)


# --- each library ---------------------------------------------------------------------------------
def by_vijax(given: Task, iterations: int) -> Iterator[dict[str, Any]]:
    import jax

    import vijax as vi

    data = vi.models.pad([x.astype(np.float32) for x in given.train])
    dim, k = given.train[0].shape[1], given.num_states
    if given.latent_dim:
        yield from hidden(given, data, iterations)
        return
    alg = vi.cavi(vi.models.arhmm(dim, k, stickiness=5.0, variance=1e-3))
    fit, row = twice(
        lambda: vi.fit(
            alg, data, num_steps=iterations, restarts=given.restarts, key=jax.random.key(0)
        )
    )
    mean = {name: q.mean() for name, q in fit.posterior.items()}
    g = np.asarray(mean["dynamics"].coefficients, float)
    a, cov = (
        g[:, :dim].swapaxes(1, 2) + np.eye(dim),
        np.linalg.inv(np.asarray(mean["dynamics"].precision, float)),
    )
    chain = np.asarray(mean["initial"], float), np.asarray(mean["transition"], float)
    score = fit.score(vi.models.pad(given.test), key=jax.random.key(2)).mean
    row |= {"ari": found_states(given, fit.locals(data, key=jax.random.key(1))["z"])}
    yield row | {
        "held_out": round(density(given.test, *chain, a, g[:, dim], cov), 3),
        "student": round(score, 3),
    }


def hidden(given: Task, data: Any, iterations: int) -> Iterator[dict[str, Any]]:
    """Rows of systems behind noise."""
    import jax

    import vijax as vi

    def row(model: Any, num_steps: int, restarts: int, measured: Any) -> tuple[dict[str, Any], Any]:
        alg = vi.cavi(model)
        fit, row = measured(
            lambda: vi.fit(alg, data, num_steps=num_steps, restarts=restarts, key=jax.random.key(0))
        )
        local = fit.locals(data, key=jax.random.key(1))
        c = np.asarray(fit.posterior["observation"].mean().coefficients)
        expected = np.asarray(local["x"].mean()) @ c[:, :-1].T + c[:, -1]
        near = smoothing(given, [e[: len(x)] for e, x in zip(expected, given.train, strict=True)])
        row |= {
            "bound": round(fit.elbo, 1),
            "ari": found_states(given, local["z"]),
            "smoothing": near,
        }
        return (
            row | {"carried_ari": found_states(given, fit.state.local["z"])}
            if restarts == 1
            else row
        ), local

    switching, recurrent = systems(given)
    found, local = row(switching(), iterations, given.restarts, once if given.recurrent else twice)
    yield {"model": "slds"} | found
    if given.recurrent:
        after = recurrent(init=vi.models.after_slds(local))
        yield {"model": "recurrent_slds", "start": "after_slds"} | row(after, 80, 1, once)[0]
        yield {"model": "recurrent_slds", "start": "own"} | row(
            recurrent(), 80, given.restarts, once
        )[0]


def systems(given: Task) -> tuple[Any, Any]:
    """Makers of our two systems behind noise, with settings alike."""
    import vijax as vi

    sizes = given.train[0].shape[1], given.num_states, given.latent_dim
    alike = {"variance": 1e-3, "rate": 0.1}
    return (
        lambda: vi.models.slds(*sizes, stickiness=5.0, **alike),
        lambda **own: vi.models.recurrent_slds(*sizes, **alike, **own),
    )


def falls(given: Task, num_steps: int = 120) -> Iterator[dict[str, Any]]:
    """The largest falls of the bound in the second half of a fit."""
    import jax

    import vijax as vi

    for precise in (False, True):
        with jax.enable_x64(True) if precise else contextlib.nullcontext():
            data = vi.models.pad(
                [x.astype(np.float64 if precise else np.float32) for x in given.train]
            )
            for make in systems(given):
                model = make()
                fit = vi.fit(vi.cavi(model), data, num_steps=num_steps, key=jax.random.key(0))
                fall = float(-np.diff(np.asarray(fit.trace["elbo"])[num_steps // 2 :]).min())
                name = "recurrent_slds" if "switching" in fit.posterior else "slds"
                float_ = "float64" if precise else "float32"
                yield {
                    "model": name,
                    "in": float_,
                    "bound": round(fit.elbo, 2),
                    "fall": round(max(fall, 0.0), 4),
                }


def found_states(given: Task, z: Any) -> float | None:
    """Agreement of likeliest paths of states with the truth."""
    return agreement(
        given.states,
        [path[: len(x)] for path, x in zip(np.asarray(z.mode()), given.train, strict=True)],
    )


def by_dynamax(given: Task, iterations: int) -> Iterator[dict[str, Any]]:
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import LinearAutoregressiveHMM

    if given.latent_dim:
        raise SystemExit("dynamax has no switching linear dynamical system to fit")
    length = min(
        len(x) for x in given.train
    )  # it takes sequences of one length: stretches of the shortest one's
    cut = [x[i : i + length] for x in given.train for i in range(0, len(x) - length + 1, length)]
    dim, k, y = cut[0].shape[1], given.num_states, jnp.array(np.stack(cut))
    model = LinearAutoregressiveHMM(k, dim, num_lags=1, transition_matrix_stickiness=5.0)
    inputs = jax.vmap(model.compute_inputs)(y)

    def run() -> tuple[Any, float]:
        runs = []
        for seed in range(given.restarts):
            params, props = model.initialize(
                jax.random.PRNGKey(seed), method="kmeans", emissions=y.reshape(-1, dim)
            )
            params, logs = model.fit_em(
                params, props, y, inputs=inputs, num_iters=iterations, verbose=False
            )
            runs.append((float(logs[-1]), params))
        return max(runs, key=lambda pair: pair[0] if np.isfinite(pair[0]) else -np.inf)[1]

    params, row = twice(run)
    path = lambda x: np.asarray(
        model.most_likely_states(params, jnp.array(x), model.compute_inputs(jnp.array(x)))
    )
    p = params.emissions
    parts = params.initial.probs, params.transitions.transition_matrix, p.weights, p.biases, p.covs
    row |= {"held_out": round(density(given.test, *(np.asarray(x, float) for x in parts)), 3)}
    yield row | {"ari": agreement(given.states, [path(x) for x in given.train])}


def by_ssm(given: Task, iterations: int) -> Iterator[dict[str, Any]]:
    for transitions in ("recurrent", "recurrent_only") if given.recurrent else ("standard",):
        yield {"transitions": transitions} | one_of_ssm(given, iterations, transitions)


def one_of_ssm(given: Task, iterations: int, transitions: str) -> dict[str, Any]:
    """The best of several starts; `transitions` are those of systems behind noise."""
    import ssm

    dim, k = given.train[0].shape[1], given.num_states

    def run() -> Any:
        runs = []
        for seed in range(given.restarts):
            np.random.seed(seed)
            if given.latent_dim:
                law = {"transitions": transitions, "emissions": "gaussian", "single_subspace": True}
                model = ssm.SLDS(dim, k, given.latent_dim, **law)
                how = {
                    "method": "laplace_em",
                    "variational_posterior": "structured_meanfield",
                    "alpha": 0.0,
                }
                logs, q = model.fit(given.train, num_iters=iterations, **how)
            else:
                model, q = (
                    ssm.HMM(k, dim, observations="autoregressive", transitions="sticky"),
                    None,
                )
                logs = model.fit(given.train, method="em", num_em_iters=iterations)
            runs.append((float(logs[-1]), model, q))
        return max(runs, key=lambda run: run[0])[1:]

    (model, q), again = timed(run)
    row: dict[str, Any] = {"cpu_s": again}
    if given.latent_dim:
        x = q.mean_continuous_states
        paths = [model.most_likely_states(path, y) for path, y in zip(x, given.train, strict=True)]
        expected = [model.smooth(path, y) for path, y in zip(x, given.train, strict=True)]
        return row | {
            "ari": agreement(given.states, paths),
            "smoothing": smoothing(given, expected),
        }
    paths = [model.most_likely_states(y) for y in given.train]
    o, start = model.observations, np.asarray(model.init_state_distn.init_state_distn)
    parts = start, model.transitions.transition_matrix, o.As, o.bs, o.Sigmas
    return row | {
        "ari": agreement(given.states, paths),
        "held_out": round(density(given.test, *parts), 3),
    }


def smoothing(given: Task, expected: list[np.ndarray]) -> float:
    """Root mean squared error of the expected columns, over the deviation of the noise."""
    error = np.concatenate(expected) - np.concatenate(given.clean)
    return round(float(np.sqrt((error**2).mean()) / given.noise), 3)


def once(run: Any) -> tuple[Any, dict[str, float]]:
    """A result, and the CPU seconds of its first run."""
    found, first = timed(run)
    return found, {"first_cpu_s": first}


def twice(run: Any) -> tuple[Any, dict[str, float]]:
    """A result, and the CPU seconds of its first run and of another."""
    _, row = once(run)
    found, again = timed(run)
    return found, row | {"cpu_s": again}


def timed(run: Any) -> tuple[Any, float]:
    """A result, and the CPU seconds that it took."""
    start = time.process_time()
    found = run()
    return found, round(time.process_time() - start, 2)


METHODS = {"vijax": by_vijax, "dynamax": by_dynamax, "ssm": by_ssm}
TASKS = (
    "laps",
    "lorenz",
    "speech",
    "hidden_laps",
    "hidden_lorenz",
    "recurrent_laps",
    "recurrent_lorenz",
    "falls",
)


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--method", choices=METHODS, default="vijax")
    p.add_argument("--task", choices=TASKS, default="laps")
    p.add_argument("--iterations", type=int, default=60)
    p.add_argument("--restarts", type=int, default=4, help="starts, of which the best is kept")
    a = p.parse_args()
    given = task(a.task)._replace(restarts=a.restarts)
    for row in falls(given) if a.task == "falls" else METHODS[a.method](given, a.iterations):
        print(json.dumps({"task": a.task, "method": a.method, **row}), flush=True)


if __name__ == "__main__":
    main()
