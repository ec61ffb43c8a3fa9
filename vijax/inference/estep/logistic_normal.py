"""E-steps for documents with logistic-normal topic shares, as `vijax.models.ctm` has them.

    z ~ N(mu, Sigma),   word n of the document ~ sum_k softmax(z)_k beta_k

q(z) = N(m, V) is stored as its mean and the precision that the data add, V^-1 = Sigma^-1 + site.
Proximal-gradient steps (Khan et al. 2016, appendix A.3) are

    V'^-1 = (1 - rho) V^-1 + rho (Sigma^-1 + Gamma),   m' = m + rho V' (g - Sigma^-1 (m - mu)),
    g = E[grad l],  Gamma = -E[hessian l],  l(z) = sum_n c_n log sum_k beta_kn softmax(z)_k

at the present N(m, V): the natural-gradient step in the mean parameters (m, V + m m'). Its fixed
points are those of the bound if the expectations are exact. Gamma can be indefinite; rho is halved
until V'^-1 - 0.4 V^-1 is positive definite, so that no step leaves the domain.

At wide Sigma a constant rho falls into a cycle of two for most documents (the Jacobian of the step
has eigenvalues below -1), so rho follows the document: with G = (g - Sigma^-1 (m - mu), Sigma^-1 +
Gamma - V^-1), which is the gradient of the bound in m and -2 times that in V, and the Fisher metric
<G, H> = G_m' V H_m + tr(V G_V V H_V) / 2, it is halved where G turns against the last one, <G,
G_last> < 0, and else grows by half, up to `step_size`. (Rejecting steps by the bound on the fixed
draws is not sound: the fixed points are not its maxima, which overfit the draws.) A document is
finished when <G, G> / 2, the gain of a full step to second order, is below a tolerance in nats."""

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
from vijax.inference.estep.logistic_normal_kernel import Settings, inferred
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
    halvings: Int[
        Array, " docs"
    ]  # number of times that the last E-step halved a step to keep V positive definite


class LogisticNormalEStep(EStep, abc.ABC):
    """An E-step for the Gaussian topics of documents."""

    @abc.abstractmethod
    def docs_per_chunk(self, num_slots: int, num_topics: int) -> int:
        """The number of documents that `logistic_normal` is best given at once."""

    @abc.abstractmethod
    def logistic_normal(
        self, problem: LogisticNormal, start: GaussianLocals, key: PRNGKeyArray
    ) -> GaussianLocals:
        """Infers q(z) of a chunk of documents.

        Args:
          problem: see `LogisticNormal`.
          start: the first q(z); a mean and a site of zero stand for no earlier q(z).
          key: for expectations by Monte Carlo; the draws stay the same from iteration to iteration.
            One key, whose draws documents have by their places, or a key for each document.
        """

    def of_kernel(self) -> Settings | None:
        """The settings of the kernel that does the same (`vijax.xla.native`); None where there is
        none."""
        return None


