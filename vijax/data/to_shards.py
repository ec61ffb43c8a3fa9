"""`prepare` makes Parquet shards of texts that need not fit in memory, by as many workers as there
are.

Two passes over blocks of documents, each a pure function that reads and writes files:

    count    texts of block i          -> counted-i.bags      bags over the words of the block, which it lists
    index    counted-i.bags            -> part-i.parquet      the same bags over the chosen vocabulary

Between them one process adds up in how many documents each word is, and chooses the vocabulary.
Memory holds the words seen and a few blocks, never the documents. Files are written wholly or not
at all, so a run that was stopped goes on where it was."""

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

from vijax.data.corpora.shards import BEGUN, DONE, pairs_of, record_batches
from vijax.data.read import DEFAULT_SETTINGS, open_texts
from vijax.data.reading.checks import MAX_WORDS, Notes, fail
from vijax.data.reading.files import kind_of, read_lines, read_vocabulary
from vijax.data.reading.store import shard_paths
from vijax.data.tables.formats import Dialect, Separator
from vijax.data.texts.text import (
    TextSettings,
    analyzer,
    bags_of,
    blocks_of,
    kept_words,
    numbered_as_seen,
    settled,
    snippet,
    stop_words_of,
)
from vijax.extras import require_extra
from vijax.files import write_atomically, write_text

