"""The quadratic bound of Jaakkola and Jordan (2000) on the logistic likelihood (Blei, Kucukelbir and McAuliffe 2017,
section 5.3).

    log sigma(y z) >= log sigma(xi) + (y z - xi)/2 - lambda(xi)(z^2 - xi^2),   lambda(xi) = tanh(xi/2) / (4 xi)

tight at z = +-xi. Its expectation under N(m, v) is greatest at xi^2 = m^2 + v, where the last term vanishes.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.inference.expectation.base import Expectation
from vijax.inference.likelihood import Likelihood, Moments
from vijax.xla.by_value import by_value


@by_value
def jaakkola_jordan() -> Expectation:
    """A lower bound on E[log sigma(y z)] and its gradient, at the best xi: steps of size 1 are coordinate ascent.

    Raises:
      ValueError: the likelihood is not `bernoulli_logit`.
    """

    def estimate(
        likelihood: Likelihood, y: Any, m: Float[Array, " sites"], v: Float[Array, " sites"], key: PRNGKeyArray | None
    ) -> Moments:
        del key
        name = getattr(likelihood, "name", None)
        if name != "bernoulli_logit":
            raise ValueError(f"likelihood: expected bernoulli_logit for the Jaakkola-Jordan bound, got {name}.")
        xi = jnp.sqrt(m**2 + v)
        curvature = -2.0 * quarter_tanhc(xi)
        value = jax.nn.log_sigmoid(xi) + 0.5 * (y * m - xi)
        return Moments(value, 0.5 * y + curvature * m, curvature)

    return estimate


def quarter_tanhc(xi: Array) -> Array:
    """tanh(xi/2) / (4 xi), by its series (1 - xi^2/12)/8 near 0."""
    small = xi < 1e-3
    safe = jnp.where(small, 1.0, xi)
    return jnp.where(small, 0.125 * (1.0 - xi**2 / 12.0), jnp.tanh(0.5 * safe) / (4.0 * safe))
