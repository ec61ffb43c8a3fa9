"""A point in the place of a distribution, where only means and statistics are read."""

from __future__ import annotations

import dataclasses
from typing import Any

from vijax import tree
from vijax.families.base import Family


@tree.register
@dataclasses.dataclass(frozen=True)
class Point:
    """The mode of `law`, as EM and MAP find it; `law` itself only keeps their expected statistics.

    Code that reads a posterior's means, as held-out scores do, reads the point here: under a flat prior the mean of
    `law` is not the estimate, and no distribution about it was inferred.

    >>> from vijax.families import Gamma
    >>> point = Point(Gamma.from_shape_rate(3.0, 2.0))
    >>> print(point.mean(), point.expected_stats().log.round(3))
    1.0 0.0
    """

    law: Family

    def mean(self) -> Any:
        """The point."""
        return self.law.mode()

    def stats(self, x: Any) -> Any:
        """Sufficient statistics of a value."""
        return self.law.stats(x)

    def expected_stats(self) -> Any:
        """The statistics of the point."""
        return self.law.stats(self.law.mode())
