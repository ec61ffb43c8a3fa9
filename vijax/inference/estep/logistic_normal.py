"""E-steps for documents with logistic-normal topic shares, as in `vijax.models.ctm`.

    z ~ N(mu, Sigma),   word n of the document ~ sum_k softmax(z)_k beta_k

q(z) = N(m, V) is stored as its mean and the precision that the data add, V^-1 = Sigma^-1 + site.
Proximal-gradient steps (Khan et al. 2016, appendix A.3) are

    V'^-1 = (1 - rho) V^-1 + rho (Sigma^-1 + Gamma),   m' = m + rho V' (g - Sigma^-1 (m - mu)),
    g = E[grad l],  Gamma = -E[hessian l],  l(z) = sum_n c_n log sum_k beta_kn softmax(z)_k

at the present N(m, V): the natural-gradient step in the mean parameters (m, V + m m'). Its fixed
points are those of the bound if the expectations are exact. Gamma can be indefinite; rho is halved
until V'^-1 - 0.4 V^-1 is positive definite, so that no step leaves the domain.

At wide Sigma a constant rho falls into a cycle of two for most documents, because the Jacobian of
the step has eigenvalues below -1. So each document has its own rho. Let G = (g - Sigma^-1 (m - mu),
Sigma^-1 + Gamma - V^-1), the gradient of the bound in m and -2 times its gradient in V, and <G, H>
= G_m' V H_m + tr(V G_V V H_V) / 2 the Fisher metric. If <G, G_last> < 0, so that G turns against
the last one, rho is halved; else it grows by half, up to `step_size`. (Rejecting steps by the bound
on the fixed draws would be wrong: its maxima overfit the draws, and are not the fixed points.) A
document is finished when <G, G> / 2, the gain of a full step to second order, is below a tolerance
in nats."""

from __future__ import annotations

import abc
import dataclasses
import functools
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax.arguments import Count, Positive, Size, check_arguments, interval
from vijax.contract.estep import EStep, repeat_by_document
from vijax.families.vector.matrices import inverse, matvec, solve_lower, solve_upper
from vijax.inference.estep.logistic_normal_kernel import Settings, infer_locals
from vijax.inference.expectation import VectorExpectation, vector_monte_carlo
from vijax.inference.expectation.vector import VectorMonteCarlo
from vijax.inference.likelihood import softmax_mixture
from vijax.xla import gather
from vijax.xla.content_keys import fold_in_each


class LogisticNormal(NamedTuple):
    """The local problem of a chunk of documents."""

    likelihood: Float[Array, "docs slots K"]  # beta_k[word] up to a factor per slot, in (0, 1]
    counts: Float[Array, "docs slots"]  # tokens per slot, 0 in padding
    linear: Float[Array, " K"]  # Sigma^-1 mu
    precision: Float[Array, "K K"]  # Sigma^-1


class GaussianLocals(NamedTuple):
    """q(z) of each document."""

    mean: Float[Array, "docs K"]  # m
    site: Float[Array, "docs K K"]  # V^-1 - Sigma^-1
    # Number of times that the last E-step halved a step to keep V positive definite
    halvings: Int[Array, " docs"]


class LogisticNormalEStep(EStep, abc.ABC):
    """An E-step for the Gaussian topics of documents."""

    @abc.abstractmethod
    def docs_per_chunk(self, num_slots: int, num_topics: int) -> int:
        """The best number of documents for one call of `logistic_normal`."""

    @abc.abstractmethod
    def logistic_normal(
        self, problem: LogisticNormal, start: GaussianLocals, key: PRNGKeyArray
    ) -> GaussianLocals:
        """Infers q(z) of a chunk of documents.

        Args:
          problem: see `LogisticNormal`.
          start: the first q(z); a mean and a site of zero mean that there is no earlier q(z).
          key: for expectations by Monte Carlo; all iterations have the same draws. Either a key for
            each document, or one key, with draws by the index of the document.
        """

    def kernel_settings(self) -> Settings | None:
        """The settings of the compiled kernel of this E-step (`vijax.xla.native`); None if there is
        no kernel."""
        return None


_LEAST_SHARE = 0.4  # share of the precision that a step leaves in every direction
_MAX_HALVINGS = 40
_SHRINK, _GROW = 0.5, 1.5  # factors on rho if the gradient turns, and if it does not
_TIGHT = 0.1  # precision added for each token at the start of a document


