"""Estimators for scikit-learn: the same models and algorithms behind `fit`, `predict`, `transform`
and `score`.

An estimator translates arguments and data. The meaning of settings and all computations are in the
other rooms."""

from vijax.extras import require_extra

require_extra("sklearn", "sklearn")

from vijax.sklearn.factors import FactorAnalysis, GammaPoissonNMF  # noqa: E402
from vijax.sklearn.gaussian_mixture import BayesianGaussianMixture, GaussianMixture  # noqa: E402
from vijax.sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor  # noqa: E402
from vijax.sklearn.growing import GrowingGaussianMixture  # noqa: E402
from vijax.sklearn.hidden_markov import HiddenMarkovModel  # noqa: E402
from vijax.sklearn.linear import BayesianGLM, BayesianLogisticRegression  # noqa: E402
from vijax.sklearn.mixed import MixedModelClassifier, MixedModelRegressor  # noqa: E402
from vijax.sklearn.mixtures import PoissonMixture  # noqa: E402
from vijax.sklearn.recommender import PoissonFactorization  # noqa: E402
from vijax.sklearn.topics import CorrelatedTopicModel, LatentDirichletAllocation  # noqa: E402

__all__ = [
    "BayesianGLM",
    "BayesianGaussianMixture",
    "BayesianLogisticRegression",
    "CorrelatedTopicModel",
    "FactorAnalysis",
    "GammaPoissonNMF",
    "GaussianMixture",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "GrowingGaussianMixture",
    "HiddenMarkovModel",
    "LatentDirichletAllocation",
    "MixedModelClassifier",
    "MixedModelRegressor",
    "PoissonFactorization",
    "PoissonMixture",
]
