"""E-steps of mixed membership that climb to a fixed point: mean field and CVB0."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.arguments import Positive, Size, check_arguments
from vijax.contract.estep import Locals, MixedMembership, iterate_by_document
from vijax.families.numeric.special import digamma
from vijax.inference.estep.conditionals import (
    Conditionals,
    InferredLocals,
    OfConditionals,
    coordinate_ascent,
)
from vijax.xla import native
from vijax.xla.gather import AtOnce, docs_per_chunk

REOPENED = 0.3
"""Share of the tokens of a document that is spread evenly over the topics again when its E-step
continues from an earlier visit. Without it a topic that the document has left does not come back:
its weight is exp digamma(alpha), next to nothing. Measured on AP, 50 topics, nats a word below cold
starts: .033 with none (6 passes); .022, .004, .001 with .05, .2, .5 (7)."""


@dataclasses.dataclass(frozen=True)
class MeanField(MixedMembership, OfConditionals):
    """Coordinate ascent; see `mean_field`."""

    is_ascent: ClassVar[bool] = True
    goes_on: ClassVar[bool] = True
    draws: ClassVar[bool] = False
    max_iters: int
    tol: float

    def conditionals(self, problem: Conditionals, key: PRNGKeyArray) -> InferredLocals:
        return coordinate_ascent(problem, self.max_iters, self.tol)

    def docs_per_chunk(self, num_slots: int, num_topics: int) -> int:
        """The number of documents whose likelihood stays in a core's cache over the iterations."""
        return docs_per_chunk(num_slots, num_topics, cache_bytes=2**18)

    def mixed_membership(
        self,
        likelihood: Array,
        counts: Array,
        alpha: Array,
        key: Any,
        max_tokens: int,
        start: Array | None = None,
    ) -> Locals:
        """See `MixedMembership`; neither `key` nor `max_tokens` is used."""
        start = _reopen(counts, alpha, start)
        inputs = likelihood, counts, alpha, start
        (gamma,) = native.run_kernel(
            "mean_field", (start.shape,), self._run_xla, *inputs, **self._settings()
        )
        return Locals(gamma, None)

    def table_kernel(self) -> AtOnce:
        return functools.partial(table_step, "mean_field_step", _reopen, self._settings())

    def _settings(self) -> dict[str, int | float]:
        return {"max_iters": self.max_iters, "tol": self.tol}

    def _run_xla(
        self, likelihood: Array, counts: Array, alpha: Array, start: Array
    ) -> tuple[Array]:
        improve = lambda gamma, data: ascend(gamma, data[0], data[1], alpha)
        identity = lambda gamma: gamma
        data = likelihood, counts
        gamma = iterate_by_document(
            improve, start, identity, counts, self.max_iters, self.tol, data
        )
        return (gamma,)


def _reopen(counts: Array, alpha: Array, start: Array | None) -> Array:
    """gamma at which mean field begins: from an earlier gamma or, if None, cold."""
    even = cold(counts, alpha)
    return even if start is None else (1 - REOPENED) * start + REOPENED * even


def cold(
    counts: Float[Array, "docs slots"], alpha: Float[Array, " topics"]
) -> Float[Array, "docs topics"]:
    """The first gamma of a document: its tokens spread evenly over the topics."""
    return alpha[None] + jnp.sum(counts, axis=1, keepdims=True) / alpha.size


def ascend(
    gamma: Float[Array, "docs topics"],
    likelihood: Float[Array, "docs slots topics"],
    counts: Float[Array, "docs slots"],
    alpha: Float[Array, " topics"],
) -> Float[Array, "docs topics"]:
    """One round of coordinate ascent on q(z), then q(theta), without forming the responsibilities:

    gamma_k = alpha_k + e_k sum_n c_n p_nk / (sum_j p_nj e_j),   e = exp E[log theta].

    Here e is scaled to a maximum of 1 in each document; the factor cancels.
    """
    log_weights = digamma(gamma)
    weights = jnp.exp(log_weights - jnp.max(log_weights, axis=-1, keepdims=True))
    normalizers = jnp.einsum("dnk,dk->dn", likelihood, weights, precision="highest")
    ratios = counts / normalizers
    sums = jnp.einsum("dnk,dn->dk", likelihood, ratios, precision="highest")
    return alpha[None] + weights * sums


