"""`vijax check`: all checks of a run that take about a minute, and the verdict on its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from vijax.app.catalogue.parts.density_algorithm import is_at_once
from vijax.app.drawing import blocks
from vijax.app.folder.claim import hold_lock
from vijax.app.folder.restored import reread_plan, restore
from vijax.app.folder.run_end import read_end
from vijax.app.folder.run_folder import Say, read_json, read_run_config, write_json
from vijax.app.plan.config import Config, ConfigError
from vijax.app.report.pages import write_pages
from vijax.app.settings.progress import announce_if_slow
from vijax.app.settings.quoting import quote
from vijax.app.settings.typed_toml import check_seed
from vijax.evaluate import metrics
from vijax.trust.check import Check, Verdict, check

TITLES = ("Can it be trusted?", "How far each number may be off")


def check_run(folder: Path, seed: int, training: str | None, say: Say) -> Verdict:
    """The verdict on a run that has ended; it is written to result.json and the page too."""
    check_seed(seed)
    config = read_run_config(folder)
    end = read_end(folder)
    if end is None:
        raise ConfigError(
            f"{folder}: expected a run that has ended; go on with it: vijax resume {quote(folder)}"
        )
    with hold_lock(folder), config.in_precision():
        plan = reread_plan(folder, config, training)
        if plan.data.whole is not plan.data.train:
            raise ConfigError(
                f"{folder}: its {config.listing.unit}s are more than data.sample, and a check "
                "reads all of them at once"
            )
        run = restore(folder, plan)
        with announce_if_slow(say, "Checking ... (it takes about a minute)"):
            fit = run.fit._replace(trace=_trace(folder, config, plan.batch_size))
            verdict = check(fit, plan.training, key=jax.random.key(seed))
            verdict = _with_run_facts(verdict, config, end)
        path = folder / "result.json"
        record = read_json(path, f"write it again: vijax resume {quote(folder)}")
        other_blocks = [block for block in record["blocks"] if block.get("title") not in TITLES]
        write_json(path, record | {"blocks": [*other_blocks, *blocks.to_json(to_blocks(verdict))]})
        write_pages(folder)
    return verdict


def _trace(folder: Path, config: Config, size: int | None) -> dict[str, np.ndarray]:
    """The objective by step, for comparison with other starts; empty for a fit without steps."""
    if is_at_once(config):
        return {}
    records = metrics.read(folder / "metrics.jsonl")
    steps = [record for record in records if record["kind"] == "step"]
    trace: dict[str, Any] = {"elbo": np.array([record.get("elbo") for record in steps], float)}
    if size is not None:
        trace["num_groups"] = np.array([size])
    return trace


def _with_run_facts(verdict: Verdict, config: Config, end: dict[str, Any]) -> Verdict:
    """The verdict with what the run has reported: it is of no use, or has tried many starts."""
    checks = verdict.checks
    faults = verdict.faults
    if is_at_once(config):
        note = (
            "Searches from several starts were part of the run; what they found is above, in its "
            "verdict."
        )
        checks = checks | {"restarts": Check(note, made=False)}
    if not end["usable"]:
        faults = ["The run itself says: do not use this fit (vijax summary says why).", *faults]
    return verdict._replace(usable=not faults, faults=faults, checks=checks)


def to_blocks(verdict: Verdict) -> list[blocks.Table]:
    """The verdict as tables: a row for each check, and a row for each number of q."""
    checks = [
        [name, check.said if check.made else f"not made. {check.said}"]
        for name, check in verdict.checks.items()
    ]
    summary = " ".join(verdict.faults) or "No check found a fault."
    rows = [
        [
            number.name,
            number.mean,
            number.sd,
            number.mean_within,
            number.mean_by,
            np.exp(number.log_sd_within),
            number.log_sd_by,
        ]
        for number in verdict.quantities
    ]
    header = [
        "number",
        "mean",
        "sd",
        "mean off by up to (sd)",
        "by",
        "sd off by up to a factor of",
        "by",
    ]
    note = (
        "Two standard errors of the check are included; empty where no check could judge the "
        "number. Numbers are those "
        "of the model: of standardised columns, where the run has standardised them."
    )
    tables = [blocks.Table(TITLES[0], ["check", "what it says"], checks, summary)]
    if rows:
        tables.append(blocks.Table(TITLES[1], header, rows, note))
    return tables
