"""A corpus as a folder of memory-mappable files.

indptr.npy indices.npy counts.npy   the documents vocabulary.txt                      one word per
line, line i (from 0) is word i titles.txt texts.txt                one line per document, with
where each line starts in *.offsets.npy meta.json                           sizes and notes; written
last, so a folder with it is complete checked.json                        sizes and times of the
files whose values were found right

The values are checked once, when the corpus is first opened, and again when a file changes: a word
id beyond the vocabulary would be looked up all the same, and give wrong numbers."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.data.corpora.csr import BLOCK_ENTRIES
from vijax.data.reading.checks import check_offsets, fail
from vijax.data.reading.files import check_regular, parsing, read_text
from vijax.files import write_text

ARRAYS = ("indptr", "indices", "counts")
STRINGS = ("titles", "texts")
REMEDY = "make the corpus folder again, by Corpus.save or by reading the documents again"
STAMP = "checked.json"
SETTLED_SECONDS = 1.0  # a file younger than this may change and keep its time


class Lines(Sequence):
    """The lines of a memory-mapped text file, as a sequence of strings, each read when it is used.

    Args:
      path: a UTF-8 file; `path` with the ending .offsets.npy holds the byte at which each line
        starts, and the size.
    """

    def __init__(self, path: Path):
        self._offsets = map_array(path.with_suffix(".offsets.npy"))
        check_regular(path)
        size = path.stat().st_size
        self._bytes = np.memmap(path, np.uint8, mode="r") if size else np.zeros(0, np.uint8)
        expected = int(self._offsets[-1]) if len(self._offsets) else 0
        if size != expected:
            raise fail(path, f"{expected} bytes", f"{size}", REMEDY)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, line: Any) -> Any:
        if isinstance(line, slice):
            return tuple(self[i] for i in range(*line.indices(len(self))))
        line = range(len(self))[line]
        line_bytes = self._bytes[self._offsets[line] : self._offsets[line + 1] - 1]
        return line_bytes.tobytes().decode(errors="replace")


class LinesWriter:
    """Writes the two files that `Lines` reads; a line break within a line becomes a space."""

    def __init__(self, path: Path):
        self._path = path
        self._file = path.open("wb")
        self._lengths: list[np.ndarray] = [np.zeros(1, np.int64)]

    def extend(self, lines: Iterable[str]) -> None:
        """Appends lines."""
        encoded = [" ".join(line.split()).encode(errors="replace") + b"\n" for line in lines]
        self._lengths.append(np.array([len(line) for line in encoded], np.int64))
        self._file.writelines(encoded)

    def close(self) -> None:
        """Ends the file and writes the offsets."""
        self._file.close()
        np.save(self._path.with_suffix(".offsets.npy"), np.concatenate(self._lengths).cumsum())


class ArrayWriter:
    """A one-dimensional .npy file that grows block by block; `close` writes its final header."""

    def __init__(self, path: Path, dtype: Any):
        self._file = path.open("wb")
        self._dtype = np.dtype(dtype)
        self._size = 0
        self._write_header()

    def _write_header(self) -> None:
        # NumPy pads headers, so that the header of a longer array fits in the same place.
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._size,),
        }
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, block: np.ndarray) -> None:
        """Appends the elements of `block`."""
        self._file.write(np.ascontiguousarray(block, self._dtype).data)
        self._size += len(block)

    def close(self) -> None:
        """Ends the file."""
        self._write_header()
        self._file.close()


def save(corpus: Any, folder: str | Path) -> Path:
    """Writes a `vijax.data.Corpus` to `folder`, which `load` reads."""
    folder = Path(folder)
    clear(folder)
    for name in ARRAYS:
        np.save(folder / f"{name}.npy", getattr(corpus, name))
    for name in STRINGS:
        if getattr(corpus, name) is not None:
            writer = LinesWriter(folder / f"{name}.txt")
            writer.extend(getattr(corpus, name))
            writer.close()
    sizes = corpus.num_documents, corpus.vocab_size
    finish(folder, *sizes, corpus.vocabulary, corpus.notes, corpus.language)
    return folder


def clear(folder: Path) -> None:
    """Makes the folder, or removes an older corpus from it: meta.json first, so that an incomplete
    corpus is never taken for one."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [f"{name}{ending}" for name in STRINGS for ending in (".txt", ".offsets.npy")]
    for name in ("meta.json", STAMP, "vocabulary.txt", *texts):
        (folder / name).unlink(missing_ok=True)