@check_arguments
def mean_field(max_iters: Size = 100, tol: Positive = 1e-3) -> MeanField:
    """Mean-field E-step: q(theta) = Dirichlet(gamma), and the optimal q(z) for it (Blei, Ng and
    Jordan 2003).

    Args:
      max_iters: most iterations of a document or group.
      tol: stop if an iteration changes the topic counts of a document, or the locals of a group, by
        less on average. It is scikit-learn's `mean_change_tol`.
    """
    return MeanField(max_iters, float(tol))


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
        likelihood: Array,
        counts: Array,
        alpha: Array,
        key: Any,
        max_tokens: int,
        start: Array | None = None,
    ) -> Locals:
        """See `MixedMembership`; neither `key` nor `max_tokens` is used."""
        start = _last_gamma(counts, alpha, start)
        inputs = likelihood, counts, alpha, start
        shapes = start.shape, likelihood.shape
        results = native.run_kernel("cvb0", shapes, self._run_xla, *inputs, **self._settings())
        return Locals(*results)

    def table_kernel(self) -> AtOnce:
        return functools.partial(table_step, "cvb0_step", _last_gamma, self._settings())

    def _settings(self) -> dict[str, int | float]:
        return {"max_iters": self.max_iters, "tol": self.tol}

    def _run_xla(
        self, likelihood: Array, counts: Array, alpha: Array, start: Array
    ) -> tuple[Array, Array]:
        first = weigh(likelihood, counts, alpha, start - alpha[None], 0.0)

        def improve(before: _Responsibilities, data: Any) -> _Responsibilities:
            gamma = before.weights * before.scale[:, :, None]
            return weigh(data[0], data[1], alpha, before.topic_counts, gamma)

        last = iterate_by_document(
            improve,
            first,
            lambda r: r.topic_counts,
            counts,
            self.max_iters,
            self.tol,
            (likelihood, counts),
        )
        return alpha[None] + last.topic_counts, last.weights * (counts * last.scale)[:, :, None]


def _last_gamma(counts: Array, alpha: Array, start: Array | None) -> Array:
    """gamma at which CVB0 begins: an earlier gamma or, if None, alpha."""
    if start is None:
        return jnp.broadcast_to(alpha, (counts.shape[0], alpha.size))
    return start


class _Responsibilities(NamedTuple):
    """Responsibilities `weights[d, n] * scale[d, n]` of the tokens of slot n, normalised when they
    are read."""

    weights: Float[Array, "docs slots topics"]
    scale: Float[Array, "docs slots"]
    topic_counts: Float[Array, "docs topics"]


def weigh(
    likelihood: Float[Array, "docs slots topics"],
    counts: Float[Array, "docs slots"],
    alpha: Float[Array, " topics"],
    topic_counts: Float[Array, "docs topics"],
    gamma: Float[Array, "docs slots topics"] | float,
) -> _Responsibilities:
    """New responsibilities ∝ (alpha_k + N_k - gamma_nk) p_nk for all slots at once, and their topic
    counts."""
    # Counts of the other tokens are not negative, but rounding or padding could make them so.
    others = (alpha[None] + topic_counts)[:, None, :] - gamma
    weights = jnp.maximum(others, alpha[None, None]) * likelihood
    scale = 1.0 / jnp.einsum("dnk,k->dn", weights, jnp.ones_like(alpha), precision="highest")
    topic_counts = jnp.einsum("dnk,dn->dk", weights, counts * scale, precision="highest")
    return _Responsibilities(weights, scale, topic_counts)


@check_arguments
def cvb0(max_iters: Size = 100, tol: Positive = 1e-3) -> CVB0:
    """CVB0 E-step at fixed topics (Asuncion et al. 2009): gamma_mk ∝ (alpha_k + N_k - gamma_mk)
    beta_k[w_m].

    Args:
      max_iters: most iterations of a document.
      tol: stop if an iteration changes the topic counts of a document by less on average.
    """
    return CVB0(max_iters, float(tol))


Begin = Callable[[Array, Array, Array | None], Array]
"""(counts, alpha, the last gamma or None) -> the first gamma of an E-step."""


def table_step(
    name: str,
    begin: Begin,
    settings: dict[str, int | float],
    table: Float[Array, "words topics"],
    alpha: Float[Array, " topics"],
    groups: Sequence[Any],
    key: PRNGKeyArray,
) -> tuple[tuple[Array, tuple[tuple[Array, Array], ...]], tuple[Array, Array]]:
    """E-step, bound and its gradient in one compiled call (`vijax.xla.gather.AtOnce`). It writes no
    array of the size (documents, slots, topics): the rows of a document are read once.

    Returns:
      The expected log likelihood, summed by the weights of documents; the value and gamma of each
      document; the gradient of the sum in the table, and in alpha, which is zero.
    """
    del key
    total, results, gradient = jnp.zeros((), table.dtype), [], jnp.zeros_like(table)
    for group in groups:
        docs = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), group)
        counts = docs.documents.counts.astype(table.dtype)
        weights = docs.documents.weights.astype(table.dtype)
        start = begin(counts, alpha, docs.bounded_start(alpha)).astype(table.dtype)
        shapes = [
            jax.ShapeDtypeStruct(shape, table.dtype)
            for shape in (start.shape, weights.shape, table.shape)
        ]
        inputs = table, docs.documents.words, counts, weights, alpha, start, gradient
        gamma, bound, gradient = native.call(
            f"{name}_{table.dtype}", shapes, *inputs, aliases={6: 2}, **settings
        )
        total += jnp.vdot(weights, bound)
        chunks = group.words.shape[:2]
        results.append((bound.reshape(chunks), gamma.reshape(*chunks, -1)))
    return (total, tuple(results)), (gradient, jnp.zeros_like(alpha))
