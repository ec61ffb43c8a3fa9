"""Bounds from several draws of latents: the Renyi bound (Li and Turner 2016), and its special case,
the importance-weighted bound (Burda, Grosse and Salakhutdinov 2016).

With log ratios r_k = log p(x, z_k) - log q(z_k) at draws z_1, ..., z_K of q, and w_k the softmax of
(1 - alpha) r,

    L = log( 1/K sum_k exp((1 - alpha) r_k) ) / (1 - alpha)     (Li and Turner 2016, section 4.1)
    grad L = sum_k w_k grad r_k.                                (their section 4.2)

At alpha = 0 this is the importance-weighted bound (Burda et al., eq. 8), whose mean rises with K to
log p(x); for alpha -> 1, or for one draw, it is the evidence lower bound.

The gradient of a ratio in the parameters of q has two parts: one through the draw, and the score of
q, whose mean is not zero under the weights. If the second part is rewritten as a derivative through
the draw, the gradient is

    sum_k (alpha w_k + (1 - alpha) w_k^2) (d r_k / d z_k) (d z_k / d lambda),

unbiased and without the noise of the score. At alpha = 1 it is "sticking the landing" (Roeder, Wu
and Duvenaud 2017), at alpha = 0 the doubly reparameterised gradient (Tucker, Lawson, Gu and
Maddison 2019).
Proof: E[f(z) grad_lambda log q(z)] = E[(df/dz) (dz/dlambda)], with f = w_k, and dw_k / dr_k = (1 -
alpha) w_k (1 - w_k)."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.checks import require


@dataclasses.dataclass(frozen=True)
class renyi:
    """The Renyi bound of order alpha.

    For 0 <= alpha < 1 its mean over draws is between the evidence lower bound and log p(x), and
    rises with the number of draws. For alpha < 0 it may exceed log p(x) if there are many draws.
    For alpha > 1 it is below the evidence lower bound.

    Args:
      alpha: order of the bound of several draws; 0 weighs them by importance, 1 is the evidence
          lower bound.

    >>> ratios = jnp.log(jnp.array([1.0, 3.0]))
    >>> [round(float(renyi(alpha).bound(ratios)), 4) for alpha in (0.0, 0.5, 1.0)]
    [0.6931, 0.6238, 0.5493]
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        is_number = isinstance(self.alpha, int | float) and not isinstance(self.alpha, bool)
        is_finite = is_number and math.isfinite(self.alpha)
        expected = "a finite number, such as 0.5; 0 is the importance-weighted bound"
        require(is_finite, "alpha", expected, repr(self.alpha))

    def bound(self, log_ratios: Float[Array, " draws"]) -> Float[Array, ""]:
        """L at these log ratios."""
        if self.alpha == 1:
            return jnp.mean(log_ratios)
        order = 1 - self.alpha
        return (jax.nn.logsumexp(order * log_ratios) - jnp.log(len(log_ratios))) / order

    def through_draws(self, log_ratios: Float[Array, " draws"]) -> Float[Array, " draws"]:
        """The weights in the gradient of L, one for the derivative of each ratio through its
        draw."""
        weights = jax.nn.softmax((1 - self.alpha) * log_ratios)
        return self.alpha * weights + (1 - self.alpha) * weights**2


def importance_weighted() -> renyi:
    """The importance-weighted bound, log of the mean ratio: `renyi(0.0)`.

    More draws bring it nearer to log p(x). But the signal in the gradient for q falls faster than
    its noise (Rainforth et al. 2018), so that more than some tens of draws do not pay in training.

    >>> importance_weighted()
    renyi(alpha=0.0)
    """
    return renyi(0.0)


def check_objective(objective: object) -> None:
    """Raises ValueError at anything but an objective of several draws, or None."""
    is_objective = objective is None or isinstance(objective, renyi)
    expected = "one of vijax.objective, such as importance_weighted()"
    remedy = "Leave it out for the evidence lower bound."
    require(is_objective, "objective", expected, repr(objective), remedy)
