"""Factor analysis, probabilistic principal components and matrix factorisation, missing entries
allowed (Hoffman and Blei 2015, section 2.1).

    x_n ~ N(0, I_K),   y_nd ~ N(w_d' x_n + m_d, 1 / tau_d),   (w_d, m_d) ~ N(0, I / loading_precision),
    tau_d ~ Gamma(shape, rate), the same for all d if the noise is isotropic

Rows are groups with the local x_n; loadings and noise are global. Isotropic noise gives
probabilistic PCA. Without the intercept and with most entries missing this is probabilistic matrix
factorisation, with x_n the factors of row n."""

from __future__ import annotations

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.arguments import Positive, Size, check_arguments
from vijax.checks import require
from vijax.contract import init as starts
from vijax.contract.expected import (
    STANDARDISE,
    PriorExpectation,
    expecting,
    place_scale_strain,
    rows,
    together,
    weight_strain,
)
from vijax.contract.model import Model
from vijax.contract.queries import Generative, rows_like
from vijax.contract.room import limit_sizes
from vijax.families import Gamma, MultivariateNormal, Product
from vijax.models.energies.energy_model import ready_model
from vijax.xla.by_value import cache_by_value


@cache_by_value
@limit_sizes
@check_arguments
def factor_analysis(
    dim: Size,
    num_factors: Size,
    noise: Literal["diagonal", "isotropic"] = "diagonal",
    intercept: bool = True,
    loading_precision: Positive = 1.0,
    shape: Positive = 1.0,
    rate: Positive = 1.0,
    prior_as_point: bool = False,
) -> Model:
    """Factor analysis.

    Priors are about zero and of scale one: bring columns of another place or scale to mean 0 and
    deviation 1.

    Args:
      dim: D, columns of the data.
      num_factors: K, number of factors.
      noise: diagonal: a variance for each column; isotropic: one for all (probabilistic PCA).
      intercept: columns have means m_d.
      loading_precision: prior precision of loadings and means.
      shape: shape of the gamma prior of the noise precisions.
      rate: rate of the same prior.
      prior_as_point: see `vijax.energy_model`.

    Returns:
      A `Model` with globals `loadings`, a multivariate normal for each column over (w_d, m_d), and
      `noise`, and the local `x`. Data: an array (N, D); NaN marks a missing entry.

    >>> import jax, vijax as vi
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=(50, 1)) * np.array([1.0, -1.0, 2.0]) + 0.1 * rng.normal(size=(50, 3))
    >>> fit = vi.fit(vi.cavi(factor_analysis(3, num_factors=1)), y, num_steps=50, key=jax.random.key(0))
    >>> loadings = fit.posterior["loadings"].mean()[:, 0]
    >>> print((loadings / loadings[0]).round(1))
    [ 1. -1.  2.]
    """
    width = num_factors + intercept
    batch = (dim,) if noise == "diagonal" else ()

    def energy(stats: Any, y: Float[Array, " D"]) -> Float[Array, ""]:
        observed, y = ~jnp.isnan(y), jnp.nan_to_num(y)
        value, outer = _with_one(stats["x"]) if intercept else stats["x"]
        fitted = stats["loadings"].value @ value
        squares = jnp.einsum("dkl,kl->d", stats["loadings"].outer, outer, precision="highest")
        residual = y**2 - 2 * y * fitted + squares
        log_densities = stats["noise"].log - stats["noise"].value * residual - math.log(2 * math.pi)
        log_lik = jnp.sum(jnp.where(observed, log_densities, 0.0))
        return 0.5 * (log_lik - jnp.trace(stats["x"].outer)) - _HALF_LOG_2PI * num_factors

    def start(key: PRNGKeyArray, context: starts.Context) -> Product:
        """Random loadings, so that factors differ, with the means and variances of the columns. The
        noise has shape 10, so that it has a mode, as points need."""
        rows = jnp.asarray(context.data().data)
        without_padding = jnp.where(context.counts()[:, None], rows, jnp.nan)
        mean, variance = _moments(without_padding)
        loadings = jax.random.normal(key, (dim, width)) * jnp.sqrt(variance / num_factors)[:, None]
        if intercept:
            loadings = loadings.at[:, -1].set(mean)
        precision = (10.0 / variance)[:, None, None] * jnp.eye(width)[None]
        scale = variance if batch else jnp.mean(variance)
        start = {
            "loadings": MultivariateNormal.from_mean_precision(loadings, precision),
            "noise": Gamma.from_shape_rate(jnp.full_like(scale, 10.0), 10.0 * scale),
        }
        return context.energy.prior(context.hyper).replace(start)

    plain_model = ready_model(
        globals={
            "loadings": MultivariateNormal.from_mean_precision(
                np.zeros((dim, width)),
                np.broadcast_to(loading_precision * np.eye(width), (dim, width, width)),
            ),
            "noise": Gamma.from_shape_rate(np.full(batch, shape), np.full(batch, rate)),
        },
        locals={"x": MultivariateNormal.from_mean_cov(np.zeros(num_factors), np.eye(num_factors))},
        energy=energy,
        example=np.linspace(-1.0, 1.0, dim),
        init=start,
        check_data=lambda data: _check(data, dim),
        prior_as_point=prior_as_point,
        generative=_generative(dim, num_factors, intercept),
    )
    strain = together(
        weight_strain(loading_precision), place_scale_strain(0.0, 0.0, 2.0 * rate, 2.0 * shape)
    )
    prior = f"about 0 and of deviation {math.sqrt(1.0 / loading_precision):.3g}"
    return expecting(plain_model, PriorExpectation(rows, strain, prior, STANDARDISE))


