"""Fits of `vijax.auto` by the algorithms of `vijax.fit`: models in conjugate form, and energies
with free variables.

In conjugate form the size of the data decides on the algorithm. An energy with free variables takes
stochastic steps until its bound drifts no more; `vijax.verdict.words_of_steps` has the sentences on
this fit."""

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
from vijax.verdict.words import INDEPENDENT, JOINED, end_sentence, start_sentences
from vijax.verdict.words_of_steps import sentences

SMALL = 5_000  # groups up to which coordinate ascent takes all of them at every step
LARGE = 200_000  # groups beyond which steps are stochastic
# As `SMALL`, for documents: their steps cost more, and coordinate ascent takes hundreds.
SMALL_CORPUS = 200
STARTS = 8  # starts for small data
CORPUS_STARTS = 4  # starts for documents up to `SMALL`; larger data have one start
PART = 500  # groups of a part whose message is remembered, about
REMEMBERED = 1 << 26  # numbers in the messages of all parts, at most: a quarter of a gigabyte
BATCH = 256  # groups of a minibatch
FREE_STARTS = 4  # starts side by side for an energy with free variables
FIRST = 500  # their steps, after which only the best start continues
MOST = 8_000  # largest number of steps


def fit_conjugate(model: Model, data: Any, *, key: PRNGKeyArray, num_starts: int | None) -> Fit:
    """Fits a model in conjugate form (see `vijax.auto`)."""
    if model.by_entry is not None:
        expected = "none of a model of Gaussian predictors"
        require(num_starts in (None, 1), "num_starts", expected, num_starts, ONE_START)
        data = model.form.given if data is None else data
        best = fit(pg_svi(model), data, key=key, num_steps=500, tol=1e-6)
        return _with_report(best, "Its posterior is the best normal one.")
    loader = as_loader(data, model, None, 0)
    if loader.num_groups <= (SMALL_CORPUS if model.form.documents is not None else SMALL):
        starts = num_starts or STARTS
        best = _fit_starts(cavi(model), data, key=key, num_steps=1000, tol=1e-6, restarts=starts)
        return _with_report(best, INDEPENDENT)
    starts = num_starts or (1 if loader.num_groups > SMALL else CORPUS_STARTS)
    if _can_be_remembered(model, loader):
        alg = memoized(model, num_parts=_num_parts(loader))
        best = _fit_starts(alg, data, key=key, num_epochs=30, restarts=starts)
        return _with_report(best, INDEPENDENT)
    size = min(BATCH, loader.num_groups)
    best = _fit_starts(svi(model), data, key=key, num_epochs=10, batch_size=size, restarts=starts)
    return _with_report(
        best,
        f"Ten passes in batches of {BATCH}: whether more would help was not judged. {INDEPENDENT}",
    )


ONE_START = "Its steps never lower the bound, from one start. Leave it out."


def _can_be_remembered(model: Model, loader: Loader) -> bool:
    """True where incremental steps are exact, and the messages of all parts fit in memory."""
    has_one_block = model.blocks is None or len(model.blocks) == 1
    if loader.num_groups > LARGE or not has_one_block or not model.locals.is_linear:
        return False
    prior = jax.eval_shape(model.prior, dict(model.hyper))
    return _num_parts(loader) * sum(x.size for x in jax.tree.leaves(prior)) <= REMEMBERED


