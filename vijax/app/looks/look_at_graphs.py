"""A look at a graph: which columns of an edge list are its ends."""

from __future__ import annotations

from typing import Any

from vijax.app.looks.look import Look
from vijax.app.looks.look_at_tables import MOST_LISTED, columns_at
from vijax.app.settings.typed_toml import ConfigError


def look_at_graph(data: str, listing: Any, begun: Any) -> Look:
    """The columns of an edge list; a square matrix has none to name."""
    found = columns_at(data)
    facts = [f"{found[0].number:,} rows; columns:", *(f"  {column}" for column in found[:MOST_LISTED])]
    numbers = [column for column in found if column.values is not None]
    if len(numbers) == found[0].number or {"source", "target"} <= {column.name for column in found}:
        return Look(facts, {})
    ends = [c for c in found if c.values is None or c.counts][:2]
    if len(ends) < 2:
        raise ConfigError(f"{data}: neither an edge list nor a square matrix: {'; '.join(map(str, found))}")
    settings = {"data.source": ends[0].name, "data.target": ends[1].name}
    weights = [c.name for c in numbers if c not in ends]
    settings |= {"data.weight": weights[0]} if weights else {}
    return Look(facts, settings, {"data.source": "The first two columns that can be names of nodes."})
