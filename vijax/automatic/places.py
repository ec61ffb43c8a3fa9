"""The modes that searches from several starts find, each once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vijax.automatic.ascent import Mode, modes, never
from vijax.automatic.refused import check_slopes
from vijax.automatic.target import Target
from vijax.checks import require


def places(target: Target, seed: int, num_starts: int, stopped: Callable[[], bool] = never) -> list[tuple[Mode, int]]:
    """Modes, best first, with the number of searches that ended there, or were `stopped` there.

    Raises:
      ValueError: the density is finite at no start, or has no gradient.
    """
    starts = np.random.default_rng(seed).uniform(-2, 2, (num_starts, target.dim))
    check_slopes(target, target.variables, starts)
    found = modes(target, starts, stopped=stopped)
    remedy = "Look for logarithms of zero and supports that the variables do not declare."
    require(bool(found), "log_density", f"a finite one at any of {num_starts} random starts", "none", remedy)
    return _distinct(found)


def _distinct(found: list[Mode]) -> list[tuple[Mode, int]]:
    """The modes that differ by more than a search's inaccuracy, with the number of searches that ended there."""
    kept: list[tuple[Mode, int]] = []
    for mode in found:
        at = next((i for i, (other, _) in enumerate(kept) if _are_same(other, mode)), None)
        if at is None:
            kept.append((mode, 1))
        else:
            kept[at] = (kept[at][0], kept[at][1] + 1)
    return kept


def _are_same(one: Mode, other: Mode) -> bool:
    return abs(one.value - other.value) < 0.1 and bool(np.all(abs(one.x - other.x) < one.sds + other.sds))


def unjudged(places: list[tuple[Mode, int]]) -> list[float | None]:
    """No ELBO of any."""
    return [None for _ in places]
