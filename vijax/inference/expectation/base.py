"""The contract of an expectation: a function (likelihood, y, m, v, key) -> `Moments`, elementwise over sites.

By Bonnet's and Price's theorems the derivatives of E_{N(m, v)}[l(z)] are dE/dm = E[l'] and dE/dv = E[l'']/2, so that
an estimate of (E l, E l', E l'') is an estimate of the bound and of its gradient in the mean parameters (Khan et al.
2016, section 3.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.inference.likelihood import Likelihood, LogLik, Moments

Expectation = Callable[[Likelihood, Any, Float[Array, " sites"], Float[Array, " sites"], PRNGKeyArray | None], Moments]


def derivatives(log_lik: LogLik, y: Any, z: Float[Array, ""]) -> tuple[Array, Array, Array]:
    """(l, l', l'') at one z."""

    def slope(z: Array) -> tuple[Array, tuple[Array, Array]]:
        value, first = jax.value_and_grad(lambda x: log_lik(y, x))(z)
        return first, (value, first)

    second, (value, first) = jax.grad(slope, has_aux=True)(z)
    return value, first, second
