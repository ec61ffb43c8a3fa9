"""What classifiers and regressors with Gaussian predictors have in common: what a model of theirs must say."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import validate_data

from vijax.checks import require_positive
from vijax.models.predictors import Predictors
from vijax.sklearn import predictors
from vijax.sklearn.base import VijaxEstimator, as_dense, estimator, key_of, require_settles
from vijax.sklearn.rows import Fitted, size_with_padding


@estimator
class PredictorSettings:
    """Settings of every model with Gaussian predictors."""

    _: dataclasses.KW_ONLY
    learning_rate: float = 0.05
    max_iter: int = 500
    tol: float = 1e-4
    random_state: Any = None


class PredictorEstimator(PredictorSettings, VijaxEstimator, abc.ABC):
    """An abstract estimator of a model whose inputs are features of X."""

    fit_: Any
    _accepts_sparse: ClassVar[str | bool] = False

    @abc.abstractmethod
    def _model(self, num_sites: int, dim: int) -> Predictors:
        """Of so many rows, with padding, and columns."""

    @abc.abstractmethod
    def _start(self, features: np.ndarray) -> dict[str, Any]:
        """Where the hyperparameters begin."""

    @abc.abstractmethod
    def _learnt(self) -> tuple[str, ...]:
        """Which of them are learnt."""

    def _prepare(self, X: np.ndarray) -> None:
        """What is learnt of X before the fit."""

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
        """X checked, a sparse one made dense where the estimator takes such."""
        return self._dense(self._valid(X, reset=reset))

    def _rows_and_targets(self, X: Any, y: Any, **more: Any) -> tuple[np.ndarray, np.ndarray]:
        """The same with its y."""
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

    def _check_steps(self) -> None:
        """Raises ValueError naming the argument that makes no sense."""
        require_settles(self)
        require_positive(learning_rate=self.learning_rate)
