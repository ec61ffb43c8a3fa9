"""Errors of a process whose companions are gone: they say that another process was lost, and not
that a sum failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax
import numpy as np
from jax.errors import JaxRuntimeError
from jax.experimental import multihost_utils

from vijax.scale.processes import texts

SIGNS_OF_LOSS = (
    "gloo",
    "nccl",
    "coordination",
    "connection",
    "peer",
    "unavailable",
    "deadline_exceeded",
)
"""What errors of sums over processes speak of, in lower case, where one of the processes is
gone."""


class ProcessLostError(JaxRuntimeError):
    """Another process of the fit failed or is gone: its own messages say why."""


@contextlib.contextmanager
def name_lost_process(is_shared: bool) -> Iterator[None]:
    """Errors of sums over processes, which JAX raises where one of them is gone, say so.

    Args:
      is_shared: other processes take part.

    Raises:
      ProcessLostError: in the place of such an error.
    """
    try:
        yield
    except Exception as error:
        text = str(error)
        if isinstance(error, ProcessLostError) or not (is_shared and _is_loss(error)):
            raise
        said = " ".join(text.split())[:160]
        raise ProcessLostError(
            f"mesh: expected all {jax.process_count()} processes until the end of the fit, but "
            "another process was "
            f"lost while process {jax.process_index()} computed with it. The messages of that "
            "process say why. Start "
            f"all of them again, or go on from what was saved. (JAX says: {said})"
        ) from error


def _is_loss(error: Exception) -> bool:
    """True for an error of a sum over processes; JAX also raises them as ValueError."""
    text = str(error).lower()
    signs = SIGNS_OF_LOSS if isinstance(error, JaxRuntimeError) else SIGNS_OF_LOSS[:2]
    return any(sign in text for sign in signs)


@contextlib.contextmanager
def fail_together(is_shared: bool) -> Iterator[None]:
    """Makes all processes fail where one does: the others hear of its error, and wait for nobody.

    Args:
      is_shared: other processes take part, and all of them come here.

    Raises:
      ProcessLostError: another process failed, and not this one.
    """
    fault = None
    try:
        yield
    except Exception as error:
        if not is_shared or isinstance(error, ProcessLostError):
            raise
        fault = error
    if is_shared:
        failed = multihost_utils.process_allgather(np.array(fault is not None))
        raise_fault(fault, np.asarray(failed))


def raise_fault(fault: Exception | None, failed: np.ndarray) -> None:
    """Raises the fault of this process, or says which other one failed; all processes call it.
    `failed` is true at the processes that have a fault."""
    if not np.any(failed):
        return
    heard = texts(
        "" if fault is None else f"{type(fault).__name__}: {' '.join(str(fault).split())}", 1024
    )
    if fault is not None:
        raise fault
    process = int(np.argmax(failed))
    raise ProcessLostError(
        f"data: expected batches from every process, but process {process} failed and the fit "
        "ends in all of them. Its "
        f"own messages say why: {heard[process]}"
    )
