"""The check, before the first step, that the locals of a step fit in memory."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from vijax.contract.model import Model
from vijax.contract.room import require_room
from vijax.data.loader import Loader
from vijax.tree import as_arrays

NUMBERS = 1 << 28
"""Groups of a batch times the longest axis of the globals, up to which nothing is checked."""


def check_room(model: Model, loader: Loader) -> None:
    """Raises ValueError where the locals of a batch, such as the probabilities of all components in
    each row, do not fit in free memory. Beyond `NUMBERS` it costs a trace of the model."""
    has_locals = model.by_entry is None and model.free is None
    has_length = loader.num_groups and loader.steps_per_epoch  # a stream has none
    if not has_locals or not has_length:
        return
    groups = -(-loader.num_groups // loader.steps_per_epoch)
    prior = jax.eval_shape(model.prior, as_arrays(dict(model.hyper)))
    longest = max((max(leaf.shape, default=1) for leaf in jax.tree.leaves(prior)), default=1)
    if longest * groups <= NUMBERS:
        return
    numbers = _count_locals(model, next(iter(loader.batches(0, 1))))
    actual = f"{groups:,} groups at each step of a model whose longest axis is {longest:,}"
    remedy = "Take smaller batches, or fewer components, states or topics."
    require_room("batch_size", actual, numbers, remedy)


def _count_locals(model: Model, batch: Any) -> int:
    """The number of numbers in the locals of a batch."""
    key = jax.random.key(0)

    def batch_locals(hyper: Any, batch: Any) -> Any:
        stats = model.prior(hyper).sample_stats(key)
        return model.local_elbo(hyper, stats, batch, key, model.estep).local

    try:
        shapes = jax.eval_shape(batch_locals, as_arrays(dict(model.hyper)), batch)
    except Exception:  # the first step says what is wrong
        return 0
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(shapes))
