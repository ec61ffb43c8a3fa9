"""Which global the first message is of that is not finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from vijax import tree
from vijax.families import Product

NONE: Any = np.int32(-1)


def first_of(known: Int[Array | np.ndarray, ""], messages: Product, names: Sequence[str]) -> Int[Array, ""]:
    """The place among the names that is known; else that of the first of these messages with an entry that is not
    finite; -1 for none."""
    for name, message in messages.items():
        is_new = (known < 0) & (tree.count_non_finite(message) > 0)
        known = jnp.where(is_new, jnp.int32(names.index(name)), known)
    return jnp.asarray(known)


def named(places: Int[np.ndarray, " steps"], names: Sequence[str]) -> list[str]:
    """The globals that steps name, each once.

    >>> named(np.array([-1, 1, 1, -1]), ["topics", "rate"])
    ['rate']
    """
    return [names[place] for place in np.unique(places) if place >= 0]
