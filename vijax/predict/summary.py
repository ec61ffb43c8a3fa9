"""A table of a posterior: mean, standard deviation and interval of every number."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.numerals import format_number, name_ends

NUMBERS = 1 << 25  # numbers of all draws
LARGEST = 1 << 17  # numbers of one draw
MOST_ROWS = 40  # rows of a printed table


@dataclasses.dataclass(frozen=True)
class Summary:
    """Mean, sd and interval of every number of a posterior; it prints as a table.

    Attributes:
      names: names of the numbers, such as "slope[2]".
      mean: means of the numbers.
      sd: standard deviations.
      low: lower ends of the central intervals.
      high: upper ends of the central intervals.
      level: probability of the intervals.
      num_draws: number of draws from which all these are computed.
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
        low, high = name_ends(self.level)
        return {"mean": self.mean, "sd": self.sd, low: self.low, high: self.high}

    def to_frame(self) -> Any:
        """Returns a `pandas.DataFrame` whose index is the names; ImportError without pandas."""
        from vijax.extras import require_extra

        return require_extra("pandas").DataFrame(self.columns(), index=list(self.names))

    def __repr__(self) -> str:
        columns = self.columns()
        spreads = self._spreads()
        rows = [["", *columns]]
        for i, name in enumerate(self.names[:MOST_ROWS]):
            rows.append([name, *(format_number(x[i], spreads[i]) for x in columns.values())])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for name, *numbers in rows:
            cells = map(str.rjust, numbers, widths[1:])
            lines.append("  ".join([name.ljust(widths[0]), *cells]))
        num_omitted = len(self.names) - (len(rows) - 1)
        if num_omitted:
            lines.append(f"... and {num_omitted:,} more numbers: to_frame() has all of them")
        error = f"means are known to {self.num_draws**-0.5:.2g} of their sds"
        lines.append(f"by {self.num_draws:,} draws of q: {error}")
        return "\n".join(lines)

    def reorder(self, names: Sequence[str]) -> Summary:
        """The table with its rows in the order of these names; JAX sorts names by their letters."""
        rows = [self.names.index(name) for name in names]
        columns = {column: getattr(self, column)[rows] for column in ("mean", "sd", "low", "high")}
        return dataclasses.replace(self, names=tuple(names), **columns)

    def _spreads(self) -> np.ndarray:
        """The spread that the digits of each row resolve: its standard deviation, or half of its
        interval if that is less."""
        half = 0.5 * (np.asarray(self.high) - np.asarray(self.low))
        return np.where((half > 0) & (half < self.sd), half, self.sd)


def usual_draws(size: int) -> int:
    """Returns the usual number of draws of a posterior of `size` numbers; ValueError if these are
    too many."""
    expected = f"a posterior of at most {LARGEST:,} numbers"
    remedy = "Ask for one global: fit.posterior[name].mean(), or fit.topics(vocabulary)."
    require(size <= LARGEST, "summary", expected, f"{size:,}", remedy)
    return int(np.clip(NUMBERS // max(size, 1), 256, 4000))


def summarise_draws(draws: Mapping[str, Any], level: float) -> Summary:
    """Summarises draws by name; the first axis of each array is the draw.

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
        names += _entry_names(name, values.shape[1:])
        parts.append(values.reshape(len(values), -1))
    x = np.concatenate(parts, 1)
    low, high = np.quantile(x, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    return Summary(tuple(names), x.mean(0), x.std(0, ddof=1), low, high, level, len(x))


def _entry_names(name: str, shape: tuple[int, ...]) -> list[str]:
    """The names of the entries of an array; the name itself for a number."""
    if not shape:
        return [name]
    return [f"{name}[{', '.join(map(str, i))}]" for i in np.ndindex(shape)]
