"""A multivariate normal fitted to a log density, with no step size to choose.

Natural-gradient steps whose messages are least squares of scores (`vijax.estimator.least_squares`), inside a trust
region in nats that widens and narrows with what the steps gain (as in Arenz et al. 2023), on draws that stay fixed (as
in Burroni et al. 2024) until their own noise is all that is left; then there are four times as many. Once that noise is
worth less than `NEAR` nats, or there may be no more draws, messages on draws that are fresh at every step are averaged.
So it is an optimiser that is repeatable to the bit, with a stopping rule in the user's units.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import linalg, special

from vijax.automatic.ascent import Mode, never
from vijax.automatic.runaway import ASKED, grows_along
from vijax.automatic.target import Target
from vijax.estimator.least_squares import regression
from vijax.models.density import Frame
from vijax.tree import on_device

NATS, SDS = 2e-3, 0.015
"""What the noise of draws may make of a step where a fit ends: nats, and standard deviations of the mean."""
WIDEST = 10.0
"""Nats that a step may go at most."""
SLOW = 0.3
"""A step that gains less of the gap than this share says that most of the gap is one of shape."""
FEWEST_STEPS = 4
"""More fixed draws are taken where so many evaluations of them are left."""
MOST_POLISHED = 10_000
"""Steps on fresh draws."""
NEAR = 0.3
"""Nats of noise in a step below which fresh draws are averaged: the messages are then nearly linear in q."""


class Ended(enum.StrEnum):
    """Why a fit stopped."""

    CONVERGED = "converged"
    LIMITED = "limited by the noise of its draws"
    SPENT = "stopped at its limit of gradients"
    PASSES = "stopped at its limit of passes over the data"
    UNBOUNDED = "unbounded"
    UNSOLVED = "stopped before an optimum"
    TOO_FEW = "fitted to too few draws"
    INTERRUPTED = "stopped early"


class Gaussian(NamedTuple):
    """N(mean, scale scale').

    Attributes:
      mean: (D,).
      scale: lower triangle (D, D), or standard deviations (D,).
      elbo: on the draws of the fit; the normaliser of a normal included.
      ended: why the fit stopped.
      trace: ELBO after each step taken.
      error: of the means by the noise of the draws, in posterior standard deviations, the worst.
      directions: of many variables (`vijax.automatic.low_rank`), orthonormal columns, those of a stretch of 1 zero,
      stretch: and how much wider q is along each, in units of `scale`; None of others.
    """

    mean: Float[np.ndarray, " D"]
    scale: Float[np.ndarray, "D D"]
    elbo: float
    ended: Ended = Ended.SPENT
    trace: tuple[float, ...] = ()
    error: float = 0.0
    directions: Float[np.ndarray, "D r"] | None = None
    stretch: Float[np.ndarray, " r"] | None = None

    @property
    def is_full(self) -> bool:
        """Whether it has a full covariance."""
        return self.scale.ndim == 2

    def at(self, noise: Float[np.ndarray, "draws D"]) -> Float[np.ndarray, "draws D"]:
        """Draws, from standard normal noise."""
        return self.mean + (noise @ self.scale.T if self.is_full else self.stretched(noise) * self.scale)

    def stretched(self, x: Float[np.ndarray, "*shape D"], power: float = 1.0) -> Float[np.ndarray, "*shape D"]:
        """Vectors made longer along the directions, by a power of the stretch."""
        if self.directions is None or self.stretch is None:
            return x
        return x + ((x @ self.directions) * (self.stretch**power - 1)) @ self.directions.T

    @property
    def sds(self) -> Float[np.ndarray, " D"]:
        """Standard deviations."""
        if self.is_full:
            return np.sqrt((self.scale**2).sum(1))
        if self.directions is None or self.stretch is None:
            return self.scale
        return self.scale * np.sqrt(1 + self.directions**2 @ (self.stretch**2 - 1))

    @property
    def num_directions(self) -> int:
        """Directions along which it is not as wide as its `scale` says."""
        return 0 if self.stretch is None else int((self.stretch != 1).sum())

    def drawn(self, size: int, seed: Any) -> tuple[Float[np.ndarray, "draws D"], Float[np.ndarray, " draws"]]:
        """Draws, as `noise_of` makes them, and log q there."""
        noise = noise_of(size, len(self.mean), seed)
        return self.at(noise), 0.5 * (len(self.mean) - (noise**2).sum(1)) - self.entropy()

    def frame(self) -> Frame:
        """In which it is N(0, I)."""
        dtype = jnp.result_type(float)
        more = {name: getattr(self, name) for name in ("directions", "stretch") if getattr(self, name) is not None}
        own = {"shift": self.mean, "scale": self.scale, **more}
        return Frame(**{name: on_device(np.asarray(part, dtype)) for name, part in own.items()})

    def entropy(self) -> float:
        """In nats."""
        scales = np.diag(self.scale) if self.is_full else self.scale
        more = 0.0 if self.stretch is None else np.log(self.stretch).sum()
        return float(np.log(scales).sum() + more + 0.5 * len(self.mean) * np.log(2 * np.pi * np.e))

    def whitened(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D"]:
        """The noise that leads to points."""
        gap = x - self.mean
        if self.is_full:
            return linalg.solve_triangular(self.scale, gap.T, lower=True).T
        return self.stretched(gap / self.scale, -1.0)

    def distance(self, x: Float[np.ndarray, " D"]) -> float:
        """Squared, from the mean, in standard deviations."""
        return float((self.whitened(x[None]) ** 2).sum())


def noise_of(size: int, dim: int, seed: Any) -> Float[np.ndarray, "draws D"]:
    """Antithetic scrambled Sobol normals: at least `size`, the next power of two."""
    from scipy.stats import qmc  # here, for it takes as long to import as JAX itself

    pairs = max(int(np.ceil(np.log2(max(size, 2)))) - 1, 0)
    uniform = qmc.Sobol(dim, rng=np.random.default_rng(seed)).random_base2(pairs)
    half = special.ndtri(np.clip(uniform, 1e-9, 1 - 1e-9))
    return np.concatenate([half, -half])


class Laplace(NamedTuple):
    """The normal at a mode; and how many nats above it Newton's step sees, which are few where the search arrived."""

    q: Gaussian
    promised: float


def laplace(target: Target, mode: Mode, widest: float = 2.0) -> Laplace:
    """The normal at a mode with the curvature there, no coordinate's standard deviation above `widest`: where a mode is
    flat, or no mode, the whole step would lead astray. The Hessian is of central differences."""
    dim, width = len(mode.x), 0.1 if target.epsilon > 1e-10 else 1e-3
    steps = width * np.minimum(mode.sds, widest)
    _, slopes = target.slopes(np.concatenate([mode.x + np.diag(steps), mode.x - np.diag(steps)]))
    hessian = (slopes[:dim] - slopes[dim:]) / (2 * steps[:, None])
    units = 1 / np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1 / widest**2))
    w, v = np.linalg.eigh(-0.5 * (hessian + hessian.T) * units * units[:, None])
    curved = np.maximum(np.abs(w), 1e-10 * np.abs(w).max())  # up the neck of a funnel they differ by more than digits
    precision = (v * curved) @ v.T + np.diag((units / widest) ** 2)
    scale = units[:, None] * root_of_inverse(precision)
    whitened = 0.5 * (slopes[:dim] + slopes[dim:]).mean(0) @ scale
    return Laplace(Gaussian(mode.x, scale, -np.inf), 0.5 * float(whitened @ whitened))


