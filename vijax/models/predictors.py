"""Models of Gaussian predictors, y_n | z_n ~ p(y_n | z_n), z ~ N(0, K): what the GP and the GLM have in common.

    ELBO(q) = sum_n E_{N(m_n, v_n)}[log p(y_n | z_n)] - KL(q || p)     (Khan et al. 2016, section 3.1, examples 1 and 2)

q is stored as sites relative to the prior, 2N numbers, so that it follows the prior when hyperparameters change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax import describe
from vijax import expectation as expectations
from vijax.expectation import Expectation
from vijax.families.base import require
from vijax.likelihood import Likelihood
from vijax.model import Hyper
from vijax.sites import Prior, SitePosterior, Sites
from vijax.sites.posterior import kl_to_prior


@dataclasses.dataclass(frozen=True)
class PredictorModel:
    """A likelihood of scalar predictors with a joint Gaussian prior.

    Attributes:
      hyper: positive hyperparameters by name; fixed, or learnt by gradient steps on their logarithms.
      prior: hyper -> the prior of the N predictors.
      likelihood: hyper -> p(y | z).
      y: observations, arrays of leading axis N.
      new: (hyper, inputs) -> what `prior.predict` reads, and the variance that no feature explains.
      expectation: default expectation (`vijax.expectation`).
      reads_documents: never.
      score: none.
      check_data: none: the observations were checked when the model was made.
    """

    hyper: Hyper
    prior: Callable[[Hyper], Prior]
    likelihood: Callable[[Hyper], Likelihood]
    y: Any
    new: Callable[[Hyper, Any], tuple[Any, Array]]
    expectation: Expectation
    reads_documents: bool = False
    score: None = None
    check_data: None = None

    def __repr__(self) -> str:
        return describe.of_model(self)

    @property
    def num_sites(self) -> int:
        """N."""
        return int(np.shape(jax.tree.leaves(self.y)[0])[0])

    @property
    def data(self) -> dict[str, Any]:
        """What `vijax.fit` reads: {"site": 0, ..., N - 1, "y": observations}."""
        return {"site": np.arange(self.num_sites, dtype=np.int32), "y": self.y}

    def posterior(self, sites: Sites, hyper: Hyper | None = None) -> SitePosterior:
        """q(z) of the N predictors."""
        return SitePosterior(sites, self.prior(self._hyper(hyper)))

    def elbo(
        self,
        sites: Sites,
        hyper: Hyper | None = None,
        *,
        prior: Prior | None = None,
        expectation: Expectation | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, ""]:
        """The bound on log p(y), differentiable in the sites and in the hyperparameters.

        At the optimum of the sites its gradient in the hyperparameters is that of the optimised bound. Inside
        `jit` hand over `prior`, as `state.prior` has it, lest the compiler work out the kernel of the data by itself.
        """
        hyper = self._hyper(hyper)
        prior = self.prior(hyper) if prior is None else prior
        factor = prior.condition(sites)
        m, v = prior.marginals(factor, jnp.arange(self.num_sites))
        moments = (expectation or self.expectation)(self.likelihood(hyper), self.y, m, v, key)
        return jnp.sum(moments.value) - kl_to_prior(factor, sites, v)

    def predict(self, sites: Sites, inputs: Any, hyper: Hyper | None = None) -> tuple[Array, Array]:
        """Mean and variance of the predictors z* of new inputs, (T,) each."""
        hyper = self._hyper(hyper)
        prior = self.prior(hyper)
        new, unexplained = self.new(hyper, inputs)
        mean, variance = prior.predict(prior.condition(sites), new)
        return mean, variance + unexplained

    def predictive(self, sites: Sites, inputs: Any, y: Any, hyper: Hyper | None = None) -> Float[Array, " new"]:
        """p(y* | data) = E_q[p(y* | z*)], by quadrature: for y = 1 throughout, the probability of the class +1.

        Args:
          sites: of the posterior.
          inputs: T new inputs.
          y: observations, (T,) or one for all.
          hyper: hyperparameters; the model's own if None.
        """
        mean, variance = self.predict(sites, inputs, hyper)
        lik = self.likelihood(self._hyper(hyper))
        y = jnp.broadcast_to(jnp.asarray(y), mean.shape)
        return expectations.expect(lambda y, z: jnp.exp(lik.log_prob(y, z)), lik, y, mean, variance)

    def _hyper(self, hyper: Hyper | None) -> Hyper:
        chosen = self.hyper if hyper is None else hyper
        return {name: jnp.asarray(value) for name, value in chosen.items()}


def check_observations(y: Any, num_inputs: int, likelihood: Likelihood) -> None:
    """Raises ValueError where the observations are not one an input, or outside the likelihood's support."""
    lengths = {int(np.shape(leaf)[0]) if np.ndim(leaf) else 0 for leaf in jax.tree.leaves(y)}
    require(lengths == {num_inputs}, "y", f"one observation for each of the {num_inputs} inputs", sorted(lengths))
    require(num_inputs > 0, "x", "at least one input", num_inputs)
    likelihood.check(y)
