"""The parts of a formula. Equal parts have equal texts, and different parts have different ones."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from vijax.data.formulas.tokens import quote_name

Span = tuple[int, int]
"""The places of the first letter of a part, and after the last."""
NO_SPAN: Span = (0, 0)


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of the table."""

    name: str
    span: Span = dataclasses.field(default=NO_SPAN, compare=False)

    def __str__(self) -> str:
        return quote_name(self.name)


@dataclasses.dataclass(frozen=True)
class Number:
    """A number."""

    text: str
    span: Span = dataclasses.field(default=NO_SPAN, compare=False)

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Constant:
    """A number with a name, such as np.pi."""

    name: str
    span: Span = dataclasses.field(default=NO_SPAN, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class Text:
    """A text between quotes."""

    text: str
    span: Span = dataclasses.field(default=NO_SPAN, compare=False)

    def __str__(self) -> str:
        return repr(self.text)


@dataclasses.dataclass(frozen=True)
class Several:
    """Numbers or texts between brackets."""

    items: tuple[Node, ...]
    span: Span = dataclasses.field(default=NO_SPAN, compare=False)

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclasses.dataclass(frozen=True)
class Sign:
    """A part with a minus before it."""

    inner: Node
    span: Span = dataclasses.field(default=NO_SPAN, compare=False)

    def __str__(self) -> str:
        return f"-{_parenthesise(self.inner, 3)}"


@dataclasses.dataclass(frozen=True)
class Operation:
    """Two parts and an operator between them: terms or, inside calls, numbers."""

    operator: str
    left: Node
    right: Node
    span: Span = dataclasses.field(default=NO_SPAN, compare=False)

    def __str__(self) -> str:
        rank = RANKS[self.operator]
        # The right side of - and / needs its parentheses; powers bind to the right.
        left = _parenthesise(self.left, rank + (self.operator == "**"))
        right = _parenthesise(self.right, rank + (self.operator != "**"))
        return f"{left} {self.operator} {right}"


@dataclasses.dataclass(frozen=True)
class Call:
    """A listed function, or a user's own, with its arguments. `log` and `np.log` are one function
    in two spellings."""

    function: str
    arguments: tuple[Node, ...]
    named: tuple[tuple[str, Node], ...] = ()
    span: Span = dataclasses.field(default=NO_SPAN, compare=False)
    spelt: str = dataclasses.field(default="", compare=False)

    def __str__(self) -> str:
        named = [f"{name}={value}" for name, value in self.named]
        arguments = ", ".join([*map(str, self.arguments), *named])
        return f"{self.spelt or self.function}({arguments})"


Node = Column | Number | Constant | Text | Several | Sign | Operation | Call
RANKS = {
    "<": 0,
    ">": 0,
    "<=": 0,
    ">=": 0,
    "==": 0,
    "!=": 0,
    "+": 1,
    "-": 1,
    "*": 2,
    "/": 2,
    "//": 2,
    "%": 2,
    ":": 3,
    "**": 4,
}
"""The ranks of operators: a higher one binds more closely."""


def _parenthesise(node: Node, rank: int) -> str:
    """The text of a part beside an operator, in parentheses if it needs them."""
    own_rank = 5
    if isinstance(node, Operation):
        own_rank = RANKS[node.operator]
    elif isinstance(node, Sign):
        own_rank = 3
    return f"({node})" if own_rank < rank else str(node)


class Bar(NamedTuple):
    """A term of group effects.

    Attributes:
      terms: the part to the left of the bar.
      columns: the columns whose values, together, name a group.
      correlated: False for `||`.
      span: its place.
    """

    terms: Node
    columns: tuple[str, ...]
    correlated: bool
    span: Span

    @property
    def factor(self) -> str:
        """The name of the factor, "g" or "g:h".

        >>> Bar(Number("1"), ("g", "h"), True, (0, 0)).factor, Bar(Number("1"), ("g:h",), True, (0, 0)).factor
        ('g:h', '`g:h`')
        """
        return ":".join(map(quote_name, self.columns))


@dataclasses.dataclass(frozen=True)
class Formula:
    """A parsed formula.

    Attributes:
      text: the text of the formula.
      argument: its name in messages.
      response: the part to the left of ~; None without one.
      addends: signs and terms outside bars.
      bars: the terms of group effects.
    """

    text: str
    argument: str
    response: Node | None
    addends: tuple[tuple[str, Node], ...]
    bars: tuple[Bar, ...]
