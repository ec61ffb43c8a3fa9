"""The registry: one row for each estimator of `vijax.sklearn`, with as few steps as its checks
need."""

from typing import Any

import vijax.sklearn as vs

ONE_TOPIC = dict.fromkeys(
    (
        "check_dont_overwrite_parameters",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_fit2d_1sample",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
    ),
    "the check asks for one topic, and correlations are of two or more",
)

SPARSE = dict.fromkeys(
    ("check_estimator_sparse_array", "check_estimator_sparse_matrix"),
    "the check reads classes of whatever has predict_proba, as a mixture does, which has none",
)

EXACT = dict.fromkeys(
    (
        "check_sample_weights_shape",
        "check_sample_weights_not_overwritten",
        "check_regressors_no_decision_function",
    ),
    "the response of the check is one of its columns, and sigma has no posterior",
)

ROUNDED = {
    "check_sample_weight_equivalence_on_dense_data": "the densities are equal but for rounding, "
    "which a search "
    "for a mode of 62 unknowns of 15 rows makes larger than the seven digits that the check asks "
    "for",
}

ESTIMATORS: list[tuple[Any, dict[str, str]]] = [
    (vs.LatentDirichletAllocation(n_components=2, max_iter=2), {}),
    (vs.CorrelatedTopicModel(n_components=2, max_iter=2), ONE_TOPIC),
    (vs.GaussianMixture(max_iter=5), {}),
    (vs.BayesianGaussianMixture(n_components=2, max_iter=5), {}),
    (vs.GrowingGaussianMixture(4, patience=1), {}),
    (vs.PoissonMixture(max_iter=5), SPARSE),
    (vs.HiddenMarkovModel(max_iter=5), {}),
    (vs.GammaPoissonNMF(n_components=3, max_iter=5), {}),
    (vs.PoissonFactorization(3, max_iter=5), {}),
    (vs.FactorAnalysis(max_iter=5), {}),
    (vs.GaussianProcessRegressor(max_iter=30), {}),
    (vs.GaussianProcessClassifier(max_iter=30), {}),
    (vs.BayesianGLM(max_iter=30), {}),
    (vs.BayesianLogisticRegression(max_iter=30), {}),
    (vs.MixedModelRegressor(max_gradients=300, num_draws=100), EXACT),
    (vs.MixedModelClassifier(max_gradients=300, num_draws=100), ROUNDED),
]
"""Each with the checks that it cannot pass, and why."""


def expected_failures(estimator: Any) -> dict[str, str]:
    """Of an estimator of the registry, or one like it."""
    return next(failures for row, failures in ESTIMATORS if type(row) is type(estimator))
