"""Readers of files that hold counts: .npz, LDA-C and UCI docword. One function per format."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from vijax.data.corpora.build import CorpusBuilder
from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.checks import (
    INT32_MAX,
    MAX_WORDS,
    check_num_documents,
    check_offsets,
    check_vocab_size,
    check_vocabulary,
    check_word_ids,
    fail,
    integer_counts,
    whole_numbers,
)
from vijax.data.reading.files import line_blocks, quoted, read_vocabulary
from vijax.data.reading.guards import parsing
from vijax.data.tables.arrays import load_arrays

Vocabulary = str | Path | Sequence[str] | None


def read_npz(path: Path, vocabulary: Vocabulary, folder: Path | None = None) -> Corpus:
    """A SciPy sparse .npz, or one with the arrays `indptr`, `indices` and `counts`.

    The vocabulary is the array `vocabulary` of the file, or NAME.vocab.txt beside NAME.npz, unless another is given.
    """
    arrays = load_arrays(path)
    words = read_vocabulary(vocabulary, path.with_suffix(".vocab.txt"))
    if vocabulary is None and "vocabulary" in arrays:
        words = _own_words(path, arrays["vocabulary"], words)
    if {"indptr", "indices", "counts"} <= set(arrays):
        return _from_csr(path, arrays, words)
    if {"format", "shape", "data"} <= set(arrays):
        return _from_scipy_npz(path, arrays, words)
    expected = "the arrays indptr, indices and counts, or a matrix saved by scipy.sparse.save_npz"
    raise fail(path, expected, f"the arrays {', '.join(arrays)}", "save the counts by scipy.sparse.save_npz")


def _own_words(path: Path, array: np.ndarray, beside: tuple[str, ...] | None) -> tuple[str, ...]:
    """The words that a file of counts holds; a list beside it must not say otherwise."""
    where, remedy = f"{path}, vocabulary", "save it as an array of strings, one a column of the counts, in order"
    if array.ndim != 1 or array.dtype.kind not in "US":
        raise fail(where, "one axis of words", f"shape {array.shape}, dtype {array.dtype}", remedy)
    try:
        words = tuple(word.decode() if isinstance(word, bytes) else str(word) for word in array.tolist())
    except UnicodeDecodeError as error:
        raise fail(where, "words in UTF-8", str(error), remedy) from error
    if beside not in (None, words):
        got = f"others in {path.with_suffix('.vocab.txt')}"
        raise fail(where, "the same words as beside it", got, "remove one of the two, or pass vocabulary=")
    return words


def _from_scipy_npz(path: Path, arrays: dict[str, np.ndarray], words: tuple[str, ...] | None) -> Corpus:
    """SciPy looks at the values of its index arrays only when it is asked to; unsound ones can end the process."""
    import scipy.sparse

    for name in {"indices", "indptr", "row", "col", "offsets"} & set(arrays):
        whole_numbers(arrays[name], np.int64, f"{path}, {name}")
    shape = whole_numbers(arrays["shape"], np.int64, f"{path}, shape").tolist()
    if len(shape) != 2:
        raise fail(path, "a matrix (documents, words)", f"shape {shape}", "save one row per document")
    check_num_documents(shape[0], path)
    check_vocab_size(shape[1], path)
    with parsing(path, "a matrix saved by scipy.sparse.save_npz", "save it again by scipy.sparse.save_npz"):
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
        got = f"{len(indices)} indices, {counts.size} counts and a last offset of {indptr[-1]}"
        raise fail(path, "as many indices as counts", got, "save the file again")
    vocab_size = len(words) if words is not None else int(indices.max(initial=-1)) + 1
    check_word_ids(indices, vocab_size, path)
    check_vocab_size(vocab_size, path)
    builder = CorpusBuilder()
    builder.add(np.diff(indptr), indices, counts)
    return builder.finish(words, vocab_size)


# --- LDA-C ------------------------------------------------------------------------------------------------------
def read_lda_c(path: Path, vocabulary: Vocabulary, folder: Path | None = None) -> Corpus:
    """LDA-C: one document per line, `M word:count word:count ...` with M pairs, word ids from 0."""
    words = read_vocabulary(vocabulary, path.with_suffix(".vocab.txt"), path.parent / "vocab.txt")
    builder = CorpusBuilder(folder)
    for first, lines in line_blocks(path):
        lengths, indices, counts = _lda_c_block(path, first, lines)
        limit = MAX_WORDS if words is None else len(words)
        if (beyond := indices >= limit).any():
            pair = int(np.argmax(beyond))
            where = f"{path}:{first + int(np.searchsorted(np.cumsum(lengths), pair, side='right'))}"
            check_vocab_size(int(indices[pair]) + 1, f"{where}, word id {indices[pair]}")
            check_word_ids(indices[pair : pair + 1], limit, where)
        builder.add(lengths, indices, counts)
    return builder.finish(words)


def _lda_c_block(path: Path, first: int, lines: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengths, word ids and counts of the documents of some lines; the line of a fault is looked for only if any."""
    pairs = np.array([line.count(b":") for line in lines])
    try:
        numbers = np.array(b" ".join(lines).replace(b":", b" ").split(), dtype="S").astype(np.int64)
    except (ValueError, OverflowError):
        numbers = np.zeros(0, np.int64)
    heads = np.concatenate([[0], np.cumsum(1 + 2 * pairs)])
    whole = len(numbers) == heads[-1] and (numbers[heads[:-1]] == pairs).all() and (numbers >= 0).all()
    if not whole or (numbers > INT32_MAX).any():
        raise _lda_c_fault(path, first, lines)
    pair = np.delete(numbers, heads[:-1]).reshape(-1, 2)
    return pairs, pair[:, 0], pair[:, 1]


