"""Optional dependencies: imported where they are used, and named with their remedy when they are missing."""

from __future__ import annotations

import importlib
from types import ModuleType


def require_extra(module: str, extra: str = "cli") -> ModuleType:
    """Imports an optional dependency.

    Args:
      module: the module's dotted name, "sklearn.feature_extraction.text" say.
      extra: the extra of vijax that installs it.

    Raises:
      ImportError: it is not installed; the message holds the install command.

    >>> require_extra("json").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        message = f'{name} is needed for this and is not installed: pip install "vijax[{extra}]"'
        raise ImportError(message) from error
