"""What a model infers of data at a fitted posterior: one program for each question.

What was not asked for is not computed: XLA drops it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from jaxtyping import Array, PRNGKeyArray, PyTree

from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.contract.per_variable import PerVariable
from vijax.families import Product
from vijax.inference.estimand import Estimand
from vijax.inference.spec import Spec
from vijax.xla.compiler import kept, step_jit

Reading = Callable[[Model, PyTree, LocalElbo, PRNGKeyArray], Any]
"""(model, statistics of the globals, what the model said, key) -> what is asked for."""


def inferred(read: Reading, spec: Spec, hyper: Hyper, posterior: Product, batch: Minibatch, key: PRNGKeyArray) -> Any:
    """What `read` reads in the local bound of a batch, the globals as they are fitted."""
    infer = kept(spec.model, "inferred", lambda model: step_jit(_bind(model), static_argnums=(0, 1, 2)))
    return infer(read, spec.estimand, spec.estep, hyper, posterior, batch, key)


def _bind(of: weakref.ref[Model]) -> Callable[..., Any]:
    def infer(
        read: Reading,
        estimand: PerVariable[Estimand],
        estep: Any,
        hyper: Hyper,
        posterior: Product,
        batch: Minibatch,
        key: Any,
    ) -> Any:
        model: Any = of()
        stats = {name: estimand.of(name).point(q) for name, q in posterior.items()}
        return read(model, stats, model.local_elbo(hyper, stats, batch, key, estep), key)

    return infer


def locals_of(model: Model, stats: PyTree, said: LocalElbo, key: PRNGKeyArray) -> PyTree:
    """The optimised locals."""
    del model, stats, key
    return said.local


def bounds_of(model: Model, stats: PyTree, said: LocalElbo, key: PRNGKeyArray) -> PyTree:
    """The groups' bounds."""
    del model, stats, key
    return said.per_group


def shares_of(model: Model, stats: PyTree, said: LocalElbo, key: PRNGKeyArray) -> list[Array]:
    """Expected topic shares of documents, one array for each length bucket."""
    shares = model.documents and model.documents.shares
    assert shares is not None  # callers have asked
    return [shares(stats, local, key) for local in said.local]
