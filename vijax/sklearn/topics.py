"""Topic models as estimators: fits in passes, shares of documents, bounds and perplexity."""

from __future__ import annotations

import abc
import dataclasses
from typing import Annotated, Any, Literal, Self

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from vijax.algorithms import cavi, em, ssvi_a, svi
from vijax.arguments import EVEN, Positive, Positives, Size, integer
from vijax.checks import require
from vijax.inference import estep
from vijax.inference.compose import Algorithm
from vijax.inference.expectation import vector_monte_carlo
from vijax.inference.spec import Spec
from vijax.models.documents.ctm import ctm
from vijax.models.documents.lda import lda
from vijax.predict.averaged import average_shares
from vijax.predict.questions import read_bounds, read_shares
from vijax.sklearn.parts.bags import (
    BagLoader,
    MinibatchTransformer,
    answer_type,
    to_least_precision,
    to_seed,
)
from vijax.sklearn.parts.base import estimator, or_default, working_precision


@estimator
class TopicEstimator(MinibatchTransformer):
    """An abstract transformer of counts into topic shares."""

    _: dataclasses.KW_ONLY
    max_iter: Size = 10
    evaluate_every: int = -1
    perp_tol: float = 0.1
    random_state: Any = None

    @abc.abstractmethod
    def _plan(self, num_words: int) -> tuple[Algorithm, int | None]:
        """The algorithm, and the number of documents that it reads at a time (None: all)."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Finds the topics of documents X: counts, (documents, words), dense or sparse, whole
        numbers or weights, none negative. y is ignored.

        Raises:
          ValueError: an argument out of its range; counts that are negative or missing.
        """
        self._check_settings()
        X = self._counts(X, "fit", reset=True)
        require(X.sum() > 0, "X", "documents with words", "only empty documents")
        with working_precision(X):
            alg, size = self._plan(X.shape[1])
            loader = BagLoader.from_matrix(X, size, to_seed(self.random_state))
            self._run_passes(alg, X, loader)
            self._describe()
        self.bound_ = self._perplexity(X)
        return self

    def transform(self, X: Any, *, normalize: bool = True) -> Float[np.ndarray, "docs K"]:
        """Expected topic shares of documents X, as `fit` takes them; unless `normalize`, times the
        number of words of the document.

        Raises:
          NotFittedError: `fit` has not been called.
          ValueError: negative or missing numbers, or another number of words than in `fit`.
        """
        check_is_fitted(self)
        matrix = self._check_matrix(X, "transform", reset=False)
        X = to_least_precision(matrix)
        with working_precision(X):
            shares = self._shares(X).astype(answer_type(matrix))
        if normalize:
            return shares
        return shares * np.asarray(X.sum(axis=1)).reshape(-1, 1).astype(shares.dtype)

    def score(self, X: Any, y: Any = None) -> float:
        """The sum over documents of a lower bound on their log probability under the fitted topics.
        (It lacks the bound's term of the topics themselves, which does not depend on X.)"""
        check_is_fitted(self)
        X = self._counts(X, "score", reset=False)
        return self._bound(X)

    def perplexity(self, X: Any) -> float:
        """exp(-score per word): lower is better; a model that knows nothing has the size of the
        vocabulary."""
        check_is_fitted(self)
        X = self._counts(X, "perplexity", reset=False)
        return self._perplexity(X)

    def _perplexity(self, X: Any) -> float:
        words = float(X.sum())
        require(words > 0, "X", "documents with words", "only empty documents")
        return float(np.exp(-self._bound(X) / words))

    def _bound(self, X: Any) -> float:
        with working_precision(X):
            return float(self._bounds(X).sum(dtype=np.float64))

    def _shares(self, X: Any) -> Float[np.ndarray, "docs K"]:
        """The shares of topics of each document, averaged over all fits."""
        shares = [self._per_document(X, read_shares, member=member) for member in self.fit_.members]
        if len(shares) == 1:
            return shares[0]
        topics = [member.posterior["topics"].mean() for member in self.fit_.members]
        return average_shares(shares, topics)

    def _bounds(self, X: Any) -> Float[np.ndarray, " docs"]:
        """The bound of each document; of several fits, that of its mean probability."""
        bounds = [self._per_document(X, read_bounds, member=member) for member in self.fit_.members]
        return logsumexp(bounds, axis=0) - np.log(len(bounds))

    def _run_passes(self, alg: Algorithm, X: Any, loader: BagLoader) -> None:
        """Runs `max_iter` passes; stops early if the perplexity of the data, computed every
        `evaluate_every` passes, has converged."""
        state = None
        last = np.inf
        evaluates = self.evaluate_every > 0
        stops = [self.max_iter]
        if evaluates:
            stops = [*range(self.evaluate_every, self.max_iter, self.evaluate_every), *stops]
        for passes in stops:
            num_steps = passes * loader.steps_per_epoch
            self.fit_ = self._fit_steps(alg, loader, num_steps, state)
            self.n_iter_ = passes
            state = self._last_state()
            if evaluates:
                self.bound_ = self._perplexity(X)
                if abs(last - self.bound_) < self.perp_tol:
                    break
                last = self.bound_
        self.n_batch_iter_ = self.n_iter_ * loader.steps_per_epoch


