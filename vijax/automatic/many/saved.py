"""Files of `vijax.glmm.many`, read with all their shapes checked."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from vijax.automatic.many.fits import FORMAT, OF_RESPONSES, OF_ROWS, TEXTS
from vijax.automatic.many.weighted_draws import OF_UNKNOWNS
from vijax.files import check_declared_sizes
from vijax.models.formulas.laws import LAWS

WRITTEN = "ManyFits.save writes it."
ABOUT: dict[str, Any] = {
    "level": float,
    "integrals": str,
    "formula": str,
    "family": str,
    "left_out": str,
    "quantile": (float, type(None)),
    "nodes": (int, type(None)),
    "priors": (str, dict, type(None)),
    "precision_column": (str, type(None)),
    "marks": dict,
}
"""The entries of a file beside its arrays, with their types."""


def read_saved_fits(path: str | Path) -> dict[str, Any]:
    """The fields of the fits in a file.

    Raises:
      ValueError: a file of something else, or one that was cut or changed.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            check_declared_sizes(file)
            with np.load(file, allow_pickle=False) as arrays:
                contents = {name: arrays[name] for name in arrays.files}
    except (zipfile.BadZipFile, EOFError, KeyError, AttributeError, ValueError) as error:
        raise _refuse(path, "of something else, or cut") from error
    about = _read_about(path, contents.pop("about", None))
    lacking = [name for name in (*TEXTS, *OF_RESPONSES, *OF_ROWS) if name not in contents]
    _check(path, not lacking, f"without {lacking}")
    for name in TEXTS:
        is_texts = contents[name].dtype.kind == "U" and contents[name].ndim == 1
        _check(path, is_texts, f"whose {name!r} are no texts")
    for name in (*OF_RESPONSES, *OF_ROWS):
        _check(path, contents[name].dtype.kind == "f", f"whose {name!r} are no numbers")
    fields = {name: contents[name] for name in (*OF_RESPONSES, *OF_ROWS)}
    texts: dict[str, Any] = {name: tuple(contents[name].tolist()) for name in TEXTS}
    _check_shapes(path, texts, fields)
    return {**about, **texts, **fields}


def _read_about(path: Path, text: Any) -> dict[str, Any]:
    try:
        about = json.loads(str(text))
    except ValueError:
        about = None
    is_own = isinstance(about, dict) and str(about.get("format")).startswith("vijax many ")
    _check(path, is_own, "of something else")
    is_known = about.pop("format") == FORMAT
    _check(
        path, is_known, "of another version of vijax", "Fit again, or read it with that version."
    )
    for name, kinds in ABOUT.items():
        _check(path, name in about and isinstance(about[name], kinds), f"without {name!r}")
    is_changed = about.keys() != ABOUT.keys() or about["family"] not in LAWS
    is_changed |= not 0 < about["level"] < 1
    is_changed |= about["marks"].keys() != {"table", "responses"}
    _check(path, not is_changed, "that was changed")
    return about


def _check_shapes(path: Path, texts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    num_responses, num_names = len(texts["responses"]), len(texts["names"])
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(OF_RESPONSES, (num_responses,))
    shapes |= dict.fromkeys(OF_UNKNOWNS, (num_responses, num_names))
    shapes["covariance"] = (num_responses, num_names, num_names)
    shapes["weights"] = (arrays["weights"].size,)
    shapes["precisions"] = (0,)
    if arrays["precisions"].size:
        shapes["precisions"] = shapes["weights"]
    for name, shape in shapes.items():
        actual = f"whose {name!r} have the shape {arrays[name].shape}, not {shape}"
        _check(path, arrays[name].shape == shape, actual)
    _check(path, len(texts["obstacles"]) == num_responses, "whose 'obstacles' were cut")
    strange = [name for name in texts["coefficients"] if name not in texts["names"]]
    _check(path, not strange, f"whose 'names' lack {strange}")
    for name in ("responses", "names", "coefficients"):
        _check(path, len(set(texts[name])) == len(texts[name]), f"with one of {name!r} twice")


def _check(path: Path, holds: Any, actual: str, remedy: str = WRITTEN) -> None:
    if not holds:
        raise _refuse(path, actual, remedy)


def _refuse(path: Path, actual: str, remedy: str = WRITTEN) -> ValueError:
    expected = "path: expected fits of vijax.glmm.many"
    return ValueError(f"{expected}, got {path}, a file {actual}. {remedy}")
