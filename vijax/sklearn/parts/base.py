"""The base of all estimators: random states, precision, and warnings about convergence."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import pickle
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np
import scipy.sparse
from jaxtyping import PRNGKeyArray, PyTree
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from vijax.arguments import check_values
from vijax.checks import require
from vijax.data.loader import padded_size
from vijax.sklearn.parts.inputs import check_input, check_same_rows
from vijax.xla.memory import total_memory
from vijax.xla.precision import enable_x64

T = TypeVar("T")
LEAST = 64
"""Rows of the smallest data set, with padding: one program for all smaller ones."""


WITH_ROWS = ("fit", "partial_fit", "score", "log_predictive", "transform", "recommend")
"""Methods that may take values for each row in addition to X."""


WITH_ARRAYS = ("fit_", "model_", "emission_")
"""Attributes that are pickled in the precision of the fit."""


@dataclass_transform(eq_default=False)
def estimator(cls: type[T]) -> type[T]:
    """Makes the constructor of an estimator from its fields. It stores arguments unchanged, as
    scikit-learn requires."""
    return dataclasses.dataclass(eq=False, repr=False)(cls)


class VijaxEstimator(BaseEstimator):
    """An estimator that holds a `vijax.Fit`, and pickles it in the precision of the fit. (With a
    working precision of float32 JAX would read arrays of float64 as float32.)"""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Makes the methods of `WITH_ROWS` refuse values whose row names differ from X's."""
        super().__init_subclass__(**kwargs)
        for name in WITH_ROWS:
            method = inspect.getattr_static(cls, name, None)
            if not inspect.isfunction(method):
                continue
            checking = check_same_rows(method)
            if checking is method:
                continue
            if not method.__module__.startswith("vijax"):  # its text links to scikit-learn's pages
                checking.__doc__ = (
                    f"{name.capitalize()} of scikit-learn, for rows that are named as those of X."
                )
            setattr(cls, name, checking)

    def _check_settings(self) -> None:
        """Raises ValueError naming the setting that is outside its limit or choices."""
        check_values(type(self), self.get_params(deep=False))

    def _check_rows(self, X: Any, reset: bool) -> np.ndarray:
        """X as finite numbers in float64; with `reset` the estimator learns its columns."""
        return check_input(self, X, dtype=[np.float64, np.float32], reset=reset).astype(np.float64)

    def _apply_by_row(self, X: Any, read: Callable[[Any], Any]) -> np.ndarray:
        """The results of `read` for the rows of X, in float64, once the estimator is fitted."""
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        with enable_x64(True):
            return apply_by_row(read, X)

    def _keep(self, fit: Any, converged: bool, n_iter: int) -> None:
        """Sets the attributes of every estimator, and warns if the fit has not converged."""
        self.fit_ = fit
        self.converged_ = converged
        self.n_iter_ = n_iter
        if not converged:
            warnings.warn(
                f"{type(self).__name__} did not converge in max_iter={self.max_iter} iterations. "  # type: ignore[attr-defined]
                f"{self._convergence_remedy()}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _convergence_remedy(self) -> str:
        """The remedy for a fit that has not converged, in terms of the estimator's arguments."""
        starts = [name for name in ("n_init", "init_params") if name in self.get_params(deep=False)]
        if not starts:
            return "Increase max_iter or tol."
        return (
            f"Increase max_iter or tol, or try another start: {', '.join(starts)} or random_state."
        )

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())  # type: ignore[arg-type]
        attributes = {name: state.pop(name) for name in WITH_ARRAYS if name in state}
        if attributes:
            fit = attributes["fit_"]
            fits = fit if isinstance(fit, list) else [fit]
            leaves = jax.tree.leaves([fit.state for fit in fits])
            is_double = any(getattr(x, "dtype", None) == np.float64 for x in leaves)
            state["_held"] = is_double, pickle.dumps(attributes)
        return state

    def __setstate__(self, state: Any) -> None:
        is_double, pickled = state.get("_held", (False, None))
        super().__setstate__({name: value for name, value in state.items() if name != "_held"})
        if pickled is not None:
            with enable_x64(is_double):
                self.__dict__.update(pickle.loads(pickled))


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, VijaxEstimator):
    """An abstract transformer of rows into parts: factors, topics."""

    components_: np.ndarray

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def or_default(value: Any, default: Any) -> Any:
    """The value of a setting, or its default for None."""
    return default if value is None else value


def to_key(random_state: Any) -> PRNGKeyArray:
    """A key of JAX from a `random_state` of scikit-learn: None, an integer or a `RandomState`."""
    return jax.random.key(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def size_with_padding(rows: int, least: int = LEAST) -> int:
    """The number of rows with padding."""
    return max(padded_size(rows), least)


def pad(data: PyTree, least: int = LEAST) -> PyTree:
    """The data, followed by copies of their last row."""
    rows = int(np.shape(jax.tree.leaves(data)[0])[0])
    missing = size_with_padding(rows, least) - rows

    def append_copies(x: Any) -> np.ndarray:
        return np.concatenate([x, np.repeat(np.asarray(x)[-1:], missing, axis=0)])

    return jax.tree.map(append_copies, data)


def apply_by_row(function: Callable[[PyTree], Any], data: PyTree) -> np.ndarray:
    """The results of a function for each row. The function also gets rows of padding."""
    rows = int(np.shape(jax.tree.leaves(data)[0])[0])
    return np.asarray(function(pad(data)))[:rows]


def working_precision(X: Any) -> contextlib.AbstractContextManager:
    """A context with the precision of the data: float64 if they have it, else float32."""
    return enable_x64(X.dtype == np.float64)


def cast(values: PyTree, X: Any) -> PyTree:
    """Arrays of floats, such as those of fitted attributes, in the precision of the data."""
    dtype = np.float64 if X.dtype == np.float64 else np.float32

    def change(x: Any) -> Any:
        return np.asarray(x, dtype) if jax.dtypes.issubdtype(x.dtype, np.floating) else x

    return jax.tree.map(change, values)


def as_dense(X: Any) -> Any:
    """A sparse matrix as an array of all its entries; other inputs unchanged. Raises ValueError if
    it would not fit in memory."""
    if not scipy.sparse.issparse(X):
        return X
    needed = 8 * X.shape[0] * X.shape[1]
    available = 0.5 * total_memory()
    remedy = (
        "Take fewer features, or LatentDirichletAllocation, which reads only the entries that are "
        "not zero."
    )
    expected = f"a matrix whose entries fit in {available:.3g} bytes"
    require(needed <= available, "X", expected, f"{needed:.3g}", remedy)
    return X.toarray()
