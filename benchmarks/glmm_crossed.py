"""Regressions with large and crossed groups, and two small ones, beside lme4: CPU seconds, memory
and estimates.

    python benchmarks/glmm_crossed.py [name ...]          # each in a process of its own, one thread
    python benchmarks/glmm_crossed.py --no-lmer million   # without R

`InstEval` is that of lme4, where R with lme4 is installed; `made` has its sizes, and numbers that
are known. lmer reads the same table from a file; the time is that of `lmer` alone, ours of
`vi.glmm`, `vi.auto` and `fit.summary` with all compilation."""

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

THREADS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_ENABLE_COMPILATION_CACHE": "0",
}
LONGEST = 900
"""Seconds that lmer is given."""


def insteval():
    """lme4's InstEval: 73,421 ratings of lectures by students."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "insteval.csv"
        columns = 'InstEval[, c("y", "s", "d", "service", "dept")]'
        script = f'library(lme4); write.csv({columns}, "{path}", row.names = FALSE, quote = FALSE)'
        subprocess.run(["Rscript", "-e", script], check=True, capture_output=True)
        table = np.genfromtxt(path, delimiter=",", names=True, dtype=int)
    return {name: table[name] for name in table.dtype.names}


def crossed(rows, people, items, seed=0, sds=(0.325, 0.521, 1.178), even=True):
    """Ratings of items by people, some items rated more than others; and some people rating more,
    where not `even`."""
    rng = np.random.default_rng(seed)
    activity = np.ones(people) if even else rng.gamma(0.8, size=people) + 0.1
    popularity = rng.gamma(0.8, size=items) + 0.01
    s = rng.choice(people, rows, p=activity / activity.sum())
    d = rng.choice(items, rows, p=popularity / popularity.sum())
    x = (rng.random(rows) < 0.43).astype(float)
    effects = sds[0] * rng.normal(size=people)[s] + sds[1] * rng.normal(size=items)[d]
    return {
        "y": 3.28 - 0.09 * x + effects + sds[2] * rng.normal(size=rows),
        "service": x,
        "s": s,
        "d": d,
    }


def one_factor(rows=1_000_000, groups=125_000, seed=0):
    """Rows of many groups with an intercept each."""
    rng = np.random.default_rng(seed)
    g, x = rng.integers(groups, size=rows), rng.normal(size=rows)
    return {
        "y": 1 + 0.5 * x + 0.7 * rng.normal(size=groups)[g] + rng.normal(size=rows),
        "x": x,
        "g": g,
    }


def zeros_and_ones(rows=100_000, people=1000, items=1000, seed=0):
    """Zeros and ones of people and items, crossed: intercept -0.3, slope 0.5, sds 0.8 and 0.6."""
    rng = np.random.default_rng(seed)
    s, d, x = rng.integers(people, size=rows), rng.integers(items, size=rows), rng.normal(size=rows)
    eta = -0.3 + 0.5 * x + 0.8 * rng.normal(size=people)[s] + 0.6 * rng.normal(size=items)[d]
    y = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    return {"y": y, "x": x, "s": s, "d": d}


def kb07(seed=0, people=56, items=32):
    """Like kb07: a factorial design of three factors within 56 people and 32 items, whose eight
    effects are all correlated."""
    rng = np.random.default_rng(seed)
    s, d = np.repeat(np.arange(people), items), np.tile(np.arange(items), people)
    cell = (s + d) % 8
    a, b, c = (np.where((cell >> k) & 1, 1.0, -1.0) for k in range(3))
    x = np.stack([np.ones(len(s)), a, b, c, a * b, a * c, b * c, a * b * c], 1)

    def draw(size, sds):
        root = rng.normal(size=(8, 8))
        square = root @ root.T + 8 * np.eye(8)
        spread = np.sqrt(np.diag(square))
        covariance = square * np.outer(sds / spread, sds / spread)
        return rng.normal(size=(size, 8)) @ np.linalg.cholesky(covariance).T

    of_people = draw(people, np.array([0.55, 0.12, 0.11, 0.15, 0.1, 0.1, 0.1, 0.12]))
    of_items = draw(items, np.array([0.65, 0.1, 0.45, 0.12, 0.1, 0.1, 0.12, 0.1]))
    mean = x @ np.array([2.18, -0.067, -0.33, 0.078, 0.022, -0.018, 0.005, -0.024])
    effects = (x * of_people[s]).sum(1) + (x * of_items[d]).sum(1)
    return {
        "y": mean + effects + 0.8 * rng.normal(size=len(s)),
        "a": a,
        "b": b,
        "c": c,
        "s": s,
        "d": d,
    }


def few_groups(seed=1):
    """10,000 zeros and ones in 100 groups."""
    rng = np.random.default_rng(seed)
    g, x = rng.integers(100, size=10_000), rng.normal(size=10_000)
    eta = 0.3 + 0.6 * x + 0.7 * rng.normal(size=100)[g]
    return {"y": (rng.random(10_000) < 1 / (1 + np.exp(-eta))).astype(int), "x": x, "g": g}


def sleepstudy():
    """lme4's sleepstudy: 180 reaction times of 18 subjects."""
    from tests.models.mixed_tables import SLEEP

    days, subject = (np.asarray(SLEEP[name]) for name in ("days", "subject"))
    numbers = np.unique(subject, return_inverse=True)[1]
    return {"y": np.asarray(SLEEP["reaction"], float), "days": days, "s": numbers}


