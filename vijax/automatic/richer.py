"""A mixture of normals fitted to a log density that one normal misfits, from that normal on.

Components are added one by one, where log p - log q is largest among the draws so far, and every component moves by
natural-gradient steps in a trust region of its own. This is the method of Arenz, Neumann and Zhong 2018 and of Arenz et
al. 2023 (GMMVI), with the message of `vijax.estimator.least_squares`: for component k, with R = log p - log q,

    L' grad R  ~  a - B e   on draws x = m + L e of it,     a and I + B the slope and curvature of its step,
    log w_k <- log w_k + rho E_k[R], normalised.

No draw is forgotten: all of them serve all components at every step, each with the weight N_k(x) / (density of all
draws), and a component is drawn from anew only where they are too few for it, by their effective number (Arenz, Zhong
and Neumann 2020, section 4.2). So gradients go where components have moved to.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy import special

from vijax.automatic.components import Bank, Mixture, whitened
from vijax.automatic.gaussian import Ended, Gaussian, noise_of, step
from vijax.automatic.target import Target
from vijax.inference.estimator.least_squares import regression

MOST_PARTS, MOST_DIM = 8, 50
"""Components; and variables up to which a mixture is tried unasked."""
FEWEST_DRAWS, WANTED = 16, 4
"""Draws of a component at a time, at least; and how many times as many, effectively, it wants at every step."""
RADIUS = 0.4
"""Nats that a component may move at a step."""
REPEATS = 2
"""Steps on the same draws."""
PACE = 12
"""Gradients between one component and the next, at least, for each variable: where there are fewer, fewer components
serve better."""
WINDOW, LEVEL = 500, 0.01
"""A mixture has settled where the mean ELBO over so many gradients is above that over as many before by what would be
less than so many nats in a thousand."""
ENOUGH = 1e-3
"""Nats from the posterior, by the draws so far, below which no further component is added. Draws know nothing of where
none is, so that more would be rash."""
LOWEST = 30.0
"""Nats below the middle one from which on log p - log q counts as no lower, as where p is zero."""
BOLD, DECAY = 0.5, 0.02
"""Size of the steps while components are added, and how fast they get shorter after that."""
SMALLEST, NEW = 1e-4, 0.1
"""The smallest weight of a component, and that of a new one."""
OUTLOOKS = 3.0, 10.0, 30.0
"""Nats below its peak to which q counts as no smaller where a place for a component is sought: they take turns, so that
some places are near the mass and some in the tails (Arenz et al. 2023, section 4.3)."""


def draws_of_each(dim: int) -> int:
    """Draws of a component at a time: the next power of two."""
    return max(FEWEST_DRAWS, 1 << (dim - 1).bit_length())


def fewest_gradients(dim: int) -> int:
    """Below which no mixture is worth a try: two components, and a little time to settle."""
    return 4 * WANTED * draws_of_each(dim)


def fit(
    target: Target,
    start: Gaussian,
    rivals: list[Gaussian],
    seed: int,
    max_gradients: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Mixture:
    """The mixture nearest to the target, by the ELBO. About half of the gradients go while components are added.

    Args:
      target: the density.
      start: the best normal.
      rivals: normals at other modes.
      seed: of the draws.
      max_gradients: of the target in all, those so far included.
      stopped: whether to end now, asked before each step.
    """
    parts = (start, *rivals[: MOST_PARTS - 1])
    walk = _Walk(target, Mixture(np.full(len(parts), 1 / len(parts)), parts), seed, max_gradients, stopped)
    first, half = target.num_gradients, (max_gradients - target.num_gradients) // 2
    pace = max(half // (MOST_PARTS - len(parts) + 1), PACE * target.dim)
    walk.look()
    if not rivals:  # the best normal wants no steps, but company
        walk.add(start.scale)
    due = first + pace
    while walk.step(BOLD) and len(walk.q.parts) < MOST_PARTS and target.num_gradients <= first + half + pace:
        if target.num_gradients >= due:
            if walk.gap() < ENOUGH:
                break
            walk.add(start.scale)
            due += pace
    return walk.settled()


class _Walk:
    """A mixture on its way, with all draws so far.

    Attributes:
      q: the mixture.
    """

    def __init__(self, target: Target, q: Mixture, seed: int, max_gradients: int, stopped: Callable[[], bool]):
        self._stopped = stopped
        self.q, self._target, self._seed, self._most = q, target, seed, max_gradients
        self._size = draws_of_each(target.dim)
        self._bank = Bank.empty(target.dim)
        self._draws = 0
        self._trace: list[float] = []
        self._spent: list[int] = []

    def look(self) -> bool:
        """Draws of the components that the draws so far say little of, and of one in turn; False where no gradients
        are left."""
        known = self._known()
        wanted = [k for k in range(len(known)) if known[k] < WANTED * self._size] or [self._draws % len(known)]
        if self._target.num_gradients + self._size * len(wanted) > self._most:
            return False
        for k in wanted:
            self._draw(k)
        return True

    def _known(self) -> Float[np.ndarray, " K"]:
        """Effective draws of each component: the inverse of the sum of squared weights."""
        if not len(self._bank.x):
            return np.zeros(len(self.q.parts))
        shares = special.softmax(self.q.log_densities(self._bank.x) - self._bank.log_mass, 1)
        return 1 / (shares**2).sum(1)

    def _draw(self, k: int) -> None:
        x = self.q.parts[k].at(noise_of(self._size, self._target.dim, [self._seed, 11, self._draws]))
        self._bank = self._bank.with_draws(self.q.parts[k], x, *self._target.slopes(x))
        self._draws += 1

    def step(self, rho: float) -> bool:
        """Moves every component and weight, twice, as the draws say; False where no gradients are left."""
        if self._stopped() or not self.look():
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
        scores = np.where(np.isfinite(bank.values)[:, None], bank.slopes - self.q.scores(bank.x), 0.0)
        parts = [_moved(part, bank.x, scores, share, rho) for part, share in zip(self.q.parts, shares, strict=True)]
        self.q = Mixture(_normalised(np.log(self.q.weights) + rho * gains), tuple(parts))

    def gap(self) -> float:
        """Nats from the posterior, roughly, by the draws so far."""
        bank = self._bank
        evidence = special.logsumexp(bank.values - bank.log_prob) - np.log(len(bank.x))
        return float(evidence - self._trace[-1])

    def add(self, scale: Float[np.ndarray, "D D"]) -> None:
        """A component where p is most above q."""
        bank = self._bank
        log_q = self.q.log_prob(bank.x)
        seen = np.maximum(log_q, log_q.max() - OUTLOOKS[len(self.q.parts) % len(OUTLOOKS)])
        place = bank.x[int(np.argmax(bank.values - seen))]
        weights = np.append((1 - NEW) * self.q.weights, NEW)
        self.q = Mixture(weights, (*self.q.parts, Gaussian(place, scale, -np.inf)))

    def settled(self) -> Mixture:
        """After steps that get shorter, until the ELBO rises no more or gradients are spent."""
        first, count, rise = self._target.num_gradients, 0, np.inf
        while rise >= LEVEL and self.step(min(BOLD, 1 / (1 + DECAY * count))):
            count, rise = count + 1, self._rise(first)
        ended = Ended.CONVERGED if rise < LEVEL else Ended.SPENT
        return self.q._replace(elbo=self._trace[-1], trace=tuple(self._trace), ended=ended, rise=rise)

    def _rise(self, first: int) -> float:
        """Nats that the ELBO rises in a thousand gradients, from the last but one window to the last; infinite where
        there are no two of them since `first`."""
        now = self._target.num_gradients
        if now - first < 2 * WINDOW:
            return np.inf
        spent, trace = np.array(self._spent), np.array(self._trace)
        late = spent > now - WINDOW
        early = (spent > now - 2 * WINDOW) & ~late
        return float(trace[late].mean() - trace[early].mean()) * 1000 / WINDOW

    def _ratios(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """log p - log q, where p is next to nothing that of little."""
        found = values - self.q.log_prob(x)
        known = found[np.isfinite(found)]
        return np.maximum(found, (np.median(known) if len(known) else 0.0) - LOWEST)


def _moved(part: Gaussian, x: np.ndarray, scores: np.ndarray, weights: np.ndarray, rho: float) -> Gaussian:
    """A component after its step; as it was, where too few draws speak of it."""
    dim = x.shape[1]
    if 1 / (weights**2).sum() < 2 * (dim + 1):
        return part
    slope, curvature = regression(whitened(part, x), scores @ part.scale, diagonal=False, xp=np, weights=weights)
    return step(part, slope, np.eye(dim) + curvature, RADIUS, rho).to


def _normalised(log_weights: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """None below the smallest."""
    weights = np.maximum(special.softmax(log_weights), SMALLEST)
    return weights / weights.sum()
