"""Models of documents: their data are corpora."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vijax.app.listing import Data, Source
from vijax.app.sections import DocumentData
from vijax.app.typed_toml import ConfigError, Entry, flatten
from vijax.data import Corpus
from vijax.data.split import split_over_seen_words
from vijax.data.vocabulary import with_vocabulary


def load_documents(config: DocumentData) -> Data:
    """The corpus, split; words that training documents lack are dropped, since no score of them could mean anything.

    Raises:
      ValueError: see `vijax.data.read`; or the corpus is too small to hold documents out.
    """
    corpus = with_words(read_corpus(config))
    if config.held_out == 0.0:
        return Data(corpus, None)
    return Data(*split_over_seen_words(corpus, config.held_out, config.split_seed))


def read_corpus(config: DocumentData) -> Corpus:
    """The documents that a [data] section names."""
    from vijax.data import TextSettings, read

    text = TextSettings(**{field.name: getattr(config, field.name) for field in dataclasses.fields(TextSettings)})
    if config.stop_words == "none":
        text = dataclasses.replace(text, stop_words=None)
    return read(
        config.path,
        vocabulary=config.vocabulary,
        column=config.column,
        format=None if config.format == "auto" else config.format,
        encoding=config.encoding,
        text=text,
        sha256=config.sha256,
    )


def read_for(vocabulary: Sequence[str], config: DocumentData) -> Corpus:
    """The documents that a [data] section names, over the vocabulary of a run: all of its words, and no others."""
    every_word = dataclasses.replace(config, min_df=1, max_df=1.0, max_vocabulary=2**31)
    return with_vocabulary(with_words(read_corpus(every_word)), vocabulary)


def with_words(corpus: Corpus) -> Corpus:
    """The corpus itself, or with its word ids as names where it knows no others."""
    if corpus.vocabulary is not None:
        return corpus
    return dataclasses.replace(corpus, vocabulary=tuple(f"word{i}" for i in range(corpus.vocab_size or 0)))


def _other(config: Any, data: Data, path: str, column: str | None) -> Corpus:
    """Other documents, whose format is found out again."""
    changed = dataclasses.replace(config.data, path=path, column=column or config.data.column)
    if path != config.data.path:
        changed = dataclasses.replace(changed, vocabulary=None, sha256=None, format="auto")
    return read_for(data.names, changed)


def _facts(data: Data) -> dict[str, Any]:
    return {
        "documents": data.train.num_documents,
        "held_out": 0 if data.test is None else data.test.num_documents,
        "tokens": data.train.num_tokens,
        "vocabulary": len(data.names),
    }


def _tiles(facts: dict[str, Any]) -> dict[str, str]:
    return {
        "Documents": f"{facts['documents']:,} | and {facts['held_out']:,} held out",
        "Words": f"{facts['tokens']:,} | {facts['vocabulary']:,} different",
    }


def _digest(data: Data) -> Iterator[Any]:
    yield "\n".join(data.names).encode()
    for corpus in (data.train, data.test):
        if corpus is not None:
            yield from _bytes_of(corpus)


def _bytes_of(corpus: Corpus) -> Iterator[Any]:
    for _, indices, counts in corpus.blocks():
        yield np.ascontiguousarray(indices, np.int32).data
        yield np.ascontiguousarray(counts, np.int64).data
    yield np.ascontiguousarray(corpus.indptr, np.int64).data


def _describe(data: Data) -> str:
    train, test = data
    held_out = f", and {test.num_documents:,} held out" if test is not None else ""
    return f"{train.num_documents:,} documents, {train.num_tokens:,} words of {len(data.names):,} kinds{held_out}"


def _check(config: Any, entries: Mapping[str, Entry]) -> None:
    """The docstrings come with words of their own choice: settings of text do not apply, and must not seem to."""
    given = config.data
    free = DocumentData(path="docstrings", held_out=given.held_out, split_seed=given.split_seed)
    if given.path != "docstrings" or given == free:
        return
    name = next(name for name, value in flatten(given).items() if value != getattr(free, name))
    entry = entries[f"data.{name}"]
    raise ConfigError(
        f'{entry.origin}: data.{name}: not for data.path = "docstrings", whose text is read in its own way'
    )


DOCUMENTS = Source(
    DocumentData, lambda config: load_documents(config.data), _other, _facts, _tiles, _digest, _describe, _check
)
