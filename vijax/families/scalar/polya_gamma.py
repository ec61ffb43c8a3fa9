"""The Polya-gamma law PG(b, c), which makes logistic likelihoods conjugate (Polson, Scott and
Windle 2013).

    exp(a psi) / (1 + exp(psi))^b  =  2^-b E_{w ~ PG(b, 0)}[exp((a - b / 2) psi - w psi^2 / 2)]

q(w) = h(w) exp{l w - A} with h the density of PG(b, 0), statistic w, natural parameter l = -c^2 /
2, A = -b log cosh(c / 2), mean b tanh(c / 2) / (2 c). The mean-field bound is that of Jaakkola and
Jordan, where c is their xi (Durante and Rigon 2019). log h has no closed form: the density and the
entropy are integrals (`polya_gamma_contour`); divergences, conditionals and bounds of models need
no integral. Draws are exact, by Devroye's rejection (Devroye 2009)."""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from vijax.checks import require, require_integers
from vijax.families.base import Family, as_float, domain_mask, family, finite, static_field
from vijax.families.construction import constructor, numpy_or_jax
from vijax.families.numeric.draws import moving
from vijax.families.numeric.excess import horner
from vijax.families.scalar import polya_gamma_contour as contour

_CUT = 0.64
_LEVY_BELOW_CUT = math.erfc(1 / math.sqrt(_CUT) / math.sqrt(2))
_SPACING = 0.2
_NODES = np.arange(-11.0, 9.0, _SPACING)


class PolyaGammaStats(NamedTuple):
    """t(w) = w."""

    value: Float[Array, "*batch"]


