"""Checks that a model of the given sizes fits in memory, before anything of its size is
allocated."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeVar

import jax
import numpy as np

from vijax.arguments import read_arguments
from vijax.checks import require
from vijax.memory import free_bytes, size_text

Make = TypeVar("Make", bound=Callable)
SMALL = 16
"""Sizes up to this one are not checked."""
NUMBERS = 1 << 31
"""Limit below which the product of sizes, times the largest size, needs no check."""
POINTS = (5, 6, 7, 8)
"""Sizes of small models, from which the growth with a size is computed: at most cubic."""
COPIES = 3
"""Copies of the parameters that a fit needs: the prior, the posterior and a message."""


def limit_sizes(make: Make) -> Make:
    """Decorates a constructor of a model or an emission: ValueError at sizes whose parameters do
    not fit in free memory.

    The number of parameters is a polynomial in each size. It is computed from small models of the
    same kind.

    >>> from vijax.models import lda
    >>> lda(10**9, 10**6)
    Traceback (most recent call last):
    ...
    ValueError: num_topics: expected sizes that fit in ..., got 1,000,000,000, which would take about ...
    """
    signature = inspect.signature(make)

    @functools.wraps(make)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError:  # missing or unknown arguments: the call raises the error
            return make(*args, **kwargs)
        sizes = _large_sizes(make, arguments)
        if math.prod(sizes.values()) * max(sizes.values(), default=0) > NUMBERS:
            _check(make, arguments, sizes)
        return make(*args, **kwargs)

    return call  # type: ignore[return-value]


def require_room(argument: str, got: str, numbers: int, remedy: str = "Take fewer.") -> None:
    """Raises ValueError if this many numbers of the working precision do not fit in free memory.

    Args:
      argument: the name of the large argument.
      got: its size, in words.
      numbers: how many numbers it needs.
      remedy: the way to a smaller size.
    """
    needed = numbers * np.dtype(jax.numpy.result_type(float)).itemsize
    free = free_bytes()
    expected = f"sizes that fit in {size_text(free)} of free memory"
    actual = f"{got}, which would take about {size_text(needed)}"
    require(needed <= free, argument, expected, actual, remedy)


def _large_sizes(make: Callable, arguments: Mapping[str, Any]) -> dict[str, int]:
    """The arguments that are whole numbers above `SMALL`, and are declared as numbers with a
    limit."""
    declared = read_arguments(make)
    has_limit = lambda name: name in declared and declared[name].limit is not None
    return {
        name: int(value)
        for name, value in arguments.items()
        if has_limit(name) and _is_large(value)
    }


def _is_large(value: Any) -> bool:
    """True for a whole number above `SMALL`."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_whole and value > SMALL


def _check(make: Callable, arguments: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Raises ValueError if a model of these sizes does not fit."""
    numbers = _count_parameters(make, arguments, sizes)
    if numbers is None:
        return
    largest = max(sizes, key=lambda name: sizes[name])
    require_room(largest, f"{sizes[largest]:,}", COPIES * numbers)


def _count_parameters(
    make: Callable, arguments: Mapping[str, Any], sizes: Mapping[str, int]
) -> int | None:
    """The number of parameters of a model of these sizes. None if small models cannot be made, for
    example if an argument is an array of this size, which then is in memory already."""
    grid = itertools.product(POINTS, repeat=len(sizes))
    total = Fraction(0)
    try:
        for points in grid:
            small = make(**{**arguments, **dict(zip(sizes, points, strict=True))})
            shares = map(_share, points, sizes.values())
            total += math.prod(shares) * _prior_size(small)
    except Exception:  # the call of the constructor raises its own error
        return None
    return int(total)


def _share(point: int, size: int) -> Fraction:
    """The weight of the value at one of `POINTS` in the polynomial through all of them, at
    `size`."""
    share = Fraction(1)
    for node in POINTS:
        if node != point:
            share *= Fraction(size - node, point - node)
    return share


def _prior_size(model: Any) -> int:
    """The number of parameters in the prior of a model or an emission."""
    prior = getattr(model, "prior", None)
    if callable(prior) and hasattr(model, "hyper"):
        prior = jax.eval_shape(prior, dict(model.hyper))
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(prior))
