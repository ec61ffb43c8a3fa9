"""Likelihoods p(y | z) of one observation given a scalar predictor; a function log_lik(y, z) of your own is one too."""

from vijax.inference.likelihood.base import Likelihood, LogLik, Moments, as_likelihood
from vijax.inference.likelihood.binary import bernoulli_logit, bernoulli_probit, noisy_labels
from vijax.inference.likelihood.categorical import VectorLikelihood, softmax, softmax_mixture
from vijax.inference.likelihood.counts import negative_binomial, poisson_log
from vijax.inference.likelihood.ordinal import ordinal_logit
from vijax.inference.likelihood.real import gamma_log, gaussian, student_t

__all__ = [
    "Likelihood",
    "LogLik",
    "Moments",
    "VectorLikelihood",
    "as_likelihood",
    "bernoulli_logit",
    "bernoulli_probit",
    "gamma_log",
    "gaussian",
    "negative_binomial",
    "noisy_labels",
    "ordinal_logit",
    "poisson_log",
    "softmax",
    "softmax_mixture",
    "student_t",
]
