"""Inference about data at a fitted posterior: locals, bounds, topic shares. XLA drops the rest of
the computation."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from vijax.contract.batch import Minibatch
from vijax.contract.general import general
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.families import Product
from vijax.inference.spec import Spec
from vijax.xla.compiler import cached_program, count_numbers, quick_jit, step_jit
from vijax.xla.random_bits import fused_key

Reading = Callable[[Model, PyTree, LocalElbo, PRNGKeyArray], Any]
"""(model, statistics of the globals, its `LocalElbo` of the data, key) -> the answer."""


FEW = 1 << 16
"""Numbers of all the data below which their locals are found before a fast program of it would be
compiled: of the correlated topic model, whose E-step is the dearest, 400 documents of 80 words."""


def infer(
    read: Reading,
    spec: Spec,
    hyper: Hyper,
    posterior: Product,
    batch: Minibatch,
    key: PRNGKeyArray,
    size: int | None = None,
) -> Any:
    """The answer that `read` takes from the local bound of a batch, with the globals as they are
    fitted.

    Args:
      size: numbers of all the data, where there are more batches than this one.
    """

    def bind(of: weakref.ref[Model]) -> Callable[..., Any]:
        def infer(read, estimand, estep, hyper, posterior, batch, key):
            model, key = of(), fused_key(key)
            stats = {name: estimand.choice(name).point(q) for name, q in posterior.items()}
            return read(model, stats, model.local_elbo(hyper, stats, batch, key, estep), key)

        return compiled(infer, static_argnums=(0, 1, 2))

    compiled = quick_jit if (size or count_numbers(batch)) < FEW else step_jit
    read = SharesBy(spec.model.answer("transform")) if read is read_shares else read
    is_general = read in (read_locals, read_bounds) or isinstance(read, SharesBy)
    model = general(spec.model) if is_general else spec.model  # others ask it something
    found = cached_program(model, ("inferred", compiled), bind)
    return found(read, spec.estimand, spec.estep, hyper, posterior, batch, key)


def infer_documents(
    read: Reading,
    spec: Spec,
    hyper: Hyper,
    posterior: Product,
    corpus: Any,
    key: PRNGKeyArray,
    batch_size: int = 1024,
    progress: Callable[[int], Any] | None = None,
) -> Any:
    """The answers that `read` takes for each document of a corpus, in their order; `read` gives one
    tree for each length bucket. `progress` is called after each batch with the number of documents
    that are done."""
    from vijax.data import document_batches, in_order

    parts, rows, size = [], [], len(corpus.indices)
    for batch, order in document_batches(corpus, batch_size):
        # One key for all batches, so that no answer depends on the batch in which its document
        # comes.
        found = infer(read, spec, hyper, posterior, batch, key, max(size, count_numbers(batch)))
        parts += jax.tree.map(np.asarray, found)
        rows.append(order)
        if progress is not None:
            progress(sum(int((part >= 0).sum()) for part in rows))
    places = np.concatenate(rows)
    return jax.tree.map(lambda *x: in_order(np.concatenate(x), places), *parts)


def read_locals(model: Model, stats: PyTree, said: LocalElbo, key: PRNGKeyArray) -> PyTree:
    """The optimised locals."""
    return said.local


def read_bounds(model: Model, stats: PyTree, said: LocalElbo, key: PRNGKeyArray) -> PyTree:
    """The groups' bounds."""
    return said.per_group


@dataclasses.dataclass(frozen=True)
class SharesBy:
    """Reads expected topic shares by a model's own answer. It asks the model nothing, so that
    models which were made again with equal settings share its program."""

    answer: Callable[..., Array]

    def __call__(
        self, model: Model, stats: PyTree, said: LocalElbo, key: PRNGKeyArray
    ) -> list[Array]:
        """One array of shares for each length bucket."""
        return [self.answer(stats, local, key) for local in said.local]


def read_shares(model: Model, stats: PyTree, said: LocalElbo, key: PRNGKeyArray) -> list[Array]:
    """Expected topic shares of documents, one array for each length bucket."""
    return SharesBy(model.answer("transform"))(model, stats, said, key)
