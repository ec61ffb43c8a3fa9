"""Estimators of the message grad_mu E_q[l] of a global: one class each.

An estimator chooses the statistics at which the bound is evaluated, and makes the message from its
gradient there. The use of the message is in `update`."""

from vijax.inference.estimator.base import Estimator as Estimator
from vijax.inference.estimator.base import Reads as Reads
from vijax.inference.estimator.gradients import at_point as at_point
from vijax.inference.estimator.gradients import mean_field as mean_field
from vijax.inference.estimator.gradients import reparameterised as reparameterised
from vijax.inference.estimator.gradients import score_function as score_function
from vijax.inference.estimator.gradients import ssvi as ssvi
from vijax.inference.estimator.gradients import ssvi_a as ssvi_a
from vijax.inference.estimator.gradients import weighted as weighted
from vijax.inference.estimator.langevin import langevin as langevin
from vijax.inference.estimator.scores import batch_and_match as batch_and_match
from vijax.inference.estimator.scores import least_squares as least_squares
