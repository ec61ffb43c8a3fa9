"""The Polya-gamma law PG(b, c), which makes logistic likelihoods conjugate (Polson, Scott and Windle 2013).

    exp(a psi) / (1 + exp(psi))^b  =  2^-b E_{w ~ PG(b, 0)}[exp((a - b / 2) psi - w psi^2 / 2)]

q(w) = h(w) exp{l w - A} with h the density of PG(b, 0), statistic w, natural parameter l = -c^2 / 2, A = -b log
cosh(c / 2), mean b tanh(c / 2) / (2 c). In mean field its bound is that of Jaakkola and Jordan, c their xi (Durante and
Rigon 2019). log h has no closed form: the density and what needs it are integrals (`polya_gamma_contour`), while
divergences, conditionals and bounds of models need none.
"""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require, require_integers
from vijax.families.base import Family, as_float, domain_mask, family, finite, static_field
from vijax.families.construction import constructor, on_host
from vijax.families.numeric.implicit import moving
from vijax.families.numeric.polynomial import horner
from vijax.families.scalar import polya_gamma_contour as contour
from vijax.families.scalar.polya_gamma_draws import sample_unit


class PolyaGammaStats(NamedTuple):
    """t(w) = w."""

    value: Float[Array, "*batch"]


@family
class PolyaGamma(Family):
    """PG(b, c) on w > 0, natural parameter -c^2 / 2; b is static, one for all members of a batch.

    log h(x) = log_prob(x, c=0);  t = (x,);  natural parameters (-(c**2) / 2,).

    As a local of a logistic model, w ~ PG(1, 0) a priori, the energy of a label y = 0 or 1 with predictor psi is
    (y - 1 / 2) psi - w psi^2 / 2 - log 2, multilinear in w and the statistics of what psi is made of; b counts the
    trials of a binomial, or the failures plus successes of a negative binomial. Draws are exact, the sum of b draws of
    PG(1, c). Entropies are integrals over the density, some 4,000 terms each. In float32 right to 1e-3 for b up to
    40 and c up to 1e4.

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
        """Laws PG(b, c) from b, the number of PG(1, c) in the sum, and the tilt c, whose sign does not matter.

        Raises:
          ValueError: b is no integer >= 1, or a tilt is not finite.
        """
        require_integers(b=b)
        xp, c = on_host(as_float(c, "c"))
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
        """w itself."""
        return PolyaGammaStats(as_float(x))

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape_batch"]:
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
        """The mode, where the score vanishes, by bisection: the density is log-concave, and its mode between mean / (1
        + 5 r) and the mean, r the squared coefficient of variation."""
        high = jnp.log(self.mean())
        low = high - jnp.log1p(5.0 * self.variance() / self.mean() ** 2)

        def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            rising = contour.score(jnp.exp(middle), self.negative_half_square, self.b) > 0
            return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

        return jnp.exp(jax.lax.fori_loop(0, jnp.finfo(high.dtype).nmant + 2, halve, (low, high))[0])

    def in_domain(self) -> Self:
        """A finite -c^2 / 2, which is not positive."""
        natural = self.negative_half_square
        return domain_mask((natural <= 0) & jnp.isfinite(natural), self)

    def flat(self) -> NoReturn:
        """Raises NotImplementedError: no member is constant in x, for log h(x) is not linear in x."""
        raise NotImplementedError("no member of PolyaGamma is constant in x: log h(x) is not linear in x.")

    def expected_stats(self) -> PolyaGammaStats:
        """The mean."""
        return PolyaGammaStats(self.mean())

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(w), minus infinity where w is not positive."""
        x = as_float(x)
        inside = (x > 0) & jnp.isfinite(x)
        density = _log_density(jnp.where(inside, x, 1.0), self.negative_half_square, self.b)
        return jnp.where(inside, density, jnp.where(jnp.isnan(x), jnp.nan, -jnp.inf))

    def log_prob_of_stats(self, stats: PolyaGammaStats) -> Float[Array, "*batch"]:
        """log q(w) from t(w) = w."""
        return self.log_prob(stats.value)

    def log_base_measure(self, stats: PolyaGammaStats) -> Float[Array, "*batch"]:
        """The log density of PG(b, 0): not linear in w, and not to be given mean statistics."""
        return PolyaGamma(jnp.zeros_like(self.negative_half_square), self.b).log_prob(stats.value)

    def expected_log_base_measure(self) -> Float[Array, "*batch"]:
        """E[log h(w)] = A - l E[w] - H."""
        return self.log_normalizer() - self.negative_half_square * self.mean() - self.entropy()

    def entropy(self) -> Float[Array, "*batch"]:
        """-E[log q], by the trapezium rule in log w, in units of its spread: the integrand falls doubly exponentially
        on either side, and the rule is exact to rounding."""
        mean = jax.lax.stop_gradient(self.mean())
        spread = jax.lax.stop_gradient(jnp.sqrt(self.variance())) / mean
        w = mean[..., None] * jnp.exp(spread[..., None] * jnp.asarray(_PLACES, mean.dtype))
        log_q = _log_density(w, self.negative_half_square[..., None], self.b)
        return -jnp.sum(jnp.exp(log_q) * log_q * w, axis=-1) * spread * _SPACING

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """(l - l') E[w] - A + A', in which log h does not occur, its large terms cancelled on paper. inf where the b
        differ."""
        divergence = self.b * _divergence(*jnp.broadcast_arrays(self.negative_half_square, other.negative_half_square))
        return divergence if self.b == other.b else jnp.full_like(divergence, jnp.inf)

    def fisher_product(self, tangent: Self) -> PolyaGammaStats:
        """Var(w) v."""
        return PolyaGammaStats(self.variance() * tangent.negative_half_square)

    def fisher_solve(self, cotangent: PolyaGammaStats) -> Self:
        """g / Var(w)."""
        return self.with_naturals(cotangent.value / self.variance())


