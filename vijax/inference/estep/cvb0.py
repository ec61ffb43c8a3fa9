"""CVB0 E-step of mixed membership at fixed topics: theta integrated out, each token left out of its own count."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.arguments import Positive, Size, checked
from vijax.contract.estep import Locals, MixedMembership, iterate_by_document
from vijax.inference.estep.over_words import over_words
from vijax.xla import native
from vijax.xla.gather import AtOnce, docs_per_chunk


@dataclasses.dataclass(frozen=True)
class CVB0(MixedMembership):
    """Zeroth-order collapsed variational Bayes; see `cvb0`."""

    goes_on: ClassVar[bool] = True
    draws: ClassVar[bool] = False
    max_iters: int
    tol: float

    def docs_per_chunk(self, num_slots: int, num_topics: int) -> int:
        """The number of documents whose likelihood and responsibilities stay in a core's cache."""
        return docs_per_chunk(num_slots, num_topics, cache_bytes=2**17)

    def mixed_membership(
        self,
        likelihood: Float[Array, "docs slots topics"],
        counts: Float[Array, "docs slots"],
        alpha: Float[Array, " topics"],
        key: PRNGKeyArray,
        max_tokens: int,
        start: Float[Array, "docs topics"] | None = None,
    ) -> Locals:
        """See `estep.base.MixedMembership`; neither `key` nor `max_tokens` is used."""
        del key, max_tokens
        start = _begin(counts, alpha, start)
        given, shapes = (likelihood, counts, alpha, start), (start.shape, likelihood.shape)
        return Locals(*native.where_there_is("cvb0", shapes, self._by_xla, *given, **self._settings()))

    def over_words(self) -> AtOnce:
        """See `MixedMembership`."""
        return functools.partial(over_words, "cvb0_step", _begin, self._settings())

    def _settings(self) -> dict[str, int | float]:
        return {"max_iters": self.max_iters, "tol": self.tol}

    def _by_xla(self, likelihood: Array, counts: Array, alpha: Array, start: Array) -> tuple[Array, Array]:
        first = weigh(likelihood, counts, alpha, start - alpha, 0.0)

        def improve(old: _Responsibilities) -> _Responsibilities:
            return weigh(likelihood, counts, alpha, old.topic_counts, old.weights * old.scale[:, :, None])

        last = iterate_by_document(improve, first, lambda r: r.topic_counts, counts, self.max_iters, self.tol)
        return alpha + last.topic_counts, last.weights * (counts * last.scale)[:, :, None]


def _begin(counts: Array, alpha: Array, start: Array | None) -> Array:
    return jnp.broadcast_to(alpha, (counts.shape[0], alpha.size)) if start is None else start


class _Responsibilities(NamedTuple):
    """Responsibilities of the tokens of slot n: `weights[d, n] * scale[d, n]`, normalised only where they are read."""

    weights: Float[Array, "docs slots topics"]
    scale: Float[Array, "docs slots"]
    topic_counts: Float[Array, "docs topics"]


def weigh(
    likelihood: Float[Array, "docs slots topics"],
    counts: Float[Array, "docs slots"],
    alpha: Float[Array, " topics"],
    topic_counts: Float[Array, "docs topics"],
    own: Float[Array, "docs slots topics"] | float,
) -> _Responsibilities:
    """gamma_nk ∝ (alpha_k + N_k - own_nk) p_nk for all slots at once, and the topic counts that result."""
    # The other tokens' counts cannot be negative, but rounding, or a padding slot, could make them so.
    weights = jnp.maximum((alpha + topic_counts)[:, None, :] - own, alpha) * likelihood
    scale = 1.0 / jnp.einsum("dnk,k->dn", weights, jnp.ones_like(alpha), precision="highest")
    return _Responsibilities(weights, scale, jnp.einsum("dnk,dn->dk", weights, counts * scale, precision="highest"))


@checked
def cvb0(max_iters: Size = 100, tol: Positive = 1e-3) -> CVB0:
    """CVB0 E-step at fixed topics (Asuncion et al. 2009): gamma_mk ∝ (alpha_k + N_k - gamma_mk) beta_k[w_m].

    Args:
      max_iters: most iterations of a document.
      tol: stop where an iteration changes the topic counts of a document by less on average.

    Raises:
      ValueError: `max_iters` is not a positive integer, or `tol` not a positive number.
    """
    return CVB0(max_iters, float(tol))
