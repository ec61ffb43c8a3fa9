"""A formula as its parts, by a closed grammar.

    formula:  [response] ~ terms
    terms:    [+ | -] product { (+ | -) product }
    product:  cell { (* | /) cell }            a * b is a + b + a:b, a / b is a + a:b
    cell:     power { : power }
    power:    term [ ** number ]               (a + b) ** 2 has all pairs
    term:     column | 0 | 1 | function(...) | {numbers} | (terms) | (terms | groups)
    groups:   column { (: | /) column }
    numbers:  arithmetic on columns, with the listed functions

A text that does not follow it is an error with a mark under its place. Nothing is ignored, and
nothing is evaluated here."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection
from typing import Any

from vijax.data.formulas.functions import (
    CLASS_COUNTS,
    COLUMN_MAKERS,
    COMPARISONS,
    PARTLY_KNOWN,
    RESPONSES,
    SMOOTHS,
    SPELLINGS,
    listed_functions,
)
from vijax.data.formulas.syntax import (
    Bar,
    Call,
    Column,
    Constant,
    Formula,
    Node,
    Number,
    Operation,
    Several,
    Sign,
    Span,
    Text,
)
from vijax.data.formulas.tokens import LISTED, QUOTES, WORDS, Token, read_tokens, refuse

MOST_DEEP = 40
"""The most parentheses within each other."""
MOST_CHAINED = 200
"""The most operators in a row, if their parts are nested."""
OPENING, CLOSING = "([{", ")]}"
LOGIC = {
    "and": "Write a product: (x > 1) * (x < 3).",
    "or": "Write 1 - (x <= 1) * (x >= 3) for either of two.",
    "if": "Write a product: (x > 1) * x.",
    "in": "Write (h == 'a') + (h == 'b').",
}
"""The remedies for words of logic."""
BRMS = {
    "trials": "Write p(k, n) ~ terms, of k successes among n trials.",
    "se": "Write se(y, s) ~ terms, or se(y, s, sigma=True) ~ terms.",
    "cens": "Write censored(y, status) ~ terms.",
    "trunc": "Write truncated(y, lb=0, ub=10) ~ terms.",
    "weights": 'Write y ~ terms, and weights="w": a row of weight 2 counts as two rows.',
}
"""The remedies for what brms has behind a bar at the response."""
BAR = "Write bars in parentheses: y ~ x + (x | g), or (x || g) where they are independent."


def parse(text: str, argument: str = "formula", functions: Collection[str] = ()) -> Formula:
    """A formula as its parts.

    Args:
      text: the formula.
      argument: its name in messages.
      functions: names of the user's own functions.

    Raises:
      ValueError: a part outside the grammar; the message marks it.

    >>> formula = parse("log(y) ~ x * h + (x || g/h)")
    >>> str(formula.response), [str(term) for _, term in formula.addends]
    ('log(y)', ['x * h'])
    >>> [(bar.factor, bar.correlated) for bar in formula.bars]
    [('g', False), ('g:h', False)]
    """
    return _Reader(text, argument, functions).formula()


class _Reader:
    """A place in the words of a formula; each method reads one part and moves the place."""

    def __init__(self, text: str, argument: str, functions: Collection[str]):
        self.text = unicodedata.normalize("NFC", text)  # as names of columns are
        self.argument = argument
        self.functions = functions
        self.tokens = read_tokens(self.text, argument)
        self.place = 0
        self.depth = 0

    # --- words ------------------------------------------------------------------------------------
    @property
    def token(self) -> Token:
        """The word at the place."""
        return self.tokens[self.place]

    def next(self) -> Token:
        """The word at the place; moves the place on."""
        token = self.token
        self.place += token.kind != "end"
        return token

    def is_next(self, *operators: str) -> bool:
        """True if one of these operators is at the place."""
        return self.token.kind == "operator" and self.token.text in operators

    def take(self, operator: str, after: str) -> Token:
        """Moves past an operator; raises an error at another word."""
        if not self.is_next(operator):
            raise self.refuse_token(f"{operator!r} {after}")
        return self.next()

    def refuse(self, span: Span, expected: str, got: str, remedy: str = "") -> ValueError:
        """The error to raise for a part."""
        return refuse(self.argument, self.text, span, expected, got, remedy)

    def refuse_token(self, expected: str, remedy: str = LISTED) -> ValueError:
        """The error to raise for the word at the place."""
        token = self.token
        actual = repr(self.text[token.start : token.end])
        if token.kind == "end":
            actual = "the end of the formula"
        return self.refuse((token.start, token.end), expected, actual, remedy)

    def deeper(self, read: Callable[[], Any]) -> Any:
        """Reads the part between parentheses."""
        self.depth += 1
        if self.depth > MOST_DEEP:
            raise self.refuse_token(f"at most {MOST_DEEP} parentheses within each other", "")
        part = read()
        self.depth -= 1
        return part

    # --- the whole --------------------------------------------------------------------------------
    def formula(self) -> Formula:
        """The whole formula."""
        response = None
        if not self.is_next("~"):
            response = self.comparison()
        if not self.is_next("~"):
            remedy = LISTED
            if self.token.kind == "end":
                remedy = "Write response ~ terms."
            elif self.is_next("|"):
                remedy = self.other_spelling(self.tokens[self.place + 1].text)
            raise self.refuse_token("response ~ terms", remedy)
        self.next()
        addends, bars = self.addends_and_bars()
        if self.token.kind != "end":
            raise self.refuse_token("an operator between terms", self.missing_operator_remedy())
        return Formula(self.text, self.argument, response, addends, bars)

    def other_spelling(self, function: str) -> str:
        """The remedy for a response of brms, as y | trials(n)."""
        return BRMS.get(function, LISTED)

    def missing_operator_remedy(self) -> str:
        """The remedy for two terms side by side."""
        if self.is_next("|", "||"):
            return BAR
        if self.is_next("==", "!=", "<", ">", "<=", ">=", "%", "//"):
            return f"Write arithmetic and comparisons inside of I(...). {LISTED}"
        if self.token.kind in ("name", "number"):
            return f"Write + before it, for one term more. {LISTED} {QUOTES}"
        return LISTED

    def addends_and_bars(self) -> tuple[tuple[tuple[str, Node], ...], tuple[Bar, ...]]:
        """The terms to the right of ~, and the group effects among them."""
        addends: list[tuple[str, Node]] = []
        bars: list[Bar] = []
        sign = self.next().text if self.is_next("+", "-") else "+"
        while True:
            start = self.token.start
            if self.is_bar():
                new_bars = self.bar()
                if sign == "-":
                    span = (start, new_bars[-1].span[1])
                    expected = "group effects that are added"
                    raise self.refuse(span, expected, "a minus before them")
                bars += new_bars
            else:
                addends.append((sign, self.product()))
            if not self.is_next("+", "-"):
                return tuple(addends), tuple(bars)
            sign = self.next().text

    # --- terms ------------------------------------------------------------------------------------
    def sum(self) -> Node:
        """Terms with signs."""
        if self.is_next("+", "-"):
            sign = self.next()
            first = self.product()
            # A minus at the beginning removes from the intercept, which is implied.
            left: Node = first if sign.text == "+" else Sign(first, (sign.start, first.span[1]))
        else:
            left = self.product()
        return self.left_to_right(("+", "-"), self.product, left)

    def product(self) -> Node:
        """Terms with * and /."""
        return self.left_to_right(("*", "/"), self.cell)

    def cell(self) -> Node:
        """Terms with colons."""
        return self.left_to_right((":",), self.power)

    def left_to_right(
        self, operators: tuple[str, ...], part: Callable[[], Node], left: Node | None = None
    ) -> Node:
        """Parts with operators between, from left to right."""
        if left is None:
            left = part()
        number = 0
        while self.is_next(*operators):
            number += 1
            if number > MOST_CHAINED:
                expected = f"at most {MOST_CHAINED} operators in a row within parentheses"
                raise self.refuse_token(expected, "")
            operator = self.next().text
            right = part()
            left = Operation(operator, left, right, (left.span[0], right.span[1]))
        return left

    def power(self) -> Node:
        """A term, or a term to a power."""
        base = self.term()
        if not self.is_next("**", "^"):
            return base
        self.next()
        token = self.token
        if token.kind != "number" or not token.text.isdigit() or not 1 <= int(token.text) <= 9:
            expected = "a whole number from 1 to 9 after **, the order of interactions"
            raise self.refuse_token(expected)
        self.next()
        span = (base.span[0], token.end)
        if isinstance(base, Column | Call | Number):
            remedy = f"Write I({base}**{token.text}) for a power, (a + b)**2 for interactions."
            actual = repr(f"{base}**{token.text}")
            raise self.refuse(span, "a sum of terms before **", actual, remedy)
        return Operation("**", base, Number(token.text, (token.start, token.end)), span)

    def term(self) -> Node:
        """A single term."""
        token = self.token
        if token.kind == "number":
            if token.text not in ("0", "1"):
                expected = "0 or 1, for no intercept or one, as the only numbers among terms"
                raise self.refuse_token(expected, f"Write I(...) around arithmetic. {LISTED}")
            return Number(token.text, self.span(self.next()))
        if self.is_next("{"):
            return self.braces()
        if self.is_next("("):
            return self.parentheses()
        if token.kind == "name":
            return self.name(as_term=True)
        raise self.refuse_token("a term")

    def span(self, token: Token) -> Span:
        """The place of a word."""
        return token.start, token.end

    def braces(self) -> Node:
        """Arithmetic between braces."""
        start = self.next().start
        inner = self.deeper(self.comparison)
        end = self.take("}", "after arithmetic").end
        return Call("I", (inner,), (), (start, end))

    def parentheses(self) -> Node:
        """Terms between parentheses."""
        start = self.next().start
        if self.has_bar():
            expected = "group effects as terms of their own, added to the others"
            raise self.refuse((start, start + 1), expected, "others", BAR)
        inner = self.deeper(self.sum)
        if self.is_next("|", "||"):
            raise self.refuse_token("group effects as terms of their own, added to the others", BAR)
        self.take(")", "after terms")
        return inner

    # --- group effects ----------------------------------------------------------------------------
    def is_bar(self) -> bool:
        """True if group effects begin at the place."""
        return self.is_next("(") and self.has_bar(self.place + 1)

    def has_bar(self, place: int | None = None) -> bool:
        """True if the parentheses that begin before a place have a bar of their own."""
        return self.has_operator(("|", "||"), self.place if place is None else place)

    def has_operator(self, operators: tuple[str, ...], place: int) -> bool:
        """True if the brackets that begin before a place have one of these operators, outside inner
        brackets."""
        depth = 0
        for token in self.tokens[place:]:
            if token.kind != "operator":
                continue
            if token.text in OPENING:
                depth += 1
            elif token.text in CLOSING:
                depth -= 1
                if depth < 0:
                    return False
            elif token.text in operators and depth == 0:
                return True
        return False

    def bar(self) -> list[Bar]:
        """Group effects: one for each level of nesting."""
        start = self.next().start
        if self.is_next("|", "||"):
            raise self.refuse_token("an effect to the left of the bar", BAR)
        terms = self.deeper(self.sum)
        bar = self.token
        if not self.is_next("|", "||"):
            raise self.refuse_token("an operator between terms", self.missing_operator_remedy())
        self.next()
        nested = self.groups()
        if self.is_next("|", "||"):
            raise self.refuse_token("one bar in each term of group effects", BAR)
        if not self.is_next(")"):
            remedy = "Groups are named by columns: (x | g), (x | g:h), (x | g/h)."
            raise self.refuse_token("')' after the groups", remedy)
        span = (start, self.next().end)
        levels: list[tuple[str, ...]] = []
        above: tuple[str, ...] = ()
        for columns in nested:
            above = (*above, *columns)
            levels.append(tuple(dict.fromkeys(above)))
        return [Bar(terms, columns, bar.text == "|", span) for columns in levels]

    def groups(self) -> list[tuple[str, ...]]:
        """Columns that name groups, at each level of nesting."""
        nested = [self.interaction()]
        while self.is_next("/"):
            self.next()
            nested.append(self.interaction())
        return nested

    def interaction(self) -> tuple[str, ...]:
        """Columns with colons between."""
        columns = [self.group_column()]
        while self.is_next(":"):
            self.next()
            columns.append(self.group_column())
        return tuple(columns)

    def group_column(self) -> str:
        """A column that names groups."""
        if self.token.kind != "name":
            raise self.refuse_token("a column whose values name the groups", BAR)
        return self.next().text

    # --- calls and columns ------------------------------------------------------------------------
    def name(self, as_term: bool) -> Node:
        """A column, a call, or a level of a column."""
        token = self.next()
        if token.quoted:
            return self.column_or_level(Column(token.text, self.span(token)))
        if self.is_next("("):
            return self.call(token, as_term)
        if token.text in WORDS and not as_term:
            return Constant(token.text, self.span(token))
        return self.column_or_level(Column(token.text, self.span(token)))

    def column_or_level(self, column: Column) -> Node:
        """A column, or `column['level']`, for a response: 1 where the column has the level."""
        if not self.is_next("["):
            return column
        self.next()
        token = self.token
        if token.kind not in ("name", "number", "text"):
            raise self.refuse_token(f"a level of {column.name} between brackets")
        level = Text(self.next().text, self.span(token))
        end = self.take("]", "after the level").end
        return Call("[]", (column, level), (), (column.span[0], end))

    def call(self, token: Token, as_term: bool) -> Node:
        """A call of a listed function."""
        function = self.function(token)
        name_span = self.span(token)
        if not as_term and function in COLUMN_MAKERS:
            expected = "functions of numbers inside of arithmetic"
            remedy = f"Write {token.text}(...) as a term of its own."
            raise self.refuse(name_span, expected, repr(token.text), remedy)
        self.next()
        arguments: list[Node] = []
        named: list[tuple[str, Node]] = []
        while not self.is_next(")"):
            if arguments or named:
                self.comma_between_arguments()
            if self.is_named():
                key = self.next().text
                self.next()
                is_column = key == "by" and function in SMOOTHS and self.token.kind == "name"
                read = self.argument_value
                if is_column:
                    read = lambda: self.name(as_term=True)
                named.append((key, read()))
            elif named:
                raise self.refuse_token("arguments with a name last")
            else:
                arguments.append(self.argument_value())
        span = (token.start, self.next().end)
        if len({key for key, _ in named}) < len(named):
            raise self.refuse(span, "each argument once", repr(self.text[span[0] : span[1]]))
        name = SPELLINGS.get(function, function)
        return Call(name, tuple(arguments), tuple(named), span, function)

    def comma_between_arguments(self) -> None:
        """Moves past a comma; raises an error at another word, with a spelling that can be read."""
        if not self.is_next(","):
            token = self.token
            remedy = LISTED
            if token.kind == "name" and not token.quoted and token.text in LOGIC:
                remedy = LOGIC[token.text]
            if self.is_next(*COMPARISONS):
                remedy = (
                    "One comparison stands alone: write (x > 1) * (x < 3), and the column first: "
                    "h == 'a'."
                )
            raise self.refuse_token("',' between arguments", remedy)
        self.next()

    def function(self, token: Token) -> str:
        """The function of a name, in its spelling; for another name an error that lists all
        functions."""
        if (
            token.text in self.functions
            or token.text in SPELLINGS
            or token.text in COLUMN_MAKERS
            or token.text in (*RESPONSES, CLASS_COUNTS)
            or token.text in PARTLY_KNOWN
        ):
            return token.text
        if token.text == "cbind":
            remedy = "Write p(k, n), with n trials of which k are successes; n may be a column."
            raise self.refuse(self.span(token), "a listed function", repr(token.text), remedy)
        remedy = (
            f"Functions are {listed_functions()}. Your own: vijax.glmm(..., functions={{'f': "
            f"f}}), in Python alone. Nothing else is ever called."
        )
        raise self.refuse(self.span(token), "a listed function", repr(token.text), remedy)

    def is_named(self) -> bool:
        """True if a named argument begins at the place."""
        following = self.token
        if self.place + 1 < len(self.tokens):
            following = self.tokens[self.place + 1]
        is_name = self.token.kind == "name" and not self.token.quoted
        return is_name and following.kind == "operator" and following.text == "="

    def argument_value(self) -> Node:
        """An argument: arithmetic, a text, a list of numbers or texts, True or False, or the name
        of a contrast."""
        token = self.token
        if token.kind == "text":
            return Text(self.next().text, self.span(token))
        is_list = self.is_next("(") and self.has_operator((",",), self.place + 1)
        if self.is_next("[") or is_list:
            return self.several("]" if self.is_next("[") else ")")
        if token.kind == "end":
            raise self.refuse_token("an argument, and ')' after the last one")
        return self.deeper(self.comparison)

    def several(self, closing: str) -> Node:
        """A list of numbers or texts."""
        start = self.next().start
        items: list[Node] = []
        while not self.is_next(closing):
            if items:
                self.take(",", "between the items of a list")
                if self.is_next(closing):
                    break
            items.append(self.argument_value())
        return Several(tuple(items), (start, self.next().end))

    # --- arithmetic -------------------------------------------------------------------------------
    def comparison(self) -> Node:
        """Arithmetic, or a comparison of two sides."""
        left = self.arithmetic()
        if not self.is_next(*COMPARISONS):
            return left
        operator = self.next().text
        token = self.token
        is_text = token.kind == "text"
        right = Text(self.next().text, self.span(token)) if is_text else self.arithmetic()
        return Operation(operator, left, right, (left.span[0], right.span[1]))

    def arithmetic(self) -> Node:
        """Numbers with + and -."""
        return self.left_to_right(("+", "-"), self.factors)

    def factors(self) -> Node:
        """Numbers with *, /, // and %."""
        return self.left_to_right(("*", "/", "//", "%"), self.unary)

    def unary(self) -> Node:
        """A number with a sign."""
        if not self.is_next("+", "-"):
            return self.arithmetic_power()
        token = self.next()
        inner = self.deeper(self.unary)
        if token.text == "+":
            return inner
        return Sign(inner, (token.start, inner.span[1]))

    def arithmetic_power(self) -> Node:
        """A number, or a number to a power."""
        base = self.operand()
        if not self.is_next("**", "^"):
            return base
        self.next()
        exponent = self.deeper(self.unary)
        return Operation("**", base, exponent, (base.span[0], exponent.span[1]))

    def operand(self) -> Node:
        """A number, a column or a function."""
        token = self.token
        if token.kind == "number":
            return Number(token.text, self.span(self.next()))
        if token.kind == "name":
            return self.name(as_term=False)
        if self.is_next("{"):
            return self.braces()
        if self.is_next("("):
            self.next()
            inner = self.deeper(self.comparison)
            self.take(")", "after arithmetic")
            return inner
        raise self.refuse_token("a column, a number or a function")
