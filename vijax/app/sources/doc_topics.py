"""doc_topics.csv and excerpts.json of a run: the topics of its documents, and their beginnings."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.app.drawing.exports import csv_cell, guard_formula, unguard_formula
from vijax.app.settings.quoting import quote
from vijax.app.settings.typed_toml import ConfigError
from vijax.extras import require_extra
from vijax.files import write_text

RESULT_COLUMNS = ("document", "words", "topic", "topic_label")
"""Columns, besides the shares, that do not come from the user's file."""
COMMONEST = 15
"""Number of words that stand for a document without a text."""


def read_doc_topics(path: Path) -> dict[str, Sequence[Any]]:
    """The columns by name: words and shares as numbers, all others as they were in the data."""
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file; make it: {_command(path)}")
    arrow, reader = require_extra("pyarrow"), require_extra("pyarrow.csv")
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header = next(csv.reader(file), [])
        types = {name: arrow.float64() if _is_number(name) else arrow.string() for name in header}
        table = reader.read_csv(
            str(path),
            parse_options=reader.ParseOptions(newlines_in_values=True),
            convert_options=reader.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
    except (ValueError, csv.Error) as error:  # Arrow's errors are ValueErrors
        raise ConfigError(f"{path}: damaged ({error}); {rewrite_remedy(path)}") from error
    if not {"document", "words", "share_0"} <= set(header):
        got = ", ".join(header)[:200]
        raise ConfigError(
            f"{path}: expected columns document, words and share_0, got {got}; "
            f"{rewrite_remedy(path)}"
        )
    columns: dict[str, Sequence[Any]] = {}
    for name in header:
        values = table[name]
        if _is_number(name):
            columns[unguard_formula(name)] = values.to_numpy()
        else:
            columns[unguard_formula(name)] = [*map(unguard_formula, values.to_pylist())]
    return columns


def relabel_topics(path: Path, names: Mapping[int, str]) -> None:
    """Writes the file with new names of topics; a file without labels, or none, is left."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    if not {"topic", "topic_label"} <= set(header):
        return
    topic, label = header.index("topic"), header.index("topic_label")
    for row in rows:
        row[label] = guard_formula(names.get(int(row[topic]), unguard_formula(row[label])))
    write_text(path, "".join(",".join(map(csv_cell, row)) + "\n" for row in [header, *rows]))


def rewrite_remedy(path: Path) -> str:
    """The remedy for a damaged file."""
    return f"remove it, and write it again: {_command(path)}"


def _command(path: Path) -> str:
    return f"vijax transform {quote(path.parent)} --out {quote(path)}"


def _is_number(name: str) -> bool:
    return name == "words" or _is_share(name)


def _is_share(name: str) -> bool:
    return name.startswith("share_") and name.removeprefix("share_").isdecimal()


def user_columns(columns: Iterable[str]) -> list[str]:
    """The columns that came with the documents.

    >>> user_columns(["document", "year", "words", "topic", "share_0", "share_1"])
    ['year']
    """
    return [name for name in columns if name not in RESULT_COLUMNS and not _is_share(name)]


# --- how documents begin --------------------------------------------------------------------------
def make_excerpts(corpus: Any) -> list[str]:
    """The beginning of each document; for counts its commonest words."""
    if corpus.texts is not None:
        return [str(text) for text in corpus.texts]
    return [commonest_words(corpus, row) for row in range(corpus.num_documents)]


def commonest_words(corpus: Any, row: int) -> str:
    """The commonest words of a document."""
    pairs = slice(corpus.indptr[row], corpus.indptr[row + 1])
    order = np.argsort(-np.asarray(corpus.counts[pairs]), kind="stable")[:COMMONEST]
    return " ".join(corpus.vocabulary[corpus.indices[pairs][i]] for i in order)


def write_excerpts(path: Path, excerpts: Sequence[str]) -> None:
    """Writes excerpts, one for each document in the order of doc_topics.csv."""
    write_text(path, json.dumps(list(excerpts), indent=0, ensure_ascii=True) + "\n")


def read_excerpts(path: Path) -> list[str]:
    """The excerpts of a run; none if it has no such file."""
    if not path.is_file():
        return []
    try:
        excerpts = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: damaged ({error}); remove it, and the page does without"
        ) from error
    if not isinstance(excerpts, list):
        raise ConfigError(
            f"{path}: damaged: expected a list of texts; remove it, and the page does without"
        )
    return [str(text) for text in excerpts]