def root_of_inverse(precision: np.ndarray) -> Float[np.ndarray, "D D"]:
    """The lower triangle L with L L' the inverse of a positive definite matrix."""
    flipped = np.linalg.cholesky(precision[::-1, ::-1])  # precision = U U', U upper: then L = U'^-1
    return linalg.solve_triangular(flipped[::-1, ::-1].T, np.eye(len(precision)), lower=True)


class Regressed(NamedTuple):
    """What draws say of a step, and how well they know it.

    Attributes:
      slope: a, (D,).
      curvature: B, (D, D).
      sds: standard errors of a, in posterior standard deviations, (D,).
      nats: what a whole step is expected to make of the noise alone: half the squared errors of the means, and a
        quarter of the squared errors of the D^2 curvatures.
    """

    slope: Float[np.ndarray, " D"]
    curvature: Float[np.ndarray, "D D"]
    sds: Float[np.ndarray, " D"]
    nats: float


def regressed(noise: Float[np.ndarray, "draws D"], scores: Float[np.ndarray, "draws D"]) -> Regressed:
    """The regression of scores on noise whose second half is minus the first. Such draws are half as many: what is even
    about the scores disturbs the means alone, and is the same at both of a pair; what is odd the curvatures alone."""
    slope, curvature = regression(noise, scores, diagonal=False, xp=np)
    left = scores - slope + noise @ curvature
    pairs, dim = len(noise) // 2, noise.shape[1]
    even, odd = 0.5 * (left[:pairs] + left[pairs:]), 0.5 * (left[:pairs] - left[pairs:])
    of_slope = (even**2).sum(0) / max(pairs - 1, 1) / pairs
    of_curvature = (odd**2).sum(0) / max(pairs - dim, 1) / pairs
    return Regressed(slope, curvature, np.sqrt(of_slope), float(0.5 * of_slope.sum() + 0.25 * dim * of_curvature.sum()))


