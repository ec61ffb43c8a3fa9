"""Ready models: each a function that returns a `vijax.Model`."""

from vijax.models.factor_analysis import factor_analysis
from vijax.models.lda import lda

__all__ = ["factor_analysis", "lda"]
