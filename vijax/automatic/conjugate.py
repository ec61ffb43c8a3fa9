"""`vijax.auto` of a model in conjugate form: the exact rows, by the size of the data."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.algorithms import cavi, memoized, pg_svi, svi
from vijax.automatic.report import Estimate, Report
from vijax.checks import require
from vijax.contract.model import Model
from vijax.fitting.fit import fit
from vijax.fitting.loader import Loader, as_loader
from vijax.fitting.result import Fit
from vijax.fitting.status import Status, skipped_text
from vijax.inference.wrappers.sized import takes_all

SMALL, LARGE = 5_000, 200_000
"""Groups up to which coordinate ascent takes all of them at every step, and beyond which steps are stochastic."""
SMALL_CORPUS = 200
"""The former of documents, of which a step costs more, and coordinate ascent takes hundreds."""
STARTS, OF_CORPUS = 8, 4
"""Starts of small data, and of documents up to `SMALL`; of larger data it is one."""
PART = 500
REMEMBERED = 1 << 26
"""Numbers that the messages of all parts together may have: a quarter of a gigabyte."""
BATCH = 256
SAME = 1e-4
"""Of the bound: how near the best another start must come to count as the same end."""


def of_conjugate(model: Model, data: Any, *, key: PRNGKeyArray, num_starts: int | None) -> Fit:
    """See `vijax.auto`."""
    if model.by_entry is not None:
        require(num_starts in (None, 1), "num_starts", "none of a model of Gaussian predictors", num_starts, ONE_START)
        done = fit(pg_svi(model), model.form.given if data is None else data, key=key, num_steps=500, tol=1e-6)
        return _reported(done, "Its posterior is the best normal one.")
    loader = as_loader(data, model, None, 0)
    if loader.num_groups <= (SMALL_CORPUS if model.form.documents is not None else SMALL):
        done = fit(cavi(model), data, key=key, num_steps=1000, tol=1e-6, restarts=num_starts or STARTS)
        return _reported(done, INDEPENDENT)
    starts = num_starts or (1 if loader.num_groups > SMALL else OF_CORPUS)
    if _can_be_remembered(model, loader):
        alg = memoized(model, num_parts=_num_parts(loader))
        return _reported(fit(alg, data, key=key, num_epochs=30, restarts=starts), INDEPENDENT)
    size = min(BATCH, loader.num_groups)
    done = fit(svi(model), data, key=key, num_epochs=10, batch_size=size, restarts=starts)
    return _reported(done, f"Ten passes in batches of {BATCH}: whether more would help was not judged. {INDEPENDENT}")


MORE = "Go on with vijax.fit(fit.alg, data, key=key, state=fit.state, num_epochs=...), counted from the first."


def end_in_words(done: Fit, settled: str, is_settled: bool) -> str:
    """How a fit ended, in a sentence; `settled` where the bound rose no more."""
    if done.status is Status.INTERRUPTED:
        return f"Stopped early, by Ctrl-C. {MORE}"
    return settled if is_settled else f"Not converged: the bound still rose at the end. {MORE}"


ONE_START = "Its steps never lower the bound, from one start. Leave it out."
INDEPENDENT = "Variables are independent under q: its sds are too small where they are correlated."


def _can_be_remembered(model: Model, loader: Loader) -> bool:
    """Whether incremental steps are exact, and the messages of all parts have a place in memory."""
    at_once = model.blocks is None or len(model.blocks) == 1
    if loader.num_groups > LARGE or not at_once or not model.locals.is_linear:
        return False
    prior = jax.eval_shape(model.prior, dict(model.hyper))
    return _num_parts(loader) * sum(x.size for x in jax.tree.leaves(prior)) <= REMEMBERED


def _num_parts(loader: Loader) -> int:
    """A number of parts of about `PART` groups that the data can be cut into."""
    size = -(-loader.num_groups // -(-loader.num_groups // PART))
    return -(-loader.num_groups // size)


def _reported(done: Fit, words: str) -> Fit:
    """With what can be said of it."""
    bounds = np.asarray(done.trace["elbo"], np.float64)
    tail = bounds[-20:]
    exact = takes_all(done.alg) or done.alg.spec.messages.num_parts is not None
    elbo = Estimate(
        float(bounds[-1] if exact else tail.mean()), 0.0 if exact else float(tail.std() / np.sqrt(len(tail)))
    )
    settled = done.status is Status.CONVERGED or _is_flat(bounds)
    said = [end_in_words(done, "Converged.", settled)]
    if done.num_skipped:
        said.append(f"{skipped_text(done.num_skipped, int(done.state.step))}.")
    said += [*_of_starts(done.trace.get("restart_elbo")), words]
    return done._replace(report=Report(elbo, (), float("nan"), float("nan"), done.outcome, " ".join(said)))


def _of_starts(bounds: np.ndarray | None) -> list[str]:
    """How many starts reached the best bound; a model may have one start only, whatever the key."""
    if bounds is None:
        return []
    if np.all(bounds[0] == bounds[0, 0]) and np.all(bounds[-1] == bounds[-1, 0]):
        return ["All starts were one: where this model starts is not random."]
    ends = np.asarray(bounds)[-1]
    same = int((ends >= ends.max() - SAME * abs(ends.max())).sum())
    doubt = "" if same > 1 else ": there may be a better one"
    return [f"{same} of {len(ends)} starts reached the best bound{doubt}."]


def _is_flat(bounds: np.ndarray) -> bool:
    """Whether the last tenth of the run gained next to nothing."""
    tail = bounds[-max(2, len(bounds) // 10) :]
    return bool(abs(tail[-1] - tail[0]) <= 1e-5 * abs(tail[-1]))