class Evaluated(NamedTuple):
    """A normal on fixed draws: its ELBO there, up to a constant, what the scores say of a step, the size of the log
    density, and a lower bound on KL(q || p): log of the mean importance ratio, less the mean of its logarithm."""

    at: Gaussian
    elbo: float
    asked: Regressed
    spread: float
    gap: float


def evaluate(target: Target, q: Gaussian, noise: Float[np.ndarray, "draws D"]) -> Evaluated:
    """ELBO and step; draws at which the density is zero make the ELBO -inf, and push nowhere.

    In the frame of q the scores say that log p is about  c + a' e - e' B e / 2,  whose mean over draws is wrong by what
    their second moments are off: that is taken out. So the ELBO of a normal target is exact, as its steps are; and one
    rises where the others lead, but for what is not normal."""
    values, slopes = target.slopes(q.at(noise))
    spread = float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
    asked = regressed(noise, slopes @ q.scale)
    moments = noise.T @ noise / len(noise) - np.eye(len(asked.slope))
    off = float(asked.slope @ noise.mean(0) - 0.5 * (asked.curvature * moments).sum())
    ratios = values + 0.5 * (noise**2).sum(1)
    known = bool(np.isfinite(ratios).all())  # where p is zero at a draw it is no matter of shape
    gap = float(special.logsumexp(ratios) - np.log(len(ratios)) - ratios.mean()) if known else 0.0
    return Evaluated(q, float(values.mean()) - off + q.entropy(), asked, spread, gap)


class Step(NamedTuple):
    """Where a natural-gradient step inside a trust region leads; `nats` is KL(to || q); `is_whole` where neither radius
    nor cone made it shorter than was asked."""

    to: Gaussian
    nats: float
    is_whole: bool


def step(q: Gaussian, slope: np.ndarray, curvature: np.ndarray, radius: float, rho: float = 1.0) -> Step:
    """The KL step towards the normal that the regression speaks of, as far as the radius and the cone allow.

    In the frame of q:  W = I + rho (B - I),   shift = rho W^-1 a,   covariance W^-1."""
    eye, asked = np.eye(len(slope)), rho
    for _ in range(200):
        w, v = np.linalg.eigh(eye + rho * (curvature - eye))
        if w.min() > 0.1:
            shift = rho * (v @ ((v.T @ slope) / w))
            nats = 0.5 * float((1 / w - 1 + np.log(w)).sum() + shift @ shift)
            if nats <= radius:
                break
        rho *= 0.6
    scale = np.linalg.cholesky(q.scale @ ((v / w) @ v.T) @ q.scale.T)
    return Step(q._replace(mean=q.mean + q.scale @ shift, scale=scale), nats, rho == asked)


