"""Log-gamma draws, differentiable in the shape: the source of every Dirichlet, gamma and beta
sample.

Draws stay in log space throughout: 92 % of Gamma(1e-3) draws are zero in float32, and the models
need log x. Marsaglia and Tsang's method draws Gamma(a + 1), boosted down to a by a uniform to the
power 1 / a. The uniform comes from the acceptance test: if U < exp(h) was accepted, U / min(1,
exp(h)) is uniform again. A draw is stored as its offset L = log x - log(a + 2/3), which keeps the
digits that log x loses (1e-6 of a float32 log x at a = 1e6).

Random words come from a counter-based generator indexed by element and round, seeded by two words
of any kind of key. So results do not depend on how the array is split over devices, and only
rejected elements are redrawn. A draw with its derivative takes some 16 ns per element on one CPU
core (`benchmarks/log_gamma.py`).

The derivative is the elasticity G(a, x) = a d log x / da at a fixed quantile: with F(x; a) the
distribution function, d log x / da = -(dF/da) / (x p(x; a)) (implicit reparameterisation; J in
Hoffman and Blei 2015, eq. 7). In float32 G - 1 = K(t, s) - L, with t = exp(L / 3) - 1, s = (2/3) /
(a + 2/3) and K one polynomial for all shapes up to 3e6 and quantiles 1e-9 to 1 - 1e-10
(`benchmarks/fit_coefficients.py`), without branches, of relative error 4e-6 / sqrt(1 + a). In
float64, and for every derivative of G, the trapezium rule gives the integral itself."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from vijax.families.base import as_float
from vijax.families.numeric import coefficients
from vijax.families.numeric.special import digamma, expm1_minus_identity, horner, log_minus_digamma
from vijax.xla import native
from vijax.xla.threefry import threefry2x32

_REJECTED = jnp.inf
"""Value of a rejected proposal; a second output would make XLA compute the proposal twice."""
_GROUP = 32  # elements whose rejections share one word of flags
_MAX_ROUNDS = 64  # a bound on the loop; at least 0.95 of the proposals of a round are accepted
_NORMAL_RANGE = (2.0**0.5, 4.8)  # range of the fit of the normal quantile
_RADIUS = 1.9  # largest |t| of the fit
_STEP = 0.06
_TAU = np.arange(-4.2, 4.3, _STEP)
_NODES = np.exp(_TAU - np.exp(-_TAU))
_WEIGHTS = _NODES * (1.0 + np.exp(-_TAU)) * _STEP
_FARTHEST = 30.0  # exp(-x expm1(30)) is zero for any x that meets it; keeps the derivatives finite


def sample_offset(
    key: PRNGKeyArray, concentration: Float[Array, "*shape"], shape: tuple[int, ...] = ()
) -> Array:
    """L = log x - log(concentration + 2/3) of draws x ~ Gamma(concentration, 1), differentiable."""
    a = as_float(concentration)
    seed = jax.random.bits(key, (2,), jnp.uint32)
    return _offset(seed, jnp.broadcast_to(a, (*shape, *a.shape)))


def log_gamma_from_offset(
    concentration: Float[Array, "*shape"], offset: Float[Array, "*shape"]
) -> Array:
    """log x = L + log(concentration + 2/3)."""
    return offset + jnp.log(concentration + 2 / 3)


@jax.custom_jvp
def _offset(seed: UInt32[Array, "*two"], a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    dtype = a.dtype
    if dtype not in (jnp.float32, jnp.float64):
        return _offset(seed, a.astype(jnp.float32)).astype(dtype)
    if a.size == 0:
        return a
    (offsets,) = native.run_kernel(
        "gamma_offsets", [(a.size,)], _offsets_in_xla, seed, a.reshape(-1)
    )
    return offsets.reshape(a.shape)


@_offset.defjvp
def _offset_jvp(primals: tuple, tangents: tuple) -> tuple:
    seed, a = primals
    offset = _offset(seed, a)
    # dL/da = d log x / da - 1 / (a + 2/3), without the difference of nearly equal terms.
    slope = (elasticity_minus_one(a, offset) + (2 / 3) / (a + 2 / 3)) / a
    return offset, slope * tangents[1]


_FIXED_ROUNDS = 6


def offset_without_loop(
    seed: UInt32[Array, "*two"], concentration: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """Offsets as of `sample_offset`, not differentiable, where every operation has its cost: the
    first accepted of six proposals, one operation in all. One draw in some 1e8 has none, and is the
    middle of its law."""

    def draw(seed: Array, a: Array) -> tuple[Array]:
        # All proposals as one array: unrolled they would take six times as long to compile.
        shape = (_FIXED_ROUNDS, a.size)
        round_, index = (lax.broadcasted_iota(jnp.uint32, shape, axis) for axis in (0, 1))
        candidates = _propose(seed, round_, index, jnp.broadcast_to(a, shape))
        offsets = jnp.zeros_like(a)
        for candidate in candidates[::-1]:
            offsets = jnp.where(candidate == _REJECTED, offsets, candidate)
        return (offsets,)

    flat = concentration.reshape(-1)
    (offsets,) = native.run_kernel("gamma_offsets", [flat.shape], draw, seed, flat)
    return offsets.reshape(concentration.shape)


# --- rejection ------------------------------------------------------------------------------------
def _offsets_in_xla(seed: UInt32[Array, "*two"], a: Float[Array, "*n"]) -> tuple[Array]:
    """The computation of the kernel `gamma_offsets`, in XLA."""
    is_valid = (a > 0) & jnp.isfinite(a)
    offsets = _accepted_offsets(seed, jnp.where(is_valid, a, 1.0))
    return (jnp.where(is_valid, offsets, jnp.nan),)


@jax.jit
def _accepted_offsets(seed: UInt32[Array, "*two"], a: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """One round over all elements, then rounds over the rejected ones, each with one candidate per
    group of 32: first for all groups, and once few have rejections left for a list of these."""
    index = lax.iota(jnp.uint32, a.size)
    offsets = lax.optimization_barrier(_propose(seed, jnp.uint32(0), index, a))
    flags = lax.optimization_barrier(_pack(offsets == _REJECTED))
    few = max(flags.size // 8, 1)
    state = _Rejections(jnp.uint32(1), flags, offsets)
    state = _redraw_until(few, seed, a, lax.iota(jnp.uint32, flags.size), state)
    (active,) = jnp.nonzero(state.flags, size=few, fill_value=flags.size)
    state = state._replace(flags=state.flags.at[active].get(mode="fill", fill_value=0))
    return _redraw_until(0, seed, a, active.astype(jnp.uint32), state).offsets


class _Rejections(NamedTuple):
    """State of the rounds."""

    round: UInt32[Array, ""]
    flags: UInt32[Array, "*groups"]  # one bit per rejected element
    offsets: Float[Array, "*n"]


def _redraw_until(
    few: int, seed: Array, a: Array, groups: UInt32[Array, "*groups"], state: _Rejections
) -> _Rejections:
    """Rounds with a new candidate for the lowest flagged element of each group, until at most `few`
    groups still have flags."""

    def redraw(state: _Rejections) -> _Rejections:
        lowest = state.flags & (~state.flags + jnp.uint32(1))
        index = groups * jnp.uint32(_GROUP) + lax.population_count(lowest - jnp.uint32(1))
        # The barriers keep XLA from computing the proposal once for each of its two uses.
        index = lax.optimization_barrier(jnp.minimum(index, jnp.uint32(a.size - 1)))
        candidate = lax.optimization_barrier(_propose(seed, state.round, index, a[index]))
        accepted = (state.flags != 0) & (candidate != _REJECTED)
        target = jnp.where(accepted, index, jnp.uint32(a.size))
        offsets = state.offsets.at[target].set(candidate, mode="drop")
        flags = state.flags ^ jnp.where(accepted, lowest, jnp.uint32(0))
        return _Rejections(state.round + jnp.uint32(1), flags, offsets)

    unfinished = lambda state: (state.round < _MAX_ROUNDS) & (jnp.sum(state.flags != 0) > few)
    return lax.while_loop(unfinished, redraw, state)


def _pack(bits: Array) -> UInt32[Array, "*words"]:
    """Booleans as words of 32 bits."""
    words = -(-bits.size // _GROUP)
    grouped = jnp.pad(bits, (0, words * _GROUP - bits.size)).reshape(words, _GROUP)
    weights = jnp.uint32(1) << lax.iota(jnp.uint32, _GROUP)
    return jnp.sum(jnp.where(grouped, weights[None], jnp.uint32(0)), axis=1, dtype=jnp.uint32)


def _propose(seed: UInt32[Array, "*two"], round_: Array, index: Array, a: Array) -> Array:
    """The offset of one boosted Marsaglia-Tsang proposal for each element, or `_REJECTED`.

    With d = a + 2/3, n a standard normal, t = n / sqrt(9 d) and v = (1 + t)^3, the acceptance
    probability is exp(h),

        h = n^2 / 2 + d (1 - v + log v) = 3 d (log(1 + t) - t + t^2 / 2 - t^3 / 3)."""
    draw = _normal_log_uniform64 if a.dtype == jnp.float64 else _normal_log_uniform32
    normal, log_u = draw(seed, round_, index)
    d = a + 2 / 3
    t = normal * lax.rsqrt(9.0 * d)
    is_positive = t > -1.0 + 1e-6  # v > 0
    log1p_t, remainder = _log1p_and_remainder(jnp.where(is_positive, t, 0.0))
    log_acceptance = 3.0 * d * remainder
    log_boost = jnp.minimum(log_u - jnp.minimum(log_acceptance, 0.0), 0.0)
    accepted = is_positive & (log_u < log_acceptance)
    return jnp.where(accepted, 3.0 * log1p_t + log_boost / a, _REJECTED)


def _log1p_and_remainder(t: Float[Array, "*shape"]) -> tuple[Array, Array]:
    """log(1 + t), and its remainder after three terms; by the series near 0, where the difference
    would cancel."""
    direct = jnp.log(1.0 + t)
    three_terms = t * (1.0 + t * (-1 / 2 + t * (1 / 3)))
    tail = (t * t) ** 2 * horner((-1 / 4, 1 / 5, -1 / 6, 1 / 7, -1 / 8, 1 / 9), t)
    limit = 0.01 if t.dtype == jnp.float64 else 0.1
    is_small = jnp.abs(t) < limit
    log1p_t = jnp.where(is_small, three_terms + tail, direct)
    return log1p_t, jnp.where(is_small, tail, direct - three_terms)


# --- random variates ------------------------------------------------------------------------------
def _normal_log_uniform32(seed: Array, round_: Array, index: Array) -> tuple[Array, Array]:
    """A standard normal, accurate up to 2^-32 tails, and a log uniform, each from one word."""
    for_normal, for_uniform = threefry2x32(
        seed[0], seed[1], index, jnp.broadcast_to(round_, index.shape)
    )
    two_p = _uniform31(for_normal)
    u = 1.0 - two_p
    low, high = _NORMAL_RANGE
    v = jnp.sqrt(2.0 - jnp.log(two_p * (2.0 - two_p)))
    magnitude = u * horner(coefficients.NORMAL_QUANTILE, (v - low) * (2.0 / (high - low)) - 1.0)
    normal = jnp.where((for_normal & jnp.uint32(1)) == 0, magnitude, -magnitude)
    return normal, jnp.log(_uniform31(for_uniform))


def _uniform31(word: UInt32[Array, "*shape"]) -> Float[Array, "*shape"]:
    """A uniform number in (0, 1] from the upper 31 bits; signed conversion is several times faster
    than unsigned."""
    upper = lax.shift_right_logical(word, jnp.uint32(1)).astype(jnp.int32)
    return (upper.astype(jnp.float32) + 0.5) * 2.0**-31


def _normal_log_uniform64(seed: Array, round_: Array, index: Array) -> tuple[Array, Array]:
    """A standard normal and the log of a uniform in float64, from two pairs of words."""
    pair = lambda stream: threefry2x32(
        seed[0], seed[1], index, jnp.broadcast_to(2 * round_ + stream, index.shape)
    )
    for_normal, for_uniform = _uniform53(*pair(jnp.uint32(0))), _uniform53(*pair(jnp.uint32(1)))
    return jax.scipy.special.ndtri(for_normal), jnp.log(for_uniform)


def _uniform53(
    high: UInt32[Array, "*shape"], low: UInt32[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """A uniform number in (0, 1) from 53 bits."""
    low_bits = lax.shift_right_logical(low, jnp.uint32(11)).astype(jnp.float64)
    mantissa = high.astype(jnp.float64) * 2.0**21 + low_bits
    return (mantissa + 0.5) * 2.0**-53


# --- elasticity -----------------------------------------------------------------------------------
@jax.custom_jvp
def elasticity_minus_one(
    shape: Float[Array, "*shape"], offset: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """G - 1 for the Gamma(shape, 1) draw x of offset log x - log(shape + 2/3); both arrays have the
    same shape and dtype."""
    if shape.dtype == jnp.float64:
        return elasticity_by_quadrature(shape, offset) - 1.0
    return _elasticity_by_polynomial(shape, offset)


@elasticity_minus_one.defjvp
def _derivative_by_quadrature(primals: tuple, tangents: tuple) -> tuple:
    return elasticity_minus_one(*primals), jax.jvp(elasticity_by_quadrature, primals, tangents)[1]


@jax.jit
def _elasticity_by_polynomial(
    shape: Float[Array, "*shape"], offset: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    third = offset / 3.0
    # Short series near the mode, where exp(L / 3) - 1 would lose the digits that decide V.
    series = third * horner((1.0, 1 / 2, 1 / 6, 1 / 24, 1 / 120), third)
    t = jnp.where(jnp.abs(offset) < 0.3, series, jnp.exp(third) - 1.0)
    x = jnp.minimum(t / _RADIUS, 1.03)
    s = (2 / 3) / (shape + 2 / 3)
    total = jnp.zeros_like(x)
    for row in reversed(coefficients.ELASTICITY):
        total = total * s + horner(row, x)
    return total - offset


@jax.jit
def elasticity_by_quadrature(
    shape: Float[Array, "*shape"], offset: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """G by the integral of dF/da over the tail on the side of the quantile, where the integrand has
    one sign:

        upper, x above exp psi(a + 1):  G = a I(a),                                s = +1, b = a
        lower:                          G = x I(a + 1) + psi(a + 1) - log x,       s = -1, b = a + 1
        I(b) = int_0^inf exp(b s y - x expm1(s y)) (s (log x - psi(b)) + y) dy

    The nodes are doubly exponential in units of the integrand's length; the result is
    differentiable to any order."""
    centre = shape + 2 / 3
    log_x = offset + jnp.log(centre)
    lower = log_x < digamma(shape + 1.0)
    from_below = jnp.log1p(-1 / (3.0 * (shape + 1.0))) + log_minus_digamma(shape + 1.0)
    above_mean = offset + jnp.where(
        lower, from_below, jnp.log1p(2 / (3.0 * shape)) + log_minus_digamma(shape)
    )
    x = centre * jnp.exp(offset)
    slope = jnp.where(lower, 1 / 3, -2 / 3) - centre * jnp.expm1(offset)  # b - x
    b = jnp.where(lower, shape + 1.0, shape)
    integral = _tail_integral(jnp.where(lower, -1.0, 1.0).astype(x.dtype), b, x, slope, above_mean)
    return jnp.where(lower, x * integral - above_mean, shape * integral)


def _tail_integral(side: Array, b: Array, x: Array, slope: Array, above_mean: Array) -> Array:
    steepness = jnp.maximum(jnp.sqrt(jnp.maximum(b, x)), jnp.abs(slope))
    length = jnp.minimum(1 / steepness, 1 / jnp.sqrt(b))
    length = jax.lax.stop_gradient(length)

    def add(total: Array, node_and_weight: Array) -> tuple[Array, None]:
        node, weight = node_and_weight
        y = jnp.minimum(length * node, _FARTHEST)
        height = jnp.exp(slope * side * y - x * expm1_minus_identity(side * y))
        return total + height * (side * above_mean + y) * (length * weight), None

    rule = jnp.stack([jnp.asarray(_NODES, x.dtype), jnp.asarray(_WEIGHTS, x.dtype)], axis=1)
    return jax.lax.scan(add, jnp.zeros_like(x), rule)[0]
