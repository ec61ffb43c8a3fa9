"""Families from concrete numbers, made in NumPy: a compiled program for each operation would cost more."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from vijax.tree import on_device

Make = TypeVar("Make", bound=Callable)


def on_host(*values: Any) -> tuple[Any, ...]:
    """NumPy and the values in it; `jax.numpy` and the values as they are, where one of them is traced.

    >>> xp, x = on_host(jnp.ones(3))
    >>> xp.sum(x)
    np.float32(3.0)
    """
    if any(isinstance(x, jax.core.Tracer) for x in values):
        return jnp, *values
    return np, *map(np.asarray, values)


def constructor(make: Make) -> Make:
    """Decorator of a function that makes a family: turns what it computed `on_host` into arrays of JAX and, as JAX
    does, gives no warning of overflow."""

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return jax.tree.map(on_device, make(*args, **kwargs))

    return made  # type: ignore[return-value]
