"""Readers of files of counts, one for each format: .npz, LDA-C, UCI docword and MatrixMarket."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.data.corpora.build import CorpusBuilder
from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.checks import (
    INT32_MAX,
    MAX_WORDS,
    DataError,
    check_num_documents,
    check_offsets,
    check_vocab_size,
    check_vocabulary,
    check_word_ids,
    fail,
    integer_counts,
    whole_numbers,
)
from vijax.data.reading.files import line_blocks, parsing, quote_line, read_vocabulary
from vijax.data.tables.formats import load_arrays

Vocabulary = str | Path | Sequence[str] | None


def read_npz(path: Path, vocabulary: Vocabulary, folder: Path | None = None) -> Corpus:
    """A SciPy sparse .npz, or one with the arrays `indptr`, `indices` and `counts`.

    The vocabulary is by default the array `vocabulary` of the file, or NAME.vocab.txt beside
    NAME.npz."""
    arrays = load_arrays(path)
    words = read_vocabulary(vocabulary, path.with_suffix(".vocab.txt"))
    if vocabulary is None and "vocabulary" in arrays:
        words = _own_words(path, arrays["vocabulary"], words)
    if {"indptr", "indices", "counts"} <= set(arrays):
        return _from_csr(path, arrays, words)
    if {"format", "shape", "data"} <= set(arrays):
        return _from_scipy_npz(path, arrays, words)
    expected = "the arrays indptr, indices and counts, or a matrix saved by scipy.sparse.save_npz"
    actual = f"the arrays {', '.join(arrays)}"
    raise fail(path, expected, actual, "save the counts by scipy.sparse.save_npz")


def _own_words(path: Path, array: np.ndarray, beside: tuple[str, ...] | None) -> tuple[str, ...]:
    """The words in a file of counts; a list of words beside it must be equal."""
    location = f"{path}, vocabulary"
    remedy = "save it as an array of strings, one a column of the counts, in order"
    if array.ndim != 1 or array.dtype.kind not in "US":
        raise fail(
            location, "one axis of words", f"shape {array.shape}, dtype {array.dtype}", remedy
        )
    try:
        words = tuple(
            word.decode() if isinstance(word, bytes) else str(word) for word in array.tolist()
        )
    except UnicodeDecodeError as error:
        raise fail(location, "words in UTF-8", str(error), remedy) from error
    if beside not in (None, words):
        actual = f"others in {path.with_suffix('.vocab.txt')}"
        remedy = "remove one of the two, or pass vocabulary="
        raise fail(location, "the same words as beside it", actual, remedy)
    return words


def _from_scipy_npz(
    path: Path, arrays: dict[str, np.ndarray], words: tuple[str, ...] | None
) -> Corpus:
    """SciPy checks its index arrays only on request; wrong ones can end the process."""
    import scipy.sparse

    for name in {"indices", "indptr", "row", "col", "offsets"} & set(arrays):
        whole_numbers(arrays[name], np.int64, f"{path}, {name}")
    shape = whole_numbers(arrays["shape"], np.int64, f"{path}, shape").tolist()
    if len(shape) != 2:
        expected = "a matrix (documents, words)"
        raise fail(path, expected, f"shape {shape}", "save one row per document")
    check_num_documents(shape[0], path, arrays["data"].size)
    check_vocab_size(shape[1], path)
    expected = "a matrix saved by scipy.sparse.save_npz"
    with parsing(path, expected, "save it again by scipy.sparse.save_npz"):
        matrix = scipy.sparse.load_npz(path)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        matrix = matrix.tocoo()
    return Corpus.from_counts(matrix, words, where=str(path))


def _from_csr(path: Path, arrays: dict[str, np.ndarray], words: tuple[str, ...] | None) -> Corpus:
    counts = integer_counts(arrays["counts"], path)
    indices = whole_numbers(arrays["indices"], np.int64, f"{path}, indices")
    indptr = whole_numbers(arrays["indptr"], np.int64, f"{path}, indptr")
    check_offsets(indptr, f"{path}, indptr")
    if counts.shape != indices.shape or len(indices) != indptr[-1]:
        actual = f"{len(indices)} indices, {counts.size} counts and a last offset of {indptr[-1]}"
        raise fail(path, "as many indices as counts", actual, "save the file again")
    vocab_size = len(words) if words is not None else int(indices.max(initial=-1)) + 1
    check_word_ids(indices, vocab_size, path)
    check_vocab_size(vocab_size, path)
    builder = CorpusBuilder()
    builder.add(np.diff(indptr), indices, counts)
    return builder.finish(words, vocab_size)


# --- LDA-C ----------------------------------------------------------------------------------------
def read_lda_c(path: Path, vocabulary: Vocabulary, folder: Path | None = None) -> Corpus:
    """LDA-C: one document per line, `M word:count word:count ...` with M pairs, word ids from 0."""
    words = read_vocabulary(vocabulary, path.with_suffix(".vocab.txt"), path.parent / "vocab.txt")
    builder = CorpusBuilder(folder)
    for first, lines in line_blocks(path):
        lengths, indices, counts = _lda_c_block(path, first, lines)
        limit = MAX_WORDS if words is None else len(words)
        if (beyond := indices >= limit).any():
            pair = int(np.argmax(beyond))
            location = (
                f"{path}:{first + int(np.searchsorted(np.cumsum(lengths), pair, side='right'))}"
            )
            check_vocab_size(int(indices[pair]) + 1, f"{location}, word id {indices[pair]}")
            check_word_ids(indices[pair : pair + 1], limit, location)
        builder.add(lengths, indices, counts)
    return builder.finish(words)


def _lda_c_block(
    path: Path, first: int, lines: list[bytes]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengths, word ids and counts of the documents of some lines. It searches for a wrong line
    only if some number is wrong."""
    pairs = np.array([line.count(b":") for line in lines])
    numbers = _numbers(b" ".join(lines).replace(b":", b" "), np.int64)
    heads = np.concatenate([[0], np.cumsum(1 + 2 * pairs)])
    is_right = (
        len(numbers) == heads[-1] and (numbers[heads[:-1]] == pairs).all() and (numbers >= 0).all()
    )
    if not is_right or (numbers > INT32_MAX).any():
        expected = f"M word:count ... with M pairs of whole numbers from 0 to {INT32_MAX}"
        remedy = "correct the line; if many are like it, this is another format: pass format="
        raise _wrong_line(path, enumerate(lines, first), _is_lda_c, expected, remedy)
    pair = np.delete(numbers, heads[:-1]).reshape(-1, 2)
    return pairs, pair[:, 0], pair[:, 1]


