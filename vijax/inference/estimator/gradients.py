"""Messages from the bound at mean statistics, or at draws of the globals.

    mean field        grad_s l at s = E_q[t(beta)]
    SSVI-A            grad_s l at s = t(beta), beta ~ q
    SSVI              V(beta, lambda) grad_s l there,   V = F^-1 J: the pathwise derivative of the statistics
    reparameterised   the mean over draws of F^-1 J' grad_s l, for bounds that are not linear in the statistics
    score function    F^-1 Cov_q(t(beta), l), which needs no derivative of l and serves discrete variables
    weighted          draws weighted against each other: objectives of several draws (`vijax.objective`)

(Blei, Kucukelbir and McAuliffe 2017, eq. 41; Hoffman and Blei 2015, Algorithm 1, eq. 7, 8, 10; Khan
et al. 2016, section 3.2.)"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.arguments import Size, check_arguments, integer, interval
from vijax.contract.objective import check_objective, importance_weighted, renyi
from vijax.families import Family
from vijax.inference.estimand import Estimand
from vijax.inference.estimator.base import Estimator, Placed, Reads


@dataclasses.dataclass(frozen=True)
class mean_field(Estimator):
    """grad_s l at s = E_q[t(beta)]: with KL steps, CAVI on full data and SVI on minibatches.

    Args:
      memory: for globals of which a batch reads some entries (the sites of Gaussian predictors):
        keep every entry's last message and replace those of the batch, instead of estimating all of
        them from the batch, N/S times. So only the change of the present batch is noise, and it
        vanishes at the optimum (the stochastic average gradient of Le Roux et al. 2012, whose
        memory the natural parameters are).
    """

    draws: ClassVar[bool] = False

    memory: bool = False

    def place(self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]) -> Placed:
        return q.expected_stats(), q.with_naturals

    def read(self, q: Any, prior: Any, reads: Reads) -> Placed:
        """See `Estimator`; `q` has `entries`, as `vijax.sites.SitePosterior` has."""
        at = q.entries(reads.rows)

        def message(slope: Any) -> PyTree:
            new = q.entry_messages(at, slope)
            if not self.memory:
                return q.scattered(reads.rows, _counted(reads, new))
            change = tree.subtract(tree.scale(1 / reads.scale, new), q.at(reads.rows))
            return tree.add(
                tree.subtract(q, prior), q.scattered(reads.rows, _counted(reads, change))
            )

        return at, message


def _counted(reads: Reads, messages: PyTree) -> PyTree:
    """Values with those of padding replaced by zero."""
    return jax.tree.map(lambda x: jnp.where(reads.weights > 0, x, 0.0), messages)


@dataclasses.dataclass(frozen=True)
class at_point(Estimator):
    """grad_s l at the point that is sought: every estimator reduces to this where only a point is
    sought."""

    draws: ClassVar[bool] = False

    estimand: Estimand

    def place(self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]) -> Placed:
        return self.estimand.point(q), q.with_naturals


@dataclasses.dataclass(frozen=True)
class ssvi_a(Estimator):
    """grad_s l at s = t(beta), beta ~ q."""

    def place(self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]) -> Placed:
        return q.sample_stats(key), q.with_naturals


@check_arguments
@dataclasses.dataclass(frozen=True)
class ssvi(Estimator):
    """V grad_s l at s = t(beta), beta ~ q.

    Args:
      damping: weight of V, 0 (SSVI-A) to 1 (undamped). It is tau in (1 - tau_t) I + tau_t V with
        tau_t = tau (1 - rho_t): 1 is the SSVI of the paper once steps are small. V multiplies the
        message of a coordinate by noise of mean and, where lambda is small, spread one; a step of
        size one would follow it out of the domain, hence the factor 1 - rho_t.
      control_variate: eq. (9), V applied to the whole displacement eta + eta_hat - lambda, whose
        spread vanishes at the fixed point; the same expectation, since E[V] = I.
    """

    damping: Annotated[float, interval("[0, 1]")] = 0.3
    control_variate: bool = True

    def place(self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]) -> Placed:
        stats, v = q.pathwise_sample(key)

        def damped(eta_hat: PyTree) -> Family:
            plain = q.with_naturals(eta_hat)
            offset = tree.subtract(q, prior) if self.control_variate else tree.scale(0.0, q)
            structured = tree.add(offset, v(q.as_stats(tree.subtract(plain, offset))))
            return tree.mix(self.damping * (1 - rho), plain, structured)

        return stats, damped


@check_arguments
@dataclasses.dataclass(frozen=True)
class reparameterised(Estimator):
    """The natural gradient of E_q[l] by derivatives through draws, averaged over them.

    Args:
      num_samples: draws of the globals a step.
      sticking: "sticking the landing" (Roeder, Wu and Duvenaud 2017): the divergence from the prior
        is differentiated at the same draws as the bound, through the draws alone, instead of taking
        its exact gradient. The expectation is the same. The noise vanishes as q approaches the
        posterior, where the family holds it; elsewhere it may be larger.
      quasi: draws that are evenly spread, from a Sobol sequence with a random digital shift a step
        (randomised quasi Monte Carlo: Buchholz, Wenzel and Mandt 2018): the expectation is the
        same, the noise less, above all for smooth bounds in few dimensions, with a power of two
        draws. It serves normal globals, mixtures and flows.
    """

    num_samples: Size = 8
    sticking: bool = False
    quasi: bool = False

    def place(self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]) -> Placed:
        return self._placed(q, prior, *q.pathwise_sample(key))

    def place_at(self, noise: Float[Array, " noise"], q: Family, prior: Family) -> Placed:
        return self._placed(q, prior, *q.pathwise_from_noise(noise))

    def _placed(
        self, q: Family, prior: Family, stats: PyTree, v: Callable[[Any], PyTree]
    ) -> Placed:
        if not self.sticking:
            return stats, lambda eta_hat: v(q.as_stats(eta_hat))
        # A step adds prior - lambda to the message, exactly: it is taken out again here, and put in
        # at the draw.
        own, exact = q.slope(stats, prior), tree.subtract(q.stationary(), prior)
        return stats, lambda eta_hat: tree.add(v(tree.subtract(q.as_stats(eta_hat), own)), exact)


@check_arguments
@dataclasses.dataclass(frozen=True)
class score_function(Estimator):
    """The natural gradient of E_q[l] by the covariance of draws with the bound at them, for any
    bound.

    Args:
      num_samples: draws of the globals a step, at least two: the baseline of each is the mean of
          the others.
    """

    num_samples: Annotated[int, integer(2)] = 8
    differentiates: ClassVar[bool] = False

    def place(self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]) -> Placed:
        stats = q.sample_stats(key)
        return stats, lambda _: tree.subtract(stats, q.expected_stats())

    def message(self, q: Family, said: PyTree, values: Float[Array, " draws"]) -> Family:
        advantage = (values - jnp.mean(values)) / (values.size - 1)
        return q.fisher_solve(jax.tree.map(lambda t: jnp.tensordot(advantage, t, 1), said))


@check_arguments
@dataclasses.dataclass(frozen=True)
class weighted(Estimator):
    """The natural gradient of an objective of several draws of free variables, such as the
    importance-weighted bound, instead of the evidence lower bound (`vijax.objective` gives the
    formulas).

    The K draws of a step are weighted against each other, by their density under the model and
    under q. Read all the data at each step: with minibatches the weights would be those of these
    few groups, counted N / S times. `Info.elbo` stays the evidence lower bound, at the same draws.

    Args:
      num_samples: K. At one draw any objective is the evidence lower bound.
      objective: one of `vijax.objective`; the importance-weighted bound where none is given.

    >>> import vijax as vi
    >>> humps = lambda v: jnp.logaddexp(-0.5 * (v["x"] - 2) ** 2, -0.5 * (v["x"] + 2) ** 2)
    >>> model, sds = vi.density({"x": vi.free()}, humps), {}
    >>> for name, estimator in (("elbo", vi.estimator.reparameterised(16)), ("weighted", weighted(16))):
    ...     fit = vi.fit(vi.advi(model, estimator=estimator), num_steps=2000, key=jax.random.key(0))
    ...     sds[name] = float(fit.posterior["free"].variance()[0]) ** 0.5
    >>> sds["weighted"] > 1.2 * sds["elbo"]  # it covers both modes
    True
    """

    num_samples: Size = 8
    objective: renyi = dataclasses.field(default_factory=importance_weighted)

    def __post_init__(self) -> None:
        check_objective(self.objective)

    def place(self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]) -> Placed:
        """See `Estimator`: the draw, the derivative of its log ratio through it, and what a step
        adds itself."""
        stats, v = q.pathwise_sample(key)
        own, exact = q.slope(stats, prior), tree.subtract(q.stationary(), prior)
        through = lambda slope: v(tree.subtract(q.as_stats(slope), own))
        return stats, lambda slope: (stats.value, through(slope), exact)  # type: ignore[attr-defined]

    def message(self, q: Family, said: PyTree, values: Float[Array, " draws"]) -> Family:
        """See `Estimator`; `values` holds log p at the draws."""
        draws, slopes, exact = said
        log_q = jnp.reshape(q.log_prob(draws), (len(values), -1)).sum(1)
        counts = self.objective.through_draws(values - log_q)
        natural = jax.tree.map(lambda s, e: jnp.tensordot(counts, s, 1) + e[0], slopes, exact)
        return q.with_naturals(tree.parameters(natural))
