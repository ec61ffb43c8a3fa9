"""Regressors: units of y, predictions, densities."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from jaxtyping import Float
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from vijax.sklearn import predictors
from vijax.sklearn.parts.base import warn_unless_converged
from vijax.sklearn.parts.observations import OBSERVED
from vijax.sklearn.parts.predictor_base import PredictorEstimator
from vijax.xla.precision import enable_x64


class PredictorRegressor(RegressorMixin, PredictorEstimator):
    """An abstract regressor with a Gaussian predictor. A subclass has `_model`, `_start`, `_features` and sets its
    fitted attributes in `_describe`."""

    likelihood: str

    def fit(self, X: Any, y: Any) -> Self:
        """Fits the regression.

        Args:
          X: inputs, (rows, features).
          y: observations, (rows,), in the support of the likelihood.

        Raises:
          ValueError: an argument out of its range, missing numbers, observations that cannot be.

        Warns:
          ConvergenceWarning: the bound had not converged after `max_iter` steps.
        """
        self._check_settings()
        X, y = self._rows_and_targets(X, y, y_numeric=True)
        y, observed = np.asarray(y, np.float64), OBSERVED[self.likelihood]
        observed.make(observed.start).check(y)
        self._shift = float(y.mean()) if observed.is_real else 0.0
        self._unit = float(y.std() or 1.0) if observed.is_real else 1.0
        self._prepare(X)
        features = self._features(X)
        start = {**self._start(features), **observed.start}
        learnt = {*self._learnt(), *observed.start}
        with enable_x64(True):
            found = self._fitted(features, (y - self._shift) / self._unit, start, learnt)
            self.fit_, self.converged_, self.n_iter_ = found.fit, found.converged, found.n_iter
            self.hyperparameters_ = predictors.learnt_values(found.fit)
            self._describe(features.shape[1])
        self.lower_bound_ = float(found.bounds[-1]) - len(X) * float(np.log(self._unit))
        warn_unless_converged(self)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of y, all parameters integrated over their posterior.

        Args:
          X: inputs, (rows, features).
          return_std: return the standard deviation of y too.
        """
        mean, variance = self._predictor(X)
        moments = OBSERVED[self.likelihood].moments(mean, variance, self.hyperparameters_)
        mean, spread = self._shift + self._unit * moments[0], self._unit * np.sqrt(moments[1])
        return (mean, spread) if return_std else mean

    def log_predictive(self, X: Any, y: Any) -> Float[np.ndarray, " rows"]:
        """Log predictive density of each observation."""
        check_is_fitted(self)
        X, y = self._rows_and_targets(X, y, reset=False, y_numeric=True)
        features, y = self._features(X), (np.asarray(y, np.float64) - self._shift) / self._unit
        with enable_x64(True):
            return predictors.log_densities(self.fit_, features, y) - np.log(self._unit)

    def _predictor(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of z."""
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        with enable_x64(True):
            return predictors.predicted(self.fit_, self._features(X))

    def _describe(self, dim: int) -> None:
        """Sets further fitted attributes."""
