"""A mixture of normals for a log density that one normal misfits; it begins at that normal.

Components are added one by one, where log p - log q is largest among the draws so far, and every
component moves by natural-gradient steps in its own trust region. This is the method of Arenz,
Neumann and Zhong 2018 and of Arenz et al. 2023 (GMMVI), with the message of
`vijax.estimator.least_squares`: for component k, with R = log p - log q,

    L' grad R  ~  a - B e   on draws x = m + L e of it,     a and I + B the slope and curvature of its step,
    log w_k <- log w_k + rho E_k[R], normalised.

No draw is forgotten: all draws serve all components at every step, each with the weight N_k(x) /
(density of all draws). New draws of a component are taken only if its effective number of draws is
too small (Arenz, Zhong and Neumann 2020, section 4.2). So gradients are spent on components that
have moved."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import linalg, special

from vijax.automatic.gaussian import FEW, Gaussian, draw_noise, step
from vijax.automatic.trust_region import Run
from vijax.families.vector.normal_mixture import NormalMixture
from vijax.inference.estimator.scores import regression
from vijax.verdict.report import Ended

MOST_PARTS = 8  # components, at most
MOST_DIM = 50  # variables up to which a mixture is tried by default
FEWEST_DRAWS = 16  # draws of a component at a time, at least
WANTED = 4  # multiple of these that a component's effective number of draws must reach at each step
RADIUS = 0.4  # nats that a component may move in a step
REPEATS = 2  # steps on the same draws
PACE = 12
"""Gradients for each variable, at least, between one component and the next: with fewer gradients,
fewer components are better."""
WINDOW = 500  # gradients over which the ELBO is averaged
LEVEL = 0.01
"""A mixture has settled when its mean ELBO over the last `WINDOW` gradients rises by less than
this, in nats per thousand gradients, against the window before."""
ENOUGH = 1e-3
"""Nats from the posterior, by the draws so far, below which no further component is added: draws
show nothing of places without draws."""
# Least value of log p - log q, in nats below the median, which replaces lower values, as where p is
# zero
LOWEST = 30.0
BOLD = 0.5  # size of the steps while components are added
DECAY = 0.02  # rate at which steps get shorter after that
SMALLEST = 1e-4  # smallest weight of a component
NEW = 0.1  # weight of a new component
OUTLOOKS = 3.0, 10.0, 30.0
"""A new component begins where log p - max(log q, peak of log q less these nats) is largest. The
three numbers take turns, so that some components are near the mass and some in the tails (Arenz et
al. 2023, section 4.3)."""


class Points(NamedTuple):
    """Points, as the components of a mixture see them."""

    weights: Float[np.ndarray, " K"]
    scales: Float[np.ndarray, "K D D"]
    noise: Float[np.ndarray, "K points D"]  # in which each component is N(0, I)
    log_densities: Float[np.ndarray, "K points"]

    def log_prob(self) -> Float[np.ndarray, " points"]:
        """log q."""
        return special.logsumexp(self.log_densities, 0, b=self.weights[:, None])

    def scores(self) -> Float[np.ndarray, "points D"]:
        """The gradient of log q."""
        shares = special.softmax(self.log_densities + np.log(self.weights)[:, None], 0)
        shared = np.swapaxes(shares[..., None] * self.noise, 1, 2)
        return -np.linalg.solve(np.swapaxes(self.scales, 1, 2), shared).sum(0).T


# --- mixtures -------------------------------------------------------------------------------------
class Mixture(NamedTuple):
    """sum_k w_k N_k."""

    weights: Float[np.ndarray, " K"]  # w, (K,)
    parts: tuple[Gaussian, ...]  # the normals
    elbo: float = -np.inf  # on the draws of the fit
    ended: Ended = Ended.SPENT  # why the fit stopped
    trace: tuple[float, ...] = ()  # ELBO after each step taken
    error: float = 0.0  # 0, for the error of the means is not known
    # Nats that the ELBO still rose in a thousand gradients; infinite if that is not known
    rise: float = float("inf")

    @property
    def is_full(self) -> bool:
        """True: covariances are full."""
        return True

    @property
    def num_directions(self) -> int:
        """0: a mixture has no directions beside the covariances."""
        return 0

    def draw(
        self, size: int, seed: Any
    ) -> tuple[Float[np.ndarray, "draws D"], Float[np.ndarray, " draws"]]:
        """Draws, and log q there. The components have their shares of the draws, rounded."""
        rng = np.random.default_rng(seed)
        places = (np.arange(size) + rng.uniform()) / size
        labels = np.searchsorted(np.cumsum(self.weights)[:-1], places)
        counts = np.bincount(labels, minlength=len(self.parts))
        dim = len(self.parts[0].mean)
        draws = [
            part.from_noise(rng.normal(size=(count, dim)))
            for part, count in zip(self.parts, counts, strict=True)
        ]
        x = rng.permutation(np.concatenate(draws))
        return x, self.log_prob(x)

    def log_densities(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "K points"]:
        """log N_k(x)."""
        return self.view(x).log_densities

    def log_prob(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """log q(x)."""
        return self.view(x).log_prob()

    def scores(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D"]:
        """The gradient of log q."""
        return self.view(x).scores()

    def view(self, x: Float[np.ndarray, "points D"]) -> Points:
        """Points as the components see them."""
        scales = np.stack([part.scale for part in self.parts])
        gaps = x - np.stack([part.mean for part in self.parts])[:, None]
        if x.shape[1] <= FEW:  # all components in one call
            noise = np.swapaxes(np.linalg.solve(scales, np.swapaxes(gaps, 1, 2)), 1, 2)
        else:
            noise = np.stack([part.whiten(x) for part in self.parts])
        entropies = np.array([part.entropy() for part in self.parts])
        log_densities = 0.5 * (x.shape[1] - (noise**2).sum(2)) - entropies[:, None]
        return Points(self.weights, scales, noise, log_densities)

    def distance(self, x: Float[np.ndarray, " D"]) -> float:
        """The squared distance from the mean of the nearest component, in its standard
        deviations."""
        return min(part.distance(x) for part in self.parts)

    def to_frame(self, frame: Gaussian) -> NormalMixture:
        """The mixture in coordinates in which `frame` is N(0, I)."""
        whiten = lambda x: linalg.solve_triangular(frame.scale, x, lower=True)
        factors = np.stack([whiten(part.scale) for part in self.parts])
        scales = np.diagonal(factors, axis1=1, axis2=2)
        log_scales = np.stack([np.diag(np.log(s)) for s in scales])
        triangles = np.tril(factors, -1) / scales[..., None] + log_scales
        centers = np.stack([whiten(part.mean - frame.mean) for part in self.parts])
        dtype = jnp.result_type(float)
        return NormalMixture(
            jnp.asarray(np.log(self.weights), dtype),
            jnp.asarray(centers, dtype),
            jnp.asarray(triangles, dtype),
        )


class Bank(NamedTuple):
    """All draws so far, with log p and its gradient there, as draws of one mixture of their
    normals."""

    x: Float[np.ndarray, "draws D"]  # the draws
    values: Float[np.ndarray, " draws"]  # log p, -inf where it is zero
    slopes: Float[np.ndarray, "draws D"]  # its gradients, zero there
    parts: tuple[Gaussian, ...]  # the normals
    counts: tuple[int, ...]  # number of draws of each
    log_mass: Float[np.ndarray, " draws"]  # log of the sum of counts times densities

    @classmethod
    def empty(cls, dim: int) -> Bank:
        """A bank without draws."""
        return cls(np.zeros((0, dim)), np.zeros(0), np.zeros((0, dim)), (), (), np.zeros(0))

    @property
    def log_prob(self) -> Float[np.ndarray, " draws"]:
        """Log density of the mixture of all draws (the balance heuristic, Veach and Guibas
        1995)."""
        return self.log_mass - np.log(len(self.x))

    def with_draws(
        self, part: Gaussian, x: np.ndarray, values: np.ndarray, slopes: np.ndarray
    ) -> Bank:
        """The bank with draws of another normal."""
        parts = (*self.parts, part)
        counts = (*self.counts, len(x))
        old_mass = np.logaddexp(self.log_mass, np.log(len(x)) + part.log_prob(self.x))
        log_densities = Mixture(np.ones(len(parts)), parts).log_densities(x)
        new_mass = special.logsumexp(log_densities, 0, b=np.array(counts)[:, None])
        return Bank(
            np.concatenate([self.x, x]),
            np.concatenate([self.values, values]),
            np.concatenate([self.slopes, slopes]),
            parts,
            counts,
            np.concatenate([old_mass, new_mass]),
        )


# --- the fit --------------------------------------------------------------------------------------
def draws_per_part(dim: int) -> int:
    """The number of draws of a component at a time: the next power of two."""
    return max(FEWEST_DRAWS, 1 << (dim - 1).bit_length())


def fewest_gradients(dim: int) -> int:
    """The least number of gradients of a mixture: two components, and a few steps to settle."""
    return 4 * WANTED * draws_per_part(dim)


def fit(run: Run, start: Gaussian, rivals: list[Gaussian], seed: int) -> Mixture:
    """The mixture nearest to the target, by the ELBO, which begins at the best normal and normals
    at other modes. About half of the gradients are spent while components are added."""
    target = run.target
    parts = (start, *rivals[: MOST_PARTS - 1])
    walk = _Walk(run, Mixture(np.full(len(parts), 1 / len(parts)), parts), seed)
    first = target.num_gradients
    half = (run.max_gradients - first) // 2
    pace = max(half // (MOST_PARTS - len(parts) + 1), PACE * target.dim)
    walk.draw()
    if not rivals:  # the best normal is at its optimum; it needs another component
        walk.add(start.scale)
    due = first + pace
    while (
        walk.step(BOLD)
        and len(walk.q.parts) < MOST_PARTS
        and target.num_gradients <= first + half + pace
    ):
        if target.num_gradients >= due:
            if walk.gap() < ENOUGH:
                break
            walk.add(start.scale)
            due += pace
    return walk.settle()


class _Walk:
    """A mixture (`q`) during its fit, with all draws so far."""

    def __init__(self, run: Run, q: Mixture, seed: int):
        self.q = q
        self._run = run
        self._target = run.target
        self._seed = seed
        self._size = draws_per_part(run.target.dim)
        self._bank = Bank.empty(run.target.dim)
        self._num_sets = 0  # sets of draws so far
        self._trace: list[float] = []
        self._num_gradients: list[int] = []  # at each step of the trace

    def draw(self) -> bool:
        """Draws of the components whose effective number of draws is too small, or else of one in
        turn. False where no gradients are left."""
        counts = self._effective_draws()
        needy = [k for k, count in enumerate(counts) if count < WANTED * self._size]
        if not needy:
            needy = [self._num_sets % len(counts)]
        if not self._run.affords(self._size * len(needy)):
            return False
        for k in needy:
            self._draw_part(k)
        return True

    def _effective_draws(self) -> Float[np.ndarray, " K"]:
        """The effective number of draws of each component: the inverse of the sum of squared
        weights."""
        if not len(self._bank.x):
            return np.zeros(len(self.q.parts))
        shares = special.softmax(self.q.log_densities(self._bank.x) - self._bank.log_mass, 1)
        return 1 / (shares**2).sum(1)

    def _draw_part(self, k: int) -> None:
        part = self.q.parts[k]
        noise = draw_noise(self._size, self._target.dim, [self._seed, 11, self._num_sets])
        x = part.from_noise(noise)
        self._bank = self._bank.with_draws(part, x, *self._target.slopes(x))
        self._num_sets += 1

    def step(self, rho: float) -> bool:
        """Moves every component and weight, twice on the same draws. False where no gradients are
        left."""
        if self._run.stopped() or not self.draw():
            return False
        for _ in range(REPEATS):
            self._move(rho)
        return True

    def _move(self, rho: float) -> None:
        bank = self._bank
        points = self.q.view(bank.x)
        shares = special.softmax(points.log_densities - bank.log_mass, 1)
        gains = shares @ _ratios(bank.values, points.log_prob())
        self._trace.append(float(self.q.weights @ gains))
        self._num_gradients.append(self._target.num_gradients)
        is_finite = np.isfinite(bank.values)[:, None]
        scores = np.where(is_finite, bank.slopes - points.scores(), 0.0)
        parts = [
            _move_part(part, noise, scores, share, rho)
            for part, noise, share in zip(self.q.parts, points.noise, shares, strict=True)
        ]
        self.q = Mixture(_normalize(np.log(self.q.weights) + rho * gains), tuple(parts))

    def gap(self) -> float:
        """The nats between q and the posterior, roughly, by the draws so far."""
        bank = self._bank
        evidence = special.logsumexp(bank.values - bank.log_prob) - np.log(len(bank.x))
        return float(evidence - self._trace[-1])

    def add(self, scale: Float[np.ndarray, "D D"]) -> None:
        """Adds a component where p is most above q."""
        bank = self._bank
        log_q = self.q.log_prob(bank.x)
        floor = log_q.max() - OUTLOOKS[len(self.q.parts) % len(OUTLOOKS)]
        mean = bank.x[int(np.argmax(bank.values - np.maximum(log_q, floor)))]
        weights = np.append((1 - NEW) * self.q.weights, NEW)
        self.q = Mixture(weights, (*self.q.parts, Gaussian(mean, scale, -np.inf)))

    def settle(self) -> Mixture:
        """Takes steps that get shorter, until the ELBO rises no more or gradients are spent;
        returns the mixture."""
        first = self._target.num_gradients
        count = 0
        rise = np.inf
        while rise >= LEVEL and self.step(min(BOLD, 1 / (1 + DECAY * count))):
            count += 1
            rise = self._rise(first)
        end = Ended.CONVERGED if rise < LEVEL else Ended.SPENT
        return self.q._replace(elbo=self._trace[-1], trace=tuple(self._trace), ended=end, rise=rise)

    def _rise(self, first: int) -> float:
        """The nats that the ELBO rises in a thousand gradients, from the last but one window to the
        last; infinite where there are not two windows since `first`."""
        last = self._target.num_gradients
        if last - first < 2 * WINDOW:
            return np.inf
        num_gradients = np.array(self._num_gradients)
        trace = np.array(self._trace)
        is_late = num_gradients > last - WINDOW
        is_early = (num_gradients > last - 2 * WINDOW) & ~is_late
        return float(trace[is_late].mean() - trace[is_early].mean()) * 1000 / WINDOW


def _ratios(values: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    """log p - log q, at least `LOWEST` below the median."""
    ratios = values - log_q
    finite = ratios[np.isfinite(ratios)]
    median = np.median(finite) if len(finite) else 0.0
    return np.maximum(ratios, median - LOWEST)


def _move_part(
    part: Gaussian, noise: np.ndarray, scores: np.ndarray, weights: np.ndarray, rho: float
) -> Gaussian:
    """A component after its step; unchanged if it has too few effective draws. `noise` are the
    points in which it is N(0, I)."""
    dim = noise.shape[1]
    if 1 / (weights**2).sum() < 2 * (dim + 1):
        return part
    slope, curvature = regression(
        noise, scores @ part.scale, diagonal=False, xp=np, weights=weights
    )
    return step(part, slope, np.eye(dim) + curvature, RADIUS, rho).to


def _normalize(log_weights: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """Weights that sum to one, about `SMALLEST` or more."""
    weights = np.maximum(special.softmax(log_weights), SMALLEST)
    return weights / weights.sum()
