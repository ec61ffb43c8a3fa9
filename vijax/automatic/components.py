"""A mixture of normals on the host, in float64: draws, density and scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import linalg, special

from vijax.automatic.gaussian import Ended, Gaussian
from vijax.families.vector.normal_mixture import NormalMixture


class Mixture(NamedTuple):
    """sum_k w_k N_k.

    Attributes:
      weights: w, (K,).
      parts: the normals.
      elbo: on the draws of the fit.
      ended: why the fit stopped.
      trace: ELBO after each step taken.
      error: of the means; not known, zero.
      rise: nats that the ELBO still rose in a thousand gradients; infinite where that is not known.
    """

    weights: Float[np.ndarray, " K"]
    parts: tuple[Gaussian, ...]
    elbo: float = -np.inf
    ended: Ended = Ended.SPENT
    trace: tuple[float, ...] = ()
    error: float = 0.0
    rise: float = float("inf")

    @property
    def is_full(self) -> bool:
        """Covariances are."""
        return True

    @property
    def num_directions(self) -> int:
        """None beside the covariances."""
        return 0

    @property
    def mean(self) -> Float[np.ndarray, " D"]:
        """E_q[x]."""
        return self.weights @ np.stack([part.mean for part in self.parts])

    def drawn(self, size: int, seed: Any) -> tuple[Float[np.ndarray, "draws D"], Float[np.ndarray, " draws"]]:
        """Draws, and log q there. The shares of the components are as exact as whole numbers can be."""
        rng = np.random.default_rng(seed)
        places = (np.arange(size) + rng.uniform()) / size
        counts = np.bincount(np.searchsorted(np.cumsum(self.weights)[:-1], places), minlength=len(self.parts))
        dim = len(self.parts[0].mean)
        each = [part.at(rng.normal(size=(n, dim))) for part, n in zip(self.parts, counts, strict=True)]
        x = rng.permutation(np.concatenate(each))
        return x, self.log_prob(x)

    def log_densities(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "K points"]:
        """log N_k(x)."""
        return np.stack([log_density(part, whitened(part, x)) for part in self.parts])

    def log_prob(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """log q(x)."""
        return special.logsumexp(self.log_densities(x), 0, b=self.weights[:, None])

    def scores(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D"]:
        """Gradient of log q."""
        shares = special.softmax(self.log_densities(x) + np.log(self.weights)[:, None], 0)
        of_each = [-np.linalg.solve(p.scale.T, whitened(p, x).T).T for p in self.parts]
        return sum(share[:, None] * score for share, score in zip(shares, of_each, strict=True))

    def distance(self, x: Float[np.ndarray, " D"]) -> float:
        """Squared, from the mean of the nearest component, in its standard deviations."""
        return min(part.distance(x) for part in self.parts)

    def within(self, frame: Gaussian) -> NormalMixture:
        """In coordinates in which `frame` is N(0, I)."""
        inside = lambda x: linalg.solve_triangular(frame.scale, x, lower=True)
        factors = np.stack([inside(part.scale) for part in self.parts])
        scales = np.diagonal(factors, axis1=1, axis2=2)
        triangles = np.tril(factors, -1) / scales[..., None] + np.stack([np.diag(np.log(s)) for s in scales])
        centers = np.stack([inside(part.mean - frame.mean) for part in self.parts])
        as_floats = (jnp.asarray(a, jnp.result_type(float)) for a in (np.log(self.weights), centers, triangles))
        return NormalMixture(*as_floats)


def whitened(part: Gaussian, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D"]:
    """L^-1 (x - m)."""
    return np.linalg.solve(part.scale, (x - part.mean).T).T  # SciPy's for triangles costs more before it begins


def log_density(part: Gaussian, noise: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
    """log N at m + L noise."""
    return 0.5 * (noise.shape[1] - (noise**2).sum(1)) - part.entropy()


class Bank(NamedTuple):
    """All draws so far, with log p and its gradient there, as draws of the mixture of the normals that they are of.

    Attributes:
      x: the draws.
      values: log p, -inf where it is zero.
      slopes: its gradients, zero there.
      parts: the normals,
      counts: and how many draws are of each.
      log_mass: log of the sum of counts times densities.
    """

    x: Float[np.ndarray, "draws D"]
    values: Float[np.ndarray, " draws"]
    slopes: Float[np.ndarray, "draws D"]
    parts: tuple[Gaussian, ...]
    counts: tuple[int, ...]
    log_mass: Float[np.ndarray, " draws"]

    @classmethod
    def empty(cls, dim: int) -> Bank:
        """Without draws."""
        return cls(np.zeros((0, dim)), np.zeros(0), np.zeros((0, dim)), (), (), np.zeros(0))

    @property
    def log_prob(self) -> Float[np.ndarray, " draws"]:
        """Of the mixture of which they all are draws (Veach and Guibas 1995: the balance heuristic)."""
        return self.log_mass - np.log(len(self.x))

    def with_draws(self, part: Gaussian, x: np.ndarray, values: np.ndarray, slopes: np.ndarray) -> Bank:
        """With draws of one normal more."""
        parts, counts = (*self.parts, part), (*self.counts, len(x))
        before = np.logaddexp(self.log_mass, np.log(len(x)) + log_density(part, whitened(part, self.x)))
        new = special.logsumexp(Mixture(np.ones(len(parts)), parts).log_densities(x), 0, b=np.array(counts)[:, None])
        x, values, slopes = (
            np.concatenate(pair) for pair in ((self.x, x), (self.values, values), (self.slopes, slopes))
        )
        return Bank(x, values, slopes, parts, counts, np.concatenate([before, new]))
