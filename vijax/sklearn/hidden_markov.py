"""Hidden Markov models as estimators, with hmmlearn's `lengths`."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Self

import jax
import numpy as np
from jaxtyping import Float, Int
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vijax.algorithms import cavi, em, svi
from vijax.arguments import NotNegative, Positive, Size
from vijax.checks import require, require_integers
from vijax.families import Dirichlet, Product
from vijax.inference.compose import Algorithm
from vijax.inference.update import kl
from vijax.models.emission import Emission, around, blurred, poisson
from vijax.models.series.hmm import hmm
from vijax.models.series.sequences import path
from vijax.sklearn.parts import covariances as kinds
from vijax.sklearn.parts.base import (
    VijaxEstimator,
    estimator,
    or_default,
    pad,
    size_with_padding,
    to_key,
)
from vijax.sklearn.parts.far import ROUNDS, is_lost, may_lose, moments
from vijax.sklearn.parts.rows import (
    PartialFitMixin,
    RowFit,
    allow_weights,
    check_counts,
    fit_rows,
    prior_of_rates,
)
from vijax.xla.compiler import quick_jit
from vijax.xla.precision import enable_x64

_paths = quick_jit(jax.vmap(lambda z: z.mode()))


@estimator
class HiddenMarkovModel(PartialFitMixin, VijaxEstimator):
    """A hidden Markov model, with Gaussian or Poisson emissions.

    X holds all sequences, one below the other, and `lengths` their lengths (None: X is one
    sequence), as in hmmlearn.

    Args:
      n_components: number of states.
      emission: "gaussian" or "poisson" (counts).
      covariance_type: for Gaussians: "full", "tied", "diag" or "spherical".
      inference: "em" (Baum-Welch) or "variational" (a posterior of all parameters).
      startprob_prior: concentration of the Dirichlet prior of the first state; EM reads neither
        this nor `transmat_prior`.
      transmat_prior: concentration of the prior of each row of the transition matrix.
      reg_covar: for Gaussians, number added to the diagonal of covariances, as in
          `GaussianMixture`.
      max_iter: most steps.
      tol: the bound has converged when it changes by less, per step of the sequences.
      n_init: number of starts, side by side; the best is kept.
      random_state: an integer for results that can be repeated.
      total_samples: for `partial_fit`, the number of sequences in all; None is the number seen so
          far.
      learning_decay, learning_offset: kappa and tau of its step sizes (tau + t)^-kappa, t = 1, 2,
          ...

    Attributes:
      startprob_, transmat_: probabilities of the first state, and of the next (columns) given each
          (rows).
      means_, covariances_: for Gaussian emissions; rates_: for Poisson emissions.
      converged_, n_iter_, lower_bound_: whether the fit converged, its steps, and the bound on log
          p(X).
      places_: as in `GaussianMixture`, for states.
      fit_: the `vijax.Fit`.

    >>> X = np.concatenate([np.zeros((20, 1)), np.full((15, 1), 9.0), np.zeros((5, 1))])
    >>> X += np.random.default_rng(0).normal(size=X.shape)
    >>> states = HiddenMarkovModel(n_components=2, random_state=0).fit(X, lengths=[30, 10]).predict(X, lengths=[30, 10])
    >>> bool((states[:20] == states[0]).all() and (states[20:35] != states[0]).all())
    True
    """

    n_components: Size = 2
    _: dataclasses.KW_ONLY
    emission: Literal["gaussian", "poisson"] = "gaussian"
    covariance_type: Literal["full", "tied", "diag", "spherical"] = "diag"
    inference: Literal["em", "variational"] = "em"
    startprob_prior: Positive = 1.0
    transmat_prior: Positive = 1.0
    reg_covar: NotNegative = 1e-3
    max_iter: Size = 100
    tol: NotNegative = 1e-4
    n_init: Size = 1
    random_state: Any = None
    places_ = None

    def fit(self, X: Any, y: Any = None, lengths: Any = None) -> Self:
        """Fits the model to sequences X one below the other, (steps, features), of these lengths; y
        is ignored. A `ConvergenceWarning` says that the bound had not converged after `max_iter`
        steps.

        Raises:
          ValueError: an argument out of its range, missing numbers, negative counts, lengths that
              do not add up.
        """
        self._check_settings()
        X = self._check_rows(X, reset=True)
        sequences = to_sequences(X, lengths)
        self.places_ = None
        with enable_x64(True):
            key = to_key(self.random_state)
            row_fit = self._fit_sequences(X, sequences, key)
            for _ in range(ROUNDS):
                places = self._find_places(X, sequences, row_fit.fit)
                if places is None:
                    break
                self.places_ = places
                # The same key: the states have the same numbers
                row_fit = self._fit_sequences(X, sequences, key)
            self.fit_ = row_fit.fit
            self._describe()
        self.lower_bound_ = float(row_fit.bounds[-1])
        self._keep(row_fit.fit, row_fit.converged, row_fit.n_iter)
        self.n_samples_seen_ = len(sequences[0])  # `partial_fit` continues from here
        return self

    def _fit_sequences(self, X: np.ndarray, sequences: Any, key: Any) -> RowFit:
        tol = self.tol * len(X) / len(sequences[0])
        hyper = {"prior": self._prior(X)}
        alg = self._algorithm(X.shape[1])
        return fit_rows(alg, sequences, key, self.max_iter, tol, self.n_init, hyper, least=1)

    def _find_places(self, X: np.ndarray, sequences: Any, fit: Any) -> np.ndarray | None:
        """Places near the states, if rounding hides the spread of one (see
        `vijax.models.emission.around`). A prior of variances keeps them too wide for that."""
        if self.emission != "gaussian" or self.inference != "em":
            return None
        noise = float(self.reg_covar)
        if self.covariance_type == "tied" or not may_lose(X, noise):
            return None
        laws = fit.locals(pad(sequences, least=1), key=jax.random.key(0))["z"]
        probs = np.asarray(laws.probs)[: len(sequences[0])][sequences[1]]
        states = moments(X, probs, np.ones(len(X)), self.covariance_type, noise)
        return states.mean if is_lost(states, self._origins()) else None

    def _origins(self) -> Any:
        return or_default(self.places_, 0.0)

    @available_if(PartialFitMixin._has_posterior)
    def partial_fit(self, X: Any, y: Any = None, lengths: Any = None) -> Self:
        """Continues the fit with a minibatch of sequences, as `fit` takes them, by one stochastic
        step. The first call starts the fit and sets the prior. EM has no such method. Raises as
        `fit` does."""
        self._check_settings()
        is_first = not hasattr(self, "fit_")
        X = self._check_rows(X, reset=is_first)
        sequences = to_sequences(X, lengths)
        with enable_x64(True):
            alg = svi(self._model(X.shape[1]), step_size=self._steps())
            hyper = lambda: {"prior": self._prior(X)}
            self.fit_ = self._fit_part(alg, sequences, hyper, is_first, least=1)
            self._describe()
        self.lower_bound_ = float(self.fit_.trace["elbo"][-1])
        return self

    def predict(self, X: Any, lengths: Any = None) -> Int[np.ndarray, " steps"]:
        """The most probable path of states of each sequence (Viterbi)."""
        return self._read_steps(X, lengths, _paths)

    def predict_proba(self, X: Any, lengths: Any = None) -> Float[np.ndarray, "steps K"]:
        """Probability of each state at each step, given the whole sequence (smoothed)."""
        return self._read_steps(X, lengths, lambda z: z.probs)

    def score(self, X: Any, y: Any = None, lengths: Any = None) -> float:
        """Log probability of the sequences, their sum."""
        check_is_fitted(self)
        data = to_sequences(self._check_rows(X, reset=False), lengths)
        with enable_x64(True):
            score = self.fit_.score(pad(data, least=1), key=jax.random.key(0))
        return float(score.log_probs[: len(data[0])].sum())

    def sample(
        self, n_samples: int = 1
    ) -> tuple[Float[np.ndarray, "steps D"], Int[np.ndarray, " steps"]]:
        """A sequence drawn from the model at its point estimates, and its states."""
        check_is_fitted(self)
        require_integers(n_samples=n_samples)
        rng = check_random_state(self.random_state)
        key = jax.random.key(rng.randint(2**31 - 1))
        states = np.asarray(_path(self.startprob_, self.transmat_, n_samples, key))
        draws = np.zeros((n_samples, self.n_features_in_))
        for k in np.unique(states):
            draws[states == k] = self._draws(rng, k, int(np.sum(states == k)))
        return draws, states

    def _draws(self, rng: Any, state: int, size: int) -> np.ndarray:
        dim = self.n_features_in_
        if self.emission == "poisson":
            return rng.poisson(self.rates_[state], (size, dim)).astype(float)
        matrix = kinds.covariance_matrix(self.covariance_type, self.covariances_, state, dim)
        return rng.multivariate_normal(self.means_[state], matrix, size)

    def _read_steps(self, X: Any, lengths: Any, read: Any) -> np.ndarray:
        """The results of `read` for the law of each path, the sequences one below the other."""
        check_is_fitted(self)
        data = to_sequences(self._check_rows(X, reset=False), lengths)
        with enable_x64(True):
            laws = self.fit_.locals(pad(data, least=1), key=jax.random.key(0))["z"]
            results = np.asarray(read(laws))
        return results[: len(data[0])][data[1]]

    def _emission(self, dim: int) -> Emission:
        if self.emission == "poisson":
            return allow_weights(poisson(self.n_components, dim))
        emission = kinds.make_emission(self.covariance_type, self.n_components, dim)
        emission = blurred(emission, float(self.reg_covar))
        return emission if self.places_ is None else around(emission, self.places_)

    def _model(self, dim: int) -> Any:
        return hmm(self._emission(dim), prior_as_point=True)

    def _algorithm(self, dim: int) -> Algorithm:
        model = self._model(dim)
        return em(model, update=kl()) if self.inference == "em" else cavi(model)

    def _prior(self, X: np.ndarray) -> Product:
        kind = self.covariance_type
        dim = X.shape[1]
        size = self.n_components
        if self.emission == "poisson":
            components: Any = prior_of_rates(size, X)
        else:
            covariance = kinds.covariance_of_data(kind, X, np.ones(len(X)))
            covariance = covariance + self.reg_covar * kinds.identity(kind, dim)
            settings = kinds.Settings(X.mean(axis=0) - self._origins(), 1.0, float(dim), covariance)
            components = kinds.make_emission(kind, size, dim, settings).prior
        initial = Dirichlet.from_concentration(np.full(size, float(self.startprob_prior)))
        rows = Dirichlet.from_concentration(np.full((size, size), float(self.transmat_prior)))
        return Product({"initial": initial, "transition": rows, "components": components})

    def _describe(self) -> None:
        estimates = self.fit_.estimates
        self.startprob_ = _normalise(estimates["initial"].mean())
        self.transmat_ = _normalise(estimates["transition"].mean())
        point = estimates["components"].mean()
        if self.emission == "poisson":
            self.rates_ = np.array(point)
            return
        self.means_ = kinds.read_means(self.covariance_type, point) + self._origins()
        precisions = kinds.read_precisions(self.covariance_type, point)
        self.covariances_ = kinds.invert_precisions(self.covariance_type, precisions)

    def _check_rows(self, X: Any, reset: bool) -> np.ndarray:
        X = super()._check_rows(X, reset)
        if self.emission == "poisson":
            check_counts(self, X)
        return X


_path = quick_jit(path, static_argnums=2)


def to_sequences(X: np.ndarray, lengths: Any) -> tuple[Float[np.ndarray, "N T D"], np.ndarray]:
    """Sequences as a padded array and the mask of their steps; T is rounded up to a size that other
    data share.

    Raises:
      ValueError: lengths that are not positive whole numbers, or do not add up to the rows.

    >>> y, mask = to_sequences(np.zeros((5, 2)), [3, 2])
    >>> y.shape[0], y.shape[2], mask.sum(axis=1).tolist()
    (2, 2, [3, 2])
    """
    sizes = np.atleast_1d(np.asarray(or_default(lengths, len(X))))
    are_integers = sizes.ndim == 1 and np.all(sizes == np.floor(sizes)) and np.all(sizes >= 1)
    expected = f"whole numbers that add up to {len(X)} rows"
    require(are_integers and sizes.sum() == len(X), "lengths", expected, sizes)
    steps = size_with_padding(int(sizes.max()))
    mask = np.arange(steps) < sizes[:, None]
    y = np.zeros((*mask.shape, X.shape[1]))
    y[mask] = X
    return y, mask


def _normalise(probabilities: Any) -> np.ndarray:
    probabilities = np.array(probabilities)
    return probabilities / probabilities.sum(axis=-1, keepdims=True)
