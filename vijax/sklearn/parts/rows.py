"""Rows of numbers: padded to sizes that other data share, and fitted until the bound converges."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree
from sklearn.utils.validation import _check_sample_weight, check_non_negative

from vijax.arguments import NotNegative, Positive, interval
from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.data.formulas.row_statistics import mean_and_spread
from vijax.data.loader import ArrayLoader
from vijax.families import Gamma
from vijax.fitting.fit import Progress, fit
from vijax.fitting.restarts import EqualStartsWarning
from vijax.fitting.result import Fit
from vijax.inference.compose import Algorithm
from vijax.inference.step_size import robbins_monro
from vijax.models.emission import Emission
from vijax.sklearn.parts.base import (
    LEAST,
    as_dense,
    estimator,
    or_default,
    size_with_padding,
    to_key,
)
from vijax.sklearn.parts.inputs import check_input, require_plain
from vijax.xla.by_value import cache_by_value

STEPS = 10
"""Steps between checks of the bound."""


class RowFit(NamedTuple):
    """A fit of rows."""

    fit: Fit  # the fit of the best start
    converged: bool  # the bound of every start converged
    n_iter: int  # number of steps done
    bounds: np.ndarray  # the objective of the fit, one entry for each step


@dataclasses.dataclass(frozen=True)
class WeightedLoader(ArrayLoader):
    """All rows at once, each counted by its weight; N is the sum of the weights, or `total`."""

    sample_weight: Any = ()
    total: float | None = None

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """Batches of steps start, ..., stop - 1."""
        total: Any = np.float64(or_default(self.total, self.sample_weight.sum()))
        for batch in super().batches(start, stop):
            weights: Any = np.zeros(len(np.asarray(batch.weights)))
            weights[: len(self.sample_weight)] = self.sample_weight
            yield batch._replace(num_groups=total, weights=weights)


def weigh_rows(X: np.ndarray, sample_weight: Any, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The rows of positive weight, their weights (ones for None), and the same rows of further
    arrays.

    Raises:
      ValueError: weights whose number is not that of rows, or that are negative, not finite, or all
        zero.
    """
    require_plain("sample_weight", sample_weight)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    require(weights.any(), "sample_weight", "a row of positive weight", "only zeros")
    counts = weights > 0
    return X[counts], weights[counts], *(x[counts] for x in arrays)


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
    weights: np.ndarray | None = None,
) -> RowFit:
    """Runs full-data steps until the bound per row changes by less than `tol` from one step to the
    next, or `max_iter` steps.

    With padding there are at least `least` rows. Rows count by their `weights`; None counts each
    once. If something moves `by_gradient`, at a rate in each step, a single step says little: then
    the bound per row must stay within `tol` for `STEPS` steps."""
    rows = int(np.shape(jax.tree.leaves(data)[0])[0])
    total = rows if weights is None else float(weights.sum())
    convergence = _Convergence(tol * total, _stays_close if by_gradient else _has_small_step)
    num_done = 0 if state is None else int(state.step)
    start = {"hyper": hyper} if state is None else {"state": state}
    with warnings.catch_warnings():
        # scikit-learn's `n_init` is no warning for a single component, where starts are equal
        warnings.simplefilter("ignore", EqualStartsWarning)
        result = fit(
            alg,
            _row_loader(data, size_with_padding(rows, least), weights),
            key=key,
            num_steps=num_done + max_iter,
            restarts=restarts,
            callbacks=[convergence],
            steps_per_chunk=STEPS,
            **start,  # type: ignore[arg-type]
        )
    num_steps = int(result.state.step) - num_done
    return RowFit(result, convergence.is_reached, num_steps, result.trace["elbo"])


def _row_loader(data: PyTree, size: int, weights: np.ndarray | None) -> ArrayLoader:
    """The loader of weighted rows; equal weights share the program of all fits without weights."""
    if weights is None or bool(np.all(weights == 1)):
        return ArrayLoader(data, size, 0)
    return WeightedLoader(data, size, 0, sample_weight=np.asarray(weights))


