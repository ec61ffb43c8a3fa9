"""Inference about data at a fitted posterior: locals, bounds, topic shares. XLA drops the parts of
the computation that an answer does not need."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.contract.batch import Minibatch
from vijax.contract.general import general
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.families import Product
from vijax.families.base import as_array
from vijax.inference.spec import Spec
from vijax.xla.compiler import cached_program, count_numbers, quick_jit, step_jit
from vijax.xla.random_bits import fused_key

Reading = Callable[[Model, PyTree, LocalElbo, PRNGKeyArray], Any]
"""(model, statistics of the globals, `LocalElbo` of the data, key) -> the answer."""


FEW = 1 << 16
"""The size of all data below which `quick_jit` is used: their locals are computed in less time than
a faster program takes to compile. For the correlated topic model, whose E-step is the most
expensive, it is 400 documents of 80 words."""


def infer(
    read: Reading,
    spec: Spec,
    hyper: Hyper,
    posterior: Product,
    batch: Minibatch,
    key: PRNGKeyArray,
    size: int | None = None,
) -> Any:
    """The answer that `read` takes from the local bound of a batch at the fitted globals.

    Args:
      read: the question.
      spec: the algorithm of the fit.
      hyper: hyperparameters.
      posterior: q of the globals.
      batch: the data.
      key: random key of the E-step and of `read`.
      size: the size of all data, if there are more batches.
    """

    def bind(model_ref: weakref.ref[Model]) -> Callable[..., Any]:
        def answer(read, estimand, estep, hyper, posterior, batch, key):
            model = model_ref()
            key = fused_key(key)
            stats = {name: estimand.choice(name).point(q) for name, q in posterior.items()}
            return read(model, stats, model.local_elbo(hyper, stats, batch, key, estep), key)

        return compiler(answer, static_argnums=(0, 1, 2))

    is_small = (size or count_numbers(batch)) < FEW
    compiler = quick_jit if is_small else step_jit
    if read is read_shares:
        read = ShareReader(spec.model.answer("transform"))
    model = spec.model
    if read in (read_locals, read_bounds) or isinstance(read, ShareReader):
        model = general(model)  # these questions call no function of the model itself
    program = cached_program(model, ("inferred", compiler), bind)
    return program(read, spec.estimand, spec.estep, hyper, posterior, batch, key)


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
    """The answers of `read` for all documents of a corpus, in the order of the corpus.

    Args:
      read: the question; it returns a list with one tree for each length bucket.
      spec, hyper, posterior: as for `infer`.
      corpus: the documents.
      key: random key; all batches use it, so that no answer depends on the batch of its document.
      batch_size: number of documents in a batch.
      progress: called after each batch with the number of documents that are done.
    """
    from vijax.data import document_batches, in_order

    parts, rows = [], []
    size = len(corpus.indices)
    for batch, order in document_batches(corpus, batch_size):
        all_numbers = max(size, count_numbers(batch))
        answers = infer(read, spec, hyper, posterior, batch, key, all_numbers)
        parts += jax.tree.map(np.asarray, answers)
        rows.append(order)
        if progress is not None:
            progress(sum(int((part >= 0).sum()) for part in rows))
    places = np.concatenate(rows)
    return jax.tree.map(lambda *x: in_order(np.concatenate(x), places), *parts)


def read_locals(model: Model, stats: PyTree, elbo: LocalElbo, key: PRNGKeyArray) -> PyTree:
    """The optimised locals."""
    return elbo.local


def read_bounds(model: Model, stats: PyTree, elbo: LocalElbo, key: PRNGKeyArray) -> PyTree:
    """The bounds of the groups."""
    return elbo.per_group


def group_bounds(
    spec: Spec, hyper: Hyper, posterior: Product, data: PyTree, key: PRNGKeyArray
) -> Float[np.ndarray, " groups"]:
    """Bounds on the log densities of held-out groups: locals are inferred, the globals fixed."""
    batch = Minibatch(jax.tree.map(as_array, data), None)
    return np.asarray(infer(read_bounds, spec, hyper, posterior, batch, key), np.float64)


@dataclasses.dataclass(frozen=True)
class ShareReader:
    """Reads expected topic shares by a function of a model. It does not read `model`, so that
    models with equal settings share its program."""

    answer: Callable[..., Array]

    def __call__(
        self, model: Model, stats: PyTree, elbo: LocalElbo, key: PRNGKeyArray
    ) -> list[Array]:
        """One array of shares for each length bucket."""
        return [self.answer(stats, local, key) for local in elbo.local]


def read_shares(model: Model, stats: PyTree, elbo: LocalElbo, key: PRNGKeyArray) -> list[Array]:
    """Expected topic shares of documents, one array for each length bucket."""
    return ShareReader(model.answer("transform"))(model, stats, elbo, key)
