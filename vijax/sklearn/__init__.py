"""Estimators for scikit-learn: the same models and algorithms behind `fit`, `predict`, `transform` and `score`."""

from vijax.extras import require_extra

require_extra("sklearn", "sklearn")

from vijax.sklearn.lda import LatentDirichletAllocation  # noqa: E402

__all__ = ["LatentDirichletAllocation"]
