"""Hierarchical regressions: groups whose coefficients come from one population (Hoffman and Blei
2015, section 2.1).

    (mu, L) ~ normal-Wishart, or normal-gammas,  b_j ~ N(mu, L^-1),  y_jn | b_j ~ p(y | x_jn' b_j)

Groups are the units of a minibatch; b_j is a joint local variable of its group. Linear: y ~ N(x' b,
1 / tau), tau gamma. Probit, by augmentation (Albert and Chib 1993): y = sign z, z ~ N(x' b, 1), and
the local |z| = y z is a normal truncated at 0. Logistic, by augmentation with Polya-gamma variables
w (Polson, Scott and Windle 2013), which in mean field is the bound of Jaakkola and Jordan (Blei,
Kucukelbir and McAuliffe 2017, section 5.3), E[w] = 2 lambda(xi), xi^2 = E[(x' b)^2]. q(b_j) is
normal,

    cov_j^-1 = E[L] + sum_n c_n x x',   mean_j = cov_j (E[L mu] + sum_n r_n x)

with (c_n, r_n) = E[tau] (1, y_n); (1, y_n E|z_n|); (E[w_n], y_n / 2).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.arguments import Positive, check_arguments
from vijax.contract import init as starts
from vijax.contract.expected import expecting
from vijax.contract.model import Model
from vijax.contract.room import limit_sizes
from vijax.families import Gamma, MultivariateNormal, PolyaGamma, Product, TruncatedNormal
from vijax.families.base import as_float
from vijax.inference.likelihood import bernoulli_logit, bernoulli_probit
from vijax.models.energies.energy_model import Structure, ready_model
from vijax.models.regressions.groups import (
    Responses,
    check_groups,
    label_responses,
    population,
    population_generative,
    real_responses,
)
from vijax.models.regressions.regression import expected_response
from vijax.xla.by_value import cache_by_value

Group = tuple[Float[Array, "n D"], Float[Array, " n"], Any]


@cache_by_value
@limit_sizes
@check_arguments
def hierarchical_linear_regression(
    dim: int,
    covariance: Literal["full", "diagonal"] = "full",
    shape: Positive = 1.0,
    rate: Positive = 1.0,
    **hyperprior: Any,
) -> Model:
    """Linear regressions of many groups, whose coefficients are drawn from one population.

    Args:
      dim: D, columns of x; add one of ones for intercepts that vary.
      covariance: covariance of the population, "full" (normal-Wishart) or "diagonal"
          (normal-gammas).
      shape: shape of the gamma prior of the noise precision tau.
      rate: rate of the same prior.
      **hyperprior: `location`, `strength`, `degrees`, `spread` of `vijax.models.population`.

    Returns:
      A `Model` with globals `population` and `noise`, and the local `coefficients`, exact given
      them. Data: a triple (x, y, mask) of shapes (J, n, D), (J, n), (J, n), which
      `vijax.models.group_rows` makes. Responses and inputs of about unit size are best in float32.

    Raises:
      ValueError: an argument out of its range.

    >>> import jax, vijax as vi
    >>> rng = np.random.default_rng(0)
    >>> x, labels = rng.normal(size=(200, 1)), np.arange(200) % 4
    >>> y = np.array([1.0, 2.0, 3.0, 4.0])[labels] * x[:, 0] + 0.1 * rng.normal(size=200)
    >>> data = vi.models.group_rows(x, y, labels)
    >>> fit = vi.fit(vi.cavi(hierarchical_linear_regression(1)), data, num_steps=50, key=jax.random.key(0))
    >>> print(fit.locals(data, key=jax.random.key(0))["coefficients"].mean()[:, 0].round(1))
    [1. 2. 3. 4.]
    """

    def fits(stats: Any, group: Group) -> Float[Array, " n"]:
        noise = stats["noise"]
        squares = _square(stats["coefficients"], group)
        return 0.5 * (noise.log - noise.value * squares - _LOG_2PI)

    def start(key: PRNGKeyArray, context: starts.Context) -> Product:
        """Noise as large as the responses, with shape 10, so that it has a mode, as points need."""
        del key
        _, y, mask = map(jnp.asarray, context.data().data)
        mask = mask & context.counts()[:, None]
        variance = (
            jnp.sum(jnp.where(mask, y**2, 0.0)) / jnp.sum(mask, dtype=y.dtype)
            + jnp.finfo(y.dtype).tiny
        )
        noise = Gamma.from_shape_rate(jnp.full_like(variance, 10.0), 10.0 * variance)
        return context.energy.prior(context.hyper).replace({"noise": noise})

    model = _regression(
        dim, covariance, hyperprior, fits, lambda n: {}, _any, "finite responses", real_responses
    )
    plain_model = model(
        globals={"noise": Gamma.from_shape_rate(as_float(shape), as_float(rate))}, init=start
    )
    responses = lambda data: np.asarray(data[1])[np.asarray(data[2], bool)]
    return expecting(plain_model, expected_response(responses, shape, rate))


@cache_by_value
def hierarchical_probit_regression(
    dim: int, covariance: Literal["full", "diagonal"] = "full", **hyperprior: Any
) -> Model:
    """Probit regressions of many groups, P(y = 1) = Phi(x' b_j), whose coefficients are drawn from
    one population.

    Args:
      dim: D, columns of x; add one of ones for intercepts that vary.
      covariance: covariance of the population, "full" (normal-Wishart) or "diagonal"
          (normal-gammas).
      **hyperprior: `location`, `strength`, `degrees`, `spread` of `vijax.models.population`.

    Returns:
      A `Model` with the global `population`, and the locals `coefficients` and `size`, the |z_n| of
      a group. Data as for `hierarchical_linear_regression`, labels -1 and +1. Mean field treats z
      and b as independent, and so shrinks slopes and understates the spread of the groups;
      `reference.gibbs` does neither.

    Raises:
      ValueError: an argument out of its range.

    >>> import jax, vijax as vi
    >>> x = np.ones((60, 1))
    >>> y, labels = np.where(np.arange(60) % 10 < 8, 1.0, -1.0), np.arange(60) // 30
    >>> data = vi.models.group_rows(x, y, labels)
    >>> fit = vi.fit(vi.cavi(hierarchical_probit_regression(1)), data, num_steps=50, key=jax.random.key(0))
    >>> print(fit.locals(data, key=jax.random.key(0))["coefficients"].mean()[:, 0].round(2))  # Phi(0.84) = 0.8
    [0.84 0.84]
    """

    def fits(stats: Any, group: Group) -> Float[Array, " n"]:
        x, y, _ = group
        size, b = stats["size"], stats["coefficients"]
        return -0.5 * (
            size.square - 2 * y * size.value * (x @ b.value) + _quadratic(b, x) + _LOG_2PI
        )

    def filler(stats: Any) -> Float[Array, " n"]:
        """The log density of the half-normal law of the local |z| in rows of padding."""
        return -0.5 * stats["size"].square - 0.5 * math.log(0.5 * math.pi)

    half = lambda n: {"size": TruncatedNormal.from_mean_variance(jnp.zeros(n), 1.0)}
    model = _regression(
        dim,
        covariance,
        hyperprior,
        fits,
        half,
        _signs,
        _SIGNS,
        label_responses(bernoulli_probit()),
        filler,
    )
    return model()


@cache_by_value
def multilevel_logistic_regression(
    dim: int, covariance: Literal["full", "diagonal"] = "full", **hyperprior: Any
) -> Model:
    """Logistic regressions of many groups, P(y = 1) = sigma(x' b_j), whose coefficients are drawn
    from one population: varying intercepts and slopes (Gelman and Hill 2007).

    Args:
      dim: D, columns of x; add one of ones for intercepts that vary.
      covariance: covariance of the population, "full" (normal-Wishart) or "diagonal"
          (normal-gammas).
      **hyperprior: `location`, `strength`, `degrees`, `spread` of `vijax.models.population`.

    Returns:
      A `Model` with the global `population`, and the locals `coefficients` and `weight`, the
      Polya-gamma variables of a group's rows. Data as for `hierarchical_linear_regression`, labels
      -1 and +1.

      With few rows a group `ssvi_a` overstates the spread of the groups with any E-step: its fixed
      point has E[L^-1], an average over draws of L, where `svi` has E[L]^-1 (without data: the
      prior mean of L^-1). One coefficient, 20 groups of 4 rows, exact E-step: E[L]^(-1/2) is 0.94
      by `ssvi_a`, 0.84 by `svi`, 0.81 exactly.

    Raises:
      ValueError: an argument out of its range.

    >>> import jax, vijax as vi
    >>> x = np.ones((60, 1))
    >>> y, labels = np.where(np.arange(60) % 10 < 8, 1.0, -1.0), np.arange(60) // 30
    >>> data = vi.models.group_rows(x, y, labels)
    >>> fit = vi.fit(vi.cavi(multilevel_logistic_regression(1)), data, num_steps=50, key=jax.random.key(0))
    >>> print(fit.locals(data, key=jax.random.key(0))["coefficients"].mean()[:, 0].round(1))  # sigma(1.4) = 0.8
    [1.4 1.4]
    """

    def fits(stats: Any, group: Group) -> Float[Array, " n"]:
        x, y, _ = group
        b = stats["coefficients"]
        return (
            0.5 * y * (x @ b.value) - 0.5 * stats["weight"].value * _quadratic(b, x) - math.log(2.0)
        )

    weight = lambda n: {"weight": PolyaGamma.from_b_c(1, jnp.zeros(n, jnp.result_type(float)))}
    return _regression(
        dim,
        covariance,
        hyperprior,
        fits,
        weight,
        _signs,
        _SIGNS,
        label_responses(bernoulli_logit()),
    )()


# --- the common part ------------------------------------------------------------------------------
_LOG_2PI = math.log(2 * math.pi)
_any = lambda y: np.ones(y.shape, bool)
_signs = lambda y: np.abs(y) == 1
_SIGNS = "labels -1 and +1 (2*y - 1 makes them of 0 and 1)"


def _regression(
    dim: int,
    covariance: Any,
    hyperprior: dict[str, Any],
    fits: Callable[[Any, Group], Float[Array, " n"]],
    augmentation: Callable[[int], dict[str, Any]],
    valid: Callable[[np.ndarray], np.ndarray],
    expected: str,
    responses: Responses,
    filler: Callable[[Any], Float[Array, " n"]] | None = None,
) -> Callable[..., Model]:
    """A function from further globals and a start to the model. Its rows have log densities `fits`
    (`filler` or 0 in padding), and its locals are the coefficients and `augmentation`."""
    people = population(dim, covariance, **hyperprior)
    log_density = people.log_density
    unit = MultivariateNormal.from_mean_cov(np.zeros(dim), np.eye(dim))
    check = functools.partial(check_groups, dim=dim, valid=valid, expected=expected)

    def energy(stats: Any, group: Group) -> Float[Array, ""]:
        padding = 0.0 if filler is None else filler(stats)
        rows = jnp.where(jnp.asarray(group[2], bool), fits(stats, group), padding)
        return jnp.sum(rows) + log_density(stats["population"], stats["coefficients"])

    def model(globals: dict[str, Any] | None = None, init: starts.Init | None = None) -> Model:
        return ready_model(
            globals={"population": people.prior, **(globals or {})},
            locals=lambda group: {"coefficients": unit, **augmentation(group[1].shape[0])},
            energy=energy,
            example=(np.ones((2, dim)), np.ones(2), np.ones(2, bool)),
            init=init,
            check_data=check,
            structure=Structure(any_size=True),
            generative=population_generative(responses, check),
        )

    return model


def _quadratic(b: Any, x: Float[Array, "n D"]) -> Float[Array, " n"]:
    """E[(x_n' b)^2]."""
    return jnp.einsum("nd,de,ne->n", x, b.outer, x, precision="highest")


def _square(b: Any, group: Group) -> Float[Array, " n"]:
    """E[(y_n - x_n' b)^2]."""
    x, y, _ = group
    return y**2 - 2 * y * (x @ b.value) + _quadratic(b, x)
