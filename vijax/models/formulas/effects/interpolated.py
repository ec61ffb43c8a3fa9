"""A marginal likelihood near its mode, from few factorisations: that of a normal law, or the
Laplace approximation of another (`laplace_on_host`), which has n = 0 and sigma = 1.

Its costly parts depend only on the ratios of the sds of effects to the sd of errors (`on_host`):
these are few, whatever the number of rows, groups and coefficients. In the logarithms phi of the
ratios the parts are analytic, with singularities pi / 2 away from the real line (log det H is a sum
of log(1 + e^(2 phi) lambda)). Hence polynomials through Chebyshev points have an error that falls
like rho^-m in the number m of points (Trefethen 2013, theorem 8.2). The box of the points reaches
`REACH` standard deviations to each side; beyond it the log likelihood falls quadratically. If a
ratio may be zero, its box begins at zero: there the parts are even functions of asinh(ratio
sqrt(largest lambda)).

Let n be the sum of weights, s(phi) the minimum of squares over the coefficients, b(phi) the
coefficients that reach it, U U' = M of the coefficients, and s_0, sigma_0^2 = s_0 / n the values at
the centre. The log likelihood less its value at the centre is

    -n/2 (e^a - 1 - a) - (n/2 log(s / s_0) + half log det) - |U' (b - b(phi))|^2 / (2 sigma^2),
    a = log(s / s_0) - 2 log(sigma / sigma_0),

in which no large numbers cancel: float32 suffices for any number of rows. Each part is interpolated
separately."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from vijax.models.formulas.effects.integrals import LOG_2PI
from vijax.models.formulas.effects.on_host import HostSums, Pieces

MOST_RATIOS = 3
"""Most ratios of sds that are interpolated over: numbers of points multiply."""
REACH = 6.0
"""Half the width of the box, in standard deviations of the logarithm of a ratio."""
WIDEST = 0.4
"""Standard deviation of the logarithm beyond which the box begins at a ratio of zero."""
DROP, MOST_DOUBLINGS = 10.0, 8
"""Nats by which the log density must fall from the mode to the ends of the box; and most doublings
of an upper end."""
TOLERANCE = 2e-4
"""Error, in nats, for which the number of points is chosen; `Nearby.errors` measures the actual
one."""
FEWEST_POINTS, MOST_POINTS = 4, 2000
FARTHEST = 12.0
"""Largest absolute logarithm of a ratio in the search for the mode."""
START, LONGEST, MOST_STEPS = -0.7, 1.5, 15
"""The logarithms at which the search begins; its longest step, and its most steps."""
SPACING, SMALL_GAIN = 0.02, 0.01
"""Step of finite differences; and the gain, in nats, below which a step is the last."""
LEAST_CURVATURE = 0.1
"""Least curvature that a step assumes."""
LEAST_SHARE = 1e-10
"""Smallest ratio of eigenvalues of the precision of the coefficients: below it the columns depend
on each other, and nothing is interpolated."""
LARGEST_EXPONENT = 80.0
PARTS = "profile", "log_squares", "best", "root"
"""The interpolated parts: n/2 log(s / s_0) + half log det; log(s / s_0); b(phi); U."""

LogPrior = Callable[[np.ndarray, float, np.ndarray], float]
"""(coefficients, sigma, ratios) -> log prior, in the logarithms of the sds."""


class Profile(NamedTuple):
    """The likelihood at some ratios, as a function of coefficients and sigma.

    Attributes:
      half_log_det: log det H / 2.
      squares: s, the minimum of squares over the coefficients.
      best: the coefficients at the minimum.
      root: U, lower triangular, of the precision of the coefficients.
    """

    half_log_det: float
    squares: float
    best: Float[np.ndarray, " p"]
    root: Float[np.ndarray, "p p"]

    @classmethod
    def from_sums(cls, sums: HostSums, ratios: Float[np.ndarray, " P"]) -> Profile | None:
        """The likelihood of these sums; None if they do not determine the coefficients or are not
        finite."""
        try:
            return cls.from_pieces(sums.pieces(ratios))
        except np.linalg.LinAlgError:  # by rounding, at ratios that are far too large
            return None

    @classmethod
    def from_pieces(cls, pieces: Pieces) -> Profile | None:
        """From log det H and M; None if M does not determine the coefficients."""
        of_x, of_both = pieces.squares[:-1, :-1], pieces.squares[:-1, -1]
        spreads = np.linalg.eigvalsh(of_x) if len(of_x) else np.ones(1)
        if spreads[0] <= LEAST_SHARE * spreads[-1]:
            return None
        root = np.linalg.cholesky(of_x)
        whitened = np.linalg.solve(root, of_both)
        squares = float(pieces.squares[-1, -1] - whitened @ whitened)
        if not squares > 0:
            return None
        return cls(pieces.half_log_det, squares, np.linalg.solve(root.T, whitened), root)

    def log_lik(self, b: np.ndarray, sigma: float, count: float) -> float:
        """The log likelihood at coefficients and sigma."""
        whitened = (b - self.best) @ self.root
        squares = self.squares + float(whitened @ whitened)
        log_normal = -0.5 * (count * (LOG_2PI + 2 * math.log(sigma)) + squares / sigma**2)
        return log_normal - self.half_log_det

    def marginal(self, count: float) -> float:
        """The log likelihood with coefficients and sigma integrated out, up to a constant."""
        degrees = count - len(self.best)
        half_log_precision = float(np.log(np.diagonal(self.root)).sum())
        return -self.half_log_det - half_log_precision - 0.5 * degrees * math.log(self.squares)

    def sigma(self, count: float) -> float:
        """The standard deviation of the errors."""
        return math.sqrt(self.squares / max(count - len(self.best), 1.0))


class Interpolation(NamedTuple):
    """The likelihood near its mode.

    Attributes:
      rows: the data of `log_lik`, as one group.
      level: the log likelihood at the centre, which `log_lik` leaves out.
      num_points: number of points at which it was computed, including those of the search.
    """

    rows: dict[str, np.ndarray]
    level: float
    num_points: int


class Likelihood(Protocol):
    """A marginal likelihood on the host: of sums over rows (`NormalSums`), or by Laplace's
    approximation (`laplace_on_host.LaplaceRows`). The attributes are those of `HostSums`, and the
    most points for which interpolation pays."""

    count: float
    largest: np.ndarray
    groups: np.ndarray
    most_points: int

    @property
    def num_factorisations(self) -> int:
        """Number of points so far."""

    def profile(self, ratios: Float[np.ndarray, " P"]) -> Profile | None:
        """The likelihood at some ratios, as a function of coefficients and sigma."""

    def prepare(self, ratios: Float[np.ndarray, " P"]) -> None:
        """Called once with the ratios at the mode, before the points about it are computed."""

    def exact(self, b: np.ndarray, sigma: float, ratios: np.ndarray) -> float:
        """The log likelihood; -inf where it is not found."""

    def forget(self) -> None:
        """Frees what is kept for the next call."""


class NormalSums:
    """The marginal likelihood of a normal law, from sums over rows."""

    def __init__(self, sums: HostSums):
        self._sums = sums
        self.count, self.largest, self.groups = sums.count, sums.largest, sums.groups
        self.most_points = MOST_POINTS

    @property
    def num_factorisations(self) -> int:
        """Number of points so far."""
        return self._sums.num_factorisations

    def profile(self, ratios: Float[np.ndarray, " P"]) -> Profile | None:
        """The likelihood at some ratios, as a function of coefficients and sigma."""
        return Profile.from_sums(self._sums, ratios)

    def prepare(self, ratios: Float[np.ndarray, " P"]) -> None:
        """Nothing: the likelihood is quadratic in the coefficients."""

    def exact(self, b: np.ndarray, sigma: float, ratios: np.ndarray) -> float:
        """The log likelihood; -inf where it is not found."""
        profile = self.profile(ratios)
        if profile is None:
            return -math.inf
        return profile.log_lik(b, sigma, self.count)

    def forget(self) -> None:
        """Frees what is kept for the next call."""
        self._sums.forget()


def near_mode(sums: Likelihood, log_prior: LogPrior, size: int) -> Interpolation | None:
    """The likelihood near the mode of the posterior, for `size` ratios. None if it needs too many
    points, if a few steps find no mode, if the posterior has no end, or if it does not determine
    the coefficients."""
    if size > MOST_RATIOS:
        return None
    marginal = _Marginal(sums, log_prior)
    mode_and_sds = marginal.mode(np.full(size, START))
    if mode_and_sds is None:
        return None
    mode, sds = mode_and_sds
    all_axes = [_axis(marginal, mode, float(sds[i]), i) for i in range(size)]
    axes = [axis for axis in all_axes if axis is not None]
    if len(axes) < size or math.prod(axis.points for axis in axes) > sums.most_points:
        return None
    sums.prepare(np.exp(mode))
    return _through_points(sums, np.exp(mode), axes)


class Axis(NamedTuple):
    """The coordinate of a ratio, from -1 to 1 in the box.

    Attributes:
      is_even: True if the box begins at zero.
      centre: the logarithm in the middle; the unit of the ratio if the box begins at zero.
      reach: half the width of the box in logarithms; asinh of its end if the box begins at zero.
      points: number of points.
    """

    is_even: bool
    centre: float
    reach: float
    points: int

    def ratios(self) -> Float[np.ndarray, " m"]:
        """The ratios at its points."""
        points = chebyshev_points(self.points)
        if self.is_even:
            return self.centre * np.sinh(self.reach * np.sqrt(0.5 + 0.5 * points))
        return np.exp(self.centre + self.reach * points)


def _axis(marginal: _Marginal, mode: Float[np.ndarray, " P"], sd: float, i: int) -> Axis | None:
    """The coordinate of a ratio about the mode; None if the posterior has no end."""
    direction = np.eye(len(mode))[i]
    # The density of the ratio, not of its logarithm.
    log_density = lambda distance: marginal(mode + distance * direction) - distance
    top = marginal(mode)
    if not marginal.sums.largest[i] > 0:  # a column of zeros
        return None
    if sd <= WIDEST and max(log_density(REACH * sd), log_density(-REACH * sd)) < top - DROP:
        return Axis(False, float(mode[i]), REACH * sd, count_points(REACH * sd, 0.5 / sd**2))
    unit = 1 / math.sqrt(marginal.sums.largest[i])
    groups = float(marginal.sums.groups[i])
    distance = math.log1p(REACH * max(sd, 1.0))
    for _ in range(MOST_DOUBLINGS):
        if log_density(distance) < top - DROP:
            reach = math.asinh(math.exp(mode[i] + distance) / unit)
            points = math.ceil(0.5 * count_points(reach, groups)) + 1
            return Axis(True, unit, reach, points)
        distance += math.log(2)
    return None


def count_points(reach: float, size: float) -> int:
    """Number of points that a part of this size needs in a box of this half width, in logarithms.

    >>> count_points(0.2, 500.0), count_points(1.5, 8.0)
    (6, 12)
    """
    up = 0.5 * math.pi / reach
    rho = up + math.sqrt(1 + up**2)
    return max(FEWEST_POINTS, math.ceil(math.log(max(size, 1.0) / TOLERANCE) / math.log(rho)))


class _Marginal:
    """The posterior of the logarithms of ratios, roughly: coefficients and sigma are integrated out
    under flat priors, times their prior density at their best values."""

    def __init__(self, sums: Likelihood, log_prior: LogPrior):
        self.sums, self._log_prior = sums, log_prior

    def __call__(self, phi: np.ndarray) -> float:
        """The log density; -inf if the coefficients are not determined."""
        profile = self.sums.profile(np.exp(phi))
        if profile is None:
            return -math.inf
        sigma = profile.sigma(self.sums.count)
        return profile.marginal(self.sums.count) + self._log_prior(profile.best, sigma, np.exp(phi))

    def mode(
        self, start: np.ndarray
    ) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"]] | None:
        """The mode by Newton steps, and standard deviations by its curvature; None if the steps
        find no mode."""
        phi = start
        for _ in range(MOST_STEPS):
            value, slope, curvature = self._bends(phi)
            if not np.isfinite(curvature).all():
                return None
            sizes, turn = np.linalg.eigh(curvature)
            step = turn @ ((turn.T @ slope) / np.maximum(np.abs(sizes), LEAST_CURVATURE))
            if sizes[0] > 0 and slope @ step < 2 * SMALL_GAIN:
                return phi + step, np.sqrt(np.diag(np.linalg.inv(curvature)))
            step = np.clip(step, -LONGEST, LONGEST)
            while not self(phi + step) > value:
                step = step / 4
                if np.abs(step).max() < SPACING / 10:
                    return None
            phi = phi + step
            if np.abs(phi).max() > FARTHEST:
                return None
        return None

    def _bends(self, phi: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The value, the gradient, and minus the second derivatives, by finite differences."""
        size = len(phi)
        moves = SPACING * np.eye(size)
        pairs = list(itertools.combinations(range(size), 2))
        points = [
            phi,
            *(phi + moves),
            *(phi - moves),
            *(phi + moves[i] + moves[j] for i, j in pairs),
        ]
        # In the order of the first ratio, on which the costliest product depends.
        order = sorted(range(len(points)), key=lambda k: tuple(points[k]))
        values = np.zeros(len(points))
        for k in order:
            values[k] = self(points[k])
        middle, up, down = values[0], values[1 : 1 + size], values[1 + size : 1 + 2 * size]
        with np.errstate(invalid="ignore"):
            curvature = np.diag(2 * middle - up - down)
            for (i, j), double_step in zip(pairs, values[1 + 2 * size :], strict=True):
                curvature[i, j] = curvature[j, i] = up[i] + up[j] - middle - double_step
            slope = (up - down) / (2 * SPACING)
        return float(middle), slope, curvature / SPACING**2


