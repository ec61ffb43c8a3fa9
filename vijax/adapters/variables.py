"""Free variables from runs of another library's model, or an error that names the variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from vijax.checks import require
from vijax.constrain import Constraint, above, below, interval, positive, real
from vijax.contract.variables import Free, free

KNOWN = (
    "real, positive, a half-line, an interval, simplex, ordered, positive definite, or the "
    "Cholesky factor of a correlation matrix"
)


class VariableFacts(NamedTuple):
    """The facts that one run shows of a variable.

    Attributes:
      shape: shape of its value.
      dtype: dtype of its value.
      support: its constraint; None if vijax has none for this support.
      support_text: the other library's words for its support.
    """

    shape: tuple[int, ...]
    dtype: Any
    support: Constraint | None
    support_text: str


def free_variables(argument: str, runs: Sequence[Mapping[str, VariableFacts]]) -> dict[str, Free]:
    """Free variables, if several runs at random values show the same ones.

    Raises:
      ValueError: there are none, or not the same in all runs; one is discrete, has a support that
        vijax lacks, or a support that changes with the values of other variables.

    >>> from vijax.constrain import positive
    >>> facts = VariableFacts((2,), float, positive(), "positive")
    >>> free_variables("model", [{"scale": facts}])["scale"].shape
    (2,)
    """
    names = sorted(runs[0])
    remedy = "Everything is observed: nothing is left to infer."
    require(bool(names), argument, "unknown variables", "none", remedy)
    for run in runs[1:]:
        is_same = sorted(run) == names
        expected = f"the variables {names} in every run"
        remedy = "Which variables there are must not depend on their values."
        require(is_same, argument, expected, sorted(run), remedy)
    for name in names:
        _check(f"{argument}: variable {name!r}", [run[name] for run in runs])
    return {name: free(facts.shape, facts.support or "real") for name, facts in runs[0].items()}


def _check(argument: str, runs: Sequence[VariableFacts]) -> None:
    """Raises ValueError where a variable cannot be free, or differs between runs."""
    first = runs[0]
    is_continuous = jnp.issubdtype(first.dtype, jnp.floating)
    remedy = "Sum discrete variables out of the density."
    dtype = f"one of {np.dtype(first.dtype)}"
    require(is_continuous, argument, "a continuous variable", dtype, remedy)
    has_support = all(facts.support for facts in runs)
    remedy = "Transform a variable of one of these."
    require(has_support, argument, f"a support of {KNOWN}", first.support_text, remedy)
    is_fixed = all(facts.support == first.support for facts in runs)
    supports = " and ".join(dict.fromkeys(str(facts.support) for facts in runs))
    remedy = (
        "Write it as a function of a variable whose support is fixed: a * u with u in (0, 1) is "
        "in (0, a)."
    )
    require(is_fixed, argument, "the same support in every run", supports, remedy)
    has_shape = all(facts.shape == first.shape for facts in runs)
    require(has_shape, argument, "the same shape in every run", first.shape)


def interval_constraint(low: Any = -np.inf, high: Any = np.inf) -> Constraint | None:
    """The constraint low < x < high, a half-line for an infinite end; None where entries have
    different bounds."""
    lows = np.unique(np.asarray(low, float))
    highs = np.unique(np.asarray(high, float))
    if len(lows) != 1 or len(highs) != 1:
        return None
    low, high = float(lows[0]), float(highs[0])
    if np.isinf(low):
        return real() if np.isinf(high) else below(high)
    if np.isinf(high):
        return positive() if low == 0 else above(low)
    return interval(low, high)
