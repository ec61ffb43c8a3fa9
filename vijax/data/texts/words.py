r"""The definition of a word, by Unicode's properties of letters and marks (UAX 29, UAX 44).

A word is a run of letters with the marks that combine with them: the vowel signs of Hindi and
Tamil, the points of Hebrew, the tones of Thai. Digits and punctuation divide words, as do hyphens
and, in Latin script, apostrophes: "don't" and "l'amour" are two words each. An apostrophe within a
Cyrillic or Hebrew word belongs to it, and so does the point within Catalan l·l."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable

from vijax.data.reading.checks import fail
from vijax.extras import require_extra

LEAST_LETTERS = 3
"""Letters of the shortest word that counts. The vowel signs of Indic scripts and of Thai count,
since they stand where other scripts have letters; points of Hebrew and Arabic do not. A letter that
writes a syllable (Korean, Amharic) counts twice."""

# Most texts have letters that stand alone, and Python's own expressions find their words ten times
# as fast.
_PLAIN = (
    "\\x00-\\x26\\x28-\\xac\\xae-\\xb6\\xb8-\\u02ff\\u2010-\\u2027\\u2030-\\u203a\\u20a0-\\u20bf"
)
_LATIN_OR_GREEK = re.compile(f"['{_PLAIN}\\u0370-\\u0386\\u0388-\\u03ff\\u1e00-\\u1fff]*")
_CYRILLIC = re.compile(f"[{_PLAIN}\\u0400-\\u0482\\u048a-\\u052f]*")
_PLAIN_LETTER = r"[^\W\d_\xb2\xb3\xb9\xbc-\xbe]"
_PLAIN_WORD = re.compile(f"{_PLAIN_LETTER}{{{LEAST_LETTERS},}}")
_ANY_PLAIN_WORD = re.compile(f"{_PLAIN_LETTER}+")

# --- the grammar, for package regex with its set operations ---------------------------------------
_OPTIONAL = (
    r"\p{Script=Inherited}\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Samaritan}"
)
_VOWEL_SIGN = rf"[[\p{{M}}&&\p{{Alphabetic}}]--[{_OPTIONAL}]]"
_SYLLABIC = r"[\uac00-\ud7a3\p{Ethiopic}\p{Cherokee}\p{Canadian_Aboriginal}\p{Yi}\p{Vai}]"
_SYLLABLE = rf"[\p{{L}}&&{_SYLLABIC}]"
_LETTER = rf"[\p{{L}}||{_VOWEL_SIGN}]"
_SINGLE = rf"[{_LETTER}--{_SYLLABIC}]"
_INSIDE = "|".join(
    (
        rf"[\p{{M}}--{_VOWEL_SIGN}]",
        # joiners after the sign that leaves a vowel out, as in Malayalam and Sinhala
        r"(?<=\p{M})[\u200c\u200d]",
        r"[\u200c\u200d](?=\p{L})",  # within Persian words
        r"(?<=\p{Hebrew})[\"'\u05f3\u05f4](?=\p{Hebrew})",
        r"(?<=\p{Cyrillic})'(?=\p{Cyrillic})",
        r"(?<=[lL])\u00b7(?=[lL])",
    )
)
_REST = rf"(?:{_INSIDE})*+"
_SHORT = (
    rf"(?:{_SYLLABLE}{_REST}{_LETTER}|{_SINGLE}{_REST}(?:{_SYLLABLE}|{_SINGLE}{_REST}{_LETTER}))"
)
_WORD = rf"(?V1)(?=\p{{L}}){_SHORT}(?:{_REST}{_LETTER})*+{_REST}"
_ANY_WORD = rf"(?V1)(?=\p{{L}}){_LETTER}(?:{_REST}{_LETTER})*+{_REST}"


@functools.cache
def _compile(pattern: str) -> Callable[[str], list[str]]:
    return require_extra("regex").compile(pattern).findall


def find_words(text: str) -> list[str]:
    """The words of three letters or more of a text from `normalise`, in their order.

    >>> find_words("The cat's 42 toys, Ärger")
    ['The', 'cat', 'toys', 'Ärger']
    >>> find_words("किसान खेत में")
    ['किसान', 'खेत', 'में']
    """
    return _PLAIN_WORD.findall(text) if _is_plain(text) else _compile(_WORD)(text)


def find_all_words(text: str) -> list[str]:
    """The words of a text from `normalise`, also those of one and two letters.

    >>> find_all_words("So it is")
    ['So', 'it', 'is']
    """
    if _is_plain(text):
        return _ANY_PLAIN_WORD.findall(text)
    return _compile(_ANY_WORD)(text)


def _is_plain(text: str) -> bool:
    """True for a text without marks, without letters that write syllables, and without signs that
    join letters."""
    return text.isascii() or bool(_LATIN_OR_GREEK.fullmatch(text) or _CYRILLIC.fullmatch(text))


def word_finder(pattern: str) -> Callable[[str], list[str]]:
    r"""A function from a text to the matches of a user's own pattern, in which `\w` has marks too.
    A match over several lines gets blanks instead of line breaks, which a file of words cannot
    have.

    Raises:
      DataError: the pattern is no regular expression, or has more than one group.

    >>> word_finder(r"\w+")("A1 b")
    ['A1', 'b']
    """
    package = require_extra("regex")
    try:
        compiled = package.compile(pattern)
    except package.error as error:
        actual = f"{pattern!r} ({error})"
        raise fail(
            "token_pattern", "a regular expression of a word", actual, r"try '\w+'"
        ) from error
    if compiled.groups > 1:
        actual = f"{compiled.groups} in {pattern!r}"
        remedy = "write (?:...) for groups that are not the word"
        raise fail("token_pattern", "one group (...) or none", actual, remedy)

    def words(text: str) -> list[str]:
        matches = compiled.findall(text)
        return [
            " ".join(word.split()) if "\n" in word or "\r" in word else word for word in matches
        ]

    return words


# --- one spelling ---------------------------------------------------------------------------------
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]"
)
"""Invisible signs within words: soft hyphens, marks of direction and the like."""
_JOINERS = re.compile("(?<=[A-Za-z\u00c0-\u052f\u1e00-\u1fff])[\u200c\u200d]+")
"""Joiners after Latin, Greek and Cyrillic letters, which only typesetters need."""
_APOSTROPHES = re.compile("(?<=[\u0400-\u052f])[\u2019\u02bc](?=[\u0400-\u052f])")


def normalise(text: str) -> str:
    r"""The text in one spelling: letters composed (NFC), without invisible signs.

    >>> normalise("cafe\u0301 co\u00adoperate") == "caf\u00e9 cooperate"
    True
    """
    if text.isascii():
        return text
    text = _INVISIBLE.sub("", text)
    text = _APOSTROPHES.sub("'", _JOINERS.sub("", text))
    return unicodedata.normalize("NFC", text)


def to_lower(text: str) -> str:
    """The text in lower case, without the dot that Python leaves of a Turkish capital I.

    >>> to_lower("İstanbul")
    'istanbul'
    """
    lower = text.lower()
    return lower if lower.isascii() else lower.replace("i\u0307", "i")