_SPACING = 0.2
_PLACES = np.arange(-11.0, 9.0, _SPACING)


# --- A and its derivatives at b = 1 -----------------------------------------------------------------------------------
_MANY = 14
_COSH = [1 / math.factorial(2 * k) for k in range(_MANY)]
_SINH_LESS = [1 / math.factorial(2 * k + 3) for k in range(_MANY)]
_TANHC = (1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075, -929569 / 638512875)


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
    square = -0.5 * natural  # of c / 2
    near = square < 0.01
    half = jnp.sqrt(jnp.where(near, 1.0, square))
    return 0.25 * jnp.where(near, horner(_TANHC, jnp.where(near, square, 0.0)), jnp.tanh(half) / half)


@_mean.defjvp
def _mean_jvp(primals: tuple, tangents: tuple) -> tuple:
    return _mean(*primals), _variance(*primals) * tangents[0]


def _variance(natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """(sinh(c) - c) / (4 c^3 cosh(c / 2)^2): by series in c^2 where the difference cancels, else over cosh^2, which
    overflows."""
    square = -2.0 * natural
    near = square < 4.0
    inside = jnp.where(near, square, 0.0)
    by_series = 0.5 * horner(_SINH_LESS, inside) / (1.0 + horner(_COSH, inside))
    c = jnp.sqrt(jnp.where(near, 4.0, square))
    direct = (2.0 * jnp.tanh(0.5 * c) - 4.0 * c * jax.nn.sigmoid(c) * jax.nn.sigmoid(-c)) / (4.0 * c**3)
    return jnp.where(near, by_series, direct)


@jax.custom_jvp
def _divergence(natural: Float[Array, "*shape"], other: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """KL of PG(1, c) and PG(1, c'). Where the two are near, or both tilts small, it is the square of their distance
    times a mean of the variances between them; elsewhere, with d = c' - c and p = 1 / (1 + e^c),

    d^2 tanh(c / 2) / (4 c) - p d - log(1 + p (e^-d - 1))."""
    c, c2 = contour.tilt(natural), contour.tilt(other)
    p, distance = jax.nn.sigmoid(-c), c2 - c
    gain = -jnp.sign(distance) * jnp.exp(-jnp.minimum(c, c2)) * -jnp.expm1(-jnp.abs(distance)) / (1.0 + jnp.exp(-c))
    far = 0.5 * distance**2 * _mean(natural) - p * distance - jnp.log1p(gain)
    near, _, second = _between(natural, other)
    return jnp.where(near, (other - natural) ** 2 * second, far)


@_divergence.defjvp
def _divergence_jvp(primals: tuple, tangents: tuple) -> tuple:
    natural, other = primals
    near, first, _ = _between(natural, other)
    difference = jnp.where(near, (other - natural) * first, _mean(other) - _mean(natural))
    own = (natural - other) * _variance(natural) * tangents[0]
    return _divergence(natural, other), own + difference * tangents[1]


def _between(natural: Float[Array, "*shape"], other: Float[Array, "*shape"]) -> tuple[Array, Array, Array]:
    """True where l' is near l; and the means of the variance over (0, 1), with v(t) the variance at l + t (l' - l), and
    of (1 - t) v(t). By Gauss-Legendre's rule: the variance has its nearest singularity at l = pi^2 / 2, and near is no
    further than that, so that n nodes err by (3 + sqrt 8)^-2n."""
    nodes, weights = np.polynomial.legendre.leggauss(10 if natural.dtype == jnp.float64 else 5)
    t, w = (jnp.asarray(x, natural.dtype) for x in (0.5 * (1.0 + nodes), 0.5 * weights))
    near = jnp.abs(other - natural) <= 0.5 * math.pi**2 - jnp.maximum(natural, other)
    end = jnp.where(near, other, natural)
    variances = _variance(natural[..., None] + t * (end - natural)[..., None])
    return near, jnp.sum(w * variances, -1), jnp.sum(w * (1.0 - t) * variances, -1)


# --- the density and draws, with their derivatives --------------------------------------------------------------------
def _log_density_jvp(b: int, primals: tuple, tangents: tuple) -> tuple:
    x, natural = primals
    change = contour.score(x, natural, b) * tangents[0] + (x - b * _mean(natural)) * tangents[1]
    return _log_density(x, natural, b), change


_log_density = jax.custom_jvp(contour.log_density, nondiff_argnums=(2,))
_log_density.defjvp(_log_density_jvp)


def _velocity(b: int, x: Array, natural: Array, change: Array) -> Array:
    """The change of a draw with the natural parameter at a fixed quantile."""
    return contour.slope(x, natural, b, b * _mean(natural)) * change
