"""Rows of numbers: padded to sizes that other data share, and fitted until the bound converges from step to step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree
from sklearn.utils.validation import check_non_negative, validate_data

from vijax.families import Gamma
from vijax.fitting.fit import Progress, fit
from vijax.fitting.loader import ArrayLoader, padded_size
from vijax.fitting.result import Fit
from vijax.inference.compose import Algorithm
from vijax.models.emission import Emission
from vijax.sklearn.parts.base import as_dense
from vijax.xla.by_value import by_value

LEAST = 64
"""Rows of the smallest data set, with padding: few numbers, and one program for all that are smaller."""
STEPS = 10
"""Steps between two looks at the bound."""


class Fitted(NamedTuple):
    """A fit, and its end.

    Attributes:
      fit: the fit of the best start.
      converged: the bound of every start converged.
      n_iter: number of steps done.
      bounds: the objective of the fit, one entry for each step.
    """

    fit: Fit
    converged: bool
    n_iter: int
    bounds: np.ndarray


def size_with_padding(rows: int, least: int = LEAST) -> int:
    """The number of rows, padding included."""
    return max(padded_size(rows), least)


def padded(data: PyTree, least: int = LEAST) -> PyTree:
    """The data, followed by copies of their last row."""
    rows = int(np.shape(jax.tree.leaves(data)[0])[0])
    missing = size_with_padding(rows, least) - rows
    return jax.tree.map(lambda x: np.concatenate([x, np.repeat(np.asarray(x)[-1:], missing, axis=0)]), data)


def by_row(function: Callable[[PyTree], Any], data: PyTree) -> np.ndarray:
    """The results of a function for each row; it is given some more rows, as padding."""
    rows = int(np.shape(jax.tree.leaves(data)[0])[0])
    return np.asarray(function(padded(data)))[:rows]


def fit_rows(
    alg: Algorithm,
    data: PyTree,
    key: PRNGKeyArray,
    max_iter: int,
    tol: float,
    restarts: int = 1,
    hyper: Any = None,
    state: Any = None,
    least: int = LEAST,
    by_gradient: bool = False,
) -> Fitted:
    """Runs full-data steps until the bound per row changes by less than `tol` from one to the next, or `max_iter`
    steps. With padding there are at least `least` rows. Where something moves `by_gradient`, at a rate in each step,
    one step tells little: the bound per row must then stay within `tol` for `STEPS` steps."""
    rows = int(np.shape(jax.tree.leaves(data)[0])[0])
    loader = ArrayLoader(data, size_with_padding(rows, least), seed=0)
    settled = _Settled(tol * rows, _within if by_gradient else _any_step)
    done = 0 if state is None else int(state.step)
    given = {"hyper": hyper} if state is None else {"state": state}
    found = fit(
        alg,
        loader,
        key=key,
        num_steps=done + max_iter,
        restarts=restarts,
        callbacks=[settled],
        steps_per_chunk=STEPS,
        **given,  # type: ignore[arg-type]
    )
    return Fitted(found, settled.yes, int(found.state.step) - done, found.trace["elbo"])


class _Settled:
    """A callback: true where the bounds of every start since the last look have converged, by a rule."""

    def __init__(self, tol: float, rule: Callable[[np.ndarray, float], bool]):
        self.tol, self.yes = tol, False
        self._rule = rule
        self._last: np.ndarray | None = None

    def __call__(self, progress: Progress) -> bool:
        elbo = progress.trace.get("restart_elbo", progress.trace["elbo"][:, None])
        seen = elbo if self._last is None else np.concatenate([self._last, elbo])
        self._last = elbo[-1:]
        self.yes = self._rule(seen, self.tol)
        return self.yes


def _any_step(bounds: np.ndarray, tol: float) -> bool:
    """True where no start of (steps, starts) changed by `tol` in some step."""
    return bool(np.any(np.all(np.abs(np.diff(bounds, axis=0)) < tol, axis=1)))


def _within(bounds: np.ndarray, tol: float) -> bool:
    """True where each start of (steps, starts) stayed within `tol`. Where Adam turns, or on a slope between two
    stretches, some steps change little with much left to gain."""
    return bool(np.all(np.ptp(bounds, axis=0) < tol))


@by_value
def weights_allowed(emission: Emission) -> Emission:
    """The emission with its check of whole numbers removed: the estimator has checked the data."""
    return dataclasses.replace(emission, check=_anything)


def _anything(data: Any) -> None:
    del data


def check_counts(estimator: Any, X: Any) -> None:
    """Raises ValueError on negative numbers."""
    check_non_negative(X, f"{type(estimator).__name__}")


class OfCounts:
    """A mixin for estimators of counts, dense or sparse (made dense)."""

    def _checked(self, X: Any, reset: bool) -> np.ndarray:
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
        X = np.asarray(as_dense(X), np.float64)
        check_counts(self, X)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.positive_only = tags.input_tags.sparse = True
        return tags


def prior_of_rates(num_components: int, X: np.ndarray, shape: float = 1.0, rate: float | None = None) -> Gamma:
    """The prior of the rates of each component; without a `rate` its mean is the mean of the data."""
    mean = np.maximum(X.mean(axis=0), 1e-6)
    rates: Any = shape / mean if rate is None else np.full(X.shape[1], float(rate))
    shapes: Any = np.full((num_components, X.shape[1]), float(shape))
    return Gamma.from_shape_rate(shapes, rates)
