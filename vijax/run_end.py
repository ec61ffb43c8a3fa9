"""What a run leaves: the posterior in an open format, its topics, and what a reader needs of the documents."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from vijax import checkpoint
from vijax.assemble import Data
from vijax.result import Fit
from vijax.run_folder import write_json
from vijax.summary import Document, typical_rows

MOST_READ = 2000
"""At most so many documents are searched for typical ones."""


def write_end(folder: Path, result: Fit, data: Data, score: Any, seconds: float, key: Any) -> None:
    """Writes posterior.npz, and result.json: status, steps, seconds, score, typical documents."""
    arrays = posterior_arrays(result.state)
    checkpoint.write_atomically(folder / "posterior.npz", lambda file: np.savez(file, allow_pickle=False, **arrays))
    write_json(
        folder / "result.json",
        {
            "status": str(result.status),
            "step": int(result.state.step),
            "seconds": round(seconds, 2),
            "score": None if score is None else [score.mean, score.standard_error],
            "documents": typical_documents(result, data, key),
        },
    )


def posterior_arrays(state: Any) -> dict[str, np.ndarray]:
    """Natural parameters by variable and name (topics/concentration), and the hyperparameters as they stand."""
    arrays = {
        f"{name}/{field.name}": np.asarray(getattr(family, field.name))
        for name, family in state.posterior.items()
        for field in dataclasses.fields(family)
    }
    return arrays | {f"hyper/{name}": np.asarray(value) for name, value in state.hyper.items()}


def typical_documents(result: Fit, data: Data, key: Any) -> list[list[Document]]:
    """For each topic, the documents that are most of it, among `MOST_READ` spread over the training set."""
    corpus = data.train
    rows = np.unique(np.linspace(0, corpus.num_documents - 1, min(MOST_READ, corpus.num_documents)).astype(int))
    sample = corpus[rows]
    proportions = result.transform(sample, key=key)

    def document(row: int, k: int) -> Document:
        title = str(sample.titles[row]) if sample.titles else f"document {rows[row]}"
        excerpt = sample.texts[row] if sample.texts else _commonest_words(sample, row)
        return Document(title, excerpt, float(proportions[row, k]))

    typical = typical_rows(proportions, sample.tokens)
    return [[document(row, k) for row in chosen] for k, chosen in enumerate(typical)]


def _commonest_words(corpus: Any, row: int, number: int = 15) -> str:
    pairs = slice(corpus.indptr[row], corpus.indptr[row + 1])
    order = np.argsort(-corpus.counts[pairs], kind="stable")[:number]
    return " ".join(corpus.vocabulary[corpus.indices[pairs][i]] for i in order)
