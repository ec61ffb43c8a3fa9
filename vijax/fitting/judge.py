"""Says whether to trust a `vijax.Fit`, and keeps what is needed to judge it on demand by
`vijax.verdict.on_draws`."""

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
from vijax.verdict.on_draws import not_judged
from vijax.xla.precision import enable_x64

AT_A_GLANCE = 1 << 18
"""Rows times coordinates up to which `repr` judges too."""


@dataclasses.dataclass(frozen=True, eq=False)
class Judge:
    """The material on which a fit by steps is judged, kept with the fit.

    It is a value. The judgement, once it was asked for, is remembered beside it (`JUDGED`), as long
    as the material is there; a pickle of a fit has its judgement, and not the data."""

    loader: Loader | None  # loader of the fitted data; None in a fit from a pickle
    seed: int  # seed of the draws
    x64: bool  # True where the fit was in float64

    def of(self, fit: Any) -> Any:
        """The judgement of this fit; None where data are so large that the user has to give the
        number of draws. Computed at the first call, and anew where state or trace have changed."""
        if not self.knows(fit):
            remember(self, fit, self.on_draws(fit))
        return JUDGED[self].judgement

    def on_draws(
        self, fit: Any, key: PRNGKeyArray | None = None, num_draws: int | None = None
    ) -> Any:
        """As `of`, with another key or number of draws."""
        with enable_x64(self.x64):
            own = jax.random.fold_in(jax.random.key(self.seed), 7)
            assert self.loader is not None  # callers have checked this
            return on_draws.judge_on_draws(fit, self.loader, own if key is None else key, num_draws)

    def is_quick(self, fit: Any) -> bool:
        """True where the judgement is known, or costs almost nothing."""
        if self.loader is None or self.knows(fit):
            return True
        return (
            num_rows(fit.alg.spec.model, self.loader) * int(np.size(fit.posterior[Z].mean()))
            <= AT_A_GLANCE
        )

    def knows(self, fit: Any) -> bool:
        """True where a judgement of this fit is remembered."""
        known = JUDGED.get(self)
        return known is not None and known.state is fit.state and known.trace is fit.trace

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "loader": None}


class Judged(NamedTuple):
    """A judgement, with the state and the trace that it is of."""

    state: Any
    trace: Any
    judgement: Any


JUDGED: weakref.WeakKeyDictionary[Judge, Judged] = weakref.WeakKeyDictionary()
"""The last judgement on each material: it costs hundreds of evaluations, and is asked for several
times."""


def remember(material: Judge, fit: Any, judgement: Any) -> None:
    """Keeps the judgement of a fit on its material."""
    JUDGED[material] = Judged(fit.state, fit.trace, judgement)


def remembered(fit: Any) -> tuple[Any, ...]:
    """The judgement of a fit, if there is one: none or one."""
    is_known = fit.judge is not None and fit.judge.knows(fit)
    return (fit.judge.of(fit),) if is_known else ()


def judged(fit: Any, data: Any, key: PRNGKeyArray | None, num_draws: int | None) -> Any:
    """See `vijax.Fit.judged`."""
    why = not_judged(fit.alg.spec)
    require(
        not why,
        "fit",
        "one that can be judged on draws",
        f"another: {why}",
        "fit.verdict says what to do.",
    )
    is_own = key is None and num_draws is None
    if data is None and _has_data(fit, is_own):
        found = fit.judge.of(fit) if is_own else fit.judge.on_draws(fit, key, num_draws)
    else:
        found = _on_given(fit, data, key, num_draws)
    require(
        found is not None,
        "num_draws",
        "a number of draws",
        "none, for data that are large",
        TOO_LARGE,
    )
    return found


def _has_data(fit: Any, is_own: bool = True) -> bool:
    """True where the fit can be judged with the data it has, with its own key or another."""
    return fit.judge is not None and (
        fit.judge.loader is not None or (is_own and fit.judge.knows(fit))
    )


