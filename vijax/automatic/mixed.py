"""`vijax.auto` of an energy with free variables beside conjugate ones: stochastic steps until they drift no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from vijax.algorithms import svi
from vijax.automatic import judged_words
from vijax.automatic.conjugate import end_in_words
from vijax.automatic.report import Estimate, Report
from vijax.contract.model import Model
from vijax.fitting.fit import DivergedError, fit
from vijax.fitting.judge import not_judged
from vijax.fitting.loader import as_loader
from vijax.fitting.result import Fit
from vijax.fitting.status import Status, skipped_text
from vijax.inference.guides import Z

STARTS, FIRST, MOST = 4, 500, 8_000
"""Starts side by side for the first steps, of which the best goes on; so many steps; and at most so many in all."""
LARGE, BATCH = 5_000, 256
"""Groups up to which all are taken at each step; and of what size minibatches are beyond."""
DRIFT = 0.05
"""Nats that the bound may gain, beyond its noise, from the third quarter of a run to the last, where it ends."""


def of_mixed(model: Model, data: Any, *, key: PRNGKeyArray, num_starts: int | None) -> Fit:
    """See `vijax.auto`."""
    groups = as_loader(data, model, None, 0).num_groups
    size = None if groups <= LARGE else BATCH
    starts = num_starts or STARTS
    done = _fitted(svi(model), data, key=key, num_steps=FIRST, batch_size=size, restarts=starts)
    done.trace.pop("restart_elbo", None)
    traces = [done.trace]
    while done.status is Status.FINISHED and not _is_settled(_joined(traces)["elbo"]) and done.state.step < MOST:
        more = 2 * int(done.state.step)
        done = _fitted(done.alg, data, key=key, num_steps=more, batch_size=size, state=done.state)
        traces.append(done.trace)
    done = done._replace(trace=_joined(traces))
    return done if done.status is Status.UNBOUNDED else _reported(done, starts)


def _fitted(*args: Any, **kwargs: Any) -> Fit:
    """As `vijax.fit`; where the bound grows without limit the fit says so, and is no error."""
    try:
        return fit(*args, **kwargs)
    except DivergedError as error:
        if error.fit.status is Status.UNBOUNDED:
            return error.fit
        raise


def _joined(traces: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """One trace of all steps."""
    return {name: np.concatenate([trace[name] for trace in traces]) for name in traces[0]}


def _mean(bounds: Float[np.ndarray, " steps"]) -> Estimate:
    bounds = bounds.astype(np.float64)
    return Estimate(float(bounds.mean()), float(bounds.std(ddof=1) / np.sqrt(len(bounds))))


def _is_settled(bounds: Float[np.ndarray, " steps"]) -> bool:
    """Whether the last quarter of the steps gained no more than noise over the one before."""
    quarter = len(bounds) // 4
    before, last = _mean(bounds[-2 * quarter : -quarter]), _mean(bounds[-quarter:])
    return last.value - before.value < DRIFT + 2 * np.hypot(before.standard_error, last.standard_error)


def _on_draws(done: Fit, said: list[str]) -> Report:
    """With what draws of q say (`vijax.automatic.judged`)."""
    why = not_judged(done.alg.spec)
    found = None if why else done.judge.of(done)
    if found is None:
        said.append(f"How near q is to the posterior was not judged{why and ', for '}{why}.")
        bounds, nan = done.trace["elbo"], float("nan")
        return Report(_mean(bounds[-(len(bounds) // 4) :]), (), nan, nan, done.outcome, " ".join(said))
    model, q = done.alg.spec.model, done.posterior[Z]
    assert model.free is not None
    seen = judged_words.sentences(found, q, model.free.variables, len(done.posterior) > 1)
    words = " ".join([*said, *seen] if found.usable else [*seen, *said])
    return Report(found.elbo, (), found.gap, found.khat, done.outcome, words, zero=found.zero, usable=found.usable)


def _reported(done: Fit, starts: int) -> Fit:
    bounds = done.trace["elbo"]
    settled = _is_settled(bounds)
    said = [end_in_words(done, "The bound rises no more.", settled)]
    if done.num_skipped:
        said.append(f"{skipped_text(done.num_skipped, int(done.state.step))}.")
    if starts > 1:
        said.append(f"Of {starts} starts the best after {FIRST} steps was taken.")
    if len(done.posterior) > 1:
        said.append("Free variables are independent of conjugate ones under q.")
    report = _on_draws(done, said)
    status = Status.CONVERGED if settled and done.status is Status.FINISHED else done.status
    return done._replace(status=status, report=report)
