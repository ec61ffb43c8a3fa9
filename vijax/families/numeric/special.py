"""Fast special functions of a positive argument: log-gamma, digamma, trigamma and their
well-conditioned combinations.

In float32 each is one or two logarithms, a division or two and one polynomial in y = 1 / (1 + x),
without branches: a few nanoseconds per element on a CPU core, with an absolute or relative error of
a few units in the last place for every x > 0. In float64 they call `jax.scipy.special`, or an
asymptotic series where that would cancel. By custom rules the derivative of each is another of
them, so automatic differentiation is fast and exact, to any order.

Entropies, divergences and Fisher matrices of gammas and Dirichlets are differences of huge terms
(log Gamma(1e8) is 1.7e9: in float32 right to a hundred nats). Combinations such as log Gamma(x) - x
psi(x) + x are what remains once the huge terms have cancelled on paper."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jaxtyping import Array, Float

from vijax.families.base import as_float
from vijax.families.numeric import coefficients
from vijax.families.numeric.excess import horner, horner_slope, log_excess, log_excess_series

_HALF_LOG_TWO_PI = 0.9189385332046727
_SERIES_FROM = 12.0
"""Arguments from which the float64 asymptotic series below are exact to rounding."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""B_2, B_4, ..., of Stirling's series."""


def _use_in_float64(exact: Callable) -> Callable[[Callable], Callable]:
    """Decorator of a function for float32: float64 calls `exact`; NaN where x is not positive."""

    def decorate(fast: Callable) -> Callable:
        @functools.wraps(fast)
        def function(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
            x = as_float(x)
            if x.dtype == jnp.float64:
                return exact(jnp.where(x > 0, x, jnp.nan))
            x32 = x.astype(jnp.float32)
            return fast(jnp.where(x32 > 0, x32, jnp.nan)).astype(x.dtype)

        return function

    return decorate


def _trigamma_excess64(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    large = _clip_to_series(x)
    series = 0.5 / large + _bernoulli_series(_BERNOULLI, large) / large
    return jnp.where(x < _SERIES_FROM, x * jsp.zeta(2.0, x) - 1.0, series)


def _legendre_gap64(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    small = jnp.minimum(x, _SERIES_FROM)
    large = _clip_to_series(x)
    direct = jsp.gammaln(small) - small * jsp.digamma(small) + small
    series = _bernoulli_series([b / (2 * k + 1) for k, b in enumerate(_BERNOULLI)], large)
    asymptotic = 0.5 - 0.5 * jnp.log(large) + _HALF_LOG_TWO_PI + series
    return jnp.where(x < _SERIES_FROM, direct, asymptotic)


def _stirling_gap64(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    small = jnp.minimum(x, _SERIES_FROM)
    large = _clip_to_series(x)
    terms = [b / ((2 * k + 1) * (2 * k + 2)) for k, b in enumerate(_BERNOULLI)]
    series = _bernoulli_series(terms, large)
    direct = jsp.gammaln(small) - small * jnp.log(small) + small
    return jnp.where(x < _SERIES_FROM, direct, _HALF_LOG_TWO_PI - 0.5 * jnp.log(large) + series)


def _stirling_divergence64(
    x: Float[Array, "*shape"], x2: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    change = x2 - x
    step = change / x
    is_small = jnp.abs(step) < 1e-3
    centre = x + jnp.where(is_small, change, 0.0) / 3.0
    series = centre * trigamma_excess(centre) * log_excess_series(jnp.where(is_small, step, 0.0))
    direct = stirling_gap(x2) - stirling_gap(x) + change * log_minus_digamma(x)
    return jnp.where(is_small, series, direct)


def _log_minus_digamma64(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    large = _clip_to_series(x)
    terms = [b / (2 * k + 2) for k, b in enumerate(_BERNOULLI)]
    series = 0.5 / large + _bernoulli_series(terms, large) / large
    return jnp.where(x < _SERIES_FROM, jnp.log(x) - jsp.digamma(x), series)


def _clip_to_series(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """max(x, `_SERIES_FROM`); not by `maximum`, which halves its derivative at equality."""
    return jnp.where(x < _SERIES_FROM, _SERIES_FROM, x)


def _bernoulli_series(terms: Sequence[float], x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """sum_k terms[k] / x^(2k + 1)."""
    return horner(list(terms), 1.0 / (x * x)) / x


@jax.custom_jvp
@jax.jit
@_use_in_float64(jsp.gammaln)
def log_gamma(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log Gamma(x) for x > 0; NaN elsewhere.

    >>> round(float(log_gamma(5.0)), 4)
    3.1781
    """
    # Stirling's formula for Gamma(1 + x), centred at x + 1/2, and one step down.
    y = 1.0 / (1.0 + x)
    remainder = _HALF_LOG_TWO_PI + y * horner(coefficients.LOG_GAMMA, y)
    return (x + 0.5) * (jnp.log(x + 0.5) - 1.0) + remainder - jnp.log(x)


@jax.custom_jvp
@jax.jit
@_use_in_float64(jsp.digamma)
def digamma(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """psi(x) = d log Gamma(x) / dx for x > 0; NaN elsewhere."""
    y = 1.0 / (1.0 + x)
    return jnp.log(x + 0.5) + y * y * horner(coefficients.DIGAMMA, y) - 1.0 / x


@jax.custom_jvp
@jax.jit
@_use_in_float64(lambda x: jsp.zeta(2.0, x))
def trigamma(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """psi'(x) for x > 0; NaN elsewhere."""
    return (1.0 + _fast_trigamma_excess(x)) / x


@jax.custom_jvp
@jax.jit
@_use_in_float64(_legendre_gap64)
def legendre_gap(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log Gamma(x) - x psi(x) + x = -log(x) / 2 + O(1): the part of log-gamma that remains in
    entropies and divergences."""
    return 0.5 * jnp.log(x + 0.5) - jnp.log(x) + horner(coefficients.LEGENDRE_GAP, 1.0 / (1.0 + x))


@jax.custom_jvp
@jax.jit
@_use_in_float64(_log_minus_digamma64)
def log_minus_digamma(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log(x) - psi(x) = 1 / 2x + O(1 / x^2), which is positive, without cancellation."""
    y, inverse = 1.0 / (1.0 + x), 1.0 / x
    return inverse - jnp.log1p(0.5 * inverse) - y * y * horner(coefficients.DIGAMMA, y)


@jax.jit
@_use_in_float64(_trigamma_excess64)
def trigamma_excess(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """u(x) = x psi'(x) - 1 = 1 / 2x + O(1 / x^2), which is positive."""
    return _fast_trigamma_excess(x)


def inverse_trigamma(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """w(x) = 1 / psi'(x): x^2 for small x, x - 1/2 for large."""
    return x / (1.0 + trigamma_excess(x))


def trigamma_deficit(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """r(x) = x - 1 / psi'(x), between 0 and 1/2: a term of a Dirichlet's inverse Fisher matrix."""
    return x * relative_trigamma_deficit(x)


def relative_trigamma_deficit(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """r(x) / x = 1 - 1 / (x psi'(x)), between 0 and 1."""
    excess = trigamma_excess(x)
    return excess / (1.0 + excess)


@jax.custom_jvp
@jax.jit
@_use_in_float64(_stirling_gap64)
def stirling_gap(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """S(x) = log Gamma(x) - x log x + x = -log(x) / 2 + O(1), Stirling's remainder: convex and
    decreasing, with S' = psi(x) - log x."""
    # log Gamma as above, less x log x - x, with log(x + 1/2) = log x + log1p(1 / 2x).
    y = 1.0 / (1.0 + x)
    remainder = _HALF_LOG_TWO_PI - 0.5 + y * horner(coefficients.LOG_GAMMA, y)
    return (x + 0.5) * jnp.log1p(0.5 / x) - 0.5 * jnp.log(x) + remainder


@jax.custom_jvp
@jax.jit
def stirling_divergence(
    x: Float[Array, "*shape"], x2: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """R(x, x') = S(x') - S(x) - (x' - x) S'(x) with S = `stirling_gap`: the Bregman divergence of
    S, never negative.

    With x = s, x' = t s it is int_1^t (t - u) v(u s) / u^2 du. Here v = s^2 S'' = s u(s)
    (`trigamma_excess`), which falls from 1 for small s to 1/2 for large s. Near t = 1, v is
    evaluated at the centre of the weight, a third of the way: the relative error is of order (t -
    1)^2 / 100."""
    if x.dtype == jnp.float64:
        return _stirling_divergence64(x, x2)
    return _fast_stirling_divergence(x, x2)


def log_minus_digamma_drop(
    x: Float[Array, "*shape"], r: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """e(x) - e(x + r), e = log - psi, for r >= 0, however small; it has no derivative rule."""
    x2 = x + r
    if x.dtype == jnp.float64:
        return log_minus_digamma(x) - log_minus_digamma(x2)
    y, y2 = 1.0 / (1.0 + x), 1.0 / (1.0 + x2)
    slope = horner_slope((0.0, 0.0, *coefficients.DIGAMMA), y, y2)
    return r / x / x2 - jnp.log1p(0.5 * r / x / (x2 + 0.5)) - r * y * y2 * slope


def expm1_minus_identity(y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """exp(y) - 1 - y, which is not negative; accurate for small y too."""
    small = jnp.clip(y, -0.5, 0.5)
    factorials = np.cumprod(np.arange(1.0, 16.0))
    series = small * small * horner(tuple(1.0 / factorials[1:]), small)
    return jnp.where(jnp.abs(y) < 0.5, series, jnp.expm1(y) - y)


def excess_over_log(m: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """m - 1 - log m, which is not negative; accurate for m near 1 and for m near 0."""
    return log_excess(m - 1.0, jnp.log(m))


# --- derivatives ----------------------------------------------------------------------------------
# `trigamma_excess` has no rule: the derivative of its polynomial is right to 1e-6.
log_gamma.defjvps(lambda dx, _, x: digamma(x) * dx)
digamma.defjvps(lambda dx, _, x: trigamma(x) * dx)
trigamma.defjvps(lambda dx, _, x: jsp.polygamma(2, x) * dx)
legendre_gap.defjvps(lambda dx, _, x: -trigamma_excess(x) * dx)
log_minus_digamma.defjvps(lambda dx, _, x: -trigamma_excess(x) / x * dx)
stirling_gap.defjvps(lambda dx, _, x: -log_minus_digamma(x) * dx)
stirling_divergence.defjvps(
    lambda dx, _, x, x2: (x - x2) / x * trigamma_excess(x) * dx,
    lambda dx2, _, x, x2: (log_minus_digamma(x) - log_minus_digamma(x2)) * dx2,
)


def _half_step_log(
    x: Float[Array, "*shape"], inverse: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """log(1 + 1 / 2x): the logarithm itself for x < 1, else by log(1 + h) = 2 artanh(s), s = 1 /
    (4x + 1)."""
    s = 1.0 / (4.0 * x + 1.0)
    series = 2.0 * s * horner((1.0, 1 / 3, 1 / 5, 1 / 7, 1 / 9), s * s)
    return jnp.where(x < 1.0, jnp.log(1.0 + 0.5 * inverse), series)


def _fast_stirling_divergence(
    x: Float[Array, "*shape"], x2: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """R(x, x') in float32: the difference with S as in `stirling_gap` and e as in
    `log_minus_digamma`; near x' = x Taylor's series in the relative step h."""
    change = x2 - x
    inverse, inverse2 = 1.0 / x, 1.0 / x2
    y, y2 = 1.0 / (1.0 + x), 1.0 / (1.0 + x2)
    step = change * inverse
    remainder = lambda y: y * horner(coefficients.LOG_GAMMA, y)
    log_change = _half_step_log(x2, inverse2) - _half_step_log(x, inverse)
    logs = (x2 + 0.5) * log_change + 0.5 * jnp.log(x * inverse2)
    slope = y * y * horner(coefficients.DIGAMMA, y)
    direct = logs + (remainder(y2) - remainder(y)) + step - change * slope
    is_small = jnp.abs(step) < 0.1
    h = jnp.where(is_small, step, 0.0)
    shift = (1.0 - y) * h / 3.0
    # 1 / (1 + centre), centre = x (1 + h / 3)
    z = y * (1.0 - shift * (1.0 - shift * (1.0 - shift)))
    curvature = 1.0 - (1.0 - z) * horner(coefficients.TRIGAMMA, z)
    series = curvature * h * h * horner([(-1) ** k / (k + 2) for k in range(7)], h)
    return jnp.where(is_small, series, direct)


def _fast_trigamma_excess(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    y = 1.0 / (1.0 + x)
    return 1.0 / x - y * horner(coefficients.TRIGAMMA, y)
