"""Batch and match (Cai, Modi, Pillaud-Vivien, Margossian, Gower, Blei and Saul 2024): a normal whose scores match those
of the target on draws, kept near the present one by a weight.

Take B draws z of q = N(m, S), with scores g = grad log p(z). With their means and covariances (division by B) zbar, C
and gbar, G, and a weight l, the divergence of scores on these draws plus 2 / l KL(q || q') is least at

    S' = 2 V (I + (I + 4 U V)^(1/2))^-1,    U = l G + l / (1 + l) gbar gbar',
                                            V = S + l C + l / (1 + l) (m - zbar) (m - zbar)',
    m' = (m + l (S' gbar + zbar)) / (1 + l).                                       (their algorithm 1)

A step of the engine goes a share rho of the way to a message. Here rho stands for l / (1 + l), and the message is put
where that step ends at (m', S').
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.arguments import checked, whole
from vijax.checks import require
from vijax.families import Family, MultivariateNormal
from vijax.families.vector.matrices import symmetric
from vijax.inference.estimator.base import Estimator


@checked
@dataclasses.dataclass(frozen=True)
class batch_and_match(Estimator):
    """The message of a multivariate normal global by which scores are matched on draws. `vijax.bam` has the step sizes
    for it.

    On a normal target it converges in few steps; where the target is no normal it ends where scores differ least, which
    is not the largest ELBO. Read all the data at each step: noise in scores would count as curvature.

    Args:
      num_samples: B, draws a step, at least two.

    Raises:
      ValueError: fewer than two draws; a global of another family.
    """

    num_samples: Annotated[int, whole(2)] = 32

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        remedy = "Give the model guide=vijax.guides.full_rank()."
        known = isinstance(q, MultivariateNormal) and not q.batch_shape
        require(known, "estimator", f"one for a {type(q).__name__}", repr(self), remedy)
        stats: Any = q.sample_stats(key)
        return stats, lambda slope: (stats.value, slope.value, rho)

    def message(self, q: Any, said: PyTree, values: Float[Array, " draws"]) -> Family:
        """See `Estimator`; `said` holds the draws, the scores there, and the size of the step."""
        del values
        draws, scores, (rho, *_) = said
        matched = _matched(q, draws, scores, rho)
        return tree.add(q, tree.scale(1 / rho, tree.subtract(matched, q)))


def _matched(q: MultivariateNormal, draws: Array, scores: Array, rho: Array) -> MultivariateNormal:
    """N(m', S')."""
    weight = rho / (1 - rho)
    mean, middle, push = q.mean(), jnp.mean(draws, 0), jnp.mean(scores, 0)
    outer = lambda x: x.T @ x / len(x)
    u = weight * outer(scores - push) + rho * jnp.outer(push, push)
    v = q.cov + weight * outer(draws - middle) + rho * jnp.outer(mean - middle, mean - middle)
    root = jnp.linalg.cholesky(v)  # with V = R R', S' = R 2 (I + (I + 4 R' U R)^(1/2))^-1 R'
    sizes, axes = jnp.linalg.eigh(symmetric(root.T @ u @ root))
    shrunk = 2 / (1 + jnp.sqrt(1 + 4 * jnp.maximum(sizes, 0)))
    turned = root @ axes
    cov = (turned * shrunk) @ turned.T
    inverse = jnp.linalg.solve(root.T, axes)
    precision = symmetric((inverse / shrunk) @ inverse.T)
    new = (1 - rho) * mean + rho * (cov @ push + middle)
    return q.with_naturals([precision @ new, -0.5 * precision])
