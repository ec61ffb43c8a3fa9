"""`prepare` makes Parquet shards of texts that need not fit in memory, with any number of workers.

Two passes over blocks of documents, each a pure function that reads and writes files:

    count    texts of block i          -> counted-i.bags      bags over the words of the block, and these words
    index    counted-i.bags            -> part-i.parquet      the same bags over the chosen vocabulary

Between them one process counts the documents of each word, and chooses the vocabulary. Memory holds
the words seen and a few blocks, never the documents. A file is written as a whole or not at all, so
a run that was stopped resumes where it was."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import errno
import functools
import hashlib
import itertools
import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.data.corpora.shards import BEGUN, DONE, read_pairs, record_batches
from vijax.data.read import DEFAULT_SETTINGS, open_texts
from vijax.data.reading.checks import MAX_WORDS, Notes, fail
from vijax.data.reading.files import path_kind, read_lines, read_vocabulary
from vijax.data.reading.store import shard_paths
from vijax.data.tables.formats import Dialect, Separator
from vijax.data.texts.text import (
    TextSettings,
    analyzer,
    choose_settings,
    choose_words,
    count_bags,
    new_word_ids,
    read_stop_words,
    snippet,
    text_blocks,
)
from vijax.extras import require_extra
from vijax.files import write_atomically, write_text

SHARD_CHARACTERS = 1 << 24
"""Least number of characters of text in a shard, but for the last."""
VOCABULARY = "vocabulary.txt"
COUNTED = "counted-{:06}.bags"


def prepare(
    source: str | Path | Iterable[tuple[str, str]],
    out: str | Path,
    *,
    column: str | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    separator: Separator | None = None,
    sheet: str | None = None,
    text: TextSettings = DEFAULT_SETTINGS,
    vocabulary: str | Path | Sequence[str] | None = None,
    executor: concurrent.futures.Executor | None = None,
    in_flight: int | None = None,
    shard_characters: int = SHARD_CHARACTERS,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Makes shards of texts: `vijax.data.read(out)`, `vijax.fit(alg, out)` and `vijax fit` read
    them.

    A call with the same arguments after any stop resumes where it was.

    Args:
      source: file, folder or address of texts, as `vijax.data.read` takes them; or pairs (title,
        text) one by one, in the same order in every call.
      out: folder of the shards (`vijax.data.corpora.shards` says what is in them).
      column: the column of a table that has the text.
      format: format of a file whose name does not tell it.
      encoding: encoding of text files.
      separator: the letter between the cells of a csv.
      sheet: the sheet of a spreadsheet.
      text: settings by which text becomes words.
      vocabulary: words to keep, or a file of them; by default chosen by `text`. "hash:2**18" keeps
        all words in 2**18 places: the place of a word is a hash of its letters, the same everywhere
        and always. It is for texts to which others will be added, prepared in the same way, with
        words that are not known yet. Words that share a place become one, named by the most
        frequent of a shard, or "#7" if no word is there.
      executor: anything with the interface of `concurrent.futures.Executor`: processes of this
        machine (`ProcessPoolExecutor`), or of a cluster (Dask's `client.get_executor()`), whose
        machines must see `out`. None works in this process. If a worker is killed, Dask gives its
        shard to another.
      in_flight: shards that wait or are worked on at once; by default two for each processor of
        this machine.
      shard_characters: least number of characters of text in a shard. A worker holds one shard at a
        time.
      progress: function that is called with a line after each shard.

    Returns:
      `out`.

    Raises:
      ValueError: no documents, a wrong setting, `out` holds something else, or the disk is full;
        after that the same call resumes.

    >>> import tempfile
    >>> folder = prepare([("a", "The cat sat."), ("b", "A dog, a cat!")], tempfile.mkdtemp() + "/shards")
    >>> from vijax.data import read
    >>> read(folder).vocabulary
    ('cat', 'dog', 'sat')
    """
    out = Path(out)
    notes = Notes()
    places = _places(vocabulary)
    words = None if places else read_vocabulary(vocabulary)
    location = str(source) if isinstance(source, str | Path) else "source"
    dialect = Dialect(encoding, separator, sheet=sheet)
    documents: Iterable[tuple[str, str]]
    documents, key = open_texts(source, column, format, dialect, notes)
    made_of = repr((key, text, words or places, shard_characters))
    digest = hashlib.sha256(made_of.encode()).hexdigest()
    with _room(out):
        if _is_done(out, digest):
            _clear(out)
            return out
        text, documents, language = choose_settings(text, documents, words, location, notes)
        # A file of stop words is not on every machine: the words themselves go with the settings.
        text = dataclasses.replace(text, stop_words=read_stop_words(text.stop_words))
        limit = in_flight or 2 * (os.cpu_count() or 1)
        run = functools.partial(_run, executor, limit, progress or (lambda line: None))
        parts = enumerate(_shards(text_blocks(documents, text, location, notes), shard_characters))
        count_jobs = ((out / COUNTED.format(i), part, text) for i, part in parts)
        number = run("counted", count_shard, count_jobs)
        if number == 0:
            remedy = "check the path, the file ending and the column"
            raise fail(location, "one document or more", "none", remedy)
        _write_vocabulary(out, number, words, places, text)
        index_jobs = (
            (out / f"part-{i:06}.parquet", out / COUNTED.format(i), places) for i in range(number)
        )
        run("indexed", index_shard, index_jobs)
        if len(shard_paths(out)) != number:
            actual = f"{len(shard_paths(out))} of an earlier call"
            remedy = "give a new folder: the source gives other texts now"
            raise fail(out, f"{number} shards", actual, remedy)
        infos = {"made of": digest, "shards": number, "language": language, "notes": notes.texts()}
        write_text(out / DONE, json.dumps(infos, indent=1))
        _clear(out)
        return out


