"""Documents in shards of which a run holds a sample in memory, for its page and its score; it reads
the others by parts."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Int

from vijax.app.settings.sections import DocumentData
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.sources.listing import Data
from vijax.app.sources.sampled import held_out_number
from vijax.data import Corpus
from vijax.data.corpora.storage import is_corpus_folder
from vijax.data.read import guess_format
from vijax.data.reading.files import naming
from vijax.data.reading.store import is_address
from vijax.data.streams.documents import Shards, shards
from vijax.data.streams.permutation import Permutation
from vijax.data.streams.rows import SPLIT
from vijax.files import local_path


@dataclasses.dataclass(frozen=True, eq=False)
class SampledDocuments(Corpus):
    """A sample of the training documents, in the order of the files.

    Attributes:
      whole: all of them, read by parts.
    """

    whole: Shards = dataclasses.field(kw_only=True)

    def __getitem__(self, rows: Any) -> Corpus:
        fields = [field.name for field in dataclasses.fields(Corpus)]
        plain = Corpus(**{name: getattr(self, name) for name in fields})
        return plain[rows]

    def word_counts(self) -> Int[np.ndarray, " words"]:
        """Occurrences of each word in all training documents."""
        return self.whole.sizes.words


def sampled_documents(section: DocumentData) -> Data | None:
    """The documents of shards, split; None without shards, or if all documents may be held in
    memory.

    Held-out documents are the first of a keyed permutation. Words that training documents lack are
    dropped, as for other documents; a second reading then finds the sizes.
    """
    if not _are_shards(section):
        return None
    documents = shards(section.path, section.vocabulary, held_bytes=section.held_mb << 20)
    total = documents.num_documents
    if total <= section.sample:
        return None
    if documents.vocabulary is None:
        words = tuple(f"word{i}" for i in range(documents.vocab_size))
        documents = dataclasses.replace(documents, vocabulary=words)
    number, remark = held_out_number(section, total)
    train, test = documents.split(number, section.split_seed) if number else (documents, None)
    if test is not None and not (is_used := train.sizes.words > 0).all():
        train, test = (part.select_words(np.flatnonzero(is_used)) for part in (train, test))
    rows = np.arange(train.num_documents)
    if len(rows) > section.sample:
        order = Permutation(train.num_documents, (section.split_seed, SPLIT + 1))
        rows = np.sort(order(np.arange(section.sample)))
    sample = train.take(rows)
    note = (
        f"There are {train.num_documents:,}, more than data.sample: the page is of {len(rows):,} "
        f"of them; the fit reads all by parts.{remark}"
    )
    fields = {field.name: getattr(sample, field.name) for field in dataclasses.fields(Corpus)}
    fields["notes"] = (*sample.notes, note)
    held_out = None if test is None else test.take(np.arange(number))
    return Data(SampledDocuments(**fields, whole=train), held_out)


def _are_shards(section: DocumentData) -> bool:
    if section.format not in ("auto", "shards") or section.path == "docstrings":
        return False
    if is_address(section.path):
        return True
    path = local_path(section.path)
    if path.is_dir() and is_corpus_folder(path):
        return False
    with naming(path):
        may_be = path.is_dir() or (path.suffix == ".parquet" and path.is_file())
        return may_be and (section.format == "shards" or guess_format(path) == "shards")


def check_by_parts(config: Any, data: Data) -> None:
    """Raises a `ConfigError` if documents cannot be read by parts."""
    listing = config.listing
    algorithm = config.algorithm
    number = data.whole.num_documents
    title = listing.source.columns[0]
    obstacles = {
        f"{listing.name} needs them all": listing.needs_rows,
        "page.by shows columns beside the text, which shards have none of": bool(config.page.by),
        "algorithm.warm_starts remembers something of each": getattr(
            algorithm, "warm_starts", False
        ),
        f"algorithm.name={algorithm.name} reads all of them at each step; algorithm.name=svi does "
        "not": (algorithm.name in ("em", "map", "cavi") and config.fit.batch_size is None),
    }
    for obstacle, is_so in obstacles.items():
        if is_so:
            total = number + (0 if data.test is None else data.test.num_documents)
            raise ConfigError(
                f"{config.data.path}: {total:,} {title}s are more than "
                f"data.sample={config.data.sample:,}, and so they are read by parts; but "
                f"{obstacle}. To make a corpus of all of them on this machine's disk, set "
                f"data.sample={total}"
            )
