"""Generalised linear models with a posterior of their coefficients, as estimators."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import numpy as np

from vijax.arguments import NotNegative, Positive
from vijax.data.formulas.row_statistics import mean_and_spread
from vijax.models.regressions.predictors import Predictors
from vijax.sklearn.parts import predictor_fits
from vijax.sklearn.parts.base import estimator
from vijax.sklearn.parts.predictor_estimators import (
    PredictorClassifier,
    PredictorRegressor,
    PredictorSettings,
)
from vijax.sklearn.parts.predictor_fits import Observation, linear_model
from vijax.spreads import spread_or_one

INTERCEPT_SCALE = 10.0
"""Prior standard deviation of the intercept, in units of that of the coefficients."""


@estimator
class _Linear(PredictorSettings):
    """The parts that linear estimators share. Columns are centred and scaled by their spreads."""

    _: dataclasses.KW_ONLY
    prior_scale: Positive = 1.0
    learn_prior_scale: bool = False
    fit_intercept: bool = True
    tol: NotNegative = 1e-5
    _accepts_sparse: ClassVar[str | bool] = "csr"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fits the model. A `ConvergenceWarning` says that the bound had not converged after
        `max_iter` steps.

        Args:
          X: inputs, (rows, features).
          y: the class of each row, or its observation, in the support of the likelihood.
          sample_weight: how often each row counts, (rows,), zero or more: a row of weight 2 is the
              same as two rows.

        Raises:
          ValueError: an argument out of its range, missing numbers, impossible observations, only
              one class.
        """
        predictor: Any = self
        return predictor._fit(X, y, sample_weight)

    def _prepare(self, X: np.ndarray, weights: np.ndarray) -> None:
        mean, spread = mean_and_spread(X, weights)
        self._spread = spread_or_one(spread, mean)
        self._mean = mean
        if not self.fit_intercept:
            self._mean = np.zeros(X.shape[1])

    def _features(self, X: np.ndarray) -> np.ndarray:
        scaled = (X - self._mean) / self._spread
        if not self.fit_intercept:
            return scaled
        return np.column_stack([scaled, np.full(len(X), INTERCEPT_SCALE)])

    def _start(self, features: np.ndarray) -> dict[str, Any]:
        return {"prior_scale": self.prior_scale}

    def _learnt(self) -> tuple[str, ...]:
        return ("prior_scale",) if self.learn_prior_scale else ()

    def _coefficients(self, fit: Any) -> tuple[np.ndarray, np.ndarray, float]:
        """Means and standard deviations of the coefficients of the original columns, and the
        intercept."""
        dim = len(self._mean)
        probes = np.eye(dim + self.fit_intercept)
        if self.fit_intercept:
            probes[-1] = self._features(np.zeros((1, dim)))[0]
        mean, variance = predictor_fits.predict_moments(fit, probes)
        intercept = float(mean[-1]) if self.fit_intercept else 0.0
        return mean[:dim] / self._spread, np.sqrt(variance[:dim]) / self._spread, intercept


@estimator
class BayesianGLM(_Linear, PredictorRegressor):
    """A generalised linear model with a Gaussian prior of its coefficients.

    Args:
      likelihood: as in `GaussianProcessRegressor`, the last three with a logarithmic link.
      prior_scale: prior standard deviation of the coefficients of columns in units of their
          spreads.
      learn_prior_scale: learn `prior_scale`.
      fit_intercept: include an intercept; its prior is ten times as wide.
      learning_rate, max_iter, tol, random_state: as in `GaussianProcessRegressor`.

    Attributes:
      coef_, coef_std_: posterior means and standard deviations of the coefficients of the original
          columns.
      intercept_: posterior mean of the intercept.
      hyperparameters_: hyperparameters of prior and likelihood, by name.
      lower_bound_: the bound on log p(y).
      converged_, n_iter_: whether the fit converged, and its steps.
      fit_: the `vijax.Fit`.

    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.random.default_rng(1).poisson(np.exp(0.5 + X @ [1.0, -0.5]))
    >>> glm = BayesianGLM(likelihood="poisson").fit(X, y)
    >>> glm.coef_.round(1).tolist(), bool(np.all(glm.coef_std_ < 0.1))
    ([1.0, -0.5], True)
    """

    likelihood: Observation = "gaussian"

    def _model(self, num_sites: int, dim: int) -> Predictors:
        return linear_model(num_sites, dim, self.likelihood)

    def _describe(self, dim: int) -> None:
        mean, spread, intercept = self._coefficients(self.fit_)
        self.coef_ = self._unit * mean
        self.coef_std_ = self._unit * spread
        self.intercept_ = self._shift + self._unit * intercept


class BayesianLogisticRegression(_Linear, PredictorClassifier):
    """Logistic regression with a Gaussian prior of its coefficients; with more than two classes,
    one against the rest.

    Args:
      prior_scale, learn_prior_scale, fit_intercept, learning_rate, max_iter, tol, random_state: as
          in `BayesianGLM`.

    Attributes:
      classes_: the classes.
      coef_, coef_std_: posterior means and standard deviations, (1 or classes, features).
      intercept_: posterior means, (1 or classes,).
      hyperparameters_: hyperparameters of the prior of each class.
      lower_bound_: the bound on log p(y), summed over these.
      converged_, n_iter_: whether the fit converged, and its steps.
      fit_: the `vijax.Fit` of each class.

    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> BayesianLogisticRegression().fit(X, X[:, 0] > 0).score(X, X[:, 0] > 0) > 0.95
    True
    """

    def _model(self, num_sites: int, dim: int) -> Predictors:
        return linear_model(num_sites, dim, "bernoulli")

    def _describe(self) -> None:
        coefficients = [self._coefficients(fit) for fit in self.fit_]
        means, spreads, intercepts = zip(*coefficients, strict=True)
        self.coef_ = np.stack(means)
        self.coef_std_ = np.stack(spreads)
        self.intercept_ = np.array(intercepts)
