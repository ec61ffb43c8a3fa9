"""Importance weights: how far means and standard deviations of q are off.

Beside draws of q there are draws of two wider laws, in which each component of q is made longer by Student's t: in all
directions alike, and in each direction by itself. With n_j draws of law j of density f_j, all draws are weighted by

    w  ~  p / (sum_j n_j f_j)        (the balance heuristic, Veach and Guibas 1995),

so that there are draws where q itself would have none. Further laws of that kind are centred at draws that count most
for standard deviations, so that they reach on along a bent arm or into a tail. The moments of q come from the same
draws, weighted by q in the place of p: so the difference of two moments has little noise where q is near p, and none
where it is p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from vijax.automatic.gaussian import Gaussian
from vijax.automatic.mixture import Mixture
from vijax.automatic.report import Moments, Off
from vijax.trust import psis

WIDER = 320
"""Draws of each wider law."""
FREEDOM = 4
"""Degrees of freedom of the t."""
OUTWARD, FAR = 4, 8
"""How often laws are centred at draws that count most for sds; and at how many draws."""


class Wide(NamedTuple):
    """A mixture of normals of equal weights, whose draws are made longer by Student's t.

    Attributes:
      parts: the normals.
      each: True makes each direction longer by itself, False all directions alike.
    """

    parts: tuple[Gaussian, ...]
    each: bool

    def drawn(self, size: int, rng: np.random.Generator) -> Float[np.ndarray, "draws D"]:
        """Returns draws."""
        num_parts, dim = len(self.parts), len(self.parts[0].mean)
        counts = np.bincount(rng.choice(num_parts, size, p=np.full(num_parts, 1 / num_parts)))
        drawn = []
        for part, count in zip(self.parts, counts, strict=False):
            chi2 = rng.chisquare(FREEDOM, (count, dim if self.each else 1))
            drawn.append(part.at(rng.normal(size=(count, dim)) * np.sqrt(FREEDOM / chi2)))
        return np.concatenate(drawn)

    def log_prob(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Returns the log density of points."""
        return special.logsumexp(np.stack([self._of(part, x) for part in self.parts]), 0) - np.log(len(self.parts))

    def _of(self, part: Gaussian, x: np.ndarray) -> np.ndarray:
        noise, v = part.whitened(x), FREEDOM
        dim = noise.shape[1]
        volume = part.entropy() - 0.5 * dim * np.log(2 * np.pi * np.e)
        if self.each:
            one = special.gammaln(0.5 * (v + 1)) - special.gammaln(0.5 * v) - 0.5 * np.log(v * np.pi)
            return dim * one - 0.5 * (v + 1) * np.log1p(noise**2 / v).sum(1) - volume
        one = special.gammaln(0.5 * (v + dim)) - special.gammaln(0.5 * v) - 0.5 * dim * np.log(v * np.pi)
        return one - 0.5 * (v + dim) * np.log1p((noise**2).sum(1) / v) - volume


class Weighed(NamedTuple):
    """Draws of several laws, with the density of their mixture.

    Attributes:
      x: draws, (S, D).
      log_p: log density of the posterior, up to a constant.
      log_q: of q.
      log_all: of the mixture of all laws.
    """

    x: Float[np.ndarray, "S D"]
    log_p: Float[np.ndarray, " S"]
    log_q: Float[np.ndarray, " S"]
    log_all: Float[np.ndarray, " S"]


def weighed(
    log_density: Callable[[np.ndarray], np.ndarray],
    q: Gaussian | Mixture,
    draws: Float[np.ndarray, "draws D"],
    log_p: Float[np.ndarray, " draws"],
    log_q: Float[np.ndarray, " draws"],
    seed: list[int],
    num_wider: int = WIDER,
) -> Weighed:
    """Returns draws of q, and draws of wider laws in which all components have equal weights.

    Args:
      log_density: of points.
      q: a normal, or a mixture.
      draws: of q.
      log_p: log density of the posterior there.
      log_q: log density of q there.
      seed: of further draws.
      num_wider: number of draws of each wider law; 0 where the density is dear.
    """
    if not num_wider:
        return Weighed(draws, log_p, log_q, log_q)
    rng = np.random.default_rng(seed)
    parts = (q,) if isinstance(q, Gaussian) else q.parts

    def drawn(law: Wide, size: int) -> _Drawn:
        x = law.drawn(size, rng)
        return law, x, log_density(x), q.log_prob(x)

    laws = [Wide(parts, each) for each in (False, True)]
    pilot = [drawn(law, num_wider // 2) for law in laws]
    for _ in range(OUTWARD):
        far = [_nearest(parts, x)._replace(mean=x) for x in _farthest(_together(pilot))]
        laws.append(Wide(tuple(far), False))
        pilot.append(drawn(laws[-1], num_wider // 2))
    # Afresh: a law that was put where a draw weighed much would take that draw's weight.
    return _together([(None, draws, log_p, log_q), *(drawn(law, num_wider) for law in laws)])


_Drawn = tuple[Wide | None, np.ndarray, np.ndarray, np.ndarray]
"""Draws of one law, None that of q, with the log densities of posterior and q there."""


def _nearest(parts: tuple[Gaussian, ...], x: Float[np.ndarray, " D"]) -> Gaussian:
    return min(parts, key=lambda part: part.distance(x))


def _together(sets: list[_Drawn]) -> Weighed:
    """Returns all draws as those of one mixture."""
    laws, *parts = zip(*sets, strict=True)
    x, log_p, log_q = (np.concatenate(part) for part in parts)
    each = np.stack([log_q if law is None else law.log_prob(x) for law in laws])
    counts = np.array([len(part) for part in parts[0]])
    return Weighed(x, log_p, log_q, special.logsumexp(each, 0, b=counts[:, None] / len(x)))


def _farthest(of: Weighed) -> Float[np.ndarray, "FAR D"]:
    """Returns the draws that count most for standard deviations."""
    weights = special.softmax(of.log_p - of.log_all)
    apart = of.x - weights @ of.x
    counts = weights * np.max(apart**2 / np.maximum(weights @ apart**2, 1e-300), 1)
    return of.x[np.argsort(-counts, kind="stable")[:FAR]]


def moments(of: Weighed, numbers: Float[np.ndarray, "S M"], names: Sequence[str]) -> Moments:
    """Returns how far means and standard deviations of q are off.

    Args:
      of: draws.
      numbers: the numbers that are judged, at these draws.
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
    """Returns the number that is off most, two standard errors included."""
    at = int(np.argmax(np.abs(off) + 2 * errors))
    return Off(float(off[at]), float(errors[at]), names[at])
