"""Bags of words kept in a data folder: NAME.npz with NAME.vocab.txt beside it."""

from __future__ import annotations

import os
from pathlib import Path

from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.count_files import read_npz
from vijax.data.reading.checks import fail, nearest


def data_folder() -> Path:
    """The folder that the environment variable VIJAX_DATA names, or else ../shared/data beside the project.

    Raises:
      ValueError: there is none.
    """
    named = os.environ.get("VIJAX_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[4] / "shared" / "data"
    if not folder.is_dir():
        got = f"no folder at {folder}"
        raise fail("VIJAX_DATA", "a folder with NAME.npz and NAME.vocab.txt", got, "set it to the data folder's path")
    return folder


def load_bag_of_words(name: str) -> Corpus:
    """The corpus NAME of the data folder, with its vocabulary.

    Raises:
      ValueError: there is no data folder, or no such corpus in it (the message lists those there are).
    """
    folder = data_folder()
    known = sorted(path.name.removesuffix(".vocab.txt") for path in folder.glob("*.vocab.txt"))
    if name not in known:
        raise fail("name", f"a corpus of {folder}", repr(name), nearest(name, known))
    return read_npz(folder / f"{name}.npz", None)
