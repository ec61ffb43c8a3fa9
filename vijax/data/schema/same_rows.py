"""One order of the rows for all arguments of a call, as tables and series of pandas name their
rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vijax.data.schema.number_arrays import require_same_index


def require_one_index(named: Mapping[str, Any], by_place: str = "to_numpy()") -> None:
    """Raises ValueError if two tables or series of pandas have equally many rows with other names,
    or in another order: by place the values of one would go to the rows of others.

    Args:
      named: arguments by name, columns by name within them, in any order. Values without an index
        are ignored.
      by_place: the method that removes the index of an argument.

    >>> import pytest; pandas = pytest.importorskip("pandas")
    >>> turned = {"x": pandas.Series([1, 2], ["a", "b"]), "y": pandas.Series([3, 4], ["b", "a"])}
    >>> require_one_index({"weights": [1.0, 1.0], "table": turned})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    ValueError: table['y']: expected the index of table['x'], in its order, got 'b' where table['x'] has 'a', in row ...
    """
    first_of_size: dict[int, tuple[str, Any]] = {}
    for argument, values in _with_index(named):
        first_argument, first = first_of_size.setdefault(len(values), (argument, values))
        require_same_index(first, argument, values, first_argument, by_place)


def _with_index(named: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Arguments, and columns within them, that name their rows."""
    for argument, values in named.items():
        if isinstance(values, Mapping):
            columns = {f"{argument}[{name!r}]": column for name, column in values.items()}
            yield from _with_index(columns)
        elif isinstance(values, tuple):
            parts = {f"{argument}[{place}]": part for place, part in enumerate(values)}
            yield from _with_index(parts)
        elif hasattr(getattr(values, "index", None), "equals") and hasattr(values, "__len__"):
            yield argument, values
