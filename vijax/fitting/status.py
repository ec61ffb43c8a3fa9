"""The end of a fit, and messages about steps that were not finite."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any


class Status(enum.StrEnum):
    """The reason that a fit stopped."""

    FINISHED = "finished: all steps were run"
    CONVERGED = "converged: what the objective still gains is below tol"
    STOPPED = "stopped by a callback"
    INTERRUPTED = "interrupted; go on with vijax.fit(..., state=fit.state)"
    DIVERGED = (
        "diverged: too many steps in a row were not finite and were skipped; the last good state "
        "is kept. "
        "Try smaller steps, a ramp, or check the data for extreme values"
    )
    MOSTLY_SKIPPED = (
        "failed: most steps were not finite and were skipped; the posterior rests on the others "
        "alone. "
        "Try smaller steps, a ramp, or check the data for extreme values"
    )
    UNBOUNDED = (
        "unbounded: the bound grows without limit, for the density is improper. Give every "
        "variable a proper prior"
    )


FAILED = (Status.DIVERGED, Status.MOSTLY_SKIPPED, Status.UNBOUNDED)
"""Ends at which `vijax.fit` raises a `DivergedError`, unless `throw=False`."""


class SkippedStepsWarning(UserWarning):
    """Some steps of a fit were skipped, because their value or gradient was not finite."""


class ForgottenWarning(UserWarning):
    """A fit resumed from a state of other data, and dropped messages, locals or kernels of them."""


class DivergedError(ArithmeticError):
    """A fit failed: its steps were not finite, too many in a row or most of them, or its bound
    grows without limit. `fit` holds the last good state."""

    def __init__(self, fit: Any):
        super().__init__(fit.verdict)
        self.fit = fit


def skipped_text(num_skipped: int, num_steps: int, names: Sequence[str] = ()) -> str:
    """The number of skipped steps, in words, and the globals that caused them; "" for no skips.

    >>> skipped_text(3, 125)
    '3 of 125 steps were not finite and were skipped'
    >>> skipped_text(1, 9, ["rate", "scale"])
    '1 of 9 steps were not finite and were skipped, in gradients of rate and scale'
    """
    if not num_skipped:
        return ""
    cause = f", in gradients of {' and '.join(names)}" if names else ""
    return f"{num_skipped} of {num_steps} steps were not finite and were skipped{cause}"
