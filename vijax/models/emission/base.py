"""The base of emissions: a conjugate prior of the parameters of a component, and a log likelihood
that is linear in its statistics.

An `Emission` serves every model with exchangeable components: mixtures, Dirichlet-process mixtures,
hidden Markov models (Pei 2019, eq. 9.1 to 9.9: a mixture of *any* exponential family)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.checks import RowError, require
from vijax.contract.expected import PriorExpectation, Strain
from vijax.families import Family, Point
from vijax.families.base import as_float
from vijax.families.construction import numpy_or_jax
from vijax.families.point import log_predictive
from vijax.xla.by_value import Remade


class PriorColumns(NamedTuple):
    """The columns that the prior of an emission expects; see
    `vijax.contract.expected.PriorExpectation`."""

    strain: Strain
    prior: str
    remedy: str = (
        "Make the emission by vijax.models.emission.placed(make, K, data), or bring columns to "
        "mean 0 and deviation 1."
    )


LogLikelihood = Callable[[Any, Array], Float[Array, " K"]]
LogPredictive = Callable[[Any, Array], Float[Array, " K"]]


class Marginal(NamedTuple):
    """The densities of the observed cells of a row, NaN where a cell is missing."""

    # (statistics, row, variance of noise in each coordinate; 0 for none) -> log p(observed cells |
    # component k), (K,), whose gradient in the statistics is the expected message of the row
    log_likelihood: Callable[[Any, Array, float], Float[Array, " K"]]
    # The predictive density of observed cells; None takes the general form
    predictive: LogPredictive | None = None
    is_linear: bool = True  # False if missing cells depend on the observed ones


@dataclasses.dataclass(frozen=True, eq=False)
class Emission(Remade):
    """The observation model of a mixture component, or of a state of a chain."""

    prior: Family  # conjugate prior of the components' parameters, batch shape (K,) or (K, D)
    # (statistics, observation) -> log p(y | component k), shape (K,), linear in the statistics
    log_likelihood: LogLikelihood
    example: Array | np.ndarray  # an observation of the right shape
    check: Callable[[Any], None]  # raises ValueError on data (N observations) that are impossible
    # (q of the parameters, observation) -> log E_q[p(y | component k)], for a form cheaper than the
    # general one; q is not a `Point`
    predictive: LogPredictive | None = None
    # K, if the components share parameters and the prior is one member of its family for all of
    # them
    shared_by: int | None = None
    # The emission with the density of an observation, if this one is only for fitting (`blurred`)
    scored_as: Emission | None = None
    # (a draw of the parameters of all components, k, an observation, key) -> a drawn observation of
    # component k, with the size of the given one
    sample: Callable[[Any, Array, Array, PRNGKeyArray], Array] | None = None
    has_totals: bool = False  # True if each observation has a size (a number of words)
    expects: PriorColumns | None = None  # the columns that the prior expects
    marginal: Marginal | None = None  # for rows with missing cells; None if there is no such law
    takes_missing: bool = False  # True if rows may have NaN (`incomplete`)
    # The emission of the other cells, if the last cell is the number of the state (`with_labels`)
    unlabelled: Emission | None = None
    # False if the log likelihood is a bound over missing cells, which depend on the observed ones
    is_linear: bool = True

    @property
    def has_labels(self) -> bool:
        """True if the last cell of a row is the number of its state, or NaN."""
        return self.unlabelled is not None

    @property
    def num_components(self) -> int:
        """K."""
        return self.shared_by or self.prior.batch_shape[0]

    def log_predictive(self, q: Family | Point, y: Float[Array, ...]) -> Float[Array, " K"]:
        """log p(y | component k), the parameters integrated over q; see the function
        `log_predictive`."""
        if self.scored_as is not None:
            return self.scored_as.log_predictive(q, y)
        if self.predictive is not None and not isinstance(q, Point):
            return self.predictive(q, y)
        return log_predictive(self.log_likelihood, q, y)


def prior_expectation(
    emission: Emission, columns: Callable[[Any], np.ndarray]
) -> PriorExpectation | None:
    """The expectations of the prior of an emission; None if it has none."""
    if emission.expects is None:
        return None
    if emission.has_labels:
        return PriorExpectation(lambda data: columns(data)[:, :-1], *emission.expects)
    return PriorExpectation(columns, *emission.expects)


def check_emission(emission: Any, others: Mapping[str, Any], labels: bool = False) -> Emission:
    """The emission of a model of components; TypeError if there is none, or for unknown arguments
    of the model; ValueError for one with labels if the model has none."""
    example = "vijax.models.emission.full_gaussian(num_components=3, dim=2)"
    if others:
        belong = "the number of components and their dimension are arguments of the emission"
        raise TypeError(
            f"unexpected argument {sorted(others)[0]}: {belong}. Pass emission={example}, say."
        )
    if not isinstance(emission, Emission):
        raise TypeError(f"emission: expected an emission, such as {example}, got {emission!r}.")
    expected = "an emission without labels, which hmm and hdp_hmm take"
    require(labels or not emission.has_labels, "emission", expected, "with_labels(...)")
    return emission


def require_complete(emission: Emission, call: str) -> None:
    """Raises ValueError at an emission of rows with missing cells or labels, which are said after
    this call."""
    name = "incomplete"
    if emission.has_labels:
        name = "with_labels"
    require(not emission.takes_missing, "emission", f"{name}({call})", "its reverse")


def full(name: str, value: Any, shape: tuple[int, ...]) -> Float[Array, ...]:
    """A hyperparameter with one value for each component; a ValueError names it."""
    value = as_float(value, name)
    fits = value.ndim <= len(shape) and all(
        a in (1, b) for a, b in zip(value.shape[::-1], shape[::-1], strict=False)
    )
    require(fits, name, f"a shape that broadcasts to {shape}", value.shape)
    xp, value = numpy_or_jax(value)
    return xp.broadcast_to(value, shape)


REMOVE = "Remove or impute those rows."
INCOMPLETE = (
    "Make the emission by vijax.models.emission.incomplete(emission), for which NaN is a missing "
    "cell; or remove or impute those rows."
)


@dataclasses.dataclass(frozen=True)
class RowCheck:
    """data -> None: ValueError naming the first bad row of (N, D) data."""

    dim: int
    valid: Callable[[np.ndarray], np.ndarray]
    expected: str
    centred: bool = False
    missing: bool = False  # True if NaN is a missing cell
    remedy: str = REMOVE  # for NaN

    def __call__(self, data: PyTree) -> None:
        data = np.asarray(data)
        shape = f"an array of shape (N, {self.dim})"
        require(
            data.ndim == 2 and data.shape[1] == self.dim and len(data) > 0,
            "data",
            shape,
            f"shape {data.shape}",
        )
        is_fine = np.isfinite(data) & self.valid(data)
        if self.missing:
            is_fine |= np.isnan(data)
        bad = np.argwhere(~is_fine)
        if len(bad):
            row, column = map(int, bad[0])
            before = f"data: expected {self.expected}, got {data[row, column]} in"
            remedy = REMOVE
            if np.isnan(data[row, column]):
                remedy = self.remedy
            raise RowError(before, row, column, f"({len(bad)} such values). {remedy}")
        if self.centred:
            _check_centre(data)


def checker(
    dim: int,
    valid: Callable[[np.ndarray], np.ndarray],
    expected: str,
    centred: bool = False,
    remedy: str = REMOVE,
) -> RowCheck:
    """data -> None: ValueError naming the first bad row of (N, D) data. The remedy is for NaN."""
    return RowCheck(dim, valid, expected, centred, remedy=remedy)


def _check_centre(data: np.ndarray) -> None:
    """Raises ValueError unless data are centred: in float32 squares about a far origin lose the
    spread."""
    if jnp.result_type(float) == np.float64 == data.dtype:
        return
    data = np.asarray(data, np.float64)
    is_there = ~np.isnan(data)
    number = np.maximum(is_there.sum(axis=0), 1)
    mean = np.where(is_there, data, 0.0).sum(axis=0) / number
    spread = np.sqrt((np.where(is_there, data - mean, 0.0) ** 2).sum(axis=0) / number)
    far_columns = np.flatnonzero((np.abs(mean) > 300 * spread) & (spread > 0))
    if len(far_columns):
        column = int(far_columns[0])
        raise ValueError(
            "data: expected columns whose mean is within 300 standard deviations of 0, since "
            "float32 loses the rest, "
            f"got mean {mean[column]:.6g}, standard deviation {spread[column]:.3g} in column "
            f"{column}. Subtract a "
            "constant from it, or work in float64."
        )


def is_count(x: np.ndarray) -> np.ndarray:
    """True where a number is 0, 1, 2, ..."""
    return (x >= 0) & (x == np.floor(x))


REAL: dict[str, Any] = {
    "valid": lambda x: np.ones(x.shape, bool),
    "expected": "finite numbers",
    "centred": True,
    "remedy": INCOMPLETE,
}
