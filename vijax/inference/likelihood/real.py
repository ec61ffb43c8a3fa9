"""Likelihoods of real observations about z, with noise that is given, or unknown and learnt.

The precision tau of unknown noise is a global with a gamma posterior:

    y | z, tau ~ N(z, 1 / tau),   or
    y | z, tau, lambda ~ N(z, 1 / (tau lambda)),  lambda ~ Gamma(nu / 2, nu / 2).

In the second, Student's law, lambda is integrated out. The bound is linear in (log tau, tau) at the
optimum of lambda, so the message of tau is conjugate. With all data, the posterior mean of tau
under a normal law is the maximum of the evidence times the prior of log tau: the updates are those
of EM."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, gammaln, ndtr
from jaxtyping import Array, Float

from vijax.arguments import Positives, check_arguments
from vijax.families.base import as_float
from vijax.inference.likelihood.base import Likelihood, Moments, UnknownNoise, support
from vijax.xla.by_value import cache_by_value

LOG_TWO_PI = math.log(2 * math.pi)


@cache_by_value
@check_arguments
def gaussian(variance: Positives | None = None) -> Likelihood:
    """p(y | z) = N(y; z, s^2): the conjugate case, where one step of size 1 is exact inference.

    Args:
      variance: variance s^2 of the noise. Without it the noise is unknown: `vijax.models.gp` and
        `glm` learn it from y.
    """
    if variance is None:
        return _incomplete("gaussian", "variance", normal_of_noise)
    return _normal(jnp.asarray(variance))


@cache_by_value
@check_arguments
def student_t(degrees: Positives = 4.0, scale: Positives | None = None) -> Likelihood:
    """p(y | z) = Student-t(y; location z, scale s, nu degrees of freedom). Not log-concave: sites
    of outliers may have negative precision.

    Args:
      degrees: degrees of freedom.
      scale: scale s of the noise. Without it the noise is unknown: `vijax.models.gp` and `glm`
        learn it from y.
    """
    nu = as_float(degrees)
    if scale is None:
        return _incomplete("student_t", "scale", _student_of_noise(nu))
    return _student(nu, as_float(scale))


# --- noise that is given --------------------------------------------------------------------------
def _normal(s2: Array) -> Likelihood:
    def log_prob(y: Any, z: Array) -> Array:
        return -0.5 * (y - z) ** 2 / s2 - 0.5 * jnp.log(2 * math.pi * s2)

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        curvature = jnp.broadcast_to(-1.0 / s2, jnp.shape(m))
        return Moments(log_prob(y, m) - 0.5 * v / s2, (y - m) / s2, curvature)

    return Likelihood(
        log_prob,
        name="gaussian",
        log_concave=True,
        closed_form=closed_form,
        density=lambda y, m, v: _normal_density(y, m, v + s2),
        check=_finite("gaussian"),
        mean=lambda z: z,
        cdf=lambda y, z: ndtr((y - z) / jnp.sqrt(s2)),
        sample=lambda key, z: (
            z + jnp.sqrt(s2).astype(z.dtype) * jax.random.normal(key, z.shape, z.dtype)
        ),
    )


def _normal_density(y: Any, mean: Array, variance: Array) -> Array:
    return jnp.exp(-0.5 * (y - mean) ** 2 / variance) / jnp.sqrt(2 * math.pi * variance)


def _student(nu: Array, s: Array) -> Likelihood:
    def log_prob(y: Any, z: Array) -> Array:
        bend = 0.5 * (nu + 1) * jnp.log1p(((y - z) / s) ** 2 / nu)
        return _student_constant(nu) - jnp.log(s) - bend

    def cdf(y: Any, z: Array) -> Array:
        t = (y - z) / s
        tail = 0.5 * betainc(0.5 * nu, jnp.full_like(nu, 0.5), nu / (nu + t**2))
        return jnp.where(t > 0, 1.0 - tail, tail)

    return Likelihood(
        log_prob,
        name="student_t",
        kinks=lambda y: jnp.atleast_1d(y),
        width=s * jnp.sqrt(nu),
        analytic=True,
        check=_finite("student_t"),
        mean=lambda z: z,
        cdf=cdf,
        sample=lambda key, z: (
            z + s.astype(z.dtype) * jax.random.t(key, nu.astype(z.dtype), z.shape, z.dtype)
        ),
    )


def _student_constant(nu: Array) -> Array:
    return gammaln(0.5 * (nu + 1)) - gammaln(0.5 * nu) - 0.5 * jnp.log(nu * math.pi)


def _finite(name: str) -> Callable[[Any], None]:
    return support(name, "finite numbers", np.isfinite)


# --- noise that is unknown ------------------------------------------------------------------------
def _incomplete(name: str, argument: str, law: Callable[[Any, float], Likelihood]) -> Likelihood:
    """A likelihood without its noise. A model that learns the noise reads `noise`; any other use is
    an error."""

    def refuse(*_: Any) -> NoReturn:
        raise ValueError(
            f"likelihood: expected {name}({argument}=...), got one whose noise is unknown. Only "
            "vijax.models.gp and glm learn it. The law that they have learnt is "
            "model.law(fit.posterior)."
        )

    is_normal = name == "gaussian"
    return Likelihood(
        refuse,
        name=name,
        kinks=refuse,
        log_concave=is_normal,
        check=_finite(name),
        mean=refuse,
        cdf=refuse,
        sample=refuse,
        noise=UnknownNoise(law, is_heavy_tailed=not is_normal),
    )


def normal_of_noise(noise: Any, unit: float = 1.0) -> Likelihood:
    """N(y; z, 1 / tau), at statistics of tau.

    Args:
      noise: E log tau and E tau, as in `vijax.Gamma.expected_stats`.
      unit: the unit of y and z. The precision tau and all densities are in units of one.

    >>> from vijax.families import Gamma
    >>> tau = Gamma.from_shape_rate(1e6, 1e6).expected_stats()
    >>> print(normal_of_noise(tau).log_prob(jnp.array(1.0), jnp.array(0.0)).round(3))
    -1.419
    """
    precision = unit**2 * noise.value

    def log_prob(y: Any, z: Array) -> Array:
        return 0.5 * (noise.log - LOG_TWO_PI - precision * (y - z) ** 2)

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        value = log_prob(y, m) - 0.5 * precision * v
        return Moments(value, precision * (y - m), jnp.broadcast_to(-precision, jnp.shape(m)))

    normal = _normal(1.0 / precision)
    density: Any = normal.density
    return dataclasses.replace(
        normal,
        log_prob=log_prob,
        closed_form=closed_form,
        density=lambda y, m, v: density(y, m, v) / unit,
    )


def _student_of_noise(nu: Array) -> Callable[[Any, float], Likelihood]:
    """Student's law of squared scale 1 / tau, at statistics of tau; else as `normal_of_noise`."""

    def law(noise: Any, unit: float = 1.0) -> Likelihood:
        precision = unit**2 * noise.value

        def log_prob(y: Any, z: Float[Array, ""]) -> Array:
            bend = 0.5 * (nu + 1) * jnp.log1p(precision * (y - z) ** 2 / nu)
            return _student_constant(nu) + 0.5 * noise.log - bend

        return dataclasses.replace(_student(nu, 1.0 / jnp.sqrt(precision)), log_prob=log_prob)

    return law
