"""The divergence of two Dirichlets as a sum of three parts, none of them ever negative.

With C = sum c, p = c / C, and R the Bregman divergence of Stirling's remainder (`special.stirling_divergence`),

    KL(c || c') = C' KL(p' || p)  +  sum_v R(c_v, c'_v)  -  R(C, C'),

where C' KL(p' || p) = sum_v c'_v (m_v - 1 - log m_v), m_v = p_v / p'_v. The last difference
is not negative either: R(x, t x) falls with x and is convex in t, so that R(C, C') <= sum_v p_v R(c_v, c'_v), and by
this what cancels is at most the share of the largest component. Where that is more than half, its own R and that of
the total are subtracted on paper (`_of_the_largest`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from vijax.families.numeric import special
from vijax.families.numeric.excess import log_excess, without_rounding_below_zero


@jax.custom_jvp
@jax.jit
def dirichlet_divergence(c: Float[Array, "*batch v"], c2: Float[Array, "*batch v"]) -> Float[Array, "*batch"]:
    """KL(Dirichlet(c) || Dirichlet(c')), over the last axis.

    >>> c = jnp.array([1e-4, 1.0, 1e4, 1e8, 1.0])
    >>> print(f"{dirichlet_divergence(c, 1.001 * c):.3e}")  # 50 digits: 1.3941e-06
    1.394e-06
    """
    c, c2 = jnp.broadcast_arrays(c, c2)
    total, total2, change = (jnp.sum(x, axis=-1) for x in (c, c2, c2 - c))
    largest = c > 0.5 * total[..., None]  # one component at most
    shares = c2 * share_excess(c, c2, (change / total)[..., None], (total2 / total)[..., None])
    remainders = jnp.where(largest, 0.0, special.stirling_divergence(c, c2))
    of_total = -special.stirling_divergence(total, total2)
    # The branch without these saves separate sums: among many thousands of components none is so large.
    totals = lax.cond(jnp.any(largest), _with_largest, lambda c, c2, of_total: of_total, c, c2, of_total)
    return without_rounding_below_zero(jnp.sum(shares + remainders, axis=-1) + totals)


def _with_largest(c: Array, c2: Array, of_total: Array) -> Array:
    """R of the largest component less that of the total; `of_total` where no component is the larger half."""
    largest = c > 0.5 * jnp.sum(c, axis=-1, keepdims=True)
    (lead, rest), (lead2, rest2), (change, change_of_rest) = (_split(x, largest) for x in (c, c2, c2 - c))
    has_lead = lead > 0
    one = lambda x: jnp.where(has_lead, x, 1.0)
    return jnp.where(has_lead, _of_the_largest(one(lead), rest, one(lead2), rest2, change, change_of_rest), of_total)


def _split(x: Array, largest: Array) -> tuple[Array, Array]:
    """The largest component (0 where there is none), and the sum of the others."""
    return jnp.sum(jnp.where(largest, x, 0.0), axis=-1), jnp.sum(jnp.where(largest, 0.0, x), axis=-1)


def share_excess(c: Array, c2: Array, of_total: Array, growth: Array) -> Array:
    """m - 1 - log m, m = p / p', given (C' - C) / C and C' / C. Of the two ways to write m - 1,

        (c / c') (C' - C) / C - (c' - c) / c'  =  (C' - C) / C - ((c' - c) / c') C' / C,

    the one whose terms are of the size of 1 or m."""
    inverse = 1.0 / c2
    ratio, of_part = c * inverse, (c2 - c) * inverse
    excess = jnp.where(growth > 1.0, ratio * of_total - of_part, of_total - of_part * growth)
    return log_excess(excess, jnp.log(ratio) + jnp.log(growth))


def _of_the_largest(x: Array, r: Array, x2: Array, r2: Array, dx: Array, dr: Array) -> Array:
    """R(x, x') - R(x + r, x' + r'), of which only the third term may be large, and that is right to rounding."""
    gap, total = special.stirling_gap, x + r
    gaps = (gap(x2) - gap(x2 + r2)) - (gap(x) - gap(total))
    return gaps + dx * special.log_minus_digamma_drop(x, r) - dr * special.log_minus_digamma(total)


def _dirichlet_divergence_jvp(primals: tuple, tangents: tuple) -> tuple:
    """F(c) (c - c') in c, and mu' - mu in c'; only one of the two where only one argument moves."""
    (c, c2), (dc, dc2) = primals, tangents
    value = dirichlet_divergence(c, c2)
    slope = jnp.zeros_like(value)
    if not isinstance(dc, SymbolicZero):
        gap = c - c2
        of_total = _fisher_term(jnp.sum(c, axis=-1), jnp.sum(gap, axis=-1))
        slope = slope + jnp.sum((_fisher_term(c, gap) - of_total[..., None]) * dc, axis=-1)
    if not isinstance(dc2, SymbolicZero):
        slope = slope + jnp.sum(_mean_change(c, c2) * dc2, axis=-1)
    return value, slope


dirichlet_divergence.defjvp(_dirichlet_divergence_jvp, symbolic_zeros=True)


def _mean_change(c: Array, c2: Array) -> Array:
    """mu' - mu. NaN where c' is not positive, as it is anyhow: but on a CPU the selection keeps XLA (jaxlib 0.10.2)
    from pulling all of this into the loop of a sum over every component, three times as slow."""
    return jnp.where(c2 > 0, expected_log(c2) - expected_log(c), jnp.nan)


def _fisher_term(x: Array, gap: Array) -> Array:
    """psi'(x) gap."""
    return (1.0 + special.trigamma_excess(x)) * (gap / x)


def expected_log(concentration: Float[Array, "*batch v"], axis: int = -1) -> Float[Array, "*batch v"]:
    """E[log x] under the Dirichlet: psi(c) - psi(C)."""
    total = jnp.sum(concentration, axis=axis, keepdims=True)
    return special.digamma(concentration) - special.digamma(total)
