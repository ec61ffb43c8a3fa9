"""`vijax.auto` of a model in conjugate form: the exact rows, by the size of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.algorithms import cavi, memoized, pg_svi, svi
from vijax.automatic.report import Estimate, Report
from vijax.fit import fit
from vijax.loader import Loader, as_loader
from vijax.model import Model
from vijax.models.predictors import Predictors
from vijax.result import Fit
from vijax.status import Status

SMALL, LARGE = 5_000, 200_000
"""Groups up to which coordinate ascent takes all of them at every step, and beyond which steps are stochastic."""
PART = 500
BATCH = 256
SAME = 1e-4
"""Of the bound: how near the best another start must come to count as the same end."""


def of_conjugate(model: Model, data: Any, *, key: PRNGKeyArray, num_starts: int) -> Fit:
    """See `vijax.auto`."""
    if isinstance(model, Predictors):
        done = fit(pg_svi(model), model.data if data is None else data, key=key, num_steps=500, tol=1e-6)
        return _reported(done, 1, "Its posterior is the best normal one.")
    loader = as_loader(data, model, None, 0)
    if loader.num_groups <= SMALL:
        done = fit(cavi(model), data, key=key, num_steps=1000, tol=1e-6, restarts=num_starts)
        return _reported(done, num_starts, INDEPENDENT)
    at_once = model.blocks is None or len(model.blocks) == 1
    if loader.num_groups <= LARGE and at_once and model.is_linear:
        done = fit(memoized(model, num_parts=_num_parts(loader)), data, key=key, num_epochs=30)
        return _reported(done, 1, INDEPENDENT)
    done = fit(svi(model), data, key=key, num_epochs=10, batch_size=BATCH)
    return _reported(
        done, 1, f"Ten passes in batches of {BATCH}: whether more would help was not judged. {INDEPENDENT}"
    )


INDEPENDENT = "Variables are independent under q: its sds are too small where they are correlated."


def _num_parts(loader: Loader) -> int:
    """A number of parts of about `PART` groups that the data can be cut into."""
    size = -(-loader.num_groups // -(-loader.num_groups // PART))
    return -(-loader.num_groups // size)


def _reported(done: Fit, num_starts: int, words: str) -> Fit:
    """With what can be said of it."""
    bounds = np.asarray(done.trace["elbo"], np.float64)
    tail = bounds[-20:]
    exact = done.alg.spec.full_data or done.alg.spec.num_parts is not None
    elbo = Estimate(
        float(bounds[-1] if exact else tail.mean()), 0.0 if exact else float(tail.std() / np.sqrt(len(tail)))
    )
    settled = done.status is Status.CONVERGED or _is_flat(bounds)
    said = ["Converged." if settled else "Not converged: the bound still rose at the end."]
    if num_starts > 1 and "restart_elbo" in done.trace:
        ends = np.asarray(done.trace["restart_elbo"])[-1]
        same = int((ends >= ends.max() - SAME * abs(ends.max())).sum())
        doubt = "" if same > 1 else ": there may be a better one"
        said.append(f"{same} of {num_starts} starts reached the best bound{doubt}.")
    return done._replace(
        report=Report(elbo, (), float("nan"), float("nan"), str(done.status), " ".join([*said, words]))
    )


def _is_flat(bounds: np.ndarray) -> bool:
    """Whether the last tenth of the run gained next to nothing."""
    tail = bounds[-max(2, len(bounds) // 10) :]
    return bool(abs(tail[-1] - tail[0]) <= 1e-5 * abs(tail[-1]))