@family
class PolyaGamma(Family):
    """PG(b, c) on w > 0, natural parameter -c^2 / 2; b is static, one for all members of a batch.

    log h(x) = log_prob(x, c=0);  t = (x,);  natural parameters (-(c**2) / 2,).

    In a logistic model with locals w ~ PG(1, 0) the energy of a label y = 0 or 1 with predictor psi
    is (y - 1 / 2) psi - w psi^2 / 2 - log 2, multilinear in w and the statistics of the terms of
    psi. b is the trials of a binomial, or the failures plus successes of a negative binomial. Draws
    are sums of b draws of PG(1, c). Each entropy is an integral over the density, with some 4,000
    terms. Results are right to 1e-3 in float32 for b up to 40 and c up to 1e4.

    >>> q = PolyaGamma.from_b_c(1, [2.0, 0.0])
    >>> print(*(f"{x:.4f}" for x in (*q.mean(), q.log_normalizer()[0], *q.log_prob(0.2))))
    0.1904 0.2500 -0.4338 0.8836 0.8498
    """

    negative_half_square: Float[Array, "*batch"]
    b: int = static_field()

    Stats: ClassVar = PolyaGammaStats
    event_ndims: ClassVar = (0,)

    @classmethod
    @constructor
    def from_b_c(cls, b: int, c: Any) -> Self:
        """Laws PG(b, c) from b, the number of PG(1, c) in the sum, and the tilt c, whose sign does
        not matter. ValueError unless b is an integer >= 1 and all tilts are finite."""
        require_integers(b=b)
        xp, c = numpy_or_jax(as_float(c, "c"))
        require(finite(xp.square(c)), "c", "finite numbers, and finite when squared", c)
        return cls(-0.5 * xp.square(c), int(b))

    @property
    def c(self) -> Float[Array, "*batch"]:
        """The tilt, not negative."""
        return contour.tilt(self.negative_half_square)

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = -b log cosh(c / 2)."""
        return self.b * _log_normalizer(self.negative_half_square)

    def stats(self, x: Any) -> PolyaGammaStats:
        return PolyaGammaStats(as_float(x))

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch"]:
        """Exact draws, pathwise differentiable at a fixed quantile."""
        natural = jnp.broadcast_to(self.negative_half_square, (*shape, *self.batch_shape))
        c = contour.tilt(jax.lax.stop_gradient(natural))
        add = lambda i, total: total + sample_unit(jax.random.fold_in(key, i), c)
        draws = jax.lax.fori_loop(0, self.b, add, jnp.zeros_like(c))
        return moving(draws, natural, functools.partial(_velocity, self.b))

    def mean(self) -> Float[Array, "*batch"]:
        """b tanh(c / 2) / (2 c)."""
        return self.b * _mean(self.negative_half_square)

    def variance(self) -> Float[Array, "*batch"]:
        """b (sinh(c) - c) / (4 c^3 cosh(c / 2)^2)."""
        return self.b * _variance(self.negative_half_square)

    def mode(self) -> Float[Array, "*batch"]:
        """The zero of the score, by bisection: the density is log-concave, and its mode is between
        mean / (1 + 5 r) and the mean, r the squared coefficient of variation."""
        high = jnp.log(self.mean())
        low = high - jnp.log1p(5.0 * self.variance() / self.mean() ** 2)

        def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            rising = contour.score(jnp.exp(middle), self.negative_half_square, self.b) > 0
            return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

        num_steps = jnp.finfo(high.dtype).nmant + 2
        low, _ = jax.lax.fori_loop(0, num_steps, halve, (low, high))
        return jnp.exp(low)

    def in_domain(self) -> Self:
        natural = self.negative_half_square
        return domain_mask((natural <= 0) & jnp.isfinite(natural), self)

    def expected_stats(self) -> PolyaGammaStats:
        return PolyaGammaStats(self.mean())

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(w); minus infinity if w is not positive."""
        x = as_float(x)
        is_valid = (x > 0) & jnp.isfinite(x)
        density = _log_density(jnp.where(is_valid, x, 1.0), self.negative_half_square, self.b)
        return jnp.where(is_valid, density, jnp.where(jnp.isnan(x), jnp.nan, -jnp.inf))

    def log_prob_of_stats(self, stats: PolyaGammaStats) -> Float[Array, "*batch"]:
        return self.log_prob(stats.value)

    def log_base_measure(self, stats: PolyaGammaStats) -> Float[Array, "*batch"]:
        """The log density of PG(b, 0), not linear in w: not to be used at mean statistics."""
        return PolyaGamma(jnp.zeros_like(self.negative_half_square), self.b).log_prob(stats.value)

    def expected_log_base_measure(self) -> Float[Array, "*batch"]:
        """E[log h(w)] = A - l E[w] - H."""
        return self.log_normalizer() - self.negative_half_square * self.mean() - self.entropy()

    def entropy(self) -> Float[Array, "*batch"]:
        """-E[log q] by the trapezium rule in log w, in units of its spread. The integrand falls
        doubly exponentially on both sides, so the rule is exact to rounding."""
        mean = jax.lax.stop_gradient(self.mean())
        spread = jax.lax.stop_gradient(jnp.sqrt(self.variance())) / mean
        w = mean[..., None] * jnp.exp(spread[..., None] * jnp.asarray(_NODES, mean.dtype))
        log_q = _log_density(w, self.negative_half_square[..., None], self.b)
        return -jnp.sum(jnp.exp(log_q) * log_q * w, axis=-1) * spread * _SPACING

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """(l - l') E[w] - A + A', whose large terms cancel on paper; inf if the b differ."""
        pair = jnp.broadcast_arrays(self.negative_half_square, other.negative_half_square)
        divergence = self.b * _divergence(*pair)
        if self.b != other.b:
            return jnp.full_like(divergence, jnp.inf)
        return divergence

    def fisher_product(self, tangent: Self) -> PolyaGammaStats:
        return PolyaGammaStats(self.variance() * tangent.negative_half_square)

    def fisher_solve(self, cotangent: PolyaGammaStats) -> Self:
        return self.with_naturals(cotangent.value / self.variance())


# --- A and its derivatives at b = 1 ---------------------------------------------------------------
_MANY = 14
_COSH = [1 / math.factorial(2 * k) for k in range(_MANY)]
_SINH_LESS = [1 / math.factorial(2 * k + 3) for k in range(_MANY)]
_TANHC = (
    1.0,
    -1 / 3,
    2 / 15,
    -17 / 315,
    62 / 2835,
    -1382 / 155925,
    21844 / 6081075,
    -929569 / 638512875,
)


