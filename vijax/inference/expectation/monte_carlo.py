"""Unbiased estimates of the moments from draws of z ~ N(m, v) (Khan et al. 2016, section 3.2 and eq. 12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require_integers
from vijax.inference.expectation.base import Expectation, derivatives
from vijax.inference.likelihood import Likelihood, Moments, as_likelihood
from vijax.xla.by_value import Function, by_value

Rule = Callable[[Array, Array, Array, Array, Array], Moments]
"""(noise, sd, l, l', l''), each of shape (draws,) but sd -> the moments of one site."""


class Sampled(Function):
    """An expectation by draws: its objective is noisy (`vijax.inference.spec.Spec.draws`)."""


@by_value
def bonnet_price(num_samples: int = 100) -> Expectation:
    """E l', E l'' as averages of l', l'' over draws: the least noise; needs two derivatives."""
    return _sampled(num_samples, lambda noise, sd, f, df, ddf: Moments(jnp.mean(f), jnp.mean(df), jnp.mean(ddf)))


@by_value
def reparameterised(num_samples: int = 100) -> Expectation:
    """E l'' as the average of l'(m + sd e) e / sd: needs one derivative. Its curvature may have either sign."""
    return _sampled(
        num_samples,
        lambda noise, sd, f, df, ddf: Moments(jnp.mean(f), jnp.mean(df), jnp.mean(df * noise) / sd),
    )


@by_value
def score_function(num_samples: int = 1000) -> Expectation:
    """E l', E l'' as averages of (l - b) e / sd and (l - b)(e^2 - 1) / v, b the mean of the *other* draws: needs no
    derivative, and has the most noise.

    Raises:
      ValueError: fewer than two draws, which leave no others.
    """
    require_integers(2, num_samples=num_samples)

    def rule(noise: Array, sd: Array, f: Array, df: Array, ddf: Array) -> Moments:
        centred = (f - jnp.mean(f)) * num_samples / (num_samples - 1)
        return Moments(jnp.mean(f), jnp.mean(centred * noise) / sd, jnp.mean(centred * (noise**2 - 1)) / sd**2)

    return _sampled(num_samples, rule)


def _sampled(num_samples: int, rule: Rule) -> Expectation:
    require_integers(num_samples=num_samples)

    def estimate(
        likelihood: Likelihood, y: Any, m: Float[Array, " sites"], v: Float[Array, " sites"], key: PRNGKeyArray | None
    ) -> Moments:
        if key is None:
            raise ValueError("key: expected a random key for a Monte Carlo expectation, got None.")
        log_lik = as_likelihood(likelihood).log_prob
        noise = jax.random.normal(key, (*jnp.shape(m), num_samples), jnp.result_type(m))

        def one(y: Any, m: Array, v: Array, noise: Array) -> Moments:
            sd = jnp.sqrt(v + jnp.finfo(v.dtype).tiny)
            three = jax.vmap(lambda e: derivatives(log_lik, y, m + sd * e))(noise)
            return rule(noise, sd, *three)

        return jax.vmap(one)(y, m, v, noise)

    return Sampled(estimate)
