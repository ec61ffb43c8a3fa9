"""Regressions by a formula beside lme4, glmmTMB, gpboost and Bambi, on the same tables.

    python benchmarks/glmm_peers.py                            # all tables, all tools that are there
    python benchmarks/glmm_peers.py sleepstudy cbpp            # some tables
    python benchmarks/glmm_peers.py --peers-python PYTHON ...  # an interpreter with bambi, nutpie and gpboost
    python benchmarks/glmm_peers.py --only vijax,bambi ...     # some tools

The tables are those of lme4, glmmTMB, nlme, MASS and HSAUR3, where R has them, and two that are
made. Each tool has a process of its own, with one thread and `MOST_SECONDS` of processor time.
Printed are tables in Markdown (`results_glmm.md`): CPU seconds of the fit and its summary without
imports and reading, cold and again; the peak of the process; estimates and standard errors, or
means and sds."""

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from glmm_crossed import THREADS, zeros_and_ones

MOST_SECONDS = 400
"""Seconds of processor time that a tool is given for a table."""


class Case(NamedTuple):
    """A table and a regression.

    Attributes:
      formula: as vijax and Bambi read it.
      family: its name there.
      read: R's expression of the table, or "" for one that is made.
      fit: R's expressions of fits of the formula `f` to `t`, by the name of the tool.
      factors: columns that are categories.
      groups: grouping factors of gpboost; none where it is not run.
      columns: columns of gpboost's fixed effects.
      r_formula: the formula in R, where it is written otherwise there.
    """

    formula: str
    family: str
    read: str
    fit: dict[str, str]
    factors: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    r_formula: str = ""


INTERCEPTS = "y ~ x + (1 | s) + (1 | d)"
FAST = "control = glmerControl(calc.derivs = FALSE)"
CASES = {
    "sleepstudy": Case(
        "Reaction ~ Days + (Days | Subject)",
        "gaussian",
        "lme4::sleepstudy",
        {
            "lmer": "lmer(f, t)",
            "glmmTMB": "glmmTMB(f, t, REML = TRUE)",
        },
        ("Subject",),
    ),
    "cbpp": Case(
        "p(incidence, size) ~ period + (1 | herd)",
        "binomial",
        "lme4::cbpp",
        {
            "glmer": "glmer(f, t, family = binomial)",
            "glmmTMB": "glmmTMB(f, t, family = binomial)",
        },
        ("period", "herd"),
        r_formula="cbind(incidence, size - incidence) ~ period + (1 | herd)",
    ),
    "epil": Case(
        "y ~ lbase * trt + lage + V4 + (1 | subject)",
        "poisson",
        "within(MASS::epil, {lbase <- log(base / 4); lbase <- lbase - mean(lbase); "
        'lage <- log(age) - mean(log(age))})[, c("y", "lbase", "trt", "lage", "V4", "subject")]',
        {
            "glmer": "glmer(f, t, family = poisson)",
            "glmmTMB": "glmmTMB(f, t, family = poisson)",
        },
        ("trt", "subject"),
        ("subject",),
        ("lbase", "trt", "lage", "V4"),
    ),
    "Salamanders": Case(
        "count ~ spp + mined + (1 | site)",
        "negativebinomial",
        'glmmTMB::Salamanders[, c("count", "spp", "mined", "site")]',
        {"glmmTMB": "glmmTMB(f, t, family = nbinom2)"},
        ("spp", "mined", "site"),
    ),
    "grouseticks": Case(
        "TICKS ~ YEAR + height + (1 | BROOD) + (1 | INDEX) + (1 | LOCATION)",
        "poisson",
        'within(lme4::grouseticks, {height <- (HEIGHT - mean(HEIGHT)) / 100; YEAR <- paste0("y", YEAR)})'
        '[, c("TICKS", "YEAR", "height", "BROOD", "INDEX", "LOCATION")]',
        {
            "glmer": "glmer(f, t, family = poisson)",
            "glmmTMB": "glmmTMB(f, t, family = poisson)",
        },
        ("YEAR", "BROOD", "INDEX", "LOCATION"),
        ("BROOD", "INDEX", "LOCATION"),
        ("YEAR", "height"),
    ),
    "Pastes": Case(
        "strength ~ 1 + (1 | batch) + (1 | sample)",
        "gaussian",
        'lme4::Pastes[, c("strength", "batch", "sample")]',
        {
            "lmer": "lmer(f, t)",
            "glmmTMB": "glmmTMB(f, t, REML = TRUE)",
        },
        ("batch", "sample"),
        ("batch", "sample"),
    ),
    "Machines": Case(
        "score ~ Machine + (Machine | Worker)",
        "gaussian",
        "as.data.frame(nlme::Machines)",
        {
            "lmer": "lmer(f, t)",
            "glmmTMB": "glmmTMB(f, t, REML = TRUE)",
        },
        ("Machine", "Worker"),
    ),
    "VerbAgg": Case(
        "y ~ Anger + Gender + btype + situ + (1 | id) + (1 | item)",
        "bernoulli",
        'within(lme4::VerbAgg, {y <- as.integer(r2 == "Y")})'
        '[, c("y", "Anger", "Gender", "btype", "situ", "id", "item")]',
        {
            "glmer": f"glmer(f, t, family = binomial, {FAST})",
            "glmmTMB": "glmmTMB(f, t, family = binomial)",
        },
        ("Gender", "btype", "situ", "id", "item"),
        ("id", "item"),
        ("Anger", "Gender", "btype", "situ"),
    ),
    "toenail": Case(
        "y ~ treatment * time + (1 | patientID)",
        "bernoulli",
        'within(HSAUR3::toenail, {y <- as.integer(outcome != "none or mild")})'
        '[, c("y", "treatment", "time", "patientID")]',
        {
            "glmer": "glmer(f, t, family = binomial)",
            "glmer with 20 nodes": "glmer(f, t, family = binomial, nAGQ = 20)",
            "glmmTMB": "glmmTMB(f, t, family = binomial)",
        },
        ("treatment", "patientID"),
        ("patientID",),
        ("treatment", "time"),
    ),
    "InstEval": Case(
        "y ~ service + (1 | s) + (1 | d)",
        "gaussian",
        'within(lme4::InstEval, {service <- as.integer(service) - 1L})[, c("y", "service", "s", "d")]',
        {"lmer": "lmer(f, t, control = lmerControl(calc.derivs = FALSE))"},
        ("s", "d"),
        ("s", "d"),
        ("service",),
    ),
    "zeros-ones": Case(
        INTERCEPTS,
        "bernoulli",
        "",
        {
            "glmer with nAGQ=0": f"glmer(f, t, family = binomial, nAGQ = 0, {FAST})",
            "glmer": f"glmer(f, t, family = binomial, {FAST})",
        },
        ("s", "d"),
        ("s", "d"),
        ("x",),
    ),
}


