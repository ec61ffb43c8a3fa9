"""Emissions of binary values, counts and words."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.arguments import Positives, Size, check_arguments
from vijax.contract.expected import least, rate_strain
from vijax.contract.room import limit_sizes
from vijax.families import Beta, Dirichlet, Gamma
from vijax.families.scalar.poisson import poisson_values
from vijax.models.emission.base import (
    INCOMPLETE,
    Emission,
    Marginal,
    PriorColumns,
    checker,
    full,
    is_count,
)
from vijax.models.emission.missing import cells_of_bernoulli, cells_of_poisson
from vijax.xla.by_value import cache_by_value


@cache_by_value
@limit_sizes
@check_arguments
def bernoulli(
    num_components: Size, dim: Size, alpha: Positives = 1.0, beta: Positives = 1.0
) -> Emission:
    """D independent binary values; each component's probabilities are Beta(alpha, beta).

    Args:
      num_components: K, number of components.
      dim: D, number of columns.
      alpha: prior pseudo-count of ones.
      beta: prior pseudo-count of zeros.

    >>> bernoulli(3, dim=5).prior.batch_shape
    (3, 5)
    """
    shape = num_components, dim
    prior = Beta.from_alpha_beta(full("alpha", alpha, shape), full("beta", beta, shape))
    binary = lambda x: (x == 0) | (x == 1)
    return Emission(
        prior=prior,
        log_likelihood=lambda s, y: s.log @ y + s.log1m @ (1 - y),
        example=np.zeros(dim),
        check=checker(dim, binary, "zeros and ones", remedy=INCOMPLETE),
        predictive=_bernoulli_predictive,
        sample=lambda p, k, y, key: jax.random.bernoulli(key, p[k]).astype(y.dtype),
        marginal=Marginal(cells_of_bernoulli),
    )


def _bernoulli_predictive(q: Beta, y: Float[Array, " D"]) -> Float[Array, " K"]:
    """sum_d log E[p_kd] or log E[1 - p_kd]."""
    return jnp.sum(jnp.log(jnp.where(y > 0.5, q.alpha, q.beta) / (q.alpha + q.beta)), axis=-1)


@cache_by_value
@limit_sizes
@check_arguments
def poisson(
    num_components: Size, dim: Size, shape: Positives = 1.0, rate: Positives = 1.0
) -> Emission:
    """D independent counts; each component's rates are Gamma(shape, rate).

    Args:
      num_components: K, number of components.
      dim: D, number of columns.
      shape: shape of the gamma prior of the rates.
      rate: rate of the same prior.
    """
    sizes = num_components, dim
    prior = Gamma.from_shape_rate(full("shape", shape, sizes), full("rate", rate, sizes))

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        return s.log @ y - jnp.sum(s.value, -1) - jnp.sum(gammaln(y + 1))

    check = checker(dim, is_count, "counts 0, 1, 2, ...", remedy=INCOMPLETE)
    draw = lambda rates, k, y, key: poisson_values(key, rates[k]).astype(y.dtype)
    remedy = "Give the emission a smaller `rate`, about `shape` divided by the mean of the counts."
    strain = least(rate_strain(full("rate", rate, sizes), num_components))
    expects = PriorColumns(strain, "whose rates the prior knows as from a row or more", remedy)
    return Emission(
        prior,
        log_likelihood,
        np.ones(dim),
        check,
        sample=draw,
        expects=expects,
        marginal=Marginal(cells_of_poisson),
    )


@cache_by_value
@limit_sizes
@check_arguments
def categorical(num_components: Size, vocab_size: Size, eta: Positives = 1.0) -> Emission:
    """Bags of words: each component has word probabilities from a Dirichlet(eta). An observation is
    a vector of V counts; its likelihood is that of the words in order, without the multinomial
    coefficient. One-hot rows are plain categorical data.

    Args:
      num_components: K, number of components.
      vocab_size: V, number of words.
      eta: prior concentration of word probabilities.
    """
    sizes = num_components, vocab_size
    prior = Dirichlet.from_concentration(full("eta", eta, sizes))
    check = checker(vocab_size, is_count, "counts 0, 1, 2, ...")
    return Emission(
        prior,
        lambda s, y: s.log @ y,
        np.ones(vocab_size),
        check,
        sample=_draw_words,
        has_totals=True,
    )


def _draw_words(p: Array, k: Array, y: Float[Array, " V"], key: PRNGKeyArray) -> Float[Array, " V"]:
    """A bag of words with the total of the observation."""
    return jax.random.multinomial(key, jnp.sum(y), p[k]).astype(y.dtype)
