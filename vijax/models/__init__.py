"""Ready models: each a function that returns a `vijax.Model`."""

from vijax.models.lda import lda

__all__ = ["lda"]
