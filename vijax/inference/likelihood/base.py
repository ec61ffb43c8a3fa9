"""Likelihoods p(y | z) of one observation given one scalar predictor, with facts about their shape
for quadrature."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.xla.by_value import Remade

LogLik = Callable[[Any, Float[Array, ""]], Float[Array, ""]]
"""(y, z) -> log p(y | z), for one observation and a scalar z."""


class Moments(NamedTuple):
    """Expectations under z ~ N(m, v) of l(z) = log p(y | z): all that a Gaussian posterior needs of
    a likelihood."""

    value: Float[Array, "*sites"]  # E[l]
    slope: Float[Array, "*sites"]  # E[l'] = dE[l]/dm (Bonnet)
    curvature: Float[Array, "*sites"]  # E[l''] = 2 dE[l]/dv (Price)


class UnknownNoise(NamedTuple):
    """The noise of a likelihood, where it is to be learnt."""

    law: Callable[[Any, float], Any]
    """(statistics of the precision of the noise, unit of y and z) -> the complete `Likelihood`. The
    precision is that of y in units of one, as the density is."""
    is_heavy_tailed: bool
    """True where single observations may lie far out."""


def _at_zero(y: Any) -> Float[Array, " 1"]:
    return jnp.zeros(1)


def _anything(y: Any) -> None:
    return None


@dataclasses.dataclass(frozen=True, eq=False)
class Likelihood(Remade):
    """p(y | z), written for one observation.

    Attributes:
      log_prob: (y, z) -> log p(y | z), twice differentiable in z, growing at most polynomially.
      name: its name in messages.
      kinks: y -> where log p(y | .) bends, shape (J,): quadrature is refined there.
      width: the length over which it bends.
      analytic: log p(y | .) has no singularity nearer to the real line than about `width`: one rule
        of few nodes then serves while the standard deviations of all predictors are below `width`.
      log_concave: log p(y | z) is concave in z for every y, so that every site has nonnegative
          precision.
      closed_form: (y, m, v) -> `Moments`, where known.
      density: (y, m, v) -> E p(y | z), where known.
      check: raises ValueError for observations outside the support, naming the first such site.
      mean: z -> E[y | z], for labels -1 and +1 the probability of +1; None where it is not known.
      cdf: (y, z) -> P(Y <= y | z); None for labels, and where it is not known.
      sample: (key, z) -> a drawn observation for each entry of z; None where there is no method.
      noise: the noise that a model has to learn before the likelihood is complete; None where it is
          given.

    >>> cauchy = Likelihood(lambda y, z: -jnp.log1p((y - z) ** 2), kinks=lambda y: y[None], width=1.0)
    >>> float(cauchy.log_prob(jnp.array(1.0), jnp.array(1.0)))
    -0.0
    """

    log_prob: LogLik
    name: str = "a likelihood of your own"
    kinks: Callable[[Any], Float[Array, " kinks"]] = _at_zero
    width: float | Array = 3.0
    analytic: bool = False
    log_concave: bool = False
    closed_form: Callable[[Any, Array, Array], Moments] | None = None
    density: Callable[[Any, Array, Array], Array] | None = None
    check: Callable[[Any], None] = _anything
    mean: Callable[[Array], Array] | None = None
    cdf: Callable[[Any, Array], Array] | None = None
    sample: Callable[[PRNGKeyArray, Array], Array] | None = None
    noise: UnknownNoise | None = None


def as_likelihood(likelihood: Likelihood | LogLik) -> Likelihood:
    """A likelihood as it is, or a bare log p(y | z) as one that bends at z = 0. Raises TypeError:
    it is neither."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if not callable(likelihood):
        expected = (
            "expected one of vijax.likelihood, such as poisson_log(), or a function log_lik(y, z)"
        )
        raise TypeError(f"likelihood: {expected}, got {likelihood!r}.")
    return Likelihood(likelihood)


def support(
    name: str, expected: str, inside: Callable[[np.ndarray], Any], num_axes: int | None = 1
) -> Callable[[Any], None]:
    """A check of observations: it raises ValueError where they are no array of `num_axes` axes
    (None: any number), and names the first site where `inside` is not true throughout."""

    def check(y: Any) -> None:
        values = np.asarray(y)
        if num_axes is not None and values.ndim != num_axes:
            remedy = " Pass numpy.ravel(y)." if num_axes == 1 and values.size == len(values) else ""
            raise ValueError(
                f"y: {name} expects one number for each site, shape (N,), got "
                f"{values.shape}.{remedy}"
            )
        bad = np.flatnonzero(~np.asarray(inside(values)).reshape(len(values), -1).all(axis=1))
        if bad.size:
            got, count = values[bad[0]].tolist(), bad.size
            raise ValueError(
                f"y: {name} expects {expected}, got {got} at site {bad[0]} ({count} such sites in "
                "all)."
            )

    return check
