"""Messages from the bound at mean statistics, or at draws of the globals.

    mean field        grad_s l at s = E_q[t(beta)]
    SSVI-A            grad_s l at s = t(beta), beta ~ q
    SSVI              V(beta, lambda) grad_s l at the same s,   V = F^-1 J with J the pathwise
                      derivative of the statistics
    reparameterised   the mean over draws of F^-1 J' grad_s l, for bounds that are not linear in s
    score function    F^-1 Cov_q(t(beta), l): no derivative of l, so also for discrete variables
    weighted          objectives of several draws, weighted against each other (`vijax.objective`)

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
from vijax.inference.estimator.base import Estimator, Placement, Reads


@dataclasses.dataclass(frozen=True)
class mean_field(Estimator):
    """grad_s l at s = E_q[t(beta)]: with KL steps, CAVI on full data and SVI on minibatches.

    Args:
      memory: for globals of which a batch reads some entries (the sites of Gaussian predictors):
        keep the last message of every entry and replace those of the batch. Without it all messages
        are estimated from the batch, times N/S. With it only the change of the present batch is
        noise, which vanishes at the optimum: it is the stochastic average gradient of Le Roux et
        al. 2012, with the natural parameters as its memory.
    """

    draws: ClassVar[bool] = False

    memory: bool = False

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> Placement:
        return q.expected_stats(), q.with_naturals

    def read(self, q: Any, prior: Any, reads: Reads) -> Placement:
        """See `Estimator`; `q` needs the method `entries` of `vijax.sites.SitePosterior`."""
        entries = q.entries(reads.rows)

        def message(slope: Any) -> PyTree:
            new = q.entry_messages(entries, slope)
            if not self.memory:
                return q.scatter(reads.rows, _mask_padding(reads, new))
            change = tree.subtract(tree.scale(1 / reads.scale, new), q.take_sites(reads.rows))
            scattered = q.scatter(reads.rows, _mask_padding(reads, change))
            return tree.add(tree.subtract(q, prior), scattered)

        return entries, message


def _mask_padding(reads: Reads, messages: PyTree) -> PyTree:
    """The values, with zeros in padding."""
    return jax.tree.map(lambda x: jnp.where(reads.weights > 0, x, 0.0), messages)


@dataclasses.dataclass(frozen=True)
class at_point(Estimator):
    """grad_s l at the point of an estimand. Every estimator reduces to it if the aim is a point."""

    draws: ClassVar[bool] = False

    estimand: Estimand

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> Placement:
        return self.estimand.point(q), q.with_naturals


@dataclasses.dataclass(frozen=True)
class ssvi_a(Estimator):
    """grad_s l at s = t(beta), beta ~ q."""

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> Placement:
        return q.sample_stats(key), q.with_naturals


@check_arguments
@dataclasses.dataclass(frozen=True)
class ssvi(Estimator):
    """V grad_s l at s = t(beta), beta ~ q.

    Args:
      damping: weight of V, 0 (SSVI-A) to 1 (undamped). It is tau in (1 - tau_t) I + tau_t V with
        tau_t = tau (1 - rho_t): 1 is the SSVI of the paper once steps are small. V multiplies the
        message of a coordinate by noise of mean one, whose spread is also one where lambda is
        small. A step of size one would follow it out of the domain: hence the factor 1 - rho_t.
      control_variate: eq. (9): V is applied to the whole displacement eta + eta_hat - lambda, whose
        spread vanishes at the fixed point. The expectation is the same, since E[V] = I.
    """

    damping: Annotated[float, interval("[0, 1]")] = 0.3
    control_variate: bool = True

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> Placement:
        stats, v = q.pathwise_sample(key)

        def damp(eta_hat: PyTree) -> Family:
            plain = q.with_naturals(eta_hat)
            offset = tree.subtract(q, prior) if self.control_variate else tree.scale(0.0, q)
            undamped = tree.add(offset, v(q.as_stats(tree.subtract(plain, offset))))
            return tree.mix(self.damping * (1 - rho), plain, undamped)

        return stats, damp


@check_arguments
@dataclasses.dataclass(frozen=True)
class reparameterised(Estimator):
    """The natural gradient of E_q[l] by derivatives through draws, averaged over them.

    Args:
      num_samples: draws of the globals a step.
      sticking: "sticking the landing" (Roeder, Wu and Duvenaud 2017): the divergence from the prior
        is differentiated through the draws of the bound, instead of taking its exact gradient. The
        expectation is the same. If the family contains the posterior, the noise vanishes as q
        approaches it; otherwise the noise may be larger.
      quasi: evenly spread draws, from a Sobol sequence with a random digital shift in each step
        (randomised quasi Monte Carlo: Buchholz, Wenzel and Mandt 2018). The expectation is the
        same, with less noise, above all for smooth bounds in few dimensions and a power of two
        draws. It works for normal globals, mixtures and flows.
    """

    num_samples: Size = 8
    sticking: bool = False
    quasi: bool = False

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> Placement:
        return self._place_draw(q, prior, *q.pathwise_sample(key))

    def place_noise(self, noise: Float[Array, " noise"], q: Family, prior: Family) -> Placement:
        return self._place_draw(q, prior, *q.pathwise_from_noise(noise))

    def _place_draw(
        self, q: Family, prior: Family, stats: PyTree, v: Callable[[Any], PyTree]
    ) -> Placement:
        if not self.sticking:
            return stats, lambda eta_hat: v(q.as_stats(eta_hat))
        # A step adds exactly prior - lambda to the message. Here this is subtracted again, and its
        # value at the draw added.
        log_ratio, exact = q.slope(stats, prior), tree.subtract(q.stationary(), prior)

        def message(eta_hat: PyTree) -> PyTree:
            return tree.add(v(tree.subtract(q.as_stats(eta_hat), log_ratio)), exact)

        return stats, message


@check_arguments
@dataclasses.dataclass(frozen=True)
class score_function(Estimator):
    """The natural gradient of E_q[l] by the covariance of draws with the bound, for any bound.

    Args:
      num_samples: draws of the globals a step, at least two: the baseline of each draw is the mean
        of the others.
    """

    num_samples: Annotated[int, integer(2)] = 8
    differentiates: ClassVar[bool] = False

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> Placement:
        stats = q.sample_stats(key)
        return stats, lambda _: tree.subtract(stats, q.expected_stats())

    def message(self, q: Family, contributions: PyTree, values: Float[Array, " draws"]) -> Family:
        advantage = (values - jnp.mean(values)) / (values.size - 1)
        weigh = lambda t: jnp.tensordot(advantage, t, 1)
        return q.fisher_solve(jax.tree.map(weigh, contributions))


@check_arguments
@dataclasses.dataclass(frozen=True)
class weighted(Estimator):
    """The natural gradient of an objective of several draws of free variables, such as the
    importance-weighted bound (`vijax.objective` has the formulas), instead of the evidence lower
    bound.

    The K draws of a step are weighted against each other, by their density under the model and
    under q. Read all the data at each step: with minibatches the weights would count the few groups
    of the batch N / S times. `Info.elbo` is still the evidence lower bound, at the same draws.

    Args:
      num_samples: K. With one draw any objective is the evidence lower bound.
      objective: one of `vijax.objective`; by default the importance-weighted bound.

    >>> import vijax as vi
    >>> humps = lambda v: jnp.logaddexp(-0.5 * (v["x"] - 2) ** 2, -0.5 * (v["x"] + 2) ** 2)
    >>> model = vi.density({"x": vi.free()}, humps)
    >>> estimators, sds = {"elbo": vi.estimator.reparameterised(16), "weighted": weighted(16)}, {}
    >>> for name, estimator in estimators.items():
    ...     fit = vi.fit(vi.advi(model, estimator=estimator), num_steps=2000, key=jax.random.key(0))
    ...     sds[name] = float(fit.posterior["free"].variance()[0]) ** 0.5
    >>> sds["weighted"] > 1.2 * sds["elbo"]  # it covers both modes
    True
    """

    num_samples: Size = 8
    objective: renyi = dataclasses.field(default_factory=importance_weighted)

    def __post_init__(self) -> None:
        check_objective(self.objective)

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> Placement:
        """See `Estimator`. The contribution has the draw, the derivative of its log ratio through
        the draw, and the part that a step adds exactly."""
        stats: Any
        stats, v = q.pathwise_sample(key)
        log_ratio, exact = q.slope(stats, prior), tree.subtract(q.stationary(), prior)

        def contribute(slope: Any) -> tuple:
            return stats.value, v(tree.subtract(q.as_stats(slope), log_ratio)), exact

        return stats, contribute

    def message(self, q: Family, contributions: PyTree, values: Float[Array, " draws"]) -> Family:
        """See `Estimator`; `values` holds log p at the draws."""
        draws, slopes, exact = contributions
        log_q = jnp.reshape(q.log_prob(draws), (len(values), -1)).sum(1)
        counts = self.objective.through_draws(values - log_q)
        natural = jax.tree.map(lambda s, e: jnp.tensordot(counts, s, 1) + e[0], slopes, exact)
        return q.with_naturals(tree.parameters(natural))
