"""Expectations E_{N(m, v)}[log p(y | z)] of a likelihood of one predictor: functions (likelihood,
y, m, v, key) -> `Moments`, elementwise over sites.

By Bonnet's and Price's theorems the derivatives of E_{N(m, v)}[l(z)] are dE/dm = E[l'] and dE/dv =
E[l'']/2. So an estimate of (E l, E l', E l'') is an estimate of the bound and of its gradient in
the mean parameters (Khan et al. 2016, section 3.2)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require_integers
from vijax.families.numeric.logistic import log_sigmoid
from vijax.inference.likelihood import Likelihood, LogLik, Moments, as_likelihood
from vijax.xla.by_value import Function, cache_by_value

Expectation = Callable[
    [Likelihood, Any, Float[Array, " sites"], Float[Array, " sites"], PRNGKeyArray | None], Moments
]


def derivatives(log_lik: LogLik, y: Any, z: Float[Array, ""]) -> tuple[Array, Array, Array]:
    """(l, l', l'') at one z."""

    def slope(z: Array) -> tuple[Array, tuple[Array, Array]]:
        value, first = jax.value_and_grad(lambda x: log_lik(y, x))(z)
        return first, (value, first)

    second, (value, first) = jax.grad(slope, has_aux=True)(z)
    return value, first, second


REACH, RINGS = 9.0, 6
"""The range in standard deviations (the mass beyond nine is 2e-19), and the number of break points
on each side of a kink."""


@cache_by_value
def quadrature(num_nodes: int = 16) -> Expectation:
    """Composite Gauss-Legendre quadrature, refined at the kinks of the likelihood: accurate for any
    variance.

    The line is cut, in units of the standard deviation, at

        -9, -6, ..., 9     so that the Gaussian factor is smooth on every piece, and at
        c, c +- w r^k      around every kink c of width w, up to a distance of 9.

    So on each piece the nearest singularity of l is about as far away as the piece is long, and
    Gauss-Legendre quadrature converges geometrically on all pieces, uniformly in m, v, c and w.

    If no standard deviation exceeds w, and l is analytic within that distance of the line, 81
    equidistant nodes (39 in float32) are as good. Each call chooses one rule for all sites.

    The relative error is below 1e-9 in float64 for variances from 1e-6 to 1e6, for log-likelihoods
    that grow at most polynomially. With exponential growth, e^z, the mass lies beyond nine standard
    deviations when v is large.

    Args:
      num_nodes: nodes on each of 6 + 13 J pieces, for J kinks.

    >>> from vijax.inference.likelihood import bernoulli_logit
    >>> y, m, v = (jnp.array([x]) for x in (1, 0.0, 1e5))
    >>> moments = quadrature()(bernoulli_logit(), y, m, v, None)
    >>> round(float(moments.value[0]), 2)
    -126.16
    """
    require_integers(2, num_nodes=num_nodes)

    composite = _quadrature_rule(functools.partial(nodes, num_nodes=num_nodes))
    few = _quadrature_rule(_equidistant)

    def estimate(
        likelihood: Likelihood, y: Any, m: Array, v: Array, key: PRNGKeyArray | None
    ) -> Moments:
        likelihood = as_likelihood(likelihood)
        if not likelihood.analytic:
            return composite(likelihood, y, m, v, key)
        are_narrow = jnp.all(jnp.sqrt(v) <= likelihood.width)
        return jax.lax.cond(
            are_narrow,
            lambda: few(likelihood, y, m, v, key),
            lambda: composite(likelihood, y, m, v, key),
        )

    return estimate


@cache_by_value
def exact(num_nodes: int = 16) -> Expectation:
    """The closed form of the likelihood if it has one, else `quadrature`: the default."""
    fallback = quadrature(num_nodes)

    def estimate(
        likelihood: Likelihood, y: Any, m: Array, v: Array, key: PRNGKeyArray | None
    ) -> Moments:
        likelihood = as_likelihood(likelihood)
        if likelihood.closed_form is None:
            return fallback(likelihood, y, m, v, key)
        return jax.vmap(likelihood.closed_form)(y, m, v)

    return estimate


@cache_by_value
def gauss_hermite(num_nodes: int = 20) -> Expectation:
    """Gauss-Hermite quadrature: cheap, and accurate only if the standard deviation is not large
    compared with the length over which the likelihood bends."""
    x, weight = np.polynomial.hermite_e.hermegauss(num_nodes)
    weight = weight / weight.sum()

    def place(_: Likelihood, y: Any, m: Array, v: Array) -> tuple[Array, Array]:
        return m + jnp.sqrt(v) * jnp.asarray(x, m.dtype), jnp.asarray(weight, m.dtype)

    return _quadrature_rule(place)


def _quadrature_rule(
    place: Callable[[Likelihood, Any, Array, Array], tuple[Array, Array]],
) -> Expectation:
    """Quadrature with the nodes and weights that `place` returns for one site."""

    def estimate(
        likelihood: Likelihood, y: Any, m: Array, v: Array, key: PRNGKeyArray | None
    ) -> Moments:
        likelihood = as_likelihood(likelihood)

        def integrate(y: Any, m: Array, v: Array) -> Moments:
            z, weight = place(likelihood, y, m, v)
            values = jax.vmap(lambda x: derivatives(likelihood.log_prob, y, x))(z)
            return Moments(*(jnp.sum(weight * x) for x in values))

        return jax.vmap(integrate)(y, m, v)

    return estimate


def expect(
    function: Callable[[Any, Array], Array],
    likelihood: Likelihood,
    y: Any,
    m: Float[Array, " sites"],
    v: Float[Array, " sites"],
    num_nodes: int = 16,
) -> Float[Array, " sites"]:
    """E_{N(m, v)}[function(y, z)] for each site, for a function that bends where the likelihood
    bends.

    >>> from vijax.inference.likelihood import bernoulli_logit
    >>> y, m, v = jnp.ones(1), jnp.zeros(1), jnp.full(1, 4.0)
    >>> up = expect(lambda y, z: jax.nn.sigmoid(z), bernoulli_logit(), y, m, v)
    >>> round(float(up[0]), 4)
    0.5
    """

    def integrate(y: Any, m: Array, v: Array) -> Array:
        z, weight = nodes(likelihood, y, m, v, num_nodes)
        return jnp.sum(weight * jax.vmap(lambda x: function(y, x))(z))

    return jax.vmap(integrate)(y, m, v)


def nodes(
    likelihood: Likelihood, y: Any, m: Array, v: Array, num_nodes: int
) -> tuple[Array, Array]:
    """Nodes and weights for one site. They are computed in standard units, so a small variance at a
    large mean loses no digits. The nodes x are constants, z = m + sqrt(v) x is not."""
    t, w = np.polynomial.legendre.leggauss(num_nodes)
    scale = jnp.sqrt(v + jnp.finfo(v.dtype).tiny)  # a predictor may have zero variance
    edges = _breaks((likelihood.kinks(y) - m) / scale, likelihood.width / scale)
    edges = jax.lax.stop_gradient(edges)
    middle = 0.5 * (edges[1:] + edges[:-1])
    half = 0.5 * (edges[1:] - edges[:-1])
    x = (middle[:, None] + half[:, None] * jnp.asarray(t, scale.dtype)[None]).ravel()
    weight = (half[:, None] * jnp.asarray(w, scale.dtype)[None]).ravel() * jnp.exp(-0.5 * x**2)
    return m + scale * x, weight / jnp.sum(weight)


def _equidistant(likelihood: Likelihood, y: Any, m: Array, v: Array) -> tuple[Array, Array]:
    """Nodes m + s h k and weights of the trapezoidal rule. If no singularity is nearer than a
    standard deviation, its error is about 2 exp(1/2 - 2 pi / h): 1e-12 of the integrand in float64,
    3e-8 in float32."""
    step, reach = 0.34, 6.5
    if m.dtype == jnp.float64:
        step, reach = 0.22, REACH
    x = step * np.arange(-int(reach / step), int(reach / step) + 1)
    weight = np.exp(-0.5 * x**2)
    scale = jnp.sqrt(v + jnp.finfo(v.dtype).tiny)
    return m + scale * jnp.asarray(x, m.dtype), jnp.asarray(weight / weight.sum(), m.dtype)


def _breaks(kinks: Float[Array, " kinks"], width: Array) -> Float[Array, " breaks"]:
    """Sorted break points in [-9, 9]. Kinks outside give pieces of zero length and weight."""
    ratio = jnp.maximum(REACH / width, 1.0) ** (1.0 / (RINGS - 1))
    rings = width * ratio ** jnp.arange(RINGS, dtype=width.dtype)
    around = kinks[:, None] + jnp.concatenate([-rings, jnp.zeros(1, width.dtype), rings])[None]
    fixed = jnp.asarray(np.linspace(-REACH, REACH, 7), width.dtype)
    near_kinks = jnp.clip(around.ravel(), -REACH, REACH).astype(width.dtype)
    return jnp.sort(jnp.concatenate([fixed, near_kinks]))


Rule = Callable[[Array, Array, Array, Array, Array], Moments]
"""(noise, sd, l, l', l'') -> moments of one site; sd is a number, all others are (draws,)."""


class MonteCarlo(Function):
    """An expectation by draws. Its objective is noisy (`vijax.inference.spec.Spec.draws`)."""


@cache_by_value
def bonnet_price(num_samples: int = 100) -> Expectation:
    """E l', E l'' as averages of l', l'' over draws: the least noise; needs two derivatives."""

    def rule(noise: Array, sd: Array, f: Array, df: Array, ddf: Array) -> Moments:
        return Moments(jnp.mean(f), jnp.mean(df), jnp.mean(ddf))

    return _monte_carlo(num_samples, rule)


@cache_by_value
def reparameterised(num_samples: int = 100) -> Expectation:
    """E l'' as the average of l'(m + sd e) e / sd: needs one derivative. The curvature may have
    either sign."""

    def rule(noise: Array, sd: Array, f: Array, df: Array, ddf: Array) -> Moments:
        return Moments(jnp.mean(f), jnp.mean(df), jnp.mean(df * noise) / sd)

    return _monte_carlo(num_samples, rule)


@cache_by_value
def score_function(num_samples: int = 1000) -> Expectation:
    """E l', E l'' as averages of (l - b) e / sd and (l - b)(e^2 - 1) / v, with b the mean of the
    *other* draws: needs no derivative, and has the most noise.

    Raises:
      ValueError: fewer than two draws, so that there are no others.
    """
    require_integers(2, num_samples=num_samples)

    def rule(noise: Array, sd: Array, f: Array, df: Array, ddf: Array) -> Moments:
        centred = (f - jnp.mean(f)) * num_samples / (num_samples - 1)
        slope = jnp.mean(centred * noise) / sd
        return Moments(jnp.mean(f), slope, jnp.mean(centred * (noise**2 - 1)) / sd**2)

    return _monte_carlo(num_samples, rule)


def _monte_carlo(num_samples: int, rule: Rule) -> Expectation:
    """The expectation by draws with this rule."""
    require_integers(num_samples=num_samples)

    def estimate(
        likelihood: Likelihood, y: Any, m: Array, v: Array, key: PRNGKeyArray | None
    ) -> Moments:
        if key is None:
            raise ValueError("key: expected a random key for a Monte Carlo expectation, got None.")
        log_lik = as_likelihood(likelihood).log_prob
        noise = jax.random.normal(key, (*jnp.shape(m), num_samples), jnp.result_type(m))

        def average(y: Any, m: Array, v: Array, noise: Array) -> Moments:
            sd = jnp.sqrt(v + jnp.finfo(v.dtype).tiny)
            values = jax.vmap(lambda e: derivatives(log_lik, y, m + sd * e))(noise)
            return rule(noise, sd, *values)

        return jax.vmap(average)(y, m, v, noise)

    return MonteCarlo(estimate)


@cache_by_value
def jaakkola_jordan() -> Expectation:
    """The quadratic bound of Jaakkola and Jordan (2000) on the logistic likelihood (Blei,
    Kucukelbir and McAuliffe 2017, section 5.3): steps of size 1 are coordinate ascent.

        log sigma(y z) >= log sigma(xi) + (y z - xi)/2 - lambda(xi)(z^2 - xi^2),
        lambda(xi) = tanh(xi/2) / (4 xi)

    It is tight at z = +-xi. Its expectation under N(m, v) is greatest at xi^2 = m^2 + v, where the
    last term vanishes.

    Raises:
      ValueError: the likelihood is not `bernoulli_logit`.
    """

    def estimate(
        likelihood: Likelihood, y: Any, m: Array, v: Array, key: PRNGKeyArray | None
    ) -> Moments:
        name = getattr(likelihood, "name", None)
        if name != "bernoulli_logit":
            raise ValueError(
                f"likelihood: expected bernoulli_logit for the Jaakkola-Jordan bound, got {name}."
            )
        xi = jnp.sqrt(m**2 + v)
        curvature = -2.0 * quarter_tanhc(xi)
        value = log_sigmoid(xi) + 0.5 * (y * m - xi)
        return Moments(value, 0.5 * y + curvature * m, curvature)

    return estimate


def quarter_tanhc(xi: Array) -> Array:
    """tanh(xi/2) / (4 xi), by its series (1 - xi^2/12)/8 near 0."""
    small = xi < 1e-3
    safe = jnp.where(small, 1.0, xi)
    return jnp.where(small, 0.125 * (1.0 - xi**2 / 12.0), jnp.tanh(0.5 * safe) / (4.0 * safe))
