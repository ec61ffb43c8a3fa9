"""A mixture of normals fitted to a log density that one normal misfits, from that normal on.

Components are added one by one, where log p - log q is largest among the draws so far, and every component moves by
natural-gradient steps in a trust region of its own. This is the method of Arenz, Neumann and Zhong 2018 and of Arenz et
al. 2023 (GMMVI), with the message of `vijax.estimator.least_squares`: for component k, with R = log p - log q,

    L' grad R  ~  a - B e   on draws x = m + L e of it,     a and I + B the slope and curvature of its step,
    log w_k <- log w_k + rho E_k[R], normalised.

Draws of the latest steps serve all components, each with the weight N_k(x) / (density of all those draws).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy import special

from vijax.automatic.components import Bank, Evaluated, Mixture, whitened
from vijax.automatic.gaussian import Ended, Gaussian, noise_of, step
from vijax.automatic.target import Target
from vijax.estimator.least_squares import regression

MOST_PARTS, MOST_DIM = 8, 50
"""Components; and variables up to which a mixture is tried unasked."""
GRADIENTS = 1_000
"""By default: so many a variable, of ten variables at least."""
KEPT_STEPS = 6
"""Whose draws serve."""
RADIUS = 0.2
"""Nats that a component may move at a step."""
FEWEST_STEPS, MOST_STEPS = 3, 40
"""Between one component and the next; where gradients allow no more than the fewest, there are fewer components."""
WINDOW, GAIN = 12, 0.02
"""A mixture has settled where the ELBO of so many steps is not so many nats above that of as many before."""
ENOUGH = 0.01
"""Nats from the posterior below which no further component is added."""
LOWEST = 30.0
"""Nats below the middle one from which on log p - log q counts as no lower, as where p is zero."""
BOLD, SMALLEST, NEW = 0.5, 1e-4, 0.1
"""Size of the steps while components are added; the smallest weight of a component, and that of a new one."""
OUTLOOKS = 3.0, 10.0, 30.0
"""Nats below its peak to which q counts as no smaller where a place for a component is sought: they take turns, so that
some places are near the mass and some in the tails (Arenz et al. 2023, section 4.3)."""


def budget(dim: int) -> int:
    """Gradients that a mixture may take, where nobody says how many.

    >>> budget(3), budget(20)
    (10000, 20000)
    """
    return GRADIENTS * max(10, dim)


def draws_of_each(dim: int) -> int:
    """Draws of each component at a step: the next power of two."""
    return max(8, 1 << (dim - 1).bit_length())


def fewest_gradients(dim: int) -> int:
    """Below which no mixture is worth a try: two components, and a little time to settle."""
    return 4 * WINDOW * draws_of_each(dim)


def fit(
    target: Target,
    start: Gaussian,
    rivals: list[Gaussian],
    seed: int,
    max_gradients: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Mixture:
    """The mixture nearest to the target, by the ELBO. At most half of the gradients go while components are added.

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
    left = (max_gradients - target.num_gradients) // 2 // draws_of_each(target.dim)
    most, pause = _plan(len(parts), left)
    walk.look()
    if not rivals:  # the best normal wants no steps, but company
        walk.add(start.scale)
    while True:
        for _ in range(pause):
            walk.step(BOLD)
        if walk.gap(pause) < ENOUGH or len(walk.q.parts) >= most:
            break
        walk.add(start.scale)
    return walk.settled()


def _plan(first: int, steps: int) -> tuple[int, int]:
    """How many components, and steps before each further one, where `steps` of one component may be taken.

    >>> _plan(1, 420), _plan(1, 50), _plan(1, 5000)
    ((8, 15), (6, 3), (8, 40))
    """
    for most in range(MOST_PARTS, first, -1):
        pause = steps // sum(range(first, most))
        if pause >= FEWEST_STEPS:
            return most, min(pause, MOST_STEPS)
    return first, FEWEST_STEPS


