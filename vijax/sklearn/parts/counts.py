"""Parts that estimators of counts share. Weights that are not whole numbers are taken as they are."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from sklearn.utils.validation import check_non_negative, validate_data

from vijax.families import Gamma
from vijax.models.emission import Emission
from vijax.sklearn.parts.base import as_dense
from vijax.xla.by_value import by_value


@by_value
def weights_allowed(emission: Emission) -> Emission:
    """The emission with its check of whole numbers removed: the estimator has checked the data."""
    return dataclasses.replace(emission, check=_anything)


def _anything(data: Any) -> None:
    del data


def check_counts(estimator: Any, X: Any) -> None:
    """Raises ValueError on negative numbers."""
    check_non_negative(X, f"{type(estimator).__name__}")


def dense_counts(estimator: Any, X: Any, reset: bool) -> np.ndarray:
    """A matrix of counts, checked; a sparse one made dense."""
    X = validate_data(estimator, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
    X = np.asarray(as_dense(X), np.float64)
    check_counts(estimator, X)
    return X


def prior_of_rates(num_components: int, X: np.ndarray, shape: float = 1.0, rate: float | None = None) -> Gamma:
    """The prior of the rates of each component; without a `rate` its mean is the mean of the data."""
    mean = np.maximum(X.mean(axis=0), 1e-6)
    rates: Any = shape / mean if rate is None else np.full(X.shape[1], float(rate))
    shapes: Any = np.full((num_components, X.shape[1]), float(shape))
    return Gamma.from_shape_rate(shapes, rates)
