"""`vijax check`: all that can be checked of a run in about a minute, and its verdict on the run's
page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from vijax.app.catalogue.parts.density_algorithm import is_at_once
from vijax.app.drawing import blocks
from vijax.app.folder.claim import locked
from vijax.app.folder.restored import again, restore
from vijax.app.folder.run_end import end_of
from vijax.app.folder.run_folder import Say, read_json, read_run_config, write_json
from vijax.app.plan.config import Config, ConfigError
from vijax.app.report.pages import write_pages
from vijax.app.settings.progress import announced
from vijax.app.settings.typed_toml import check_seed
from vijax.evaluate import metrics
from vijax.trust.check import Check, Verdict, check

TITLES = ("Can it be trusted?", "How far each number may be off")


def check_run(folder: Path, seed: int, training: str | None, say: Say) -> Verdict:
    """The verdict on a run that has ended, which its result.json and its page then have too."""
    check_seed(seed)
    config = read_run_config(folder)
    ended = end_of(folder)
    if ended is None:
        raise ConfigError(
            f"{folder}: expected a run that has ended; go on with it: vijax resume {folder}"
        )
    with locked(folder), config.in_precision():
        plan = again(folder, config, training)
        if plan.data.whole is not plan.data.train:
            raise ConfigError(
                f"{folder}: its {config.listing.unit}s are more than data.sample, and a check "
                "reads all of them at once"
            )
        run = restore(folder, plan)
        with announced(say, "Checking ... (it takes about a minute)"):
            fit = run.fit._replace(trace=_trace(folder, config, plan.batch_size))
            verdict = _of_run(check(fit, plan.training, key=jax.random.key(seed)), config, ended)
        path = folder / "result.json"
        record = read_json(path, f"write it again: vijax resume {folder}")
        kept = [block for block in record["blocks"] if block.get("title") not in TITLES]
        write_json(path, record | {"blocks": [*kept, *blocks.to_json(blocks_of(verdict))]})
        write_pages(folder)
    return verdict


def _trace(folder: Path, config: Config, size: int | None) -> dict[str, np.ndarray]:
    """The objective step by step, as other starts are compared with it; empty for a fit that has no
    such steps."""
    if is_at_once(config):
        return {}
    steps = [
        record for record in metrics.read(folder / "metrics.jsonl") if record["kind"] == "step"
    ]
    found: dict[str, Any] = {"elbo": np.array([record.get("elbo") for record in steps], float)}
    return found | ({} if size is None else {"num_groups": np.array([size])})


def _of_run(verdict: Verdict, config: Config, ended: dict[str, Any]) -> Verdict:
    """A verdict with what the run itself has said: that it is of no use, and that it has searched
    from many starts."""
    checks, faults = verdict.checks, verdict.faults
    if is_at_once(config):
        searched = (
            "Searches from several starts were part of the run; what they found is above, in its "
            "verdict."
        )
        checks = checks | {"restarts": Check(searched, made=False)}
    if not ended["usable"]:
        faults = ["The run itself says: do not use this fit (vijax summary says why).", *faults]
    return verdict._replace(usable=not faults, faults=faults, checks=checks)


def blocks_of(verdict: Verdict) -> list[blocks.Table]:
    """The verdict as tables: a row for each check, above what was found; and a row for each number
    of q."""
    checks = [
        [name, one.said if one.made else f"not made. {one.said}"]
        for name, one in verdict.checks.items()
    ]
    found = " ".join(verdict.faults) or "No check found a fault."
    rows = [
        [
            one.name,
            one.mean,
            one.sd,
            one.mean_within,
            one.mean_by,
            np.exp(one.log_sd_within),
            one.log_sd_by,
        ]
        for one in verdict.quantities
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
    tables = [blocks.Table(TITLES[0], ["check", "what it says"], checks, found)]
    return [*tables, blocks.Table(TITLES[1], header, rows, note)] if rows else tables
