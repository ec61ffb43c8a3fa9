"""A table of a posterior: mean, standard deviation and interval of every number, by name and
coordinate."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.numerals import format_number

NUMBERS, LARGEST = 1 << 25, 1 << 17  # numbers of all draws; and of one draw
MOST_SHOWN = 40  # rows of a printed table


@dataclasses.dataclass(frozen=True)
class Summary:
    """Mean, sd and interval of every number of a posterior; printed it is a table.

    Attributes:
      names: the numbers, "slope[2]" say.
      mean: their means.
      sd: their standard deviations.
      low: lower ends of the central intervals.
      high: upper ends.
      level: the probability of the intervals.
      num_draws: the number of draws that all this is of.
    """

    names: tuple[str, ...]
    mean: Float[np.ndarray, " M"]
    sd: Float[np.ndarray, " M"]
    low: Float[np.ndarray, " M"]
    high: Float[np.ndarray, " M"]
    level: float
    num_draws: int

    def columns(self) -> dict[str, np.ndarray]:
        """Returns the columns of the table by name, without the names of the rows."""
        ends = [f"{100 * (0.5 + side * 0.5 * self.level):g} %" for side in (-1, 1)]
        return dict(
            zip(["mean", "sd", *ends], [self.mean, self.sd, self.low, self.high], strict=True)
        )

    def to_frame(self) -> Any:
        """Returns a `pandas.DataFrame`, its index the names; ImportError where pandas is not
        installed."""
        from vijax.extras import require_extra

        return require_extra("pandas").DataFrame(self.columns(), index=list(self.names))

    def __repr__(self) -> str:
        shown = [*self.names[:MOST_SHOWN]]
        rows = [["", *self.columns()]]
        spreads = self._spreads()
        rows += [
            [name, *(format_number(x[i], spreads[i]) for x in self.columns().values())]
            for i, name in enumerate(shown)
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        left = len(self.names) - len(shown)
        more = [f"... and {left:,} more numbers: to_frame() has all of them"] if left else []
        known = (
            f"by {self.num_draws:,} draws of q: means are known to {self.num_draws**-0.5:.2g} of "
            "their sds"
        )
        return "\n".join([*lines, *more, known])

    def _spreads(self) -> np.ndarray:
        """The lengths that the digits of each row show: its deviation, or half of its interval if
        that is less."""
        half = 0.5 * (np.asarray(self.high) - np.asarray(self.low))
        return np.where((half > 0) & (half < self.sd), half, self.sd)


def usual_draws(size: int) -> int:
    """Returns the usual number of draws of so many numbers; ValueError where they are too many."""
    remedy = "Ask for one global: fit.posterior[name].mean(), or fit.topics(vocabulary)."
    require(
        size <= LARGEST,
        "summary",
        f"a posterior of at most {LARGEST:,} numbers",
        f"{size:,}",
        remedy,
    )
    return int(np.clip(NUMBERS // max(size, 1), 256, 4000))


def summarise_draws(draws: Mapping[str, Any], level: float) -> Summary:
    """Summarises draws by name, which lead the axes.

    >>> summarise_draws({"x": np.arange(5.0), "y": np.zeros((5, 2))}, 0.5)
          mean     sd  25 %  75 %
    x        2  1.581     1     3
    y[0]     0      0     0     0
    y[1]     0      0     0     0
    by 5 draws of q: means are known to 0.45 of their sds
    """
    require(0 < level < 1, "level", "a probability between 0 and 1", level)
    names: list[str] = []
    parts = []
    for path, x in jax.tree_util.tree_flatten_with_path(dict(draws))[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        values = np.asarray(x, np.float64)
        names += [
            f"{name}[{', '.join(map(str, i))}]" if i else name for i in np.ndindex(values.shape[1:])
        ]
        parts.append(values.reshape(len(values), -1))
    x = np.concatenate(parts, 1)
    low, high = np.quantile(x, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    return Summary(tuple(names), x.mean(0), x.std(0, ddof=1), low, high, level, len(x))