SHARD_CHARACTERS = 1 << 24
"""Characters of text in a shard, at least, but for the last."""
VOCABULARY, COUNTED = "vocabulary.txt", "counted-{:06}.bags"


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

    Called again with the same arguments after it was stopped, in whatever way, it goes on where it
    was.

    Args:
      source: file, folder or address of texts, as `vijax.data.read` takes them; or pairs (title,
        text) one by one, in the same order when it is called again.
      out: folder of the shards (`vijax.data.corpora.shards` says what is in them).
      column: the column of a table that has the text.
      format: format of a file whose name does not tell it.
      encoding: encoding of text files.
      separator: the letter between the cells of a csv.
      sheet: the sheet of a spreadsheet.
      text: settings by which text becomes words.
      vocabulary: words to keep, or a file of them; by default chosen by `text`. "hash:2**18" keeps
        all words in so many places, a word's being a hash of its letters, the same everywhere and
        always: for texts to which others will be added, prepared in the same way, whose words
        nobody knows yet. Words that share a place are one; it is named by the most frequent of a
        shard, and "#7" where none is.
      executor: anything with the interface of `concurrent.futures.Executor`: processes of this
        machine (`ProcessPoolExecutor`), or of a cluster (Dask's `client.get_executor()`), whose
        machines must see `out`. None works in this process. Dask gives a shard whose worker was
        killed to another.
      in_flight: shards that wait or are worked on at once; by default two for each processor of
          this machine.
      shard_characters: characters of text in a shard, at least. A worker holds one shard at a time.
      progress: function that is given a line after each shard.

    Returns:
      `out`.

    Raises:
      ValueError: no documents, a wrong setting, `out` holds something else, or the disk is full,
        after which it goes on where it was.

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
    where = str(source) if isinstance(source, str | Path) else "source"
    documents: Iterable[tuple[str, str]]
    documents, key = open_texts(
        source, column, format, Dialect(encoding, separator, sheet=sheet), notes
    )
    digest = hashlib.sha256(
        repr((key, text, words or places, shard_characters)).encode()
    ).hexdigest()
    with _room(out):
        if _is_done(out, digest):
            _clear(out)
            return out
        text, documents, language = settled(text, documents, words, where, notes)
        text = dataclasses.replace(
            text, stop_words=stop_words_of(text.stop_words)
        )  # a file is not on every machine
        run = functools.partial(
            _run, executor, in_flight or 2 * (os.cpu_count() or 1), progress or (lambda line: None)
        )
        parts = enumerate(_shards(blocks_of(documents, text, where, notes), shard_characters))
        number = run(
            "counted", count_shard, ((out / COUNTED.format(i), part, text) for i, part in parts)
        )
        if number == 0:
            raise fail(
                where,
                "one document or more",
                "none",
                "check the path, the file ending and the column",
            )
        if not (out / VOCABULARY).exists():
            chosen: Sequence[str]
            if places:
                chosen = _name_places(out, number, places)
            elif words is None:
                chosen = _choose_vocabulary(out, number, text)
            else:
                chosen = words
            write_text(out / VOCABULARY, "".join(f"{word}\n" for word in chosen))
        jobs = (
            (out / f"part-{i:06}.parquet", out / COUNTED.format(i), places) for i in range(number)
        )
        run("indexed", index_shard, jobs)
        if len(shard_paths(out)) != number:
            got = f"{len(shard_paths(out))} of an earlier call"
            remedy = "give a new folder: the source gives other texts now"
            raise fail(out, f"{number} shards", got, remedy)
        said = {"made of": digest, "shards": number, "language": language, "notes": notes.texts()}
        write_text(out / DONE, json.dumps(said, indent=1))
        _clear(out)
        return out


# --- what workers do: pure functions from files to files ------------------------------------------
def count_shard(target: Path, texts: Sequence[tuple[str, str]], settings: TextSettings) -> None:
    """Counts the words of some texts, under numbers of their own; the file's metadata have the
    words, the texts that each is in, and how often it occurs."""
    ids = numbered_as_seen()
    titles, bodies = zip(*texts, strict=True)
    lengths, words, counts = bags_of(bodies, _analyzer(settings), ids)
    said = {
        b"words": "\n".join(ids).encode(),
        b"in_documents": np.bincount(words, minlength=len(ids)).astype(np.int64).tobytes(),
        b"total": np.bincount(words, counts, len(ids)).astype(np.int64).tobytes(),
    }
    _write(
        target,
        (lengths, words, counts),
        {"title": titles, "text": list(map(snippet, bodies))},
        said,
    )


def index_shard(target: Path, counted: Path, places: int = 0) -> None:
    """Writes the bags of a counted shard over the vocabulary that lies beside it, without other
    words; or over so many places by hash."""
    new_id = _new_ids(counted, places)
    parts: list[tuple[np.ndarray, ...]] = []
    beside: dict[str, list[str]] = {"title": [], "text": []}
    for row, batch in record_batches(counted):
        lengths, old, counts = pairs_of(batch, counted, row)
        kept = new_id[old] >= 0
        document = np.repeat(np.arange(len(lengths)), lengths)[kept]
        parts.append(_bags(document, new_id[old][kept], counts[kept], len(lengths)))
        for name, strings in beside.items():
            strings.extend(batch.column(name).to_pylist())
    _write(target, tuple(np.concatenate(part) for part in zip(*parts, strict=True)), beside, {})


def _new_ids(counted: Path, places: int) -> np.ndarray:
    """The new id of each word of a counted shard; -1 where it is left out."""
    words = _summary(counted)[0]
    if places:
        return hash_words(words, places)
    ids = {word: i for i, word in enumerate(read_lines(counted.parent / VOCABULARY))}
    return np.array([ids.get(word, -1) for word in words], np.int64)


def hash_words(words: Iterable[str], places: int) -> np.ndarray:
    """The places of words by hash: a function of their letters alone.

    >>> hash_words(["cat", "dog", "cat"], 1000).tolist()
    [939, 465, 939]
    """
    hashes = (hashlib.blake2b(word.encode(), digest_size=8).digest() for word in words)
    return np.array([int.from_bytes(digest, "little") % places for digest in hashes], np.int64)


def _bags(
    document: np.ndarray, words: np.ndarray, counts: np.ndarray, number: int
) -> tuple[np.ndarray, ...]:
    """Bags in which each id stands once, in the order of the ids."""
    order = np.lexsort((words, document))
    document = document[order]
    words = words[order]
    counts = counts[order].astype(np.int64)
    is_first = np.ones(len(words), bool)
    is_first[1:] = (np.diff(document) != 0) | (np.diff(words) != 0)
    sums = np.add.reduceat(counts, np.flatnonzero(is_first)) if len(words) else counts
    return np.bincount(document[is_first], minlength=number), words[is_first], sums


_analyzer = functools.lru_cache(maxsize=1)(analyzer)  # a worker makes it once


def _write(
    target: Path,
    bags: tuple[np.ndarray, ...],
    beside: Mapping[str, Sequence[str]],
    said: dict[bytes, bytes],
) -> None:
    arrow = require_extra("pyarrow")
    parquet = require_extra("pyarrow.parquet")
    offsets = np.concatenate([[0], np.cumsum(bags[0])]).astype(np.int32)
    lists = (arrow.ListArray.from_arrays(offsets, part.astype(np.int32)) for part in bags[1:])
    columns = dict(zip(("ids", "counts"), lists, strict=True))
    columns |= {
        name: arrow.array(list(strings), arrow.string()) for name, strings in beside.items()
    }
    table = arrow.table(columns).replace_schema_metadata(said)
    write_atomically(
        target, lambda file: parquet.write_table(table, file, write_page_checksum=True)
    )


def _summary(counted: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The words of a counted shard, the documents with each, and its occurrences."""
    said = require_extra("pyarrow.parquet").read_schema(counted).metadata
    words = said[b"words"].decode().split("\n") if said[b"words"] else []
    return (
        words,
        np.frombuffer(said[b"in_documents"], np.int64),
        np.frombuffer(said[b"total"], np.int64),
    )


HASH = re.compile(r"hash:\s*(\d{1,8})\s*(?:\*\*\s*(\d{1,2}))?")


def _places(vocabulary: Any) -> int:
    """The number of places of a vocabulary by hash; 0 of another."""
    if not (isinstance(vocabulary, str) and vocabulary.startswith("hash:")):
        return 0
    found = HASH.fullmatch(vocabulary)
    number = 0 if found is None else int(found[1]) ** int(found[2] or 1)
    if not 1 <= number <= MAX_WORDS:
        expected = f"hash: and a number from 1 to {MAX_WORDS:,}"
        raise fail(
            "vocabulary",
            expected,
            repr(vocabulary),
            "give 'hash:2**18', or a file of words by its path",
        )
    return number


# --- what one process does ------------------------------------------------------------------------
def _clear(out: Path) -> None:
    """Removes what is needed no more once all shards are there."""
    for path in [*out.glob("counted-*"), out / BEGUN]:
        path.unlink(missing_ok=True)


def _is_done(out: Path, digest: str) -> bool:
    """Makes the folder, or looks at what is in it: True where all is done. DataError where it is of
    other arguments."""
    if (kind := kind_of(out)) not in ("none", "a folder"):
        raise fail(out, "a new folder", kind, "give another name")
    out.mkdir(parents=True, exist_ok=True)
    begun = next((path for name in (DONE, BEGUN) if (path := out / name).exists()), None)
    if begun is None:
        if any(out.iterdir()):
            raise fail(out, "an empty folder", "one with files in it", "give a new folder")
        write_text(out / BEGUN, json.dumps({"made of": digest}))
    elif json.loads(begun.read_text(encoding="utf-8")).get("made of") != digest:
        remedy = "give a new folder, or the same texts and settings to go on"
        raise fail(
            out,
            "shards of these texts and settings",
            "others, which were made or begun there",
            remedy,
        )
    return begun is not None and begun.name == DONE


@contextlib.contextmanager
def _room(out: Path) -> Iterator[None]:
    """Turns the error of a full disk into one that says how to go on."""
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
    """Calls a function of files for every job whose file, its first argument, is not there; returns
    how many jobs there are. Memory holds no more jobs than are in flight."""
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
    """Calls a function. The name is of this call alone: Dask remembers the outcome of a call with
    the same arguments, the death of its workers too."""
    task(*job)


def _wait_for_one(running: set[concurrent.futures.Future]) -> set[concurrent.futures.Future]:
    """The calls that are left when one or more have ended. Raises what they raised."""
    ended, left = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
    try:
        for each in ended:
            each.result()
    except Exception as error:
        if not _is_of_dead_workers(error):
            raise
        remedy = "run the same again: it goes on where it was; fewer workers need less memory"
        raise fail(
            "executor", "workers that live", "one that was killed, perhaps for memory", remedy
        ) from error
    return left


def _is_of_dead_workers(error: Exception) -> bool:
    """Tells whether an executor has given a call up because its worker was killed. Dask does so
    when several were; it need not be installed to be asked."""
    names = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__]
    return (
        isinstance(error, concurrent.futures.BrokenExecutor)
        or ("distributed", "KilledWorker") in names
    )


def _shards(
    blocks: Iterator[list[tuple[str, str]]], characters: int
) -> Iterator[list[tuple[str, str]]]:
    """The documents in parts of at least so many characters."""
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
    """A name for each place: the word that is most frequent there, of those of one shard."""
    names = [f"#{i}" for i in range(places)]
    most = np.zeros(places, np.int64)
    for i in range(number):
        words, _, total = _summary(out / COUNTED.format(i))
        for word, place, count in zip(words, hash_words(words, places), total, strict=True):
            if count > most[place]:
                names[place], most[place] = word, count
    return names


def _choose_vocabulary(out: Path, number: int, settings: TextSettings) -> tuple[str, ...]:
    """The vocabulary of all counted shards."""
    ids = numbered_as_seen()
    totals = np.zeros((2, 0), np.int64)
    documents = 0
    for i in range(number):
        words, in_documents, total = _summary(out / COUNTED.format(i))
        places = np.array([ids[word] for word in words], np.int64)
        totals = np.pad(totals, ((0, 0), (0, len(ids) - totals.shape[1])))
        totals[:, places] += np.stack([in_documents, total])
        documents += (
            require_extra("pyarrow.parquet").read_metadata(out / COUNTED.format(i)).num_rows
        )
    return kept_words(tuple(ids), totals[0], totals[1], documents, settings)
