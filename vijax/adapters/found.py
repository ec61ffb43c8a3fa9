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
    "Cholesky factor of a "
    "correlation matrix"
)


class Found(NamedTuple):
    """The facts that one run shows of a variable.

    Attributes:
      shape: shape of its value.
      dtype: dtype of its value.
      support: its constraint; None where vijax has none for this support.
      said: the other library's words for its support.
    """

    shape: tuple[int, ...]
    dtype: Any
    support: Constraint | None
    said: str


def free_variables(argument: str, runs: Sequence[Mapping[str, Found]]) -> dict[str, Free]:
    """Free variables, if several runs at random values show the same ones.

    Raises:
      ValueError: there are none, or not the same in all runs; one is discrete, has a support that
        vijax lacks, or a support that changes with the others' values.

    >>> from vijax.constrain import positive
    >>> free_variables("model", [{"scale": Found((2,), float, positive(), "positive")}])["scale"].shape
    (2,)
    """
    first, names = runs[0], sorted(runs[0])
    require(
        bool(names),
        argument,
        "unknown variables",
        "none",
        "Everything is observed: nothing is left to infer.",
    )
    for run in runs[1:]:
        remedy = "Which variables there are must not depend on their values."
        require(
            sorted(run) == names,
            argument,
            f"the variables {names} in every run",
            sorted(run),
            remedy,
        )
    for name in names:
        _check(f"{argument}: variable {name!r}", [run[name] for run in runs])
    return {name: free(found.shape, found.support or "real") for name, found in first.items()}


def _check(argument: str, seen: Sequence[Found]) -> None:
    first = seen[0]
    continuous = jnp.issubdtype(first.dtype, jnp.floating)
    remedy = "Sum discrete variables out of the density."
    require(
        continuous, argument, "a continuous variable", f"one of {np.dtype(first.dtype)}", remedy
    )
    remedy = "Transform a variable of one of these."
    require(all(one.support for one in seen), argument, f"a support of {KNOWN}", first.said, remedy)
    got = " and ".join(dict.fromkeys(str(one.support) for one in seen))
    remedy = (
        "Write it as a function of a variable whose support is fixed: a * u with u in (0, 1) is "
        "in (0, a)."
    )
    require(
        all(one.support == first.support for one in seen),
        argument,
        "the same support in every run",
        got,
        remedy,
    )
    require(
        all(one.shape == first.shape for one in seen),
        argument,
        "the same shape in every run",
        first.shape,
    )


def interval_of(low: Any = -np.inf, high: Any = np.inf) -> Constraint | None:
    """The constraint low < x < high, with a half-line for an infinite end; None where entries have
    different bounds."""
    lows, highs = (np.unique(np.asarray(bound, float)) for bound in (low, high))
    if len(lows) != 1 or len(highs) != 1:
        return None
    least, most = float(lows[0]), float(highs[0])
    if np.isinf(least):
        return real() if np.isinf(most) else below(most)
    if np.isinf(most):
        return positive() if least == 0 else above(least)
    return interval(least, most)