def _through_points(
    sums: Likelihood, centre: Float[np.ndarray, " P"], axes: Sequence[Axis]
) -> Interpolation | None:
    """Interpolation through the points of each ratio, less the likelihood at the centre."""
    at_centre = sums.profile(centre)
    # The first factor's ratios change last, then the second's: the costly products depend on them
    # alone.
    grid = itertools.product(*(axis.ratios() for axis in axes))
    at_points = [sums.profile(np.array(ratios)) for ratios in grid]
    counts = [axis.points for axis in axes]
    profiles = [profile for profile in at_points if profile is not None]
    if at_centre is None or len(profiles) < len(at_points):
        return None
    half = np.array([p.half_log_det for p in profiles])
    logs = np.log([p.squares for p in profiles]) - math.log(at_centre.squares)
    parts = {
        "profile": 0.5 * sums.count * logs + half - at_centre.half_log_det,
        "log_squares": logs,
        "best": np.stack([p.best for p in profiles]),
        "root": np.stack([p.root for p in profiles]),
    }
    on_grid = {name: values.reshape(*counts, *values.shape[1:]) for name, values in parts.items()}
    rows = {name: _coefficients(values, len(counts)) for name, values in on_grid.items()}
    sigma = math.sqrt(at_centre.squares / (sums.count or 1.0))  # one where no errors are normal
    level = at_centre.log_lik(at_centre.best, sigma, sums.count)
    rows |= {"sigma": np.array(sigma), "count": np.array(sums.count)}
    for name in ("is_even", "centre", "reach"):
        rows[name] = np.array([getattr(axis, name) for axis in axes], float)
    group = {name: values[None] for name, values in rows.items()}
    return Interpolation(group, level, sums.num_factorisations)


