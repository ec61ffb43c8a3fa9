"""The contract of E-steps for documents with logistic-normal topic shares, as `vijax.models.ctm` has them.

    z ~ N(mu, Sigma),   word n of the document ~ sum_k softmax(z)_k beta_k

q(z) = N(m, V) is stored as its mean and the precision that the data add, V^-1 = Sigma^-1 + site.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.contract.estep import EStep


class LogisticNormal(NamedTuple):
    """The local problem of a chunk of documents.

    Attributes:
      likelihood: beta_k[word] up to a factor per slot, in (0, 1].
      counts: tokens per slot, 0 in padding.
      linear: Sigma^-1 mu.
      precision: Sigma^-1.
    """

    likelihood: Float[Array, "docs slots K"]
    counts: Float[Array, "docs slots"]
    linear: Float[Array, " K"]
    precision: Float[Array, "K K"]


class GaussianLocals(NamedTuple):
    """q(z) of each document.

    Attributes:
      mean: m.
      site: V^-1 - Sigma^-1.
      halvings: number of times that the last E-step halved a step to keep V positive definite.
    """

    mean: Float[Array, "docs K"]
    site: Float[Array, "docs K K"]
    halvings: Int[Array, " docs"]


class LogisticNormalEStep(EStep, abc.ABC):
    """An E-step for the Gaussian topics of documents."""

    @abc.abstractmethod
    def docs_per_chunk(self, num_slots: int, num_topics: int) -> int:
        """The number of documents that `logistic_normal` is best given at once."""

    @abc.abstractmethod
    def logistic_normal(self, problem: LogisticNormal, start: GaussianLocals, key: PRNGKeyArray) -> GaussianLocals:
        """Infers q(z) of a chunk of documents.

        Args:
          problem: see `LogisticNormal`.
          start: the first q(z); a mean and a site of zero stand for no earlier q(z).
          key: for expectations by Monte Carlo; the draws stay the same from iteration to iteration.
        """