@dataclasses.dataclass(frozen=True)
class ProximalGradient(LogisticNormalEStep):
    """Proximal-gradient steps; see `proximal_gradient`."""

    goes_on: ClassVar[bool] = True
    draws: ClassVar[bool] = False
    expectation: VectorExpectation
    covariance: str
    step_size: float
    max_iters: int
    tol: float
    refine: int

    def docs_per_chunk(self, num_slots: int, num_topics: int) -> int:
        """A few documents, because all documents of a chunk iterate until the last is finished;
        with 70 words and 10 topics one document."""
        return gather.docs_per_chunk(num_slots, 32 * num_topics, cache_bytes=2**17)

    def kernel_settings(self) -> Settings | None:
        """The settings, if the expectation is by draws. Other expectations are for comparisons, and
        have no kernel."""
        expectation = self.expectation
        if not isinstance(expectation, VectorMonteCarlo):
            return None
        return {
            "draws": expectation.num_samples,
            "antithetic": int(expectation.antithetic),
            "matched": int(expectation.matched),
            "by_slopes": int(expectation.by_slopes),
            "diagonal": int(self.covariance == "diagonal"),
            "step_size": self.step_size,
            "max_iters": self.max_iters,
            "tol": self.tol,
            "refine": self.refine,
        }

    def logistic_normal(
        self, problem: LogisticNormal, start: GaussianLocals, key: PRNGKeyArray
    ) -> GaussianLocals:
        return infer_locals(self.kernel_settings(), self._run_xla, problem, start, key)

    def _run_xla(
        self, problem: LogisticNormal, start: GaussianLocals, key: PRNGKeyArray
    ) -> GaussianLocals:
        has_words = jnp.sum(problem.counts, 1) > 0
        improve = functools.partial(self._improve, problem, key)
        is_finished = lambda new, old: new.gain <= self.tol
        first = self._begin(problem, start)
        last = repeat_by_document(improve, first, is_finished, has_words, self.max_iters)
        if self.refine:
            average = lambda i, iterate: self._average(problem, iterate, key, i)
            last = jax.lax.fori_loop(0, self.refine, average, last)
        return GaussianLocals(last.mean, last.precision - problem.precision[None], last.halvings)

    def _begin(self, problem: LogisticNormal, start: GaussianLocals) -> _Iterate:
        """The first iterate of each document: its start. A document without a start, or with one
        that is no density under the present prior, gets the prior's mean, and the prior's precision
        plus a tenth for each token."""
        tokens = jnp.sum(problem.counts, 1)
        eye = jnp.eye(len(problem.linear), dtype=problem.linear.dtype)
        token_precision = _TIGHT * tokens[:, None, None] * eye[None]
        factor = jnp.linalg.cholesky(problem.precision)
        mean = solve_upper(factor, solve_lower(factor, problem.linear))
        mask = self._mask(problem.precision)[None]
        precision = mask * (problem.precision[None] + start.site)
        is_fresh = jnp.all(start.site == 0, (1, 2)) & jnp.all(start.mean == 0, 1)
        use = _is_positive(precision) & (tokens > 0) & ~is_fresh
        default = mask * (problem.precision[None] + token_precision)
        zeros = jnp.zeros_like(start.mean[:, 0])
        return _Iterate(
            jnp.where(use[:, None], start.mean, mean[None]),
            jnp.where(use[:, None, None], precision, default),
            zeros + self.step_size,
            _Gradient(jnp.zeros_like(start.mean), jnp.zeros_like(start.site)),
            zeros,
            jnp.zeros_like(start.halvings),
        )

    def _improve(self, problem: LogisticNormal, key: PRNGKeyArray, iterate: _Iterate) -> _Iterate:
        """The next iterate; the size of the step depends on the turn of the gradient."""
        gradient, cov = self._gradient(problem, key, iterate)
        turns = _fisher(cov, gradient, iterate.gradient) < 0
        larger = jnp.minimum(_GROW * iterate.rho, self.step_size)
        rho = jnp.where(turns, _SHRINK * iterate.rho, larger)
        new, rho = _step(iterate, gradient, rho)
        return new._replace(rho=rho, gain=0.5 * _fisher(cov, gradient, gradient))

    def _average(
        self, problem: LogisticNormal, iterate: _Iterate, key: PRNGKeyArray, i: Array
    ) -> _Iterate:
        """The iterate after a step by new draws. 1 / rho grows by one from step to step."""
        gradient, _ = self._gradient(problem, fold_in_each(key, i), iterate)
        new, _ = _step(iterate, gradient, iterate.rho)
        return new._replace(rho=iterate.rho / (1.0 + iterate.rho))

    def _gradient(
        self, problem: LogisticNormal, key: PRNGKeyArray, iterate: _Iterate
    ) -> tuple[_Gradient, Float[Array, "docs K K"]]:
        """The gradient of the bound, and V."""
        cov = inverse(jnp.linalg.cholesky(iterate.precision))
        words = problem.likelihood, problem.counts
        moments = self.expectation(softmax_mixture(), words, iterate.mean, cov, key)
        target = self._mask(problem.precision)[None] * (problem.precision[None] - moments.curvature)
        slope = moments.slope + problem.linear[None] - matvec(problem.precision, iterate.mean)
        return _Gradient(slope, target - iterate.precision), cov

    def _mask(self, precision: Float[Array, "K K"]) -> Float[Array, "K K"]:
        """Ones for the entries of V^-1 that may differ from zero."""
        if self.covariance == "diagonal":
            return jnp.eye(len(precision), dtype=precision.dtype)
        return jnp.ones_like(precision)


