"""The correlated topic model as an estimator."""

from __future__ import annotations

from typing import Any, Self

import jax
import numpy as np

from vijax.algorithms import em
from vijax.checks import require, require_integers, require_positive
from vijax.inference import estep
from vijax.inference.compose import Algorithm
from vijax.inference.expectation import vector_monte_carlo
from vijax.models.documents.ctm import ctm
from vijax.sklearn.parts.bags import BagLoader
from vijax.sklearn.parts.base import precision_of
from vijax.sklearn.topics import TopicEstimator, check_passes, seed_of


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

    def __init__(
        self,
        n_components: int = 10,
        *,
        topic_word_prior: float = 0.01,
        max_iter: int = 12,
        n_samples: int = 16,
        evaluate_every: int = -1,
        perp_tol: float = 0.1,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.topic_word_prior = topic_word_prior
        self.max_iter = max_iter
        self.n_samples = n_samples
        self.evaluate_every = evaluate_every
        self.perp_tol = perp_tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Finds the topics of documents, and the correlations of their shares.

        Args:
          X: counts, (documents, words), dense or sparse.
          y: ignored.

        Raises:
          ValueError: an argument out of its range; counts that are negative or missing.
        """
        del y
        self._check()
        X = self._checked(X, "fit", reset=True)
        require(X.sum() > 0, "X", "documents with words", "only empty documents")
        with precision_of(X):
            loader = BagLoader.of(X, None, seed_of(self.random_state))
            given = (self.max_iter, self.evaluate_every, self.perp_tol)
            self._in_passes(self._algorithm(X.shape[1]), X, loader, *given)
            self._describe()
        self.bound_ = self._perplexity(X)
        return self

    def _algorithm(self, num_words: int) -> Algorithm:
        step = estep.proximal_gradient(vector_monte_carlo(8, antithetic=True, matched=True), max_iters=5)
        return em(ctm(self.n_components, num_words, eta=self.topic_word_prior, num_samples=self.n_samples), estep=step)

    def _describe(self) -> None:
        found = self.fit_.estimates
        self.components_ = np.array(found["topics"].mean())
        logits = jax.tree.map(np.array, found["logits"].mean())
        self.topic_mean_, self.topic_covariance_ = logits.mean, np.linalg.inv(logits.precision)
        spread = np.sqrt(np.diag(self.topic_covariance_))
        self.topic_correlation_ = self.topic_covariance_ / np.outer(spread, spread)

    def _check(self) -> None:
        check_passes(self.max_iter, self.n_components, 1)
        require_integers(2, n_components=self.n_components, n_samples=self.n_samples)
        require(self.n_samples % 2 == 0, "n_samples", "an even number", self.n_samples)
        require_positive(topic_word_prior=self.topic_word_prior)
