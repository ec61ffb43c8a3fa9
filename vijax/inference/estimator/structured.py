"""Structured SVI: messages at a *sample* of the globals (Hoffman and Blei 2015, Algorithm 1).

SSVI    m = V(beta, lambda) eta_hat(beta),   beta ~ q,   V = F^-1 J   (eq. 7, 8): unbiased natural gradient
SSVI-A  m = eta_hat(beta)                    (eq. 10): V replaced by its expectation, the identity
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.arguments import checked, inside
from vijax.families import Family
from vijax.inference.estimator.base import Estimator


@dataclasses.dataclass(frozen=True)
class ssvi_a(Estimator):
    """grad_s l at s = t(beta), beta ~ q."""

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        return q.sample_stats(key), q.with_naturals


@checked
@dataclasses.dataclass(frozen=True)
class ssvi(Estimator):
    """V grad_s l at s = t(beta), beta ~ q.

    Args:
      damping: weight of V, 0 (SSVI-A) to 1 (undamped). It is tau in (1 - tau_t) I + tau_t V with tau_t = tau (1 -
        rho_t): 1 is the SSVI of the paper once steps are small. V multiplies the message of a coordinate by noise of
        mean and, where lambda is small, spread one; a step of size one would follow it out of the domain, hence the
        factor 1 - rho_t.
      control_variate: eq. (9), V applied to the whole displacement eta + eta_hat - lambda, whose spread vanishes at
        the fixed point; the same expectation, since E[V] = I.

    Raises:
      ValueError: `damping` outside [0, 1].
    """

    damping: Annotated[float, inside("[0, 1]")] = 0.3
    control_variate: bool = True

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        stats, v = q.pathwise_sample(key)

        def damped(eta_hat: PyTree) -> Family:
            plain = q.with_naturals(eta_hat)
            offset = tree.subtract(q, prior) if self.control_variate else tree.scale(0.0, q)
            structured = tree.add(offset, v(q.as_stats(tree.subtract(plain, offset))))
            return tree.mix(self.damping * (1 - rho), plain, structured)

        return stats, damped
