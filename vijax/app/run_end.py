"""What a run leaves: the posterior in an open format, and what its page shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from vijax import checkpoint
from vijax.app import blocks
from vijax.app.run_folder import read_json, write_json
from vijax.families import Product
from vijax.result import Fit


def write_end(folder: Path, shown: Iterable[blocks.Block], result: Fit, score: Any, seconds: float) -> None:
    """Writes posterior.npz, and result.json: status, steps, seconds, score, and the blocks of the page."""
    arrays = posterior_arrays(result.state)
    checkpoint.write_atomically(folder / "posterior.npz", lambda file: np.savez(file, allow_pickle=False, **arrays))
    write_json(
        folder / "result.json",
        {
            "status": str(result.status),
            "step": int(result.state.step),
            "skipped": result.num_skipped,
            "seconds": round(seconds, 2),
            "score": None if score is None else [score.mean, score.standard_error],
            "score_text": None if score is None else str(score),
            "blocks": blocks.to_json(shown),
        },
    )


def end_of(folder: Path) -> dict[str, Any] | None:
    """What `write_end` put into result.json; None while there is no end yet."""
    return read_json(folder / "result.json") if (folder / "result.json").is_file() else None


def posterior_arrays(state: Any) -> dict[str, np.ndarray]:
    """Natural parameters by variable and name (topics/concentration), and the hyperparameters as they stand."""
    q = state.posterior
    named: dict[str, Any] = dict(q.items()) if isinstance(q, Product) else {"sites": q}
    arrays = {
        f"{name}/{field.name}": np.asarray(getattr(family, field.name))
        for name, family in named.items()
        for field in dataclasses.fields(family)
    }
    return arrays | {f"hyper/{name}": np.asarray(value) for name, value in state.hyper.items()}
