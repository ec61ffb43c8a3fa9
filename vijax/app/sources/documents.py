"""Documents as data of a run: corpora, how they are read, split and kept."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.app.settings.quoting import quote
from vijax.app.settings.sections import DocumentData, DocumentPage, RatingData, read_dialect
from vijax.app.settings.suited_settings import data_formats
from vijax.app.settings.typed_toml import ConfigError, DamagedError, Entry, flatten
from vijax.app.sources.doc_topics import make_excerpts
from vijax.app.sources.listing import Data, New, Source
from vijax.app.sources.rating_tables import check_are_texts, has_ratings, read_ratings
from vijax.app.sources.sampled_documents import SampledDocuments, check_by_parts, sampled_documents
from vijax.app.sources.topic_names import check_names
from vijax.data import Corpus
from vijax.data.corpora.corpus import join_parts
from vijax.data.corpora.select import split_over_seen_words, with_vocabulary
from vijax.data.read import read_side_columns
from vijax.data.reading.download import is_url
from vijax.files import local_path, write_text

WORDS = "vocabulary.txt"


def load_documents(config: DocumentData) -> Data:
    """The corpus, split; words that training documents lack are dropped: they have no score."""
    if (by_parts := sampled_documents(config)) is not None:
        return by_parts
    corpus = with_words(read_corpus(config))
    if config.held_out == 0.0:
        return Data(corpus, None)
    return Data(*split_over_seen_words(corpus, config.held_out, config.split_seed))


def _load(config: Any) -> Data:
    """The corpus of a run, with a check that it has the columns of its page."""
    data = load_documents(config.data)
    if isinstance(data.train, SampledDocuments):
        check_by_parts(config, data)
    if config.page.by:
        names = side_columns(config.data, data.train)
        for name in config.page.by:
            if name not in names:
                names_text = ", ".join(map(repr, names)) or "none"
                raise ConfigError(
                    f"page.by: expected columns beside the text, got {name!r}; known: {names_text}"
                )
    return data


def side_columns(
    section: DocumentData, corpus: Corpus, source: Any = None
) -> Mapping[str, Sequence[Any]]:
    """The columns beside the text of documents, by name; for docstrings their packages."""
    path = section.path if source is None else source
    if isinstance(path, str) and path == "docstrings":
        return {"package": [title.partition(".")[0] for title in corpus.titles or ()]}
    if isinstance(section, RatingData) and has_ratings(section, source):
        return {}
    format = None if section.format == "auto" else section.format
    return read_side_columns(path, section.column, format, read_dialect(section))


def read_corpus(config: DocumentData, source: Any = None) -> Corpus:
    """The documents that a [data] section names, or of another source read in the same way."""
    from vijax.data import read

    if isinstance(config, RatingData) and has_ratings(config, source):
        return read_ratings(config, source)
    if not isinstance(config, RatingData):
        check_are_texts(config, source)
    path = config.path if source is None else source
    return read(
        path,
        vocabulary=config.vocabulary,
        format=None if config.format == "auto" else config.format,
        sha256=config.sha256 if is_url(path) else None,
        **_reading_arguments(config, source),
    )


def _reading_arguments(config: DocumentData, source: Any = None) -> dict[str, Any]:
    """Arguments of `read`: the format of documents, and how their text becomes words; arguments
    that do not apply to another source are left out."""
    from vijax.data import TextSettings

    fields = [field.name for field in dataclasses.fields(TextSettings)]
    text = TextSettings(**{name: getattr(config, name) for name in fields})
    if config.stop_words == "none":
        text = dataclasses.replace(text, stop_words=None)
    names = ("column", "encoding", "separator", "sheet")
    arguments = {"text": text, **{name: getattr(config, name) for name in names}}
    if source is not None and not isinstance(source, str | Path):
        return arguments
    section = config if source is None else dataclasses.replace(config, path=str(source))
    formats = data_formats(section)
    if formats is None:
        return arguments
    return {name: value for name, value in arguments.items() if formats.have(name)}


def prepare_shards(config: Any, out: Path, workers: int, say: Callable[[str], None]) -> None:
    """Makes shards of the texts of a configuration; see `vijax.data.prepare`.

    Raises:
      ConfigError: a model that reads no documents, or a number of workers below 1.
    """
    from vijax.data import prepare

    section = config.data
    if not isinstance(section, DocumentData):
        raise ConfigError(
            f"{config.name}: expected a configuration of a model of documents, such as lda"
        )
    if workers < 1:
        raise ConfigError(f"--workers: expected 1 or more, got {workers}")
    with contextlib.ExitStack() as stack:
        pool = None
        if workers > 1:
            context = multiprocessing.get_context("spawn")
            pool = stack.enter_context(concurrent.futures.ProcessPoolExecutor(workers, context))
        prepare(
            section.path,
            out,
            vocabulary=section.vocabulary,
            format=None if section.format == "auto" else section.format,
            executor=pool,
            in_flight=2 * workers,
            progress=say,
            **_reading_arguments(section),
        )


def with_own_stop_words(config: DocumentData) -> DocumentData:
    """The section with the words of a stop word file, which the run does not need again."""
    from vijax.data.texts.text import read_stop_words

    stop_words = config.stop_words
    if not isinstance(stop_words, str) or stop_words in ("auto", "english", "none"):
        return config
    if local_path(stop_words).is_file():
        return dataclasses.replace(config, stop_words=read_stop_words(stop_words))
    return config


def read_over_vocabulary(
    vocabulary: Sequence[str], config: DocumentData, source: Any = None
) -> Corpus:
    """The documents of `read_corpus` over the vocabulary of a run, all its words and no others."""
    every_word = dataclasses.replace(config, min_df=1, max_df=1.0, max_vocabulary=2**31)
    corpus = read_corpus(every_word, source)
    if corpus.vocabulary is None and corpus.vocab_size == len(vocabulary):
        # Counts, with a column for each word of the run.
        return dataclasses.replace(corpus, vocabulary=tuple(vocabulary))
    return with_vocabulary(with_words(corpus), vocabulary)


def with_words(corpus: Corpus) -> Corpus:
    """The corpus, with its word ids as names if it has no others."""
    if corpus.vocabulary is not None:
        return corpus
    names = tuple(f"word{i}" for i in range(corpus.vocab_size or 0))
    return dataclasses.replace(corpus, vocabulary=names)


def source_section(config: Any, path: Any, column: str | None) -> DocumentData:
    """The section [data] for another source: the run's, without the settings of its own file."""
    section = dataclasses.replace(config.data, column=column or config.data.column)
    is_own = isinstance(path, str) and path == config.data.path
    if is_own:
        return section
    return dataclasses.replace(section, vocabulary=None, sha256=None, format="auto")


