"""Chains of unequal lengths side by side: a chain, and which of its steps exist."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.families.linear_gaussian_chain import LinearGaussianChain
from vijax.families.markov_chain import MarkovChain


@tree.register
@dataclasses.dataclass(frozen=True)
class Padded:
    """A chain padded to T steps, of which those exist where `mask` is true; these come first.

    The law of the path of a sequence. It acts like its chain: padded steps count nowhere, whatever their potentials
    hold, their statistics are zero, and a sequence without a step has log-normaliser and entropy zero. The mask is
    no natural parameter, and `with_naturals` keeps it.

    >>> import jax.numpy as jnp
    >>> chain = MarkovChain.from_probs([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], num_steps=3)
    >>> print(Padded(chain, jnp.array([True, True, False])).probs[:, 0].round(2))
    [0.5  0.55 0.  ]
    """

    chain: MarkovChain | LinearGaussianChain
    mask: Bool[Array, "*batch T"]

    def with_naturals(self, leaves: PyTree) -> Self:
        """Other natural parameters, the same mask."""
        return dataclasses.replace(self, chain=self.chain.with_naturals(leaves))

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A."""
        return self.chain.log_normalizer(self.mask)

    def dot(self, stats: Any) -> Float[Array, "*batch"]:
        """Natural parameters times statistics."""
        return self.chain.dot(stats)

    def expected_stats(self) -> Any:
        """The mean statistics: smoothed marginals."""
        return self.chain.expected_stats(self.mask)

    def entropy(self) -> Float[Array, "*batch"]:
        """In nats."""
        return self.chain.entropy(self.mask)

    def sample(self, key: PRNGKeyArray) -> Any:
        """A path; 0 on padded steps."""
        return self.chain.sample(key, mask=self.mask)

    def stats(self, path: Any) -> Any:
        """Statistics of a path."""
        return self.chain.stats(path, self.mask)

    def sample_stats(self, key: PRNGKeyArray) -> Any:
        """Statistics of a draw."""
        return self.stats(self.sample(key))

    def mean(self) -> Array:
        """Smoothed means of the steps; of a discrete chain, the probabilities of its states."""
        return self.chain.mean(self.mask)

    def mode(self) -> Array:
        """The likeliest path (Viterbi's of a discrete chain)."""
        return self.chain.mode(self.mask)

    @property
    def probs(self) -> Float[Array, "*batch T K"]:
        """Smoothed probabilities of the states of a discrete chain."""
        return self.expected_stats().unary
