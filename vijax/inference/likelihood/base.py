"""`Likelihood`, p(y | z) of one observation given one scalar predictor, with its shape for
quadrature."""

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
    """Expectations of l(z) = log p(y | z) under z ~ N(m, v): all that a Gaussian posterior needs
    from a likelihood."""

    value: Float[Array, "*sites"]  # E[l]
    slope: Float[Array, "*sites"]  # E[l'] = dE[l]/dm (Bonnet)
    curvature: Float[Array, "*sites"]  # E[l''] = 2 dE[l]/dv (Price)


class UnknownNoise(NamedTuple):
    """The noise of a likelihood that a model has to learn."""

    law: Callable[[Any, float], Any]
    """(statistics of the precision of the noise, unit of y and z) -> the complete `Likelihood`. The
    precision and the density are for y in units of one."""
    is_heavy_tailed: bool
    """True if single observations may lie far out."""


def _kink_zero(y: Any) -> Float[Array, " 1"]:
    return jnp.zeros(1)


def _accept_all(y: Any) -> None:
    return None


@dataclasses.dataclass(frozen=True, eq=False)
class Likelihood(Remade):
    """p(y | z), written for one observation.

    Attributes:
      log_prob: (y, z) -> log p(y | z), twice differentiable in z, growing at most polynomially.
      name: its name in messages.
      kinks: y -> the points z where log p(y | .) bends, shape (J,). Quadrature is refined there.
      width: the length over which it bends.
      analytic: log p(y | .) has no singularity nearer to the real line than about `width`. Then one
        rule of few nodes serves if the standard deviations of all predictors are below `width`.
      log_concave: log p(y | z) is concave in z for every y, so every site has nonnegative
        precision.
      closed_form: (y, m, v) -> `Moments`; None if unknown.
      density: (y, m, v) -> E p(y | z); None if unknown.
      check: raises ValueError for observations outside the support, naming the first such site.
      mean: z -> E[y | z], for labels -1 and +1 the probability of +1; None if unknown.
      cdf: (y, z) -> P(Y <= y | z); None for labels, and if unknown.
      sample: (key, z) -> a drawn observation for each entry of z; None if there is no method.
      noise: the noise that a model has to learn before the likelihood is complete; None if it is
        given.

    >>> log_prob = lambda y, z: -jnp.log1p((y - z) ** 2)
    >>> cauchy = Likelihood(log_prob, kinks=lambda y: y[None], width=1.0)
    >>> float(cauchy.log_prob(jnp.array(1.0), jnp.array(1.0)))
    -0.0
    """

    log_prob: LogLik
    name: str = "a likelihood of your own"
    kinks: Callable[[Any], Float[Array, " kinks"]] = _kink_zero
    width: float | Array = 3.0
    analytic: bool = False
    log_concave: bool = False
    closed_form: Callable[[Any, Array, Array], Moments] | None = None
    density: Callable[[Any, Array, Array], Array] | None = None
    check: Callable[[Any], None] = _accept_all
    mean: Callable[[Array], Array] | None = None
    cdf: Callable[[Any, Array], Array] | None = None
    sample: Callable[[PRNGKeyArray, Array], Array] | None = None
    noise: UnknownNoise | None = None


def as_likelihood(likelihood: Likelihood | LogLik) -> Likelihood:
    """A `Likelihood` unchanged, or a likelihood made of log p(y | z), with its bend at z = 0.
    TypeError for anything else."""
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
    """A check of observations. It raises ValueError unless they are an array of `num_axes` axes
    (None: any number), and names the first site at which `inside` is not true for all entries."""

    def check(y: Any) -> None:
        values = np.asarray(y)
        if num_axes is not None and values.ndim != num_axes:
            is_column = num_axes == 1 and values.size == len(values)
            remedy = " Pass numpy.ravel(y)." if is_column else ""
            raise ValueError(
                f"y: {name} expects one number for each site, shape (N,), got "
                f"{values.shape}.{remedy}"
            )
        bad = np.flatnonzero(~np.asarray(inside(values)).reshape(len(values), -1).all(axis=1))
        if bad.size:
            first = values[bad[0]].tolist()
            raise ValueError(
                f"y: {name} expects {expected}, got {first} at site {bad[0]} ({bad.size} such "
                "sites in all)."
            )

    return check
