"""Starts of recurrent switching linear dynamical systems at the paths of a `vijax.models.slds`. Its
switching does not depend on the path, so that its optima are easier to find."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax import tree
from vijax.contract import init as starts
from vijax.contract.batch import Minibatch
from vijax.contract.model import Model
from vijax.families import Product
from vijax.families.scalar.polya_gamma import PolyaGammaStats
from vijax.xla.by_value import cache_by_value

ROUNDS = 40
"""Rounds of coordinate ascent of the first system."""


@cache_by_value
def start_by_slds(first: Model) -> starts.Init:
    """The start at the paths of `first`, a `vijax.models.slds` with as many states and dimensions,
    after some rounds of coordinate ascent from its own start."""

    def start(key: PRNGKeyArray, context: starts.Context) -> Product:
        key_start, key = jax.random.split(key)
        batch, hyper = context.data(), tree.as_arrays(first.hyper)
        prior = first.prior(hyper)
        assert first.locals.start is not None
        first_round = first.init(hyper, key_start, prior, batch), first.locals.start(hyper, batch)
        body = lambda i, carry: _one_round(first, hyper, prior, batch, key, *carry)
        _, local = jax.lax.fori_loop(0, ROUNDS, body, first_round)
        return context.conditional(_statistics(local))

    return start


def _one_round(
    model: Model,
    hyper: Any,
    prior: Product,
    batch: Minibatch,
    key: PRNGKeyArray,
    q: Product,
    local: Any,
) -> tuple[Product, Any]:
    """The globals after an E-step, and the locals of this E-step. A global that rounding takes out
    of its family keeps its value."""

    def bound(stats: Any) -> tuple[Any, Any]:
        elbo = model.local_elbo(hyper, stats, batch._replace(local=local), key, model.estep)
        scale = 1.0 if batch.num_groups is None else batch.num_groups / elbo.num_groups
        return scale * elbo.total, elbo.local

    message, new_local = jax.grad(bound, has_aux=True)(q.expected_stats())
    implied = tree.add(prior, prior.with_naturals(message))
    return jax.tree.map(jnp.where, implied.in_domain(), implied, q), new_local


@dataclasses.dataclass(frozen=True, eq=False)
class AfterSlds:
    """The start at these statistics of the locals. Starts with equal numbers are equal, so that a
    model made again with one compiles nothing.

    Attributes:
      means: mean statistics of `x`, `z` and `omega` by sequence, as NumPy arrays.
    """

    means: Mapping[str, Any]

    def __call__(self, key: PRNGKeyArray, context: starts.Context) -> Any:
        return context.conditional(jax.tree.map(jnp.asarray, dict(self.means)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AfterSlds) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[Any, ...]:
        leaves, structure = jax.tree.flatten(self.means)
        return structure, *((x.shape, x.dtype.name, x.tobytes()) for x in leaves)


def after_slds(local: Mapping[str, Any]) -> AfterSlds:
    """The start at the paths of a fitted `vijax.models.slds`. Use it to start a `recurrent_slds`
    from your own `slds` fit instead of the short built-in one.

    Args:
      local: `fit.locals(data, key=key)` of a fit of `slds`, with as many states and dimensions, to
          the same data.

    Example::

        first = vijax.fit(vijax.cavi(vijax.models.slds(dim, 4, 2)), data, num_steps=100, key=key)
        model = recurrent_slds(dim, 4, 2, init=after_slds(first.locals(data, key=key)))
    """
    return AfterSlds(jax.tree.map(np.asarray, _statistics(local)))


def _statistics(local: Mapping[str, Any]) -> dict[str, Any]:
    """Mean statistics of the locals from the paths of `vijax.models.slds`, with omega at PG(1,
    0)."""
    x, z = local["x"], local["z"]
    steps, k = z.num_steps, z.num_states
    moves = jnp.broadcast_to(z.transition[:, None], (len(z.transition), steps - 1, k, k))
    omega = PolyaGammaStats(jnp.full((len(moves), steps - 1, k - 1), 0.25, moves.dtype))
    return {
        "x": x.expected_stats(),
        "z": dataclasses.replace(z, transition=moves).expected_stats(),
        "omega": omega,
    }
