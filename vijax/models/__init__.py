"""Ready models: each a function that returns a `vijax.Model`."""

from vijax.models import emission, observed
from vijax.models.autoencoder import vae
from vijax.models.ctm import ctm
from vijax.models.dp_mixture import dp_mixture
from vijax.models.factor_analysis import factor_analysis
from vijax.models.factorial_hmm import factorial_hmm
from vijax.models.gap_nmf import gap_nmf
from vijax.models.gaussian_process import gp
from vijax.models.grouped import group_rows
from vijax.models.hierarchical import (
    hierarchical_linear_regression,
    hierarchical_probit_regression,
    multilevel_logistic_regression,
)
from vijax.models.hmm import hmm
from vijax.models.lda import lda
from vijax.models.linear_models import glm, logistic_regression
from vijax.models.mixture import mixture
from vijax.models.plsa import plsa, plsa_entries
from vijax.models.population import population
from vijax.models.predictors import Predictors
from vijax.models.regression import ard_regression
from vijax.models.response import response
from vijax.models.sequences import pad
from vijax.models.simple_mixture import simple_mixture
from vijax.models.state_space import linear_gaussian_state_space
from vijax.models.stochastic_block_model import rates_matrix, stochastic_block_model
from vijax.models.structured_autoencoder import svae
from vijax.models.structured_parts import as_potentials

__all__ = [
    "Predictors",
    "ard_regression",
    "as_potentials",
    "ctm",
    "dp_mixture",
    "emission",
    "factor_analysis",
    "factorial_hmm",
    "gap_nmf",
    "glm",
    "gp",
    "group_rows",
    "hierarchical_linear_regression",
    "hierarchical_probit_regression",
    "hmm",
    "lda",
    "linear_gaussian_state_space",
    "logistic_regression",
    "mixture",
    "multilevel_logistic_regression",
    "observed",
    "pad",
    "plsa",
    "plsa_entries",
    "population",
    "rates_matrix",
    "response",
    "simple_mixture",
    "stochastic_block_model",
    "svae",
    "vae",
]