def finish(
    folder: Path,
    num_documents: int,
    vocab_size: int,
    vocabulary: Sequence[str] | None,
    notes: tuple,
    language: str = "",
) -> None:
    """Writes the vocabulary and, last, meta.json."""
    if vocabulary is not None:
        if broken := next((word for word in vocabulary if "\n" in word), None):
            raise fail("vocabulary", "words without line breaks", repr(broken), "rename the word")
        text = "".join(f"{word}\n" for word in vocabulary)
        (folder / "vocabulary.txt").write_text(text, encoding="utf-8")
    meta = {
        "format": "vijax corpus",
        "version": 1,
        "num_documents": num_documents,
        "vocab_size": vocab_size,
        "notes": list(notes),
        "language": language,
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")


def is_corpus_folder(folder: Path) -> bool:
    """True for a folder with a complete corpus."""
    return (folder / "meta.json").is_file() and (folder / "indptr.npy").is_file()


def load(folder: str | Path, trusted: bool = False) -> dict[str, Any]:
    """The fields of a corpus, with memory-mapped arrays and strings on disk.

    Args:
      folder: the folder that `save` wrote.
      trusted: True leaves out the check of the values, for a corpus just written from checked ones.
    """
    folder = Path(folder)
    if not is_corpus_folder(folder):
        expected = "a folder with meta.json, as Corpus.save writes it"
        raise fail(folder, expected, "none", "check the path, or save again")
    meta = _read_meta(folder / "meta.json")
    arrays = {name: map_array(folder / f"{name}.npy") for name in ARRAYS}
    lines = {
        name: Lines(folder / f"{name}.txt") for name in STRINGS if (folder / f"{name}.txt").exists()
    }
    _check_sizes(folder, meta, arrays, lines)
    if not trusted:
        check_once(folder, arrays, meta["vocab_size"])
    words = folder / "vocabulary.txt"
    vocabulary = tuple(read_text(words).split("\n")[:-1]) if words.exists() else None
    fields = {
        "vocabulary": vocabulary,
        "vocab_size": meta["vocab_size"],
        "notes": tuple(meta["notes"]),
        "language": meta.get("language", ""),
    }
    return {**arrays, **lines, **fields}


def map_array(path: Path) -> np.ndarray:
    """A .npy file of one axis of integers, memory-mapped."""
    check_regular(path)
    with parsing(path, "a whole .npy file", REMEDY):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind != "i":
        actual = "several arrays"
        if isinstance(array, np.ndarray):
            actual = f"shape {array.shape} of {array.dtype}"
        raise fail(path, "one axis of integers", actual, REMEDY)
    return array


def _read_meta(path: Path) -> dict[str, Any]:
    with parsing(path, "the JSON that Corpus.save writes", REMEDY):
        meta = json.loads(read_text(path))
    kinds = {"num_documents": int, "vocab_size": int, "notes": list}
    is_right = isinstance(meta, dict) and all(
        isinstance(meta.get(name), kind) for name, kind in kinds.items()
    )
    if is_right:
        texts = (*meta["notes"], meta.get("language", ""))
        is_right = meta["vocab_size"] >= 0 and all(isinstance(text, str) for text in texts)
    if not is_right:
        raise fail(path, f"numbers and notes: {', '.join(kinds)}", repr(meta)[:80], REMEDY)
    return meta


def _check_sizes(
    folder: Path, meta: dict, arrays: dict[str, np.ndarray], lines: dict[str, Lines]
) -> None:
    documents = meta["num_documents"]
    pairs = int(arrays["indptr"][-1]) if len(arrays["indptr"]) else -1
    expected = {
        "indptr": documents + 1,
        "indices": pairs,
        "counts": pairs,
        **dict.fromkeys(lines, documents),
    }
    actual = {name: len(array) for name, array in arrays.items()}
    actual |= {name: len(text) for name, text in lines.items()}
    if expected != actual:
        raise fail(folder, f"arrays of lengths {expected}", f"{actual}", REMEDY)


# --- values ---------------------------------------------------------------------------------------
def check_once(folder: Path, arrays: Mapping[str, np.ndarray], vocab_size: int) -> None:
    """Checks the values of the arrays, unless checked.json says that these files were found right.

    Raises:
      DataError: offsets that fall, a word id outside the vocabulary, or a count below 1; the
        message names the file.
    """
    # Sizes, times of data and of status, and inode numbers: one of them changes when a file does.
    status = {name: (folder / f"{name}.npy").stat() for name in arrays}
    files = {
        name: [s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino] for name, s in status.items()
    }
    stamp: dict[str, Any] = {"vocab_size": vocab_size, "files": files}
    if _read_stamp(folder) == stamp:
        return
    check_offsets(arrays["indptr"], folder / "indptr.npy")
    _check_range(arrays["indices"], 0, vocab_size - 1, "word ids", folder / "indices.npy")
    _check_range(arrays["counts"], 1, 2**31 - 1, "counts", folder / "counts.npy")
    newest = max(s.st_mtime_ns for s in status.values())
    if time.time_ns() - newest > SETTLED_SECONDS * 1e9:
        # A folder that cannot be written to is checked every time.
        with contextlib.suppress(OSError):
            write_text(folder / STAMP, json.dumps(stamp))


def _check_range(values: np.ndarray, low: int, high: int, noun: str, where: Path) -> None:
    """Checks some hundred thousand values at a time, in bounded memory."""
    for start in range(0, len(values), BLOCK_ENTRIES):
        block = values[start : start + BLOCK_ENTRIES]
        if block.min() < low or block.max() > high:
            place = int(np.argmax((block < low) | (block > high)))
            actual = f"{block[place]} at place {start + place}"
            raise fail(where, f"{noun} from {low} to {high}", actual, REMEDY)


def _read_stamp(folder: Path) -> Any:
    try:
        return json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
