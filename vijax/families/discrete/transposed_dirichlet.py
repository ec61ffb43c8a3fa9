"""K Dirichlets side by side, stored component by component: where each component is a word, the numbers of a word are
contiguous, as a batch of documents reads and writes them."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families.base import Family, family, positive_and_finite
from vijax.families.discrete.dirichlet import Dirichlet, normalized_gammas
from vijax.families.discrete.dirichlet_divergence import expected_log
from vijax.families.numeric.pathwise import sample_offset


class TransposedDirichletStats(NamedTuple):
    """log x, component by component."""

    by_word: Float[Array, "*shape v k"]

    @property
    def log(self) -> Float[Array, "*shape k v"]:
        """The logarithms in the layout of `DirichletStats`."""
        return jnp.swapaxes(self.by_word, -1, -2)


@family
class TransposedDirichlet(Family):
    """K Dirichlets over V components. It has only the methods that a step needs; `plain()` has the others.

    Attributes:
      concentration: one for each component in each Dirichlet.

    >>> q = TransposedDirichlet(jnp.array([[0.5, 1.0], [2.5, 1.0], [1.0, 2.0]]))
    >>> q.plain().concentration.tolist(), q.mean().round(3).tolist()
    ([[0.5, 2.5, 1.0], [1.0, 1.0, 2.0]], [[0.125, 0.25], [0.625, 0.25], [0.25, 0.5]])
    """

    concentration: Float[Array, "v k"]

    Stats: ClassVar[type[tuple]] = TransposedDirichletStats
    event_ndims: ClassVar[tuple[int, ...]] = (2,)

    def plain(self) -> Dirichlet:
        """The same law as a `Dirichlet`."""
        return Dirichlet(self.concentration.T)

    def log_normalizer(self) -> Float[Array, ""]:
        """A, summed over the Dirichlets."""
        return jnp.sum(self.plain().log_normalizer())

    def stats(self, x: Float[Array, "*shape v k"]) -> TransposedDirichletStats:
        """Logarithms, floored as in `Dirichlet`."""
        return TransposedDirichletStats(Dirichlet(self.concentration).stats(x).log)

    def expected_stats(self) -> TransposedDirichletStats:
        """psi(c) - psi(C)."""
        return TransposedDirichletStats(expected_log(self.concentration, axis=0))

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> TransposedDirichletStats:
        """log x of a draw."""
        offset = sample_offset(key, self.concentration, shape)
        return TransposedDirichletStats(normalized_gammas(self.concentration, offset, axis=-2)[0])

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape v k"]:
        """x ~ q."""
        return jnp.exp(self.sample_stats(key, shape).by_word)

    def mean(self) -> Float[Array, "v k"]:
        """c / C."""
        return self.concentration / jnp.sum(self.concentration, axis=0)

    def mode(self) -> Float[Array, "v k"]:
        """See `Dirichlet.mode`."""
        return self.plain().mode().T

    def in_domain(self) -> Self:
        """c > 0 and finite, componentwise."""
        return type(self)(positive_and_finite(self.concentration))

    def flat(self) -> Self:
        """c = 1."""
        return type(self)(jnp.ones_like(self.concentration))

    def log_base_measure(self, stats: Any) -> Float[Array, "*shape"]:
        """-sum log x."""
        return -jnp.sum(stats.by_word, axis=(-2, -1))
