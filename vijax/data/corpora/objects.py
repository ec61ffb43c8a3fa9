"""Corpora from objects in memory: counts, lists of texts, columns and tables of pandas, Arrow and polars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.checks import fail
from vijax.data.reading.notes import Notes
from vijax.data.texts.text import TextSettings, corpus_from_texts
from vijax.data.texts.text_files import TITLE_COLUMN, find_column
from vijax.data.texts.vocabulary import with_vocabulary

EXPECTED = "counts (documents, words), a pair (counts, vocabulary), a list of texts, or a column or table of texts"
TABLES = ("pandas", "pyarrow", "polars")


def read_object(
    source: Any, vocabulary: Sequence[str] | None, column: str | None, text: TextSettings, folder: Path | None
) -> Corpus:
    """A corpus from an object in memory; the arguments are those of `vijax.data.read`.

    Raises:
      ValueError: the object is none of what is known, or not valid.
    """
    if isinstance(source, Corpus):
        return source if vocabulary is None else with_vocabulary(source, vocabulary)
    if type(source).__module__.partition(".")[0] in TABLES:
        notes = Notes()
        return corpus_from_texts(_table(source, column, notes), text, vocabulary, folder, notes=notes)
    if isinstance(source, tuple) and len(source) == 2 and _is_matrix(source[0]):
        return Corpus.from_counts(source[0], tuple(source[1]))
    if _is_matrix(source):
        return Corpus.from_counts(source, vocabulary)
    return _from_sequence(source, vocabulary, text, folder)


def _is_matrix(source: Any) -> bool:
    return getattr(source, "ndim", None) == 2


def _from_sequence(source: Any, vocabulary, text: TextSettings, folder: Path | None) -> Corpus:
    """A list of texts, or of rows of counts."""
    if not isinstance(source, Sequence | np.ndarray):
        raise fail("source", EXPECTED, type(source).__name__, "convert it to one of these")
    if len(source) == 0:
        raise fail("source", "one document or more", "none", "check where the documents come from")
    if isinstance(source[0], Sequence | np.ndarray) and not isinstance(source[0], str):
        return Corpus.from_counts(_rows(source), vocabulary)
    return corpus_from_texts(_numbered(source), text, vocabulary, folder)


def _rows(source: Sequence | np.ndarray) -> np.ndarray:
    try:
        return np.array(source)
    except ValueError as error:
        raise fail("source", EXPECTED, f"rows that make no matrix ({error})", "give all rows one length") from error


def _numbered(texts: Any) -> Iterator[tuple[str, str]]:
    return ((f"document {number}", text) for number, text in enumerate(texts, 1))


def _table(source: Any, column: str | None, notes: Notes) -> Iterator[tuple[str, str]]:
    """(title, text) pairs of a table, or of a column."""
    names = column_names(source)
    if names is None:
        yield from _numbered(column_values(source))
        return
    texts = column_values(source[find_column(column, names, "source", notes)])
    if TITLE_COLUMN in names:
        yield from zip(map(str, column_values(source[TITLE_COLUMN])), texts, strict=True)
    else:
        yield from _numbered(texts)


def column_names(table: Any) -> list[str] | None:
    """The names of the columns of a pandas, Arrow or polars table; None of a single column, and of anything else."""
    if type(table).__module__.partition(".")[0] not in TABLES:
        return None
    found = getattr(table, "column_names", None) or getattr(table, "columns", None)
    return None if found is None else [str(name) for name in found]


def column_values(column: Any) -> list:
    """The values of a pandas, Arrow or polars column, as a list."""
    return (getattr(column, "to_pylist", None) or getattr(column, "to_list", None) or column.tolist)()