def _write_vocabulary(
    out: Path, number: int, words: Sequence[str] | None, places: int, text: TextSettings
) -> None:
    """Writes the vocabulary, unless an earlier call did."""
    if (out / VOCABULARY).exists():
        return
    vocabulary: Sequence[str]
    if places:
        vocabulary = _name_places(out, number, places)
    elif words is None:
        vocabulary = _choose_vocabulary(out, number, text)
    else:
        vocabulary = words
    write_text(out / VOCABULARY, "".join(f"{word}\n" for word in vocabulary))


# --- what workers do: pure functions from files to files ------------------------------------------
def count_shard(target: Path, texts: Sequence[tuple[str, str]], settings: TextSettings) -> None:
    """Counts the words of some texts, numbered as they come.

    The file's metadata hold the words, the number of texts with each, and how often it occurs."""
    ids = new_word_ids()
    titles, bodies = zip(*texts, strict=True)
    lengths, words, counts = count_bags(bodies, _analyzer(settings), ids)
    metadata = {
        b"words": "\n".join(ids).encode(),
        b"in_documents": np.bincount(words, minlength=len(ids)).astype(np.int64).tobytes(),
        b"total": np.bincount(words, counts, len(ids)).astype(np.int64).tobytes(),
    }
    strings = {"title": titles, "text": list(map(snippet, bodies))}
    _write(target, (lengths, words, counts), strings, metadata)


def index_shard(target: Path, counted: Path, places: int = 0) -> None:
    """Writes the bags of a counted shard over the vocabulary beside it, without other words; or
    over `places` hash values."""
    new_id = _new_ids(counted, places)
    parts: list[tuple[np.ndarray, ...]] = []
    strings: dict[str, list[str]] = {"title": [], "text": []}
    for row, batch in record_batches(counted):
        lengths, old_ids, counts = read_pairs(batch, counted, row)
        is_in = new_id[old_ids] >= 0
        document = np.repeat(np.arange(len(lengths)), lengths)[is_in]
        parts.append(_bags(document, new_id[old_ids][is_in], counts[is_in], len(lengths)))
        for name, column in strings.items():
            column.extend(batch.column(name).to_pylist())
    _write(target, tuple(np.concatenate(part) for part in zip(*parts, strict=True)), strings, {})


def _new_ids(counted: Path, places: int) -> np.ndarray:
    """The new id of each word of a counted shard; -1 if it is left out."""
    words = _summary(counted)[0]
    if places:
        return hash_words(words, places)
    ids = {word: i for i, word in enumerate(read_lines(counted.parent / VOCABULARY))}
    return np.array([ids.get(word, -1) for word in words], np.int64)