# --- the vocabulary that a run keeps, and new documents -------------------------------------------
def _load_stand_in(folder: Path) -> Data | None:
    """A corpus that stands in for the run's: one document with each word once."""
    path = folder / WORDS
    try:
        words = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedError(
            f"{path}: missing or damaged ({error})",
            f"write it again: vijax resume {quote(folder)}",
        ) from error
    return Data(Corpus.from_counts(np.ones((1, len(words)), int), tuple(words)), None)


def _new(config: Any, data: Data, source: Any, column: str | None) -> New:
    """Documents, with titles, the columns beside their text, and their numbers of known words."""
    section = config.data if source is None else source_section(config, source, column)
    if source is None and isinstance(data.train, SampledDocuments):
        remedy = (
            "name a file to write them to: vijax transform RUN --out "
            f"{config.listing.source.results}.parquet"
        )
        raise ConfigError(
            f"{config.data.path}: more {config.listing.source.columns[0]}s than are held; {remedy}"
        )
    if source is None and data.test is None:
        corpus = data.train
    elif source is None:
        corpus = join_parts(*data, section.held_out, section.split_seed)
    else:
        corpus = read_over_vocabulary(data.names, section, source)
    columns_beside = side_columns(section, corpus, source)
    notes = corpus.notes
    if any(len(values) != corpus.num_documents for values in columns_beside.values()):
        columns_beside = {}
        change = "The file has changed since it was read: its other columns are left out."
        notes = (*notes, change)
    return new_documents(config.listing.source.columns, corpus, columns_beside, notes)


