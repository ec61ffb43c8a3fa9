"""Sizes that memory holds: a model says what it would take before anything of its size is
allocated."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import jax
import numpy as np

from vijax.arguments import read_arguments
from vijax.checks import require
from vijax.memory import free_bytes, size_text

Make = TypeVar("Make", bound=Callable)
SMALL = 16
"""Sizes up to which nothing is asked."""
NUMBERS = 1 << 31
"""Products of the sizes of a model, the largest of them squared, up to which nothing is asked."""
POINTS = (5, 6, 7, 8)
"""Sizes at which a model is made to learn how it grows: at the most as a cube."""
COPIES = 3
"""What a fit holds at the least: the prior, the posterior and a message."""


def limit_sizes(make: Make) -> Make:
    """Decorates a constructor of a model or an emission: sizes whose parameters do not fit in free
    memory are refused.

    The number of parameters is a polynomial in each size. It is learnt from small models of the
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
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # missing or unknown arguments: the function itself says so
            return make(*args, **kwargs)
        sizes = _sizes_among(make, given)
        if math.prod(sizes.values()) * max(sizes.values(), default=0) > NUMBERS:
            _check(make, given, sizes)
        return make(*args, **kwargs)

    return call  # type: ignore[return-value]


def require_room(argument: str, got: str, numbers: int, remedy: str = "Take fewer.") -> None:
    """Raises ValueError where so many numbers of the working precision do not fit in free memory.

    Args:
      argument: the name of what is so large.
      got: its size, in words.
      numbers: how many numbers it takes.
      remedy: what to do.
    """
    needed, there = numbers * np.dtype(jax.numpy.result_type(float)).itemsize, free_bytes()
    expected = f"sizes that fit in {size_text(there)} of free memory"
    require(
        needed <= there,
        argument,
        expected,
        f"{got}, which would take about {size_text(needed)}",
        remedy,
    )


def _sizes_among(make: Callable, given: Mapping[str, Any]) -> dict[str, int]:
    """The whole numbers, above the smallest, among the arguments that are limited to such."""
    known = read_arguments(make)
    are_sizes = {
        name: value
        for name, value in given.items()
        if name in known and known[name].limit is not None
    }
    is_size = lambda value: (
        isinstance(value, int | np.integer) and not isinstance(value, bool) and value > SMALL
    )
    return {name: int(value) for name, value in are_sizes.items() if is_size(value)}


def _check(make: Callable, given: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Raises ValueError where a model of these sizes does not fit."""
    numbers = _numbers_of(make, given, sizes)
    if numbers is None:
        return
    largest = max(sizes, key=lambda name: sizes[name])
    require_room(largest, f"{sizes[largest]:,}", COPIES * numbers)


def _numbers_of(make: Callable, given: Mapping[str, Any], sizes: Mapping[str, int]) -> int | None:
    """The parameters of a model of these sizes; None where small ones cannot be made, as with an
    array of that size among the arguments, which then is in memory already."""
    grid = itertools.product(POINTS, repeat=len(sizes))
    total = Fraction(0)
    try:
        for points in grid:
            small = make(**{**given, **dict(zip(sizes, points, strict=True))})
            shares = [
                _share(point, size) for point, size in zip(points, sizes.values(), strict=True)
            ]
            total += math.prod(shares) * _parameters(small)
    except Exception:  # the constructor itself says what is wrong
        return None
    return int(total)


def _share(point: int, size: int) -> Fraction:
    """The weight of a value at one of `POINTS` in the polynomial through all of them, at `size`."""
    others: Sequence[int] = [other for other in POINTS if other != point]
    return math.prod((Fraction(size - other, point - other) for other in others), start=Fraction(1))


def _parameters(made: Any) -> int:
    """The numbers in the prior of a model or an emission."""
    prior = getattr(made, "prior", None)
    shapes = (
        jax.eval_shape(prior, dict(made.hyper))
        if callable(prior) and hasattr(made, "hyper")
        else prior
    )
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(shapes))