@jax.custom_jvp
def _log_normalizer(natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return -contour.log_cosh(0.5 * contour.tilt(natural))


@_log_normalizer.defjvp
def _log_normalizer_jvp(primals: tuple, tangents: tuple) -> tuple:
    """The mean, finite at c = 0, where the root has no derivative."""
    return _log_normalizer(*primals), _mean(*primals) * tangents[0]


@jax.custom_jvp
def _mean(natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """tanh(c / 2) / (2 c), by its series near 0."""
    square = -0.5 * natural  # (c / 2)^2
    is_small = square < 0.01
    series = horner(_TANHC, jnp.where(is_small, square, 0.0))
    half = jnp.sqrt(jnp.where(is_small, 1.0, square))
    return 0.25 * jnp.where(is_small, series, jnp.tanh(half) / half)


@_mean.defjvp
def _mean_jvp(primals: tuple, tangents: tuple) -> tuple:
    return _mean(*primals), _variance(*primals) * tangents[0]


def _variance(natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """(sinh(c) - c) / (4 c^3 cosh(c / 2)^2): by series in c^2 if the difference cancels, else with
    both terms divided by cosh^2, which would overflow."""
    square = -2.0 * natural
    is_small = square < 4.0
    small = jnp.where(is_small, square, 0.0)
    series = 0.5 * horner(_SINH_LESS, small) / (1.0 + horner(_COSH, small))
    c = jnp.sqrt(jnp.where(is_small, 4.0, square))
    difference = 2.0 * jnp.tanh(0.5 * c) - 4.0 * c * jax.nn.sigmoid(c) * jax.nn.sigmoid(-c)
    return jnp.where(is_small, series, difference / (4.0 * c**3))


@jax.custom_jvp
def _divergence(
    natural: Float[Array, "*shape"], other: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """KL(PG(1, c) || PG(1, c')). If the two are near, or both tilts small, it is (l' - l)^2 times a
    weighted mean of the variances on the path from l to l'. Elsewhere, with d = c' - c and p = 1 /
    (1 + e^c), it is

        d^2 tanh(c / 2) / (4 c) - p d - log(1 + p (e^-d - 1))."""
    c = contour.tilt(natural)
    c2 = contour.tilt(other)
    p = jax.nn.sigmoid(-c)
    distance = c2 - c
    gain = (
        -jnp.sign(distance)
        * jnp.exp(-jnp.minimum(c, c2))
        * -jnp.expm1(-jnp.abs(distance))
        / (1.0 + jnp.exp(-c))
    )
    direct = 0.5 * distance**2 * _mean(natural) - p * distance - jnp.log1p(gain)
    is_near, _, second = _path_means(natural, other)
    return jnp.where(is_near, (other - natural) ** 2 * second, direct)


@_divergence.defjvp
def _divergence_jvp(primals: tuple, tangents: tuple) -> tuple:
    natural, other = primals
    is_near, first, _ = _path_means(natural, other)
    difference = jnp.where(is_near, (other - natural) * first, _mean(other) - _mean(natural))
    slope = (natural - other) * _variance(natural)
    return _divergence(natural, other), slope * tangents[0] + difference * tangents[1]


def _path_means(
    natural: Float[Array, "*shape"], other: Float[Array, "*shape"]
) -> tuple[Array, Array, Array]:
    """True where l' is near l, and the means of v(t) and (1 - t) v(t) over (0, 1) by
    Gauss-Legendre's rule, v(t) the variance at l + t (l' - l). l' is near if it is no further from
    l than the nearest singularity of the variance, at l = pi^2 / 2; then n nodes err by (3 + sqrt
    8)^-2n."""
    num_nodes = 10 if natural.dtype == jnp.float64 else 5
    nodes, weights = np.polynomial.legendre.leggauss(num_nodes)
    t, w = (jnp.asarray(x, natural.dtype) for x in (0.5 * (1.0 + nodes), 0.5 * weights))
    is_near = jnp.abs(other - natural) <= 0.5 * math.pi**2 - jnp.maximum(natural, other)
    end = jnp.where(is_near, other, natural)
    t, w = (x[(None,) * natural.ndim] for x in (t, w))
    variances = _variance(natural[..., None] + t * (end - natural)[..., None])
    return is_near, jnp.sum(w * variances, -1), jnp.sum(w * (1.0 - t) * variances, -1)


# --- the density and draws, with their derivatives ------------------------------------------------
def _log_density_jvp(b: int, primals: tuple, tangents: tuple) -> tuple:
    x, natural = primals
    change = contour.score(x, natural, b) * tangents[0] + (x - b * _mean(natural)) * tangents[1]
    return _log_density(x, natural, b), change


_log_density = jax.custom_jvp(contour.log_density, nondiff_argnums=(2,))
_log_density.defjvp(_log_density_jvp)


def _velocity(b: int, x: Array, natural: Array, change: Array) -> Array:
    """The change of a draw with the natural parameter at a fixed quantile."""
    return contour.slope(x, natural, b, b * _mean(natural)) * change


def sample_unit(key: PRNGKeyArray, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Draws from PG(1, c), all entries at once (Polson, Scott and Windle 2013, section 4).

    w = x / 4, where x has a density proportional to exp(-z^2 x / 2) sum_n (-1)^n a_n(x), z = c / 2;
    a_0 is twice a Levy density left of the cut and an exponential right of it. The proposals are

    - right, with mass pi / (2 K) exp(-K cut): an exponential of rate K = pi^2 / 8 + z^2 / 2;
    - left for z cut < 1, with mass 2 P(Levy < cut): the Levy law below the cut, accepted with
      probability exp(-z^2 x / 2);
    - left for larger z, with mass 2 exp(-z): an inverse Gaussian of mean 1 / z, rejected beyond the
      cut.

    At least one proposal in two is accepted, for any c.

    >>> bool(jnp.abs(sample_unit(jax.random.key(0), jnp.full(20000, 2.0)).mean() - jnp.tanh(1.0) / 4) < 0.005)
    True
    """
    z = 0.5 * jnp.abs(c)

    def propose(carry: tuple) -> tuple:
        draws, accepted, i = carry
        x, keep = _proposal(jax.random.fold_in(key, i), z)
        return jnp.where(accepted, draws, x), accepted | keep, i + 1

    start = jnp.zeros_like(z), jnp.zeros(z.shape, bool), 0
    return 0.25 * jax.lax.while_loop(lambda carry: ~jnp.all(carry[1]), propose, start)[0]


def _proposal(
    key: PRNGKeyArray, z: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Bool[Array, "*shape"]]:
    """A proposal for each entry, and True where it is accepted."""
    tiny = jnp.finfo(z.dtype).tiny
    draw = lambda i: jax.random.uniform(jax.random.fold_in(key, i), z.shape, z.dtype, tiny)
    rate = math.pi**2 / 8 + 0.5 * z**2
    by_levy = z * _CUT < 1
    log_mass_left = math.log(2.0) + jnp.where(by_levy, math.log(_LEVY_BELOW_CUT), -z)
    log_mass_right = jnp.log(0.5 * math.pi / rate) - rate * _CUT
    right = draw(0) < jax.nn.sigmoid(log_mass_right - log_mass_left)
    levy = 1 / ndtri(0.5 * _LEVY_BELOW_CUT * draw(1)) ** 2
    inverse_gaussian = _inverse_gaussian(draw(1), draw(2), jnp.where(by_levy, 1.0, z))
    x = jnp.where(right, _CUT - jnp.log(draw(3)) / rate, jnp.where(by_levy, levy, inverse_gaussian))
    tilt = jnp.where(by_levy & ~right, jnp.exp(-0.5 * z**2 * x), 1.0)
    is_valid = right | (x <= _CUT)
    return x, is_valid & (draw(4) < tilt * _series(jnp.where(is_valid, x, _CUT), right))


def _series(x: Float[Array, "*shape"], right: Bool[Array, "*shape"]) -> Float[Array, "*shape"]:
    """sum_n (-1)^n a_n(x) / a_0(x): on its side of the cut the fifth term is below 1e-16."""
    rate = jnp.where(right, 0.5 * math.pi**2 * x, 2 / x)
    terms = [(-1) ** n * (2 * n + 1) * jnp.exp(-n * (n + 1) * rate) for n in range(4)]
    return sum(terms, jnp.zeros_like(x))


def _inverse_gaussian(u: Array, v: Array, z: Array) -> Float[Array, "*shape"]:
    """Draws of an inverse Gaussian of mean 1 / z and shape 1 (Michael, Schucany and Haas 1976): the
    smaller root of a quadratic, or the larger."""
    half = 0.5 * ndtri(u) ** 2 / z
    ratio = 1 / (1 + half + jnp.sqrt(half * (2 + half)))
    return jnp.where(v * (1 + ratio) < 1, ratio, 1 / ratio) / z
