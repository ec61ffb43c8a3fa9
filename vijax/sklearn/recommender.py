"""Recommendations as an estimator: hierarchical Poisson factorisation of users by items."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Self

import numpy as np
import optax
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
from vijax.inference.learning import learn
from vijax.models.factors.hpf import hpf
from vijax.sklearn.parts.bags import (
    BagLoader,
    MinibatchTransformer,
    answer_type,
    to_least_precision,
    to_seed,
)
from vijax.sklearn.parts.base import estimator, to_key, working_precision
from vijax.sklearn.parts.inputs import check_numbers
from vijax.topics.decision import all_words

RATE = 0.05
"""Rate of Adam for the weights of covariates."""


@estimator
class PoissonFactorization(MinibatchTransformer):
    """Tastes of users and kinds of items, from who took what (Gopalan, Hofman and Blei 2015).

    Args:
      n_components: number of components.
      feedback: "implicit" (whether an item was taken) or "counts" (how often).
      user_shape, item_shape: shapes of the gammas of users' and of items' weights; small: few
          components each.
      max_iter: passes over the users.
      batch_size: users of a minibatch; None: all of them, by coordinate ascent.
      total_samples: for `partial_fit`, the number of users in all.
      learning_decay, learning_offset: kappa and tau of its step sizes (tau + t)^-kappa, t = 1, 2,
          ...
      random_state: an integer for results that can be repeated.

    `covariates`, further numbers of each user, of shape (users, D) and about 0, help with users who
    took little or nothing. An estimator that was fitted with them needs them in all its methods.

    Attributes:
      components_: expected weights of the items, (n_components, items).
      covariate_weights_: what the covariates change in the log of users' weights, (D,
          n_components); None without.
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

    def fit(self, X: Any, y: Any = None, covariates: Any = None) -> Self:
        """Finds the weights of items from X, (users, items), dense or sparse, none negative, and
        the weights of covariates; y is ignored.

        Raises:
          ValueError: an argument out of its range; numbers that are negative or missing; covariates
            of other users.
        """
        self._check_settings()
        X = self._counts(X, "fit", reset=True)
        require(X.sum() > 0, "X", "users that took something", "none")
        with working_precision(X):
            numbers = _check_covariates(covariates, X)
            learnt: Any = ()
            if numbers is not None:
                learnt = learn("user_weights", optimizer=optax.adam(RATE))
            model = self._model(X.shape[1], _width(numbers))
            seed = to_seed(self.random_state)
            loader = BagLoader.from_matrix(X, self.batch_size, seed, covariates=numbers)
            is_full = loader.steps_per_epoch == 1
            alg = cavi(model, learn=learnt)
            if not is_full:
                alg = all_words(svi(model, learn=learnt))
            num_steps = self.max_iter * loader.steps_per_epoch
            self.fit_ = fit(alg, loader, key=to_key(self.random_state), num_steps=num_steps)
            self._describe()
        self.n_iter_ = self.max_iter
        return self

    def _model(self, num_items: int, num_covariates: int = 0) -> Model:
        return hpf(
            self.n_components,
            num_items,
            self.user_shape,
            c=self.item_shape,
            feedback=self.feedback,
            num_covariates=num_covariates,
        )

    def _stochastic(self, num_columns: int) -> Algorithm:
        has_weights = getattr(self, "covariate_weights_", None) is not None
        expected = "an estimator fitted without covariates"
        remedy = "Fit all users again, with their covariates."
        require(not has_weights, "partial_fit", expected, "one with them", remedy)
        return all_words(svi(self._model(num_columns), step_size=self._steps()))

    def _describe(self) -> None:
        self.components_ = np.array(self.fit_.posterior["items"].mean()).T
        weights = self.fit_.state.hyper.get("user_weights")
        self.covariate_weights_ = None if weights is None else np.array(weights)

    def transform(self, X: Any, covariates: Any = None) -> Float[np.ndarray, "users K"]:
        """Expected weights of users, of `fit` or not, from the items that they took and their
        covariates.

        Raises:
          ValueError: covariates without any in `fit`, or with another number of columns.
        """
        check_is_fitted(self)
        matrix = self._check_matrix(X, "transform", reset=False)
        X = to_least_precision(matrix)
        with working_precision(X):
            numbers = _check_covariates(covariates, X)
            width = 0
            if self.covariate_weights_ is not None:
                width = len(self.covariate_weights_)
            expected = f"{width} numbers of each user, as in fit"
            require(width == _width(numbers), "covariates", expected, _width(numbers))
            weights = self._per_document(X, _read_weights, numbers)
        return weights.astype(answer_type(matrix))

    def recommend(self, X: Any, n: int = 10, covariates: Any = None) -> Int[np.ndarray, "users n"]:
        """The n items that each user would take next, best first, as columns of X, given the items
        that they took and their covariates; -1 if fewer remain.

        Raises:
          ValueError: n is below 1, or above the number of items; covariates as in `transform`.
        """
        return ranked(self.transform(X, covariates), self.components_.T, _sparse(X), n).items

    def score(self, X: Any, y: Any = None, *, hidden: Any = None, covariates: Any = None) -> float:
        """NDCG at 20 for `hidden`, the items that users took in addition to X, in the form of X.
        Without it a fifth of each user's items is hidden, always the same ones, and predicted from
        the others. y is ignored."""
        check_is_fitted(self)
        X = self._counts(X, "score", reset=False)
        visible = _sparse(X)
        if hidden is None:
            visible, hidden = hide(visible)
        else:
            hidden = _sparse(hidden)
        users = self.transform(scipy.sparse.csr_matrix(visible), covariates)
        return ranking(users, self.components_.T, visible, hidden).mean


def _check_covariates(covariates: Any, X: Any) -> Float[np.ndarray, "users D"] | None:
    """Covariates of the users of X, in its precision; None without any."""
    if covariates is None:
        return None
    numbers = check_numbers("covariates", covariates, X.dtype)
    expected = f"a row for each of the {X.shape[0]} users"
    require(len(numbers) == X.shape[0], "covariates", expected, numbers.shape)
    return numbers


def _width(covariates: np.ndarray | None) -> int:
    return 0 if covariates is None else covariates.shape[1]


def _sparse(X: Any) -> Any:
    return scipy.sparse.csr_array(X)


def _read_weights(model: Model, stats: Any, bound: LocalElbo, key: PRNGKeyArray) -> list[Array]:
    return [q["weights"].mean() for q in bound.local]
