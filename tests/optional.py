"""Packages that a test wants, and is skipped without."""

import importlib
from types import ModuleType

import pytest


def tfp_adapter() -> ModuleType:
    """`vijax.adapters.tfp`; skips the test, or the file, without a TFP that imports. (A module that
    failed once may be left half made, so that its names are asked for.)"""
    try:
        from vijax.adapters.tfp import tfp  # noqa: F401
    except ImportError as error:
        pytest.skip(f"TFP: {error}", allow_module_level=True)
    return importlib.import_module("vijax.adapters.tfp")
