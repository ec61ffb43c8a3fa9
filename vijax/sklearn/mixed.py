"""Regressions by a formula, with effects of groups, as estimators of tables with named columns."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from vijax.arguments import Size
from vijax.automatic.auto import auto
from vijax.checks import require
from vijax.data.formulas.parser import parse
from vijax.data.schema.typed_columns import typed_table
from vijax.extras import require_extra
from vijax.models.formulas.formula import merge, named_columns
from vijax.models.formulas.glmm import ClassFamily, Family, NumberFamily, glmm
from vijax.models.formulas.glmm_model import Glmm, Prediction
from vijax.models.formulas.terms.complete_rows import find_complete_rows
from vijax.sklearn.parts.base import VijaxEstimator, estimator, to_key
from vijax.sklearn.parts.inputs import require_plain
from vijax.sklearn.parts.rows import weigh_rows
from vijax.sklearn.parts.tables import complete_formula, response_name, to_table
from vijax.xla import keys
from vijax.xla.precision import enable_x64


@estimator
class _FormulaEstimator(VijaxEstimator):
    """The parts that both estimators share. All draws use a key that `fit` draws, so that a fitted
    estimator gives the same answer each time."""

    formula: str | None = None
    _: dataclasses.KW_ONLY
    groups: str | Sequence[str] | None = None
    priors: Mapping[str, Any] | None = None
    nodes: Size | None = None
    max_gradients: Size | None = None
    num_draws: Size = 1000
    missing: Literal["refuse", "drop"] = "refuse"
    random_state: Any = None

    def _frame(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, Any]:
        """The table of `fit`, its response and its weights, all checked; without the rows that lack
        a cell of the formula where `missing` is "drop"."""
        self._check_settings()
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        require_plain("y", y, may_be_dates=isinstance(self, ClassifierMixin))
        frame = to_table(self, X, True, response_name(self.formula))
        y = column_or_1d(y, warn=True)
        check_consistent_length(frame, y)
        if self.missing == "refuse":
            return frame, y, sample_weight
        return self._drop_incomplete(frame, y, sample_weight)

    def _drop_incomplete(
        self, frame: Any, y: np.ndarray, weights: Any
    ) -> tuple[Any, np.ndarray, Any]:
        """The rows with all cells of the formula; warns of the others."""
        text, _ = complete_formula(self.formula, self.groups, frame)
        terms = text[parse(text).response.span[1] :]  # type: ignore[union-attr]
        formulas = (terms, *getattr(self, "formulas", ()))
        complete = find_complete_rows(formulas, typed_table(frame), weights, None)
        if complete.left_out is not None:
            text = f"{type(self).__name__}: {complete.left_out}"
            warnings.warn(text, UserWarning, stacklevel=4)
        return frame.iloc[complete.places], y[complete.places], complete.weights

    def _fit_table(self, family: Family, frame: Any, y: Any, sample_weight: Any) -> None:
        """Fits the model of a family to a table and a response."""
        precisions = getattr(self, "precisions", None)
        terms_frame = frame.drop(columns=[precisions], errors="ignore")
        text, self._response = complete_formula(self.formula, self.groups, terms_frame)
        formulas = getattr(self, "formulas", ())
        merged = merge(parse(text), [parse(part, "formulas") for part in formulas])
        self._read_columns = named_columns(merged, with_response=False)
        if precisions is not None:
            self._read_columns = (*self._read_columns, precisions)
        rows, weights = weigh_rows(np.arange(len(frame)), sample_weight)
        table = frame.assign(**{self._response: y}).iloc[rows]
        with enable_x64(True):
            self._key = to_key(self.random_state)
            self.model_: Glmm = glmm(
                text,
                table,
                family,
                priors=self.priors,
                weights=weights,
                nodes=self.nodes,
                formulas=formulas,
                quantile=getattr(self, "quantile", None),
                precisions=precisions,
            )
            options: Any = {"key": self._key, "richer": True, "max_gradients": self.max_gradients}
            self.fit_ = auto(self.model_, self.model_.data, **options)
            self.summary_ = self.fit_.summary()
        self.verdict_ = self.fit_.report.verdict
        if not self.fit_.report.usable:
            warnings.warn(
                f"{type(self).__name__}: {self.verdict_}", ConvergenceWarning, stacklevel=3
            )

    def _mean_response(self, X: Any) -> np.ndarray:
        """The mean of the response at rows, or the probabilities of classes, all unknowns
        integrated out."""
        check_is_fitted(self)
        table = to_table(self, X, False)
        with enable_x64(True):
            key_draws, key_new = keys.split(self._key)
            draws = self.model_.draws(self.fit_, key_draws, self.num_draws)
            for new in self.model_.design.read_rows(table).new_levels:
                text = f"{new}: their effects are drawn from the law of groups."
                warnings.warn(f"{type(self).__name__}: {text}", UserWarning, stacklevel=4)
            rows = self.model_.design.read_rows(table)
            eta = self.model_.row_predictors(draws, rows, key_new)
            means = self.model_.response_means(draws, rows, eta)
        # The draws of a row are adjacent, so that their mean does not depend on the other rows.
        return np.ascontiguousarray(np.moveaxis(means, 0, -1)).mean(-1)


@estimator
class MixedModelRegressor(RegressorMixin, _FormulaEstimator):
    """A regression by a formula, with effects of groups: `vijax.glmm` fitted by `vijax.auto`.

    Args:
      formula: "~ x + (x | g)", or "y ~ x + (x | g)", with terms as in `vijax.glmm`. None: all
        columns of X.
      family: law of the response, as in `vijax.glmm`.
      groups: without a formula, the columns that name groups, each with an intercept `(1 | g)`;
        the other columns are terms.
      priors, nodes: as in `vijax.glmm`.
      formulas: formulas of parameters of the family, as ("sigma ~ x",), as in `vijax.glmm`.
      quantile: for "asymmetriclaplace" the quantile that `predict` returns, as in `vijax.glmm`.
      precisions: column of X with precisions w of rows, whose variance is sigma^2 / w.
      max_gradients: as in `vijax.auto`.
      num_draws: draws of the posterior behind each prediction.
      missing: "refuse" refuses rows of X that lack a cell of the formula; "drop" leaves them out in
        `fit`, with a warning that counts them. To predict, each row needs its cells.
      random_state: an integer for results that can be repeated.

    Attributes:
      summary_: a table of coefficients, spreads and correlations of groups, and parameters of the
        family: `names`, `mean`, `sd`, and the intervals `low` to `high` of 90 %.
      verdict_: how far to trust the fit, in words.
      model_: the `vijax.glmm`.
      fit_: the `vijax.Fit`.

    >>> import pytest; pandas = pytest.importorskip("pandas")
    >>> rng = np.random.default_rng(0)
    >>> table = pandas.DataFrame({"x": rng.normal(size=60), "g": np.repeat(list("abcdef"), 10)})
    >>> y = 2 * table.x + rng.normal(size=6)[np.repeat(np.arange(6), 10)] + 0.1 * rng.normal(size=60)
    >>> model = MixedModelRegressor("~ x + (1 | g)", random_state=0).fit(table, y)
    >>> model.summary_.names, round(float(model.summary_.mean[1]), 1), model.score(table, y) > 0.95
    (('Intercept', 'x', '1|g_sigma', 'sigma'), 2.0, True)
    """

    _: dataclasses.KW_ONLY
    family: NumberFamily = "gaussian"
    formulas: Sequence[str] = ()
    quantile: float | None = None
    precisions: str | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fits the model. A `ConvergenceWarning` says that the fit is not to be used.

        Args:
          X: a table with the columns of the formula, (rows, columns), of pandas, polars or pyarrow;
            the columns of an array are x0, x1, ... A column with the name of the response is left
            out.
          y: the response, (rows,).
          sample_weight: how often each row counts, (rows,), zero or more: a row of weight 2 is the
              same as two rows.

        Raises:
          ValueError: an argument out of its range, a formula that cannot be read, a column that is
            not there, missing values, responses that the family does not have.
        """
        remedy = "vijax.glmm takes angles: errors and scores here are differences of numbers."
        require(self.family != "vonmises", "family", "a family of numbers", "vonmises", remedy)
        frame, y, sample_weight = self._frame(X, y, sample_weight)
        self._fit_table(self.family, frame, _numbers(y), sample_weight)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of y, all unknowns integrated over their posterior, and with `return_std` its
        standard deviation, at rows X, (rows, columns). A group that `fit` has not seen is drawn
        from the law of groups."""
        mean = self._mean_response(X)
        return (mean, self._prediction(X, 0.9).response_sd) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The ends of intervals that hold y with a probability of `level`, at rows X, (rows,
        columns)."""
        prediction = self._prediction(X, level)
        return np.asarray(prediction.lowest), np.asarray(prediction.highest)

    def _prediction(self, X: Any, level: float) -> Prediction:
        check_is_fitted(self)
        options: Any = {"key": self._key, "level": level, "num_draws": self.num_draws}
        table = to_table(self, X, False)
        with enable_x64(True):
            return self.model_.predict(self.fit_, table, **options)

    def log_predictive(self, X: Any, y: Any) -> Float[np.ndarray, " rows"]:
        """Log predictive density of each observation."""
        check_is_fitted(self)
        require_plain("y", y)
        response = {self._response: _numbers(column_or_1d(y, warn=True))}
        table = to_table(self, X, False).assign(**response)
        with enable_x64(True):
            log_probs = self.model_.log_lik(self.fit_, self._key, self.num_draws, table=table)
        return logsumexp(log_probs, axis=0) - np.log(len(log_probs))


