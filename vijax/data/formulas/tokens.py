"""The words of a formula, each with its place; and errors with a mark under a place."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Literal, NamedTuple

from vijax.checks import require

TokenKind = Literal["name", "number", "text", "operator", "end"]
MOST_LETTERS = 20_000
"""The most letters of a formula."""
OPERATORS = ("||", "**", "//", "<=", ">=", "==", "!=", *"~+-*/:|()[]{},=^%<>")
QUOTES = "A name that is no word of letters, digits, _ and . stands between backquotes: `a b`."
LISTED = (
    "Columns, 0 and 1, + - * / : **, (x | g), I(...) or {...} with arithmetic, and listed "
    "functions are read."
)
WORDS = ("True", "False", "None", "np.pi", "np.e", "pi")
"""Names of values in arithmetic: a column of this name needs backquotes there."""
PARAMETERS = ("Intercept", "sigma", "nu", "alpha", "kappa", "lam", "psi", "threshold")
"""Names that regressions use for other quantities: the coefficient of a column of this name is
called `sigma`."""
NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
"""A name, without the marks that letters of some scripts carry (`_end_of_name`)."""
REST_OF_NAME = re.compile(r"\w*(?:\.\w+)*")


class Token(NamedTuple):
    """A word of a formula.

    Attributes:
      kind: its kind.
      text: its content: a name without its backquotes, a text without its quotes.
      start: the place of its first letter.
      end: the place after its last letter.
      quoted: True for a name between backquotes, which is always a column.
    """

    kind: TokenKind
    text: str
    start: int
    end: int
    quoted: bool = False


class FormulaError(ValueError):
    """A part of a formula that cannot be read.

    Attributes:
      said: the message in one line.
      marked: the formula, and below it a mark under the place, in two lines.
    """

    def __init__(self, said: str, marked: str):
        super().__init__(f"{said}\n{marked}")
        self.said = said
        self.marked = marked

    def __reduce__(self) -> Any:
        return type(self), (self.said, self.marked)


def refuse(
    argument: str, text: str, span: tuple[int, int], expected: str, got: str, remedy: str = ""
) -> FormulaError:
    """The error to raise for a part of a formula: it names the part, and marks its place.

    >>> print(refuse("formula", "y ~ x g", (6, 7), "an operator between terms", "'g'", "Write x + g."))
    formula: expected an operator between terms, got 'g'. Write x + g.
        y ~ x g
              ^
    """
    start, end = span
    # Only the part around the place is shown of a long formula.
    first = max(0, start - 60)
    excerpt = re.sub(r"\s", " ", text[first : end + 60])
    before = "..." * (first > 0)
    after = "..." * (end + 60 < len(text))
    mark = " " * (len(before) + start - first) + "^" * max(1, min(end - start, 60))
    after_dot = f" {remedy}" if remedy else ""
    message = f"{argument}: expected {expected}, got {got}.{after_dot}"
    return FormulaError(message, f"    {before}{excerpt}{after}\n    {mark}")


def read_tokens(text: str, argument: str = "formula") -> list[Token]:
    """The words of a formula, and a last one for its end.

    Raises:
      ValueError: a letter that no formula has, or an unclosed quote.

    >>> [token.text for token in read_tokens("y ~ np.log(`a b`)")]
    ['y', '~', 'np.log', '(', 'a b', ')', '']
    """
    expected = f"at most {MOST_LETTERS:,} letters"
    require(len(text) <= MOST_LETTERS, argument, expected, f"{len(text):,}")
    tokens: list[Token] = []
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        token = _read_token(text, place, argument)
        tokens.append(token)
        place = token.end
    return [*tokens, Token("end", "", len(text), len(text))]


def _read_token(text: str, place: int, argument: str) -> Token:
    letter = text[place]
    if letter == "`":
        return _quoted_name(text, place, argument)
    if letter in "\"'":
        return _quoted_text(text, place, argument)
    if match := NUMBER.match(text, place):
        return Token("number", match.group(), place, match.end())
    if NAME.match(text, place):
        end = _end_of_name(text, place)
        return Token("name", text[place:end], place, end)
    for operator in OPERATORS:
        if text.startswith(operator, place):
            return Token("operator", operator, place, place + len(operator))
    expected = "a column, a number or an operator"
    raise refuse(argument, text, (place, place + 1), expected, repr(letter), f"{LISTED} {QUOTES}")


def _end_of_name(text: str, place: int) -> int:
    """The place after a name. Letters of Devanagari, Tamil, Thai and other scripts carry marks,
    which are no letters to `re`: they belong to the name.

    >>> _end_of_name("\u0928\u093e\u092e + x", 0), _end_of_name("a.b ", 0)
    (3, 3)
    """
    match = NAME.match(text, place)
    end = place if match is None else match.end()
    while end < len(text) and unicodedata.category(text[end]).startswith("M"):
        end += 1
        match_after = REST_OF_NAME.match(text, end)
        if match_after is not None:
            end = match_after.end()
    return end


def _quoted_name(text: str, place: int, argument: str) -> Token:
    """A name between backquotes; two backquotes within it stand for one."""
    name = ""
    at = place + 1
    while at < len(text):
        if text.startswith("``", at):
            name += "`"
            at += 2
        elif text[at] == "`":
            if not name:
                raise refuse(argument, text, (place, at + 1), "a name between backquotes", "none")
            return Token("name", name, place, at + 1, quoted=True)
        else:
            name += text[at]
            at += 1
    raise refuse(argument, text, (place, len(text)), "a second backquote after the name", "none")


def _quoted_text(text: str, place: int, argument: str) -> Token:
    """A text between quotes, in which a backslash makes the next letter stand for itself."""
    quote = text[place]
    content = ""
    at = place + 1
    while at < len(text) and text[at] != quote:
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
        content += text[at]
        at += 1
    if at >= len(text):
        raise refuse(argument, text, (place, len(text)), f"a second {quote} after the text", "none")
    return Token("text", content, place, at + 1)


def quote_name(name: str) -> str:
    """The name of a column as formulas need it: between backquotes unless it is a plain word.

    >>> quote_name("x"), quote_name("a b"), quote_name("a`b"), quote_name("Sepal.Length"), quote_name("True")
    ('x', '`a b`', '`a``b`', 'Sepal.Length', '`True`')
    """
    # Names such as _sds.g belong to the unknowns of a regression.
    is_plain = (
        NAME.match(name)
        and _end_of_name(name, 0) == len(name)
        and name not in (*WORDS, *PARAMETERS)
        and not ("." in name and name[0] == "_")
    )
    return name if is_plain else "`" + name.replace("`", "``") + "`"
