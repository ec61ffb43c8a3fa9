"""Linear regression with automatic relevance determination (Blei, Kucukelbir and McAuliffe 2017,
appendix A, after Drugowitsch 2013).

    y_n ~ N(w' x_n, 1 / tau),   w | tau, a ~ N(0, (tau diag a)^-1),   tau ~ Gamma(shape, rate),
    a_d ~ Gamma(relevance_shape, relevance_rate)

q(w, tau) is a joint normal-gamma; q(a_d) are gammas. The updates of the appendix are the two
gradients of this energy:

    V^-1 = diag E[a] + sum x x',  w = V sum x y,
    a_* = shape + N / 2,  b_* = rate + (sum y^2 - w' V^-1 w) / 2,
    c_* = relevance_shape + 1/2,  d_* = relevance_rate + (w_d^2 a_* / b_* + V_dd) / 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.arguments import Positive, Size, check_arguments
from vijax.checks import require
from vijax.contract.expected import PriorExpectation, expecting, place_scale_strain
from vijax.contract.model import Hyper, Model
from vijax.contract.queries import Generative
from vijax.contract.room import limit_sizes
from vijax.families import Gamma, MultivariateNormalGamma
from vijax.families.base import as_float
from vijax.models.energies.energy_model import Structure, conditional, ready_model
from vijax.xla.by_value import cache_by_value


@cache_by_value
@limit_sizes
@check_arguments
def ard_regression(
    dim: Size,
    shape: Positive = 1e-2,
    rate: Positive = 1e-4,
    relevance_shape: Positive = 1e-2,
    relevance_rate: Positive = 1e-4,
) -> Model:
    """Bayesian linear regression that switches off irrelevant coefficients.

    Args:
      dim: D, columns of x; add one of ones for an intercept.
      shape: shape of the gamma prior of the noise precision tau. A hyperparameter, as is its rate.
      rate: rate of the same prior.
      relevance_shape: shape of the gamma priors of the coefficients' own precisions a_d.
      relevance_rate: rate of the same priors.

    Returns:
      A `Model` with globals `coefficients`, normal-gamma over (w, tau), and `relevance`, gammas
      over a. Data: a pair (x, y) of shapes (N, D) and (N,).

    Raises:
      ValueError: an argument that is not positive.

    >>> import jax, vijax as vi
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 3))
    >>> y = 2.0 * x[:, 0] + 0.1 * rng.normal(size=100)
    >>> fit = vi.fit(vi.cavi(ard_regression(3)), (x, y), num_steps=50, key=jax.random.key(0))
    >>> print(jnp.abs(fit.posterior["coefficients"].location).round(1))
    [2. 0. 0.]
    """

    def energy(
        stats: Any, group: tuple[Float[Array, " D"], Float[Array, ""]], hyper: Hyper
    ) -> Float[Array, ""]:
        (x, y), s = group, stats["coefficients"]
        squares = (
            y**2 * s.precision
            - 2 * y * (s.precision_times_value @ x)
            + x @ s.precision_times_outer @ x
        )
        return 0.5 * (s.log_precision - squares - math.log(2 * math.pi))

    def prior_energy(stats: Any, hyper: Hyper) -> Float[Array, ""]:
        s, a, shape, rate = stats["coefficients"], stats["relevance"], hyper["shape"], hyper["rate"]
        constant = shape * jnp.log(rate) - gammaln(shape) - 0.5 * dim * math.log(2 * math.pi)
        weights = jnp.sum(a.log) - a.value @ jnp.diagonal(s.precision_times_outer)
        return 0.5 * weights + shape * s.log_precision - rate * s.precision + constant

    relevance = Gamma.from_shape_rate(np.full(dim, relevance_shape), np.full(dim, relevance_rate))
    start = MultivariateNormalGamma.from_parameters(np.zeros(dim), np.eye(dim), 2.0, 1.0)
    plain_model = ready_model(
        globals={"coefficients": conditional(start), "relevance": relevance},
        energy=energy,
        prior_energy=prior_energy,
        hyper={"shape": as_float(shape), "rate": as_float(rate)},
        example=(np.ones(dim), 1.0),
        structure=Structure(order=("coefficients", "relevance")),
        check_data=lambda data: check_pair(data, dim),
        generative=Generative(
            lambda like: _inputs(like, dim),
            _responses,
            observed=lambda x, data: jnp.asarray(data[1]),
        ),
    )
    return expecting(plain_model, expected_response(lambda data: np.asarray(data[1]), shape, rate))


def expected_response(
    responses: Callable[[Any], np.ndarray], shape: float, rate: float
) -> PriorExpectation:
    """The responses that the gamma prior of the noise precision expects; their location is free."""
    strain = place_scale_strain(0.0, 0.0, 2.0 * rate, 2.0 * shape)
    prior = f"of deviation {math.sqrt(rate / shape):.3g} or more as responses"
    remedy = (
        "Measure responses in a smaller unit, or give a smaller `rate`, about `shape` times their "
        "variance."
    )
    return PriorExpectation(lambda data: responses(data)[:, None], strain, prior, remedy)


def _inputs(like: Any, dim: int) -> Float[Array, "N D"]:
    """The inputs of a pair (x, y), or x alone."""
    x = like[0] if isinstance(like, tuple) else like
    check_pair((x, np.zeros(len(np.atleast_1d(np.asarray(x))))), dim)
    return jnp.asarray(x, jnp.result_type(float))


def _responses(
    hyper: Any, values: Any, local: Any, x: Float[Array, "N D"], key: PRNGKeyArray
) -> Float[Array, " N"]:
    coefficients = values["coefficients"]
    noise = jax.random.normal(key, (len(x),), x.dtype)
    return x @ coefficients.coefficients + noise / jnp.sqrt(coefficients.precision)


def check_pair(data: PyTree, dim: int) -> None:
    """Raises ValueError unless data are finite arrays (N, D) and (N,); it names the first bad
    row."""
    require(
        isinstance(data, tuple) and len(data) == 2, "data", "a pair (x, y)", type(data).__name__
    )
    x, y = map(np.asarray, data)
    fits = x.ndim == 2 and x.shape[1] == dim and y.shape == x.shape[:1]
    require(fits, "data", f"x of shape (N, {dim}) and y of shape (N,)", f"{x.shape} and {y.shape}")
    bad = np.flatnonzero(~(np.isfinite(x).all(axis=1) & np.isfinite(y)))
    actual = (
        f"{len(bad)} rows that are not, the first row {bad[0] if len(bad) else None}, counted "
        "from 0"
    )
    require(not len(bad), "data", "finite numbers", actual, "Remove or impute those rows.")
