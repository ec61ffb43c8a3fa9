"""The verdict on a `vijax.Fit`, and the material to judge it on demand
(`vijax.verdict.on_draws`)."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.checks import require
from vijax.data.loader import Loader, num_rows
from vijax.fitting.status import FAILED
from vijax.inference.guides import Z
from vijax.inference.spec import Spec
from vijax.verdict import on_draws
from vijax.verdict.on_draws import judging_obstacle
from vijax.xla.precision import enable_x64

AT_A_GLANCE = 1 << 18
"""Rows times coordinates up to which `repr` of a fit judges it too."""


@dataclasses.dataclass(frozen=True, eq=False)
class Judge:
    """The material on which a fit by steps is judged; a field of the fit.

    It is a value. The last judgement stands beside it, in `JUDGEMENTS`, as long as the material
    lives. A pickle of a fit has its judgement, and not the data."""

    loader: Loader | None  # loader of the fitted data; None in a fit from a pickle
    seed: int  # seed of the draws
    x64: bool  # True where the fit was in float64

    def judgement(self, fit: Any) -> Any:
        """The judgement of this fit; None where data are so large that the user has to give the
        number of draws. Computed at the first call, and again after state or trace have changed."""
        if not self.knows(fit):
            remember(self, fit, self.judge_on_draws(fit))
        return JUDGEMENTS[self].judgement

    def judge_on_draws(
        self, fit: Any, key: PRNGKeyArray | None = None, num_draws: int | None = None
    ) -> Any:
        """A judgement with another key or number of draws; it is not remembered."""
        assert self.loader is not None  # callers have checked this
        with enable_x64(self.x64):
            if key is None:
                key = jax.random.fold_in(jax.random.key(self.seed), 7)
            return on_draws.judge_on_draws(fit, self.loader, key, num_draws)

    def is_quick(self, fit: Any) -> bool:
        """True where the judgement is known, or costs almost nothing."""
        if self.loader is None or self.knows(fit):
            return True
        num_coordinates = int(np.size(fit.posterior[Z].mean()))
        return num_rows(fit.alg.spec.model, self.loader) * num_coordinates <= AT_A_GLANCE

    def knows(self, fit: Any) -> bool:
        """True where a judgement of this fit is remembered."""
        record = JUDGEMENTS.get(self)
        return record is not None and record.state is fit.state and record.trace is fit.trace

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "loader": None}


class JudgementRecord(NamedTuple):
    """A judgement, with the state and the trace of its fit."""

    state: Any
    trace: Any
    judgement: Any


JUDGEMENTS: weakref.WeakKeyDictionary[Judge, JudgementRecord] = weakref.WeakKeyDictionary()
"""The last judgement on each material: it costs hundreds of evaluations, and is needed several
times."""


def remember(material: Judge, fit: Any, judgement: Any) -> None:
    """Keeps the judgement of a fit on its material."""
    JUDGEMENTS[material] = JudgementRecord(fit.state, fit.trace, judgement)


def known_judgements(fit: Any) -> tuple[Any, ...]:
    """The judgement of a fit in a tuple; () if it was not judged yet."""
    is_known = fit.judge is not None and fit.judge.knows(fit)
    return (fit.judge.judgement(fit),) if is_known else ()


def judge_fit(fit: Any, data: Any, key: PRNGKeyArray | None, num_draws: int | None) -> Any:
    """See `vijax.Fit.judged`."""
    obstacle = judging_obstacle(fit.alg.spec)
    expected = "one that can be judged on draws"
    require(not obstacle, "fit", expected, f"another: {obstacle}", "fit.verdict says what to do.")
    is_default = key is None and num_draws is None
    if data is not None or not _has_data(fit, is_default):
        judgement = _judge_on_data(fit, data, key, num_draws)
    elif is_default:
        judgement = fit.judge.judgement(fit)
    else:
        judgement = fit.judge.judge_on_draws(fit, key, num_draws)
    actual = "none, for data that are large"
    require(judgement is not None, "num_draws", "a number of draws", actual, TOO_LARGE)
    return judgement


def _has_data(fit: Any, is_default: bool = True) -> bool:
    """True where the fit can be judged without further data, by default or with another key."""
    if fit.judge is None:
        return False
    return fit.judge.loader is not None or (is_default and fit.judge.knows(fit))


def _judge_on_data(fit: Any, data: Any, key: PRNGKeyArray | None, num_draws: int | None) -> Any:
    """The judgement on the user's data, or on none for a density that reads none."""
    reads = fit.alg.spec.model.free.reads_data
    remedy = "This fit has none with it: it was not made by vijax.fit, or was read from a file."
    require(data is not None or not reads, "data", "those that were fitted", "none", remedy)
    require(key is not None, "key", "a random key such as jax.random.key(0)", "none")
    assert key is not None
    return on_draws.judge_on_data(fit, data, key, num_draws)


