"""Estimands, the aims of inference for a global: a distribution, a posterior mode, a maximum of the
likelihood.

An estimand defines the distribution that a step pulls towards (its prior), the number that the
objective subtracts (its penalty), and the statistics at which a model is evaluated without noise
(its point). Each global has its own: variational EM has points beside distributions (Hoffman and
Blei 2015, section 2.5)."""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from vijax.checks import require
from vijax.families import Dirichlet, Family
from vijax.families.discrete.dirichlet import ExpandedMean


class Estimand(abc.ABC):
    """The aim for one global: a distribution, or a point."""

    is_point: ClassVar[bool] = False  # True for a point
    forgets_prior: ClassVar[bool] = False  # True if it does not depend on the prior
    # True if a step pulls towards a flat density, to which parameters cannot retreat
    is_flat: ClassVar[bool] = False

    def prior(self, prior: Family) -> Family:
        """The natural parameters that a step pulls towards."""
        return prior.flat() if self.is_flat else prior

    def start(self, prior: Family) -> Family:
        """The prior from which models start."""
        return self.prior(prior)

    @abc.abstractmethod
    def penalty(self, q: Family, prior: Family) -> Float[Array, ""]:
        """The number that the objective subtracts from the bound of the data; `prior` is the prior
        of the model."""

    def point(self, q: Family) -> PyTree:
        """The statistics at which a model is evaluated without noise: mean statistics, or t(mode of
        q) for a point."""
        return q.stats(q.mode()) if self.is_point else q.expected_stats()


@dataclasses.dataclass(frozen=True)
class distribution(Estimand):
    """The whole distribution q; the penalty is KL(q || prior) (Blei, Kucukelbir and McAuliffe 2017,
    eq. 13)."""

    def penalty(self, q: Family, prior: Family) -> Float[Array, ""]:
        return jnp.sum(q.kl_to_prior(prior))


@dataclasses.dataclass(frozen=True)
class free_form(Estimand):
    """A distribution whose prior is a term of the energy; the penalty is minus the entropy of q.

    The model's prior of this global only defines the family of q and its start. A step pulls
    towards the flat member of the family."""

    is_flat: ClassVar[bool] = True

    def start(self, prior: Family) -> Family:
        """The model's prior, because a flat density is no start."""
        return prior

    def penalty(self, q: Family, prior: Family) -> Float[Array, ""]:
        return -jnp.sum(q.entropy())


@dataclasses.dataclass(frozen=True)
class draw(Estimand):
    """The present draw of a Markov chain over the simplex, a point; the penalty is minus its log
    prior (`vijax.sgrld`)."""

    is_point: ClassVar[bool] = True

    def prior(self, prior: Family) -> Family:
        """The `ExpandedMean` with the concentrations of a Dirichlet. ValueError for any other
        family."""
        is_dirichlet = isinstance(prior, Dirichlet)
        remedy = "Of other globals use vijax.ssvi, or vijax.reference for a sampler."
        kind = type(prior).__name__
        require(is_dirichlet, "estimand", "Dirichlet globals for draw()", kind, remedy)
        return ExpandedMean(*jax.tree.leaves(prior))

    def penalty(self, q: Family, prior: Family) -> Float[Array, ""]:
        return -jnp.sum(prior.log_prob_of_stats(self.point(q)))


@dataclasses.dataclass(frozen=True)
class mode(Estimand):
    """The posterior mode, with respect to Lebesgue measure on the mean-value scale of the variable.

    The state is lambda, prior plus (running) expected statistics, as for a distribution; the point
    is its mode. With full data and step size one this is EM, with minibatches and decreasing steps
    online EM (Pei 2019, sections 2 to 5)."""

    is_point: ClassVar[bool] = True

    def penalty(self, q: Family, prior: Family) -> Float[Array, ""]:
        point = q.mode()
        log_prob = prior.log_prob(point)
        # The floored log probability is finite for a mode at the edge.
        floored = prior.log_prob_of_stats(prior.stats(point))
        return -jnp.sum(jnp.where(jnp.isinf(log_prob), floored, log_prob))


@dataclasses.dataclass(frozen=True)
class maximum_likelihood(Estimand):
    """The maximum of the likelihood: the mode under a flat prior."""

    is_point: ClassVar[bool] = True
    forgets_prior: ClassVar[bool] = True
    is_flat: ClassVar[bool] = True

    def penalty(self, q: Family, prior: Family) -> Float[Array, ""]:
        return jnp.zeros((), jnp.result_type(jax.tree.leaves(q)[0]))