ORDERED = ("cumulative", "sratio")
"""Families of ordered classes."""


@estimator
class MixedModelClassifier(ClassifierMixin, _FormulaEstimator):
    """Classes by a formula, with effects of groups: `vijax.glmm` fitted by `vijax.auto`.

    Args:
      formula, groups, priors, nodes, max_gradients, num_draws, missing, random_state: as in
          `MixedModelRegressor`.
      family: "categorical": log odds of each class against the first one (two classes: "bernoulli"
        of `vijax.glmm`); "cumulative" and "sratio": the classes have an order, that of `order`, of
        numbers, or of an ordered column of pandas.
      order: of ordered classes the classes as they rise; text without an order is refused.

    Attributes:
      classes_: the classes, sorted: the columns of `predict_proba`, as scikit-learn's scores read
        them.
      order_: of ordered classes the classes as they rise.
      summary_, verdict_, model_, fit_: as in `MixedModelRegressor`.

    >>> import pytest; pandas = pytest.importorskip("pandas")
    >>> table = pandas.DataFrame({"x": np.linspace(-3, 3, 60), "g": np.arange(60) % 6})
    >>> y = np.where(table.x + np.sin(7.0 * np.arange(60)) > 0, "yes", "no")
    >>> model = MixedModelClassifier("~ x + (1 | g)", random_state=0).fit(table, y)
    >>> model.classes_.tolist(), model.predict(table[:1]).tolist(), model.predict_proba(table[:1]).shape
    (['no', 'yes'], ['no'], (1, 2))
    """

    _: dataclasses.KW_ONLY
    family: ClassFamily = "categorical"
    order: Sequence[Any] | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fits the model, as `MixedModelRegressor.fit` does, to the classes y.

        Raises:
          ValueError: as there, or only one class.
        """
        dtype = getattr(y, "dtype", None)
        categories = getattr(dtype, "categories", ())
        has_order = self.family in ORDERED
        is_ordered = has_order and getattr(dtype, "ordered", False)
        frame, y, sample_weight = self._frame(X, y, sample_weight)
        check_classification_targets(y)
        _, _, weighted_y = weigh_rows(np.arange(len(frame)), sample_weight, y)
        self.classes_ = np.unique(weighted_y)
        rising = self.classes_
        if is_ordered:
            present = set(self.classes_)
            rising = np.array([label for label in categories if label in present])
        elif has_order:
            rising = _order_classes(self.classes_, self.order)
        expected = f"None, but for family {' or '.join(ORDERED)}"
        is_needless = not has_order and self.order is not None
        require(not is_needless, "order", expected, self.order)
        if len(self.classes_) < 2:
            raise ValueError(
                f"Classifier can't train when only one class is present: {self.classes_}."
            )
        numbers = _class_numbers(y, rising)
        if has_order:
            self.order_ = rising
            self._fit_table(self.family, frame, numbers, sample_weight)
        elif len(self.classes_) == 2:
            self._fit_table("bernoulli", frame, numbers, sample_weight)
        else:
            pandas = require_extra("pandas", "sklearn")
            labels = pandas.Categorical.from_codes(numbers, self.classes_.astype(str))
            self._fit_table("categorical", frame, labels, sample_weight)
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """The probability of each class of `classes_`, all unknowns integrated over their
        posterior."""
        probs = self._mean_response(X)
        if probs.ndim == 1:
            probs = np.stack([1 - probs, probs], 1)
        if self.family not in ORDERED:
            return probs
        return probs[:, _class_numbers(self.classes_, self.order_)]

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        likeliest = self.predict_proba(X).argmax(1)
        return self.classes_[likeliest]


def _order_classes(classes: np.ndarray, order: Sequence[Any] | None) -> np.ndarray:
    """Classes as they rise; ValueError for text without an order, or an order of other classes."""
    if order is not None:
        is_complete = len(order) == len(classes) and set(order) == set(classes.tolist())
        require(is_complete, "order", f"each class once: {classes.tolist()}", list(order))
        ordered = np.empty(len(order), classes.dtype)
        ordered[:] = list(order)
        return ordered
    is_text = any(isinstance(label, str) for label in classes.tolist())
    expected = "numbers, or classes in an order"
    remedy = (
        f"Give order={classes.tolist()} as they rise, or pandas.Categorical(y, categories=[...], "
        "ordered=True)."
    )
    require(not is_text, "y", expected, f"text, {classes.tolist()}", remedy)
    return classes


def _class_numbers(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The number of each label's class; 0 for a class without weight."""
    places = {label: i for i, label in enumerate(classes.tolist())}
    return np.array([places.get(label, 0) for label in labels.tolist()])


def _numbers(y: np.ndarray) -> Float[np.ndarray, " rows"]:
    """A response as finite numbers."""
    try:
        numbers = y.astype(np.float64)
    except (TypeError, ValueError):
        require(False, "y", "numbers", repr(y[0]), "MixedModelClassifier takes classes.")
    require(np.isfinite(numbers).all(), "y", "finite numbers", "NaN or infinity")
    return numbers
