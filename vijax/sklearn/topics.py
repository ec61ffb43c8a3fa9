"""Topic models as estimators: fitting in passes, documents' shares, bounds and perplexity."""

from __future__ import annotations

import abc
from typing import Any, Self

import jax
import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from vijax.checks import require
from vijax.data.minibatch import in_order
from vijax.fitting.fit import fit
from vijax.inference.compose import Algorithm
from vijax.predict.questions import bounds_of, inferred, shares_of
from vijax.sklearn.parts.bags import BagLoader
from vijax.sklearn.parts.base import Transformer, cast, key_of, precision_of
from vijax.xla import keys

AT_A_TIME = 1024
"""Documents whose shares are inferred at once."""


class TopicEstimator(Transformer, abc.ABC):
    """An abstract transformer of counts into topic shares."""

    max_iter: int
    evaluate_every: int
    perp_tol: float
    random_state: Any
    fit_: Any

    @abc.abstractmethod
    def _plan(self, num_words: int) -> tuple[Algorithm, int | None]:
        """The algorithm, and how many documents it reads at a time (None: all)."""

    @abc.abstractmethod
    def _describe(self) -> None:
        """Says what was found."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Finds the topics of documents.

        Args:
          X: counts, (documents, words), dense or sparse; whole numbers or weights, none negative.
          y: ignored.

        Raises:
          ValueError: an argument out of its range; counts that are negative or missing.
        """
        del y
        self._check_settings()
        X = self._checked(X, "fit", reset=True)
        require(X.sum() > 0, "X", "documents with words", "only empty documents")
        with precision_of(X):
            alg, size = self._plan(X.shape[1])
            self._in_passes(alg, X, BagLoader.of(X, size, seed_of(self.random_state)))
            self._describe()
        self.bound_ = self._perplexity(X)
        return self

    def transform(self, X: Any, *, normalize: bool = True) -> Float[np.ndarray, "docs K"]:
        """Expected topic shares of documents.

        Args:
          X: counts, (documents, words), dense or sparse.
          normalize: shares that sum to one; False gives them times the number of words of the document.

        Raises:
          NotFittedError: `fit` has not been called.
          ValueError: negative or missing numbers, or another number of words than in `fit`.
        """
        check_is_fitted(self)
        X = self._checked(X, "transform", reset=False)
        with precision_of(X):
            shares = self._per_document(X, shares_of)
        return shares if normalize else shares * np.asarray(X.sum(axis=1)).reshape(-1, 1).astype(shares.dtype)

    def score(self, X: Any, y: Any = None) -> float:
        """The sum over documents of a lower bound on their log probability under the fitted topics. (It lacks the
        bound's term of the topics themselves, which does not depend on X.)"""
        del y
        check_is_fitted(self)
        X = self._checked(X, "score", reset=False)
        return self._bound(X)

    def perplexity(self, X: Any) -> float:
        """exp(-score per word): lower is better; a model that knows nothing has the size of the vocabulary."""
        check_is_fitted(self)
        X = self._checked(X, "perplexity", reset=False)
        return self._perplexity(X)

    def _perplexity(self, X: Any) -> float:
        words = float(X.sum())
        require(words > 0, "X", "documents with words", "only empty documents")
        return float(np.exp(-self._bound(X) / words))

    def _bound(self, X: Any) -> float:
        with precision_of(X):
            return float(self._per_document(X, bounds_of).sum(dtype=np.float64))

    def _per_document(self, X: Any, read: Any) -> np.ndarray:
        """The results of `read` for each document, in their order."""
        spec, state = self.fit_.alg.spec, cast(self.fit_.state, X)
        posterior = self.fit_.posterior.with_naturals(cast(self.fit_.posterior, X))
        size = -(-X.shape[0] // AT_A_TIME)
        results, rows = [], []
        for batch, order in BagLoader.of(X, -(-X.shape[0] // size)).in_turn():
            found = inferred(read, spec, state.hyper, posterior, batch, jax.random.key(0))
            results.append(np.concatenate([np.asarray(x) for x in found]))
            rows.append(order)
        return in_order(np.concatenate(results), np.concatenate(rows))

    def _in_passes(self, alg: Algorithm, X: Any, loader: BagLoader) -> None:
        """Runs `max_iter` passes, and looks at the perplexity of the data at regular intervals."""
        key, state, before = key_of(self.random_state), None, np.inf
        max_iter, evaluate_every = self.max_iter, self.evaluate_every
        stops = [*range(evaluate_every, max_iter, evaluate_every), max_iter] if evaluate_every > 0 else [max_iter]
        for passes in stops:
            self.fit_ = fit(alg, loader, key=key, num_steps=passes * loader.steps_per_epoch, state=state)
            self.n_iter_, state = passes, self.fit_.state
            if evaluate_every > 0:
                self.bound_ = self._perplexity(X)
                if abs(before - self.bound_) < self.perp_tol:
                    break
                before = self.bound_
        self.n_batch_iter_ = self.n_iter_ * loader.steps_per_epoch

    def _checked(self, X: Any, whom: str, reset: bool) -> Any:
        X = validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=reset)
        check_non_negative(X, f"{type(self).__name__}.{whom}")
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float32)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def seed_of(random_state: Any) -> int:
    """Seed of the order in which documents are dealt."""
    return keys.seed(key_of(random_state))
