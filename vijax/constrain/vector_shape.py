"""The check that an array has a last axis with enough entries."""

from __future__ import annotations

from vijax.checks import require


def require_vector(argument: str, shape: tuple[int, ...], least: int) -> None:
    """ValueError naming the argument unless its last axis has that many entries.

    >>> require_vector("x", (3, 1), 2)
    Traceback (most recent call last):
    ...
    ValueError: x: expected a last axis of at least 2 entries, got shape (3, 1).
    """
    expected = f"a last axis of at least {least} entr{'y' if least == 1 else 'ies'}"
    require(len(shape) > 0 and shape[-1] >= least, argument, expected, f"shape {shape}")
