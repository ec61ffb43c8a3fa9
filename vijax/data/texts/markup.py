"""Parts of texts that are no words: HTML tags, entities such as &amp;, and addresses of the web and
of e-mail."""

from __future__ import annotations

import html
import html.entities
import re
from typing import NamedTuple

from vijax.data.reading.checks import Notes

TAGS = "HTML tags are no words: they are left out of the texts."
ENTITIES = "HTML entities such as &amp; are read as the letters that they stand for."
ADDRESSES = "Addresses of the web and of e-mail are no words: they are left out."
LEFT_TO_PATTERN = (
    "The texts have HTML tags or entities, or addresses of the web or of e-mail, and "
    "token_pattern says what of them is a word. Without token_pattern they are left out."
)

# --- tags -----------------------------------------------------------------------------------------
_NAMES = """
a abbr acronym address applet area article aside audio b base basefont bdi bdo big blockquote body br button canvas
caption center cite code col colgroup data datalist dd del details dfn dialog dir div dl dt em embed fieldset figcaption
figure font footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img input ins kbd label
legend li link main map mark meta meter nav noframes noscript object ol optgroup option output p param picture pre
progress q rp rt ruby s samp script section select slot small source span strike strong style sub summary sup svg table
tbody td template textarea tfoot th thead time title tr track tt u ul var video wbr
"""
NAMES = frozenset(_NAMES.split())
"""The elements of HTML. Other names in angle brackets are tags if they have attributes or are
closed in the text."""
_BARE = "async|autofocus|checked|controls|defer|disabled|hidden|loop|multiple|muted|noshade|nowrap|readonly|selected"
_ATTRIBUTE = rf"""(?:[\w:@.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'|[^\s"'<>]+)|{_BARE})"""
_NAME = r"[A-Za-z][\w:.-]*"
_TAG = re.compile(
    rf"<(?:(?P<open>{_NAME})(?P<more>(?:\s+{_ATTRIBUTE})*)\s*/?|/(?P<close>{_NAME})\s*)>",
    re.IGNORECASE,
)
_DECLARATION = re.compile(r"<!DOCTYPE\b[^<>]*>|<\?xml\b[^<>]*>|<!\[CDATA\[|\]\]>", re.IGNORECASE)
_UNSEEN = (("<script", "</script>"), ("<style", "</style>"), ("<!--", "-->"))
"""Parts of a page that are invisible, with all between begin and end."""

# --- entities -------------------------------------------------------------------------------------
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
MOST_ESCAPED = 3
"""The most times that a text may have been escaped: &amp;lt; is &lt;, which is <."""

# --- addresses ------------------------------------------------------------------------------------
_WITHOUT_SPACES = "\u3000-\u30ff\u3400-\u9fff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\uff00-\uffef"
"""Scripts without spaces between words, whose letters end an address."""
_SIGN = rf"""[^\s()<>\[\]{{}}"“”„«»|\\^`{_WITHOUT_SPACES}]"""
_PATH = rf"(?:{_SIGN}|\({_SIGN}*\))"
_DOMAINS = "com|org|net|edu|gov|info|co|uk|de|fr|eu|us|io|ly|gl|me|be|tv|am|it|gd|page|app|dev"
_ADDRESS = re.compile(
    rf"(?:https?|ftp)://{_PATH}+"
    rf"|(?<!\w)www\.[\w-]{_PATH}*"
    r"|(?<![\w.+%-])[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"
    rf"|(?<![\w.@-])(?:[a-z0-9-]+\.)+(?:{_DOMAINS})/{_PATH}+",
    re.IGNORECASE,
)
_PATH_OF_DOMAIN = re.compile(rf"\.(?:{_DOMAINS})/", re.IGNORECASE)


class Plain(NamedTuple):
    """A text without markup, and the numbers of tags and entities that it had."""

    text: str
    tags: int
    entities: int


def plain(text: str) -> Plain:
    """The text that the reader of a page sees.

    >>> plain("Fish &amp; <b>chips</b>").text.split(), plain("a < b and c > d").text
    (['Fish', '&', 'chips'], 'a < b and c > d')
    """
    text, entities = _decode_entities(text)
    if "<" not in text:
        return Plain(text, 0, entities)
    text, unseen = _remove_unseen(text)
    text, declared = _DECLARATION.subn(" ", text)
    closed = NAMES | {match["close"].lower() for match in _TAG.finditer(text) if match["close"]}
    tags = 0

    def gap(match: re.Match[str]) -> str:
        nonlocal tags
        name = (match["open"] or match["close"]).lower()
        if name not in closed and "=" not in (match["more"] or ""):
            return match[0]
        tags += 1
        return "" if name == "wbr" else " "  # wbr: a long word may be broken there

    return Plain(_TAG.sub(gap, text), unseen + declared + tags, entities)


def _decode_entities(text: str) -> tuple[str, int]:
    """The text with the letters that entities stand for, and the number of entities."""
    number = 0

    def letter(match: re.Match[str]) -> str:
        nonlocal number
        entity = match[0]
        if entity[1] != "#" and entity[1:] not in html.entities.html5:
            return entity
        number += 1
        return html.unescape(entity)

    for _ in range(MOST_ESCAPED):
        before = number
        if "&" in text:
            text = _ENTITY.sub(letter, text)
        if number == before:
            break
    return text, number


def _remove_unseen(text: str) -> tuple[str, int]:
    """The text without scripts, style sheets and comments, and their number."""
    number = 0
    for begin, end in _UNSEEN:
        parts = []
        lower = text.lower()
        place = 0
        if len(lower) != len(text):  # a letter with a longer lower case moves all later places
            lower = text
        while (first := lower.find(begin, place)) >= 0 and (last := lower.find(end, first)) >= 0:
            parts.append(text[place:first])
            place = last + len(end)
            number += 1
        text = " ".join([*parts, text[place:]])
    return text, number


def remove_addresses(text: str) -> str:
    """The text without addresses of the web and of e-mail.

    >>> remove_addresses("See http://a.org/b?c=d, or ask me@a.org.").split()
    ['See', 'or', 'ask', '.']
    """
    return _ADDRESS.sub(" ", text) if _may_have_addresses(text) else text


def _may_have_addresses(text: str) -> bool:
    """A quick test: a search for addresses costs as much as all other work on a text."""
    if "://" in text or "@" in text or "www." in text or "WWW." in text:
        return True
    return "/" in text and _PATH_OF_DOMAIN.search(text) is not None


def read_plain(text: str, notes: Notes, where: str) -> str:
    """The text without markup; notes tell what it had, also of its addresses, which
    `remove_addresses` leaves out of its words."""
    page = plain(text)
    for note, number in (
        (TAGS, page.tags),
        (ENTITIES, page.entities),
        (ADDRESSES, _num_addresses(page.text)),
    ):
        if number:
            notes.add(note, where, number)
    return page.text


def note_markup(text: str, notes: Notes, where: str) -> None:
    """Notes that a text has markup or addresses, about which a user's own pattern decides."""
    page = plain(text)
    if page.tags or page.entities or _num_addresses(page.text):
        notes.add(LEFT_TO_PATTERN, where)


def _num_addresses(text: str) -> int:
    return len(_ADDRESS.findall(text)) if _may_have_addresses(text) else 0
