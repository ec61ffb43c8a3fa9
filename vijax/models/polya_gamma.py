"""The Polya-gamma law PG(1, c), which makes logistic likelihoods conjugate (Polson, Scott and Windle 2013).

    log sigma(y psi) = log E_{w ~ PG(1, 0)}[exp(y psi / 2 - w psi^2 / 2)] - log 2

q(w) = PG(1, c) has density h(w) exp{-c^2 w / 2 - A}, h that of PG(1, 0): statistic w, natural parameter l = -c^2 / 2,
A = -log cosh(c / 2), mean tanh(c / 2) / (2 c). In mean field it is the bound of Jaakkola and Jordan, c their xi
(Durante and Rigon 2019).
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.expectation.jaakkola_jordan import quarter_tanhc


class PolyaGammaStats(NamedTuple):
    """t(w) = w."""

    value: Float[Array, " n"]


@tree.register
@dataclasses.dataclass(frozen=True)
class PolyaGamma:
    """q of the Polya-gamma variables of a group's rows: what a local of an energy must give, no more, for log h has no
    closed form.

    >>> q = PolyaGamma(jnp.array([-2.0, 0.0]))
    >>> print(*(f"{x:.4f}" for x in (*q.expected_stats().value, q.log_normalizer()[0])))
    0.1904 0.2500 -0.4338
    """

    negative_half_square: Float[Array, " n"]

    def with_naturals(self, leaves: PyTree) -> PolyaGamma:
        """Other natural parameters."""
        return PolyaGamma(*jax.tree.leaves(leaves))

    def log_normalizer(self) -> Float[Array, " n"]:
        """-log cosh(c / 2)."""
        return _log_normalizer(self.negative_half_square)

    def dot(self, stats: PolyaGammaStats) -> Float[Array, " n"]:
        """Natural parameters times statistics."""
        return self.negative_half_square * stats.value

    def expected_stats(self) -> PolyaGammaStats:
        """tanh(c / 2) / (2 c)."""
        return PolyaGammaStats(2 * quarter_tanhc(_tilt(self.negative_half_square)))

    def stats(self, w: Float[Array, " n"]) -> PolyaGammaStats:
        """w itself."""
        return PolyaGammaStats(w)

    def sample(self, key: PRNGKeyArray) -> Float[Array, " n"]:
        """Exact draws."""
        return sample(key, _tilt(self.negative_half_square))

    def sample_stats(self, key: PRNGKeyArray) -> PolyaGammaStats:
        """Statistics of a draw."""
        return self.stats(self.sample(key))


def _tilt(natural: Float[Array, " n"]) -> Float[Array, " n"]:
    """c; squares of predictors are never negative but for rounding."""
    return jnp.sqrt(jnp.maximum(-2.0 * natural, 0.0))


@jax.custom_jvp
def _log_normalizer(natural: Float[Array, " n"]) -> Float[Array, " n"]:
    c = _tilt(natural)
    return math.log(2.0) - 0.5 * c - jnp.log1p(jnp.exp(-c))


@_log_normalizer.defjvp
def _log_normalizer_jvp(primals: tuple, tangents: tuple) -> tuple:
    """The mean, finite at c = 0, where the root has no derivative."""
    (natural,) = primals
    return _log_normalizer(natural), 2 * quarter_tanhc(_tilt(natural)) * tangents[0]


# --- draws ------------------------------------------------------------------------------------------------------------
_CUT = 0.64
_LEFT_ROOT = 1 / math.sqrt(_CUT)
_LEVY_BELOW_CUT = math.erfc(_LEFT_ROOT / math.sqrt(2))


def sample(key: PRNGKeyArray, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Draws from PG(1, c) by Devroye's rejection (Polson, Scott and Windle 2013, section 4), all entries at once.

    w = x / 4, the density of x proportional to exp(-z^2 x / 2) sum_n (-1)^n a_n(x), z = c / 2, where a_0 is twice a
    Levy density left of the cut and an exponential right of it. Proposals, of mass: right, an exponential of rate
    K = pi^2 / 8 + z^2 / 2, pi / (2 K) exp(-K cut); left, for z cut < 1 the Levy law below the cut, to be accepted with
    exp(-z^2 x / 2), 2 P(Levy < cut); else an inverse Gaussian of mean 1 / z, of which draws beyond the cut are
    rejected, 2 exp(-z). One proposal in two or better is accepted, whatever c.

    >>> bool(jnp.abs(sample(jax.random.key(0), jnp.full(20000, 2.0)).mean() - jnp.tanh(1.0) / 4) < 0.005)
    True
    """
    z = 0.5 * jnp.abs(c)

    def unfinished(carry: tuple) -> Bool[Array, ""]:
        return ~jnp.all(carry[1])

    def propose(carry: tuple) -> tuple:
        old, accepted, i = carry
        x, keep = _proposal(jax.random.fold_in(key, i), z)
        return jnp.where(accepted, old, x), accepted | keep, i + 1

    start = jnp.zeros_like(z), jnp.zeros(z.shape, bool), 0
    return 0.25 * jax.lax.while_loop(unfinished, propose, start)[0]


def _proposal(key: PRNGKeyArray, z: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Bool[Array, "*shape"]]:
    """A proposal for each entry, and whether it is accepted."""
    draw = lambda i: jax.random.uniform(jax.random.fold_in(key, i), z.shape, z.dtype, jnp.finfo(z.dtype).tiny)
    rate, small = math.pi**2 / 8 + 0.5 * z**2, z * _CUT < 1
    log_left = math.log(2.0) + jnp.where(small, math.log(_LEVY_BELOW_CUT), -z)
    log_right = jnp.log(0.5 * math.pi / rate) - rate * _CUT
    right = draw(0) < jax.nn.sigmoid(log_right - log_left)
    levy = 1 / ndtri(0.5 * _LEVY_BELOW_CUT * draw(1)) ** 2
    left = jnp.where(small, levy, _inverse_gaussian(draw(1), draw(2), jnp.where(small, 1.0, z)))
    x = jnp.where(right, _CUT - jnp.log(draw(3)) / rate, left)
    tilt = jnp.where(small & ~right, jnp.exp(-0.5 * z**2 * x), 1.0)
    inside = right | (x <= _CUT)
    return x, inside & (draw(4) < tilt * _series(jnp.where(inside, x, _CUT), right))


def _series(x: Float[Array, "*shape"], right: Bool[Array, "*shape"]) -> Float[Array, "*shape"]:
    """sum_n (-1)^n a_n(x) / a_0(x): on its side of the cut the fifth term is below 1e-16."""
    rate = jnp.where(right, 0.5 * math.pi**2 * x, 2 / x)
    terms = [(-1) ** n * (2 * n + 1) * jnp.exp(-n * (n + 1) * rate) for n in range(4)]
    return sum(terms, jnp.zeros_like(x))


def _inverse_gaussian(
    u: Float[Array, "*shape"], v: Float[Array, "*shape"], z: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """A draw of mean 1 / z and shape 1 (Michael, Schucany and Haas 1976): the smaller root, or the larger."""
    half = 0.5 * ndtri(u) ** 2 / z
    ratio = 1 / (1 + half + jnp.sqrt(half * (2 + half)))
    return jnp.where(v * (1 + ratio) < 1, ratio, 1 / ratio) / z
