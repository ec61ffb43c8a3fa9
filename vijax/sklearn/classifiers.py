"""Classifiers: classes as labels -1 and +1, one against the rest where there are more than two."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from jaxtyping import Float
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from vijax.sklearn import predictors
from vijax.sklearn.parts.base import warn_unless_converged
from vijax.sklearn.parts.predictor_base import PredictorEstimator
from vijax.sklearn.parts.rows import Fitted
from vijax.xla.precision import enable_x64


class PredictorClassifier(ClassifierMixin, PredictorEstimator):
    """An abstract classifier with a Gaussian predictor for each class (one predictor for two classes). A subclass has
    `_model`, `_start`, `_features` and sets its fitted attributes in `_describe`."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fits the classifier.

        Args:
          X: inputs, (rows, features).
          y: the class of each row.

        Raises:
          ValueError: an argument out of its range, missing numbers, only one class.

        Warns:
          ConvergenceWarning: a bound had not converged after `max_iter` steps.
        """
        self._check_settings()
        X, y = self._rows_and_targets(X, y)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {self.classes_}.")
        self._prepare(X)
        with enable_x64(True):
            found = [self._one(self._features(X), labels == k) for k in self._positive()]
            self.fit_ = [one.fit for one in found]
            self.hyperparameters_ = [predictors.learnt_values(fit) for fit in self.fit_]
            self._describe()
        self.converged_, self.n_iter_ = all(one.converged for one in found), max(one.n_iter for one in found)
        self.lower_bound_ = float(sum(one.bounds[-1] for one in found))
        warn_unless_converged(self)
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """The probability of each class, all parameters integrated over their posterior; for more than two classes in
        proportion to the probabilities of one against the rest."""
        check_is_fitted(self)
        features = self._features(self._rows(X, reset=False))
        with enable_x64(True):
            of_one = np.stack([predictors.probability_of_one(fit, features) for fit in self.fit_], axis=1)
        both = np.concatenate([1.0 - of_one, of_one], axis=1) if len(self.classes_) == 2 else of_one
        return both / both.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return self.classes_[likeliest]

    def _positive(self) -> range:
        """The classes that have a predictor."""
        return range(1, 2) if len(self.classes_) == 2 else range(len(self.classes_))

    def _one(self, features: np.ndarray, positive: np.ndarray) -> Fitted:
        return self._fitted(features, np.where(positive, 1.0, -1.0), self._start(features), self._learnt())

    def _describe(self) -> None:
        """Sets further fitted attributes."""
