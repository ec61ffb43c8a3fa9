"""Gaussian-process regression and classification with any likelihood (Khan et al. 2016, section
3.1; appendices A.1 and D).

    z ~ N(0, k(X, X) + jitter I),   y_n | z_n ~ p(y_n | z_n)

The prior is whitened by default, z = L w with K = L L' and w ~ N(0, I): every variance is then a
sum of squares, accurate in float32, and sites may have negative precision. `form="kernel"` works
with K, which is never factorised.

If the smallest eigenvalue of K is within the rounding of float32 (eps sqrt(N) max K for its
entries, eps |K| / 2 for a factorisation), only kernel and factor are computed in float64, and
returned in float32: a factor L has no small eigenvalue to lose. This costs twice a factorisation,
once a fit, or once a step if hyperparameters are learnt.

With M inducing inputs u the prior is that of the subset of regressors (Nystrom), z = k(X, u)
L_u'^-1 w with L_u L_u' = k(u, u) + jitter I, in O(N M) memory and O(N M^2) time a step; u = X is
the exact prior except for the jitter."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from vijax.arguments import NotNegative, check_arguments
from vijax.checks import require
from vijax.contract.model import Hyper, num_arguments
from vijax.data.schema.named_columns import find_names, order_by_names
from vijax.data.schema.number_arrays import array_of_numbers, require_finite, trees_of_numbers
from vijax.data.schema.same_rows import require_one_index
from vijax.families import Family
from vijax.families.base import as_float
from vijax.families.vector.matrices import is_definite
from vijax.inference.expectation import Expectation, exact
from vijax.inference.likelihood import Likelihood, as_likelihood
from vijax.inference.sites import FeatureForm, KernelForm, Prior
from vijax.models.regressions.kernels import Kernel, KernelName, find_kernel
from vijax.models.regressions.measure import constant_place, measure_observations
from vijax.models.regressions.predictors import (
    LikelihoodOf,
    Predictors,
    check_observations,
    expected_stats,
    predictors,
    require_function,
)
from vijax.xla.by_value import cache_by_value
from vijax.xla.compiler import quick_jit, step_jit
from vijax.xla.memory import total_memory
from vijax.xla.precision import enable_x64


@cache_by_value
@check_arguments
def gp(
    x: Any,
    y: Any,
    kernel: Kernel | KernelName | Callable[[Hyper], Kernel],
    likelihood: Likelihood | Callable,
    hyper: Hyper | None = None,
    jitter: NotNegative = 1e-6,
    form: Literal["whitened", "kernel"] = "whitened",
    expectation: Expectation | None = None,
    inducing: Any = None,
    others: Mapping[str, Family] | None = None,
) -> Predictors:
    """A Gaussian process observed through a likelihood. The posterior takes O(N) memory, a step
    seven N x N matrices (ten with backtracking), or O(N M) with M inducing inputs.

    Args:
      x: inputs, (N, D) or whatever the kernel reads, with leading axis N. New tables are read by
        the names of the columns of this one, if it is a table of pandas, polars or Arrow.
      y: observations, (N,).
      kernel: the covariance function. A name, with hyperparameters `scale` and `length` (D numbers
        for ARD); or k(X, X') -> (N, N') matrix, a tinygp kernel or your own function. With `hyper`,
        a function from `hyper` to a kernel.
      likelihood: p(y | z) (`vijax.likelihood`) or a function log_lik(y, z); with `hyper` also a
        function from `hyper` to a `Likelihood`. `gaussian()` and `student_t()` without a number
        learn the noise: `fit.posterior["noise"]` is the law of its precision. y is then measured
        from its mean in units of its standard deviation, and so are the kernel and `jitter`; all
        answers are in units of y.
      hyper: positive hyperparameters by name, which `pg_svi(learn=...)` can learn.
      jitter: a small number added to the kernel's diagonal.
      form: whitened: work with a factor of the kernel matrix; kernel: with the matrix itself.
      expectation: E_q[log p(y | z)]; `vijax.expectation.exact()` if None.
      inducing: M inputs whose features replace the kernel if N is too large for an N x N matrix.
      others: priors of further globals, such as the rate of wrong labels. The likelihood is then a
        function (hyper, statistics of these globals by name) -> `Likelihood`: see
        `vijax.likelihood.noisy_labels`.

    Raises:
      ValueError: not one observation for each input, or one outside the likelihood's support; a
        kernel whose matrix is of the wrong shape, not positive definite, or larger than memory; an
        unknown name or form.

    >>> import vijax as vi
    >>> x, y = np.linspace(0.0, 3.0, 7), np.array([-1, -1, -1, 1, 1, 1, 1])
    >>> rbf = lambda a, b: jnp.exp(-0.5 * (a[:, None] - b[None, :]) ** 2)
    >>> model = gp(x, y, rbf, vi.likelihood.bernoulli_logit(), jitter=1e-4)
    >>> fit = vi.fit(vi.pg_svi(model), model.data, num_steps=20, key=jax.random.key(0))
    >>> [round(float(p), 2) for p in model.predictive(fit.posterior, jnp.array([0.0, 3.0]), 1)]
    [0.35, 0.68]
    """
    require(inducing is None or form == "whitened", "form", "'whitened' with inducing inputs", form)
    require_one_index({"x": x, "y": y})
    columns = find_names(x)
    inducing = order_by_names(columns, inducing, "inducing")
    x, y = _inputs("x", x), array_of_numbers("y", y)
    anchors = x if inducing is None else _inputs("inducing", inducing)
    num_sites, size = (int(jnp.shape(jax.tree.leaves(a)[0])[0]) for a in (x, anchors))
    kernel_of, likelihood_of, values = _as_functions(kernel, likelihood, hyper, others)
    own_likelihood = likelihood_of(values, expected_stats(others or {}))
    check_observations(y, num_sites, own_likelihood)
    observations = measure_observations(y, likelihood_of, own_likelihood, others, constant_place)
    _check_memory(num_sites, size, jnp.result_type(*jax.tree.leaves(x)).itemsize)

    def matrix(hyper: Hyper, anchors: Any) -> Float[Array, "anchors anchors"]:
        return kernel_of(hyper)(anchors, anchors) + jitter * jnp.eye(size)

    def features(hyper: Hyper, anchors: Any, inputs: Any) -> Float[Array, "inputs anchors"]:
        cross = kernel_of(hyper)(anchors, inputs)
        rows = solve_triangular(jnp.linalg.cholesky(matrix(hyper, anchors)), cross, lower=True).T
        return rows if inducing is not None else rows[:, ::-1]  # as `FeatureForm.from_kernel`

    def make_prior(hyper: Hyper, anchors: Any, x: Any) -> Prior:
        if inducing is not None:
            return FeatureForm(features(hyper, anchors, x))
        k = matrix(hyper, anchors)
        if form == "whitened":
            return FeatureForm.from_kernel(k)
        return KernelForm(k)

    def new(hyper: Hyper, anchors: Any, inputs: Any) -> tuple[Any, Array]:
        variance = _diagonal(kernel_of(hyper), inputs)
        if form == "kernel":
            return (kernel_of(hyper)(anchors, inputs), variance), jnp.zeros_like(variance)
        rows = features(hyper, anchors, inputs)
        # At a training input only rounding remains, of either sign.
        return rows, jnp.maximum(variance - jnp.sum(rows**2, 1), 0.0)

    prior_covariance = quick_jit(lambda hyper, inputs: kernel_of(hyper)(inputs, inputs))

    matrix_at = functools.partial(step_jit(matrix), values)
    needs_double = _check_kernel(
        lambda: kernel_of(values)(anchors, anchors), anchors, size, matrix_at
    )
    precise = _use_double if needs_double else lambda function: function
    prior = lambda hyper: precise(make_prior)(hyper, anchors, x)
    rows = lambda inputs: _like(x, _inputs("inputs", inputs))
    prior_cov_of_new = lambda hyper, inputs: prior_covariance(hyper, rows(inputs))
    new_at = lambda hyper, inputs: precise(new)(hyper, anchors, inputs)
    return predictors(
        prior,
        observations.likelihood,
        observations.y,
        rows,
        new_at,
        expectation or exact(),
        values,
        observations.others,
        prior_cov_of_new,
        observations.measure,
        columns,
    )


def _inputs(argument: str, inputs: Any) -> Any:
    """Inputs as a kernel reads them: an array of floats, or a tree of such arrays with one leading
    axis."""
    numbers = trees_of_numbers(argument, inputs)
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(numbers)}
    actual = f"shapes {', '.join(str(np.shape(leaf)) for leaf in jax.tree.leaves(numbers))}"
    require(
        len(sizes) == 1 and sizes != {()}, argument, "arrays with one row for each input", actual
    )
    return jax.tree.map(lambda leaf: as_float(require_finite(argument, leaf)), numbers)


def _like(x: Any, inputs: Any) -> Any:
    """New inputs with the columns of training; ValueError for others, which a kernel might accept
    silently."""
    per_input = lambda tree: jax.tree.map(lambda leaf: np.shape(leaf)[1:], tree)
    expected, actual = per_input(x), per_input(inputs)
    require(
        actual == expected, "inputs", f"for each input the shape {expected}, as in training", actual
    )
    return inputs


def _as_functions(
    kernel: Any, likelihood: Any, hyper: Hyper | None, others: Mapping[str, Family] | None
) -> tuple[Callable[[Hyper], Kernel], LikelihoodOf, Hyper]:
    """Kernel and likelihood as functions of the hyperparameters, and the hyperparameters as
    arrays."""
    if isinstance(kernel, str):
        kernel, hyper = find_kernel(kernel), {"scale": 1.0, "length": 1.0, **(hyper or {})}  # type: ignore[dict-item]
    values = {name: as_float(value) for name, value in (hyper or {}).items()}
    for name, value in values.items():
        require(np.asarray(value) > 0, f"hyper[{name!r}]", "positive numbers", value)
    kernel_of = kernel if values else lambda _: kernel
    if others:
        return kernel_of, require_function(likelihood), values
    if (
        values
        and not isinstance(likelihood, Likelihood)
        and callable(likelihood)
        and _takes_one(likelihood)
    ):
        return kernel_of, lambda hyper, stats: likelihood(hyper), values
    fixed = as_likelihood(likelihood)
    return kernel_of, lambda hyper, stats: fixed, values


def _takes_one(function: Callable) -> bool:
    """True if a likelihood is a function of the hyperparameters, not a log_lik(y, z)."""
    return num_arguments(function) == 1


def _diagonal(kernel: Any, x: Any) -> Float[Array, " new"]:
    """k(x, x) for each input."""
    return jax.vmap(lambda point: kernel(*(jax.tree.map(lambda a: a[None], point),) * 2)[0, 0])(x)


def _check_memory(num_sites: int, num_anchors: int, itemsize: int) -> None:
    """Raises an error before an allocation that cannot succeed: a step holds seven N x M matrices
    at its peak, ten with backtracking (XLA's memory analysis at N = M = 3,000)."""
    needed, available = 7 * num_sites * num_anchors * itemsize, total_memory()
    expected = f"inputs whose kernel fits in {available / 1e9:.3g} GB"
    remedy = "Pass inducing=some of x, fewer inputs, or float32."
    require(
        needed <= available,
        "x",
        expected,
        f"N = {num_sites}, which takes about {needed / 1e9:.3g} GB",
        remedy,
    )


def _check_kernel(
    kernel: Callable[[], Any], anchors: Any, size: int, matrix: Callable[[Any], Array]
) -> bool:
    """True if the kernel must be computed in float64, because its smallest eigenvalue is within the
    rounding of float32. ValueError for a wrong shape, and for a matrix that is not symmetric or not
    positive definite."""
    try:
        shape = jax.eval_shape(kernel).shape
    except (TypeError, LookupError, ValueError) as error:
        shapes = jax.tree.map(np.shape, anchors)
        raise ValueError(
            f"kernel: k(x, x) cannot be computed at inputs of shape {shapes}: {error}"
        ) from error
    require(
        shape == (size, size), "kernel", f"a matrix of shape {(size, size)} from k(x, x)", shape
    )
    k = np.asarray(matrix(anchors))
    require(np.isfinite(k), "kernel", "a finite matrix", k)
    scale = float(np.max(np.abs(k)))
    gap = float(np.max(np.abs(k - k.T)))
    require(
        gap <= 1e-4 * scale, "kernel", "a symmetric matrix", f"entries that differ by {gap:.3g}"
    )
    can_double = k.dtype == np.float32 and jax.default_backend() != "tpu"
    rounding = _rounding(k) if can_double else 0.0
    definite = np.all(is_definite(k - np.asarray(rounding, k.dtype) * np.eye(size, dtype=k.dtype)))
    if definite or not can_double:
        _require_definite(k, definite)
        return False
    with enable_x64(True):
        k = np.asarray(matrix(_as_double(anchors)))
    _require_definite(k, np.all(is_definite(k)))
    return True


def _rounding(k: np.ndarray) -> float:
    """Bound on the change of eigenvalues by the rounding of a matrix and of its Cholesky factor.

    For 500 to 2,000 inputs, factorisations in float32 failed if the smallest eigenvalue was .1 of
    eps times the largest, and succeeded at .2; the largest row sum is at least the largest
    eigenvalue."""
    eps = float(np.finfo(k.dtype).eps)
    entries = np.sqrt(len(k)) * float(np.max(np.abs(k)))
    norm = float(np.max(np.sum(np.abs(k), axis=1, dtype=float)))
    return eps * max(entries, 0.5 * norm)


def _require_definite(k: np.ndarray, definite: Any) -> None:
    """Raises ValueError unless a kernel matrix was found to be positive definite."""
    if definite:
        return
    sizes = f"{np.linalg.eigvalsh(k.astype(float))[0]:.3g} beside {np.max(np.abs(k)):.3g}"
    actual = f"a smallest eigenvalue and a largest entry of {sizes}"
    require(False, "kernel", f"a matrix positive definite in {k.dtype}", actual, "Add jitter.")


def _as_double(arrays: Any) -> Any:
    return jax.tree.map(lambda x: x.astype(np.float64) if x.dtype == np.float32 else x, arrays)


def _use_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, computed in float64 and returned in float32, also inside a program without
    float64."""

    def call(*arguments: Any) -> Any:
        with enable_x64(True):
            return jax.tree.map(lambda x: x.astype(jnp.float32), function(*_as_double(arguments)))

    return call