@estimator
class LatentDirichletAllocation(TopicEstimator):
    """Topics of documents, with the arguments of scikit-learn's estimator of this name.

    Args:
      n_components: number of topics.
      doc_topic_prior: concentration of the documents' topic shares; None is 1 / n_components.
      topic_word_prior: concentration of the topics' word probabilities; None is 1 / n_components.
        An array (n_components, words), as from `vijax.topics.seeded`, gives topics seed words.
      learning_method: "batch" (coordinate ascent on all documents), "online" (stochastic steps on
        minibatches), or "structured", which scikit-learn does not have: SSVI-A with the CVB0
        E-step, on minibatches, whose topics predict held-out words better.
      learning_decay: kappa in the step size (learning_offset + t)^-kappa, t = 1, 2, ...
      learning_offset: tau, 0 or more: larger values damp the first steps.
      max_iter: passes over the data.
      batch_size: documents of a minibatch; None: all.
      evaluate_every: passes between evaluations of the training perplexity, which stop the fit
        once it has converged; 0 or less: never.
      total_samples: for `partial_fit`, the number of documents in all.
      perp_tol: with `evaluate_every`, the perplexity has converged when it changes by less than
          this.
      n_fits: fits from different starts; predictions (`transform`, `score`, `perplexity`) are
        averages over all, and `components_` are the topics of the best. Two predict held-out words
        better than one of twice the passes.
      mean_change_tol: a document's E-step ends when a round changes its topic counts by less, on
          average.
      max_doc_update_iter: most rounds of a document's E-step.
      n_jobs: ignored, as is `verbose`: XLA uses all cores.
      verbose: see `n_jobs`.
      random_state: an integer for results that can be repeated.

    Attributes:
      components_: concentrations of the topics' posterior Dirichlets, (n_components, words); each
        row divided by its sum is the topic's word probabilities.
      exp_dirichlet_component_: exp E[log probability].
      bound_: perplexity of the training data at the end.
      n_iter_, n_batch_iter_: passes and steps done.
      doc_topic_prior_, topic_word_prior_: the concentrations that were used.
      fit_: the `vijax.Fit`, with the posterior of the topics and the trace of the bound.

    >>> X = np.array([[3, 1, 0, 0], [2, 2, 0, 0], [0, 0, 2, 3], [0, 0, 4, 1]])
    >>> lda = LatentDirichletAllocation(n_components=2, random_state=0).fit(X)
    >>> shares = lda.transform(X).round(1)
    >>> bool(shares[0].argmax() == shares[1].argmax() != shares[2].argmax() == shares[3].argmax())
    True
    """

    n_components: Size = 10
    _: dataclasses.KW_ONLY
    doc_topic_prior: Positive | None = None
    topic_word_prior: Positives | None = None
    learning_method: Literal["batch", "online", "structured"] = "batch"
    n_fits: Size = 1
    mean_change_tol: Positive = 1e-3
    max_doc_update_iter: Size = 100
    n_jobs: int | None = None
    verbose: int = 0

    def _plan(self, num_words: int) -> tuple[Algorithm, int | None]:
        size = None if self.learning_method == "batch" else self.batch_size
        return self._algorithm(self.learning_method, num_words), size

    def _stochastic(self, num_columns: int) -> Algorithm:
        method = "online" if self.learning_method == "batch" else self.learning_method
        return self._algorithm(method, num_columns)

    def _algorithm(self, method: str, num_words: int) -> Algorithm:
        alpha = or_default(self.doc_topic_prior, 1 / self.n_components)
        eta = or_default(self.topic_word_prior, 1 / self.n_components)
        self.doc_topic_prior_ = alpha
        self.topic_word_prior_ = eta
        model = lda(self.n_components, num_words, alpha=alpha, eta=eta)
        mean_field = estep.mean_field(self.max_doc_update_iter, self.mean_change_tol)
        if method == "batch":
            return cavi(model, estep=mean_field)
        if method == "online":
            return svi(model, estep=mean_field, step_size=self._steps())
        cvb0 = estep.cvb0(self.max_doc_update_iter, self.mean_change_tol)
        return ssvi_a(model, estep=cvb0, step_size=self._steps())

    def _describe(self) -> None:
        topics = self.fit_.posterior["topics"]
        self.components_ = np.array(topics.concentration)
        self.exp_dirichlet_component_ = np.exp(np.asarray(topics.expected_stats().log))


