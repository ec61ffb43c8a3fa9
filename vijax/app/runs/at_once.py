"""Fits that run to their own end, `vijax.auto` and `vijax.dadvi`. Stopped by Ctrl-C, they leave their stage in the
run's folder (`vijax.automatic.trust_region.Stage`), from which they go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.app.settings.options import settings_taken
from vijax.app.settings.typed_toml import ConfigError, Entry
from vijax.automatic.auto import auto
from vijax.automatic.dadvi import dadvi
from vijax.automatic.trust_region import Stage
from vijax.fitting.fit import Progress
from vijax.fitting.result import Fit
from vijax.inference.compose import Algorithm

METHODS: dict[str, Callable[..., Fit]] = {"auto": auto, "dadvi": dadvi}


def is_at_once(config: Any) -> bool:
    """Whether the algorithm of a run stops by itself, after no number of steps that was asked for."""
    return config.algorithm.name in METHODS


def check(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on settings [fit] that mean nothing to them; passes over the data they may ignore."""
    name = config.algorithm.name
    if not is_at_once(config):
        return
    starts = "auto has starts of its own: algorithm.num_starts" if name == "auto" else "dadvi has sixteen starts"
    for key, is_set, why in (
        ("restarts", config.fit.restarts > 1, starts),
        ("convergence", config.fit.convergence is not None, f"{name} judges by itself when it has converged"),
        ("batch_size", name == "dadvi" and config.fit.batch_size is not None, "dadvi reads all the data at every step"),
    ):
        if is_set:
            raise ConfigError(f"{entries[f'fit.{key}'].origin}: fit.{key}: not for algorithm.name = {name}: {why}")


def fitted(
    config: Any,
    algorithm: Algorithm,
    data: Any,
    key: PRNGKeyArray,
    callbacks: tuple[Callable[[Any], Any], ...],
    stage: Stage | None,
) -> Fit:
    """The fit, shown to the callbacks once, at its end. It is a function of data and key: begun again, or gone on with
    from its stage, it is the same.

    Its steps are those of its trace, which the state counts as such.
    """
    more = settings_taken(config.algorithm)
    if config.fit.batch_size is not None:
        more["batch_size"] = config.fit.batch_size
    began = time.perf_counter()
    fit = METHODS[config.algorithm.name](algorithm.spec.model, data, key=key, stage=stage, **more)
    if not len(fit.trace["step"]):  # at its end from the start
        fit = fit._replace(trace={"step": np.zeros(1, int), "elbo": np.array([fit.elbo.value])})
    steps = len(fit.trace["step"])
    state = fit.state._replace(step=jnp.asarray(steps, fit.state.step.dtype))
    fit = fit._replace(state=state)
    total = 1 if data is None else int(jax.tree.leaves(data)[0].shape[0])
    took = time.perf_counter() - began
    seen = Progress(steps, steps, 1, state, fit.trace, total, None, took, total, None, fit.alg, True, state)
    for callback in callbacks:
        callback(seen)
    return fit