def _on_given(fit: Any, data: Any, key: PRNGKeyArray | None, num_draws: int | None) -> Any:
    """The judgement on given data, or on none."""
    reads = fit.alg.spec.model.free.reads_data
    remedy = "This fit has none with it: it was not made by vijax.fit, or was read from a file."
    require(data is not None or not reads, "data", "those that were fitted", "none", remedy)
    require(key is not None, "key", "a random key such as jax.random.key(0)", "none")
    assert key is not None
    return on_draws.of_data(fit, data, key, num_draws)


TOO_LARGE = (
    "fit.judged(num_draws=128) judges it: for each draw an evaluation of the log density on all "
    "groups."
)


# --- what a fit says ------------------------------------------------------------------------------
def verdict_of(fit: Any) -> str:
    """See `vijax.Fit.verdict`."""
    spec, outcome = fit.alg.spec, fit.outcome
    if fit.report is not None:
        return fit.report.verdict
    if fit.status in FAILED:
        return (
            outcome if spec.model.free is None else f"{outcome}. {spec.model.free.start_in_words()}"
        )
    if spec.model.free is not None:
        return _of_free(fit)
    memory, said = fit.state.memory, [outcome]
    said += [spec.update.choice(name).remark(q, memory[name]) for name, q in fit.posterior.items()]
    return (
        f"{'. '.join(filter(None, said))}. Not checked: {_unchecked(spec, list(fit.posterior))} "
        f"{CHECKS}"
    )


def is_usable(fit: Any) -> bool:
    """See `vijax.Fit.usable`."""
    if fit.report is not None:
        return fit.report.usable
    said = _judgement(fit)
    return said is None or said.usable


def khat_of(fit: Any) -> float:
    """See `vijax.Fit.khat`."""
    said = fit.report if fit.report is not None else _judgement(fit)
    return float("nan") if said is None else said.khat


def _judgement(fit: Any) -> Any:
    """The judgement of a fit that can be judged without further arguments; else None."""
    if not _has_data(fit) or fit.status in FAILED or not_judged(fit.alg.spec):
        return None
    return fit.judge.of(fit)


def _of_free(fit: Any) -> str:
    """The verdict on a fit of free variables by steps."""
    said = _judgement(fit)
    if said is not None:
        return said.verdict
    if why := not_judged(fit.alg.spec):
        return (
            f"{fit.outcome}. Not checked: how near q is to the posterior, for {why}. {SCORES} "
            f"{CHECKS}"
        )
    if not _has_data(fit):
        return (
            f"{fit.outcome}. Not checked: how near q is to the posterior. fit.judged(data, "
            "key=key) checks it."
        )
    return (
        f"{fit.outcome}. Not checked: how near q is to the posterior, for the data are large. "
        f"{TOO_LARGE}"
    )


SCORES = (
    "Compare held-out scores, or data drawn from the fit with the data: "
    "vijax.evaluate.predictive_check."
)
CHECKS = (
    "vijax.trust.check(fit, data, key=key) makes all such checks that this fit allows, in about a "
    "minute."
)
STARTS = "whether another start ends higher (restarts=, or other keys)"


def _unchecked(spec: Spec, names: list[str]) -> str:
    """The checks that nobody made of a fit without free variables, and how to make them."""
    if (documents := spec.model.form.documents) is not None:
        return f"{STARTS}. Compare held-out scores: fit.score({documents.names[0]}, key=key)."
    if names and all(map(spec.is_point, names)):
        return (
            f"{STARTS}; and a point says nothing of how uncertain it is: vijax.cavi or vijax.svi "
            "do."
        )
    if not names or spec.learn:
        return f"{STARTS}, and whether new data are described as well. {SCORES}"
    is_energy = "energy" in spec.model.queries
    sampled = (
        "vijax.reference.short_chains(fit, data, key=key)" if is_energy else "vijax.reference.nuts"
    )
    return (
        f"{STARTS}, and how far q is from the posterior. Its sds are too small where variables "
        "depend on each other: "
        f"{sampled} would tell."
    )
