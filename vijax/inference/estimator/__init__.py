"""Estimators of the message grad_mu E_q[l] of a global, one class each."""

from vijax.inference.estimator.base import Estimator, Reads
from vijax.inference.estimator.batch_and_match import batch_and_match
from vijax.inference.estimator.least_squares import least_squares
from vijax.inference.estimator.mean_field import at_point, mean_field
from vijax.inference.estimator.monte_carlo import reparameterised, score_function
from vijax.inference.estimator.structured import ssvi, ssvi_a
from vijax.inference.estimator.weighted import weighted

__all__ = [
    "Estimator",
    "Reads",
    "at_point",
    "batch_and_match",
    "least_squares",
    "mean_field",
    "reparameterised",
    "score_function",
    "ssvi",
    "ssvi_a",
    "weighted",
]