def _generative(dim: int, num_factors: int, intercept: bool) -> Generative:
    """Draws of complete rows."""

    def local(hyper: Any, values: Any, y: Array, key: PRNGKeyArray) -> dict[str, Array]:
        return {"x": jax.random.normal(key, (len(y), num_factors), y.dtype)}

    def data(
        hyper: Any, values: Any, local: Any, y: Array, key: PRNGKeyArray
    ) -> Float[Array, "N D"]:
        x = jnp.append(local["x"], jnp.ones((len(y), 1)), 1) if intercept else local["x"]
        noise = jax.random.normal(key, y.shape, y.dtype)
        return x @ values["loadings"].T + noise / jnp.atleast_1d(jnp.sqrt(values["noise"]))[None]

    return Generative(rows_like(lambda data: _check(data, dim), np.zeros(dim)), data, local)


_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _with_one(stats: Any) -> tuple[Float[Array, " K1"], Float[Array, "K1 K1"]]:
    """Statistics of (x, 1)."""
    value = jnp.append(stats.value, 1.0)
    outer = jnp.zeros((value.size, value.size), value.dtype).at[:-1, :-1].set(stats.outer)
    return value, outer.at[-1].set(value).at[:, -1].set(value)


def _moments(data: Float[Array, "N D"]) -> tuple[Float[Array, " D"], Float[Array, " D"]]:
    """Mean and variance of the observed entries of each column. The variance is at least a
    millionth of the squared mean, and 1 without observations."""
    mean = jnp.nan_to_num(jnp.nanmean(data, axis=0))
    variance = jnp.nan_to_num(jnp.nanvar(data, axis=0))
    floor = 1e-6 * mean**2
    return mean, jnp.where(variance + floor > 0, jnp.maximum(variance, floor), 1.0)


def _check(data: PyTree, dim: int) -> None:
    data = np.asarray(data)
    shape = f"an array of shape (N, {dim})"
    require(data.ndim == 2 and data.shape[1] == dim, "data", shape, f"shape {data.shape}")
    infinite = np.argwhere(np.isinf(data))
    require(
        not len(infinite),
        "data",
        "finite numbers, or NaN where an entry is missing",
        f"inf at {infinite[:1].tolist()}",
    )
