"""Posteriors of posteriordb and hierarchies of our own: `vijax.auto` beside NUTS and three other
methods of variational inference, with what each says of itself.

    pip install -e ".[pymc,numpyro]" blackjax nutpie
    git clone https://github.com/stan-dev/posteriordb
    python benchmarks/posteriors.py --clone posteriordb [--only arK-arK car] [--folder results]

Prints the tables of benchmarks/results_posteriors.md. Each posterior runs in a process of its own,
and leaves its rows in the folder; those that are there are not run again, so that the command goes
on where it stopped. All methods get one PyMC model. Nothing is set but what is said here:

- `vijax.auto(vijax.from_pymc(model))`, seeds 0, 1 and 2; where the first fit takes 15 CPU seconds
  or more, seed 0 alone. The model is rebuilt for each fit.
- NUTS is nutpie's: four chains of 1,000 draws. "Fine" is R-hat below 1.01 and no divergence.
- PyMC's ADVI of full rank, 10,000 steps. It says nothing of itself.
- NumPyro's AutoMultivariateNormal on PyMC's unconstrained coordinates, Adam at 0.01, 10,000 steps,
  float64. It says nothing of itself.
- Pathfinder is BlackJAX's: four paths of up to 100 steps, 1,000 draws each, weighted by smoothed
  importance weights, float64. "Fine" is a k-hat below 0.7.

Errors are of means, in sds of the reference, and of logarithms of sds, the worst over all numbers
of a posterior, in the model's own supports. The reference is that of posteriordb, 10,000 draws; for
posteriors without one, nutpie's NUTS, six chains of 4,000 draws, if R-hat is below 1.01 without
divergences, else NumPyro's in the coordinates that `vijax.auto` finds (hierarchies_pymc.py). CPU
seconds have all compilation in them, that of compilers too. A fit is right where all means and sds
are off by less than a tenth, three hundredths for the noise of references and draws added."""

from __future__ import annotations

import argparse
import json
import logging
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import hierarchies_pymc
import jax
import jax.numpy as jnp
import numpy as np
import pymc as pm
import stan_programs
from gallery_pymc import built
from stan_programs import Summary

import vijax as vi

DRAWS, STEPS, RATE, PATHS = 40_000, 10_000, 0.01, 4
RIGHT = 0.1 + 0.03
DEAR = 15  # CPU seconds from which on a posterior is fitted with one seed
SECONDS = 900  # CPU seconds of a posterior
OURS = (
    "tadpoles", "correlated", "exposure", "nested", "tumours", "local_level", "autoregression",
    "errors_in_x", "items", "horseshoe", "car", "zero_sum",
)  # fmt: skip
"""Models of hierarchies_pymc.py, centred."""
METHODS = ("vijax", "NUTS", "AutoMultivariateNormal", "Pathfinder", "ADVI")


class Task(NamedTuple):
    """A posterior."""

    name: str
    clone: Path

    def model(self) -> pm.Model:
        """Its model, built anew."""
        if self.name in OURS:
            return built(hierarchies_pymc.MODELS[self.name])
        return stan_programs.built(self.clone, self.name)


class Outcome(NamedTuple):
    """Draws by name, whether the method calls itself fine (None if it says nothing), weights."""

    draws: dict[str, np.ndarray]
    fine: bool | None
    weights: np.ndarray | None = None
    note: str = ""


