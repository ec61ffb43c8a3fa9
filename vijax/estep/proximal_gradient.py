"""Proximal-gradient E-step for logistic-normal topic shares (seed 001, appendix A.3).

    V'^-1 = (1 - rho) V^-1 + rho (Sigma^-1 + Gamma),   m' = m + rho V' (g - Sigma^-1 (m - mu)),
    g = E[grad l],  Gamma = -E[hessian l],  l(z) = sum_n c_n log sum_k beta_kn softmax(z)_k

at the present N(m, V): the natural-gradient step in the mean parameters (m, V + m m'). Its fixed points are those of
the bound if the expectations are exact. Gamma can be indefinite; rho is halved until V'^-1 - 0.4 V^-1 is positive
definite, so that no step leaves the domain.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax import gather
from vijax.estep.base import check_count, check_positive, iterate_by_document
from vijax.estep.logistic_normal import GaussianLocals, LogisticNormal
from vijax.expectation import VectorExpectation, vector_monte_carlo
from vijax.families.base import require
from vijax.families.matrices import inverse, matvec, solve_lower, solve_upper
from vijax.likelihood import softmax_mixture

_LEAST_SHARE = 0.4  # of the precision that a step leaves in every direction
_MAX_HALVINGS = 40


@dataclasses.dataclass(frozen=True)
class ProximalGradient:
    """Proximal-gradient steps; see `proximal_gradient`."""

    expectation: VectorExpectation
    covariance: str
    step_size: float
    max_iters: int
    tol: float

    def docs_per_chunk(self, num_slots: int, num_topics: int) -> int:
        """So few documents that the draws' responsibilities stay in cache, as far as their number is known."""
        return gather.docs_per_chunk(num_slots, 32 * num_topics, cache_bytes=2**21)

    def logistic_normal(self, problem: LogisticNormal, start: GaussianLocals, key: PRNGKeyArray) -> GaussianLocals:
        """See `estep.logistic_normal.LogisticNormalEStep`."""
        begin = self._begin(problem, start)
        improve = lambda now: self._improve(problem, now, key)
        done = iterate_by_document(improve, begin, lambda now: now.mean, problem.counts, self.max_iters, self.tol)
        return GaussianLocals(done.mean, done.precision - problem.precision, done.halvings)

    def _begin(self, problem: LogisticNormal, start: GaussianLocals) -> _Iterate:
        """The start, or the prior where there are no words, or where the start is no density under the present one."""
        mask = self._mask(problem.precision)
        prior = mask * problem.precision
        factor = jnp.linalg.cholesky(problem.precision)
        mean = solve_upper(factor, solve_lower(factor, problem.linear))
        precision = mask * (problem.precision + start.site)
        fresh = jnp.all(start.site == 0, (1, 2)) & jnp.all(start.mean == 0, 1)
        use = _positive(precision) & (jnp.sum(problem.counts, 1) > 0) & ~fresh
        return _Iterate(
            jnp.where(use[:, None], start.mean, mean),
            jnp.where(use[:, None, None], precision, prior),
            jnp.zeros_like(start.halvings),
        )

    def _improve(self, problem: LogisticNormal, now: _Iterate, key: PRNGKeyArray) -> _Iterate:
        cov = inverse(jnp.linalg.cholesky(now.precision))
        y = (problem.likelihood, problem.counts)
        moments = self.expectation(softmax_mixture(), y, now.mean, cov, key)
        target = self._mask(problem.precision) * (problem.precision - moments.curvature)
        precision, rho, halvings = _safeguarded(now.precision, target, self.step_size)
        slope = moments.slope + problem.linear - matvec(problem.precision, now.mean)
        factor = jnp.linalg.cholesky(precision)
        step = solve_upper(factor, solve_lower(factor, slope))
        return _Iterate(now.mean + rho[:, None] * step, precision, now.halvings + halvings)

    def _mask(self, precision: Float[Array, "K K"]) -> Float[Array, "K K"]:
        """Ones where V^-1 may differ from zero."""
        return (
            jnp.eye(len(precision), dtype=precision.dtype)
            if self.covariance == "diagonal"
            else jnp.ones_like(precision)
        )


class _Iterate(NamedTuple):
    mean: Float[Array, "docs K"]
    precision: Float[Array, "docs K K"]
    halvings: Int[Array, " docs"]


def _positive(matrix: Float[Array, "docs K K"]) -> Bool[Array, " docs"]:
    return jnp.all(jnp.isfinite(jnp.linalg.cholesky(matrix)), (1, 2))


def _safeguarded(
    old: Float[Array, "docs K K"], target: Float[Array, "docs K K"], step_size: float
) -> tuple[Float[Array, "docs K K"], Float[Array, " docs"], Int[Array, " docs"]]:
    """(1 - rho) old + rho target, rho halved document by document until that exceeds 0.4 old; with rho, and how often
    it was halved."""

    def landed(rho: Array) -> Array:
        return old + rho[:, None, None] * (target - old)

    def bad(rho: Array) -> Array:
        return ~_positive(landed(rho) - _LEAST_SHARE * old)

    def halve(carry: tuple) -> tuple:
        rho, halvings, worse = carry
        rho = jnp.where(worse, 0.5 * rho, rho)
        return rho, halvings + worse, worse & bad(rho)

    rho = jnp.full(old.shape[:1], step_size, old.dtype)
    start = (rho, jnp.zeros(old.shape[:1], jnp.int32), bad(rho))
    more = lambda carry: jnp.any(carry[2]) & (jnp.max(carry[1]) < _MAX_HALVINGS)
    rho, halvings, worse = jax.lax.while_loop(more, halve, start)
    rho = jnp.where(worse, 0.0, rho)
    return landed(rho), rho, halvings


def proximal_gradient(
    expectation: VectorExpectation | None = None,
    covariance: str = "full",
    step_size: float = 0.7,
    max_iters: int = 50,
    tol: float = 1e-3,
) -> ProximalGradient:
    """Proximal-gradient E-step: q(z) = N(m, V) of each document, by natural-gradient steps.

    With `expectation.laplace()` it finds the Laplace approximation, with `delta_method()` that of the delta method,
    with `blei_lafferty()` and a diagonal covariance the mean field of Blei and Lafferty.

    Args:
      expectation: E_q[log p(words | z)] and its derivatives (`vijax.expectation`); 64 antithetic draws if None.
      covariance: "full" or "diagonal".
      step_size: rho in (0, 1], before the safeguard.
      max_iters: most steps per document.
      tol: a document is finished when a step moves its mean by less than this on average over topics.

    Raises:
      ValueError: an argument out of its range.
    """
    require(covariance in ("full", "diagonal"), "covariance", "'full' or 'diagonal'", covariance)
    require(0 < check_positive("step_size", step_size) <= 1, "step_size", "a number in (0, 1]", step_size)
    return ProximalGradient(
        expectation or vector_monte_carlo(64, antithetic=True),
        covariance,
        float(step_size),
        check_count("max_iters", max_iters, 1),
        check_positive("tol", tol),
    )
