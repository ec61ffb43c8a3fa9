"""What a mixture component, or a state of a chain, emits: a conjugate prior and the log likelihood in its statistics.

An `Emission` serves every model with exchangeable components: mixtures, Dirichlet-process mixtures, hidden Markov
models (Pei 2019, eq. 9.1 to 9.9: a mixture of *any* exponential family).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PyTree

from vijax.by_value import Remade, by_value
from vijax.checks import require, require_integers
from vijax.families import Beta, Dirichlet, Family, Gamma, Normal, NormalGamma, NormalWishart, Point
from vijax.families.base import as_float
from vijax.families.construction import on_host
from vijax.families.predictive import log_predictive

LogLikelihood = Callable[[Any, Array], Float[Array, " K"]]
LogPredictive = Callable[[Any, Array], Float[Array, " K"]]


@dataclasses.dataclass(frozen=True, eq=False)
class Emission(Remade):
    """Attributes:
    prior: conjugate prior of the components' parameters, batch shape (K,) or (K, D).
    log_likelihood: (statistics, observation) -> log p(y | component k), shape (K,), linear in the statistics.
    example: an observation of the right shape.
    check: raises ValueError on data (N observations) that cannot be.
    predictive: (q of the parameters, observation) -> log E_q[p(y | component k)], where a form cheaper than the
      general one is known; q is no `Point`.
    """

    prior: Family
    log_likelihood: LogLikelihood
    example: Array | np.ndarray
    check: Callable[[Any], None]
    predictive: LogPredictive | None = None

    @property
    def num_components(self) -> int:
        """K."""
        return self.prior.batch_shape[0]

    def log_predictive(self, q: Family | Point, y: Float[Array, ...]) -> Float[Array, " K"]:
        """log p(y | component k), the parameters integrated over q; see the function `log_predictive`."""
        if self.predictive is not None and not isinstance(q, Point):
            return self.predictive(q, y)
        return log_predictive(self.log_likelihood, q, y)


def check_emission(emission: Any, others: Mapping[str, Any]) -> Emission:
    """What a model of components was given as its emission.

    Raises:
      TypeError: none was given, or arguments that the model does not have.
    """
    example = "vijax.models.emission.full_gaussian(num_components=3, dim=2)"
    if others:
        belong = "the number of components and their dimension are arguments of the emission"
        raise TypeError(f"unexpected argument {sorted(others)[0]}: {belong}. Pass emission={example}, say.")
    if not isinstance(emission, Emission):
        raise TypeError(f"emission: expected what components emit, {example} say, got {emission!r}.")
    return emission


@by_value
def bernoulli(num_components: int, dim: int, alpha: Any = 1.0, beta: Any = 1.0) -> Emission:
    """D independent binary values; each component's probabilities are Beta(alpha, beta).

    >>> bernoulli(3, dim=5).prior.batch_shape
    (3, 5)
    """
    shape = _sizes(num_components, dim)
    prior = Beta.from_alpha_beta(_full("alpha", alpha, shape), _full("beta", beta, shape))
    binary = lambda x: (x == 0) | (x == 1)
    return Emission(
        prior=prior,
        log_likelihood=lambda s, y: s.log @ y + s.log1m @ (1 - y),
        example=np.zeros(dim),
        check=checker(dim, binary, "zeros and ones"),
        predictive=_bernoulli_predictive,
    )


def _bernoulli_predictive(q: Beta, y: Float[Array, " D"]) -> Float[Array, " K"]:
    """sum_d log E[p_kd] or log E[1 - p_kd]."""
    return jnp.sum(jnp.log(jnp.where(y > 0.5, q.alpha, q.beta) / (q.alpha + q.beta)), axis=-1)


@by_value
def poisson(num_components: int, dim: int, shape: Any = 1.0, rate: Any = 1.0) -> Emission:
    """D independent counts; each component's rates are Gamma(shape, rate)."""
    sizes = _sizes(num_components, dim)
    prior = Gamma.from_shape_rate(_full("shape", shape, sizes), _full("rate", rate, sizes))

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        return s.log @ y - jnp.sum(s.value, -1) - jnp.sum(gammaln(y + 1))

    return Emission(prior, log_likelihood, np.ones(dim), checker(dim, is_count, "counts 0, 1, 2, ..."))


@by_value
def categorical(num_components: int, vocab_size: int, eta: Any = 1.0) -> Emission:
    """Bags of words: each component has word probabilities from a Dirichlet(eta); an observation is a vector of V
    counts, its likelihood that of the words in their order (no multinomial coefficient). One-hot rows are plain
    categorical data."""
    sizes = _sizes(num_components, vocab_size)
    prior = Dirichlet.from_concentration(_full("eta", eta, sizes))
    check = checker(vocab_size, is_count, "counts 0, 1, 2, ...")
    return Emission(prior, lambda s, y: s.log @ y, np.ones(vocab_size), check)


