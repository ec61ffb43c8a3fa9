"""The message: an estimate of grad_mu E_q[l], as a natural-parameter direction.

An `Estimator` is one way of estimating it for one global. It says where the global stands (its mean statistics, a
draw), and turns the gradient of the bound there into a message. The bound is evaluated once a draw for all globals
together (`vijax.estimator.joint`); no estimator knows any model's algebra.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.families import Family


class Reads(NamedTuple):
    """The entries of a global that a batch reads (`vijax.Model.by_entry`).

    Attributes:
      rows: indices of the entries.
      weights: 1, or 0 in padding.
      scale: N / S.
    """

    rows: Int[Array, " entries"]
    weights: Float[Array, " entries"]
    scale: Float[Array, ""]


class Entries(NamedTuple):
    """Entries of a global, and which of them count: what `Model.reads` may say in the place of the entries alone, whose
    weights are then those of the batch.

    Attributes:
      rows: which.
      weights: 1, or 0 in padding.
    """

    rows: Int[Array, " entries"]
    weights: Float[Array, " entries"]

    @classmethod
    def of(cls, said: Entries | Array, batch: Minibatch) -> Entries:
        """The entries that a model says a batch reads, with weights."""
        if isinstance(said, Entries):
            return said
        return cls(said, jnp.ones(said.shape) if batch.weights is None else jnp.asarray(batch.weights))


class Estimator(abc.ABC):
    """An estimator of the message of one global.

    Attributes:
      num_samples: draws of the globals that a step takes. Where the globals of a model ask for different numbers, it
        takes the largest for all of them.
      quasi: True where its draws are quasi-random: evenly spread over a step (`vijax.families.numeric.draws`).
      differentiates: True where the gradient of the bound is read; otherwise the bound need have none.
      draws: True where the bound is evaluated at draws, and so is noisy.
    """

    num_samples: int = 1
    quasi: bool = False
    differentiates: ClassVar[bool] = True
    draws: ClassVar[bool] = True

    @abc.abstractmethod
    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """Statistics at which the bound is evaluated, and (gradient there) -> what this draw contributes.

        Args:
          key: random key of the draw.
          q: the global's posterior.
          prior: the prior, towards which the step pulls.
          rho: size of the step, at most 1.
        """

    def place_at(
        self, noise: Float[Array, " noise"], q: Family, prior: Family
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """As `place`, at the draw that this noise makes; for estimators that take quasi-random draws."""
        raise NotImplementedError(f"{type(self).__name__} takes no quasi-random draws.")

    def read(self, q: Any, prior: Any, reads: Reads) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """As `place`, for a global of which the batch reads only some entries.

        Raises:
          ValueError: an estimator that cannot.
        """
        remedy = "The marginals of the entries that a batch reads are known: leave estimator out."
        require(False, "estimator", f"mean_field() for a {type(q).__name__}", repr(self), remedy)
        raise AssertionError

    def message(self, q: Family, said: PyTree, values: Float[Array, " draws"]) -> Family:
        """The message: the mean of the draws' contributions (stacked along a leading axis), given the bound at each."""
        del values
        return q.with_naturals([jnp.mean(x, 0) for x in tree.parameters(said)])