TOO_LARGE = (
    "fit.judged(num_draws=128) judges it: for each draw an evaluation of the log density on all "
    "groups."
)


# --- answers of a fit -----------------------------------------------------------------------------
def verdict(fit: Any) -> str:
    """See `vijax.Fit.verdict`."""
    remark = fit.alg.spec.model.queries.get("summed out", "")
    return f"{_verdict(fit)} {remark}".rstrip()


def _verdict(fit: Any) -> str:
    """The verdict without discrete unknowns that were summed out."""
    if fit.report is not None:
        return fit.report.verdict
    free = fit.alg.spec.model.free
    if fit.status in FAILED:
        return fit.outcome if free is None else f"{fit.outcome}. {free.start_in_words()}"
    return _conjugate_verdict(fit) if free is None else _free_verdict(fit)


def is_usable(fit: Any) -> bool:
    """See `vijax.Fit.usable`."""
    if fit.report is not None:
        return fit.report.usable
    judgement = _judgement(fit)
    return judgement is None or judgement.usable


def khat(fit: Any) -> float:
    """See `vijax.Fit.khat`."""
    judgement = fit.report if fit.report is not None else _judgement(fit)
    return float("nan") if judgement is None else judgement.khat


def _judgement(fit: Any) -> Any:
    """The judgement of a fit that can be judged without further arguments; else None."""
    if not _has_data(fit) or fit.status in FAILED or judging_obstacle(fit.alg.spec):
        return None
    return fit.judge.judgement(fit)


def _conjugate_verdict(fit: Any) -> str:
    """The verdict on a fit without free variables."""
    spec, memory = fit.alg.spec, fit.state.memory
    remarks = [
        spec.update.choice(name).remark(q, memory[name]) for name, q in fit.posterior.items()
    ]
    sentences = ". ".join(filter(None, [fit.outcome, *remarks]))
    return f"{sentences}. Not checked: {_missing_checks(spec, list(fit.posterior))} {CHECKS}"


def _free_verdict(fit: Any) -> str:
    """The verdict on a fit of free variables by steps."""
    judgement = _judgement(fit)
    if judgement is not None:
        return judgement.verdict
    opening = f"{fit.outcome}. Not checked: how near q is to the posterior"
    if obstacle := judging_obstacle(fit.alg.spec):
        return f"{opening}, for {obstacle}. {SCORES} {CHECKS}"
    if not _has_data(fit):
        return f"{opening}. fit.judged(data, key=key) checks it."
    return f"{opening}, for the data are large. {TOO_LARGE}"


SCORES = (
    "Compare held-out scores, or data drawn from the fit with the data: "
    "vijax.evaluate.predictive_check."
)
CHECKS = (
    "vijax.trust.check(fit, data, key=key) makes all such checks that this fit allows, in about a "
    "minute."
)
STARTS = "whether another start ends higher (restarts=, or other keys)"


def _missing_checks(spec: Spec, names: list[str]) -> str:
    """The checks that nobody made of a fit without free variables, and how to make them."""
    if (documents := spec.model.form.documents) is not None:
        return f"{STARTS}. Compare held-out scores: fit.score({documents.names[0]}, key=key)."
    if names and all(map(spec.is_point, names)):
        remedy = "vijax.cavi or vijax.svi do."
        return f"{STARTS}; and a point says nothing of how uncertain it is: {remedy}"
    if not names or spec.learn:
        return f"{STARTS}, and whether new data are described as well. {SCORES}"
    sampler = "vijax.reference.nuts"
    if "energy" in spec.model.queries:
        sampler = "vijax.reference.short_chains(fit, data, key=key)"
    return (
        f"{STARTS}, and how far q is from the posterior. Its sds are too small where variables "
        f"depend on each other: {sampler} would tell."
    )