class _Walk:
    """A mixture on its way, with the draws of its latest steps.

    Attributes:
      q: the mixture.
    """

    def __init__(self, target: Target, q: Mixture, seed: int, max_gradients: int, stopped: Callable[[], bool]):
        self._stopped = stopped
        self.q, self._target, self._seed, self._most = q, target, seed, max_gradients
        self._size = draws_of_each(target.dim)
        self._steps: list[Evaluated] = []
        self._trace: list[float] = []

    def look(self) -> bool:
        """Draws of q, and its ELBO on them, which it has not seen; False where no gradients are left."""
        if self._target.num_gradients + self._size * len(self.q.parts) > self._most:
            return False
        self._steps = [*self._steps[1 - KEPT_STEPS :], self._evaluated()]
        x, values, _, parts = self._steps[-1]
        self._trace.append(float(self.q.weights @ self._ratios(x, values).reshape(len(parts), -1).mean(1)))
        return True

    def step(self, rho: float) -> bool:
        """Moves every component and weight, as the draws say; False where no gradients are left."""
        if self._stopped() or not self.look():
            return False
        bank = Bank.of(self._steps)
        shares = special.softmax(self.q.log_densities(bank.x) - bank.log_prob, 1)
        gains = shares @ self._ratios(bank.x, bank.values)
        scores = np.where(np.isfinite(bank.values)[:, None], bank.slopes - self.q.scores(bank.x), 0.0)
        parts = [_moved(part, bank.x, scores, share, rho) for part, share in zip(self.q.parts, shares, strict=True)]
        self.q = Mixture(_normalised(np.log(self.q.weights) + rho * gains), tuple(parts))
        return True

    def gap(self, steps: int) -> float:
        """Nats from the posterior, roughly, by the draws of the last steps."""
        bank = Bank.of(self._steps)
        evidence = special.logsumexp(bank.values - bank.log_prob) - np.log(len(bank.x))
        return float(evidence - np.mean(self._trace[-steps:]))

    def add(self, scale: Float[np.ndarray, "D D"]) -> None:
        """A component where p is most above q."""
        bank = Bank.of(self._steps)
        log_q = self.q.log_prob(bank.x)
        seen = np.maximum(log_q, log_q.max() - OUTLOOKS[len(self.q.parts) % len(OUTLOOKS)])
        place = bank.x[int(np.argmax(bank.values - seen))]
        weights = np.append((1 - NEW) * self.q.weights, NEW)
        self.q = Mixture(weights, (*self.q.parts, Gaussian(place, scale, -np.inf)))

    def settled(self) -> Mixture:
        """After steps that get shorter, until the ELBO rises no more or gradients are spent."""
        first, count = len(self._trace), 0
        while self.step(min(BOLD, 1 / (1 + 0.2 * count))):
            count += 1
            if count >= 2 * WINDOW and self._gain() < GAIN and count % WINDOW == 0:
                break
        done = len(self._trace) - first >= 2 * WINDOW and self._gain() < GAIN
        ended = Ended.CONVERGED if done else Ended.SPENT
        return self.q._replace(elbo=self._trace[-1], trace=tuple(self._trace), ended=ended)

    def _gain(self) -> float:
        """Nats, from the last but one window to the last."""
        return float(np.mean(self._trace[-WINDOW:]) - np.mean(self._trace[-2 * WINDOW : -WINDOW]))

    def _ratios(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """log p - log q, where p is next to nothing that of little."""
        found = values - self.q.log_prob(x)
        known = found[np.isfinite(found)]
        return np.maximum(found, (np.median(known) if len(known) else 0.0) - LOWEST)

    def _evaluated(self) -> Evaluated:
        count = len(self.q.parts)
        noise = noise_of(self._size * count, self._target.dim, [self._seed, 11, len(self._trace)])
        x = np.concatenate([part.at(noise[k::count][: self._size]) for k, part in enumerate(self.q.parts)])
        return Evaluated(x, *self._target.slopes(x), self.q.parts)


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
