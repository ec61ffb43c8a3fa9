"""Rows of numbers: padded to sizes that other data share, and fitted until the bound converges from
step to step."""

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
from vijax.data.loader import ArrayLoader
from vijax.families import Gamma
from vijax.fitting.fit import Progress, fit
from vijax.fitting.restarts import EqualStartsWarning
from vijax.fitting.result import Fit
from vijax.inference.compose import Algorithm
from vijax.inference.step_size import robbins_monro
from vijax.models.emission import Emission
from vijax.models.formulas.weighted import mean_and_spread
from vijax.sklearn.parts.base import LEAST, as_dense, estimator, size_with_padding, to_key
from vijax.sklearn.parts.inputs import check_input, require_plain
from vijax.xla.by_value import cache_by_value

STEPS = 10
"""Steps between two looks at the bound."""


class RowFit(NamedTuple):
    """A fit, and its end."""

    fit: Fit  # the fit of the best start
    converged: bool  # the bound of every start converged
    n_iter: int  # number of steps done
    bounds: np.ndarray  # the objective of the fit, one entry for each step


@dataclasses.dataclass(frozen=True)
class WeightedLoader(ArrayLoader):
    """All rows at once, each as often as its weight says; N is the sum of the weights, or
    `total`."""

    sample_weight: Any = ()
    total: float | None = None

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """Batches of steps start, ..., stop - 1."""
        total: Any = np.float64(self.sample_weight.sum() if self.total is None else self.total)
        for batch in super().batches(start, stop):
            weights: Any = np.zeros(len(np.asarray(batch.weights)))
            weights[: len(self.sample_weight)] = self.sample_weight
            yield batch._replace(num_groups=total, weights=weights)


def weigh_rows(X: np.ndarray, sample_weight: Any, *more: np.ndarray) -> tuple[np.ndarray, ...]:
    """The rows of positive weight, their weights (ones for None), and the same rows of further
    arrays. Raises ValueError: weights of another number than rows, negative, not finite, or all
    zero."""
    require_plain("sample_weight", sample_weight)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    require(weights.any(), "sample_weight", "a row of positive weight", "only zeros")
    kept = weights > 0
    return X[kept], weights[kept], *(x[kept] for x in more)


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
    """Runs full-data steps until the bound per row changes by less than `tol` from one to the next,
    or `max_iter` steps. With padding there are at least `least` rows. Rows count by their
    `weights`; None counts each once. Where something moves `by_gradient`, at a rate in each step,
    one step tells little: the bound per row must then stay within `tol` for `STEPS` steps."""
    rows = int(np.shape(jax.tree.leaves(data)[0])[0])
    size = size_with_padding(rows, least)
    is_even = weights is None or bool(
        np.all(weights == 1)
    )  # the program of all fits without weights
    loader = (
        ArrayLoader(data, size, 0)
        if is_even
        else WeightedLoader(data, size, 0, sample_weight=np.asarray(weights))
    )
    settled = _Convergence(
        tol * (rows if weights is None else float(weights.sum())),
        _stays_close if by_gradient else _any_step,
    )
    done = 0 if state is None else int(state.step)
    given = {"hyper": hyper} if state is None else {"state": state}
    with warnings.catch_warnings():
        # `n_init` is said once, for one component and for ten: in scikit-learn one component is no
        # warning either.
        warnings.simplefilter("ignore", EqualStartsWarning)
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
    return RowFit(found, settled.yes, int(found.state.step) - done, found.trace["elbo"])


@estimator
class PartialFitMixin:
    """Settings of estimators that can be fitted to one minibatch after the other."""

    _: dataclasses.KW_ONLY
    total_samples: Positive | None = None
    learning_decay: Annotated[float, interval("[0, 1]")] = 0.7
    learning_offset: NotNegative = 10.0

    def _has_posterior(self) -> bool:
        """True where there is `partial_fit`; else raises AttributeError, which says why."""
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
        """One stochastic step on a minibatch of `total_samples` groups (None: of all groups seen so
        far)."""
        own: Any = self
        size = int(np.shape(jax.tree.leaves(data)[0])[0])
        own.n_samples_seen_ = size + (0 if is_first else own.n_samples_seen_)
        total = float(
            own.n_samples_seen_ if self.total_samples is None else max(self.total_samples, size)
        )
        loader = WeightedLoader(
            data, size_with_padding(size, least), 0, sample_weight=np.ones(size), total=total
        )
        done = 0 if is_first else int(own.fit_.state.step)
        given: dict[str, Any] = {"hyper": hyper()} if is_first else {"state": own.fit_.state}
        own.n_batch_iter_ = done + 1
        return fit(alg, loader, key=to_key(own.random_state), num_steps=done + 1, **given)


class _Convergence:
    """A callback: true where the bounds of every start since the last look have converged, by a
    rule."""

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


def _stays_close(bounds: np.ndarray, tol: float) -> bool:
    """True where each start of (steps, starts) stayed within `tol`. Where Adam turns, or on a slope
    between two stretches, some steps change little with much left to gain."""
    return bool(np.all(np.ptp(bounds, axis=0) < tol))


@cache_by_value
def allow_weights(emission: Emission) -> Emission:
    """The emission with its check of whole numbers removed: the estimator has checked the data."""
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