def _is_lda_c(line: bytes) -> bool:
    head, *pairs = line.split() or [b""]
    parts = [pair.split(b":") for pair in pairs]
    are_pairs = all(len(p) == 2 and all(map(_is_int32, p)) for p in parts)
    return _is_int32(head) and int(head) == len(pairs) and are_pairs


# --- UCI ------------------------------------------------------------------------------------------
def read_uci(path: Path, vocabulary: Vocabulary, folder: Path | None = None) -> Corpus:
    """UCI "bag of words": three lines D, W, NNZ, then `document word count` per line, from 1,
    sorted by document.

    By default the vocabulary of docword.NAME.txt(.gz) is vocab.NAME.txt beside it.
    """
    plain_name = path.name.removesuffix(".gz")
    beside = path.with_name(plain_name.replace("docword", "vocab", 1))
    words = read_vocabulary(vocabulary, *([] if beside.name == plain_name else [beside]))
    builder = CorpusBuilder(folder)
    blocks = line_blocks(path)
    _, first_lines = next(blocks, (1, []))
    documents, vocab_size, num_entries = _uci_header(path, first_lines[:3])
    if words is not None:
        check_vocabulary(words, vocab_size, f"{path}, vocabulary")
    num_read = 0
    for line, lines in itertools.chain([(4, first_lines[3:])], blocks):
        triples = _uci_block(path, line, lines, documents, vocab_size)
        num_read += len(triples)
        check_num_documents(int(triples[:, 0].max(initial=0)), f"{path}, document", num_read)
        builder.add_pairs(triples[:, 0] - 1, triples[:, 1] - 1, triples[:, 2])
    if num_read != num_entries:
        expected = f"{num_entries} entries, as line 3 says"
        raise fail(path, expected, f"{num_read}", "the file is cut short: fetch it again")
    return builder.finish(words, vocab_size, documents)


