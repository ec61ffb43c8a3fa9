"""The explored topics of a page, from a run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.app.explorer.documents import Documents, documents_of
from vijax.app.explorer.embedded import Explored
from vijax.app.explorer.groups import Grouped, grouped
from vijax.app.explorer.words import Words, words_of, words_of_blocks
from vijax.app.page import blocks
from vijax.app.rows.doc_topics import beside, read_doc_topics, read_excerpts, written_again
from vijax.app.runs.results import excerpts_path, results_path, sample_path
from vijax.app.runs.run_end import read_posterior
from vijax.app.runs.run_folder import read_facts
from vijax.app.settings.config import Config, ConfigError

CONCENTRATION = "topics/concentration"
"""The name in posterior.npz of the Dirichlet parameters of the topics' words."""


def explored_of(
    folder: Path, config: Config, block: blocks.Topics, tokens: int | None, concentration: np.ndarray | None
) -> Explored | None:
    """The explored topics of the page of a run; None for a block without topics.

    Args:
      folder: folder of the run.
      config: its settings.
      block: the block of its topics.
      tokens: number of words of the training documents.
      concentration: concentration of the topics' words, for a run that has not ended; else posterior.npz is read.

    Raises:
      ConfigError: a file of the run is damaged, or `page.by` names no column.
    """
    if not block.topics:
        return None
    words = _words(folder, config, block, concentration)
    whole, sample = results_path(folder, config), sample_path(folder, config)
    path = whole if whole.is_file() else sample
    columns = read_doc_topics(path) if concentration is None and path.is_file() else None
    size = len(block.topics)
    if columns is not None and f"share_{size - 1}" not in columns:
        raise ConfigError(f"{path}: expected shares of {size} topics; {written_again(path)}")
    documents, groups = _documents(folder, config, columns), _groups(config, columns)
    found = Explored(block.topics, block.distances, words, tokens, documents, groups, config.name)
    return found if path == whole or columns is None else _of_sample(found, folder, len(columns["words"]))


def _of_sample(explored: Explored, folder: Path, size: int) -> Explored:
    """The explored topics with the number of all documents, of which the page knows only some."""
    facts = read_facts(folder)
    documents = explored.documents
    known = None if documents is None else documents._replace(total=facts["documents"] + facts["held_out"])
    return explored._replace(documents=known, sampled=size)


def _documents(folder: Path, config: Config, columns: Mapping[str, Sequence[Any]] | None) -> Documents | None:
    if columns is None:
        return None
    texts = read_excerpts(excerpts_path(folder)) if config.page.excerpts else []
    return documents_of(columns, texts, config.page.documents)


def _groups(config: Config, columns: Mapping[str, Sequence[Any]] | None) -> list[Grouped]:
    if columns is None:
        return []
    return grouped(columns, beside(columns), config.page.by, config.page.every)


def _words(folder: Path, config: Config, block: blocks.Topics, concentration: np.ndarray | None) -> Words:
    found = posterior_of(folder) if concentration is None else concentration
    path = folder / "vocabulary.txt"
    if found is None or not path.is_file():
        return words_of_blocks(block.topics)
    vocabulary = path.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")
    if found.shape != (len(block.topics), len(vocabulary)):
        raise ConfigError(
            f"{folder / 'posterior.npz'}: expected {len(block.topics)} topics of {len(vocabulary)} words, got an array "
            f"of shape {found.shape}; write both again: vijax resume {folder}"
        )
    return words_of(found, vocabulary, config.page.words)


def posterior_of(folder: Path) -> np.ndarray | None:
    """Concentrations of the topics' words, (K, V); None where the folder has none.

    Raises:
      ConfigError: the file is damaged.
    """
    if not (folder / "posterior.npz").is_file():
        return None
    found = read_posterior(folder).get(CONCENTRATION)
    return None if found is None else np.asarray(found, np.float64)
