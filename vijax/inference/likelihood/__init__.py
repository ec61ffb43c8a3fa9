"""Likelihoods p(y | z) of one observation given a scalar predictor. Your own function log_lik(y, z)
is a likelihood too.

They are about one row. Expectations under q are in `expectation`; models of predictors in
`vijax.models.regressions`."""

from vijax.inference.likelihood.base import Likelihood as Likelihood
from vijax.inference.likelihood.base import LogLik as LogLik
from vijax.inference.likelihood.base import Moments as Moments
from vijax.inference.likelihood.base import UnknownNoise as UnknownNoise
from vijax.inference.likelihood.base import as_likelihood as as_likelihood
from vijax.inference.likelihood.labels import VectorLikelihood as VectorLikelihood
from vijax.inference.likelihood.labels import bernoulli_logit as bernoulli_logit
from vijax.inference.likelihood.labels import bernoulli_probit as bernoulli_probit
from vijax.inference.likelihood.labels import noisy_labels as noisy_labels
from vijax.inference.likelihood.labels import ordinal_logit as ordinal_logit
from vijax.inference.likelihood.labels import softmax as softmax
from vijax.inference.likelihood.labels import softmax_mixture as softmax_mixture
from vijax.inference.likelihood.numeric import gamma_log as gamma_log
from vijax.inference.likelihood.numeric import negative_binomial as negative_binomial
from vijax.inference.likelihood.numeric import poisson_log as poisson_log
from vijax.inference.likelihood.real import gaussian as gaussian
from vijax.inference.likelihood.real import student_t as student_t
