"""Fits of `vijax.auto` that the algorithms of `vijax.fit` make: of models in conjugate form, and of
energies with free variables.

In conjugate form the size of the data chooses the algorithm. An energy with free variables takes
stochastic steps until its bound drifts no more. `vijax.verdict.words_of_steps` has the sentences on
such a fit."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from vijax.algorithms import cavi, memoized, pg_svi, svi
from vijax.checks import require
from vijax.contract.model import Model
from vijax.data.loader import Loader, as_loader
from vijax.fitting.fit import DivergedError, fit
from vijax.fitting.restarts import EqualStartsWarning
from vijax.fitting.result import Fit
from vijax.fitting.status import Status, skipped_text
from vijax.inference.guides import Z
from vijax.inference.wrappers.sized import takes_all
from vijax.verdict import limits
from vijax.verdict.on_draws import judging_obstacle
from vijax.verdict.report import Estimate, Report
from vijax.verdict.words import INDEPENDENT, JOINED, of_end, of_starts
from vijax.verdict.words_of_steps import sentences

SMALL = 5_000  # groups up to which coordinate ascent takes all of them at every step
LARGE = 200_000  # groups beyond which steps are stochastic
# the same as `SMALL` for documents: their steps cost more, and coordinate ascent takes hundreds
SMALL_CORPUS = 200
STARTS, OF_CORPUS = (
    8,
    4,
)  # number of starts of small data, and of documents up to `SMALL`; larger data have one
PART = 500  # groups of a part whose message is remembered, about
REMEMBERED = (
    1 << 26
)  # largest number of numbers in the messages of all parts together: a quarter of a gigabyte
BATCH = 256  # groups of a minibatch
FREE_STARTS, FIRST = (
    4,
    500,
)  # starts side by side, and their number of steps, after which the best goes on
MOST = 8_000  # largest number of steps


def of_conjugate(model: Model, data: Any, *, key: PRNGKeyArray, num_starts: int | None) -> Fit:
    """Fits a model in conjugate form (see `vijax.auto`)."""
    if model.by_entry is not None:
        require(
            num_starts in (None, 1),
            "num_starts",
            "none of a model of Gaussian predictors",
            num_starts,
            ONE_START,
        )
        done = fit(
            pg_svi(model),
            model.form.given if data is None else data,
            key=key,
            num_steps=500,
            tol=1e-6,
        )
        return _reported(done, "Its posterior is the best normal one.")
    loader = as_loader(data, model, None, 0)
    if loader.num_groups <= (SMALL_CORPUS if model.form.documents is not None else SMALL):
        done = _from_starts(
            cavi(model), data, key=key, num_steps=1000, tol=1e-6, restarts=num_starts or STARTS
        )
        return _reported(done, INDEPENDENT)
    starts = num_starts or (1 if loader.num_groups > SMALL else OF_CORPUS)
    if _can_be_remembered(model, loader):
        alg = memoized(model, num_parts=_num_parts(loader))
        return _reported(
            _from_starts(alg, data, key=key, num_epochs=30, restarts=starts), INDEPENDENT
        )
    size = min(BATCH, loader.num_groups)
    done = _from_starts(svi(model), data, key=key, num_epochs=10, batch_size=size, restarts=starts)
    return _reported(
        done,
        f"Ten passes in batches of {BATCH}: whether more would help was not judged. {INDEPENDENT}",
    )


ONE_START = "Its steps never lower the bound, from one start. Leave it out."


def _can_be_remembered(model: Model, loader: Loader) -> bool:
    """Says whether incremental steps are exact, and the messages of all parts fit in memory."""
    at_once = model.blocks is None or len(model.blocks) == 1
    if loader.num_groups > LARGE or not at_once or not model.locals.is_linear:
        return False
    prior = jax.eval_shape(model.prior, dict(model.hyper))
    return _num_parts(loader) * sum(x.size for x in jax.tree.leaves(prior)) <= REMEMBERED


def _num_parts(loader: Loader) -> int:
    """Returns the number of parts of about `PART` groups that the data can be cut into."""
    size = -(-loader.num_groups // -(-loader.num_groups // PART))
    return -(-loader.num_groups // size)


def _reported(done: Fit, words: str) -> Fit:
    """Returns the fit with a report."""
    bounds = np.asarray(done.trace["elbo"], np.float64)
    tail = bounds[-20:]
    exact = takes_all(done.alg) or done.alg.spec.messages.num_parts is not None
    elbo = Estimate(
        float(bounds[-1] if exact else tail.mean()),
        0.0 if exact else float(tail.std() / np.sqrt(len(tail))),
    )
    settled = done.status is Status.CONVERGED or _is_flat(bounds)
    said = [
        *_ended(done, "Converged.", settled),
        *_of_restarts(done.trace.get("restart_elbo")),
        words,
    ]
    return done._replace(
        report=Report(elbo, (), float("nan"), float("nan"), done.outcome, " ".join(said))
    )


def _of_restarts(bounds: np.ndarray | None) -> list[str]:
    """Says how many starts reached the best bound; a model may have one start only, whatever the
    key."""
    if bounds is None:
        return []
    ends, is_one = np.asarray(bounds)[-1], [np.all(bounds[i] == bounds[i, 0]) for i in (0, -1)]
    if all(is_one):
        return of_starts(len(ends), 0)
    least = ends.max() - limits.SAME_END * abs(ends.max())
    return of_starts(len(ends), int((ends >= least).sum()))


def _is_flat(bounds: np.ndarray) -> bool:
    """Says whether the last tenth of the run gained next to nothing."""
    tail = bounds[-max(2, len(bounds) // 10) :]
    return bool(abs(tail[-1] - tail[0]) <= limits.FLAT * abs(tail[-1]))


def _ended(done: Fit, settled: str, is_settled: bool) -> list[str]:
    """Says how a fit ended: `settled` where the bound rose no more; and how many steps were
    skipped."""
    said = [of_end(done.status is Status.INTERRUPTED, is_settled, settled)]
    if done.num_skipped:
        said.append(f"{skipped_text(done.num_skipped, int(done.state.step))}.")
    return said


# --- energies with free variables -----------------------------------------------------------------
def of_mixed(model: Model, data: Any, *, key: PRNGKeyArray, num_starts: int | None) -> Fit:
    """Fits an energy with free variables (see `vijax.auto`)."""
    groups = as_loader(data, model, None, 0).num_groups
    size = None if groups <= SMALL else BATCH
    starts = num_starts or FREE_STARTS
    done = _fitted(svi(model), data, key=key, num_steps=FIRST, batch_size=size, restarts=starts)
    traces = [{name: values for name, values in done.trace.items() if name != "restart_elbo"}]
    while (
        done.status is Status.FINISHED
        and not _is_settled(_joined(traces)["elbo"])
        and done.state.step < MOST
    ):
        more = 2 * int(done.state.step)
        done = _fitted(done.alg, data, key=key, num_steps=more, batch_size=size, state=done.state)
        traces.append(done.trace)
    done = done._replace(trace=_joined(traces))
    return done if done.status is Status.UNBOUNDED else _of_free(done, starts)


def _from_starts(*args: Any, **kwargs: Any) -> Fit:
    """Fits as `vijax.fit` does; that starts are equal is no news to who has not asked for
    several."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EqualStartsWarning)
        return fit(*args, **kwargs)


