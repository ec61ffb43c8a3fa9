"""The base of classifiers and regressors with Gaussian predictors: what a subclass must define."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import validate_data

from vijax.arguments import NotNegative, Positive, Size
from vijax.models.regressions.predictors import Predictors
from vijax.sklearn import predictors
from vijax.sklearn.parts.base import VijaxEstimator, as_dense, estimator, key_of
from vijax.sklearn.parts.rows import Fitted, size_with_padding


@estimator
class PredictorSettings:
    """Settings of every model with Gaussian predictors."""

    _: dataclasses.KW_ONLY
    learning_rate: Positive = 0.05
    max_iter: Size = 500
    tol: NotNegative = 1e-4
    random_state: Any = None


class PredictorEstimator(PredictorSettings, VijaxEstimator, abc.ABC):
    """An abstract estimator of a model whose inputs are features of X."""

    fit_: Any
    _accepts_sparse: ClassVar[str | bool] = False

    @abc.abstractmethod
    def _model(self, num_sites: int, dim: int) -> Predictors:
        """The model for a number of rows, with padding, and of columns."""

    @abc.abstractmethod
    def _start(self, features: np.ndarray) -> dict[str, Any]:
        """The first values of the hyperparameters."""

    @abc.abstractmethod
    def _learnt(self) -> tuple[str, ...]:
        """The names of the hyperparameters that are learnt."""

    def _prepare(self, X: np.ndarray) -> None:
        """Learns from X whatever is needed before the fit."""

    def _features(self, X: np.ndarray) -> np.ndarray:
        return X

    def _fitted(self, features: np.ndarray, y: np.ndarray, start: dict[str, Any], learnt: Collection[str]) -> Fitted:
        return predictors.fit_predictors(
            self._model(size_with_padding(len(features)), features.shape[1]),
            features,
            y,
            start,
            tuple(sorted(learnt)),
            key_of(self.random_state),
            self.max_iter,
            self.tol,
            self.learning_rate,
        )

    def _rows(self, X: Any, *, reset: bool) -> np.ndarray:
        """X checked; a sparse one is made dense where the estimator takes such."""
        return self._dense(self._valid(X, reset=reset))

    def _rows_and_targets(self, X: Any, y: Any, **more: Any) -> tuple[np.ndarray, np.ndarray]:
        """X and y, checked."""
        X, y = self._valid(X, y, **more)
        return self._dense(X), y

    def _valid(self, *data: Any, **more: Any) -> Any:
        return validate_data(self, *data, accept_sparse=self._accepts_sparse, dtype=[np.float64, np.float32], **more)

    def _dense(self, X: Any) -> np.ndarray:
        return np.asarray(as_dense(X), np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(self._accepts_sparse)
        return tags