@estimator
class PartialFitMixin:
    """Settings and steps of estimators that can be fitted to minibatches one by one."""

    _: dataclasses.KW_ONLY
    total_samples: Positive | None = None
    learning_decay: Annotated[float, interval("[0, 1]")] = 0.7
    learning_offset: NotNegative = 10.0

    def _has_posterior(self) -> bool:
        """True if the estimator has `partial_fit`; else raises AttributeError with the reason."""
        if getattr(self, "inference", "variational") == "em":
            raise AttributeError(
                "inference: expected 'variational' for partial_fit, got 'em'. EM reads all rows."
            )
        return True

    def _steps(self) -> Any:
        """Step sizes (learning_offset + t)^-learning_decay, t = 1, 2, ..."""
        return robbins_monro(offset=self.learning_offset + 1.0, kappa=self.learning_decay)

    def _fit_part(
        self,
        alg: Algorithm,
        data: PyTree,
        hyper: Callable[[], Any],
        is_first: bool,
        least: int = LEAST,
    ) -> Fit:
        """One stochastic step on a minibatch of a set of `total_samples` groups (None: of all
        groups seen so far)."""
        this: Any = self
        size = int(np.shape(jax.tree.leaves(data)[0])[0])
        this.n_samples_seen_ = size + (0 if is_first else this.n_samples_seen_)
        total = this.n_samples_seen_
        if self.total_samples is not None:
            total = max(self.total_samples, size)
        padded_size = size_with_padding(size, least)
        weights = np.ones(size)
        loader = WeightedLoader(data, padded_size, 0, sample_weight=weights, total=float(total))
        num_done = 0 if is_first else int(this.fit_.state.step)
        start: dict[str, Any] = {"hyper": hyper()} if is_first else {"state": this.fit_.state}
        this.n_batch_iter_ = num_done + 1
        return fit(alg, loader, key=to_key(this.random_state), num_steps=num_done + 1, **start)


class _Convergence:
    """A callback that is true if the bounds of every start have converged, by a rule for the bounds
    since its last call."""

    def __init__(self, tol: float, rule: Callable[[np.ndarray, float], bool]):
        self.tol = tol
        self.is_reached = False
        self._rule = rule
        self._last: np.ndarray | None = None

    def __call__(self, progress: Progress) -> bool:
        elbo = progress.trace.get("restart_elbo", progress.trace["elbo"][:, None])
        bounds = elbo if self._last is None else np.concatenate([self._last, elbo])
        self._last = elbo[-1:]
        self.is_reached = self._rule(bounds, self.tol)
        return self.is_reached


def _has_small_step(bounds: np.ndarray, tol: float) -> bool:
    """True if in some step no start of (steps, starts) changed by `tol`."""
    return bool(np.any(np.all(np.abs(np.diff(bounds, axis=0)) < tol, axis=1)))


def _stays_close(bounds: np.ndarray, tol: float) -> bool:
    """True if each start of (steps, starts) stayed within `tol`. (A small step alone says little:
    when Adam turns around, steps change little with much still to gain.)"""
    return bool(np.all(np.ptp(bounds, axis=0) < tol))


@cache_by_value
def allow_weights(emission: Emission) -> Emission:
    """The emission without its check for whole numbers: the estimator has checked the data."""
    return dataclasses.replace(emission, check=_anything)


def _anything(data: Any) -> None:
    """Accepts the data."""


def check_counts(estimator: Any, X: Any) -> None:
    """Raises ValueError on negative numbers."""
    check_non_negative(X, f"{type(estimator).__name__}")


class CountsMixin:
    """A mixin for estimators of counts, dense or sparse (made dense)."""

    def _check_rows(self, X: Any, reset: bool) -> np.ndarray:
        X = check_input(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
        X = np.asarray(as_dense(X), np.float64)
        check_counts(self, X)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.positive_only = tags.input_tags.sparse = True
        return tags


def prior_of_rates(
    num_components: int,
    X: np.ndarray,
    shape: float = 1.0,
    rate: float | None = None,
    weights: Any = None,
) -> Gamma:
    """The prior of the rates of each component; without a `rate` its mean is the (weighted) mean of
    the data."""
    average = X.mean(axis=0) if weights is None else mean_and_spread(X, weights)[0]
    mean = np.maximum(average, 1e-6)
    rates: Any = shape / mean if rate is None else np.full(X.shape[1], float(rate))
    shapes: Any = np.full((num_components, X.shape[1]), float(shape))
    return Gamma.from_shape_rate(shapes, rates)
