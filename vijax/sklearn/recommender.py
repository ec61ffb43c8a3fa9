"""Recommendations as an estimator: hierarchical Poisson factorisation of users by items."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse
from jaxtyping import Array, Float, Int, PRNGKeyArray
from sklearn.utils.validation import check_is_fitted

from vijax.algorithms import cavi, svi
from vijax.arguments import Positive, Size
from vijax.checks import require
from vijax.contract.model import LocalElbo, Model
from vijax.evaluate.ranking import hide, ranked, ranking
from vijax.fitting.fit import fit
from vijax.inference.compose import Algorithm
from vijax.models.factors.hpf import hpf
from vijax.sklearn.parts.bags import BagLoader, InBatches, seed_of
from vijax.sklearn.parts.base import estimator, key_of, precision_of


@estimator
class PoissonFactorization(InBatches):
    """Tastes of users and kinds of items, from who took what (Gopalan, Hofman and Blei 2015).

    Args:
      n_components: number of components.
      feedback: "implicit" (whether an item was taken) or "counts" (how often).
      user_shape, item_shape: shapes of the gammas of users' and of items' weights; small: few components each.
      max_iter: passes over the users.
      batch_size: users of a minibatch; None: all of them, by coordinate ascent.
      total_samples: for `partial_fit`, the number of users in all.
      learning_decay, learning_offset: kappa and tau of its step sizes (tau + t)^-kappa, t = 1, 2, ...
      random_state: an integer for results that can be repeated.

    Attributes:
      components_: expected weights of the items, (n_components, items).
      n_iter_: passes done.
      fit_: the `vijax.Fit`.

    >>> X = np.kron(np.eye(2, dtype=int), np.ones((5, 4), int))
    >>> X[0, 3] = 0
    >>> PoissonFactorization(2, random_state=0).fit(X).recommend(X[:1], 1)
    array([[3]])
    """

    n_components: Size = 20
    _: dataclasses.KW_ONLY
    feedback: Literal["implicit", "counts"] = "implicit"
    user_shape: Positive = 0.3
    item_shape: Positive = 0.3
    max_iter: Size = 50
    batch_size: Size | None = None
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Finds the weights of items from X, (users, items), dense or sparse, none negative; y is ignored. Raises
        ValueError: an argument out of its range; numbers that are negative or missing."""
        self._check_settings()
        X = self._counts(X, "fit", reset=True)
        require(X.sum() > 0, "X", "users that took something", "none")
        with precision_of(X):
            model, key = self._model(X.shape[1]), key_of(self.random_state)
            loader = BagLoader.of(X, self.batch_size, seed_of(self.random_state))
            alg = cavi(model) if loader.steps_per_epoch == 1 else svi(model, lazy=False)
            self.fit_ = fit(alg, loader, key=key, num_steps=self.max_iter * loader.steps_per_epoch)
            self._describe()
        self.n_iter_ = self.max_iter
        return self

    def _model(self, num_items: int) -> Model:
        return hpf(self.n_components, num_items, self.user_shape, c=self.item_shape, feedback=self.feedback)

    def _stochastic(self, num_columns: int) -> Algorithm:
        return svi(self._model(num_columns), lazy=False, step_size=self._steps())

    def _describe(self) -> None:
        self.components_ = np.array(self.fit_.posterior["items"].mean()).T

    def transform(self, X: Any) -> Float[np.ndarray, "users K"]:
        """Expected weights of users, from what they took; they need not be those of `fit`."""
        check_is_fitted(self)
        X = self._counts(X, "transform", reset=False)
        with precision_of(X):
            return self._per_document(X, _weights_of)

    def recommend(self, X: Any, n: int = 10) -> Int[np.ndarray, "users n"]:
        """The n items that each user would take next, best first, by what they took: columns of X. -1 where fewer are
        left.

        Raises:
          ValueError: n is below 1, or above the number of items.
        """
        return ranked(self.transform(X), self.components_.T, _sparse(X), n).items

    def score(self, X: Any, y: Any = None, *, hidden: Any = None) -> float:
        """NDCG at 20 of `hidden`, the items that users took beside those in X, in the form of X. Without it a fifth of
        each user's items is hidden, always the same, and found from the others. y is ignored."""
        check_is_fitted(self)
        X = self._counts(X, "score", reset=False)
        known, hidden = hide(_sparse(X)) if hidden is None else (_sparse(X), _sparse(hidden))
        return ranking(self.transform(scipy.sparse.csr_matrix(known)), self.components_.T, known, hidden).mean


def _sparse(X: Any) -> Any:
    return scipy.sparse.csr_array(X)


def _weights_of(model: Model, stats: Any, said: LocalElbo, key: PRNGKeyArray) -> list[Array]:
    return [q["weights"].mean() for q in said.local]