class Case(NamedTuple):
    """A formula, a function that makes its table, and the law of the response."""

    formula: str
    table: Callable[[], dict[str, np.ndarray]]
    family: str = "gaussian"


BOTH = "y ~ service + (1 | s) + (1 | d)"
CASES = {
    "insteval": Case(BOTH, insteval),
    "insteval-dept": Case(f"{BOTH} + (1 | dept)", insteval),
    "made": Case(BOTH, lambda: crossed(73_421, 2_972, 1_128)),
    "73,000": Case(BOTH, lambda: crossed(73_000, 3_000, 300)),
    "20,000": Case(BOTH, lambda: crossed(20_000, 2_000, 100)),
    "million": Case(BOTH, lambda: crossed(1_000_209, 6_040, 3_706, even=False)),
    "groups": Case("y ~ x + (1 | g)", one_factor),
    "service-dept": Case("y ~ service * C(dept) + (1 | s) + (1 | d)", insteval),
    "kb07": Case("y ~ a * b * c + (a * b * c | s) + (a * b * c | d)", kb07),
    "zeros-ones": Case("y ~ x + (1 | s) + (1 | d)", zeros_and_ones, "bernoulli"),
    "few-groups": Case("y ~ x + (1 | g)", few_groups, "bernoulli"),
    "sleepstudy": Case("y ~ days + (days | s)", sleepstudy),
}


def ours(case):
    """Fits by vijax in this process."""
    import jax

    import vijax as vi

    table, begin = case.table(), time.process_time()
    model = vi.glmm(case.formula, table, family=case.family)
    read, begin = time.process_time() - begin, time.process_time()
    fit = vi.auto(model, key=jax.random.key(0))
    summary = fit.summary()
    fitted = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"vijax: read {read:.1f}, fitted {fitted:.1f} CPU seconds, {peak:.2f} GB. {fit.verdict}")
    estimates = zip(summary.names, summary.mean, summary.sd, strict=True)
    print(
        "  " + "; ".join(f"{name} {mean:.4f} ({sd:.4f})" for name, mean, sd in estimates),
        flush=True,
    )
    begin = time.process_time()
    vi.auto(model, key=jax.random.key(1))
    again, begin = time.process_time() - begin, time.process_time()
    model.draws(fit, jax.random.key(1), 200)
    print(
        f"  again, compiled {again:.1f}; 200 draws of all effects "
        f"{time.process_time() - begin:.1f} CPU seconds"
    )


LMER = """
suppressMessages(library(lme4))
table <- read.csv("{path}")
for (name in c({factors})) table[[name]] <- factor(table[[name]])
begin <- proc.time()
model <- {call}
spent <- proc.time() - begin
peak <- as.numeric(strsplit(grep("VmHWM", readLines("/proc/self/status"), value = TRUE), " +")[[1]][2]) / 2^20
cat(sprintf("lme4 %s: %.1f CPU seconds, %.2f GB\\n", packageVersion("lme4"), spent[[1]] + spent[[2]], peak))
sds <- as.data.frame(VarCorr(model))
cat("  ", paste(sds$grp, sprintf("%.4f", sds$sdcor)), "; ")
cat(paste(names(fixef(model)), sprintf("%.4f (%.4f)", fixef(model), sqrt(diag(as.matrix(vcov(model)))))), "\\n")
"""


def theirs(case):
    """Fits by lmer in a process of R."""
    table = case.table()
    names = ("s", "d", "dept", "g")
    factors = [
        name for name in names if f"| {name})" in case.formula or f"C({name})" in case.formula
    ]
    formula = case.formula.replace("C(dept)", "dept")
    call = f"lmer({formula}, table, control = lmerControl(calc.derivs = FALSE))"
    if case.family != "gaussian":
        control = "family = binomial, control = glmerControl(calc.derivs = FALSE)"
        call = f"glmer({formula}, table, {control})"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        np.savetxt(
            path,
            np.stack(list(table.values()), 1),
            "%.9g",
            ",",
            header=",".join(table),
            comments="",
        )
        script = LMER.format(
            path=path, factors=", ".join(f'"{name}"' for name in factors), call=call
        )
        environment = os.environ | THREADS
        try:
            done = subprocess.run(
                ["Rscript", "-e", script], env=environment, capture_output=True, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            print(f"lme4: not ended after {LONGEST} s", flush=True)
            return
    print(done.stdout.decode().strip() or done.stderr.decode()[-500:], flush=True)


def main(names):
    """Prints what was measured of each case."""
    with_lmer = "--no-lmer" not in names
    for name in [name for name in names if name in CASES] or CASES:
        case = CASES[name]
        print(f"\n## {name}: `{case.formula}`\n", flush=True)
        subprocess.run(
            [sys.executable, __file__, "--own", name], env=os.environ | THREADS, check=True
        )
        if with_lmer:
            with contextlib.suppress(FileNotFoundError):  # no R
                theirs(case)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--own"]:
        ours(CASES[sys.argv[2]])
    else:
        main(sys.argv[1:])
