"""Memory that the locals of a step take, asked before the first step."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from vijax.contract.model import Model
from vijax.contract.room import require_room
from vijax.data.loader import Loader
from vijax.tree import as_arrays

NUMBERS = 1 << 28
"""The numbers of the longest axis of the globals for each group of a batch, up to which nothing is
asked."""


def check_room(model: Model, loader: Loader) -> None:
    """Raises ValueError where the locals of a batch, such as the probabilities of all components in
    each row, do not fit in free memory. It is asked of models whose axes are long beside that, and
    costs a trace."""
    has_locals = model.by_entry is None and model.free is None
    if (
        not has_locals or not loader.num_groups or not loader.steps_per_epoch
    ):  # the length of a stream is not known
        return
    groups = -(-loader.num_groups // loader.steps_per_epoch)
    prior = jax.eval_shape(model.prior, as_arrays(dict(model.hyper)))
    longest = max((max(leaf.shape, default=1) for leaf in jax.tree.leaves(prior)), default=1)
    if longest * groups <= NUMBERS:
        return
    numbers = _numbers_of_locals(model, next(iter(loader.batches(0, 1))))
    what = f"{groups:,} groups at each step of a model whose longest axis is {longest:,}"
    require_room(
        "batch_size", what, numbers, "Take smaller batches, or fewer components, states or topics."
    )


def _numbers_of_locals(model: Model, batch: Any) -> int:
    key = jax.random.key(0)

    def locals_of(hyper: Any, batch: Any) -> Any:
        stats = model.prior(hyper).sample_stats(key)
        return model.local_elbo(hyper, stats, batch, key, model.estep).local

    try:
        shapes = jax.eval_shape(locals_of, as_arrays(dict(model.hyper)), batch)
    except Exception:  # the first step says what is wrong
        return 0
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(shapes))
