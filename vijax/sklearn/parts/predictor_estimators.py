"""Bases of classifiers and regressors with Gaussian predictors."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from vijax.arguments import NotNegative, Positive, Size
from vijax.data.formulas.row_statistics import mean_and_spread
from vijax.models.regressions.predictors import Predictors
from vijax.sklearn.parts import predictor_fits
from vijax.sklearn.parts.base import VijaxEstimator, as_dense, estimator, size_with_padding, to_key
from vijax.sklearn.parts.inputs import check_input
from vijax.sklearn.parts.predictor_fits import OBSERVATIONS
from vijax.sklearn.parts.rows import RowFit, weigh_rows
from vijax.xla.precision import enable_x64

EXACT = 1e-3
"""Deviation of y from a fit, in units of y's spread, below which there is hardly any noise."""


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

    def fit(self, X: Any, y: Any) -> Self:
        """Fits the model to inputs X, (rows, features), and y, (rows,): the class of each row, or
        its observation, in the support of the likelihood. A `ConvergenceWarning` says that a bound
        had not converged after `max_iter` steps.

        Raises:
          ValueError: an argument out of its range, missing numbers, impossible observations, only
              one class.
        """
        return self._fit(X, y, None)

    @abc.abstractmethod
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """As `fit`, with weights of rows."""

    @abc.abstractmethod
    def _model(self, num_sites: int, dim: int) -> Predictors:
        """The model for a number of rows, with padding, and of columns."""

    @abc.abstractmethod
    def _start(self, features: np.ndarray) -> dict[str, Any]:
        """The first values of the hyperparameters."""

    @abc.abstractmethod
    def _learnt(self) -> tuple[str, ...]:
        """The names of the hyperparameters that are learnt."""

    def _prepare(self, X: np.ndarray, weights: np.ndarray) -> None:
        """Learns means and spreads from weighted rows of X, if the features need them."""

    def _features(self, X: np.ndarray) -> np.ndarray:
        return X

    def _fit_rows(
        self,
        features: np.ndarray,
        y: np.ndarray,
        start: dict[str, Any],
        learnt: Collection[str],
        weights: np.ndarray,
    ) -> RowFit:
        return predictor_fits.fit_predictors(
            self._model(size_with_padding(len(features)), features.shape[1]),
            features,
            y,
            start,
            tuple(sorted(learnt)),
            to_key(self.random_state),
            self.max_iter,
            self.tol,
            self.learning_rate,
            weights,
        )

    def _rows(self, X: Any) -> np.ndarray:
        """X for a fitted estimator, checked and dense."""
        check_is_fitted(self)
        return np.asarray(as_dense(self._valid(X, reset=False)), np.float64)

    def _rows_and_targets(self, X: Any, y: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        """X and y, checked, X dense."""
        X, y = self._valid(X, y, **options)
        return np.asarray(as_dense(X), np.float64), y

    def _valid(self, *data: Any, **options: Any) -> Any:
        dtype = [np.float64, np.float32]
        return check_input(self, *data, accept_sparse=self._accepts_sparse, dtype=dtype, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(self._accepts_sparse)
        return tags


class PredictorClassifier(ClassifierMixin, PredictorEstimator):
    """An abstract classifier with a Gaussian predictor for each class (one predictor for two
    classes). A subclass has `_model`, `_start`, `_features` and sets its fitted attributes in
    `_describe`."""

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_settings()
        X, y = self._rows_and_targets(X, y)
        X, weights, y = weigh_rows(X, sample_weight, y)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"Classifier can't train when only one class is present: {self.classes_}."
            )
        self._prepare(X, weights)
        features = self._features(X)
        with enable_x64(True):
            fits = [self._fit_class(features, labels == k, weights) for k in self._positive()]
            self.fit_ = [class_fit.fit for class_fit in fits]
            self.hyperparameters_ = [predictor_fits.learnt_values(fit) for fit in self.fit_]
            self._describe()
        self.lower_bound_ = float(sum(class_fit.bounds[-1] for class_fit in fits))
        has_converged = all(class_fit.converged for class_fit in fits)
        self._keep(self.fit_, has_converged, max(class_fit.n_iter for class_fit in fits))
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """The probability of each class, all parameters integrated over their posterior; for more
        than two classes in proportion to the probabilities of one against the rest."""
        features = self._features(self._rows(X))
        with enable_x64(True):
            probs = [predictor_fits.positive_probability(fit, features) for fit in self.fit_]
        positive = np.stack(probs, axis=1)
        if len(self.classes_) == 2:
            positive = np.concatenate([1.0 - positive, positive], axis=1)
        return positive / positive.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return self.classes_[likeliest]

    def _positive(self) -> range:
        """The classes that have a predictor."""
        return range(1, 2) if len(self.classes_) == 2 else range(len(self.classes_))

    def _fit_class(self, features: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> RowFit:
        labels = np.where(positive, 1.0, -1.0)
        return self._fit_rows(features, labels, self._start(features), self._learnt(), weights)

    def _describe(self) -> None:
        """Sets further fitted attributes."""


class PredictorRegressor(RegressorMixin, PredictorEstimator):
    """An abstract regressor with a Gaussian predictor. A subclass has `_model`, `_start`,
    `_features` and sets its fitted attributes in `_describe`."""

    likelihood: str

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_settings()
        X, y = self._rows_and_targets(X, y, y_numeric=True)
        X, weights, y = weigh_rows(X, sample_weight, y)
        y = np.asarray(y, np.float64)
        kind = OBSERVATIONS[self.likelihood]
        kind.make(kind.start).check(y)
        self._shift = 0.0
        self._unit = 1.0
        if kind.is_real:
            mean, spread = mean_and_spread(y, weights)
            self._shift = float(mean)
            self._unit = float(spread) or 1.0
        self._prepare(X, weights)
        features = self._features(X)
        start = {**self._start(features), **kind.start}
        learnt = {*self._learnt(), *kind.start}
        with enable_x64(True):
            scaled = (y - self._shift) / self._unit
            row_fit = self._fit_rows(features, scaled, start, learnt, weights)
            self.fit_ = row_fit.fit
            self.hyperparameters_ = predictor_fits.learnt_values(row_fit.fit)
            self._describe(features.shape[1])
        self.lower_bound_ = float(row_fit.bounds[-1]) - weights.sum() * float(np.log(self._unit))
        self._is_exact = kind.is_real and self._leaves_nothing(features, y)
        self._keep(row_fit.fit, row_fit.converged, row_fit.n_iter)
        return self

    def _leaves_nothing(self, features: np.ndarray, y: np.ndarray) -> bool:
        """True if y is constant, or the fit gives it, to a thousandth of its spread."""
        if np.ptp(y) == 0:
            return True
        return bool(np.abs(y - self._moments(features)[0]).max() < EXACT * np.std(y))

    def _moments(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of y at features."""
        with enable_x64(True):
            predictors = predictor_fits.predict_moments(self.fit_, features)
        kind = OBSERVATIONS[self.likelihood]
        mean, variance = kind.moments(*predictors, self.hyperparameters_)
        return self._shift + self._unit * mean, self._unit * np.sqrt(variance)

    def _convergence_remedy(self) -> str:
        if not self._is_exact:
            return super()._convergence_remedy()
        return (
            "X gives y exactly, or y is constant: no noise is left, and its size falls without "
            "end. Give y with the noise of its measurement; without any, "
            "sklearn.linear_model.LinearRegression or "
            "interpolation will do."
        )

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of y, all parameters integrated over their posterior, and with `return_std` its
        standard deviation, at inputs X, (rows, features)."""
        mean, spread = self._moments(self._features(self._rows(X)))
        return (mean, spread) if return_std else mean

    def log_predictive(self, X: Any, y: Any) -> Float[np.ndarray, " rows"]:
        """Log predictive density of each observation."""
        check_is_fitted(self)
        X, y = self._rows_and_targets(X, y, reset=False, y_numeric=True)
        features = self._features(X)
        scaled = (np.asarray(y, np.float64) - self._shift) / self._unit
        with enable_x64(True):
            return predictor_fits.log_densities(self.fit_, features, scaled) - np.log(self._unit)

    def _describe(self, dim: int) -> None:
        """Sets further fitted attributes."""
