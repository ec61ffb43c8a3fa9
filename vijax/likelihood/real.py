"""Real observations."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array

from vijax.by_value import by_value
from vijax.checks import require_positive
from vijax.likelihood.base import Likelihood, Moments, require_sites


@by_value
def gaussian(variance: Any) -> Likelihood:
    """p(y | z) = N(y; z, s^2): the conjugate case, where one step of size 1 is exact inference.

    Args:
      variance: s^2 > 0.

    Raises:
      ValueError: the variance is not positive.
    """
    require_positive(variance=variance)
    s2 = jnp.asarray(variance)

    def log_prob(y: Any, z: Array) -> Array:
        return -0.5 * (y - z) ** 2 / s2 - 0.5 * jnp.log(2 * math.pi * s2)

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        return Moments(log_prob(y, m) - 0.5 * v / s2, (y - m) / s2, jnp.broadcast_to(-1.0 / s2, jnp.shape(m)))

    return Likelihood(
        log_prob,
        name="gaussian",
        log_concave=True,
        closed_form=closed_form,
        check=lambda y: require_sites(np.isfinite(np.asarray(y)), "gaussian", "finite numbers", y),
    )


@by_value
def student_t(degrees: Any, scale: Any) -> Likelihood:
    """p(y | z) = Student-t(y; location z, scale s, nu degrees of freedom). Not log-concave: sites of outliers may have
    negative precision.

    Args:
      degrees: nu > 0.
      scale: s > 0.

    Raises:
      ValueError: either is not positive.
    """
    require_positive(degrees=degrees, scale=scale)
    nu, s = jnp.asarray(degrees), jnp.asarray(scale)

    def log_prob(y: Any, z: Array) -> Array:
        constant = gammaln(0.5 * (nu + 1)) - gammaln(0.5 * nu) - 0.5 * jnp.log(nu * math.pi) - jnp.log(s)
        return constant - 0.5 * (nu + 1) * jnp.log1p(((y - z) / s) ** 2 / nu)

    return Likelihood(
        log_prob,
        name="student_t",
        kinks=lambda y: jnp.atleast_1d(y),
        width=s * jnp.sqrt(nu),
        check=lambda y: require_sites(np.isfinite(np.asarray(y)), "student_t", "finite numbers", y),
    )