_LEAST_SHARE = 0.4  # share of the precision that a step leaves in every direction
_MAX_HALVINGS = 40
_SHRINK, _GROW = 0.5, 1.5  # changes of rho, as the gradient turns or does not
_TIGHT = 0.1  # added to the precision for each token, where a document begins


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
        """Few: documents of one chunk go on until the last is finished. (Of 70 words and 10 topics
        one at a time.)"""
        return gather.docs_per_chunk(num_slots, 32 * num_topics, cache_bytes=2**17)

    def of_kernel(self) -> Settings | None:
        """The settings, where the expectation is by draws; others are for comparisons, and have no
        kernel."""
        how = self.expectation
        if not isinstance(how, VectorMonteCarlo):
            return None
        drawing = {name: int(getattr(how, name)) for name in ("antithetic", "matched", "by_slopes")}
        steps = {
            "step_size": self.step_size,
            "max_iters": self.max_iters,
            "tol": self.tol,
            "refine": self.refine,
        }
        return {
            "draws": how.num_samples,
            **drawing,
            "diagonal": int(self.covariance == "diagonal"),
            **steps,
        }

    def logistic_normal(
        self, problem: LogisticNormal, start: GaussianLocals, key: PRNGKeyArray
    ) -> GaussianLocals:
        return inferred(self.of_kernel(), self._by_xla, problem, start, key)

    def _by_xla(
        self, problem: LogisticNormal, start: GaussianLocals, key: PRNGKeyArray
    ) -> GaussianLocals:
        words = jnp.sum(problem.counts, 1) > 0
        improve = functools.partial(self._improve, problem, key)
        settled = lambda new, old: new.gain <= self.tol
        done = repeat_by_document(
            improve, self._begin(problem, start), settled, words, self.max_iters
        )
        if self.refine:
            done = jax.lax.fori_loop(
                0, self.refine, lambda i, now: self._average(problem, now, key, i), done
            )
        return GaussianLocals(done.mean, done.precision - problem.precision[None], done.halvings)

    def _begin(self, problem: LogisticNormal, start: GaussianLocals) -> _Iterate:
        """The start of each document. Where there is none, or it is no density under the present
        prior, it is the prior's mean, with a tenth of a token's precision more for each token: the
        prior itself without words."""
        tokens = jnp.sum(problem.counts, 1)
        added = (
            _TIGHT
            * tokens[:, None, None]
            * jnp.eye(len(problem.linear), dtype=problem.linear.dtype)[None]
        )
        factor = jnp.linalg.cholesky(problem.precision)
        mean = solve_upper(factor, solve_lower(factor, problem.linear))
        mask = self._mask(problem.precision)[None]
        precision = mask * (problem.precision[None] + start.site)
        fresh = jnp.all(start.site == 0, (1, 2)) & jnp.all(start.mean == 0, 1)
        use = _positive(precision) & (tokens > 0) & ~fresh
        flat = jnp.zeros_like(start.mean[:, 0])
        return _Iterate(
            jnp.where(use[:, None], start.mean, mean[None]),
            jnp.where(use[:, None, None], precision, mask * (problem.precision[None] + added)),
            flat + self.step_size,
            _Gradient(jnp.zeros_like(start.mean), jnp.zeros_like(start.site)),
            flat,
            jnp.zeros_like(start.halvings),
        )

    def _improve(self, problem: LogisticNormal, key: PRNGKeyArray, now: _Iterate) -> _Iterate:
        """A step whose size follows the turns of the gradient."""
        gradient, cov = self._gradient(problem, key, now)
        turned = _fisher(cov, gradient, now.gradient) < 0
        rho = jnp.where(turned, _SHRINK * now.rho, jnp.minimum(_GROW * now.rho, self.step_size))
        new, used = _stepped(now, gradient, rho)
        return new._replace(rho=used, gain=0.5 * _fisher(cov, gradient, gradient))

    def _average(
        self, problem: LogisticNormal, now: _Iterate, key: PRNGKeyArray, i: Array
    ) -> _Iterate:
        """A step by new draws; 1 / rho grows by one from each to the next."""
        gradient, _ = self._gradient(problem, fold_in_each(key, i), now)
        return _stepped(now, gradient, now.rho)[0]._replace(rho=now.rho / (1.0 + now.rho))

    def _gradient(
        self, problem: LogisticNormal, key: PRNGKeyArray, now: _Iterate
    ) -> tuple[_Gradient, Float[Array, "docs K K"]]:
        """The gradient of the bound, and V."""
        cov = inverse(jnp.linalg.cholesky(now.precision))
        moments = self.expectation(
            softmax_mixture(), (problem.likelihood, problem.counts), now.mean, cov, key
        )
        target = self._mask(problem.precision)[None] * (problem.precision[None] - moments.curvature)
        slope = moments.slope + problem.linear[None] - matvec(problem.precision, now.mean)
        return _Gradient(slope, target - now.precision), cov

    def _mask(self, precision: Float[Array, "K K"]) -> Float[Array, "K K"]:
        """Ones where V^-1 may differ from zero."""
        if self.covariance == "diagonal":
            return jnp.eye(len(precision), dtype=precision.dtype)
        return jnp.ones_like(precision)


