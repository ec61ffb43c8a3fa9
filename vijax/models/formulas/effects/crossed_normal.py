"""Integrals over the effects of several factors of a normal law, by sums over rows that are made once.

With r = y - X b, the rows' weights W and v ~ N(0, I) the effects of all groups in units of their covariance L L',

    H = I + L' Z' W Z L / sigma^2,   g = L' Z' W r / sigma^2,
    log p(y) = -n/2 log(2 pi sigma^2) - (r' W r / sigma^2 - g' H^-1 g) / 2 - log det H / 2     (n the sum of W),

and v given y is N(H^-1 g, H^-1). Z' W Z, Z' W (X, y), and the triangular factor of (X, y) hold all that the rows say;
H is factored as in `vijax.models.formulas.effects.crossed` (Bates et al. 2015, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.sparse.linalg import lsmr

from vijax.models.formulas.effects.crossed import Curvature, Effects, factored, noise_of
from vijax.models.formulas.effects.integrals import LOG_2PI

MOST_PASSES = 200
"""Passes over the rows for the squares that nothing explains, at most."""
AT_ITS_LIMIT = 7
"""The number by which `scipy.sparse.linalg.lsmr` says that it made all its passes without an answer."""
SLACK = 1e-3
"""Share of these squares that is left to rounding."""


class Scales(NamedTuple):
    """The sizes of effects and errors.

    Attributes:
      factors: the triangular factors of the covariances of the effects of each factor.
      counts: their numbers of groups.
      sigma: the standard deviation of the errors.
    """

    factors: Sequence[Float[Array, "d d"]]
    counts: tuple[int, ...]
    sigma: Float[Array, ""]

    def times(self, x: Float[Array, "*rest R"]) -> Float[Array, "*rest R"]:
        """x L, the last axis over the effects of all factors but the first."""
        parts, start = [], 0
        for factor, count in zip(self.factors[1:], self.counts[1:], strict=True):
            stop = start + count * len(factor)
            own = x[..., start:stop].reshape(*x.shape[:-1], count, len(factor)) @ factor
            parts.append(own.reshape(*x.shape[:-1], -1))
            start = stop
        return jnp.concatenate(parts, -1)


def sums_of(rows: Mapping[str, np.ndarray], counts: Sequence[int]) -> dict[str, np.ndarray]:
    """The sums over rows, of J groups of d effects of the first factor, and R effects of the others: Z' W Z as `own`
    (J, d, d), `across` (J, R, d) and `rest` (R, R), Z' W (X, y) as `of_first` (J, d, p + 1) and `of_rest` (R, p + 1),
    the triangular factor of (X, y) as `table`, the sum of the weights as `count`, and as `least` the squares that no
    coefficients and effects explain. `counts` are the numbers of groups of the factors."""
    weight, table = rows["weight"], np.c_[rows["x"], rows["y"]]
    first, *others = (_columns(rows[f"z{i}"], rows[f"group{i}"], count) for i, count in enumerate(counts))
    rest, d = sp.hstack(others, "csr"), rows["z0"].shape[1]
    of_first, of_rest = (z.multiply(weight[:, None]).T.tocsr() for z in (first, rest))
    own = np.zeros((counts[0], d, d))
    for a, b in np.ndindex(d, d):
        own[:, a, b] = np.bincount(rows["group0"], weight * rows["z0"][:, a] * rows["z0"][:, b], counts[0])
    across = (of_first @ rest).toarray().reshape(counts[0], d, -1)
    return {
        "own": own,
        "across": np.ascontiguousarray(np.swapaxes(across, 1, 2)),
        "rest": (of_rest @ rest).toarray(),
        "of_first": (of_first @ table).reshape(counts[0], d, -1),
        "of_rest": of_rest @ table,
        "table": np.linalg.qr(np.r_[np.sqrt(weight)[:, None] * table, np.zeros((table.shape[1],) * 2)], mode="r"),
        "count": np.array(weight.sum()),
        "least": np.array(_unexplained(weight, table, [first, *others])),
    }


def _unexplained(weight: np.ndarray, table: np.ndarray, effects: Sequence[sp.csr_array]) -> float:
    """The weighted squares of y that columns and effects leave by least squares; `table` is (X, y)."""
    columns = sp.hstack([sp.csr_array(table[:, :-1]), *effects], "csr").multiply(np.sqrt(weight)[:, None]).tocsr()
    y = np.sqrt(weight) * table[:, -1]
    solution, why_it_ended, *_ = lsmr(columns, y, atol=1e-8, btol=1e-8, maxiter=MOST_PASSES)
    if why_it_ended == AT_ITS_LIMIT:
        return 0.0
    return float(np.sum((y - columns @ solution) ** 2)) * (1 - SLACK)


def _columns(z: np.ndarray, groups: np.ndarray, count: int) -> sp.csr_array:
    """Z of a factor: the columns of its groups, one group after another."""
    size, d = z.shape
    places = (groups[:, None] * d + np.arange(d)).ravel()
    return sp.csr_array((z.ravel(), places, np.arange(0, size * d + 1, d)), (size, count * d))


def log_integral(sums: Mapping[str, Any], b: Float[Array, " p"], scales: Scales) -> Float[Array, ""]:
    """log p(y) at coefficients b."""
    c = _coefficients(b)
    g, curvature = _gradient_and_curvature(sums, c, scales)
    explained = sum(jnp.sum(x**2) for x in curvature.forward(g))
    left = jnp.sum((sums["table"] @ c / scales.sigma) ** 2) - explained
    # A difference of large numbers where r is large: rounding must not take it below what no effects explain.
    left = jnp.maximum(left, sums["least"] / scales.sigma**2)
    return -0.5 * (sums["count"] * (LOG_2PI + 2 * jnp.log(scales.sigma)) + left) - curvature.log_det()


def drawn(sums: Mapping[str, Any], b: Float[Array, " p"], scales: Scales, key: PRNGKeyArray) -> Effects:
    """Effects v, drawn given y."""
    g, curvature = _gradient_and_curvature(sums, _coefficients(b), scales)
    mean, noise = curvature.forward(g), noise_of(key, g)
    return curvature.backward(Effects(mean.first + noise.first, mean.others + noise.others))


def _coefficients(b: Array) -> Float[Array, " p_and_one"]:
    """The coefficients of (X, y) in r."""
    return jnp.concatenate([-b, jnp.ones(1, b.dtype)])


def _gradient_and_curvature(
    sums: Mapping[str, Any], c: Float[Array, " p_and_one"], scales: Scales
) -> tuple[Effects, Curvature]:
    first, precision = scales.factors[0], 1 / scales.sigma**2
    own = precision * jnp.einsum("dk,jde,el->jkl", first, sums["own"], first)
    across = scales.times(jnp.swapaxes(sums["across"] @ first, 1, 2))
    rest = scales.times(scales.times(sums["rest"]).T)
    g = Effects(precision * sums["of_first"] @ c @ first, precision * scales.times(sums["of_rest"] @ c))
    return g, factored(own, precision * jnp.swapaxes(across, 1, 2), precision * rest)