def _fitted(*args: Any, **kwargs: Any) -> Fit:
    """Fits as `vijax.fit` does; a bound that grows without limit is no error, for the fit says
    so."""
    try:
        return _from_starts(*args, **kwargs)
    except DivergedError as error:
        if error.fit.status is Status.UNBOUNDED:
            return error.fit
        raise


def _joined(traces: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Returns one trace of all steps."""
    return {name: np.concatenate([trace[name] for trace in traces]) for name in traces[0]}


def _mean(bounds: Float[np.ndarray, " steps"]) -> Estimate:
    return Estimate.of(bounds.astype(np.float64))


def _is_settled(bounds: Float[np.ndarray, " steps"]) -> bool:
    """Says whether the last quarter of the steps gained no more than noise over the one before."""
    quarter = len(bounds) // 4
    before, last = _mean(bounds[-2 * quarter : -quarter]), _mean(bounds[-quarter:])
    noise = np.hypot(before.standard_error, last.standard_error)
    return last.value - before.value < limits.SETTLED + limits.WITHIN * noise


def _on_draws(done: Fit, said: list[str]) -> Report:
    """Returns a report by draws of q (`vijax.verdict.on_draws`), its verdict after the sentences
    `said`."""
    why = judging_obstacle(done.alg.spec)
    found = None if why else done.judge.judgement(done)
    if found is None:
        said.append(f"How near q is to the posterior was not judged{why and ', for '}{why}.")
        bounds, nan = done.trace["elbo"], float("nan")
        return Report(
            _mean(bounds[-(len(bounds) // 4) :]), (), nan, nan, done.outcome, " ".join(said)
        )
    model, q = done.alg.spec.model, done.posterior[Z]
    assert model.free is not None
    seen = sentences(found, q, model.free.variables, len(done.posterior) > 1)
    words = " ".join([*said, *seen] if found.usable else [*seen, *said])
    return Report(
        found.elbo,
        (),
        found.gap,
        found.khat,
        done.outcome,
        words,
        zero=found.zero,
        usable=found.usable,
    )


def _of_free(done: Fit, starts: int) -> Fit:
    """Returns the fit with a report."""
    settled = _is_settled(done.trace["elbo"])
    said = _ended(done, "The bound rises no more.", settled)
    if starts > 1:
        said.append(f"Of {starts} starts the best after {FIRST} steps was taken.")
    if len(done.posterior) > 1:
        said.append(JOINED)
    report = _on_draws(done, said)
    status = Status.CONVERGED if settled and done.status is Status.FINISHED else done.status
    return done._replace(status=status, report=report)
