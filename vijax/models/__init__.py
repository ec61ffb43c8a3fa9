"""Ready models: each a function that returns a `vijax.Model`."""

from vijax.models import emission
from vijax.models.dp_mixture import dp_mixture
from vijax.models.factor_analysis import factor_analysis
from vijax.models.hmm import hmm, pad
from vijax.models.lda import lda
from vijax.models.mixture import mixture
from vijax.models.regression import ard_regression

__all__ = ["ard_regression", "dp_mixture", "emission", "factor_analysis", "hmm", "lda", "mixture", "pad"]
