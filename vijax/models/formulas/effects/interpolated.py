"""A normal law's marginal likelihood near its mode, from few factorisations.

What is dear in it depends on the ratios of sds of effects to that of errors alone (`on_host`): a
few numbers, whatever the rows, groups and coefficients. In their logarithms phi its parts are
analytic, with singularities pi / 2 away from the real line (log det H is a sum of log(1 + e^(2 phi)
lambda)), so that polynomials through Chebyshev's points meet them with an error that falls like
rho^-m with the number of points m (Trefethen 2013, theorem 8.2). The box of the points is `REACH`
standard deviations wide on each side; beyond it the likelihood falls as that of a normal law. Where
a ratio may be zero its box begins there: the parts are even functions of asinh(ratio sqrt(largest
lambda)).

With n the sum of weights, s(phi) the least squares over coefficients, b(phi) where they are, U U' =
M of the coefficients, and s_0, sigma_0^2 = s_0 / n at the centre, the log likelihood less that of
the centre is

    -n/2 (e^a - 1 - a) - (n/2 log(s / s_0) + half log det) - |U' (b - b(phi))|^2 / (2 sigma^2),
    a = log(s / s_0) - 2 log(sigma / sigma_0),

in which no large numbers cancel: float32 is enough, whatever the number of rows. The parts are
interpolated one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from vijax.models.formulas.effects.integrals import LOG_2PI
from vijax.models.formulas.effects.on_host import HostSums, Pieces

MOST_RATIOS = 3
"""Ratios of sds that are interpolated over, at most: points multiply."""
REACH = 6.0
"""Half the width of the box, in standard deviations of the logarithm of a ratio."""
WIDEST = 0.4
"""A standard deviation beyond which the likelihood may reach down to a ratio of zero."""
LOW, MOST_DOUBLED = 10.0, 8
"""Nats by which the density at the ends of the box is to be below the mode; and how often an upper
end is doubled."""
ENOUGH = 2e-4
"""Nats of error that the number of points is chosen for; `Nearby.errors` measures what it came
to."""
FEWEST_POINTS, MOST_POINTS = 4, 2000
FARTHEST = 12.0
"""Logarithms of ratios that the search for the mode looks at."""
START, LONGEST, MOST_STEPS = -0.7, 1.5, 15
"""Where the search begins; its longest step, and how many it may take."""
APART, SETTLED = 0.02, 0.01
"""Differences for derivatives; and nats that the last step may promise."""
LEAST_CURVATURE = 0.1
"""Curvature that steps take a flat likelihood to have."""
LEAST_SHARE = 1e-10
"""Coefficients that are known so much worse than others depend on each other: nothing is
interpolated."""
LARGEST_EXPONENT = 80.0
PARTS = "profile", "log_squares", "best", "root"
"""What is interpolated: n/2 log(s / s_0) + half log det; log(s / s_0); b(phi); U."""

LogPrior = Callable[[np.ndarray, float, np.ndarray], float]
"""(coefficients, sigma, ratios) -> log prior, in the logarithms of the sds."""


class Profile(NamedTuple):
    """The likelihood at ratios, over coefficients and sigma.

    Attributes:
      half_log_det: log det H / 2.
      squares: s, the least over coefficients.
      best: the coefficients where it is.
      root: U, lower triangular, of the precision of the coefficients.
    """

    half_log_det: float
    squares: float
    best: Float[np.ndarray, " p"]
    root: Float[np.ndarray, "p p"]

    @classmethod
    def from_sums(cls, sums: HostSums, ratios: Float[np.ndarray, " P"]) -> Profile | None:
        """The likelihood of these sums; None where they determine no coefficients, or are not
        finite."""
        try:
            return cls.from_pieces(sums.pieces(ratios))
        except np.linalg.LinAlgError:  # rounding, at ratios that are far too large
            return None

    @classmethod
    def from_pieces(cls, pieces: Pieces) -> Profile | None:
        """From log det H and M; None where M determines no coefficients."""
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
        squares = self.squares + float(
            ((b - self.best) @ self.root) @ ((b - self.best) @ self.root)
        )
        return (
            -0.5 * (count * (LOG_2PI + 2 * math.log(sigma)) + squares / sigma**2)
            - self.half_log_det
        )

    def marginal(self, count: float) -> float:
        """The log likelihood with coefficients and sigma integrated out, up to a constant."""
        free = count - len(self.best)
        return (
            -self.half_log_det
            - float(np.log(np.diagonal(self.root)).sum())
            - 0.5 * free * math.log(self.squares)
        )

    def sigma(self, count: float) -> float:
        """The standard deviation of the errors."""
        return math.sqrt(self.squares / max(count - len(self.best), 1.0))


class Interpolation(NamedTuple):
    """The likelihood of a normal law near its mode.

    Attributes:
      rows: what `log_lik` reads in the place of the data, as one group.
      level: the log likelihood at the centre, which `log_lik` leaves out.
      num_points: the points that it was computed at, those of the search among them.
    """

    rows: dict[str, np.ndarray]
    level: float
    num_points: int


def near_mode(sums: HostSums, log_prior: LogPrior, size: int) -> Interpolation | None:
    """The likelihood of so many ratios near the mode of the posterior. None where that would take
    too many points, where it has no mode that a few steps reach, or no end, or does not determine
    coefficients."""
    if size > MOST_RATIOS:
        return None
    marginal = _Marginal(sums, log_prior)
    top = marginal.mode(np.full(size, START))
    if top is None:
        return None
    mode, sds = top
    all_axes = [_axis(marginal, mode, float(sds[i]), i) for i in range(size)]
    axes = [axis for axis in all_axes if axis is not None]
    if len(axes) < size or math.prod(axis.points for axis in axes) > MOST_POINTS:
        return None
    return _through_points(sums, np.exp(mode), axes)


class Axis(NamedTuple):
    """The coordinate of a ratio, from -1 to 1 in the box.

    Attributes:
      is_even: True where the box begins at zero.
      centre: the logarithm in the middle; else the unit of the ratio.
      reach: half the width of the box, in logarithms; else asinh of its end.
      points: the number of points.
    """

    is_even: bool
    centre: float
    reach: float
    points: int

    def ratios(self) -> Float[np.ndarray, " m"]:
        """The ratios of its points."""
        at = chebyshev_points(self.points)
        if self.is_even:
            return self.centre * np.sinh(self.reach * np.sqrt(0.5 + 0.5 * at))
        return np.exp(self.centre + self.reach * at)


def _axis(marginal: _Marginal, mode: Float[np.ndarray, " P"], sd: float, i: int) -> Axis | None:
    """The coordinate of a ratio about the mode; None where the posterior has no end."""
    at = lambda away: (
        marginal(mode + away * np.eye(len(mode))[i]) - away
    )  # of the ratio, not of its logarithm
    top = marginal(mode)
    if not marginal.sums.largest[i] > 0:  # a column of zeros
        return None
    if sd <= WIDEST and max(at(REACH * sd), at(-REACH * sd)) < top - LOW:
        return Axis(False, float(mode[i]), REACH * sd, count_points(REACH * sd, 0.5 / sd**2))
    unit, groups = 1 / math.sqrt(marginal.sums.largest[i]), float(marginal.sums.groups[i])
    away = math.log1p(REACH * max(sd, 1.0))
    for _ in range(MOST_DOUBLED):
        if at(away) < top - LOW:
            reach = math.asinh(math.exp(mode[i] + away) / unit)
            return Axis(True, unit, reach, math.ceil(0.5 * count_points(reach, groups)) + 1)
        away += math.log(2)
    return None


def count_points(reach: float, size: float) -> int:
    """Points that a part of this size needs in a box of half this width, of logarithms.

    >>> count_points(0.2, 500.0), count_points(1.5, 8.0)
    (6, 12)
    """
    up = 0.5 * math.pi / reach
    rho = up + math.sqrt(1 + up**2)
    return max(FEWEST_POINTS, math.ceil(math.log(max(size, 1.0) / ENOUGH) / math.log(rho)))


class _Marginal:
    """The posterior of the logarithms of ratios, roughly: coefficients and sigma integrated out
    under flat priors, and their prior where they are best."""

    def __init__(self, sums: HostSums, log_prior: LogPrior):
        self.sums, self._log_prior = sums, log_prior

    def __call__(self, phi: np.ndarray) -> float:
        """The log density; -inf where coefficients are not determined."""
        profile = Profile.from_sums(self.sums, np.exp(phi))
        if profile is None:
            return -math.inf
        sigma = profile.sigma(self.sums.count)
        return profile.marginal(self.sums.count) + self._log_prior(profile.best, sigma, np.exp(phi))

    def mode(
        self, start: np.ndarray
    ) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"]] | None:
        """The mode, and standard deviations by the curvature there, by Newton's steps; None where
        they find none."""
        phi = start
        for _ in range(MOST_STEPS):
            value, slope, curvature = self._bends(phi)
            if not np.isfinite(curvature).all():
                return None
            sizes, turn = np.linalg.eigh(curvature)
            step = turn @ ((turn.T @ slope) / np.maximum(np.abs(sizes), LEAST_CURVATURE))
            if sizes[0] > 0 and slope @ step < 2 * SETTLED:
                return phi + step, np.sqrt(np.diag(np.linalg.inv(curvature)))
            step = np.clip(step, -LONGEST, LONGEST)
            while not self(phi + step) > value:
                step = step / 4
                if np.abs(step).max() < APART / 10:
                    return None
            phi = phi + step
            if np.abs(phi).max() > FARTHEST:
                return None
        return None

    def _bends(self, phi: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The value, the gradient, and minus the second derivatives, by differences."""
        size = len(phi)
        moves = APART * np.eye(size)
        pairs = list(itertools.combinations(range(size), 2))
        around = [
            phi,
            *(phi + moves),
            *(phi - moves),
            *(phi + moves[i] + moves[j] for i, j in pairs),
        ]
        # In the order of the first ratio, on which the dearest product depends.
        order = sorted(range(len(around)), key=lambda k: tuple(around[k]))
        values = np.zeros(len(around))
        for k in order:
            values[k] = self(around[k])
        middle, up, down = values[0], values[1 : 1 + size], values[1 + size : 1 + 2 * size]
        with np.errstate(invalid="ignore"):
            curvature = np.diag(2 * middle - up - down)
            for (i, j), both in zip(pairs, values[1 + 2 * size :], strict=True):
                curvature[i, j] = curvature[j, i] = up[i] + up[j] - middle - both
            slope = (up - down) / (2 * APART)
        return float(middle), slope, curvature / APART**2