class _Gradient(NamedTuple):
    """The gradient of the bound of each document in m, and -2 times that in V."""

    mean: Float[Array, "docs K"]
    precision: Float[Array, "docs K K"]


class _Iterate(NamedTuple):
    mean: Float[Array, "docs K"]
    precision: Float[Array, "docs K K"]
    rho: Float[Array, " docs"]
    gradient: _Gradient
    gain: Float[Array, " docs"]
    halvings: Int[Array, " docs"]


def _fisher(cov: Float[Array, "docs K K"], a: _Gradient, b: _Gradient) -> Float[Array, " docs"]:
    """Inner product of gradients in the metric of N(m, V)."""
    moved = jnp.einsum("dij,djk->dik", cov, a.precision, precision="highest")
    other = moved if a is b else jnp.einsum("dij,djk->dik", cov, b.precision, precision="highest")
    means = jnp.einsum("di,dij,dj->d", a.mean, cov, b.mean, precision="highest")
    return means + 0.5 * jnp.einsum("dij,dji->d", moved, other, precision="highest")


def _stepped(
    now: _Iterate, gradient: _Gradient, rho: Float[Array, " docs"]
) -> tuple[_Iterate, Float[Array, " docs"]]:
    """The iterate after a step of rho or less, and the length of the step."""
    precision, rho, halvings = _safeguarded(now.precision, gradient.precision, rho)
    factor = jnp.linalg.cholesky(precision)
    step = solve_upper(factor, solve_lower(factor, gradient.mean))
    mean = now.mean + rho[:, None] * step
    return now._replace(
        mean=mean, precision=precision, gradient=gradient, halvings=now.halvings + halvings
    ), rho


def _positive(matrix: Float[Array, "docs K K"]) -> Bool[Array, " docs"]:
    return jnp.all(jnp.isfinite(jnp.linalg.cholesky(matrix)), (1, 2))


def _safeguarded(
    old: Float[Array, "docs K K"], move: Float[Array, "docs K K"], rho: Float[Array, " docs"]
) -> tuple[Float[Array, "docs K K"], Float[Array, " docs"], Int[Array, " docs"]]:
    """old + rho move, with rho halved document by document until the sum exceeds 0.4 old; also
    returns rho, and the number of halvings."""

    landed = lambda rho: old + rho[:, None, None] * move

    def halve(carry: tuple) -> tuple:
        rho, halvings, worse = carry
        rho = jnp.where(worse, 0.5 * rho, rho)
        worse = worse & ~_positive(landed(rho) - _LEAST_SHARE * old)
        return rho, halvings + worse.astype(jnp.int32), worse

    start = (
        2.0 * rho,
        jnp.zeros(rho.shape, jnp.int32),
        jnp.ones(rho.shape, bool),
    )  # the first turn undoes the 2
    more = lambda carry: jnp.any(carry[2]) & (jnp.max(carry[1]) < _MAX_HALVINGS)
    rho, halvings, worse = jax.lax.while_loop(more, halve, start)
    rho = jnp.where(worse, 0.0, rho)
    return landed(rho), rho, halvings


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
      step_size: rho that a document begins with; halved where steps oppose one another.
      max_iters: most steps per document.
      tol: stop when a full step would raise a document's bound by less than this, in nats. To
          second order.
      refine: steps at the end, each by new draws, which are averaged. So 64 draws are as good as 64
        `refine` then. For scores of single documents, best with more draws too, 256 and
        `refine=16`: which of two optima is found depends on the first ones. Training averages over
        the documents.
    """
    return ProximalGradient(
        expectation or vector_monte_carlo(64, antithetic=True, matched=True),
        covariance,
        float(step_size),
        max_iters,
        float(tol),
        refine,
    )