def write_table(case: Case, path: Path) -> bool:
    """Writes the table as CSV; False where R or its package is not there."""
    if not case.read:
        table = zeros_and_ones()
        columns = np.stack(list(table.values()), 1)
        np.savetxt(path, columns, "%.9g", ",", header=",".join(table), comments="")
        return True
    script = f'write.csv({case.read}, "{path}", row.names = FALSE)'
    try:
        done = subprocess.run(["Rscript", "-e", script], capture_output=True)
    except FileNotFoundError:
        return False
    return done.returncode == 0


def read_table(path: Path, case: Case):
    """The table as a DataFrame."""
    import pandas as pd

    table = pd.read_csv(path)
    for name in case.factors:
        table[name] = table[name].astype(str).astype("category")
    return table


def gigabytes() -> float:
    """The peak of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


WIDER = 100.0
"""By how much "wide priors" are wider than the usual ones: flat, for these tables."""


def by_vijax(case: Case, path: Path, is_wide: bool = False) -> dict[str, Any]:
    """Fit, summary, and a second fit with another key."""
    import jax

    import vijax as vi

    table = read_table(path, case)
    priors = None
    if is_wide:
        usual = vi.glmm(case.formula, table, family=case.family).priors
        priors = {
            name: (*prior[:-1], WIDER * prior[-1])
            for name, prior in usual.items()
            if prior[0] in ("normal", "half_normal")
        }
    begin = time.process_time()
    model = vi.glmm(case.formula, table, family=case.family, priors=priors)
    fit = vi.auto(model, key=jax.random.key(0))
    summary = fit.summary()
    cold = time.process_time() - begin
    begin = time.process_time()
    vi.auto(model, key=jax.random.key(1)).summary()
    again = time.process_time() - begin
    estimates = {
        name: (float(mean), float(sd))
        for name, mean, sd in zip(summary.names, summary.mean, summary.sd, strict=True)
    }
    said = str(fit.verdict)
    return {"cold": cold, "again": again, "estimates": estimates, "said": said}


def by_bambi(case: Case, path: Path) -> dict[str, Any]:
    """Bambi by nutpie: four chains of 1,000 draws after 1,000 steps of warm-up, one after another."""
    import arviz as az
    import bambi as bmb

    table = read_table(path, case)
    begin = time.process_time()
    model = bmb.Model(case.formula, table, family=case.family)
    options: dict[str, Any] = {"tune": 1000, "draws": 1000, "chains": 4, "cores": 1}
    data = model.fit(inference_method="nutpie", random_seed=1, **options)
    names = [name for name in data.posterior.data_vars if name != "mu"]
    kept = [
        name for name in names if not any("__factor_dim" in x for x in data.posterior[name].dims)
    ]
    summary = az.summary(data, var_names=kept, round_to=8)
    cold = time.process_time() - begin
    columns = [name for name in ("mean", "sd") if name in summary.columns]
    estimates = {
        str(name): tuple(float(row[column]) for column in columns)
        for name, row in summary.iterrows()
    }
    return {"cold": cold, "estimates": estimates}


def by_gpboost(case: Case, path: Path) -> dict[str, Any]:
    """Maximum likelihood by gpboost (Laplace; Krylov methods for crossed effects)."""
    import gpboost as gpb
    import pandas as pd

    table = read_table(path, case)
    likelihoods = {"bernoulli": "bernoulli_logit", "gaussian": "gaussian", "poisson": "poisson"}
    x = pd.DataFrame({"Intercept": np.ones(len(table))})
    if case.columns:
        codes = pd.get_dummies(table[list(case.columns)], drop_first=True)
        x = x.join(codes.astype(float))
    response = case.formula.split(" ~ ")[0]
    groups = np.stack([pd.factorize(table[name])[0] for name in case.groups], 1)
    y = table[response].to_numpy(float)
    cold, model = [], None
    for _ in range(2):
        begin = time.process_time()
        model = gpb.GPModel(
            group_data=groups, likelihood=likelihoods[case.family], num_parallel_threads=1
        )
        model.fit(y=y, X=x.to_numpy())
        coefficients = model.get_coef(std_err=True)
        variances = model.get_cov_pars(std_err=False)
        cold.append(time.process_time() - begin)
    both = coefficients.to_numpy()
    estimates = {name: (both[0, i], both[1, i]) for i, name in enumerate(x.columns)}
    names = [f"1|{name}_sigma" for name in case.groups]
    values = variances.to_numpy().ravel()
    if case.family == "gaussian":
        names.insert(0, "sigma")
    estimates |= {name: (math.sqrt(x), math.nan) for name, x in zip(names, values, strict=True)}
    return {"cold": cold[0], "again": cold[1], "estimates": estimates}


R_SCRIPT = """
suppressMessages({{library(lme4); try(library(glmmTMB), silent = TRUE)}})
t <- read.csv("{path}")
for (name in c({factors})) t[[name]] <- factor(t[[name]])
f <- {formula}
spend <- function() {{
  begin <- proc.time()
  m <<- suppressMessages({fit})
  s <<- summary(m)
  spent <- proc.time() - begin
  spent[[1]] + spent[[2]]
}}
cold <- spend()
again <- if (cold < 60) spend() else NA
status <- grep("VmHWM", readLines("/proc/self/status"), value = TRUE)
peak <- as.numeric(strsplit(status, " +")[[1]][2]) / 2^20
is_tmb <- inherits(m, "glmmTMB")
coefficients <- if (is_tmb) s$coefficients$cond else s$coefficients
groups <- if (is_tmb) VarCorr(m)$cond else VarCorr(m)
line <- function(name, a, b) cat("E", name, a, b, "\\n", sep = "\\t")
for (i in seq_len(nrow(coefficients))) {{
  line(rownames(coefficients)[i], coefficients[i, 1], coefficients[i, 2])
}}
for (g in names(groups)) {{
  sds <- attr(groups[[g]], "stddev")
  for (k in seq_along(sds)) line(paste0(names(sds)[k], "|", g, "_sigma"), sds[[k]], NaN)
  r <- attr(groups[[g]], "correlation")
  for (a in seq_along(sds)) for (b in seq_len(a - 1)) {{
    line(paste0("corr(", names(sds)[b], ", ", names(sds)[a], "|", g, ")"), r[a, b], NaN)
  }}
}}
line("sigma", sigma(m), NaN)
cat("T", cold, again, peak, sep = "\\t")
"""


def by_r(case: Case, path: Path, tool: str) -> dict[str, Any]:
    """A fit by R, in this process' child."""
    factors = ", ".join(f'"{name}"' for name in case.factors)
    formula = case.r_formula or case.formula
    fit = case.fit[tool]
    script = R_SCRIPT.format(path=path, factors=factors, formula=formula, fit=fit)
    done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    estimates = {x[1].strip(): (float(x[2]), float(x[3])) for x in lines if x[0] == "E"}
    times = [
        float(x) if x != "NA" else math.nan for line in lines if line[0] == "T" for x in line[1:]
    ]
    if not times:
        return {"failed": done.stderr[-300:] or f"ended with {done.returncode}"}
    return {"cold": times[0], "again": times[1], "peak": times[2], "estimates": estimates}