def new_documents(
    columns: tuple[str, str],
    corpus: Corpus,
    beside: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    first: int = 0,
) -> New:
    """Documents, with columns beside them.

    Args:
      columns: the names of the columns of titles, and of the documents' sizes.
      corpus: the documents.
      beside: other columns.
      notes: notes for the reader.
      first: number of the first document, for documents without a title.
    """
    title, size = columns
    titles = corpus.titles or [f"{title} {i}" for i in range(first, first + corpus.num_documents)]
    columns_beside, more_notes = _rename_clashes(
        beside or {}, (title, size, "topic", "topic_label")
    )
    return New(
        corpus, {title: list(titles), **columns_beside, size: corpus.tokens}, (*notes, *more_notes)
    )


def _rename_clashes(
    beside: Mapping[str, Any], names: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """The user's columns under names that the results do not use, with a note for each new name.

    >>> _rename_clashes({"year": [1], "words": [2]}, ("document", "words"))
    ({'year': [1], 'words_': [2]}, ["The column 'words' of the data is called 'words_' in the results."])
    """
    renamed: dict[str, Any] = {}
    notes = []
    for name, values in beside.items():
        new_name = name
        while new_name in names or (new_name != name and new_name in beside):
            new_name += "_"
        if new_name != name:
            notes.append(f"The column {name!r} of the data is called {new_name!r} in the results.")
        renamed[new_name] = values
    return renamed, notes


def _facts(data: Data) -> dict[str, Any]:
    return {
        "documents": data.whole.num_documents,
        "held_out": 0 if data.test is None else data.test.num_documents,
        "tokens": data.whole.num_tokens,
        "vocabulary": len(data.names),
    }


def _tiles(facts: dict[str, Any]) -> dict[str, str]:
    return {
        "Documents": f"{facts['documents']:,} | and {facts['held_out']:,} held out",
        "Words": f"{facts['tokens']:,} | {facts['vocabulary']:,} different",
    }


def _digest(data: Data) -> Iterator[Any]:
    yield "\n".join(data.names).encode()
    if data.whole is not data.train:
        yield from data.whole.contents()
    for corpus in data.parts:
        for _, indices, counts in corpus.blocks():
            yield np.ascontiguousarray(indices, np.int32).data
            yield np.ascontiguousarray(counts, np.int64).data
        yield np.ascontiguousarray(corpus.indptr, np.int64).data


def _describe(data: Data) -> str:
    train, test = data.whole, data.test
    held_out = f", and {test.num_documents:,} held out" if test is not None else ""
    return (
        f"{train.num_documents:,} documents, {train.num_tokens:,} words of {len(data.names):,} "
        f"kinds{held_out}"
    )


def _check(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on names of missing topics, and on settings of text for the
    docstrings, which are read in their own way."""
    check_names(config, entries)
    section = config.data
    names = ("held_out", "split_seed", "time", "slices")
    shared = {name: getattr(section, name) for name in names if name in vars(section)}
    default = type(section)(path="docstrings", **shared)
    if section.path != "docstrings" or section == default:
        return
    name = next(name for name, value in flatten(section).items() if value != getattr(default, name))
    entry = entries[f"data.{name}"]
    raise ConfigError(
        f'{entry.origin}: data.{name}: not for data.path = "docstrings", whose text is read in '
        "its own way"
    )


DOCUMENTS = Source(
    section=DocumentData,
    load=_load,
    other=lambda config, data, path, column: read_over_vocabulary(
        data.names, source_section(config, path, column), path
    ),
    facts=_facts,
    tiles=_tiles,
    digest=_digest,
    describe=_describe,
    check=_check,
    keep=lambda folder, data: write_text(folder / WORDS, "\n".join(data.names) + "\n"),
    kept_files=(WORDS,),
    kept=_load_stand_in,
    new=_new,
    results="doc_topics",
    page=DocumentPage,
    excerpts=make_excerpts,
)
