"""Emissions: the observation models of mixture components and of states of chains.

An emission is of one group, given its component or state. The models that use them are in
`mixtures` and `series`."""

from vijax.models.emission.around import around
from vijax.models.emission.base import Emission as Emission
from vijax.models.emission.base import LogLikelihood as LogLikelihood
from vijax.models.emission.base import LogPredictive as LogPredictive
from vijax.models.emission.base import Marginal as Marginal
from vijax.models.emission.base import check_emission as check_emission
from vijax.models.emission.base import checker as checker
from vijax.models.emission.base import is_count as is_count
from vijax.models.emission.counts import bernoulli, categorical, poisson
from vijax.models.emission.gaussian import (
    blurred,
    diagonal_gaussian,
    full_gaussian,
    spherical_gaussian,
    tied_gaussian,
    unit_gaussian,
)
from vijax.models.emission.labels import with_labels
from vijax.models.emission.missing import incomplete
from vijax.models.emission.placed import placed

__all__ = [
    "around",
    "bernoulli",
    "blurred",
    "categorical",
    "diagonal_gaussian",
    "full_gaussian",
    "incomplete",
    "placed",
    "poisson",
    "spherical_gaussian",
    "tied_gaussian",
    "unit_gaussian",
    "with_labels",
]