def worker(name: str, tool: str, path: Path) -> dict[str, Any]:
    """The figures of one tool, in this process."""
    case = CASES[name]
    if tool == "vijax":
        figures = by_vijax(case, path)
    elif tool == "vijax with wide priors":
        figures = by_vijax(case, path, True)
    elif tool == "bambi":
        figures = by_bambi(case, path)
    elif tool == "gpboost":
        figures = by_gpboost(case, path)
    else:
        return by_r(case, path, tool)
    return {"peak": gigabytes()} | figures


def measure(name: str, tool: str, path: Path, python: str) -> dict[str, Any]:
    """The figures of one tool, in a process of its own."""
    command = [python, __file__, "--worker", name, tool, str(path)]
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    environment = os.environ | THREADS
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, preexec_fn=limit
    )
    for line in done.stdout.splitlines():
        if line.startswith("FIGURES "):
            return json.loads(line[8:])
    if done.returncode < 0:
        return {"failed": f"not ended after {MOST_SECONDS} CPU seconds"}
    return {"failed": (done.stderr.strip().splitlines() or ["no reason"])[-1][:200]}


def tools_of(case: Case, python: str) -> list[tuple[str, str]]:
    """Names of the tools of a case, and the interpreters that run them."""
    tools = [("vijax", sys.executable), ("vijax with wide priors", sys.executable)]
    tools += [(tool, sys.executable) for tool in case.fit]
    if python:
        tools += [("gpboost", python)] if case.groups else []
        tools.append(("bambi", python))
    return tools