@by_value
def unit_gaussian(num_components: int, dim: int, location: Any = 0.0, variance: Any = 100.0) -> Emission:
    """Normal with unit variances (Blei, Kucukelbir and McAuliffe 2017, sections 2 and 3): means are N(location,
    variance)."""
    sizes = _sizes(num_components, dim)
    prior = Normal.from_mean_variance(_full("location", location, sizes), _full("variance", variance, sizes))

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        return s.value @ y - 0.5 * (jnp.sum(s.square, -1) + y @ y + dim * math.log(2 * math.pi))

    return Emission(prior, log_likelihood, np.zeros(dim), checker(dim, **_REAL))


@by_value
def diagonal_gaussian(
    num_components: int, dim: int, location: Any = 0.0, strength: Any = 0.01, shape: Any = 1.0, rate: Any = 1.0
) -> Emission:
    """Normal with diagonal covariance (Blei, Kucukelbir and McAuliffe 2017, appendix B): mean and precision of each
    dimension are NormalGamma(location, strength, shape, rate), the precision's prior mean shape / rate."""
    sizes = _sizes(num_components, dim)
    given = {"location": location, "strength": strength, "shape": shape, "rate": rate}
    prior = NormalGamma.from_parameters(**{name: _full(name, value, sizes) for name, value in given.items()})

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        squares = jnp.sum(s.precision_times_square - s.log_precision, -1) + s.precision @ y**2
        return s.precision_times_mean @ y - 0.5 * (squares + dim * math.log(2 * math.pi))

    return Emission(prior, log_likelihood, np.zeros(dim), checker(dim, **_REAL))


@by_value
def full_gaussian(
    num_components: int,
    dim: int,
    location: Any = 0.0,
    strength: Any = 0.01,
    degrees: float | None = None,
    scale: Any = None,
) -> Emission:
    """Normal with full covariance (Pei 2019): mean and precision matrix are NormalWishart.

    Args:
      num_components: K.
      dim: D.
      location: prior mean of the means, scalar or (D,).
      strength: how many observations it is worth.
      degrees: of the Wishart, above D - 1; D + 2 by default.
      scale: of the Wishart, (D, D); by default such that the prior mean of the precision is the identity.
    """
    sizes = _sizes(num_components, dim)
    degrees = dim + 2.0 if degrees is None else degrees
    scale = np.eye(dim) / degrees if scale is None else as_float(scale, "scale")
    prior = NormalWishart.from_parameters(
        location=_full("location", location, sizes),
        strength=_full("strength", strength, sizes[:1]),
        degrees=_full("degrees", degrees, sizes[:1]),
        scale=_full("scale", scale, (num_components, dim, dim)),
    )

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        spread = (y @ s.precision) @ y  # in this order an observation costs K D floats, not D^2, and none is transposed
        return s.precision_times_mean @ y - 0.5 * (spread + s.quadratic - s.log_det + dim * math.log(2 * math.pi))

    return Emission(prior, log_likelihood, np.zeros(dim), checker(dim, **_REAL))


# --- arguments and data ---------------------------------------------------------------------------------------------
def _sizes(num_components: int, dim: int) -> tuple[int, int]:
    require_integers(num_components=num_components, dim=dim)
    return num_components, dim


def _full(name: str, value: Any, shape: tuple[int, ...]) -> Float[Array, ...]:
    value = as_float(value, name)
    fits = value.ndim <= len(shape) and all(a in (1, b) for a, b in zip(value.shape[::-1], shape[::-1], strict=False))
    require(fits, name, f"a shape that broadcasts to {shape}", value.shape)
    xp, value = on_host(value)
    return xp.broadcast_to(value, shape)


def checker(dim: int, valid: Callable[[np.ndarray], np.ndarray], expected: str, centred: bool = False) -> Any:
    """data -> None: ValueError naming the first bad row of (N, D) data."""

    def check(data: PyTree) -> None:
        data = np.asarray(data)
        shape = f"an array of shape (N, {dim})"
        require(data.ndim == 2 and data.shape[1] == dim and len(data) > 0, "data", shape, f"shape {data.shape}")
        bad = np.argwhere(~(np.isfinite(data) & valid(data)))
        if len(bad):
            row, column = map(int, bad[0])
            raise ValueError(
                f"data: expected {expected}, got {data[row, column]} in row {row}, column {column} ({len(bad)} such "
                "values). Remove or impute those rows."
            )
        if centred:
            _check_centred(data)

    return check


def _check_centred(data: np.ndarray) -> None:
    """In float32 squares about a far origin lose the spread."""
    if jnp.result_type(float) == np.float64 == data.dtype:
        return
    data = np.asarray(data, np.float64)
    mean, spread = data.mean(axis=0), data.std(axis=0)
    far = np.flatnonzero((np.abs(mean) > 300 * spread) & (spread > 0))
    if len(far):
        column = int(far[0])
        raise ValueError(
            f"data: expected columns whose mean is within 300 standard deviations of 0, since float32 loses the rest, "
            f"got mean {mean[column]:.6g}, standard deviation {spread[column]:.3g} in column {column}. Subtract a "
            "constant from it, or work in float64."
        )


def is_count(x: np.ndarray) -> np.ndarray:
    """Which numbers are 0, 1, 2, ..."""
    return (x >= 0) & (x == np.floor(x))


_REAL: dict[str, Any] = {"valid": lambda x: np.ones(x.shape, bool), "expected": "finite numbers", "centred": True}