# --- numbers --------------------------------------------------------------------------------------
def cpu_seconds() -> float:
    """CPU seconds of this process and of compilers that it started."""
    of = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    uses = [resource.getrusage(who) for who in of]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def columns(draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws of each number, by names such as "beta[1]" and "L[2,1]".

    >>> sorted(columns({"a": np.zeros(3), "b": np.zeros((3, 2))}))
    ['a', 'b[1]', 'b[2]']
    """
    by_name = {}
    for name, values in draws.items():
        x = np.asarray(values, float)
        for place in np.ndindex(*x.shape[1:]):
            index = ",".join(str(k + 1) for k in place)
            by_name[f"{name}[{index}]" if place else name] = x[(slice(None), *place)]
    return by_name


def summary(
    by_name: dict[str, np.ndarray], names: list[str], weights: np.ndarray | None = None
) -> Summary:
    """Means and sds of some numbers."""
    x = np.stack([by_name[name] for name in names], 1)
    mean = np.average(x, axis=0, weights=weights)
    return Summary(names, mean, np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights)))


def errors(q: Summary, reference: Summary) -> dict[str, Any]:
    """The worst mean and the worst sd, with their names."""
    off = np.abs(q.mean - reference.mean) / reference.sd
    wide = np.abs(np.log(np.maximum(q.sd, 1e-300) / reference.sd))
    return {
        "mean": float(off.max()),
        "log_sd": float(wide.max()),
        "at": reference.names[int(off.argmax())],
        "sd_at": reference.names[int(wide.argmax())],
    }


# --- references -----------------------------------------------------------------------------------
def reference(task: Task, folder: Path) -> Summary:
    """The reference of a posterior: of the database, or of a long run that the folder keeps."""
    listed = stan_programs.POSTERIORS.get(task.name)
    if listed is not None and listed.reference is not None:
        return stan_programs.read_reference(task.clone, listed.reference)
    file = folder / f"{task.name}.reference.json"
    if not file.is_file():
        file.write_text(json.dumps(_long_run(task)))
    kept = json.loads(file.read_text())
    return Summary(kept["names"], np.asarray(kept["mean"]), np.asarray(kept["sd"]))


def _long_run(task: Task) -> dict[str, Any]:
    outcome = nuts(task, chains=6, draws=4000, tune=1000, target_accept=0.95)
    how = "nutpie"
    draws = outcome.draws
    if not outcome.fine:
        hierarchies_pymc.CHAINS, hierarchies_pymc.KEPT = 4, 2500
        model = task.model()
        draws, rhat, diverging = hierarchies_pymc.by_nuts(model, hierarchies_pymc.learnt(model))
        how = f"NumPyro, R-hat {rhat:.3f}, {diverging} divergences"
    own = {x.name for x in task.model().unobserved_RVs}
    by_name = columns({name: x for name, x in draws.items() if name in own})
    names = [name for name, x in by_name.items() if x.std() > 0]
    moments = summary(by_name, names)
    return {"names": names, "mean": list(moments.mean), "sd": list(moments.sd), "how": how}


# --- methods --------------------------------------------------------------------------------------
def ours(task: Task, seed: int) -> tuple[Outcome, dict[str, Any]]:
    """A fit by `vijax.auto`."""
    fit = vi.auto(vi.from_pymc(task.model()), key=jax.random.key(seed))
    verdict = str(fit.verdict)
    more = {
        "gradients": int(fit.report.num_gradients),
        "gap": float(fit.report.gap),
        "verdict": verdict,
        "fitted": int(np.shape(fit.report.coordinates)[-1]),
    }
    draws = fit.sample(jax.random.key(100 + seed), DRAWS)
    return Outcome(dict(draws), "means and sds can be used" in verdict), more


def nuts(task: Task, **choices: Any) -> Outcome:
    """Draws by nutpie."""
    import nutpie

    compiled = nutpie.compile_pymc_model(task.model())
    choices = {"chains": 4, "draws": 1000, "seed": 0, "progress_bar": False, **choices}
    trace = nutpie.sample(compiled, cores=1, **choices)
    own = {x.name for x in task.model().unobserved_RVs}
    posterior = {
        name: np.asarray(x.values)
        for name, x in trace["posterior"].data_vars.items()
        if name in own
    }
    divergences = int(np.asarray(trace["sample_stats"]["diverging"].values).sum())
    varying = {name: x for name, x in posterior.items() if x.std() > 0}
    rhat = max(map(split_rhat, varying.values()))
    draws = {name: x.reshape(-1, *x.shape[2:]) for name, x in posterior.items()}
    return Outcome(draws, rhat < 1.01 and not divergences, None, f"{rhat:.3f}, {divergences}")


def split_rhat(x: np.ndarray) -> float:
    """The worst split R-hat (Gelman et al. 2013) of draws by chains."""
    halves = np.concatenate(np.array_split(x[:, : 2 * (x.shape[1] // 2)], 2, axis=1))
    size = halves.shape[1]
    within = np.maximum(halves.var(1, ddof=1).mean(0), 1e-300)
    between = halves.mean(1).var(0, ddof=1)
    return float(np.max(np.sqrt((size - 1) / size + between / within)))


def advi(task: Task) -> Outcome:
    """PyMC's ADVI of full rank."""
    model = task.model()
    with model:
        q = pm.fit(STEPS, method="fullrank_advi", random_seed=0, progressbar=False)
        trace = q.sample(10_000, random_seed=1)
    own = {x.name for x in model.unobserved_RVs}
    variables = trace["posterior"].data_vars
    draws = {name: np.asarray(x.values)[0] for name, x in variables.items() if name in own}
    return Outcome(draws, None)


def _density(task: Task) -> Any:
    return vi.from_pymc(task.model(), integrate=False).log_density


def _draws(density: Any, x: Any) -> dict[str, np.ndarray]:
    values = jax.jit(jax.vmap(density.values_and_derived))(jnp.asarray(x))
    return {name: np.asarray(v, float) for name, v in values.items()}


def multivariate_normal(task: Task) -> Outcome:
    """NumPyro's guide."""
    import numpyro
    from numpyro.distributions import ImproperUniform, constraints
    from numpyro.infer import SVI, Trace_ELBO, autoguide
    from numpyro.optim import Adam

    density = _density(task)

    def model() -> None:
        law = ImproperUniform(constraints.real, (), (density.variables.dim,))
        x = numpyro.sample("x", law)
        numpyro.factor("log_density", density.log_prior_at(x))

    guide = autoguide.AutoMultivariateNormal(model)
    svi = SVI(model, guide, Adam(RATE), Trace_ELBO())
    end = svi.run(jax.random.key(0), STEPS, progress_bar=False)
    x = guide.sample_posterior(jax.random.key(2), end.params, sample_shape=(DRAWS // 4,))["x"]
    return Outcome(_draws(density, x), None)


def pathfinder(task: Task) -> Outcome:
    """BlackJAX's Pathfinder of four paths."""
    from blackjax.util import psis_weights
    from blackjax.vi.pathfinder import approximate, sample

    density = _density(task)
    value = density.log_prior_at
    start = 2 * jax.random.uniform(jax.random.key(3), (PATHS, density.variables.dim)) - 1

    def path(key: Any, x: Any) -> Any:
        state, _ = approximate(key, value, x, maxiter=100)
        draws, log_q = sample(jax.random.fold_in(key, 1), state, DRAWS // 40)
        return draws, jax.vmap(value)(draws) - log_q

    draws, log_ratios = jax.jit(jax.vmap(path))(jax.random.split(jax.random.key(0), PATHS), start)
    log_ratios = jnp.where(jnp.isfinite(log_ratios), log_ratios, -jnp.inf).ravel()
    log_weights, khat = psis_weights(log_ratios)
    weights = np.nan_to_num(np.exp(np.asarray(log_weights, float)))
    x = np.asarray(draws).reshape(-1, density.variables.dim)
    if not weights.sum() > 0:
        weights = np.ones(len(x))
    is_fine = bool(khat < 0.7)
    return Outcome(_draws(density, x), is_fine, weights / weights.sum(), f"{float(khat):.2f}")


PEERS: dict[str, Callable[[Task], Outcome]] = {
    "NUTS": nuts,
    "AutoMultivariateNormal": multivariate_normal,
    "Pathfinder": pathfinder,
    "ADVI": advi,
}
IN_DOUBLE = ("AutoMultivariateNormal", "Pathfinder")


# --- a posterior ----------------------------------------------------------------------------------
def run(task: Task, folder: Path, methods: list[str]) -> None:
    """Rows of a posterior, each appended to its file as it ends."""
    file = folder / f"{task.name}.jsonl"
    done = {(row["method"], row["seed"]) for row in rows_of(file)}
    truth = reference(task, folder)

    def keep(method: str, seed: int, go: Callable[[], Any]) -> float:
        if (method, seed) in done:
            return 0.0
        started = cpu_seconds()
        row = {"posterior": task.name, "method": method, "seed": seed}
        try:
            outcome, more = go()
            row |= {"cpu": cpu_seconds() - started, **more}
            moments = summary(columns(outcome.draws), truth.names, outcome.weights)
            row |= {"fine": outcome.fine, "note": outcome.note, **errors(moments, truth)}
        except Exception as error:  # a method that fails is a row too
            row |= {"cpu": cpu_seconds() - started, "failed": f"{type(error).__name__}: {error}"}
        with file.open("a") as written:
            written.write(json.dumps(row) + "\n")
        return row["cpu"]

    if "vijax" in methods:
        first = keep("vijax", 0, lambda: ours(task, 0))
        if first < DEAR:
            for seed in (1, 2):
                keep("vijax", seed, lambda seed=seed: ours(task, seed))
    for name in PEERS:
        if name in methods:
            with jax.enable_x64(name in IN_DOUBLE):
                keep(name, 0, lambda name=name: (PEERS[name](task), {}))


def rows_of(file: Path) -> list[dict[str, Any]]:
    """Rows that are in a file."""
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


# --- tables ---------------------------------------------------------------------------------------
def is_right(row: dict[str, Any]) -> bool:
    """True where all means and sds are off by less than a tenth."""
    return "mean" in row and max(row["mean"], row["log_sd"]) <= RIGHT


def spread(values: list[float], form: str) -> str:
    """From the lowest to the highest."""
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def _cell(rows: list[dict[str, Any]]) -> str:
    """Errors and CPU seconds of a method, in bold where it calls itself fine and is not right."""
    if not rows:
        return ""
    if "failed" in rows[0]:
        return f"failed; {rows[0]['cpu']:.0f}"
    mean, sd = max(r["mean"] for r in rows), max(r["log_sd"] for r in rows)
    worst = f"{_short(mean)}, {_short(sd)}"
    if any(r["fine"] and not is_right(r) for r in rows):
        worst = f"**{worst}**"
    alarm = "" if rows[0]["fine"] is None or all(r["fine"] for r in rows) else " !"
    seconds = f"{rows[0]['cpu']:.1f}"
    if len(rows) > 1:
        seconds += f"; {np.mean([r['cpu'] for r in rows[1:]]):.1f}"
    return f"{worst}{alarm}; {seconds}"


def _short(x: float) -> str:
    """A size with two digits after the point; rounded where it is large.

    >>> _short(0.0312), _short(14.2), _short(1e9)
    ('.03', '14', '1e+09')
    """
    if not np.isfinite(x) or x >= 10_000:
        return f"{x:.0e}"
    return f"{x:.2f}".lstrip("0") if x < 10 else f"{x:.0f}"


def table(folder: Path, names: list[str]) -> Iterator[str]:
    """Lines of both tables."""
    everything = {name: rows_of(folder / f"{name}.jsonl") for name in names}
    head = ["posterior", "D", *METHODS]
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for name, rows in everything.items():
        if not rows:
            continue
        by_method = [[r for r in rows if r["method"] == method] for method in METHODS]
        dims = {r["fitted"] for r in by_method[0] if "fitted" in r}
        dim = ", ".join(map(str, sorted(dims)))
        yield f"| {name} | {dim} | {' | '.join(map(_cell, by_method))} |"
    yield ""
    head = ["", "fits", "right", "calls itself fine", "of these wrong", "alarms", "of these right",
            "failed", "CPU s, median", "CPU s, sum"]  # fmt: skip
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for method in METHODS:
        rows = [r for of in everything.values() for r in of if r["method"] == method]
        if rows:
            yield f"| {method} | {' | '.join(_counted(rows))} |"


def _counted(rows: list[dict[str, Any]]) -> list[str]:
    """Counts of a method's rows."""
    whole = [r for r in rows if "failed" not in r]
    fine, alarms = ([r for r in whole if r["fine"] is calm] for calm in (True, False))
    cold = [r["cpu"] for r in rows if r["seed"] == 0]
    says = any(r["fine"] is not None for r in whole)
    count = lambda number: str(number) if says else ""
    return [
        str(len(rows)), str(sum(map(is_right, whole))), count(len(fine)),
        count(sum(not is_right(r) for r in fine)), count(len(alarms)),
        count(sum(map(is_right, alarms))), str(len(rows) - len(whole)),
        f"{np.median(cold):.1f}", f"{sum(cold):.0f}",
    ]  # fmt: skip


def main() -> None:
    listed = [*stan_programs.POSTERIORS, *OURS]
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--clone", type=Path, required=True, help="a clone of posteriordb")
    p.add_argument("--only", nargs="+", choices=listed, default=listed, metavar="NAME")
    p.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    p.add_argument("--folder", type=Path, default=Path("posteriors"), help="keeps rows")
    p.add_argument("--table", action="store_true", help="run nothing")
    p.add_argument("--one", help=argparse.SUPPRESS)
    a = p.parse_args()
    warnings.filterwarnings("ignore")
    for library in ("pymc", "pytensor"):
        logging.getLogger(library).setLevel(logging.ERROR)
    a.folder.mkdir(exist_ok=True, parents=True)
    if a.one:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        run(Task(a.one, a.clone), a.folder, a.methods)
        return
    for name in () if a.table else a.only:
        command = [sys.executable, *sys.argv, "--one", name]
        code = subprocess.run(command, check=False).returncode
        if code:
            print(f"{name}: ended with {code}", file=sys.stderr)
    versions = f"PyMC {pm.__version__}, jax {jax.__version__}"
    print(f"{versions}\n")
    print("\n".join(table(a.folder, listed)))


if __name__ == "__main__":
    main()
