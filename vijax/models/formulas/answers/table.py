"""Tables of answers: estimates with intervals from draws, under labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.models.formulas.laws.angles import unwrap, wrap_angles
from vijax.numerals import format_number, name_ends

MOST_ROWS = 40
"""Rows of a printed table."""
MOST_DRAWS = 1 << 24
"""Most numbers of draws that a table keeps."""
MOST_PAIRS = 100_000
Kind = Literal["difference", "ratio", "lift", "odds_ratio", "log_ratio", "log_odds_ratio"]


class Comparison(NamedTuple):
    """A comparison of two numbers.

    Attributes:
      compare: (high, low) -> the comparison.
      null: its value where both are equal.
      words: what it is, in the plural.
      sign: the sign between the names of the two.
    """

    compare: Callable[[Any, Any], Any]
    null: float
    words: str
    sign: str


def _odds(x: Any) -> Any:
    return x / (1 - x)


COMPARISONS: dict[str, Comparison] = {
    "difference": Comparison(lambda high, low: high - low, 0.0, "Differences", "-"),
    "ratio": Comparison(lambda high, low: high / low, 1.0, "Ratios", "/"),
    "lift": Comparison(lambda high, low: high / low - 1, 0.0, "Relative differences", "/"),
    "odds_ratio": Comparison(lambda h, low: _odds(h) / _odds(low), 1.0, "Ratios of odds", "/"),
    "log_ratio": Comparison(lambda h, low: np.log(h / low), 0.0, "Logarithms of ratios", "/"),
    "log_odds_ratio": Comparison(
        lambda h, low: np.log(_odds(h) / _odds(low)), 0.0, "Logarithms of ratios of odds", "/"
    ),
}
"""Comparisons by name."""


def find_comparison(kind: str) -> Comparison:
    """A comparison by its name; ValueError for another."""
    require(kind in COMPARISONS, "kind", f"one of {list(COMPARISONS)}", repr(kind))
    return COMPARISONS[kind]


def find_turn(kind: str) -> Comparison:
    """The comparison of two angles: their difference within half a turn."""
    remedy = "Of angles only turns are comparisons."
    require(kind == "difference", "kind", '"difference" of angles', repr(kind), remedy)
    return COMPARISONS["difference"]._replace(compare=lambda high, low: wrap_angles(high - low))


def with_free_names(
    columns: Mapping[str, np.ndarray], taken_names: Iterable[str]
) -> dict[str, np.ndarray]:
    """The columns, with as many underscores behind names as they need to differ from these.

    >>> list(with_free_names({"mean": np.ones(1), "x": np.ones(1)}, ["mean", "sd"]))
    ['mean_', 'x']
    """
    all_names = {*taken_names}
    renamed = {}
    for name, values in columns.items():
        while name in all_names:
            name += "_"
        all_names.add(name)
        renamed[name] = values
    return renamed


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class AnswerTable:
    """Estimates with intervals; it prints as a table.

    Attributes:
      labels: columns that say what each row is, by name, (M,) each.
      mean: posterior means.
      sd: posterior standard deviations.
      low: lower ends of the central intervals.
      median: posterior medians.
      high: upper ends of the central intervals.
      null: the value of no difference; None for estimates that are no comparisons.
      above: the posterior probability of more than `null`; None without it.
      level: probability of the intervals.
      num_draws: number of draws of the posterior.
      notes: what the numbers are, and how effects of groups enter.
      draws: the draws, (S, M); None where they would have more than 16 million numbers.
      is_circular: True for angles, whose draws are those within pi of their mean direction.
      is_by_category: True for a row for each category of the response, whose label is "category".
    """

    labels: dict[str, np.ndarray]
    mean: Float[np.ndarray, " M"]
    sd: Float[np.ndarray, " M"]
    low: Float[np.ndarray, " M"]
    median: Float[np.ndarray, " M"]
    high: Float[np.ndarray, " M"]
    null: float | None
    above: Float[np.ndarray, " M"] | None
    level: float
    num_draws: int
    notes: tuple[str, ...] = ()
    draws: Float[np.ndarray, "S M"] | None = None
    is_circular: bool = False
    is_by_category: bool = False

    def __len__(self) -> int:
        return len(self.mean)

    def columns(self) -> dict[str, np.ndarray]:
        """The columns of the table by name, labels first. A label with the name of a number, as the
        column "mean" of the user's table, gets an underscore."""
        low, high = name_ends(self.level)
        numbers = {"mean": self.mean, "sd": self.sd, low: self.low, "50 %": self.median}
        numbers[high] = self.high
        if self.above is not None:
            numbers[f"P(> {self.null:g})"] = self.above
        return {**with_free_names(self.labels, numbers), **numbers}

    def to_frame(self) -> Any:
        """Returns a `pandas.DataFrame`; ImportError without pandas."""
        from vijax.extras import require_extra

        return require_extra("pandas").DataFrame(self.columns())

    def pairwise(
        self, kind: Kind = "difference", *, by: str | Sequence[str] = (), base: Any = None
    ) -> AnswerTable:
        """Contrasts of all pairs of rows: the later against the earlier one.

        Args:
          kind: "difference", "ratio", "lift" (a ratio less one), "odds_ratio", "log_ratio" or
            "log_odds_ratio".
          by: labels within whose values pairs are made; categories of the response are among them.
          base: a value of the first label that is left: pairs with this row alone.

        Raises:
          ValueError: labels that the table does not have, or no draws.
        """
        comparison = find_comparison(kind)
        if self.is_circular:
            comparison = find_turn(kind)
        require(self.draws is not None, "table", "one with draws", f"{len(self):,} rows without")
        by = names_of_labels(by)
        within = list(by)
        if self.is_by_category and "category" not in by:
            within.append("category")
        unknown = [name for name in by if name not in self.labels]
        require(not unknown, "by", f"labels of the table, of {list(self.labels)}", unknown)
        free = [name for name in self.labels if name not in within]
        require(bool(free), "by", "labels that leave one to compare", list(self.labels))
        pairs = self._pairs(within, free, base)
        low, high = (np.array([pair[side] for pair in pairs], int) for side in (0, 1))
        names = [
            " ".join(label_text(self.labels[name][i]) for name in free) for i in range(len(self))
        ]
        contrasts = [f"{names[j]} {comparison.sign} {names[i]}" for i, j in pairs]
        labels = {"contrast": np.array(contrasts, object)}
        own_labels = {name: self.labels[name][low] for name in within}
        labels |= with_free_names(own_labels, labels)
        assert self.draws is not None
        values = comparison.compare(self.draws[:, high], self.draws[:, low])
        notes = (f"{comparison.words} between rows.", *self.notes)
        pairs_table = summarise(
            labels, values, self.level, comparison.null, notes, is_circular=self.is_circular
        )
        return dataclasses.replace(pairs_table, is_by_category=self.is_by_category)

    def _pairs(
        self, within: Sequence[str], free: Sequence[str], base: Any
    ) -> list[tuple[int, int]]:
        cells: dict[tuple[Any, ...], list[int]] = {}
        for i in range(len(self)):
            cells.setdefault(tuple(self.labels[name][i] for name in within), []).append(i)
        is_base = np.array([_are_same(value, base) for value in self.labels[free[0]]], bool)
        if base is not None:
            values = list(dict.fromkeys(map(label_text, self.labels[free[0]])))
            require(is_base.any(), "base", f"a value of {free[0]!r}, of {values}", repr(base))
            pairs = [(i, j) for rows in cells.values() for i in rows for j in rows if is_base[i]]
            return [(i, j) for i, j in pairs if not is_base[j]]
        pairs = [(i, j) for rows in cells.values() for i in rows for j in rows if i < j]
        remedy = "Pass by= or base=."
        require(
            len(pairs) <= MOST_PAIRS, "table", f"at most {MOST_PAIRS:,} pairs", len(pairs), remedy
        )
        return pairs

    def __repr__(self) -> str:
        rows = [["", *map(str, self.columns())], *self._cells()]
        rows = [row[1:] for row in rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        num_labels = len(self.labels)
        lines = []
        for row in rows:
            texts = map(str.ljust, row[:num_labels], widths)
            numbers = map(str.rjust, row[num_labels:], widths[num_labels:])
            lines.append("  ".join([*texts, *numbers]).rstrip())
        num_omitted = len(self) - (len(rows) - 1)
        if num_omitted > 0:
            lines.append(f"... and {num_omitted:,} more rows: to_frame() has all of them")
        error = f"means are known to {self.num_draws**-0.5:.2g} of their sds"
        return "\n".join([*lines, *self.notes, f"By {self.num_draws:,} draws of q: {error}."])

    def _cells(self) -> Iterator[list[str]]:
        """The cells of the printed rows, behind an empty one."""
        half = 0.5 * (self.high - self.low)
        spreads = np.where((half > 0) & (half < self.sd), half, self.sd)
        columns = self.columns()
        for i in range(min(len(self), MOST_ROWS)):
            cells = [label_text(x[i]) for x in self.labels.values()]
            for name, x in list(columns.items())[len(cells) :]:
                if name.startswith("P("):
                    cells.append(f"{x[i]:.3f}")
                else:
                    cells.append(format_number(float(x[i]), float(spreads[i])))
            yield ["", *cells]


def _are_same(value: Any, base: Any) -> bool:
    """True for one label: 1.0 is 1, and a level is its text."""
    return bool(value == base) or str(value) == str(base)


def label_text(value: Any) -> str:
    """A label as text; numbers with four digits.

    >>> label_text(0.333333), label_text("b"), label_text(2010.0)
    ('0.3333', 'b', '2010')
    """
    if isinstance(value, float | np.floating):
        return format_number(float(value))
    return str(value)


def names_of_labels(names: str | Sequence[str] | None) -> list[str]:
    """One name or several as a list."""
    if names is None:
        return []
    if isinstance(names, str):
        return [names]
    return list(names)


def summarise(
    labels: Mapping[str, np.ndarray],
    draws: Float[np.ndarray, "S M"],
    level: float,
    null: float | None = None,
    notes: Sequence[str] = (),
    *,
    is_circular: bool = False,
) -> AnswerTable:
    """The table of draws; of angles those within pi of the mean direction.

    >>> draws = np.arange(6.0).reshape(3, 2)
    >>> print(summarise({"h": np.array(["a", "b"])}, draws, 0.5, 0.0, ["Two rows."]))
    h  mean  sd  25 %  50 %  75 %  P(> 0)
    a     2   2     1     2     3   0.667
    b     3   2     2     3     4   1.000
    Two rows.
    By 3 draws of q: means are known to 0.58 of their sds.
    """
    require(0 < level < 1, "level", "a probability between 0 and 1", level)
    draws = np.asarray(draws, float)
    if is_circular:
        (draws,) = unwrap(draws)
    ends = [0.5 - 0.5 * level, 0.5, 0.5 + 0.5 * level]
    with np.errstate(invalid="ignore"):
        low, median, high = np.quantile(draws, ends, axis=0)
        mean, sd = draws.mean(0), draws.std(0, ddof=min(1, len(draws) - 1))
    if is_circular:
        mean = wrap_angles(mean)
    above = None
    if null is not None:
        above = (draws > null).mean(0)
    kept_draws = None
    if draws.size <= MOST_DRAWS:
        kept_draws = draws
    return AnswerTable(
        labels=dict(labels),
        mean=mean,
        sd=sd,
        low=low,
        median=median,
        high=high,
        null=null,
        above=above,
        level=level,
        num_draws=len(draws),
        notes=tuple(notes),
        draws=kept_draws,
        is_circular=is_circular,
    )


def join(tables: Sequence[AnswerTable], notes: Sequence[str] = ()) -> AnswerTable:
    """Tables with the same labels, one below the other."""
    first = tables[0]
    stack = lambda name: np.concatenate([getattr(table, name) for table in tables])
    draws = above = None
    if sum(len(table) for table in tables) * first.num_draws <= MOST_DRAWS:
        draws = np.concatenate([table.draws for table in tables if table.draws is not None], 1)
    if first.null is not None:
        above = stack("above")
    labels = {
        name: np.concatenate([np.asarray(table.labels[name]) for table in tables])
        for name in first.labels
    }
    return AnswerTable(
        labels=labels,
        mean=stack("mean"),
        sd=stack("sd"),
        low=stack("low"),
        median=stack("median"),
        high=stack("high"),
        null=first.null,
        above=above,
        level=first.level,
        num_draws=first.num_draws,
        notes=tuple(notes),
        draws=draws,
        is_circular=first.is_circular,
        is_by_category=first.is_by_category,
    )
