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

    Numbers that are known of each user beside what they took, `covariates` of shape (users, D),
    about 0, serve those who took little or nothing. An estimator that was fitted with them is given
    them in all that it is asked.

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
        those of covariates; y is ignored. Raises ValueError: an argument out of its range; numbers
        that are negative or missing; covariates of other users."""
        self._check_settings()
        X = self._counts(X, "fit", reset=True)
        require(X.sum() > 0, "X", "users that took something", "none")
        with working_precision(X):
            known = None if covariates is None else _check_covariates(covariates, X)
            model = self._model(X.shape[1], 0 if known is None else known.shape[1])
            loader = BagLoader.from_matrix(
                X, self.batch_size, to_seed(self.random_state), covariates=known
            )
            learnt = () if known is None else learn("user_weights", optimizer=optax.adam(RATE))
            whole = loader.steps_per_epoch == 1
            alg = cavi(model, learn=learnt) if whole else svi(model, lazy=False, learn=learnt)
            self.fit_ = fit(
                alg,
                loader,
                key=to_key(self.random_state),
                num_steps=self.max_iter * loader.steps_per_epoch,
            )
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
        with_numbers = getattr(self, "covariate_weights_", None) is not None
        remedy = "Fit all users again, with their covariates."
        require(
            not with_numbers,
            "partial_fit",
            "an estimator fitted without covariates",
            "one with them",
            remedy,
        )
        return svi(self._model(num_columns), lazy=False, step_size=self._steps())

    def _describe(self) -> None:
        self.components_ = np.array(self.fit_.posterior["items"].mean()).T
        weights = self.fit_.state.hyper.get("user_weights")
        self.covariate_weights_ = None if weights is None else np.array(weights)

    def transform(self, X: Any, covariates: Any = None) -> Float[np.ndarray, "users K"]:
        """Expected weights of users, from what they took and their covariates; they need not be
        those of `fit`. Raises ValueError: covariates where there were none in `fit`, or of another
        number."""
        check_is_fitted(self)
        given = self._check_matrix(X, "transform", reset=False)
        X = to_least_precision(given)
        with working_precision(X):
            known = None if covariates is None else _check_covariates(covariates, X)
            width = 0 if self.covariate_weights_ is None else len(self.covariate_weights_)
            got = 0 if known is None else known.shape[1]
            require(width == got, "covariates", f"{width} numbers of each user, as in fit", got)
            return self._per_document(X, _read_weights, known).astype(answer_type(given))

    def recommend(self, X: Any, n: int = 10, covariates: Any = None) -> Int[np.ndarray, "users n"]:
        """The n items that each user would take next, best first, by what they took and their
        covariates: columns of X. -1 where fewer are left.

        Raises:
          ValueError: n is below 1, or above the number of items; covariates as in `transform`.
        """
        return ranked(self.transform(X, covariates), self.components_.T, _sparse(X), n).items

    def score(self, X: Any, y: Any = None, *, hidden: Any = None, covariates: Any = None) -> float:
        """NDCG at 20 of `hidden`, the items that users took beside those in X, in the form of X.
        Without it a fifth of each user's items is hidden, always the same, and found from the
        others. y is ignored."""
        check_is_fitted(self)
        X = self._counts(X, "score", reset=False)
        known, hidden = hide(_sparse(X)) if hidden is None else (_sparse(X), _sparse(hidden))
        users = self.transform(scipy.sparse.csr_matrix(known), covariates)
        return ranking(users, self.components_.T, known, hidden).mean


def _check_covariates(covariates: Any, X: Any) -> Float[np.ndarray, "users D"]:
    """Covariates of the users of X, in its precision."""
    known = check_numbers("covariates", covariates, X.dtype)
    require(
        len(known) == X.shape[0],
        "covariates",
        f"a row for each of the {X.shape[0]} users",
        known.shape,
    )
    return known


def _sparse(X: Any) -> Any:
    return scipy.sparse.csr_array(X)


def _read_weights(model: Model, stats: Any, said: LocalElbo, key: PRNGKeyArray) -> list[Array]:
    return [q["weights"].mean() for q in said.local]
