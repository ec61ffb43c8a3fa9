"""By how much means and standard deviations of q are off, by importance weights.

Beside draws of q there are draws of two wider laws, of which each component of q is made longer by Student's t: in all
directions alike, and in each direction by itself. With n_j draws of law j of density f_j, all draws are weighted by

    w  ~  p / (sum_j n_j f_j)        (the balance heuristic, Veach and Guibas 1995),

which has draws where q itself would have none. Further laws of that kind have their middles at draws that count most
for standard deviations, so that they reach on along a bent arm or into a tail. The moments of q come from the same
draws, weighted by q in the place of p: so the difference of two moments has little noise where q is near p, and none
where it is p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float
from scipy import special

from vijax.automatic.gaussian import Gaussian
from vijax.trust import psis

WIDER = 320
"""Draws of each wider law."""
FREEDOM = 4
"""Degrees of freedom of the t."""
OUTWARD, FAR = 4, 8
"""Times that draws are made the middles of further wide laws, and how many: those that count most for sds."""
RELIABLE, FEWEST = 0.7, 50.0
"""k-hat up to which weights are reliable (Vehtari et al. 2024), and the effective number of draws that they must be."""


class Off(NamedTuple):
    """The worst of some numbers, and its standard error.

    Attributes:
      value: how far off, with its sign: of a mean in posterior standard deviations; of a standard deviation log q / p.
      error: its standard error.
      at: the name of the number.
      khat: tail of the weights times the square of the number (Vehtari et al. 2024, section 3.2.1): where it is large
        the posterior's own tail holds more than draws show.
    """

    value: float
    error: float
    at: str
    khat: float = 0.0

    @property
    def most(self) -> float:
        """Without its sign, and with two standard errors."""
        return abs(self.value) + 2 * self.error


class Moments(NamedTuple):
    """How far means and standard deviations of q are off.

    Attributes:
      mean: of the means the worst.
      log_sd: of the standard deviations.
      khat: of the weights.
      ess: effective number of draws.
      num_draws: that were weighted.
    """

    mean: Off
    log_sd: Off
    khat: float
    ess: float
    num_draws: int

    @property
    def is_reliable(self) -> bool:
        """Whether they can be told at all."""
        known = np.isfinite(self.mean.most + self.log_sd.most)
        return bool(known and max(self.khat, self.log_sd.khat) < RELIABLE and self.ess >= FEWEST)


class HasParts(Protocol):
    """Weighted normals."""

    @property
    def weights(self) -> Float[np.ndarray, " K"]:
        """Of the normals."""

    @property
    def parts(self) -> tuple[Gaussian, ...]:
        """The normals."""


class Wide:
    """Normals whose draws are made longer by Student's t.

    Args:
      weights: of the normals, (K,).
      parts: the normals.
      each: in each direction by itself, in place of all directions alike.
    """

    def __init__(self, weights: Float[np.ndarray, " K"], parts: tuple[Gaussian, ...], each: bool):
        self._weights, self._parts, self._each = weights, parts, each

    def drawn(self, size: int, rng: np.random.Generator) -> Float[np.ndarray, "draws D"]:
        """Draws, as many of each component as its weight says."""
        counts = np.bincount(rng.choice(len(self._parts), size, p=self._weights / self._weights.sum()))
        dim = len(self._parts[0].mean)
        drawn = []
        for part, count in zip(self._parts, counts, strict=False):
            chi2 = rng.chisquare(FREEDOM, (count, dim if self._each else 1))
            drawn.append(part.at(rng.normal(size=(count, dim)) * np.sqrt(FREEDOM / chi2)))
        return np.concatenate(drawn)

    def log_prob(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Of points."""
        of_each = np.stack([self._of(part, x) for part in self._parts])
        return special.logsumexp(of_each, 0, b=self._weights[:, None])

    def normal(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Log density of the normals themselves."""
        of_each = [0.5 * (x.shape[1] - (part.whitened(x) ** 2).sum(1)) - part.entropy() for part in self._parts]
        return special.logsumexp(np.stack(of_each), 0, b=self._weights[:, None])

    def _of(self, part: Gaussian, x: np.ndarray) -> np.ndarray:
        noise, v = part.whitened(x), FREEDOM
        dim = noise.shape[1]
        volume = part.entropy() - 0.5 * dim * np.log(2 * np.pi * np.e)
        if self._each:
            one = special.gammaln(0.5 * (v + 1)) - special.gammaln(0.5 * v) - 0.5 * np.log(v * np.pi)
            return dim * one - 0.5 * (v + 1) * np.log1p(noise**2 / v).sum(1) - volume
        one = special.gammaln(0.5 * (v + dim)) - special.gammaln(0.5 * v) - 0.5 * dim * np.log(v * np.pi)
        return one - 0.5 * (v + dim) * np.log1p((noise**2).sum(1) / v) - volume


class Weighed(NamedTuple):
    """Draws of several laws, with the density of all of them together.

    Attributes:
      x: draws, (S, D).
      log_p: log density of the posterior, up to a constant.
      log_q: of q.
      log_all: of all laws together.
    """

    x: Float[np.ndarray, "S D"]
    log_p: Float[np.ndarray, " S"]
    log_q: Float[np.ndarray, " S"]
    log_all: Float[np.ndarray, " S"]


def weighed(
    log_density: Callable[[np.ndarray], np.ndarray],
    q: Gaussian | HasParts,
    draws: Float[np.ndarray, "draws D"],
    log_p: Float[np.ndarray, " draws"],
    log_q: Float[np.ndarray, " draws"],
    seed: list[int],
    num_wider: int = WIDER,
) -> Weighed:
    """Draws of q, and others of wider laws, of which there are as many of each component.

    Args:
      log_density: of points.
      q: a normal, or a mixture.
      draws: of q,
      log_p: log density there, as it is of points,
      log_q: and that of q.
      seed: of further draws,
      num_wider: so many of each law; 0 where the density is dear.
    """
    if not num_wider:
        return Weighed(draws, log_p, log_q, log_q)
    rng = np.random.default_rng(seed)
    weights, parts = (np.ones(1), (q,)) if isinstance(q, Gaussian) else (q.weights, q.parts)
    own = Wide(weights, parts, False)
    laws = [Wide(np.full(len(parts), 1 / len(parts)), parts, each) for each in (False, True)]
    pilot = Laws(log_density, own)
    for turn in range(len(laws) + OUTWARD):
        if turn >= len(laws):
            far = tuple(_nearest(parts, x)._replace(mean=x) for x in pilot.farthest())
            laws.append(Wide(np.full(len(far), 1 / len(far)), far, False))
        pilot = pilot.further(laws[turn], laws[turn].drawn(num_wider // 2, rng))
    # Afresh: a law that was put where a draw weighed much would take that draw's weight.
    found = Laws(log_density, own).further(own, draws, log_p, log_q)
    for law in laws:
        found = found.further(law, law.drawn(num_wider, rng))
    return found.together()


class Laws:
    """Draws of several laws.

    Args:
      log_density: of the posterior, up to a constant.
      own: has the density of q.
    """

    def __init__(self, log_density: Callable[[np.ndarray], np.ndarray], own: Wide):
        self._log_density, self._own = log_density, own
        self._laws: list[Wide] = []
        self._draws: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def further(
        self, law: Wide, x: np.ndarray, log_p: np.ndarray | None = None, log_q: np.ndarray | None = None
    ) -> Laws:
        """With draws of one more, and what is known there."""
        more = Laws(self._log_density, self._own)
        log_p = self._log_density(x) if log_p is None else log_p
        log_q = self._own.normal(x) if log_q is None else log_q
        more._laws, more._draws = [*self._laws, law], [*self._draws, (x, log_p, log_q)]
        return more

    def together(self) -> Weighed:
        """As draws of one."""
        x, log_p, log_q = (np.concatenate(part) for part in zip(*self._draws, strict=True))
        each = np.stack([log_q if law is self._own else law.log_prob(x) for law in self._laws])
        counts = np.array([len(part) for part, _, _ in self._draws])
        return Weighed(x, log_p, log_q, special.logsumexp(each, 0, b=counts[:, None] / len(x)))

    def farthest(self) -> Float[np.ndarray, "FAR D"]:
        """The draws that count most for standard deviations."""
        of = self.together()
        weights = special.softmax(of.log_p - of.log_all)
        apart = of.x - weights @ of.x
        counts = weights * np.max(apart**2 / np.maximum(weights @ apart**2, 1e-300), 1)
        return of.x[np.argsort(-counts, kind="stable")[:FAR]]


def _nearest(parts: tuple[Gaussian, ...], x: Float[np.ndarray, " D"]) -> Gaussian:
    return min(parts, key=lambda part: part.distance(x))


def moments(of: Weighed, numbers: Float[np.ndarray, "S M"], names: Sequence[str]) -> Moments:
    """How far moments of q are off.

    Args:
      of: draws.
      numbers: whose means and standard deviations are asked for, at these draws.
      names: of the numbers.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 1))  # of q, N(0, 1); the posterior is N(.2, .9^2)
    >>> log_p = -0.5 * ((x[:, 0] - 0.2) / 0.9) ** 2
    >>> found = moments(Weighed(x, log_p, -0.5 * x[:, 0] ** 2, -0.5 * x[:, 0] ** 2), x, ["x"])
    >>> print(f"{found.mean.value:.1f} {np.exp(found.log_sd.value):.1f}")  # (0 - .2) / .9, 1 / .9
    -0.2 1.1
    """
    smoothed = psis(of.log_p - of.log_all)
    p = np.exp(smoothed.log_weights)
    q = special.softmax(of.log_q - of.log_all)
    usable = np.isfinite(numbers).all(1)
    p, q, x = (p[usable] / p[usable].sum(), q[usable] / q[usable].sum(), numbers[usable])
    mean_p, mean_q = p @ x, q @ x
    apart_p, apart_q = x - mean_p, x - mean_q
    sd_p, sd_q = np.sqrt(p @ apart_p**2), np.sqrt(q @ apart_q**2)
    least = np.maximum(sd_p, np.finfo(float).tiny)
    mean, log_sd = (mean_q - mean_p) / least, np.log(np.maximum(sd_q, np.finfo(float).tiny) / least)
    of_mean = p[:, None] * apart_p - q[:, None] * apart_q
    of_sd = p[:, None] * ((apart_p / least) ** 2 - 1) - q[:, None] * ((apart_q / np.maximum(sd_q, 1e-300)) ** 2 - 1)
    errors = np.sqrt((of_mean**2).sum(0)) / least, 0.5 * np.sqrt((of_sd**2).sum(0))
    mean_off, sd_off = _worst(mean, errors[0], names), _worst(log_sd, errors[1], names)
    with np.errstate(divide="ignore"):
        squares = np.log(p) + 2 * np.log(np.abs(apart_p[:, list(names).index(sd_off.at)]))
    sd_off = sd_off._replace(khat=psis(squares).khat)
    return Moments(mean_off, sd_off, smoothed.khat, smoothed.ess, int(usable.sum()))


def _worst(off: Float[np.ndarray, " M"], errors: Float[np.ndarray, " M"], names: Sequence[str]) -> Off:
    """The number that is off most, or may be."""
    at = int(np.argmax(np.abs(off) + 2 * errors))
    return Off(float(off[at]), float(errors[at]), names[at])
