"""Gaussian processes as estimators: classes, and regressions by likelihood."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from vijax.arguments import Positive
from vijax.models.regressions.predictors import Predictors
from vijax.sklearn.parts.base import estimator
from vijax.sklearn.parts.predictor_estimators import (
    PredictorClassifier,
    PredictorRegressor,
    PredictorSettings,
)
from vijax.sklearn.parts.predictor_fits import Observation, process


@estimator
class _Process(PredictorSettings):
    """The parts that both Gaussian processes share."""

    kernel: Any = "rbf"
    _: dataclasses.KW_ONLY
    length_scale: Any = None
    scale: Positive = 1.0
    ard: bool = False
    optimizer: str | None = "adam"

    def _start(self, features: np.ndarray) -> dict[str, Any]:
        """The start of the length: about the distance between two rows."""
        if not isinstance(self.kernel, str):
            return {}
        length = self.length_scale
        if length is None:
            length = np.sqrt(2.0 * features.var(axis=0).sum()) or 1.0
        lengths = self._lengths(features.shape[1])
        shape = (lengths,) if lengths > 1 else ()
        return {"scale": self.scale, "length": np.broadcast_to(length, shape)}

    def _learnt(self) -> tuple[str, ...]:
        if self.optimizer is None or not isinstance(self.kernel, str):
            return ()
        return ("scale", "length")

    def _lengths(self, dim: int) -> int:
        return dim if self.ard else 1


@estimator
class GaussianProcessRegressor(_Process, PredictorRegressor):
    """A Gaussian process observed through a likelihood: real numbers, with outliers or without,
    counts, times.

    Args:
      kernel: "rbf", "matern12", "matern32", "matern52" or "linear" (they need tinygp), whose scale
        and length are learnt; or a function k(X, X') -> matrix, which is taken as it is.
      likelihood: "gaussian", "student_t" (robust), "poisson", "negative_binomial" or "gamma"
        (positive numbers). With the first two y is measured in units of its spread, about its mean.
      length_scale: first value of the kernel's length; None is the usual distance between two rows.
      scale: first value of the predictor's standard deviation.
      ard: a length for each column.
      optimizer: "adam", or None: the kernel stays as it is (hyperparameters of the likelihood are
          still learnt).
      learning_rate: learning rate of Adam.
      max_iter: most steps.
      tol: the bound has converged when it changes by less, per row, in ten steps if
        hyperparameters are learnt, else in one step.
      random_state: an integer for results that can be repeated.

    Attributes:
      hyperparameters_: learnt hyperparameters of kernel and likelihood, by name.
      lower_bound_: the bound on log p(y).
      converged_, n_iter_: whether the fit converged, and its steps.
      fit_: the `vijax.Fit`.

    >>> X = np.linspace(-3, 3, 30)[:, None]
    >>> y = np.random.default_rng(0).poisson(np.exp(1 + np.sin(X[:, 0])))
    >>> gp = GaussianProcessRegressor(likelihood="poisson", max_iter=300).fit(X, y)
    >>> mean, spread = gp.predict(X[:4], return_std=True)
    >>> mean.shape, bool(np.all(spread > 0))
    ((4,), True)
    """

    _: dataclasses.KW_ONLY
    likelihood: Observation = "gaussian"

    def _model(self, num_sites: int, dim: int) -> Predictors:
        return process(num_sites, dim, self.likelihood, self.kernel, self._lengths(dim))


@estimator
class GaussianProcessClassifier(_Process, PredictorClassifier):
    """Classes by Gaussian processes through a logistic likelihood; with more than two classes, one
    against the rest.

    Args:
      kernel, length_scale, scale, ard, optimizer, learning_rate, max_iter, tol, random_state: as in
        `GaussianProcessRegressor`.

    Attributes:
      classes_: the classes.
      hyperparameters_: learnt hyperparameters of the kernel of each class (with two classes, only
          of the second).
      lower_bound_: the bound on log p(y), summed over these.
      converged_, n_iter_: whether the fit converged, and its steps.
      fit_: the `vijax.Fit` of each class.

    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> gp = GaussianProcessClassifier(tol=1e-3).fit(X, np.abs(X[:, 0]) < 1.5)
    >>> gp.predict([[0.0], [2.8]]).tolist()
    [True, False]
    """

    _: dataclasses.KW_ONLY
    scale: Positive = 2.0

    def _model(self, num_sites: int, dim: int) -> Predictors:
        return process(num_sites, dim, "bernoulli", self.kernel, self._lengths(dim))
