"""Fits that stop by themselves, `vijax.auto` and `vijax.dadvi`, and their files in a run's folder.

A fit stopped by Ctrl-C leaves its stage (`vijax.automatic.trust_region.Stage`), from which it
resumes.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.app.catalogue.parts.density_algorithm import METHODS, is_at_once
from vijax.app.folder.run_folder import latest_checkpoint, noted_settings, read_json, write_json
from vijax.app.plan.plan import Plan
from vijax.app.settings.options import option_settings
from vijax.app.settings.quoting import quote
from vijax.app.settings.typed_toml import DamagedError
from vijax.automatic.as_fits import mixture_algorithm
from vijax.automatic.auto import MOST_FULL, NUM_STARTS
from vijax.automatic.trust_region import Stage, stage_like
from vijax.families.vector.normal_mixture import NormalMixture
from vijax.fitting import checkpoint
from vijax.fitting.fit import Progress
from vijax.fitting.result import Fit
from vijax.fitting.status import Status
from vijax.inference.compose import Algorithm
from vijax.inference.guides import Z

MIXTURE = "mixture.json"
"""Holds the number of normals if q is a mixture; no setting tells it, and shapes depend on it."""
STAGE = "stage"


def fit_at_once(
    plan: Plan,
    key: PRNGKeyArray,
    callbacks: tuple[Callable[[Any], Any], ...],
    stage: Stage | None,
) -> Fit:
    """The fit, shown to the callbacks once, at its end.

    It depends on data and key alone: a fit repeated, or resumed from its stage, is the same. The
    state counts the steps of the trace.
    """
    config = plan.config
    data = plan.training
    model = plan.algorithm.spec.model
    options = option_settings(config.algorithm)
    if config.fit.batch_size is not None:
        options["batch_size"] = config.fit.batch_size
    start_time = time.perf_counter()
    fit = METHODS[config.algorithm.name](model, data, key=key, stage=stage, **options)
    if not len(fit.trace["step"]):  # at its end from the start
        fit = fit._replace(trace={"step": np.zeros(1, int), "elbo": np.array([fit.elbo.value])})
    steps = len(fit.trace["step"])
    state = fit.state._replace(step=jnp.asarray(steps, fit.state.step.dtype))
    fit = fit._replace(state=state)
    total = 1 if data is None else int(jax.tree.leaves(data)[0].shape[0])
    elapsed = time.perf_counter() - start_time
    progress = Progress(
        steps, steps, 1, state, fit.trace, total, None, elapsed, total, None, fit.alg, True, state
    )
    for callback in callbacks:
        callback(progress)
    return fit


def mixture_writer(folder: Path) -> Callable[[Progress], None]:
    """A callback that writes the size of a mixture, before the checkpoint of its state."""

    def write(progress: Progress) -> None:
        (folder / MIXTURE).unlink(missing_ok=True)
        q = progress.state.posterior[Z]
        if isinstance(q, NormalMixture):
            write_json(folder / MIXTURE, {"components": int(q.logits.size)})

    return write


def kept_algorithm(folder: Path, plan: Plan) -> Algorithm:
    """The algorithm whose states the checkpoints hold: that of the settings, or of the mixture that
    the run has kept."""
    path = folder / MIXTURE
    if not is_at_once(plan.config) or not path.is_file():
        return plan.algorithm
    remedy = f"fit it again: vijax resume {quote(folder)}"
    count = read_json(path, remedy).get("components")
    if not isinstance(count, int) or count < 1:
        raise DamagedError(f"{path}: damaged: expected the number of components", remedy)
    return mixture_algorithm(plan.algorithm.spec.model, count)  # type: ignore[arg-type]


def read_stage(folder: Path, plan: Plan, say: Callable[[str], None]) -> Stage | None:
    """The stage at which a fit was stopped; None if there is none.

    Raises:
      ConfigError: the stage is of other settings.
    """
    config = plan.config
    free: Any = plan.algorithm.spec.model.free  # these methods have free variables alone
    dim = free.variables.dim
    is_auto = config.algorithm.name == "auto"
    starts = NUM_STARTS
    if is_auto:
        starts = option_settings(config.algorithm).get("num_starts") or NUM_STARTS
    is_placed = free.hierarchy is not None
    like = stage_like(dim, starts, is_auto and dim <= MOST_FULL, is_placed)
    newest = latest_checkpoint(folder, config, like, say, STAGE)
    return None if newest is None else newest.tree


def keep_stage(folder: Path, config: Any, fit: Fit) -> None:
    """Writes the stage of a fit that was stopped; removes it if the fit has ended."""
    if fit.report.stage is not None:
        checkpoint.save(folder / STAGE, 0, fit.report.stage, noted_settings(folder, config))
    elif fit.status is not Status.INTERRUPTED:
        shutil.rmtree(folder / STAGE, ignore_errors=True)
