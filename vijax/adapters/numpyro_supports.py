"""The constraint of vijax that has the support of a NumPyro distribution."""

from __future__ import annotations

from typing import Any

from vijax import constrain
from vijax.adapters.found import above_of, below_of, interval_of
from vijax.constrain import Constraint
from vijax.extras import require_extra


def support(of: Any) -> Constraint | None:
    """The constraint of equal set, boundaries apart; None where there is none.

    >>> import pytest
    >>> constraints = pytest.importorskip("numpyro.distributions").constraints
    >>> support(constraints.independent(constraints.less_than(2.0), 1))
    below(high=2.0)
    """
    constraints = require_extra("numpyro.distributions", "numpyro").constraints
    while isinstance(of, constraints.independent):
        of = of.base_constraint
    without_numbers: list[tuple[Any, Constraint]] = [
        (constraints.real, constrain.real()),
        (constraints.simplex, constrain.simplex()),
        (constraints.ordered_vector, constrain.ordered()),
        (constraints.positive_definite, constrain.positive_definite()),
        (constraints.corr_cholesky, constrain.correlation_cholesky()),
    ]
    for theirs, ours in without_numbers:
        if type(of) is type(theirs):
            return ours
    if isinstance(of, constraints.interval):
        return interval_of(of.lower_bound, of.upper_bound)
    if isinstance(of, constraints.greater_than):
        return above_of(of.lower_bound)
    return below_of(of.upper_bound) if isinstance(of, constraints.less_than) else None
