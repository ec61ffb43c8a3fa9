"""Ready models: each a function that returns a `vijax.Model`, or a `PredictorModel` for `vijax.pg_svi`."""

from vijax.models.gaussian_process import gp
from vijax.models.lda import lda
from vijax.models.linear_models import glm, logistic_regression
from vijax.models.predictors import PredictorModel

__all__ = ["PredictorModel", "glm", "gp", "lda", "logistic_regression"]
