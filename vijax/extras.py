"""Optional dependencies, imported at their first use; an error names the remedy."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from types import ModuleType

import vijax.same_name  # noqa: F401  (vijax/__init__.py may be another project's)

PACKAGES = {
    "sklearn": "scikit-learn",
    "contourpy": "matplotlib",
    "python_calamine": "python-calamine",
}
"""Module -> package, if they have different names."""


def missing(name: str, packages: str, extra: str) -> str:
    """The message about a module that is not installed, with the command that installs it.

    >>> missing("sklearn", "scikit-learn", "cli")
    'sklearn is needed for this and is not installed: pip install scikit-learn (in a clone: pip install -e ".[cli]")'
    """
    clone = f'in a clone: pip install -e ".[{extra}]"'
    return f"{name} is needed for this and is not installed: pip install {packages} ({clone})"


def require_extra(module: str, extra: str = "cli") -> ModuleType:
    """Imports an optional dependency. Warnings at its first import are hidden: they are about the
    package, and users of vijax can do nothing about them.

    Args:
      module: the module's dotted name, such as "sklearn.feature_extraction.text".
      extra: the extra of this package that lists it.

    Raises:
      ImportError: it is not installed; the message holds the install command.

    >>> require_extra("json").dumps([1])
    '[1]'
    """
    is_first = module not in sys.modules
    try:
        with warnings.catch_warnings(action="ignore") if is_first else contextlib.nullcontext():
            return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise ImportError(missing(name, PACKAGES.get(name, name), extra)) from error
