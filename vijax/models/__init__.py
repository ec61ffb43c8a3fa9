"""Ready models: each a function that returns a `vijax.Model`.

Each folder has related models. A model defines its prior, its bound and its queries; steps of
inference are in `vijax.inference`."""

from vijax.models import emission
from vijax.models.documents.ctm import ctm
from vijax.models.documents.dtm import Dtm, SliceWarning, dtm
from vijax.models.documents.hdp import hdp
from vijax.models.documents.lda import lda
from vijax.models.documents.plsa import plsa, plsa_entries
from vijax.models.documents.simple_mixture import simple_mixture
from vijax.models.documents.slices import Slices
from vijax.models.factors.factor_analysis import factor_analysis
from vijax.models.factors.gap_nmf import gap_nmf
from vijax.models.factors.hpf import hpf, new_items, recommend, with_covariates
from vijax.models.factors.stochastic_block_model import rates_matrix, stochastic_block_model
from vijax.models.formulas.glmm_model import Glmm
from vijax.models.mixtures.mixture import dp_mixture, mixture
from vijax.models.networks import observed
from vijax.models.networks.autoencoder import vae
from vijax.models.networks.dynamic_autoencoder import dynamic_svae
from vijax.models.networks.structured_autoencoder import svae
from vijax.models.networks.structured_parts import as_potentials
from vijax.models.regressions.gaussian_process import gp
from vijax.models.regressions.group_labels import group_names
from vijax.models.regressions.groups import group_rows, population
from vijax.models.regressions.hierarchical import (
    hierarchical_linear_regression,
    hierarchical_probit_regression,
    multilevel_logistic_regression,
)
from vijax.models.regressions.linear_models import glm, logistic_regression
from vijax.models.regressions.predictor_draws import response
from vijax.models.regressions.predictors import Predictors
from vijax.models.regressions.regression import ard_regression
from vijax.models.series.arhmm import arhmm
from vijax.models.series.factorial_hmm import factorial_hmm
from vijax.models.series.hdp_hmm import hdp_hmm
from vijax.models.series.hmm import hmm
from vijax.models.series.recurrent_slds import recurrent_slds
from vijax.models.series.recurrent_start import after_slds
from vijax.models.series.sequences import pad
from vijax.models.series.slds import slds
from vijax.models.series.state_space import linear_gaussian_state_space
from vijax.models.structural.stm import Stm

__all__ = [
    "Dtm",
    "Glmm",
    "Predictors",
    "SliceWarning",
    "Slices",
    "Stm",
    "after_slds",
    "ard_regression",
    "arhmm",
    "as_potentials",
    "ctm",
    "dp_mixture",
    "dtm",
    "dynamic_svae",
    "emission",
    "factor_analysis",
    "factorial_hmm",
    "gap_nmf",
    "glm",
    "gp",
    "group_names",
    "group_rows",
    "hdp",
    "hdp_hmm",
    "hierarchical_linear_regression",
    "hierarchical_probit_regression",
    "hmm",
    "hpf",
    "lda",
    "linear_gaussian_state_space",
    "logistic_regression",
    "mixture",
    "multilevel_logistic_regression",
    "new_items",
    "observed",
    "pad",
    "plsa",
    "plsa_entries",
    "population",
    "rates_matrix",
    "recommend",
    "recurrent_slds",
    "response",
    "simple_mixture",
    "slds",
    "stochastic_block_model",
    "svae",
    "vae",
    "with_covariates",
]