def _uci_header(path: Path, head: list[bytes]) -> tuple[int, ...]:
    for number, text in enumerate([*head, b"", b"", b""][:3], 1):
        if not text.isdigit() or len(text) > 18:
            remedy = "the first three lines are the numbers of documents, words and entries"
            raise fail(f"{path}:{number}", "a whole number", quote_line(text), remedy)
    check_num_documents(int(head[0]), f"{path}:1", int(head[2]))
    check_vocab_size(int(head[1]), f"{path}:2")
    return tuple(map(int, head))


def _uci_block(
    path: Path, line: int, lines: list[bytes], documents: int, vocab_size: int
) -> np.ndarray:
    """The triples of some lines, checked. It searches for a wrong line only if some number is
    wrong."""
    numbers = _numbers(b" ".join(lines), np.int64)
    triples = numbers[: len(numbers) // 3 * 3].reshape(-1, 3)
    document, word, count = triples.T
    is_right = (
        len(numbers) == 3 * len(lines) and (document >= 1).all() and (document <= documents).all()
    )
    is_right = is_right and (word >= 1).all() and (word <= vocab_size).all()
    is_right = is_right and (count >= 0).all() and (count <= INT32_MAX).all()
    if not is_right:
        limits = (range(1, documents + 1), range(1, vocab_size + 1), range(1 << 31))
        expected = (
            f"'document word count' with document 1..{documents}, word 1..{vocab_size}, whole "
            "count of 0 or more"
        )
        check = lambda text: _is_uci(text, limits)
        raise _wrong_line(path, enumerate(lines, line), check, expected, "correct the line")
    if (backwards := np.diff(document) < 0).any():
        location = f"{path}:{line + 1 + int(np.argmax(backwards))}"
        remedy = f"sort them: sort -s -n -k1,1 {path}"
        raise fail(location, "lines sorted by document", "an earlier document", remedy)
    return triples


def _is_uci(line: bytes, limits: tuple[range, ...]) -> bool:
    parts = line.split()
    are_numbers = len(parts) == 3 and all(map(_is_int32, parts))
    return are_numbers and all(
        int(part) in limit for part, limit in zip(parts, limits, strict=True)
    )


# --- MatrixMarket ---------------------------------------------------------------------------------
BANNER = "%%MatrixMarket matrix coordinate (or array) integer (or real, pattern) general"
BLOCK_LINES = 1 << 16
WHOLE = "a whole MatrixMarket file"


def read_matrix_market(path: Path, vocabulary: Vocabulary, folder: Path | None = None) -> Corpus:
    """MatrixMarket (Boisvert, Pozo and Remington 1996), (documents, words), .mtx or .mtx.gz.

    It is read without SciPy, whose reader ends the whole process on some damaged files.
    """
    import scipy.sparse

    words = read_vocabulary(vocabulary, path.with_suffix(".vocab.txt"))
    lines = _numbered_lines(path)
    is_dense, width = _banner(path, *next(lines, (1, b"")))
    number, line = next(lines, (2, b""))
    shape = _sizes(path, number, line, 2 if is_dense else 3)
    entries = shape[0] * shape[1] if is_dense else shape[2]
    blocks = iter(lambda: list(itertools.islice(lines, BLOCK_LINES)), [])
    parts = [np.zeros((0, width)), *(_read_entries(path, block, width) for block in blocks)]
    numbers = np.concatenate(parts)
    if len(numbers) != entries:
        actual = f"{len(numbers):,} entries where line {number} announces {entries:,}"
        raise fail(path, WHOLE, actual, "fetch the file again")
    check_num_documents(shape[0], f"{path}:{number}", entries)
    if is_dense:
        return Corpus.from_counts(numbers.reshape(shape[1], shape[0]).T, words, where=str(path))
    rows = _places(path, numbers[:, 0], shape[0], "row")
    columns = _places(path, numbers[:, 1], shape[1], "column")
    values = numbers[:, 2] if width == 3 else np.ones(entries)
    matrix = scipy.sparse.coo_matrix((values, (rows, columns)), shape[:2])
    return Corpus.from_counts(matrix, words, where=str(path))


def _numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers, without empty lines and, below the first, comments."""
    for first, lines in line_blocks(path):
        for number, line in enumerate(lines, first):
            if number == 1 or (line.strip() and not line.startswith(b"%")):
                yield number, line


def _banner(path: Path, number: int, line: bytes) -> tuple[bool, int]:
    """True if the matrix is dense, column by column; and the number of numbers in a line."""
    start, kind, layout, field, symmetry = [*line.lower().split(), b"", b"", b"", b"", b""][:5]
    is_general = (start, kind, symmetry) == (b"%%matrixmarket", b"matrix", b"general")
    is_layout = layout in (b"coordinate", b"array")
    if not is_general or not is_layout or field not in (b"integer", b"real", b"pattern"):
        remedy = "save the counts by scipy.io.mmwrite(symmetry='general')"
        raise fail(f"{path}:{number}", BANNER, quote_line(line), remedy)
    if layout == b"array":
        return True, 1
    return False, 2 if field == b"pattern" else 3


def _sizes(path: Path, number: int, line: bytes, length: int) -> list[int]:
    parts = line.split()
    if len(parts) != length or not all(part.isdigit() and len(part) <= 18 for part in parts):
        names = "rows, columns" + (", entries" if length == 3 else "")
        expected = f"{length} whole numbers: {names}"
        raise fail(f"{path}:{number}", expected, quote_line(line), "correct the line")
    sizes = [int(part) for part in parts]
    check_num_documents(sizes[0], f"{path}:{number}")
    check_vocab_size(sizes[1], f"{path}:{number}")
    return sizes


def _read_entries(path: Path, lines: list[tuple[int, bytes]], width: int) -> np.ndarray:
    """The entries of some numbered lines. It searches for a wrong line only if one is wrong."""
    numbers = _numbers(b" ".join(line for _, line in lines), np.float64)
    if len(numbers) != width * len(lines):
        check = lambda line: len(_numbers(line, np.float64)) == width
        expected = f"{WHOLE}, with {width} numbers in a line"
        raise _wrong_line(path, lines, check, expected, "correct the line")
    return numbers.reshape(-1, width)


def _places(path: Path, numbers: np.ndarray, most: int, noun: str) -> np.ndarray:
    places = whole_numbers(numbers, np.int64, f"{path}, {noun}s")
    is_outside = (places < 1) | (places > most)
    if is_outside.any():
        actual = str(places[is_outside][0])
        raise fail(path, f"{noun}s from 1 to {most}", actual, "correct the entry or the sizes")
    return places - 1


# --- lines and numbers ----------------------------------------------------------------------------
def _is_int32(text: bytes) -> bool:
    """True for the digits of a number from 0 to 2^31 - 1; Python reads a few thousand digits at
    most."""
    return text.isdigit() and len(text) < 100 and int(text) <= INT32_MAX


def _numbers(text: bytes, dtype: Any) -> np.ndarray:
    """The numbers in a text; none if one part of it is no number of this type."""
    try:
        return np.array(text.split(), dtype="S").astype(dtype)
    except (ValueError, OverflowError):
        return np.zeros(0, dtype)


def _wrong_line(
    path: Path,
    lines: Iterable[tuple[int, bytes]],
    is_right: Callable[[bytes], bool],
    expected: str,
    remedy: str,
) -> DataError:
    """The error for the first of some numbered lines that is wrong."""
    lines = list(lines)
    number, line = next(((number, line) for number, line in lines if not is_right(line)), lines[0])
    return fail(f"{path}:{number}", expected, quote_line(line), remedy)
