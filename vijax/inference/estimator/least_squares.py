"""Natural gradients of any log density by least squares of its scores on draws (Salimans and Knowles 2013).

With x = m + L e, e ~ N(0, I), and whitened scores h = L' grad log p(x), the regression  h ~ a - B e  has, by Stein's
identities, the limits  a = L' E_q[grad log p]  and  B = -L' E_q[hess log p] L.  So the message, grad_mu E_q[log p], is

    (P* m + L^-T a, -P* / 2),     P* = L^-T B L^-1,

which needs no Hessian. The noise of draws cancels in the residuals: on a normal target the message is exact with D + 1
draws, where the covariance of draws with scores would have an error of 1 / sqrt(draws).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.arguments import checked, whole
from vijax.checks import require
from vijax.families import Family, MultivariateNormal, Normal
from vijax.families.vector.blocks import Blocks
from vijax.families.vector.matrices import matvec, solve_lower
from vijax.inference.estimator.base import Estimator


@checked
@dataclasses.dataclass(frozen=True)
class least_squares(Estimator):
    """The message of a normal, multivariate normal or block normal global from gradients of the bound at draws.

    Args:
      num_samples: draws a step. A full covariance is exact on normal targets from D + 1 draws on, mean field with
        enough draws for the same regression; with fewer each coordinate's score is regressed on that coordinate
        alone (mean field), or the curvature is the covariance of draws and scores (full covariance): noise that a
        decreasing step size averages.

      quasi: draws that are evenly spread, as in `vijax.estimator.reparameterised`.

    Raises:
      ValueError: fewer than two draws, `quasi` that is no bool; a global of another family.
    """

    num_samples: Annotated[int, whole(2)] = 32
    quasi: bool = False

    def __post_init__(self) -> None:
        require(isinstance(self.quasi, bool), "quasi", "True or False", repr(self.quasi))

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        self._check(q)
        return _scores_at(q.sample_stats(key))

    def place_at(
        self, noise: Float[Array, " noise"], q: Family, prior: Family
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        self._check(q)
        return _scores_at(q.stats(q.from_noise(noise)))

    def _check(self, q: Family) -> None:
        """Raises ValueError for a global of another family."""
        known = isinstance(q, Normal | MultivariateNormal | Blocks)
        known = known and len(q.batch_shape) == (1 if isinstance(q, Normal) else 0)
        require(known, "estimator", f"one for a {type(q).__name__} of batch shape {q.batch_shape}", repr(self))

    def message(self, q: Any, said: PyTree, values: Float[Array, " draws"]) -> Family:
        """See `Estimator`; `said` holds the draws and the scores there."""
        del values
        draws, scores = said
        if isinstance(q, Normal):
            mean, sd = q.mean(), jnp.sqrt(q.variance())
            slope, curvature = regression((draws - mean) / sd, scores * sd, diagonal=True)
            precision = curvature / q.variance()
            return q.with_naturals([precision * mean + slope / sd, -0.5 * precision])
        if isinstance(q, MultivariateNormal):
            return _of_blocks([q], draws, scores, [np.arange(q.dim)])[0]
        found = _of_blocks(list(q.parts.values()), draws, scores, [np.array(at) for at in q.places])
        return q.with_naturals(found)


def _scores_at(stats: Any) -> tuple[PyTree, Callable[[Any], PyTree]]:
    """The statistics at which the bound is evaluated, and the contribution of a draw: itself and the score there."""
    return stats, lambda slope: (stats.value, slope.value)


def _of_blocks(
    parts: list[MultivariateNormal], draws: Array, scores: Array, places: list[np.ndarray]
) -> list[MultivariateNormal]:
    """The messages of blocks: with enough draws, by a regression on all coordinates, whose noise cancels."""
    roots = [jnp.linalg.cholesky(part.precision) for part in parts]  # P = R R', L = R^-T
    means = [part.mean() for part in parts]
    noise = [matvec(r.mT, draws[:, at] - m) for r, m, at in zip(roots, means, places, strict=True)]
    pulls = [solve_lower(r, scores[:, at]) for r, at in zip(roots, places, strict=True)]
    if len(draws) > draws.shape[1] + 1:
        slope, curvature = regression(jnp.concatenate(noise, 1), jnp.concatenate(pulls, 1), diagonal=False)
        ends = np.cumsum([len(at) for at in places])
        own = [slice(end - len(at), end) for end, at in zip(ends, places, strict=True)]
        said = [(slope[i], curvature[i, i]) for i in own]
    else:
        said = [regression(e, h, diagonal=False) for e, h in zip(noise, pulls, strict=True)]
    return [_natural(*block) for block in zip(parts, roots, means, said, strict=True)]


def _natural(part: MultivariateNormal, root: Array, mean: Array, said: tuple[Array, Array]) -> MultivariateNormal:
    slope, curvature = said
    precision = root @ curvature @ root.mT
    return part.with_naturals([precision @ mean + root @ slope, -0.5 * precision])


def regression(noise: Any, scores: Any, diagonal: bool, xp: Any = jnp, weights: Any = None) -> tuple[Any, Any]:
    """a (D,) and B of  scores ~ a - B noise, both (draws, D);  B symmetric (D, D), or its diagonal alone. `xp` is
    `jax.numpy`, or NumPy for float64 in any working precision; `weights` of the draws sum to one, None is equal
    ones."""
    count, dim = noise.shape
    shares = xp.full(count, 1 / count, noise.dtype) if weights is None else weights
    center, level = shares @ noise, shares @ scores
    spread, weighted = noise - center, shares[:, None] * (noise - center)
    if count > dim + 1:
        slopes = xp.linalg.solve(weighted.T @ spread, weighted.T @ (scores - level))  # -B', up to asymmetry
        curvature = -0.5 * (slopes + slopes.T)
        slope = level - center @ slopes
        return slope, xp.diagonal(curvature) if diagonal else curvature
    if diagonal:
        curvature = -xp.sum(weighted * (scores - level), 0) / xp.sum(weighted * spread, 0)
        return level + curvature * center, curvature
    product = weighted.T @ (scores - level) * count / (count - 1)
    return level, -0.5 * (product + product.T)