class _Gradient(NamedTuple):
    """The gradient of the bound of each document in m, and -2 times its gradient in V."""

    mean: Float[Array, "docs K"]
    precision: Float[Array, "docs K K"]


class _Iterate(NamedTuple):
    """The state of the iteration for each document."""

    mean: Float[Array, "docs K"]
    precision: Float[Array, "docs K K"]
    rho: Float[Array, " docs"]
    gradient: _Gradient
    gain: Float[Array, " docs"]
    halvings: Int[Array, " docs"]


def _fisher(cov: Float[Array, "docs K K"], a: _Gradient, b: _Gradient) -> Float[Array, " docs"]:
    """Inner product of gradients in the metric of N(m, V)."""
    white_a = jnp.einsum("dij,djk->dik", cov, a.precision, precision="highest")
    white_b = white_a
    if a is not b:
        white_b = jnp.einsum("dij,djk->dik", cov, b.precision, precision="highest")
    means = jnp.einsum("di,dij,dj->d", a.mean, cov, b.mean, precision="highest")
    return means + 0.5 * jnp.einsum("dij,dji->d", white_a, white_b, precision="highest")


def _step(
    iterate: _Iterate, gradient: _Gradient, rho: Float[Array, " docs"]
) -> tuple[_Iterate, Float[Array, " docs"]]:
    """The iterate after a step of size rho or less, and the size of the step."""
    precision, rho, halvings = _safe_step(iterate.precision, gradient.precision, rho)
    factor = jnp.linalg.cholesky(precision)
    step = solve_upper(factor, solve_lower(factor, gradient.mean))
    new = iterate._replace(
        mean=iterate.mean + rho[:, None] * step,
        precision=precision,
        gradient=gradient,
        halvings=iterate.halvings + halvings,
    )
    return new, rho


def _is_positive(matrix: Float[Array, "docs K K"]) -> Bool[Array, " docs"]:
    """True for positive definite matrices."""
    return jnp.all(jnp.isfinite(jnp.linalg.cholesky(matrix)), (1, 2))


def _safe_step(
    matrix: Float[Array, "docs K K"], move: Float[Array, "docs K K"], rho: Float[Array, " docs"]
) -> tuple[Float[Array, "docs K K"], Float[Array, " docs"], Int[Array, " docs"]]:
    """matrix + rho move, with rho halved document by document until the sum exceeds 0.4 matrix.
    Returns the sum, rho, and the number of halvings."""

    step = lambda rho: matrix + rho[:, None, None] * move

    def halve(carry: tuple) -> tuple:
        rho, halvings, fails = carry
        rho = jnp.where(fails, 0.5 * rho, rho)
        fails = fails & ~_is_positive(step(rho) - _LEAST_SHARE * matrix)
        return rho, halvings + fails.astype(jnp.int32), fails

    # The first round halves 2 rho: it tries rho itself.
    start = 2.0 * rho, jnp.zeros(rho.shape, jnp.int32), jnp.ones(rho.shape, bool)
    goes_on = lambda carry: jnp.any(carry[2]) & (jnp.max(carry[1]) < _MAX_HALVINGS)
    rho, halvings, fails = jax.lax.while_loop(goes_on, halve, start)
    rho = jnp.where(fails, 0.0, rho)
    return step(rho), rho, halvings


@check_arguments
def proximal_gradient(
    expectation: VectorExpectation | None = None,
    covariance: Literal["full", "diagonal"] = "full",
    step_size: Annotated[float, interval("(0, 1]")] = 0.7,
    max_iters: Size = 100,
    tol: Positive = 1e-3,
    refine: Count = 0,
) -> ProximalGradient:
    """Proximal-gradient E-step: q(z) = N(m, V) of each document, by natural-gradient steps.

    With `expectation.laplace()` it finds the Laplace approximation, with `delta_method()` the
    approximation of the delta method, with `blei_lafferty()` and a diagonal covariance the mean
    field of Blei and Lafferty.

    Args:
      expectation: E_q[log p(words | z)] and its derivatives (`vijax.expectation`); 64 draws,
        antithetic and matched, if None.
      covariance: covariance of q(z).
      step_size: first rho of a document; halved where steps oppose one another.
      max_iters: most steps per document.
      tol: stop when a full step would raise a document's bound by less than this, in nats, to
        second order.
      refine: number of averaging steps at the end, each by new draws: 64 draws then count as 64
        `refine` draws. It is for scores of single documents; take more draws too, 256 and
        `refine=16`, because the first draws decide which of two optima is found. Training averages
        over the documents anyway.
    """
    return ProximalGradient(
        expectation or vector_monte_carlo(64, antithetic=True, matched=True),
        covariance,
        float(step_size),
        max_iters,
        float(tol),
        refine,
    )
