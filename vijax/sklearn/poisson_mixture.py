"""Mixtures of Poisson counts as an estimator."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from vijax.algorithms import cavi, em
from vijax.arguments import Positive
from vijax.families import Dirichlet, Product
from vijax.inference.compose import Algorithm
from vijax.models.emission import Emission, poisson
from vijax.models.mixtures.mixture import mixture
from vijax.sklearn.mixtures import MixtureEstimator
from vijax.sklearn.parts.base import estimator
from vijax.sklearn.parts.counts import dense_counts, prior_of_rates, weights_allowed


@estimator
class PoissonMixture(MixtureEstimator):
    """A mixture of rows of independent counts, dense or sparse (made dense).

    Args:
      n_components: K.
      inference: "variational" (a posterior of weights and rates) or "em" (maximum likelihood).
      weight_concentration_prior: concentration of the Dirichlet prior of the weights; None is 1 / n_components.
      rate_shape_prior: shape of the gamma prior of the rates.
      rate_prior: rate of this gamma prior; None makes the prior mean the mean of X, column by column.
      tol, max_iter, n_init, init_params, random_state, warm_start: as in `GaussianMixture`.

    Attributes:
      weights_, rates_: posterior means, (K,) and (K, D).
      converged_, n_iter_, lower_bound_, lower_bounds_: whether the fit converged, its steps, and the bound on log p(X).
      fit_: the `vijax.Fit`.

    >>> X = np.random.default_rng(0).poisson(np.repeat([[1.0, 9.0], [9.0, 1.0]], 30, axis=0))
    >>> mixture = PoissonMixture(n_components=2, random_state=0).fit(X)
    >>> mixture.rates_[mixture.rates_[:, 0].argsort()].round().tolist()
    [[1.0, 10.0], [10.0, 1.0]]
    """

    _: dataclasses.KW_ONLY
    inference: Literal["variational", "em"] = "variational"
    weight_concentration_prior: Positive | None = None
    rate_shape_prior: Positive = 1.0
    rate_prior: Positive | None = None

    def _emission(self, dim: int) -> Emission:
        return weights_allowed(poisson(self.n_components, dim))

    def _algorithm(self) -> Algorithm:
        model = mixture(self.emission_, init=self._start(), prior_as_point=True)
        return em(model) if self.inference == "em" else cavi(model)

    def _prior(self, X: np.ndarray) -> Product:
        size, given = self.n_components, self.weight_concentration_prior
        weights = Dirichlet.from_concentration(np.full(size, 1.0 / size if given is None else float(given)))
        rates = prior_of_rates(size, X, self.rate_shape_prior, self.rate_prior)
        return Product({"components": rates, "weights": weights})

    def _describe(self, bounds: np.ndarray) -> None:
        self.weights_ = self._weights()
        self.rates_ = np.array(self.fit_.estimates["components"].mean())
        self.lower_bounds_ = [float(x) for x in bounds]
        self.lower_bound_ = self.lower_bounds_[-1]

    def _draws(self, rng: Any, component: int, size: int) -> np.ndarray:
        return rng.poisson(self.rates_[component], (size, self.rates_.shape[1])).astype(float)

    def _checked(self, X: Any, reset: bool) -> np.ndarray:
        return dense_counts(self, X, reset)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        return tags
