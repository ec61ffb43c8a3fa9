"""Messages of normal globals from scores, the gradients of a log density at draws: least squares,
batch and match.

**Least squares** (Salimans and Knowles 2013). With x = m + L e, e ~ N(0, I), and whitened scores
h = L' grad log p(x), the regression  h ~ a - B e  has, by Stein's identities, the limits
a = L' E_q[grad log p]  and  B = -L' E_q[hess log p] L.  So the message, grad_mu E_q[log p], is

    (P* m + L^-T a, -P* / 2),     P* = L^-T B L^-1,

which needs no Hessian. The noise of draws cancels in the residuals: on a normal target the message
is exact with D + 1 draws. The covariance of draws with scores would have an error of 1 /
sqrt(draws).

**Batch and match** (Cai, Modi, Pillaud-Vivien, Margossian, Gower, Blei and Saul 2024). The new
normal matches the scores of the target on draws, and a weight keeps it near the present one. Take B
draws z of q = N(m, S), with scores g = grad log p(z). Let zbar, C and gbar, G be their means and
covariances (division by B), and l a weight. The divergence of scores on these draws plus 2 / l KL(q
|| q') is least at

    S' = 2 V (I + (I + 4 U V)^(1/2))^-1,    U = l G + l / (1 + l) gbar gbar',
                                            V = S + l C + l / (1 + l) (m - zbar) (m - zbar)',
    m' = (m + l (S' gbar + zbar)) / (1 + l).                                (their algorithm 1)

A step of vijax moves a share rho of the way to a message. Here rho is l / (1 + l), and the message
is chosen so that this step ends at (m', S')."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.arguments import check_arguments, integer
from vijax.checks import require
from vijax.families import Family, MultivariateNormal, Normal
from vijax.families.vector.blocks import Blocks
from vijax.families.vector.matrices import matvec, solve_lower, symmetric
from vijax.inference.estimator.base import Estimator, Placement


@check_arguments
@dataclasses.dataclass(frozen=True)
class least_squares(Estimator):
    """The message of a normal, multivariate normal or block normal global, from gradients of the
    bound at draws.

    Args:
      num_samples: draws a step. On normal targets the message is exact from D + 1 draws on. With
        fewer draws, mean field regresses the score of each coordinate on this coordinate alone, and
        under a full covariance the curvature is the covariance of draws and scores. Both add noise,
        which a decreasing step size averages.
      quasi: evenly spread draws, as in `vijax.estimator.reparameterised`.
    """

    num_samples: Annotated[int, integer(2)] = 32
    quasi: bool = False

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> Placement:
        return self._place_draw(q, lambda: q.sample_stats(key))

    def place_noise(self, noise: Float[Array, " noise"], q: Family, prior: Family) -> Placement:
        return self._place_draw(q, lambda: q.stats(q.from_noise(noise)))

    def _place_draw(self, q: Family, draw: Callable[[], Any]) -> Placement:
        """A draw; its contribution is itself and its score. Raises ValueError at any other global
        than a vector of a normal family."""
        is_vector = isinstance(q, Normal | MultivariateNormal | Blocks)
        is_vector = is_vector and len(q.batch_shape) == (1 if isinstance(q, Normal) else 0)
        expected = f"one for a {type(q).__name__} of batch shape {q.batch_shape}"
        require(is_vector, "estimator", expected, repr(self))
        stats = draw()
        return stats, lambda slope: (stats.value, slope.value)

    def message(self, q: Any, contributions: PyTree, values: Float[Array, " draws"]) -> Family:
        """See `Estimator`; the contributions are draws and their scores."""
        draws, scores = contributions
        if isinstance(q, Normal):
            mean, sd = q.mean(), jnp.sqrt(q.variance())
            noise = (draws - mean[None]) / sd[None]
            slope, curvature = regression(noise, scores * sd[None], diagonal=True)
            precision = curvature / q.variance()
            return q.with_naturals([precision * mean + slope / sd, -0.5 * precision])
        if isinstance(q, MultivariateNormal):
            return _block_messages([q], draws, scores, [np.arange(q.dim)])[0]
        places = [np.array(indices) for indices in q.places]
        messages = _block_messages(list(q.parts.values()), draws, scores, places)
        return q.with_naturals(messages)


def _block_messages(
    parts: list[MultivariateNormal], draws: Array, scores: Array, places: list[np.ndarray]
) -> list[MultivariateNormal]:
    """The messages of blocks of coordinates. With enough draws they come from one regression on all
    coordinates, whose noise cancels."""
    roots = [jnp.linalg.cholesky(part.precision) for part in parts]  # P = R R', L = R^-T
    means = [part.mean() for part in parts]
    noise = [
        matvec(r.mT, draws[:, i] - m[None]) for r, m, i in zip(roots, means, places, strict=True)
    ]
    pulls = [solve_lower(r, scores[:, i]) for r, i in zip(roots, places, strict=True)]
    if len(draws) > draws.shape[1] + 1:
        slope, curvature = regression(
            jnp.concatenate(noise, 1), jnp.concatenate(pulls, 1), diagonal=False
        )
        ends = np.cumsum([len(indices) for indices in places])
        slices = [slice(end - len(i), end) for end, i in zip(ends, places, strict=True)]
        fits = [(slope[i], curvature[i, i]) for i in slices]
    else:
        fits = [regression(e, h, diagonal=False) for e, h in zip(noise, pulls, strict=True)]
    return [_block_message(*block) for block in zip(parts, roots, means, fits, strict=True)]


def _block_message(
    part: MultivariateNormal, root: Array, mean: Array, fit: tuple[Array, Array]
) -> MultivariateNormal:
    """The message of a block from its regression, in whitened coordinates."""
    slope, curvature = fit
    precision = root @ curvature @ root.mT
    return part.with_naturals([precision @ mean + root @ slope, -0.5 * precision])


def regression(
    noise: Any, scores: Any, diagonal: bool, xp: Any = jnp, weights: Any = None
) -> tuple[Any, Any]:
    """The coefficients a (D,) and B of the regression  scores ~ a - B noise.

    Args:
      noise: (draws, D).
      scores: (draws, D).
      diagonal: True if only the diagonal of B is wanted; else B is symmetric, (D, D).
      xp: `jax.numpy`, or NumPy for float64 in any working precision.
      weights: weights of the draws, with sum one; None is equal weights.
    """
    count, dim = noise.shape
    shares = xp.full(count, 1 / count, noise.dtype) if weights is None else weights
    center, level = shares @ noise, shares @ scores
    spread = noise - center[None]
    weighted = shares[:, None] * spread
    around = scores - level[None]
    if count > dim + 1:
        slopes = xp.linalg.solve(weighted.T @ spread, weighted.T @ around)  # -B', up to asymmetry
        curvature = -0.5 * (slopes + slopes.T)
        slope = level - center @ slopes
        return slope, xp.diagonal(curvature) if diagonal else curvature
    if diagonal:
        curvature = -xp.sum(weighted * around, 0) / xp.sum(weighted * spread, 0)
        return level + curvature * center, curvature
    product = weighted.T @ around * count / (count - 1)
    return level, -0.5 * (product + product.T)


@check_arguments
@dataclasses.dataclass(frozen=True)
class batch_and_match(Estimator):
    """The message of a multivariate normal global that matches scores on draws. `vijax.bam` has the
    step sizes for it.

    On a normal target it converges in few steps. On another target it ends where scores differ
    least, which is not the largest ELBO. Read all the data at each step: noise in scores would
    count as curvature.

    Args:
      num_samples: B, draws a step, at least two.
    """

    num_samples: Annotated[int, integer(2)] = 32

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> Placement:
        remedy = "Give the model guide=vijax.guides.full_rank()."
        is_vector = isinstance(q, MultivariateNormal) and not q.batch_shape
        require(is_vector, "estimator", f"one for a {type(q).__name__}", repr(self), remedy)
        stats: Any = q.sample_stats(key)
        return stats, lambda slope: (stats.value, slope.value, rho)

    def message(self, q: Any, contributions: PyTree, values: Float[Array, " draws"]) -> Family:
        """See `Estimator`; the contributions are draws, their scores, and the size of the step."""
        draws, scores, (rho, *_) = contributions
        end = _match_scores(q, draws, scores, rho)
        return tree.add(q, tree.scale(1 / rho, tree.subtract(end, q)))


def _match_scores(
    q: MultivariateNormal, draws: Array, scores: Array, rho: Array
) -> MultivariateNormal:
    """N(m', S') of batch and match."""
    weight = rho / (1 - rho)
    mean, middle, push = q.mean(), jnp.mean(draws, 0), jnp.mean(scores, 0)
    outer = lambda x: x.T @ x / len(x)
    u = weight * outer(scores - push[None]) + rho * jnp.outer(push, push)
    v = q.cov + weight * outer(draws - middle[None]) + rho * jnp.outer(mean - middle, mean - middle)
    root = jnp.linalg.cholesky(v)  # with V = R R', S' = R 2 (I + (I + 4 R' U R)^(1/2))^-1 R'
    sizes, axes = jnp.linalg.eigh(symmetric(root.T @ u @ root))
    factors = 2 / (1 + jnp.sqrt(1 + 4 * jnp.maximum(sizes, 0)))
    directions = root @ axes
    cov = (directions * factors[None]) @ directions.T
    inverse = jnp.linalg.solve(root.T, axes)
    precision = symmetric((inverse / factors[None]) @ inverse.T)
    new = (1 - rho) * mean + rho * (cov @ push + middle)
    return q.with_naturals([precision @ new, -0.5 * precision])