def _through_points(
    sums: HostSums, centre: Float[np.ndarray, " P"], axes: Sequence[Axis]
) -> Interpolation | None:
    """Interpolates through the points of each ratio, less the likelihood at a centre."""
    at_centre = Profile.from_sums(sums, centre)
    # The first factor's ratios change last, then the second's: what is dear depends on them alone.
    at_points = [
        Profile.from_sums(sums, np.array(ratios))
        for ratios in itertools.product(*(a.ratios() for a in axes))
    ]
    counts = [axis.points for axis in axes]
    profiles = [profile for profile in at_points if profile is not None]
    if at_centre is None or len(profiles) < len(at_points):
        return None
    half = np.array([one.half_log_det for one in profiles])
    logs = np.log([one.squares for one in profiles]) - math.log(at_centre.squares)
    parts = {
        "profile": 0.5 * sums.count * logs + half - at_centre.half_log_det,
        "log_squares": logs,
        "best": np.stack([one.best for one in profiles]),
        "root": np.stack([one.root for one in profiles]),
    }
    on_grid = {name: values.reshape(*counts, *values.shape[1:]) for name, values in parts.items()}
    rows = {name: _coefficients(values, len(counts)) for name, values in on_grid.items()}
    sigma = math.sqrt(at_centre.squares / sums.count)
    level = at_centre.log_lik(at_centre.best, sigma, sums.count)
    rows |= {"sigma": np.array(sigma), "count": np.array(sums.count)}
    rows |= {
        name: np.array([getattr(axis, name) for axis in axes], float)
        for name in ("is_even", "centre", "reach")
    }
    return Interpolation(
        {name: values[None] for name, values in rows.items()}, level, sums.num_factorisations
    )