SHARES_ESTEP = estep.proximal_gradient(
    vector_monte_carlo(64, antithetic=True, matched=True), refine=16
)
"""The E-step of `transform`: each document is answered alone, so that no average over documents
reduces the noise of its draws."""


@estimator
class CorrelatedTopicModel(TopicEstimator):
    """Topics whose shares are correlated over documents (Blei and Lafferty 2007), by EM on all
    documents, or by online EM on minibatches (`partial_fit`).

    Args:
      n_components: number of topics, 2 or more.
      topic_word_prior: concentration of the topics' word probabilities (EM reads it for words that
          were not seen).
      n_samples: draws of each document's shares that estimate its bound, an even number.
      max_iter, evaluate_every, perp_tol, random_state: as in `LatentDirichletAllocation`; and for
        `partial_fit` batch_size, total_samples, learning_decay, learning_offset.

    Attributes:
      components_: word probabilities of the topics, (n_components, words).
      topic_mean_, topic_covariance_: mean and covariance of the logits of documents' shares.
      topic_correlation_: the covariance as correlations.
      bound_: perplexity of the training data at the end.
      n_iter_: number of passes done.
      fit_: the `vijax.Fit`.

    Shares are found by draws that depend only on the words of a document. The shares of `transform`
    have a standard deviation of up to .01 from these draws, and are up to .02 from their exact
    means under the fitted topics (60 short documents, three topics).

    >>> X = np.array([[3, 1, 0, 0], [2, 2, 0, 0], [0, 0, 2, 3], [0, 0, 4, 1]])
    >>> CorrelatedTopicModel(n_components=2, random_state=0).fit(X).topic_correlation_.shape
    (2, 2)
    """

    n_components: Annotated[int, integer(2)] = 10
    _: dataclasses.KW_ONLY
    topic_word_prior: Positives = 0.01
    max_iter: Size = 12
    n_samples: Annotated[int, EVEN] = 16

    def _plan(self, num_words: int) -> tuple[Algorithm, None]:
        return self._algorithm(num_words), None

    def _stochastic(self, num_columns: int) -> Algorithm:
        return self._algorithm(num_columns, step_size=self._steps())

    def _algorithm(self, num_words: int, **options: Any) -> Algorithm:
        step = estep.proximal_gradient(
            vector_monte_carlo(8, antithetic=True, matched=True), max_iters=5
        )
        model = ctm(
            self.n_components, num_words, eta=self.topic_word_prior, num_samples=self.n_samples
        )
        return em(model, estep=step, **options)

    def _reading_spec(self, read: Any) -> Spec:
        spec = super()._reading_spec(read)
        return spec._replace(estep=SHARES_ESTEP) if read is read_shares else spec

    def _describe(self) -> None:
        estimates = self.fit_.estimates
        self.components_ = np.array(estimates["topics"].mean())
        logits = jax.tree.map(np.array, estimates["logits"].mean())
        self.topic_mean_ = logits.mean
        self.topic_covariance_ = np.linalg.inv(logits.precision)
        spread = np.sqrt(np.diag(self.topic_covariance_))
        self.topic_correlation_ = self.topic_covariance_ / np.outer(spread, spread)
