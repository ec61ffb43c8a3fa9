"""Refuses pickled fits of an older vijax, which name this module, with a sentence."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if not name[:1].isupper():  # no class, but a name that tools look up in modules
        raise AttributeError(name)
    remedy = (
        "Fit again, or read it with the vijax that pickled it. Fits last in run folders (`vijax "
        "fit`, vijax.load)."
    )
    raise ImportError(
        f"this pickle holds a fit of an older vijax, whose {name} was made otherwise. {remedy}"
    )