def _num_parts(loader: Loader) -> int:
    """The number of even parts of about `PART` groups."""
    size = -(-loader.num_groups // -(-loader.num_groups // PART))
    return -(-loader.num_groups // size)


def _with_report(fit: Fit, remark: str) -> Fit:
    """The fit with a report, whose verdict ends with the remark."""
    bounds = np.asarray(fit.trace["elbo"], np.float64)
    if takes_all(fit.alg) or fit.alg.spec.messages.num_parts is not None:
        elbo = Estimate(float(bounds[-1]), 0.0)
    else:
        tail = bounds[-20:]
        elbo = Estimate(float(tail.mean()), float(tail.std() / np.sqrt(len(tail))))
    is_flat = fit.status is Status.CONVERGED or _is_flat(bounds)
    sentences = [
        *_end_sentences(fit, "Converged.", is_flat),
        *_start_sentences(fit.trace.get("restart_elbo")),
        remark,
    ]
    nan = float("nan")
    return fit._replace(report=Report(elbo, (), nan, nan, fit.outcome, " ".join(sentences)))


def _start_sentences(bounds: np.ndarray | None) -> list[str]:
    """Sentences on the starts that reached the best bound. A model may have the same start for all
    keys."""
    if bounds is None:
        return []
    ends = np.asarray(bounds)[-1]
    if all(np.all(bounds[i] == bounds[i, 0]) for i in (0, -1)):
        return start_sentences(len(ends), 0)
    threshold = ends.max() - limits.SAME_END * abs(ends.max())
    return start_sentences(len(ends), int((ends >= threshold).sum()))


def _is_flat(bounds: np.ndarray) -> bool:
    """True where the last tenth of the run gained next to nothing."""
    tail = bounds[-max(2, len(bounds) // 10) :]
    return bool(abs(tail[-1] - tail[0]) <= limits.FLAT * abs(tail[-1]))


def _end_sentences(fit: Fit, flat_sentence: str, is_flat: bool) -> list[str]:
    """Sentences on how a fit ended (`flat_sentence` if the bound rose no more), and on skipped
    steps."""
    sentences = [end_sentence(fit.status is Status.INTERRUPTED, is_flat, flat_sentence)]
    if fit.num_skipped:
        sentences.append(f"{skipped_text(fit.num_skipped, int(fit.state.step))}.")
    return sentences


# --- energies with free variables -----------------------------------------------------------------
def fit_mixed(model: Model, data: Any, *, key: PRNGKeyArray, num_starts: int | None) -> Fit:
    """Fits an energy with free variables (see `vijax.auto`)."""
    groups = as_loader(data, model, None, 0).num_groups
    size = None if groups <= SMALL else BATCH
    starts = num_starts or FREE_STARTS
    best = _fit_free(svi(model), data, key=key, num_steps=FIRST, batch_size=size, restarts=starts)
    traces = [{name: values for name, values in best.trace.items() if name != "restart_elbo"}]
    while (
        best.status is Status.FINISHED
        and not _has_settled(_concatenate(traces)["elbo"])
        and best.state.step < MOST
    ):
        steps = 2 * int(best.state.step)
        best = _fit_free(
            best.alg, data, key=key, num_steps=steps, batch_size=size, state=best.state
        )
        traces.append(best.trace)
    best = best._replace(trace=_concatenate(traces))
    return best if best.status is Status.UNBOUNDED else _with_free_report(best, starts)


def _fit_starts(*args: Any, **kwargs: Any) -> Fit:
    """`vijax.fit` without the warning of equal starts: the user has not asked for several."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EqualStartsWarning)
        return fit(*args, **kwargs)


def _fit_free(*args: Any, **kwargs: Any) -> Fit:
    """`vijax.fit`, which also returns a fit whose bound grows without limit."""
    try:
        return _fit_starts(*args, **kwargs)
    except DivergedError as error:
        if error.fit.status is Status.UNBOUNDED:
            return error.fit
        raise


def _concatenate(traces: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """One trace of all steps."""
    return {name: np.concatenate([trace[name] for trace in traces]) for name in traces[0]}


def _mean(bounds: Float[np.ndarray, " steps"]) -> Estimate:
    return Estimate.from_values(bounds.astype(np.float64))


def _has_settled(bounds: Float[np.ndarray, " steps"]) -> bool:
    """True where the last quarter of the steps gained no more than noise over the one before."""
    quarter = len(bounds) // 4
    before = _mean(bounds[-2 * quarter : -quarter])
    last = _mean(bounds[-quarter:])
    noise = np.hypot(before.standard_error, last.standard_error)
    return last.value - before.value < limits.SETTLED + limits.WITHIN * noise


def _report_on_draws(fit: Fit, texts: list[str]) -> Report:
    """A report by draws of q (`vijax.verdict.on_draws`), whose verdict has the sentences `texts`
    too."""
    obstacle = judging_obstacle(fit.alg.spec)
    judgement = None if obstacle else fit.judge.judgement(fit)
    if judgement is None:
        reason = f", for {obstacle}" if obstacle else ""
        texts.append(f"How near q is to the posterior was not judged{reason}.")
        bounds = fit.trace["elbo"]
        elbo = _mean(bounds[-(len(bounds) // 4) :])
        nan = float("nan")
        return Report(elbo, (), nan, nan, fit.outcome, " ".join(texts))
    model, q = fit.alg.spec.model, fit.posterior[Z]
    assert model.free is not None
    judged = sentences(judgement, q, model.free.variables, len(fit.posterior) > 1)
    verdict = " ".join([*texts, *judged] if judgement.usable else [*judged, *texts])
    return Report(
        judgement.elbo,
        (),
        judgement.gap,
        judgement.khat,
        fit.outcome,
        verdict,
        zero=judgement.zero,
        usable=judgement.usable,
    )


def _with_free_report(fit: Fit, starts: int) -> Fit:
    """The fit of an energy with free variables, with a report."""
    has_settled = _has_settled(fit.trace["elbo"])
    texts = _end_sentences(fit, "The bound rises no more.", has_settled)
    if starts > 1:
        texts.append(f"Of {starts} starts the best after {FIRST} steps was taken.")
    if len(fit.posterior) > 1:
        texts.append(JOINED)
    report = _report_on_draws(fit, texts)
    is_converged = has_settled and fit.status is Status.FINISHED
    status = Status.CONVERGED if is_converged else fit.status
    return fit._replace(status=status, report=report)
