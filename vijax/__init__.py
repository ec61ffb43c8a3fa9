"""vijax: variational inference by automatic differentiation, in JAX."""

from vijax import estep, expectation, geometry, likelihood, message, models, sites, step_size
from vijax.algorithm import Algorithm, Info, Result, State, compose
from vijax.algorithms import cavi, em, map, ssvi, ssvi_a, svi
from vijax.batch import Documents, Minibatch
from vijax.families import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Family,
    Gamma,
    MultivariateNormal,
    Normal,
    Product,
)
from vijax.fit import DivergedError, Progress, Status, fit
from vijax.model import LocalElbo, Model, model
from vijax.proximal import pg_svi
from vijax.result import Fit

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Dirichlet",
    "DivergedError",
    "Documents",
    "Family",
    "Fit",
    "Gamma",
    "Info",
    "LocalElbo",
    "Minibatch",
    "Model",
    "MultivariateNormal",
    "Normal",
    "Product",
    "Progress",
    "Result",
    "State",
    "Status",
    "cavi",
    "compose",
    "em",
    "estep",
    "expectation",
    "fit",
    "geometry",
    "likelihood",
    "map",
    "message",
    "model",
    "models",
    "pg_svi",
    "sites",
    "ssvi",
    "ssvi_a",
    "step_size",
    "svi",
]