def chebyshev_points(count: int) -> Float[np.ndarray, " m"]:
    """Chebyshev's points of the first kind."""
    return np.cos(math.pi * (np.arange(count) + 0.5) / count)


def _coefficients(values: np.ndarray, size: int) -> np.ndarray:
    """Coefficients of the Chebyshev polynomials through values on a grid of points; the grid is the
    `size` leading axes."""
    for axis in range(size):
        count = values.shape[axis]
        turn = 2 / count * _polynomials(chebyshev_points(count), count, np)
        turn[0] /= 2
        values = np.moveaxis(np.tensordot(turn, values, (1, axis)), 0, axis)
    return values


def _polynomials(u: Any, count: int, xp: Any) -> Any:
    """The first Chebyshev polynomials at u, (count, *shape of u)."""
    polynomials = [xp.ones_like(u), u]
    while len(polynomials) < count:
        polynomials.append(2 * u * polynomials[-1] - polynomials[-2])
    return xp.stack(polynomials[:count])


def log_lik(rows: Mapping[str, Any], b: Any, sigma: Any, ratios: Any, xp: Any = jnp) -> Any:
    """The log likelihood at coefficients, sigma and ratios, less the level; `xp` is `jax.numpy` or
    `numpy`."""
    is_even = rows["is_even"] > 0
    unit = xp.where(is_even, rows["centre"], 1.0)
    by_logarithm = (xp.log(ratios) - rows["centre"]) / rows["reach"]
    by_arcsinh = 2 * (xp.arcsinh(ratios / unit) / rows["reach"]) ** 2 - 1
    place = xp.where(is_even, by_arcsinh, by_logarithm)
    clipped = xp.clip(place, -1.0, 1.0)
    excess = xp.abs(place - clipped)
    parts = [rows[name] for name in PARTS]
    for i in range(place.shape[0]):
        polynomials = _polynomials(clipped[i], parts[0].shape[0], xp)
        parts = [xp.tensordot(polynomials, part, 1) for part in parts]
    profile, log_squares, best, root = parts
    a = xp.minimum(log_squares - 2 * xp.log(sigma / rows["sigma"]), LARGEST_EXPONENT)
    of_sigma = 0.5 * rows["count"] * (xp.expm1(a) - a)
    of_best = 0.5 * xp.sum(((b - best) @ root) ** 2) / sigma**2
    return -of_sigma - profile - of_best - REACH**2 * xp.sum(excess + 0.5 * excess**2)
