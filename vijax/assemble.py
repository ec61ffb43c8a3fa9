"""From a configuration to the things it names: a corpus in two parts, an algorithm."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vijax import algorithms, estep, models, step_size
from vijax.algorithm import Algorithm
from vijax.config import TAKES, AlgorithmConfig, Config, DataConfig, ModelConfig
from vijax.data import Corpus
from vijax.data.split import split_over_seen_words

FULL_DATA = ("em", "map", "cavi")
"""Algorithms that take the whole data set at each step unless a batch size is given."""


class Data(NamedTuple):
    """Documents to learn from and documents to be scored on (None if none were held out), over one vocabulary."""

    train: Corpus
    test: Corpus | None

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words of both."""
        return tuple(self.train.vocabulary or ())


def load_data(config: DataConfig) -> Data:
    """The corpus, split; words that training documents lack are dropped, since no score of them could mean anything.

    Raises:
      ValueError: see `vijax.data.read`; or the corpus is too small to hold documents out.
    """
    corpus = with_words(read_corpus(config))
    if config.held_out == 0.0:
        return Data(corpus, None)
    return Data(*split_over_seen_words(corpus, config.held_out, config.split_seed))


def read_corpus(config: DataConfig) -> Corpus:
    """The documents that a [data] section names."""
    from vijax.data import TextSettings, read

    text = TextSettings(**{field.name: getattr(config, field.name) for field in dataclasses.fields(TextSettings)})
    if config.stop_words == "none":
        text = dataclasses.replace(text, stop_words=None)
    return read(
        config.path,
        vocabulary=config.vocabulary,
        column=config.column,
        format=None if config.format == "auto" else config.format,
        encoding=config.encoding,
        text=text,
        sha256=config.sha256,
    )


def read_for(vocabulary: Sequence[str], config: DataConfig) -> Corpus:
    """The documents that a [data] section names, over the vocabulary of a run: all of its words, and no others."""
    every_word = dataclasses.replace(config, min_df=1, max_df=1.0, max_vocabulary=2**31)
    return with_words(read_corpus(every_word)).with_vocabulary(vocabulary)


def with_words(corpus: Corpus) -> Corpus:
    """The corpus itself, or with its word ids as names where it knows no others."""
    if corpus.vocabulary is not None:
        return corpus
    return dataclasses.replace(corpus, vocabulary=tuple(f"word{i}" for i in range(corpus.vocab_size or 0)))


def fingerprint(data: Data) -> str:
    """A checksum of everything training sees, to tell that a run is resumed on the data it began with."""
    digest = hashlib.sha256("\n".join(data.vocabulary).encode())
    for _, indices, counts in data.train.blocks():
        digest.update(np.ascontiguousarray(indices, np.int32).data)
        digest.update(np.ascontiguousarray(counts, np.int64).data)
    digest.update(np.ascontiguousarray(data.train.indptr, np.int64).data)
    return digest.hexdigest()


def make_algorithm(config: Config, vocab_size: int) -> Algorithm:
    """The algorithm that [model] and [algorithm] describe."""
    chosen = config.algorithm
    arguments: dict[str, Any] = {"estep": _chosen("algorithm.estep", chosen.estep, estep), "learn": config.model.learn}
    if chosen.step_size.name != "default":
        arguments["step_size"] = _chosen("algorithm.step_size", chosen.step_size, step_size)
    return getattr(algorithms, chosen.name)(_model(config.model, vocab_size), **arguments, **_own(chosen))


def _model(config: ModelConfig, vocab_size: int) -> Any:
    return models.lda(config.num_topics, vocab_size, alpha=config.alpha, eta=config.eta)


def _own(config: AlgorithmConfig) -> dict[str, Any]:
    """Ramp and damping, where they were set."""
    own: dict[str, Any] = {} if config.damping is None else {"damping": config.damping}
    if config.ramp is None:
        return own
    if config.name == "ssvi":
        return own | {"sweeps_of_ramp": config.ramp}
    return own | {"ramp": step_size.ramp(config.ramp) if config.ramp else None}


def _chosen(table: str, config: Any, module: Any) -> Any:
    """Calls the constructor that a section's `name` names with the settings that were set of those it takes."""
    values = {name: getattr(config, name) for name in TAKES[table][config.name]}
    return getattr(module, config.name)(**{name: value for name, value in values.items() if value is not None})


def batch_size(config: Config, num_documents: int) -> int | None:
    """Documents per step: as set, or the default of the algorithm.

    Raises:
      ValueError: more were asked for than there are.
    """
    size = config.fit.batch_size
    if size is not None and size > num_documents:
        raise ValueError(f"fit.batch_size: expected at most the {num_documents} training documents, got {size}")
    if size is not None:
        return size
    return None if config.algorithm.name in FULL_DATA else min(256, num_documents)
