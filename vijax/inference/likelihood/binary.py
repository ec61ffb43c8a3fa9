"""Labels y in {-1, +1}."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.inference.likelihood.base import Likelihood, Moments, require_sites
from vijax.inference.likelihood.log_sigmoid import of_log_sigmoid
from vijax.inference.likelihood.normal_tail import log_ndtr
from vijax.xla.by_value import by_value


@by_value
def bernoulli_logit() -> Likelihood:
    """p(y | z) = 1 / (1 + exp(-y z)), y = -1 or +1.

    >>> float(bernoulli_logit().log_prob(1, jnp.array(0.0)))
    -0.6931471824645996
    """

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        value, slope, curvature = of_log_sigmoid(y * m, v)
        return Moments(value, y * slope, curvature)

    return Likelihood(
        lambda y, z: jax.nn.log_sigmoid(y * z),
        name="bernoulli_logit",
        analytic=True,
        log_concave=True,
        closed_form=closed_form,
        density=lambda y, m, v: of_log_sigmoid(-y * m, v).slope,
        check=lambda y: _check_labels(y, "bernoulli_logit"),
        mean=jax.nn.sigmoid,
        sample=lambda key, z: _signs(z + jax.random.logistic(key, z.shape, z.dtype)),
    )


@by_value
def bernoulli_probit() -> Likelihood:
    """p(y | z) = Phi(y z), y = -1 or +1; accurate in both tails and in both precisions."""
    return Likelihood(
        lambda y, z: log_ndtr(y * z),
        name="bernoulli_probit",
        analytic=True,
        log_concave=True,
        density=lambda y, m, v: jax.scipy.special.ndtr(y * m * jax.lax.rsqrt(1.0 + v)),
        check=lambda y: _check_labels(y, "bernoulli_probit"),
        mean=jax.scipy.special.ndtr,
        sample=lambda key, z: _signs(z + jax.random.normal(key, z.shape, z.dtype)),
    )


def noisy_labels(flip: Any, clean: Likelihood | None = None) -> Likelihood:
    """Labels y, each wrong with an unknown probability e: p(y | z, e) = (1 - e) p(y | z) + e p(-y | z).

    This serves a posterior of e beside the one of z (`others` of `vijax.models.gp` and `glm`). A local variable says
    which labels are wrong; its q(t | z) is found exactly, so that the bound is

        E_z[log sum_t exp(E log p(t | e) + log p(t y | z))]  <=  E[log p(y | z, e)],

    and its gradient in (log e, log(1 - e)) the expected number of wrong and of right labels: the message of a Beta.

    Args:
      flip: statistics of a `vijax.Beta`, (E log e, E log(1 - e)).
      clean: p(y | z) of correct labels; `bernoulli_logit()` if None.

    >>> import vijax as vi
    >>> rate = vi.Beta.from_alpha_beta(1e6, 9e6).expected_stats()  # e = 0.1
    >>> lik = noisy_labels(rate)
    >>> [round(float(jnp.exp(lik.log_prob(y, jnp.array(9.0)))), 2) for y in (1, -1)]
    [0.9, 0.1]
    """
    clean = bernoulli_logit() if clean is None else clean

    def log_prob(y: Any, z: Array) -> Array:
        return jnp.logaddexp(flip.log1m + clean.log_prob(y, z), flip.log + clean.log_prob(-y, z))

    def kinks(y: Any) -> Float[Array, " kinks"]:
        """The bends: at 0, and where a wrong label becomes as likely as a right one."""
        turn = jnp.abs(flip.log1m - flip.log)
        return jnp.concatenate([clean.kinks(y), jnp.stack([-turn, turn])])

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        key_clean, key_flip = jax.random.split(key)
        wrong = jax.random.uniform(key_flip, z.shape) < jnp.exp(flip.log)
        right: Any = clean.sample
        return jnp.where(wrong, -1.0, 1.0) * right(key_clean, z)

    return Likelihood(
        log_prob,
        name="noisy_labels",
        kinks=kinks,
        width=clean.width,
        analytic=clean.analytic,
        check=lambda y: _check_labels(y, "noisy_labels"),
        mean=clean.mean,
        sample=None if clean.sample is None else sample,
    )


def _signs(z: Array) -> Array:
    return jnp.where(z > 0, 1.0, -1.0).astype(z.dtype)


def _check_labels(y: Any, name: str) -> None:
    labels = np.asarray(y)
    require_sites((labels == 1) | (labels == -1), name, "labels -1 or +1 (2*y - 1 makes them of 0 and 1)", labels)