class Sitting(NamedTuple):
    """Where a fit stands when it takes new draws: what it goes on from.

    Attributes:
      mean: of the normal,
      scale: its scale,
      elbo: and its ELBO on the draws before.
      size: how many draws there are now.
      level: how often there were more of the fixed ones.
      averaged: of how many sets, the fixed one among them, messages are averaged so far; 0 while draws are fixed.
      doubt: nats that the noise of the fixed draws made of a step, where they are averaged.
      error: the same of the means, in standard deviations.
      wide: standard deviations of the first normal, beside which q may get so wide that the density may be improper.
      origin: and its mean.
    """

    mean: Float[np.ndarray, " D"]
    scale: Float[np.ndarray, "D D"]
    elbo: float
    size: int
    level: int
    averaged: int
    doubt: float
    error: float
    wide: Float[np.ndarray, " D"]
    origin: Float[np.ndarray, " D"]

    @classmethod
    def begin(cls, start: Gaussian) -> Sitting:
        """At the first draws."""
        size = max(32, 4 * len(start.mean))
        return cls(start.mean, start.scale, start.elbo, size, 0, 0, 0.0, 0.0, start.sds, start.mean)

    @property
    def q(self) -> Gaussian:
        """The normal."""
        return Gaussian(self.mean, self.scale, self.elbo)


def ignored(sitting: Sitting) -> None:
    """Nobody goes on."""


def fits(q: Gaussian, gap: float) -> bool:
    """Nothing else is tried: no gap is too large."""
    return False


def fit(
    target: Target,
    begin: Sitting,
    seed: int,
    max_draws: int,
    max_gradients: int,
    stopped: Callable[[], bool] = never,
    note: Callable[[Sitting], None] = ignored,
    misfits: Callable[[Gaussian, float], bool] = fits,
) -> Gaussian:
    """The normal nearest to the target, by the ELBO.

    Args:
      target: the density.
      begin: where to begin.
      seed: of the draws.
      max_draws: fixed draws are never more.
      max_gradients: no step is taken, and no set of draws begun, that would need more, those of the target so far
        included.
      stopped: asked before each step; where it says so the fit ends as it stands.
      note: told where to go on, at each new set of draws.
      misfits: asked of a normal and its gap, beyond what the noise of draws makes of it, where that noise is all that
        is left, or a step gains little beside the gap: whether no normal will do. Then the fit ends.
    """
    if begin.averaged:
        return _polished(target, begin, [seed, begin.level], max_gradients, stopped, note, misfits)
    dim, radius, refused = len(begin.mean), 1.0, 0
    noise = noise_of(begin.size, dim, [seed, begin.level])
    now = evaluate(target, begin.q, noise)
    trace: list[float] = []
    while True:
        if stopped():
            return now.at._replace(elbo=now.elbo, ended=Ended.INTERRUPTED, trace=tuple(trace))
        slope, curvature, sds, doubt = now.asked
        trial = step(now.at, slope, curvature, radius)
        settled = trial.is_whole and trial.nats < max(0.5 * doubt, 1e-7)
        spent = target.num_gradients + len(noise) > max_gradients
        if not settled and not spent:
            then = evaluate(target, trial.to, noise)
            slack = 1e-3 * trial.nats + 10 * target.epsilon * now.spread
            if then.elbo >= now.elbo - slack:
                radius = min(2 * radius, WIDEST) if not trial.is_whole or trial.nats > 0.25 * radius else radius
                gain = then.elbo - now.elbo
                now, refused = then, 0
                trace.append(now.elbo)
                if _is_far(now.at, begin):
                    if grows_along(target, now.at.at(noise_of(ASKED, dim, [seed, 98]))).any():
                        return now.at._replace(elbo=now.elbo, ended=Ended.UNBOUNDED, trace=tuple(trace))
                    begin = begin._replace(wide=now.at.sds, origin=now.at.mean)  # proper, and of another size
                if gain < SLOW * (now.gap - doubt) and misfits(now.at, now.gap - doubt):
                    return now.at._replace(elbo=now.elbo, ended=Ended.SPENT, trace=tuple(trace))
                continue
            refused, radius = refused + 1, trial.nats / 4
            if refused <= 3 and radius >= doubt:
                continue
        elif settled:
            now = now._replace(at=trial.to)
        done = now.at._replace(elbo=now.elbo, trace=tuple(trace), error=float(sds.max()))
        if settled and doubt < NATS and sds.max() < SDS:
            return done._replace(ended=Ended.CONVERGED)
        if spent and not settled:
            return done._replace(ended=Ended.LIMITED if trial.nats < doubt else Ended.SPENT)
        if misfits(now.at, now.gap - doubt):
            return done._replace(ended=Ended.LIMITED)
        more = min(4 * len(noise), max_draws)
        if doubt < NEAR or more <= len(noise) or target.num_gradients + FEWEST_STEPS * more > max_gradients:
            here = begin._replace(mean=done.mean, scale=done.scale, elbo=done.elbo, size=len(noise))
            polish = here._replace(averaged=1, doubt=doubt, error=float(sds.max()))
            polished = _polished(target, polish, [seed, begin.level], max_gradients, stopped, note, misfits)
            return polished._replace(trace=done.trace)
        begin = begin._replace(mean=now.at.mean, scale=now.at.scale, elbo=now.elbo, size=more, level=begin.level + 1)
        note(begin)
        radius, refused = 1.0, 0
        noise = noise_of(more, dim, [seed, begin.level])
        now = evaluate(target, now.at, noise)


