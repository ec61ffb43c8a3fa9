"""Ordered classes y = 0, ..., C - 1, as intervals of the real line."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import as_float
from vijax.inference.likelihood.base import Likelihood, Moments, require_sites
from vijax.inference.likelihood.log_sigmoid import of_log_sigmoid
from vijax.xla.by_value import by_value


@by_value
def ordinal_logit(cutpoints: Any) -> Likelihood:
    """p(y | z) = sigma(c_{y+1} - z) - sigma(c_y - z), with c_0 = -inf and c_C = inf.

    Computed as log sigma(b - z) + log sigma(z - a) + log(1 - e^(a-b)), in which nothing cancels.

    Args:
      cutpoints: increasing, shape (C - 1,).

    Raises:
      ValueError: cutpoints that do not increase.

    >>> three = ordinal_logit([-1.0, 1.0])
    >>> [round(float(jnp.exp(three.log_prob(y, jnp.array(0.0)))), 3) for y in range(3)]
    [0.269, 0.462, 0.269]
    """
    inner = as_float(cutpoints)
    require(inner.ndim == 1 and inner.size > 0, "cutpoints", "a vector of at least one number", inner)
    require(jnp.diff(inner) > 0, "cutpoints", "increasing numbers", inner)
    num_classes = inner.size + 1

    def edges(y: Any) -> tuple[Array, Array]:
        k = jnp.asarray(y).astype(jnp.int32)
        return inner[jnp.clip(k - 1, 0, num_classes - 2)], inner[jnp.clip(k, 0, num_classes - 2)]

    def parts(y: Any) -> tuple[Array, Array, Array]:
        """True where there is an edge below, where there is one above; and log(1 - e^(a-b)) where there are both."""
        lower, upper = edges(y)
        has_lower, has_upper = y != 0, y != num_classes - 1
        width = jnp.where(has_lower & has_upper, upper - lower, 1.0)
        return has_lower, has_upper, jnp.where(has_lower & has_upper, jnp.log(-jnp.expm1(-width)), 0.0)

    def log_prob(y: Any, z: Array) -> Array:
        (lower, upper), (has_lower, has_upper, known) = edges(y), parts(y)
        above = jnp.where(has_lower, jax.nn.log_sigmoid(z - lower), 0.0)
        below = jnp.where(has_upper, jax.nn.log_sigmoid(upper - z), 0.0)
        return above + below + known

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        (lower, upper), (has_lower, has_upper, known) = edges(y), parts(y)
        above = [jnp.where(has_lower, x, 0.0) for x in of_log_sigmoid(m - lower.astype(m.dtype), v)]
        below = [jnp.where(has_upper, x, 0.0) for x in of_log_sigmoid(upper.astype(m.dtype) - m, v)]
        return Moments(above[0] + below[0] + known.astype(m.dtype), above[1] - below[1], above[2] + below[2])

    def check(y: Any) -> None:
        classes = np.asarray(y)
        ok = (classes >= 0) & (classes < num_classes) & (classes == np.floor(classes))
        require_sites(ok, "ordinal_logit", f"classes 0, ..., {num_classes - 1}", classes)

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        above = (z + jax.random.logistic(key, z.shape, z.dtype))[..., None] > inner
        return jnp.sum(above, -1).astype(z.dtype)

    return Likelihood(
        log_prob,
        name="ordinal_logit",
        kinks=lambda y: jnp.stack(edges(y)),
        log_concave=True,
        closed_form=closed_form,
        check=check,
        sample=sample,
    )
