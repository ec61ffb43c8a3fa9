"""Arguments of calls in a formula: by name, as numbers, as levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vijax.data.formulas.functions import Reading
from vijax.data.formulas.syntax import Call, Column, Constant, Node, Number, Several, Sign, Text
from vijax.data.schema.labels import Labels, Levels


def read_arguments(node: Call, names: Sequence[str], reading: Reading) -> dict[str, Node]:
    """The arguments of a call by name."""
    expected = f"{node.function}({', '.join(names)})"
    if len(node.arguments) > len(names):
        raise reading.refuse(node, expected, repr(str(node)))
    by_name = dict(zip(names, node.arguments, strict=False))
    for name, value in node.named:
        if name == names[0] and name in ("x", "column"):
            raise reading.refuse(node, expected, str(node), "Give the column first.")
        if name not in names or name in by_name:
            raise reading.refuse(value, expected, f"{name}={value}")
        by_name[name] = value
    if names and names[0] not in by_name and names[0] in ("x", "column"):
        raise reading.refuse(node, expected, repr(str(node)))
    return by_name


def only_argument(node: Call, reading: Reading) -> Node:
    """The argument of a call that has one."""
    return read_arguments(node, ("x",), reading)["x"]


def read_number(node: Node, reading: Reading) -> float:
    """A finite number, with or without a minus."""
    sign = -1.0 if isinstance(node, Sign) else 1.0
    inner = node.inner if isinstance(node, Sign) else node
    if not isinstance(inner, Number) or not np.isfinite(float(inner.text)):
        raise reading.refuse(node, "a number", repr(str(node)))
    return sign * float(inner.text)


def read_whole(node: Node, least: int, most: int, reading: Reading) -> int:
    """A whole number within limits."""
    value = read_number(node, reading)
    if not value.is_integer() or not least <= value <= most:
        raise reading.refuse(node, f"a whole number from {least} to {most:,}", repr(str(node)))
    return int(value)


def read_truth(node: Node, reading: Reading) -> bool:
    """True or False."""
    if not isinstance(node, Constant) or node.name not in ("True", "False"):
        raise reading.refuse(node, "True or False", repr(str(node)))
    return node.name == "True"


def order_levels(node: Node, labels: Labels, reading: Reading) -> tuple[str, ...]:
    """Levels in the given order, which must be all of them."""
    levels = labels.levels()
    items = node.items if isinstance(node, Several) else (node,)
    codes = [levels.find_code(level_value(item, reading)) for item in items]
    if sorted(codes) != list(range(len(levels.names))):
        expected = f"each level once: {list(levels.names)}"
        raise reading.refuse(node, expected, str(node))
    return tuple(levels.names[code] for code in codes)


def read_level(node: Node, levels: Levels, reading: Reading) -> str:
    """A level that training has."""
    code = levels.find_code(level_value(node, reading))
    if code < 0:
        raise reading.refuse(node, f"one of the levels {list(levels.names[:20])}", str(node))
    return levels.names[code]


def level_value(node: Node, reading: Reading) -> str | float:
    """A level that a formula names: a text, or a number."""
    if isinstance(node, Text):
        return node.text
    if isinstance(node, Number | Sign):
        return read_number(node, reading)
    raise reading.refuse(node, "a level between quotes", repr(str(node)))


def find_level_codes(column: Column, levels: Levels, node: Node, reading: Reading) -> np.ndarray:
    """The place of the level of each row; ValueError for a level that training does not have."""
    labels = reading.column(column).labels()
    codes = levels.find_codes(labels)
    bad = np.flatnonzero(codes < 0)
    if len(bad):
        row = int(bad[0])
        expected = f"levels of {column.name!r} that training has, {list(levels.names[:20])}"
        actual = f"{labels.texts()[row]!r} in {reading.table.row_name(row)} ({len(bad)} such)"
        raise reading.refuse(node, expected, actual)
    return codes