def _polished(
    target: Target,
    begin: Sitting,
    seed: list[int],
    max_gradients: int,
    stopped: Callable[[], bool],
    note: Callable[[Sitting], None],
    misfits: Callable[[Gaussian, float], bool] = fits,
) -> Gaussian:
    """The running mean of messages on draws that are fresh at every step, the fixed ones before counted as the first:
    their noise falls with all draws taken, and none is evaluated twice (Robbins and Monro 1951, with rho = 1 / t). The
    radius is NEAR / t nats: else a set with a draw far out, where slopes are steep, would undo many before it."""
    q = begin.q._replace(error=float(begin.error / np.sqrt(begin.averaged)))
    for count in range(begin.averaged + 1, MOST_POLISHED):
        if stopped():
            return q._replace(ended=Ended.INTERRUPTED)
        if target.num_gradients + begin.size > max_gradients:
            return q._replace(ended=Ended.LIMITED)
        noise = noise_of(begin.size, len(q.mean), [*seed, count])
        now = evaluate(target, q, noise)
        moved = step(q, now.asked.slope, now.asked.curvature, NEAR / count, rho=1 / count)
        q = moved.to._replace(elbo=q.elbo + (now.elbo - q.elbo) / count, error=float(begin.error / np.sqrt(count)))
        note(begin._replace(mean=q.mean, scale=q.scale, elbo=q.elbo, averaged=count))
        if begin.doubt / count < NATS and begin.error < SDS * np.sqrt(count):
            return q._replace(ended=Ended.CONVERGED)
        if not count & (count - 1) and misfits(
            q, now.gap - begin.doubt / count
        ):  # seldom: each look is a chance to err
            return q._replace(ended=Ended.LIMITED)
    return q._replace(ended=Ended.LIMITED)


def _is_far(q: Gaussian, begin: Sitting) -> bool:
    """A variance, or a distance gone, beyond all scales of the start: the density is of another size, or improper."""
    scales = np.maximum(begin.wide, 1e-12)
    far, wide = np.abs(q.mean - begin.origin) / scales, q.sds / scales
    return bool(max(far.max(), wide.max()) > 1e6)
