"""Generalised linear models with a Gaussian prior (Khan et al. 2016, appendix E).

    w ~ N(0, s^2 I),   z_n = x_n' w,   y_n | z_n ~ p(y_n | z_n)

The posterior is computed in weight space (D x D matrices) if D < N, else by the kernel s^2 X X' (N
x N); it is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from vijax.arguments import Positive, check_arguments
from vijax.checks import require
from vijax.data.schema.named_columns import find_names
from vijax.data.schema.number_arrays import array_of_numbers, require_finite
from vijax.data.schema.same_rows import require_one_index
from vijax.families import Family
from vijax.families.base import as_float
from vijax.inference.expectation import Expectation, exact, jaakkola_jordan
from vijax.inference.likelihood import Likelihood, as_likelihood, bernoulli_logit
from vijax.inference.sites import FeatureForm, KernelForm, Prior, SparseFeatureForm
from vijax.inference.sites.forms import padded_rows
from vijax.models.regressions.measure import constant_place, measure_observations, place_of_columns
from vijax.models.regressions.predictors import (
    Predictors,
    check_observations,
    expected_stats,
    predictors,
    require_function,
)
from vijax.xla.by_value import cache_by_value

Form = Literal["auto", "weights", "kernel"]


@cache_by_value
@check_arguments
def glm(
    x: Any,
    y: Any,
    likelihood: Likelihood | Callable,
    prior_scale: Positive = 1.0,
    form: Form | None = "auto",
    expectation: Expectation | None = None,
    others: Mapping[str, Family] | None = None,
) -> Predictors:
    """A generalised linear model.

    The weights' means and variances are `model.predict(fit.posterior, jnp.eye(D))`. Add a column of
    ones to `x` for an intercept.

    Args:
      x: design matrix, (N, D): an array, a SciPy sparse matrix or a jax BCOO, never made dense in
        weight space. New tables are read by the names of the columns of this one, if it is a table
        of pandas, polars or Arrow.
      y: observations, (N,).
      likelihood: p(y | z) (`vijax.likelihood`) or a function log_lik(y, z). Of `gaussian()` and
        `student_t()` without a number the noise is learnt, `fit.posterior["noise"]` being the law
        of its precision.
      prior_scale: prior standard deviation of the weights. A hyperparameter that can be learnt.
        Where the noise is learnt it is in units of the standard deviation of y, and the intercept's
        prior is about the mean of y.
      form: work with weights or with the kernel; auto: by shape. The kernel form wants sites of
        nonnegative precision, hence a log-concave likelihood. None is "auto".
      expectation: E_q[log p(y | z)]; `vijax.expectation.exact()` if None.
      others: priors of further globals; the likelihood is then a function of their statistics
          (`vijax.models.gp`).

    Raises:
      ValueError: not one observation for each row, or one outside the likelihood's support; entries
        that are not finite; an unknown form.

    >>> import jax, vijax as vi
    >>> x, y = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]), np.array([0.5, 1.0, 1.0])
    >>> model = glm(x, y, vi.likelihood.gaussian(0.25))
    >>> fit = vi.fit(vi.pg_svi(model, step_size=vi.step_size.constant(1.0)), model.data, num_steps=1,
    ...     key=jax.random.key(0))
    >>> print(np.asarray(model.predict(fit.posterior, jnp.eye(2))[0]).round(3))
    [0.451 0.486]
    """
    require_one_index({"x": x, "y": y})
    design = _Design(x)
    if others:
        likelihood_of = require_function(likelihood)
    else:
        fixed = as_likelihood(likelihood)
        likelihood_of = lambda hyper, stats: fixed
    lik = likelihood_of({"prior_scale": as_float(prior_scale)}, expected_stats(others or {}))
    y = array_of_numbers("y", y)
    check_observations(y, design.shape[0], lik)
    observations = measure_observations(y, likelihood_of, lik, others, design.place)
    if form is None or form == "auto":
        form = "kernel" if design.shape[1] >= design.shape[0] and lik.log_concave else "weights"
    view = _KernelView(design) if form == "kernel" else _WeightView(design)
    return predictors(
        prior=lambda hyper: view.prior(hyper["prior_scale"]),
        likelihood=observations.likelihood,
        y=observations.y,
        rows=view.rows,
        new=lambda hyper, rows: view.new(hyper["prior_scale"], rows),
        expectation=expectation or exact(),
        hyper={"prior_scale": as_float(prior_scale)},
        others=observations.others,
        own=_own if form == "kernel" else None,
        measure=observations.measure,
        columns=find_names(x),
    )


def _own(hyper: Mapping[str, Any], inputs: Any) -> Array:
    """Prior covariance of new predictors."""
    rows = _Design(inputs, "inputs").matrix
    return hyper["prior_scale"] ** 2 * _times_transpose(rows, rows)


@cache_by_value
@check_arguments
def logistic_regression(
    x: Any,
    y: Any,
    prior_scale: Positive = 1.0,
    bound: Literal["exact", "jaakkola_jordan"] = "exact",
    form: Form | None = "auto",
) -> Predictors:
    """Bayesian logistic regression (Khan et al. 2016, appendix E; Blei, Kucukelbir and McAuliffe
    2017, section 5.3), labels -1 and +1.

    Args:
      x: design matrix, see `glm`.
      y: labels, (N,).
      prior_scale: prior standard deviation of the weights.
      bound: exact: the Gaussian expectation of the likelihood itself; jaakkola_jordan: the
        quadratic bound. Under that `step_size.constant(1.0)` on full data is coordinate ascent.
      form: work with weights or with the kernel; auto: by shape. See `glm`.

    Raises:
      ValueError: see `glm`; an unknown bound.
    """
    bounds = {"exact": exact, "jaakkola_jordan": jaakkola_jordan}
    return glm(x, y, bernoulli_logit(), prior_scale, form, bounds[bound]())


class _Design:
    """A design matrix, dense (an array) or sparse (SciPy's)."""

    def __init__(self, x: Any, argument: str = "x"):
        if _is_bcoo(x):
            x = _from_bcoo(x)
        self.sparse = hasattr(x, "tocsr")
        matrix: Any = _as_csr(x) if self.sparse else as_float(array_of_numbers(argument, x))
        self.matrix = matrix
        self.shape = self.matrix.shape
        require(len(self.shape) == 2, argument, "a matrix (N, D)", f"shape {self.shape}")
        bad = _rows_not_finite(matrix)
        if len(bad):
            actual = f"{len(bad)} rows that are not, the first row {bad[0]}, counted from 0"
            remedy = "Remove or impute those rows."
            require(False, argument, "finite numbers", actual, remedy)

    def check_columns(self, inputs: Any) -> None:
        """Raises ValueError unless new inputs are a matrix of as many columns."""
        shape = inputs.shape if _is_sparse(inputs) else np.shape(array_of_numbers("inputs", inputs))
        expected = f"a matrix (n, {self.shape[1]}), with the columns of training"
        require(len(shape) == 2 and shape[1] == self.shape[1], "inputs", expected, f"shape {shape}")

    def place(self, middle: float) -> tuple[Callable[[Any], Any], Any]:
        """The offset of responses with this middle, as weights of the column of an intercept, or of
        the columns of all groups; zero without these columns
        (`vijax.models.regressions.measure.Place`)."""
        matrix = self.matrix
        weights = _constant(matrix) if self.sparse else place_of_columns(np.asarray(matrix))
        if weights is None:
            return constant_place(0.0)
        offset = lambda inputs: _weighted_sums(inputs, middle * weights)
        return offset, offset(matrix)


def _constant(matrix: Any) -> np.ndarray | None:
    """Weights that make the first constant column of a CSR matrix a column of ones; None without a
    constant column."""
    columns = matrix.tocsc()
    for index in np.flatnonzero(np.diff(columns.indptr) == matrix.shape[0]):
        entries = columns.data[columns.indptr[index] : columns.indptr[index + 1]]
        if entries[0] != 0 and np.all(entries == entries[0]):
            weights = np.zeros(matrix.shape[1])
            weights[index] = 1.0 / entries[0]
            return weights
    return None


def _weighted_sums(inputs: Any, weights: np.ndarray) -> Any:
    """The sums of columns with these weights, in float64 unless JAX traces."""
    if isinstance(inputs, jax.core.Tracer):
        return inputs @ jnp.asarray(weights, inputs.dtype)
    if _is_sparse(inputs):
        return np.asarray(_Design(inputs, "inputs").matrix.astype(np.float64) @ weights)
    return np.asarray(inputs, np.float64) @ weights


def _as_csr(x: Any) -> Any:
    """A CSR matrix of floats: small integers would overflow in products and in sums of
    duplicates."""
    return (x if np.issubdtype(x.dtype, np.floating) else x.astype(np.float64)).tocsr()


class _WeightView:
    """z = X w."""

    def __init__(self, design: _Design):
        self.design = design
        self.form: SparseFeatureForm | FeatureForm
        if design.sparse:
            self.form = SparseFeatureForm.from_scipy(design.matrix)
        else:
            self.form = FeatureForm(as_float(design.matrix))

    def prior(self, scale: Array) -> Prior:
        """The prior of the weights, whitened by their prior scale."""
        if isinstance(self.form, SparseFeatureForm):
            return SparseFeatureForm(self.form.columns, scale * self.form.values, self.form.unit)
        return FeatureForm(scale * self.form.features)

    def rows(self, inputs: Any) -> Any:
        """A dense array of the rows, or columns and values of each."""
        self.design.check_columns(inputs)
        if not self.design.sparse:
            return _dense(inputs)
        matrix = _Design(inputs, "inputs").matrix if _is_sparse(inputs) else _to_scipy(inputs)
        columns, values = padded_rows(matrix)
        return columns, as_float(values)

    def new(self, scale: Array, rows: Any) -> tuple[Any, Array]:
        """Rows of features, which explain all of the variance."""
        if not self.design.sparse:
            return scale * rows, jnp.zeros(len(rows))
        columns, values = rows
        return (columns, scale * values), jnp.zeros(len(columns))


class _KernelView:
    """z ~ N(0, s^2 X X')."""

    def __init__(self, design: _Design):
        self.design = design
        self.gram = _times_transpose(design.matrix, design.matrix)

    def prior(self, scale: Array) -> Prior:
        """The kernel, never factorised: it may be singular."""
        return KernelForm(scale**2 * self.gram)

    def rows(self, inputs: Any) -> tuple[Array, Array]:
        """Products of the rows with the data, and with themselves."""
        self.design.check_columns(inputs)
        rows = _Design(inputs, "inputs").matrix
        squares = rows.multiply(rows) if hasattr(rows, "tocsr") else rows * rows
        return _times_transpose(self.design.matrix, rows), as_float(
            np.asarray(squares.sum(1)).ravel()
        )

    def new(self, scale: Array, rows: tuple[Array, Array]) -> tuple[Any, Array]:
        """Covariances with the data, which explain all of the variance."""
        cross, variance = rows
        return (scale**2 * cross, scale**2 * variance), jnp.zeros_like(variance)


def _times_transpose(a: Any, b: Any) -> Array:
    """A B' as an array, of sparse or dense matrices."""
    if hasattr(a, "tocsr") or hasattr(b, "tocsr"):
        product = a @ b.T if hasattr(a, "tocsr") else (b @ np.asarray(a).T).T
        return as_float(product.toarray() if hasattr(product, "toarray") else np.asarray(product))
    return a @ b.T


def _rows_not_finite(matrix: Any) -> np.ndarray:
    """True for rows of an array or a CSR matrix with an entry that is not finite."""
    if not hasattr(matrix, "tocsr"):
        return np.flatnonzero(~np.isfinite(np.asarray(matrix)).all(axis=1))
    return np.unique(
        np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(matrix.data)), side="right") - 1
    )


def _is_bcoo(x: Any) -> bool:
    return type(x).__name__ == "BCOO"


def _is_sparse(x: Any) -> bool:
    return _is_bcoo(x) or hasattr(x, "tocsr")


def _from_bcoo(x: Any) -> Any:
    import scipy.sparse

    index = np.asarray(x.indices)
    return scipy.sparse.coo_array(
        (np.asarray(x.data), (index[:, 0], index[:, 1])), shape=x.shape
    ).tocsr()


def _to_scipy(x: Any) -> Any:
    import scipy.sparse

    return scipy.sparse.csr_array(np.asarray(array_of_numbers("inputs", x)))


def _dense(x: Any) -> Array:
    """A dense array of new rows, from any form."""
    if _is_bcoo(x):
        return as_float(x.todense())
    if hasattr(x, "tocsr"):
        return as_float(x.toarray())
    return as_float(require_finite("inputs", array_of_numbers("inputs", x)))
