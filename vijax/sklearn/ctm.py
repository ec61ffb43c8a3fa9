"""The correlated topic model as an estimator."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import jax
import numpy as np

from vijax.algorithms import em
from vijax.arguments import EVEN, Positive, Size, whole
from vijax.inference import estep
from vijax.inference.compose import Algorithm
from vijax.inference.expectation import vector_monte_carlo
from vijax.models.documents.ctm import ctm
from vijax.sklearn.parts.base import estimator
from vijax.sklearn.topics import TopicEstimator


@estimator
class CorrelatedTopicModel(TopicEstimator):
    """Topics whose shares are correlated over documents (Blei and Lafferty 2007), by EM on all documents.

    Args:
      n_components: number of topics, 2 or more.
      topic_word_prior: concentration of the topics' word probabilities (EM reads it where a word was not seen).
      max_iter: passes over the data.
      n_samples: draws of each document's shares by which its bound is estimated, an even number.
      evaluate_every: passes between looks at the training perplexity, which stop the fit where it has converged; 0 or
        less: never.
      perp_tol: the perplexity has converged when it changes by less than this.
      random_state: an integer for results that can be repeated.

    Attributes:
      components_: word probabilities of the topics, (n_components, words).
      topic_mean_, topic_covariance_: mean and covariance of the logits of documents' shares.
      topic_correlation_: the covariance as correlations.
      bound_: perplexity of the training data at the end.
      n_iter_: number of passes done.
      fit_: the `vijax.Fit`.

    >>> X = np.array([[3, 1, 0, 0], [2, 2, 0, 0], [0, 0, 2, 3], [0, 0, 4, 1]])
    >>> CorrelatedTopicModel(n_components=2, random_state=0).fit(X).topic_correlation_.shape
    (2, 2)
    """

    n_components: Annotated[int, whole(2)] = 10
    _: dataclasses.KW_ONLY
    topic_word_prior: Positive = 0.01
    max_iter: Size = 12
    n_samples: Annotated[int, EVEN] = 16
    evaluate_every: int = -1
    perp_tol: float = 0.1
    random_state: Any = None

    def _plan(self, num_words: int) -> tuple[Algorithm, None]:
        step = estep.proximal_gradient(vector_monte_carlo(8, antithetic=True, matched=True), max_iters=5)
        model = ctm(self.n_components, num_words, eta=self.topic_word_prior, num_samples=self.n_samples)
        return em(model, estep=step), None

    def _describe(self) -> None:
        found = self.fit_.estimates
        self.components_ = np.array(found["topics"].mean())
        logits = jax.tree.map(np.array, found["logits"].mean())
        self.topic_mean_, self.topic_covariance_ = logits.mean, np.linalg.inv(logits.precision)
        spread = np.sqrt(np.diag(self.topic_covariance_))
        self.topic_correlation_ = self.topic_covariance_ / np.outer(spread, spread)
