"""The location and the unit of responses with unknown noise.

A Gaussian process, or weights, of prior scale one can follow responses that vary by about one
around zero. So responses with unknown noise are measured from their mean in units of their standard
deviation. All results are in units of y again: predictions, densities, draws and the bound. Hence a
fit is equivariant: shifted and scaled responses give the same answer, shifted and scaled. Responses
with known noise are taken as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.families import Gamma
from vijax.families.base import as_float
from vijax.inference.likelihood import Likelihood, UnknownNoise

NOISE = "noise"
"""The name, among the globals, of the precision of unknown noise."""
WORTH = 0.1
"""Weight of the prior of the noise, in observations."""
GUESS = 0.1
"""Prior guess of the standard deviation of the noise, in units of that of y. With `WORTH` it bounds
the noise from below by a thirtieth of y's standard deviation over the root of N, so that y without
noise can be fitted."""
SMALLEST, LARGEST = 1e-12, 1e12
"""Bounds of units for which squares of y and of 1 / y are finite in float32."""
PLACE_ROUNDS = 1e-6
"""Largest relative error of a sum of columns that counts as a constant."""


@dataclasses.dataclass(frozen=True, eq=False)
class Measure:
    """The measure of responses: y = offset + unit z, where the model fits z."""

    noise: UnknownNoise
    offset: Callable[[Any], Any]  # inputs -> the place of their responses, (T,)
    at_sites: Float[np.ndarray, " sites"]  # the place of the responses of training
    unit: float

    def likelihood(self, hyper: Any, stats: Mapping[str, Any]) -> Likelihood:
        """p(y | z) in the units of the model, at statistics of the noise."""
        return self.noise.law(stats[NOISE], self.unit)

    def prior(self) -> Gamma:
        """The prior of the precision of the noise, in units of y."""
        shape = 0.5 * WORTH
        return Gamma.from_shape_rate(shape, shape * (GUESS * self.unit) ** 2)

    def inward(self, inputs: Any, y: Any) -> Any:
        """Responses in the units of the model, by differences in float64."""
        y = np.asarray(y, np.float64)
        return (y - np.asarray(self.offset(inputs), np.float64)) / self.unit

    def outward(self, inputs: Any, mean: Any, variance: Any) -> tuple[Any, Any]:
        """Mean and variance of predictors in units of y, in float64 unless JAX traces."""
        place = self.offset(inputs)
        if any(isinstance(x, jax.core.Tracer) for x in (mean, variance, place)):
            return place + self.unit * mean, self.unit**2 * variance
        wide = lambda x: np.asarray(x, np.float64)
        return wide(place) + self.unit * wide(mean), self.unit**2 * wide(variance)


Place = Callable[[float], tuple[Callable[[Any], Any], Any]]
"""middle of y -> (the function `Measure.offset`, its values at the sites)."""


def make_measure(y: Any, noise: UnknownNoise, place: Place) -> Measure:
    """The measure of responses.

    Args:
      y: responses, (N,), each finite.
      noise: their noise. For heavy tails location and unit are robust to a few outliers.
      place: maps the middle of y to an offset that the model can represent.

    Raises:
      ValueError: responses so small or large that float32 cannot hold their squares.
    """
    y = np.asarray(y, np.float64)
    middle = float(np.median(y) if noise.is_heavy_tailed else np.mean(y))
    offset, at_sites = place(middle)
    at_sites = np.broadcast_to(np.asarray(at_sites, np.float64), y.shape)
    unit = _spread(y - at_sites, noise.is_heavy_tailed) or abs(middle) or 1.0
    expected = f"numbers whose standard deviation is {SMALLEST:g} to {LARGEST:g}"
    require(SMALLEST < unit < LARGEST, "y", expected, f"{unit:.3g}", "Measure y in another unit.")
    return Measure(noise, offset, at_sites, unit)


class Observations(NamedTuple):
    """Observations in the units of a model of Gaussian predictors."""

    y: Any
    likelihood: Callable[
        [Any, Mapping[str, Any]], Likelihood
    ]  # (hyper, statistics of the other globals) -> p(y | z)
    others: dict[str, Any]  # priors of the globals beside the predictors
    measure: Measure | None  # None where they are taken as they are


def measure_observations(
    y: Any, likelihood: Any, own: Likelihood, others: Mapping[str, Any] | None, place: Place
) -> Observations:
    """Observations as they are; if their noise is unknown, measured and with the noise as a global.

    Args:
      y: observations, (N,).
      likelihood: (hyper, statistics of the other globals) -> p(y | z).
      own: the likelihood at the model's own hyperparameters.
      others: priors of globals that the user has added.
      place: as in `make_measure`.

    Raises:
      ValueError: unknown noise beside other globals; see `make_measure`.
    """
    if own.noise is None:
        return Observations(y, likelihood, dict(others or {}), None)
    remedy = f"Give {own.name} its noise: as a number, or by a global of your own."
    require(not others, "others", "none where the noise is unknown", sorted(others or {}), remedy)
    measure = make_measure(y, own.noise, place)
    scaled = (np.asarray(y, np.float64) - measure.at_sites) / measure.unit
    return Observations(as_float(scaled), measure.likelihood, {NOISE: measure.prior()}, measure)


def constant_place(middle: float) -> tuple[Callable[[Any], Any], Any]:
    """The same place for all inputs."""
    return (lambda inputs: middle), middle


def _spread(residuals: Float[np.ndarray, " N"], is_heavy_tailed: bool) -> float:
    """The spread about zero; 0 if all residuals are zero."""
    usual = 1.4826 * float(np.median(np.abs(residuals))) if is_heavy_tailed else 0.0
    largest = float(np.max(np.abs(residuals)))
    if usual > 0 or largest == 0:
        return usual
    return largest * float(np.sqrt(np.mean((residuals / largest) ** 2)))


def place_of_columns(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " D"] | None:
    """Weights by which the columns of a design add up to one in every row: of a column of a
    constant, or of columns that indicate the groups of all rows. None where no columns, or columns
    in several ways, do so."""
    x = np.asarray(x, np.float64)
    first = x[0]
    constant = np.flatnonzero((first != 0) & np.all(x == first, axis=0))
    if len(constant):
        weights = np.zeros(x.shape[1])
        weights[constant[0]] = 1.0 / first[constant[0]]
        return weights
    if x.shape[1] >= x.shape[0]:
        return None
    weights, _, rank, _ = np.linalg.lstsq(x, np.ones(len(x)), rcond=None)
    adds_up = np.max(np.abs(x @ weights - 1.0)) < PLACE_ROUNDS
    if rank == x.shape[1] and adds_up:
        return weights
    return None
