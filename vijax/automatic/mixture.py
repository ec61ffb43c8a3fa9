"""A mixture of normals fitted to a log density that one normal misfits, from that normal on.

Components are added one by one, where log p - log q is largest among the draws so far, and every
component moves by natural-gradient steps in a trust region of its own. This is the method of Arenz,
Neumann and Zhong 2018 and of Arenz et al. 2023 (GMMVI), with the message of
`vijax.estimator.least_squares`: for component k, with R = log p - log q,

    L' grad R  ~  a - B e   on draws x = m + L e of it,     a and I + B the slope and curvature of its step,
    log w_k <- log w_k + rho E_k[R], normalised.

No draw is forgotten: all of them serve all components at every step, each with the weight N_k(x) /
(density of all draws), and a component is drawn from anew only where they are too few for it, by
their effective number (Arenz, Zhong and Neumann 2020, section 4.2). So gradients go where
components have moved to."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import linalg, special

from vijax.automatic.gaussian import Gaussian, draw_noise, step
from vijax.automatic.trust_region import Run
from vijax.families.vector.normal_mixture import NormalMixture
from vijax.inference.estimator.scores import regression
from vijax.verdict.report import Ended

MOST_PARTS, MOST_DIM = (
    8,
    50,
)  # largest number of components; and of variables up to which a mixture is tried unasked
FEWEST_DRAWS, WANTED = 16, 4
"""Draws of a component at a time, at least; and the multiple of them that it needs, effectively, at
every step."""
RADIUS = 0.4  # nats that a component may move in a step
REPEATS = 2  # steps on the same draws
PACE = 12
"""Gradients for each variable, at least, between one component and the next: with fewer, fewer
components serve better."""
WINDOW, LEVEL = 500, 0.01
"""A mixture has settled where its mean ELBO over `WINDOW` gradients, against that over as many
before, rises by less than `LEVEL` nats in a thousand."""
ENOUGH = 1e-3
"""Nats from the posterior, by the draws so far, below which no further component is added: draws
show nothing of where there are none."""
# least value of log p - log q, in nats below the median: lower ones, as where p is zero, count as
# this
LOWEST = 30.0
BOLD, DECAY = 0.5, 0.02
"""Size of the steps while components are added, and the rate at which they get shorter after
that."""
SMALLEST, NEW = 1e-4, 0.1  # smallest weight of a component, and weight of a new one
OUTLOOKS = 3.0, 10.0, 30.0
"""A new component goes where log p - max(log q, peak of log q less so many nats) is largest. The
three take turns, so that some components are near the mass and some in the tails (Arenz et al.
2023, section 4.3)."""


# --- mixtures -------------------------------------------------------------------------------------
class Mixture(NamedTuple):
    """sum_k w_k N_k."""

    weights: Float[np.ndarray, " K"]  # w, (K,)
    parts: tuple[Gaussian, ...]  # the normals
    elbo: float = -np.inf  # on the draws of the fit
    ended: Ended = Ended.SPENT  # why the fit stopped
    trace: tuple[float, ...] = ()  # ELBO after each step taken
    error: float = 0.0  # 0, for that of the means is not known
    # Nats that the ELBO still rose in a thousand gradients; infinite where that is not known
    rise: float = float("inf")

    @property
    def is_full(self) -> bool:
        """True: covariances are full."""
        return True

    @property
    def num_directions(self) -> int:
        """0: there are none beside the covariances."""
        return 0

    def draw(
        self, size: int, seed: Any
    ) -> tuple[Float[np.ndarray, "draws D"], Float[np.ndarray, " draws"]]:
        """Returns draws, and log q there. The shares of the components are as exact as whole
        numbers can be."""
        rng = np.random.default_rng(seed)
        places = (np.arange(size) + rng.uniform()) / size
        counts = np.bincount(
            np.searchsorted(np.cumsum(self.weights)[:-1], places), minlength=len(self.parts)
        )
        dim = len(self.parts[0].mean)
        each = [
            part.from_noise(rng.normal(size=(n, dim)))
            for part, n in zip(self.parts, counts, strict=True)
        ]
        x = rng.permutation(np.concatenate(each))
        return x, self.log_prob(x)

    def log_densities(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "K points"]:
        """Returns log N_k(x)."""
        return np.stack([part.log_prob(x) for part in self.parts])

    def log_prob(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Returns log q(x)."""
        return special.logsumexp(self.log_densities(x), 0, b=self.weights[:, None])

    def scores(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D"]:
        """Returns the gradient of log q."""
        shares = special.softmax(self.log_densities(x) + np.log(self.weights)[:, None], 0)
        of_each = [-np.linalg.solve(p.scale.T, p.whiten(x).T).T for p in self.parts]
        return sum(share[:, None] * score for share, score in zip(shares, of_each, strict=True))

    def distance(self, x: Float[np.ndarray, " D"]) -> float:
        """Returns the squared distance from the mean of the nearest component, in its standard
        deviations."""
        return min(part.distance(x) for part in self.parts)

    def to_frame(self, frame: Gaussian) -> NormalMixture:
        """Returns it in coordinates in which `frame` is N(0, I)."""
        inside = lambda x: linalg.solve_triangular(frame.scale, x, lower=True)
        factors = np.stack([inside(part.scale) for part in self.parts])
        scales = np.diagonal(factors, axis1=1, axis2=2)
        triangles = np.tril(factors, -1) / scales[..., None] + np.stack(
            [np.diag(np.log(s)) for s in scales]
        )
        centers = np.stack([inside(part.mean - frame.mean) for part in self.parts])
        as_floats = (
            jnp.asarray(a, jnp.result_type(float))
            for a in (np.log(self.weights), centers, triangles)
        )
        return NormalMixture(*as_floats)


class Bank(NamedTuple):
    """All draws so far, with log p and its gradient there: draws of one mixture of the normals that
    made them."""

    x: Float[np.ndarray, "draws D"]  # the draws
    values: Float[np.ndarray, " draws"]  # log p, -inf where it is zero
    slopes: Float[np.ndarray, "draws D"]  # its gradients, zero there
    parts: tuple[Gaussian, ...]  # the normals
    counts: tuple[int, ...]  # number of draws of each
    log_mass: Float[np.ndarray, " draws"]  # log of the sum of counts times densities

    @classmethod
    def empty(cls, dim: int) -> Bank:
        """Returns one without draws."""
        return cls(np.zeros((0, dim)), np.zeros(0), np.zeros((0, dim)), (), (), np.zeros(0))

    @property
    def log_prob(self) -> Float[np.ndarray, " draws"]:
        """Log density of the mixture that all draws are of (Veach and Guibas 1995: the balance
        heuristic)."""
        return self.log_mass - np.log(len(self.x))

    def with_draws(
        self, part: Gaussian, x: np.ndarray, values: np.ndarray, slopes: np.ndarray
    ) -> Bank:
        """Returns it with draws of one more normal."""
        parts, counts = (*self.parts, part), (*self.counts, len(x))
        before = np.logaddexp(self.log_mass, np.log(len(x)) + part.log_prob(self.x))
        new = special.logsumexp(
            Mixture(np.ones(len(parts)), parts).log_densities(x), 0, b=np.array(counts)[:, None]
        )
        x, values, slopes = (
            np.concatenate(pair)
            for pair in ((self.x, x), (self.values, values), (self.slopes, slopes))
        )
        return Bank(x, values, slopes, parts, counts, np.concatenate([before, new]))


# --- the fit --------------------------------------------------------------------------------------
def draws_per_part(dim: int) -> int:
    """Returns the number of draws of a component at a time: the next power of two."""
    return max(FEWEST_DRAWS, 1 << (dim - 1).bit_length())


def fewest_gradients(dim: int) -> int:
    """Returns the least number of gradients of a mixture: two components, and a few steps to
    settle."""
    return 4 * WANTED * draws_per_part(dim)


def fit(run: Run, start: Gaussian, rivals: list[Gaussian], seed: int) -> Mixture:
    """Returns the mixture nearest to the target, by the ELBO, from the best normal and normals at
    other modes on. About half of the gradients go while components are added."""
    target = run.target
    parts = (start, *rivals[: MOST_PARTS - 1])
    walk = _Walk(run, Mixture(np.full(len(parts), 1 / len(parts)), parts), seed)
    first, half = target.num_gradients, (run.max_gradients - target.num_gradients) // 2
    pace = max(half // (MOST_PARTS - len(parts) + 1), PACE * target.dim)
    walk.look()
    if not rivals:  # the best normal wants no steps, but company
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
    return walk.settled()


class _Walk:
    """A mixture (`q`) during its fit, with all draws so far."""

    def __init__(self, run: Run, q: Mixture, seed: int):
        self.q, self._run, self._target, self._seed = q, run, run.target, seed
        self._size = draws_per_part(run.target.dim)
        self._bank = Bank.empty(run.target.dim)
        self._draws = 0
        self._trace: list[float] = []
        self._spent: list[int] = []

    def look(self) -> bool:
        """Draws of the components of which there are too few effective draws, or else of one in
        turn. False where no gradients are left."""
        known = self._known()
        wanted = [k for k in range(len(known)) if known[k] < WANTED * self._size] or [
            self._draws % len(known)
        ]
        if not self._run.affords(self._size * len(wanted)):
            return False
        for k in wanted:
            self._draw(k)
        return True

    def _known(self) -> Float[np.ndarray, " K"]:
        """Returns the effective number of draws of each component: the inverse of the sum of
        squared weights."""
        if not len(self._bank.x):
            return np.zeros(len(self.q.parts))
        shares = special.softmax(self.q.log_densities(self._bank.x) - self._bank.log_mass, 1)
        return 1 / (shares**2).sum(1)

    def _draw(self, k: int) -> None:
        x = self.q.parts[k].from_noise(
            draw_noise(self._size, self._target.dim, [self._seed, 11, self._draws])
        )
        self._bank = self._bank.with_draws(self.q.parts[k], x, *self._target.slopes(x))
        self._draws += 1

    def step(self, rho: float) -> bool:
        """Moves every component and weight, twice on the same draws. False where no gradients are
        left."""
        if self._run.stopped() or not self.look():
            return False
        for _ in range(REPEATS):
            self._move(rho)
        return True

    def _move(self, rho: float) -> None:
        bank = self._bank
        shares = special.softmax(self.q.log_densities(bank.x) - bank.log_mass, 1)
        gains = shares @ self._ratios(bank.x, bank.values)
        self._trace.append(float(self.q.weights @ gains))
        self._spent.append(self._target.num_gradients)
        scores = np.where(
            np.isfinite(bank.values)[:, None], bank.slopes - self.q.scores(bank.x), 0.0
        )
        parts = [
            _moved(part, bank.x, scores, share, rho)
            for part, share in zip(self.q.parts, shares, strict=True)
        ]
        self.q = Mixture(_normalised(np.log(self.q.weights) + rho * gains), tuple(parts))

    def gap(self) -> float:
        """Returns the nats between q and the posterior, roughly, by the draws so far."""
        bank = self._bank
        evidence = special.logsumexp(bank.values - bank.log_prob) - np.log(len(bank.x))
        return float(evidence - self._trace[-1])

    def add(self, scale: Float[np.ndarray, "D D"]) -> None:
        """Adds a component where p is most above q."""
        bank = self._bank
        log_q = self.q.log_prob(bank.x)
        seen = np.maximum(log_q, log_q.max() - OUTLOOKS[len(self.q.parts) % len(OUTLOOKS)])
        place = bank.x[int(np.argmax(bank.values - seen))]
        weights = np.append((1 - NEW) * self.q.weights, NEW)
        self.q = Mixture(weights, (*self.q.parts, Gaussian(place, scale, -np.inf)))

    def settled(self) -> Mixture:
        """Takes steps that get shorter, until the ELBO rises no more or gradients are spent;
        returns the mixture."""
        first, count, rise = self._target.num_gradients, 0, np.inf
        while rise >= LEVEL and self.step(min(BOLD, 1 / (1 + DECAY * count))):
            count, rise = count + 1, self._rise(first)
        ended = Ended.CONVERGED if rise < LEVEL else Ended.SPENT
        return self.q._replace(
            elbo=self._trace[-1], trace=tuple(self._trace), ended=ended, rise=rise
        )

    def _rise(self, first: int) -> float:
        """Returns the nats that the ELBO rises in a thousand gradients, from the last but one
        window to the last; infinite where there are not two windows since `first`."""
        now = self._target.num_gradients
        if now - first < 2 * WINDOW:
            return np.inf
        spent, trace = np.array(self._spent), np.array(self._trace)
        late = spent > now - WINDOW
        early = (spent > now - 2 * WINDOW) & ~late
        return float(trace[late].mean() - trace[early].mean()) * 1000 / WINDOW

    def _ratios(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Returns log p - log q, no value below `LOWEST`."""
        found = values - self.q.log_prob(x)
        known = found[np.isfinite(found)]
        return np.maximum(found, (np.median(known) if len(known) else 0.0) - LOWEST)


def _moved(
    part: Gaussian, x: np.ndarray, scores: np.ndarray, weights: np.ndarray, rho: float
) -> Gaussian:
    """Returns a component after its step; unchanged where it has too few effective draws."""
    dim = x.shape[1]
    if 1 / (weights**2).sum() < 2 * (dim + 1):
        return part
    slope, curvature = regression(
        part.whiten(x), scores @ part.scale, diagonal=False, xp=np, weights=weights
    )
    return step(part, slope, np.eye(dim) + curvature, RADIUS, rho).to


def _normalised(log_weights: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """Returns weights that sum to one, none below the smallest."""
    weights = np.maximum(special.softmax(log_weights), SMALLEST)
    return weights / weights.sum()