def report(name: str, case: Case, all_figures: dict[str, dict[str, Any]]) -> None:
    """Prints the section of a case."""
    print(f"\n### {name}: `{case.formula}`, {case.family}\n")
    print(
        "| by | CPU s | again | GB | estimates (standard errors, or sds) |\n|---|---|---|---|---|"
    )
    for tool, figures in all_figures.items():
        if "failed" in figures:
            print(f"| {tool} | {figures['failed']} | | | |")
            continue
        again = figures.get("again", math.nan)
        times = f"{figures['cold']:.1f} | {'' if math.isnan(again) else f'{again:.1f}'}"
        estimates = "; ".join(
            f"{x.replace('|', chr(92) + '|')} {pair[0]:.4g}"
            + ("" if len(pair) < 2 or math.isnan(pair[1]) else f" ({pair[1]:.2g})")
            for x, pair in figures["estimates"].items()
        )
        print(f"| {tool} | {times} | {figures['peak']:.2f} | {estimates} |")
    for tool in ("vijax", "vijax with wide priors"):
        said = all_figures.get(tool, {}).get("said")
        if said:
            print(f"\n{tool}: {said}")
    sys.stdout.flush()


def main(arguments: list[str]) -> None:
    """Measures the cases that are named, or all."""
    python, only = "", ""
    if "--peers-python" in arguments:
        i = arguments.index("--peers-python")
        python = arguments[i + 1]
        del arguments[i : i + 2]
    if "--only" in arguments:
        i = arguments.index("--only")
        only = arguments[i + 1]
        del arguments[i : i + 2]
    for name in arguments or list(CASES):
        case = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"
            if not write_table(case, path):
                print(f"\n### {name}: R does not have this table")
                continue
            wanted = only.split(",")
            tools = [
                (tool, with_)
                for tool, with_ in tools_of(case, python)
                if not only or tool in wanted
            ]
            report(name, case, {tool: measure(name, tool, path, with_) for tool, with_ in tools})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        print("FIGURES " + json.dumps(worker(sys.argv[2], sys.argv[3], Path(sys.argv[4]))))
    else:
        main(sys.argv[1:])
