"""The registry of estimators: a row here has its message compared with quadrature
(tests/inference/estimator/test_estimators.py), and is equal by value and pickles
(tests/inference/test_compatibility.py)."""

import vijax as vi

ESTIMATORS = {
    "mean_field": (vi.estimator.mean_field(), False),
    "ssvi_a": (vi.estimator.ssvi_a(), False),
    "ssvi": (vi.estimator.ssvi(damping=1.0), True),
    "ssvi_plain": (vi.estimator.ssvi(damping=1.0, control_variate=False), True),
    "ssvi_damped": (vi.estimator.ssvi(damping=0.5), False),
    "reparameterised": (vi.estimator.reparameterised(4), True),
    "sticking": (vi.estimator.reparameterised(4, sticking=True), True),
    "score_function": (vi.estimator.score_function(4), True),
    "weighted": (vi.estimator.weighted(4, vi.objective.renyi(1.0)), True),
}
"""A new estimator is one row: itself, and whether it is unbiased for bounds that are not linear."""