def hash_words(words: Iterable[str], places: int) -> np.ndarray:
    """The hash values of words, from 0 to `places` - 1: a function of their letters alone.

    >>> hash_words(["cat", "dog", "cat"], 1000).tolist()
    [939, 465, 939]
    """
    hashes = (hashlib.blake2b(word.encode(), digest_size=8).digest() for word in words)
    return np.array([int.from_bytes(digest, "little") % places for digest in hashes], np.int64)


def _bags(
    document: np.ndarray, words: np.ndarray, counts: np.ndarray, number: int
) -> tuple[np.ndarray, ...]:
    """Bags with each id once, in the order of the ids."""
    order = np.lexsort((words, document))
    document = document[order]
    words = words[order]
    counts = counts[order].astype(np.int64)
    is_first = np.ones(len(words), bool)
    is_first[1:] = (np.diff(document) != 0) | (np.diff(words) != 0)
    sums = np.add.reduceat(counts, np.flatnonzero(is_first)) if len(words) else counts
    return np.bincount(document[is_first], minlength=number), words[is_first], sums


_analyzer = functools.lru_cache(maxsize=1)(analyzer)  # made once for each worker


def _write(
    target: Path,
    bags: tuple[np.ndarray, ...],
    strings: Mapping[str, Sequence[str]],
    metadata: dict[bytes, bytes],
) -> None:
    arrow = require_extra("pyarrow")
    parquet = require_extra("pyarrow.parquet")
    offsets = np.concatenate([[0], np.cumsum(bags[0])]).astype(np.int32)
    lists = (arrow.ListArray.from_arrays(offsets, part.astype(np.int32)) for part in bags[1:])
    columns = dict(zip(("ids", "counts"), lists, strict=True))
    columns |= {name: arrow.array(list(column), arrow.string()) for name, column in strings.items()}
    table = arrow.table(columns).replace_schema_metadata(metadata)
    write_atomically(
        target, lambda file: parquet.write_table(table, file, write_page_checksum=True)
    )