def chebyshev_points(count: int) -> Float[np.ndarray, " m"]:
    """Chebyshev's points of the first kind."""
    return np.cos(math.pi * (np.arange(count) + 0.5) / count)


def _coefficients(values: np.ndarray, size: int) -> np.ndarray:
    """Coefficients of Chebyshev polynomials through values at the points of a grid, of its `size`
    leading axes."""
    for axis in range(size):
        count = values.shape[axis]
        turn = 2 / count * _polynomials(chebyshev_points(count), count, np)
        turn[0] /= 2
        values = np.moveaxis(np.tensordot(turn, values, (1, axis)), 0, axis)
    return values


def _polynomials(u: Any, count: int, xp: Any) -> Any:
    """The first Chebyshev polynomials at u, (count, *shape of u)."""
    each = [xp.ones_like(u), u]
    while len(each) < count:
        each.append(2 * u * each[-1] - each[-2])
    return xp.stack(each[:count])


def log_lik(rows: Mapping[str, Any], b: Any, sigma: Any, ratios: Any, xp: Any = jnp) -> Any:
    """The log likelihood at coefficients, sigma and ratios, less `Interpolated.level`, by JAX or by
    NumPy (`xp`)."""
    is_even = rows["is_even"] > 0
    unit = xp.where(is_even, rows["centre"], 1.0)
    of_logarithms = (xp.log(ratios) - rows["centre"]) / rows["reach"]
    place = xp.where(
        is_even, 2 * (xp.arcsinh(ratios / unit) / rows["reach"]) ** 2 - 1, of_logarithms
    )
    inside = xp.clip(place, -1.0, 1.0)
    outside = xp.abs(place - inside)
    parts = [rows[name] for name in PARTS]
    for i in range(place.shape[0]):
        at = _polynomials(inside[i], parts[0].shape[0], xp)
        parts = [xp.tensordot(at, part, 1) for part in parts]
    profile, log_squares, best, root = parts
    a = xp.minimum(log_squares - 2 * xp.log(sigma / rows["sigma"]), LARGEST_EXPONENT)
    of_sigma = 0.5 * rows["count"] * (xp.expm1(a) - a)
    of_best = 0.5 * xp.sum(((b - best) @ root) ** 2) / sigma**2
    return -of_sigma - profile - of_best - REACH**2 * xp.sum(outside + 0.5 * outside**2)
