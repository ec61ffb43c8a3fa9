"""A look at documents: which column is their text, how many there are, how many topics to begin with."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np

from vijax.app.kinds.assemble import FULL_DATA
from vijax.app.kinds.documents import load_documents
from vijax.app.looks.look import Look
from vijax.app.settings.typed_toml import ConfigError
from vijax.data.read import guess_format
from vijax.data.reading.download import fetch, is_url
from vijax.data.reading.files import kind_of
from vijax.data.texts.text_files import DEFAULT_COLUMN, RECORDS
from vijax.fitting.loader import USUAL

WORD = re.compile(r"[^\W\d_]{3,}")
MOST_READ = 200
"""Records that are read to find the column of the text."""
UPDATES = 200
"""Steps that a fit by minibatches should take at least."""


def look_at_documents(data: str, listing: Any, begun: Any) -> Look:
    """Reads the documents once, as a fit would."""
    if data == "docstrings":
        found: dict[str, Any] = {"data.path": data}
        section = dataclasses.replace(begun.data, path=data)
    else:
        column = _text_column(data)
        found = {} if column in (None, DEFAULT_COLUMN) else {"data.column": column}
        section = dataclasses.replace(begun.data, path=data, column=column, vocabulary=None)
    parts = load_documents(dataclasses.replace(section, held_out=0.1))
    number = parts.train.num_documents + parts.test.num_documents
    words = parts.train.num_tokens + parts.test.num_tokens
    facts = [
        f"{number:,} documents of {words / number:,.0f} words on average that are kept, of {len(parts.names):,} kinds.",
        *parts.train.notes,
    ]
    topics = int(np.clip(5 * round(np.sqrt(number / 2) / 5), 5, 100)) if number >= 50 else max(2, number // 10)
    why = {"model.num_topics": "Begin with about the root of half the documents; compare: vijax fit ... --sweep."}
    settings = found | {"data.held_out": 0.1, "model.num_topics": topics} | _steps(begun, number)
    return Look(facts, settings, why)


def _steps(begun: Any, number: int) -> dict[str, Any]:
    """Batches and passes with which a fit by minibatches takes enough steps."""
    if begun.fit.batch_size is None and begun.algorithm.name in FULL_DATA:
        return {}
    batch = min(begun.fit.batch_size or USUAL, max(10, number // 10))
    passes = max(begun.fit.num_epochs, -(-UPDATES * batch // number))
    return {"fit.batch_size": min(batch, number), "fit.num_epochs": passes}


def _text_column(data: str) -> str | None:
    """The column `text`, or else the one of the longest texts; None of a source without columns."""
    path = fetch(data) if is_url(data) else Path(data).expanduser()
    if kind_of(path) != "a file":
        return None
    kind = guess_format(path)
    rows = RECORDS[kind](path).rows(None) if kind in RECORDS else iter(())
    records = [row for *_, row in itertools.islice(rows, MOST_READ)]
    if not records:
        return None
    lengths = {name: _mean_length([record.get(name) for record in records]) for record in records for name in record}
    if DEFAULT_COLUMN in lengths:
        return DEFAULT_COLUMN
    longest = max(lengths, key=lambda name: lengths[name])
    if not lengths[longest]:
        raise ConfigError(f"{data}: no column holds text, among {', '.join(map(repr, list(lengths)[:20]))}")
    return longest


def _mean_length(values: list[Any]) -> float:
    """How many words of three letters or more a text has on average."""
    return float(np.mean([len(WORD.findall(value)) if isinstance(value, str) else 0 for value in values]))
