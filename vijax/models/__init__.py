"""Ready models: each a function that returns a `vijax.Model`, or a `PredictorModel` for `vijax.pg_svi`."""

from vijax.models import emission
from vijax.models.ctm import ctm
from vijax.models.dp_mixture import dp_mixture
from vijax.models.factor_analysis import factor_analysis
from vijax.models.gaussian_process import gp
from vijax.models.hmm import hmm, pad
from vijax.models.lda import lda
from vijax.models.linear_models import glm, logistic_regression
from vijax.models.mixture import mixture
from vijax.models.predictors import PredictorModel
from vijax.models.regression import ard_regression

__all__ = [
    "PredictorModel",
    "ard_regression",
    "ctm",
    "dp_mixture",
    "emission",
    "factor_analysis",
    "glm",
    "gp",
    "hmm",
    "lda",
    "logistic_regression",
    "mixture",
    "pad",
]