def _summary(counted: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The words of a counted shard, the number of documents with each, and its occurrences."""
    metadata = require_extra("pyarrow.parquet").read_schema(counted).metadata
    words = metadata[b"words"].decode().split("\n") if metadata[b"words"] else []
    in_documents = np.frombuffer(metadata[b"in_documents"], np.int64)
    total = np.frombuffer(metadata[b"total"], np.int64)
    return words, in_documents, total


HASH = re.compile(r"hash:\s*(\d{1,8})\s*(?:\*\*\s*(\d{1,2}))?")


def _places(vocabulary: Any) -> int:
    """The number of places of a vocabulary by hash; 0 for other vocabularies."""
    if not (isinstance(vocabulary, str) and vocabulary.startswith("hash:")):
        return 0
    match = HASH.fullmatch(vocabulary)
    number = 0 if match is None else int(match[1]) ** int(match[2] or 1)
    if not 1 <= number <= MAX_WORDS:
        expected = f"hash: and a number from 1 to {MAX_WORDS:,}"
        remedy = "give 'hash:2**18', or a file of words by its path"
        raise fail("vocabulary", expected, repr(vocabulary), remedy)
    return number


# --- what one process does ------------------------------------------------------------------------
def _clear(out: Path) -> None:
    """Removes what is not needed once all shards are written."""
    for path in [*out.glob("counted-*"), out / BEGUN]:
        path.unlink(missing_ok=True)


def _is_done(out: Path, digest: str) -> bool:
    """Makes the folder; True if it has all shards already.

    Raises:
      DataError: the folder has other files, or shards of other arguments.
    """
    if (kind := path_kind(out)) not in ("none", "a folder"):
        raise fail(out, "a new folder", kind, "give another name")
    out.mkdir(parents=True, exist_ok=True)
    records = (out / name for name in (DONE, BEGUN))
    record = next((path for path in records if path.exists()), None)
    if record is None:
        if any(out.iterdir()):
            raise fail(out, "an empty folder", "one with files in it", "give a new folder")
        write_text(out / BEGUN, json.dumps({"made of": digest}))
    elif json.loads(record.read_text(encoding="utf-8")).get("made of") != digest:
        expected = "shards of these texts and settings"
        remedy = "give a new folder, or the same texts and settings to go on"
        raise fail(out, expected, "others, which were made or begun there", remedy)
    return record is not None and record.name == DONE


@contextlib.contextmanager
def _room(out: Path) -> Iterator[None]:
    """Turns the error of a full disk into one that says how to resume."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        remedy = "make room, and run the same again: it goes on where it was"
        raise fail(out, "room on the disk", f"none left ({error.strerror})", remedy) from error


def _run(
    executor: concurrent.futures.Executor | None,
    in_flight: int,
    progress: Callable[[str], None],
    done: str,
    task: Callable[..., None],
    jobs: Iterable[tuple[Any, ...]],
) -> int:
    """Calls `task` for every job whose file, its first argument, does not exist yet; returns the
    number of jobs. Memory holds no more jobs than are in flight."""
    number = 0
    running: set[concurrent.futures.Future] = set()
    finished = lambda: progress(f"shards {done}: {number - len(running)}")
    for job in jobs:
        number += 1
        if job[0].exists():
            continue
        if executor is None:
            task(*job)
            finished()
            continue
        running.add(executor.submit(_call_once, uuid.uuid4().hex, task, *job))
        while len(running) >= in_flight:
            running = _wait_for_one(running)
            finished()
    while running:
        running = _wait_for_one(running)
        finished()
    return number


def _call_once(name: str, task: Callable[..., None], *job: Any) -> None:
    """Calls `task(*job)`. The name makes the call unique: Dask remembers the outcome of a call with
    the same arguments, also that its workers died."""
    task(*job)


def _wait_for_one(running: set[concurrent.futures.Future]) -> set[concurrent.futures.Future]:
    """Waits until one call or more has ended; returns the running ones, or raises the error of an
    ended one."""
    done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
    try:
        for call in done:
            call.result()
    except Exception as error:
        if not _is_of_dead_workers(error):
            raise
        remedy = "run the same again: it goes on where it was; fewer workers need less memory"
        raise fail(
            "executor", "workers that live", "one that was killed, perhaps for memory", remedy
        ) from error
    return running


def _is_of_dead_workers(error: Exception) -> bool:
    """True if an executor gave up a call because its worker was killed. Dask gives up after several
    were; its error is told by name, as Dask need not be installed."""
    names = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__]
    is_broken = isinstance(error, concurrent.futures.BrokenExecutor)
    return is_broken or ("distributed", "KilledWorker") in names


def _shards(
    blocks: Iterator[list[tuple[str, str]]], characters: int
) -> Iterator[list[tuple[str, str]]]:
    """The documents in parts of at least `characters` characters."""
    part: list[tuple[str, str]] = []
    size = 0
    for document in itertools.chain.from_iterable(blocks):
        part.append(document)
        size += len(document[1])
        if size >= characters:
            yield part
            part = []
            size = 0
    if part:
        yield part


def _name_places(out: Path, number: int, places: int) -> list[str]:
    """A name for each place: the word with the highest count there in any one shard."""
    names = [f"#{i}" for i in range(places)]
    highest = np.zeros(places, np.int64)
    for i in range(number):
        words, _, total = _summary(out / COUNTED.format(i))
        for word, place, count in zip(words, hash_words(words, places), total, strict=True):
            if count > highest[place]:
                names[place] = word
                highest[place] = count
    return names


def _choose_vocabulary(out: Path, number: int, settings: TextSettings) -> tuple[str, ...]:
    """The vocabulary of all counted shards."""
    parquet = require_extra("pyarrow.parquet")
    ids = new_word_ids()
    totals = np.zeros((2, 0), np.int64)
    documents = 0
    for i in range(number):
        counted = out / COUNTED.format(i)
        words, in_documents, total = _summary(counted)
        places = np.array([ids[word] for word in words], np.int64)
        totals = np.pad(totals, ((0, 0), (0, len(ids) - totals.shape[1])))
        totals[:, places] += np.stack([in_documents, total])
        documents += parquet.read_metadata(counted).num_rows
    return choose_words(tuple(ids), totals[0], totals[1], documents, settings)
