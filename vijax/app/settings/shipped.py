"""The configurations that come with vijax, by name: `vijax fit lda`, `vijax fit gmm_full`."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from pathlib import Path

from vijax.app.settings.typed_toml import ConfigError

USUAL: Mapping[str, str] = {
    "lda": "lda_docstrings",
    "plsa": "plsa_2",
    "mixture": "gmm_full",
    "dp_mixture": "dp_mixture_blei_jordan",
    "factor_analysis": "ppca",
    "ard_regression": "ard",
    "hierarchical_regression": "hierarchical_linear",
    "gp": "gp_classification",
}
"""Of each model whose name no configuration has, the one that stands for it."""


@functools.cache
def shipped() -> dict[str, Path]:
    """All of them by name: in the installed package, or beside it in a clone.

    Raises:
      ConfigError: they are not there.
    """
    package = Path(__file__).resolve().parents[2]
    folders = [folder for folder in (package / "configs", package.parent / "configs") if folder.is_dir()]
    if not folders:
        raise ConfigError(f"{package / 'configs'}: the configurations of vijax are missing; install it again")
    return {path.stem: path for path in sorted(folders[0].glob("*.toml"))}


def find(given: str | Path) -> Path:
    """The configuration that a user names: a file, or one that comes with vijax, by its own name or its model's.

    Raises:
      ConfigError: there is neither.

    >>> find("lda").name
    'lda_docstrings.toml'
    """
    path = Path(given)
    if path.is_file():
        return path
    known, name = shipped(), path.stem
    if path.suffix in ("", ".toml") and str(path.parent) in (".", "configs"):
        name = USUAL.get(name, name)
        if name in known:
            return known[name]
    if path.suffix not in ("", ".toml") or path.is_dir():
        return path  # what it is instead is said by who reads it
    raise ConfigError(
        f"{given}: there is no such file, and no configuration of that name comes with vijax{_nearest(path.stem)}. "
        "`vijax configs` lists those that do"
    )


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, [*shipped(), *USUAL], n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
