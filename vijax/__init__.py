"""vijax: variational inference by automatic differentiation, in JAX."""

import vijax.blas  # isort: skip  (first: OpenBLAS reads its settings when it is loaded)
import vijax.runtime  # noqa: F401  # isort: skip  (and XLA its flags when it starts)

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from vijax import (
    constrain,
    estep,
    estimand,
    estimator,
    expectation,
    families,
    guides,
    init,
    likelihood,
    models,
    objective,
    reference,
    sites,
    step_size,
    update,
)
from vijax.adapters import from_numpyro, from_tfp
from vijax.algorithm import Algorithm, Info, Result, State, compose
from vijax.algorithms import cavi, em, map, memoized, pg_svi, ssvi, ssvi_a, svi
from vijax.automatic.auto import auto
from vijax.automatic.dadvi import dadvi
from vijax.batch import Documents, Minibatch
from vijax.evaluated import at
from vijax.families import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Family,
    Gamma,
    InverseGamma,
    InverseWishart,
    LinearGaussianChain,
    MarkovChain,
    Multinomial,
    MultivariateNormal,
    MultivariateNormalGamma,
    Normal,
    NormalGamma,
    NormalsWishart,
    NormalWishart,
    Poisson,
    PolyaGamma,
    Product,
    TruncatedNormal,
    Wishart,
    implicit,
)
from vijax.fit import Progress, fit
from vijax.free_algorithms import advi, aevb, bam, bbvi, ngvi
from vijax.linear_response import linear_response
from vijax.load import load
from vijax.model import LocalElbo, Model, model
from vijax.models.check_energy import check_energy
from vijax.models.density import density
from vijax.models.energy import conditional, energy_model
from vijax.result import Fit
from vijax.status import DivergedError, ForgottenWarning, SkippedStepsWarning, Status
from vijax.variables import free

if TYPE_CHECKING:
    from vijax import checkpoint, data, evaluate, plots, sklearn, trust

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
    "ForgottenWarning",
    "Gamma",
    "Info",
    "InverseGamma",
    "InverseWishart",
    "LinearGaussianChain",
    "LocalElbo",
    "MarkovChain",
    "Minibatch",
    "Model",
    "Multinomial",
    "MultivariateNormal",
    "MultivariateNormalGamma",
    "Normal",
    "NormalGamma",
    "NormalWishart",
    "NormalsWishart",
    "Poisson",
    "PolyaGamma",
    "Product",
    "Progress",
    "Result",
    "SkippedStepsWarning",
    "State",
    "Status",
    "TruncatedNormal",
    "Wishart",
    "advi",
    "aevb",
    "at",
    "auto",
    "bam",
    "bbvi",
    "cavi",
    "check_energy",
    "checkpoint",
    "compose",
    "conditional",
    "constrain",
    "dadvi",
    "data",
    "density",
    "em",
    "energy_model",
    "estep",
    "estimand",
    "estimator",
    "evaluate",
    "expectation",
    "families",
    "fit",
    "free",
    "from_numpyro",
    "from_tfp",
    "guides",
    "implicit",
    "init",
    "likelihood",
    "linear_response",
    "load",
    "map",
    "memoized",
    "model",
    "models",
    "ngvi",
    "objective",
    "pg_svi",
    "plots",
    "reference",
    "sites",
    "sklearn",
    "ssvi",
    "ssvi_a",
    "step_size",
    "svi",
    "trust",
    "update",
]

ON_FIRST_USE = ("checkpoint", "data", "evaluate", "plots", "sklearn", "trust")
"""Modules of the list above that `import vijax` leaves for later."""


def __getattr__(name: str) -> ModuleType:
    if name in ON_FIRST_USE:
        return importlib.import_module(f"vijax.{name}")
    raise AttributeError(f"module 'vijax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
