"""Stochastic gradient Riemannian Langevin dynamics: a step of a Markov chain instead of a message.

Topics are pi_k = theta_k / sum_w theta_kw with theta_kw ~ Gamma(eta_w, 1), the expanded-mean
parametrisation of Patterson and Teh (2013, section 4). With xi ~ N(0, epsilon), one step of size
epsilon, preconditioned by diag(theta), is

    theta* = | theta + epsilon/2 (eta - theta + n - pi sum_w n_w) + sqrt(theta) xi |,

where n is N/S times the expected counts of the batch, the gradient of its bound in log pi. With rho
= epsilon / 2 it is |(1 - rho) theta + rho (eta + message)|: the absolute value of the step that
every global takes."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families import Dirichlet, Family
from vijax.inference.estimator.base import Estimator, Placement


@dataclasses.dataclass(frozen=True)
class langevin(Estimator):
    """Drift and noise of stochastic gradient Riemannian Langevin dynamics, for Dirichlet globals.

    It goes with `vijax.update.reflected()` and `vijax.estimand.draw()`, as in `vijax.sgrld`. The
    concentrations of the state are theta, not parameters of a posterior.

    Raises:
      ValueError: in a step, a global that is no `vijax.Dirichlet`.
    """

    for_points: ClassVar[bool] = True

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> Placement:
        is_dirichlet = isinstance(q, Dirichlet)
        expected = "Dirichlet globals for langevin()"
        remedy = "Of other globals use vijax.ssvi, or vijax.reference for a sampler."
        require(is_dirichlet, "estimator", expected, type(q).__name__, remedy)
        theta, pi = q.concentration, q.mean()  # type: ignore[attr-defined]
        noise = jax.random.normal(key, theta.shape, theta.dtype)

        def message(counts: Any) -> Family:
            n = q.as_stats(counts).log
            drift = n - pi * jnp.sum(n, axis=-1, keepdims=True)
            # The step multiplies by rho, so its noise is sqrt(2 rho theta) N(0, 1).
            return q.with_naturals([drift + jnp.sqrt(2 * theta / rho) * noise])

        return q.stats(pi), message
