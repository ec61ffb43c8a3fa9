"""A trust region: no step goes further than a given number of nats."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from vijax import tree
from vijax.arguments import Positive, checked
from vijax.families import Family
from vijax.inference.update.base import Q, Update
from vijax.inference.update.proximal import kl

_HALVINGS = 30


@checked
@dataclasses.dataclass(frozen=True)
class within(Update):
    """The step of another update, halved until KL(q' || q) is at most `nats`.

    In a global with batch axes (topics, components) each member is held to the bound by itself. It serves also where
    the objective is noisy (minibatches); on full data `vijax.step_size.backtracking` looks at the objective.

    Args:
      nats: radius of the trust region.
      update: the update whose steps are cut; None is `kl()`.

    Raises:
      ValueError: `nats` not positive.

    >>> from vijax.families import Normal
    >>> q, target = Normal.from_mean_variance(0.0, 1.0), Normal.from_mean_variance(40.0, 1.0)
    >>> new, _ = within(0.5).propose(q, target, 1.0, ())
    >>> bool(0.1 < new.kl(q) <= 0.5)
    True
    """

    nats: Positive
    update: Update = dataclasses.field(default_factory=kl)

    @property
    def size(self) -> str:  # type: ignore[override]
        """The other update's `size`."""
        return self.update.size

    def init(self, q: Family) -> PyTree:
        """The other update's memory."""
        return self.update.init(q)

    def propose(self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree) -> tuple[Q, PyTree]:
        """See `Update`. The memory is the one of the whole step, also where the step was cut."""
        whole, memory = self.update.propose(q, target, size, memory)
        batch = jnp.ones(q.batch_shape, jnp.result_type(jax.tree.leaves(q)[0]))

        def cut(share: Array) -> Q:
            shares = q.with_naturals([share.reshape(share.shape + (1,) * n) for n in q.event_ndims])
            return tree.apply(lambda a, b, s: (1 - s) * a + s * b, q, whole, shares)

        def too_far(share: Array) -> Array:
            return ~(cut(share).kl(q) <= self.nats)

        share, _ = jax.lax.while_loop(
            lambda c: jnp.any(too_far(c[0])) & (c[1] < _HALVINGS),
            lambda c: (jnp.where(too_far(c[0]), 0.5 * c[0], c[0]), c[1] + 1),
            (batch, jnp.int32(0)),
        )
        whole_finite = tree.all_finite(whole)  # values that are not finite pass, to be skipped and reported
        return tree.select(whole_finite, cut(share), whole), memory
