"""Latent Dirichlet allocation as an estimator."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, Self

import numpy as np

from vijax.algorithms import cavi, ssvi_a, svi
from vijax.arguments import NotNegative, Positive, Size, inside
from vijax.fitting.fit import fit
from vijax.inference import estep
from vijax.inference.compose import Algorithm
from vijax.inference.step_size import robbins_monro
from vijax.models.documents.lda import lda
from vijax.sklearn.parts.bags import BagLoader
from vijax.sklearn.parts.base import estimator, key_of, precision_of
from vijax.sklearn.topics import TopicEstimator, seed_of


@estimator
class LatentDirichletAllocation(TopicEstimator):
    """Topics of documents, with the arguments of scikit-learn's estimator of this name.

    Args:
      n_components: number of topics.
      doc_topic_prior: concentration of the documents' topic shares; None is 1 / n_components.
      topic_word_prior: concentration of the topics' word probabilities; None is 1 / n_components.
      learning_method: "batch" (coordinate ascent on all documents), "online" (stochastic steps on minibatches), or
        "structured", which scikit-learn does not have: SSVI-A with the CVB0 E-step, on minibatches, whose topics
        predict held-out words better.
      learning_decay: kappa in the step size (learning_offset + t)^-kappa, t = 1, 2, ...
      learning_offset: tau, 0 or more: larger values damp the first steps.
      max_iter: passes over the data.
      batch_size: documents of a minibatch.
      evaluate_every: passes between looks at the training perplexity, which stop the fit where it has converged; 0 or
        less: never.
      total_samples: for `partial_fit`, the number of documents in all.
      perp_tol: with `evaluate_every`, the perplexity has converged when it changes by less than this.
      mean_change_tol: a document's E-step ends where a round changes its topic counts by less, on average.
      max_doc_update_iter: most rounds of a document's E-step.
      n_jobs: ignored, as is `verbose`: XLA uses the cores there are.
      verbose: see `n_jobs`.
      random_state: an integer for results that can be repeated.

    Attributes:
      components_: concentrations of the topics' posterior Dirichlets, (n_components, words); each row divided by its
        sum is the topic's word probabilities.
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
    topic_word_prior: Positive | None = None
    learning_method: Literal["batch", "online", "structured"] = "batch"
    learning_decay: Annotated[float, inside("[0, 1]")] = 0.7
    learning_offset: NotNegative = 10.0
    max_iter: Size = 10
    batch_size: Size = 128
    evaluate_every: int = -1
    total_samples: Positive = 1e6
    perp_tol: float = 0.1
    mean_change_tol: Positive = 1e-3
    max_doc_update_iter: Size = 100
    n_jobs: int | None = None
    verbose: int = 0
    random_state: Any = None

    def _plan(self, num_words: int) -> tuple[Algorithm, int | None]:
        size = None if self.learning_method == "batch" else self.batch_size
        return self._algorithm(self.learning_method, num_words), size

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Goes on with a minibatch of `total_samples` documents, in parts of `batch_size`; the first call begins."""
        del y
        self._check_settings()
        first = not hasattr(self, "components_")
        X = self._checked(X, "partial_fit", reset=first)
        method = "online" if self.learning_method == "batch" else self.learning_method
        with precision_of(X):
            alg = self._algorithm(method, X.shape[1])
            seed, total = seed_of(self.random_state), int(self.total_samples)
            loader = BagLoader.of(X, self.batch_size, seed, max(total, X.shape[0]), reshuffled=False)
            state = None if first else self.fit_.state
            done = 0 if state is None else int(state.step)
            key, steps = key_of(self.random_state), done + loader.steps_per_epoch
            self.fit_ = fit(alg, loader, key=key, num_steps=steps, state=state)
            self._describe()
        self.n_batch_iter_, self.n_iter_ = steps, getattr(self, "n_iter_", 0)
        return self

    def _algorithm(self, method: str, num_words: int) -> Algorithm:
        alpha = 1 / self.n_components if self.doc_topic_prior is None else self.doc_topic_prior
        eta = 1 / self.n_components if self.topic_word_prior is None else self.topic_word_prior
        self.doc_topic_prior_, self.topic_word_prior_ = alpha, eta
        model = lda(self.n_components, num_words, alpha=alpha, eta=eta)
        mean_field = estep.mean_field(self.max_doc_update_iter, self.mean_change_tol)
        if method == "batch":
            return cavi(model, estep=mean_field)
        schedule = robbins_monro(offset=self.learning_offset + 1.0, kappa=self.learning_decay)
        if method == "online":
            return svi(model, estep=mean_field, step_size=schedule)
        cvb0 = estep.cvb0(self.max_doc_update_iter, self.mean_change_tol)
        return ssvi_a(model, estep=cvb0, step_size=schedule)

    def _describe(self) -> None:
        topics = self.fit_.posterior["topics"]
        self.components_ = np.array(topics.concentration)
        self.exp_dirichlet_component_ = np.exp(np.asarray(topics.expected_stats().log))
