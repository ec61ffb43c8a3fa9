"""MatrixMarket files of counts (Boisvert, Pozo and Remington 1996).

They are read without SciPy, whose reader ends the whole process at some damaged ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.checks import check_num_documents, check_vocab_size, fail, whole_numbers
from vijax.data.reading.files import line_blocks, quoted, read_vocabulary

BANNER = "%%MatrixMarket matrix coordinate (or array) integer (or real, pattern) general"
BLOCK_LINES = 1 << 16
EXPECTED = "a whole MatrixMarket file"


def read_matrix_market(path: Path, vocabulary: object, folder: Path | None = None) -> Corpus:
    """A MatrixMarket file (documents, words), .mtx or .mtx.gz."""
    import scipy.sparse

    words = read_vocabulary(vocabulary, path.with_suffix(".vocab.txt"))  # type: ignore[arg-type]
    lines = _lines(path)
    dense, width = _banner(path, *next(lines, (1, b"")))
    number, line = next(lines, (2, b""))
    shape = _sizes(path, number, line, 2 if dense else 3)
    entries = shape[0] * shape[1] if dense else shape[2]
    numbers = np.concatenate([np.zeros((0, width)), *_blocks(path, lines, width)])
    if len(numbers) != entries:
        got = f"{len(numbers):,} entries where line {number} announces {entries:,}"
        raise fail(path, EXPECTED, got, "fetch the file again")
    if dense:
        return Corpus.from_counts(numbers.reshape(shape[1], shape[0]).T, words, where=str(path))
    rows, columns = (_places(path, numbers[:, axis], shape[axis], what) for axis, what in enumerate(("row", "column")))
    values = numbers[:, 2] if width == 3 else np.ones(entries)
    return Corpus.from_counts(scipy.sparse.coo_matrix((values, (rows, columns)), shape[:2]), words, where=str(path))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers, but for empty ones and comments below the first."""
    for first, lines in line_blocks(path):
        for number, line in enumerate(lines, first):
            if number == 1 or (line.strip() and not line.startswith(b"%")):
                yield number, line


def _banner(path: Path, number: int, line: bytes) -> tuple[bool, int]:
    """Whether all entries are there, column by column, and how many numbers each has."""
    start, kind, layout, field, symmetry = [*line.lower().split(), b"", b"", b"", b"", b""][:5]
    right = (start, kind, symmetry) == (b"%%matrixmarket", b"matrix", b"general")
    if not right or layout not in (b"coordinate", b"array") or field not in (b"integer", b"real", b"pattern"):
        raise fail(f"{path}:{number}", BANNER, quoted(line), "save the counts by scipy.io.mmwrite(symmetry='general')")
    if layout == b"array":
        return True, 1
    return False, 2 if field == b"pattern" else 3


def _sizes(path: Path, number: int, line: bytes, length: int) -> list[int]:
    parts = line.split()
    if len(parts) != length or not all(part.isdigit() and len(part) <= 18 for part in parts):
        names = "rows, columns" + (", entries" if length == 3 else "")
        raise fail(f"{path}:{number}", f"{length} whole numbers: {names}", quoted(line), "correct the line")
    sizes = [int(part) for part in parts]
    check_num_documents(sizes[0], f"{path}:{number}")
    check_vocab_size(sizes[1], f"{path}:{number}")
    return sizes


def _blocks(path: Path, lines: Iterator[tuple[int, bytes]], width: int) -> Iterator[np.ndarray]:
    """The entries, (entries, width), some thousand lines at a time."""
    while kept := list(itertools.islice(lines, BLOCK_LINES)):
        yield _numbers(path, kept, width)


def _numbers(path: Path, kept: list[tuple[int, bytes]], width: int) -> np.ndarray:
    """The entries of some lines; the line of a fault is looked for only if there is one."""
    try:
        numbers = np.array(b" ".join(line for _, line in kept).split(), dtype="S").astype(np.float64)
        if len(numbers) == width * len(kept):
            return numbers.reshape(-1, width)
    except ValueError:
        pass
    number, line = next(((n, line) for n, line in kept if not _is_entry(line, width)), kept[0])
    raise fail(f"{path}:{number}", f"{EXPECTED}, with {width} numbers in a line", quoted(line), "correct the line")


def _is_entry(line: bytes, width: int) -> bool:
    try:
        return len([float(part) for part in line.split()]) == width
    except ValueError:
        return False


def _places(path: Path, numbers: np.ndarray, most: int, what: str) -> np.ndarray:
    places = whole_numbers(numbers, np.int64, f"{path}, {what}s")
    outside = (places < 1) | (places > most)
    if outside.any():
        raise fail(path, f"{what}s from 1 to {most}", str(places[outside][0]), "correct the entry or the sizes")
    return places - 1
