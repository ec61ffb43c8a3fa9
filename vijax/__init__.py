"""Variational inference by automatic differentiation, in JAX.

To try it, two clusters of a mixture of five rows:

>>> import jax, numpy as np, vijax as vi
>>> y = np.array([[-5.0], [-4.0], [-4.5], [3.0], [3.5]])
>>> model = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
>>> fit = vi.fit(vi.cavi(model), y, num_steps=30, key=jax.random.key(0))
>>> print(np.sort(fit.posterior["components"].mean()[:, 0]).round(1))
[-4.5  3.2]

`print(fit)` shows the result, `fit.summary()` the posterior, `fit.verdict` whether to trust it.
The names by group:

a model: models (ready ones), glmm, stm (by formulas), dtm, energy_model, Structure, conditional,
  free, density, model, from_numpyro, from_pymc, from_tfp, check_energy, Model, LocalElbo
its parts: families (Normal, Gamma, ...: `vi.Normal` is `vi.families.Normal`), Family, Product,
  constrain, likelihood, init, sites
an algorithm: auto (chooses), grow (finds the number of components), cavi, em, map, memoized, svi,
  ssvi, ssvi_a, sgrld, pg_svi; of any density ngvi, bam, advi, bbvi, dadvi; of networks aevb
its choices: compose, estimand, estimator, update, estep, expectation, guides, step_size, messages,
  objective, learn, Algorithm, State, Info, Result
topics after a fit: edit_topics (merged, dropped, split; topics.topic_tree)
around it: warm, averaged, over_axis, part_of, whole, topics, scale (many devices)
a run: fit, Fit, Progress, Status, Minibatch, Documents, data, checkpoint, load, DivergedError,
  ForgottenWarning, SkippedStepsWarning, FarFromPriorWarning
what it is worth: trust, evaluate, plots, reference, linear_response, at
for scikit-learn: sklearn
"""

import vijax.same_name  # isort: skip  (before all else: the rest may be another project's)
import vijax.xla.blas  # noqa: F401  # isort: skip  (first: OpenBLAS reads its settings when it is loaded)

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from vijax import constrain, families, models, reference, scale, topics
from vijax.adapters import from_numpyro, from_pymc, from_tfp
from vijax.algorithms import cavi, em, map, memoized, pg_svi, sgrld, ssvi, ssvi_a, svi
from vijax.app.folder.load import load
from vijax.automatic.auto import auto
from vijax.automatic.dadvi import dadvi
from vijax.automatic.many.loaded import with_many as _with_many
from vijax.contract import init, objective
from vijax.contract.batch import Documents, Minibatch
from vijax.contract.expected import FarFromPriorWarning
from vijax.contract.model import LocalElbo, Model, model
from vijax.contract.variables import free
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
    MatrixNormalWishart,
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
from vijax.fitting.fit import Progress, fit
from vijax.fitting.result import Fit
from vijax.fitting.status import DivergedError, ForgottenWarning, SkippedStepsWarning, Status
from vijax.free_algorithms import advi, aevb, bam, bbvi, ngvi
from vijax.growing.grow import grow
from vijax.growing.topic_edits import edit_topics
from vijax.inference import (
    estep,
    estimand,
    estimator,
    expectation,
    guides,
    likelihood,
    messages,
    sites,
    step_size,
    update,
)
from vijax.inference.compose import Algorithm, compose
from vijax.inference.learning import learn
from vijax.inference.state import Info, Result, State
from vijax.inference.wrappers.axis import over_axis
from vijax.inference.wrappers.beside import averaged, warm
from vijax.inference.wrappers.sized import part_of, whole
from vijax.models.documents.dtm import dtm
from vijax.models.energies.check_energy import check_energy
from vijax.models.energies.density import density
from vijax.models.energies.energy_model import Structure, conditional, energy_model
from vijax.models.formulas.glmm import glmm as _glmm
from vijax.models.structural.stm import stm
from vijax.predict.at_values import at
from vijax.response.linear_response import linear_response

if TYPE_CHECKING:
    from vijax import data, evaluate, sklearn, trust
    from vijax.evaluate import plots
    from vijax.fitting import checkpoint

__version__ = "0.1.0"
glmm = _with_many(_glmm)
"""`vijax.models.formulas.glmm.glmm`, with `glmm.many` for many responses."""

__all__ = [
    "Algorithm",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Dirichlet",
    "DivergedError",
    "Documents",
    "Family",
    "FarFromPriorWarning",
    "Fit",
    "ForgottenWarning",
    "Gamma",
    "Info",
    "InverseGamma",
    "InverseWishart",
    "LinearGaussianChain",
    "LocalElbo",
    "MarkovChain",
    "MatrixNormalWishart",
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
    "Structure",
    "TruncatedNormal",
    "Wishart",
    "advi",
    "aevb",
    "at",
    "auto",
    "averaged",
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
    "dtm",
    "edit_topics",
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
    "from_pymc",
    "from_tfp",
    "glmm",
    "grow",
    "guides",
    "implicit",
    "init",
    "learn",
    "likelihood",
    "linear_response",
    "load",
    "map",
    "memoized",
    "messages",
    "model",
    "models",
    "ngvi",
    "objective",
    "over_axis",
    "part_of",
    "pg_svi",
    "plots",
    "reference",
    "scale",
    "sgrld",
    "sites",
    "sklearn",
    "ssvi",
    "ssvi_a",
    "step_size",
    "stm",
    "svi",
    "topics",
    "trust",
    "update",
    "warm",
    "whole",
]

ON_FIRST_USE = {
    "checkpoint": "vijax.fitting.checkpoint",
    "data": "vijax.data",
    "evaluate": "vijax.evaluate",
    "plots": "vijax.evaluate.plots",
    "sklearn": "vijax.sklearn",
    "trust": "vijax.trust",
}
"""Modules of the list above that are imported at their first use, by their full names."""


# Modules of `vijax.inference` and `vijax.contract` that users know by a short name: so
# `import vijax.estep` works.
for _room in (
    estep,
    estimand,
    estimator,
    expectation,
    guides,
    init,
    likelihood,
    messages,
    objective,
    sites,
    step_size,
    update,
):
    sys.modules[f"vijax.{_room.__name__.rpartition('.')[2]}"] = _room


def __getattr__(name: str) -> ModuleType:
    if name in ON_FIRST_USE:
        module = sys.modules[f"vijax.{name}"] = importlib.import_module(ON_FIRST_USE[name])
        return module
    import difflib

    matches = [] if name.startswith("_") else difflib.get_close_matches(name, __all__, n=1)
    guess = f". Did you mean {matches[0]!r}?" if matches else ""
    raise AttributeError(f"module 'vijax' has no attribute {name!r}{guess}")


def __dir__() -> list[str]:
    return sorted(
        name
        for name in __all__
        if name == "Family" or name == "Product" or not hasattr(families, name)
    )
