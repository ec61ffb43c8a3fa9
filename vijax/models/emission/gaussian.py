"""Gaussian emissions: unit variances; diagonal, full, spherical and tied covariances; and
`blurred`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.arguments import Positive, Positives, Size, check_arguments
from vijax.checks import require
from vijax.contract.expected import (
    least,
    mean_strain,
    place_scale_strain,
    together,
    variance_strain,
)
from vijax.contract.room import limit_sizes
from vijax.families import Normal, NormalGamma, NormalsWishart, NormalWishart
from vijax.families.base import as_float
from vijax.families.point import log_predictive
from vijax.models.emission.base import (
    REAL,
    Emission,
    LogLikelihood,
    Marginal,
    PriorColumns,
    checker,
    full,
    require_complete,
)
from vijax.models.emission.missing import (
    cells_of_diagonal,
    cells_of_spherical,
    cells_of_unit,
    dependent_cells,
    log_student,
)
from vijax.xla.by_value import cache_by_value

UNIT = Marginal(cells_of_unit)
DIAGONAL = Marginal(cells_of_diagonal)
SPHERICAL = Marginal(cells_of_spherical)
FULL = Marginal(dependent_cells, log_student, is_linear=False)
TIED = Marginal(dependent_cells, lambda q, y: log_student(q.each(), y), is_linear=False)


@cache_by_value
@limit_sizes
@check_arguments
def unit_gaussian(
    num_components: Size, dim: Size, location: Any = 0.0, variance: Positives = 100.0
) -> Emission:
    """Normal with unit variances (Blei, Kucukelbir and McAuliffe 2017, sections 2 and 3): means are
    N(location, variance).

    Args:
      num_components: K, number of components.
      dim: D, number of columns.
      location: prior mean of the means.
      variance: prior variance of the means.
    """
    sizes = num_components, dim
    settings = {"location": location, "variance": variance}
    prior = Normal.from_mean_variance(
        *(full(name, value, sizes) for name, value in settings.items())
    )

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        return s.value @ y - 0.5 * (jnp.sum(s.square, -1) + y @ y + dim * math.log(2 * math.pi))

    draw = lambda means, k, y, key: means[k] + jax.random.normal(key, y.shape, y.dtype)
    places, spreads = (np.asarray(full(name, value, sizes)) for name, value in settings.items())
    at_means = mean_strain(places, spreads, num_components)
    strain = least(together(at_means, variance_strain(1.0, num_components)))
    remedy = (
        "Divide columns by the deviation that they have within a component, or take "
        "diagonal_gaussian."
    )
    expects = PriorColumns(strain, _location_text(location), remedy)
    return _emission(prior, log_likelihood, dim, draw, expects, UNIT)


@cache_by_value
@limit_sizes
@check_arguments
def diagonal_gaussian(
    num_components: Size,
    dim: Size,
    location: Any = 0.0,
    strength: Positives = 0.01,
    shape: Positives = 1.0,
    rate: Positives = 1.0,
) -> Emission:
    """Normal with diagonal covariance (Blei, Kucukelbir and McAuliffe 2017, appendix B): mean and
    precision of each dimension are NormalGamma(location, strength, shape, rate), the precision's
    prior mean shape / rate.

    Args:
      num_components: K, number of components.
      dim: D, number of columns.
      location: prior mean of the means.
      strength: weight of the prior mean, in observations.
      shape: shape of the gamma prior of the precisions.
      rate: rate of the same prior.
    """
    sizes = num_components, dim
    settings = {"location": location, "strength": strength, "shape": shape, "rate": rate}
    prior = NormalGamma.from_parameters(
        **{name: full(name, value, sizes) for name, value in settings.items()}
    )

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        squares = jnp.sum(s.precision_times_square - s.log_precision, -1) + s.precision @ y**2
        return s.precision_times_mean @ y - 0.5 * (squares + dim * math.log(2 * math.pi))

    def draw(p: Any, k: Array, y: Array, key: PRNGKeyArray) -> Float[Array, " D"]:
        return p.mean[k] + jax.random.normal(key, y.shape, y.dtype) / jnp.sqrt(p.precision[k])

    broadcast = {name: np.asarray(full(name, value, sizes)) for name, value in settings.items()}
    squares, worth = 2.0 * broadcast["rate"], 2.0 * broadcast["shape"]
    strain = place_scale_strain(
        broadcast["location"], broadcast["strength"], squares, worth, num_components
    )
    expects = PriorColumns(least(strain), _location_text(location, squares / worth))
    return _emission(prior, log_likelihood, dim, draw, expects, DIAGONAL)


@cache_by_value
@limit_sizes
@check_arguments
def full_gaussian(
    num_components: Size,
    dim: Size,
    location: Any = 0.0,
    strength: Positives = 0.01,
    degrees: Positive | None = None,
    scale: Any = None,
) -> Emission:
    """Normal with full covariance (Pei 2019): mean and precision matrix are NormalWishart.

    Args:
      num_components: K, number of components.
      dim: D, number of columns.
      location: prior mean of the means. A scalar or (D,).
      strength: weight of the prior mean, in observations.
      degrees: degrees of freedom of the Wishart prior, above D - 1; unset: D + 2.
      scale: scale of the Wishart, (D, D); by default the prior mean of the precision is the
          identity.
    """
    sizes = num_components, dim
    if degrees is None:
        degrees = dim + 2.0
    scale = np.eye(dim) / degrees if scale is None else as_float(scale, "scale")
    prior = NormalWishart.from_parameters(
        location=full("location", location, sizes),
        strength=full("strength", strength, sizes[:1]),
        degrees=full("degrees", degrees, sizes[:1]),
        scale=full("scale", scale, (num_components, dim, dim)),
    )

    draw = lambda p, k, y, key: normal_draw(key, p.mean[k], jnp.linalg.cholesky(p.precision)[k])
    expects = _expected_of_matrix(sizes, location, strength, degrees, scale, num_components)
    return _emission(prior, log_likelihood_of_full, dim, draw, expects, FULL)


def _emission(
    prior: Any, density: LogLikelihood, dim: int, draw: Any, expects: PriorColumns, cells: Marginal
) -> Emission:
    """The emission of rows of real numbers with this prior and density."""
    check = checker(dim, **REAL)
    return Emission(
        prior, density, np.zeros(dim), check, sample=draw, expects=expects, marginal=cells
    )


def _expected_of_matrix(
    sizes: tuple[int, int], location: Any, strength: Any, degrees: Any, scale: Any, parts: int
) -> PriorColumns:
    """The expectations of a Wishart prior, by the diagonal that it adds to sums of squares."""
    places = np.asarray(full("location", location, sizes))
    pulls = np.asarray(full("strength", strength, sizes[:1]))[:, None]
    worth = np.asarray(full("degrees", degrees, sizes[:1]))[:, None]
    squares = np.diagonal(np.linalg.inv(np.asarray(scale, float)), axis1=-2, axis2=-1)
    strain = least(place_scale_strain(places, pulls, squares, worth, parts))
    return PriorColumns(strain, _location_text(location, squares / worth))


def _location_text(location: Any, variance: Any = 1.0) -> str:
    """The place and the scale of a prior, in words."""
    places, variances = (np.unique(np.asarray(x, float)) for x in (location, variance))
    place = f"{places[0]:.3g}" if len(places) == 1 else "their own places"
    scale = "of their own deviations"
    if len(variances) == 1:
        scale = f"of deviation {np.sqrt(variances[0]):.3g}"
    return f"about {place} and {scale}"


def normal_draw(
    key: PRNGKeyArray, mean: Float[Array, " D"], factor: Float[Array, "D D"]
) -> Float[Array, " D"]:
    """A draw from the normal with this lower factor of its precision."""
    noise = jax.random.normal(key, mean.shape, mean.dtype)
    return mean + solve_triangular(factor.T, noise, lower=False)


def log_likelihood_of_full(s: Any, y: Array) -> Float[Array, " K"]:
    """log p(y) by statistics of a normal-Wishart for each component."""
    # In this order an observation costs K D floats, not D^2, and none is transposed.
    spread = (y @ s.precision) @ y
    constant = y.shape[-1] * math.log(2 * math.pi)
    return s.precision_times_mean @ y - 0.5 * (spread + s.quadratic - s.log_det + constant)


@cache_by_value
@limit_sizes
@check_arguments
def spherical_gaussian(
    num_components: Size,
    dim: Size,
    location: Any = 0.0,
    strength: Positives = 0.01,
    shape: Positives = 1.0,
    rate: Positives = 1.0,
) -> Emission:
    """Normal whose covariance is a multiple of the identity, a different one for each component.

    The precision of a component is Gamma(shape, rate); given it the coordinates of its mean are
    independent N(location, 1 / (strength precision)). An observation adds D / 2 to the shape: all
    of its coordinates inform one variance.

    Args:
      num_components: K, number of components.
      dim: D, number of columns.
      location: prior mean of the means. A scalar or (D,).
      strength: weight of the prior mean, in observations.
      shape: shape of the gamma prior of the precisions. Its mean is shape / rate.
      rate: rate of the same prior.

    Returns:
      An `Emission`. Its posterior's `mean()` has `mean` of shape (K, D, 1) and `precision` of shape
      (K, 1, 1).

    >>> spherical_gaussian(3, dim=5).prior.location.shape
    (3, 5, 1)
    """
    sizes = num_components, dim
    prior = NormalsWishart.from_parameters(
        location=full("location", location, sizes)[..., None],
        strength=full("strength", strength, sizes),
        degrees=2.0 * full("shape", shape, sizes[:1]),
        scale=0.5 / full("rate", rate, (num_components, 1, 1)),
    )

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        squares = jnp.sum(s.quadratic, -1) + s.precision[:, 0, 0] * (y @ y)
        return s.precision_times_mean[..., 0] @ y - 0.5 * (
            squares + dim * (math.log(2 * math.pi) - s.log_det)
        )

    def draw(p: Any, k: Array, y: Array, key: PRNGKeyArray) -> Float[Array, " D"]:
        return p.mean[k, :, 0] + jax.random.normal(key, y.shape, y.dtype) / jnp.sqrt(
            p.precision[k, 0, 0]
        )

    places, pulls = (np.asarray(full("location", x, sizes)) for x in (location, strength))
    rates, shapes = (np.asarray(full("rate", x, sizes[:1]))[:, None] for x in (rate, shape))
    by_column = place_scale_strain(
        places, pulls, 2.0 * rates / dim, 2.0 * shapes / dim, num_components
    )
    alike = lambda columns: columns._replace(
        variance=np.full_like(columns.variance, np.mean(columns.variance))
    )
    expects = PriorColumns(
        least(lambda columns: by_column(alike(columns))), _location_text(location, rates / shapes)
    )
    return _emission(prior, log_likelihood, dim, draw, expects, SPHERICAL)


@cache_by_value
@limit_sizes
@check_arguments
def tied_gaussian(
    num_components: Size,
    dim: Size,
    location: Any = 0.0,
    strength: Positives = 0.01,
    degrees: Positive | None = None,
    scale: Any = None,
) -> Emission:
    """Normal with full covariance, the same one for all components: linear discriminants without
    labels.

    Args:
      num_components: K, number of components.
      dim: D, number of columns.
      location: prior mean of the means. A scalar or (D,).
      strength: weight of the prior mean, in observations.
      degrees: degrees of freedom of the Wishart prior, above D - 1; unset: D + 2.
      scale: scale of the Wishart, (D, D); by default the prior mean of the precision is the
          identity.

    Returns:
      An `Emission`. Its posterior's `mean()` has `mean` of shape (K, D) and `precision` of shape
      (D, D).

    >>> tied_gaussian(3, dim=5).prior.scale.shape
    (5, 5)
    """
    sizes = num_components, dim
    if degrees is None:
        degrees = dim + 2.0
    scale = np.eye(dim) / degrees if scale is None else as_float(scale, "scale")
    prior = NormalsWishart.from_parameters(
        full("location", location, sizes),
        full("strength", strength, sizes[:1]),
        degrees,
        full("scale", scale, (dim, dim)),
    )

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        squares = s.quadratic + y @ s.precision @ y - s.log_det + dim * math.log(2 * math.pi)
        return s.precision_times_mean @ y - 0.5 * squares

    def predictive(q: NormalsWishart, y: Array) -> Float[Array, " K"]:
        """Log predictive densities from the marginal law of each component."""
        return log_predictive(log_likelihood_of_full, q.each(), y)

    draw = lambda p, k, y, key: normal_draw(key, p.mean[k], jnp.linalg.cholesky(p.precision))
    check = checker(dim, **REAL)
    pulls = num_components * np.asarray(full("strength", strength, sizes[:1]))
    expects = _expected_of_matrix(sizes, location, pulls, degrees, scale, 1)
    return Emission(
        prior,
        log_likelihood,
        np.zeros(dim),
        check,
        predictive,
        num_components,
        sample=draw,
        expects=expects,
        marginal=TIED,
    )


@cache_by_value
def blurred(emission: Emission, variance: float) -> Emission:
    """The Gaussian emission, fitted as if every observation were spread by noise of this variance
    in each coordinate:

        E[log p(y + e | beta)] = log p(y | beta) - variance tr(precision) / 2,    e ~ N(0, variance I)

    Then maximum likelihood never gives a component a covariance below variance I, even with one
    observation, and coordinate ascent still never lowers its objective. (Other libraries add a
    "regularisation of the covariance" after the maximisation.) Held-out densities are those of the
    emission itself.

    Args:
      emission: one of the Gaussian emissions of `vijax.models.emission`.
      variance: variance of the noise, 0 or more.

    >>> from vijax.models.emission import full_gaussian
    >>> e, s = full_gaussian(1, dim=2), full_gaussian(1, dim=2).prior.expected_stats()
    >>> y = jnp.array([1.0, 2.0])
    >>> print((blurred(e, 0.5).log_likelihood(s, y) - e.log_likelihood(s, y)).round(3))
    [-0.5]
    """
    require(variance >= 0, "variance", "a number >= 0", variance)
    require_complete(emission, "blurred(emission, variance)")
    dim = emission.example.shape[-1]

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        # The trace of the second derivative does not depend on y: it is computed once for all
        # observations.
        steps = jnp.concatenate([jnp.eye(dim), -jnp.eye(dim)])
        around = jnp.sum(jax.vmap(lambda step: emission.log_likelihood(s, step))(steps), 0)
        laplacian = around - 2 * dim * emission.log_likelihood(s, jnp.zeros(dim))
        return emission.log_likelihood(s, y) + 0.5 * variance * laplacian

    marginal = emission.marginal
    if marginal is not None:
        plain = marginal.log_likelihood
        blurry = lambda s, y, noise: plain(s, y, noise + variance)
        marginal = Marginal(blurry, is_linear=marginal.is_linear)
    return dataclasses.replace(
        emission, log_likelihood=log_likelihood, scored_as=emission, marginal=marginal
    )
