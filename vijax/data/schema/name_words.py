"""The words of a column's name, and those that name counts."""

from __future__ import annotations

import re

WORD = re.compile(r"[A-Z]+(?![a-z])|[^\W\d_A-Z]+|[A-Z][^\W\d_A-Z]+")
COUNTS = (
    "count",
    "counts",
    "plays",
    "playcount",
    "quantity",
    "qty",
    "purchases",
    "clicks",
    "views",
    "listens",
)
"""Names of columns of counts, without spaces, the likeliest first."""


def words_of_name(name: str) -> list[str]:
    """The words of a column's name, in small letters.

    >>> words_of_name("Sample Number"), words_of_name("userId"), words_of_name("is_churned")
    (['sample', 'number'], ['user', 'id'], ['is', 'churned'])
    """
    return [word.lower() for word in WORD.findall(name)]