def _lda_c_fault(path: Path, first: int, lines: list[bytes]) -> ValueError:
    number, line = _first_line(lines, first, lambda line: not _is_lda_c(line))
    expected = f"M word:count ... with M pairs of whole numbers from 0 to {INT32_MAX}"
    remedy = "correct the line; if many are like it, this is another format: pass format="
    return fail(f"{path}:{number}", expected, quoted(line), remedy)


def _is_lda_c(line: bytes) -> bool:
    head, *pairs = line.split() or [b""]
    parts = [pair.split(b":") for pair in pairs]
    right = all(len(p) == 2 and all(map(_is_int32, p)) for p in parts)
    return _is_int32(head) and int(head) == len(pairs) and right


def _is_int32(text: bytes) -> bool:
    """Whether digits are a number from 0 to 2^31 - 1; Python reads a few thousand of them at most."""
    return text.isdigit() and len(text) < 100 and int(text) <= INT32_MAX


def _first_line(lines: list[bytes], first: int, bad: Callable[[bytes], bool]) -> tuple[int, bytes]:
    """Number and text of the first bad line, the lines being numbered from `first`."""
    return next(((number, line) for number, line in enumerate(lines, first) if bad(line)), (first, lines[0]))


# --- UCI --------------------------------------------------------------------------------------------------------
def read_uci(path: Path, vocabulary: Vocabulary, folder: Path | None = None) -> Corpus:
    """UCI "bag of words": three lines D, W, NNZ, then `document word count` per line, from 1, sorted by document.

    The vocabulary of docword.NAME.txt(.gz) is vocab.NAME.txt beside it unless another is given.
    """
    beside = path.with_name(path.name.removesuffix(".gz").replace("docword", "vocab", 1))
    words = read_vocabulary(vocabulary, *[b for b in [beside] if b.name != path.name.removesuffix(".gz")])
    builder = CorpusBuilder(folder)
    blocks = line_blocks(path)
    _, beginning = next(blocks, (1, []))
    documents, vocab_size, entries = _uci_header(path, beginning[:3])
    if words is not None:
        check_vocabulary(words, vocab_size, f"{path}, vocabulary")
    done = 0
    for line, lines in itertools.chain([(4, beginning[3:])], blocks):
        triples = _uci_block(path, line, lines, documents, vocab_size)
        builder.add_pairs(triples[:, 0] - 1, triples[:, 1] - 1, triples[:, 2])
        done += len(triples)
    if done != entries:
        raise fail(path, f"{entries} entries, as line 3 says", f"{done}", "the file is cut short: fetch it again")
    return builder.finish(words, vocab_size, documents)


def _uci_header(path: Path, head: list[bytes]) -> tuple[int, ...]:
    for number, text in enumerate([*head, b"", b"", b""][:3], 1):
        if not text.isdigit() or len(text) > 18:
            remedy = "the first three lines are the numbers of documents, words and entries"
            raise fail(f"{path}:{number}", "a whole number", quoted(text), remedy)
    check_num_documents(int(head[0]), f"{path}:1")
    check_vocab_size(int(head[1]), f"{path}:2")
    return tuple(map(int, head))


def _uci_block(path: Path, line: int, lines: list[bytes], documents: int, vocab_size: int) -> np.ndarray:
    """The triples of some lines, checked; the line of a fault is looked for only if there is one."""
    try:
        triples = np.array(b" ".join(lines).split(), dtype="S").astype(np.int64).reshape(-1, 3)
    except (ValueError, OverflowError):
        triples = np.zeros((0, 3), np.int64)
    document, word, count = triples.T
    whole = len(triples) == len(lines) and (document >= 1).all() and (document <= documents).all()
    whole = whole and (word >= 1).all() and (word <= vocab_size).all()
    whole = whole and (count >= 0).all() and (count <= INT32_MAX).all()
    if not whole:
        raise _uci_fault(path, line, lines, documents, vocab_size)
    if (backwards := np.diff(document) < 0).any():
        where = f"{path}:{line + 1 + int(np.argmax(backwards))}"
        raise fail(where, "lines sorted by document", "an earlier document", f"sort them: sort -s -n -k1,1 {path}")
    return triples


def _uci_fault(path: Path, first: int, lines: list[bytes], documents: int, vocab_size: int) -> ValueError:
    limits = (range(1, documents + 1), range(1, vocab_size + 1), range(1 << 31))

    def bad(line: bytes) -> bool:
        parts = line.split()
        numbers = len(parts) == 3 and all(map(_is_int32, parts))
        return not numbers or any(int(part) not in limit for part, limit in zip(parts, limits, strict=True))

    number, line = _first_line(lines, first, bad)
    expected = f"'document word count' with document 1..{documents}, word 1..{vocab_size}, whole count of 0 or more"
    return fail(f"{path}:{number}", expected, quoted(line), "correct the line")
