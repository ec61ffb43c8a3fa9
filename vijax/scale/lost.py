"""Errors after another process is gone: they name the loss, not the sum that failed."""

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
"""Words, in lower case, in the errors of sums over processes if one of the processes is gone."""


class ProcessLostError(JaxRuntimeError):
    """Another process of the fit failed or is gone: its own messages say why."""


@contextlib.contextmanager
def name_lost_process(is_shared: bool) -> Iterator[None]:
    """Replaces JAX's error of a sum over processes, which it raises if one of them is gone.

    Args:
      is_shared: other processes take part.

    Raises:
      ProcessLostError: says that a process was lost, and repeats JAX's words.
    """
    try:
        yield
    except Exception as error:
        text = str(error)
        if isinstance(error, ProcessLostError) or not (is_shared and _is_loss(error)):
            raise
        jax_words = " ".join(text.split())[:160]
        raise ProcessLostError(
            f"mesh: expected all {jax.process_count()} processes until the end of the fit, but "
            "another process was "
            f"lost while process {jax.process_index()} computed with it. The messages of that "
            "process say why. Start "
            f"all of them again, or go on from what was saved. (JAX says: {jax_words})"
        ) from error


def _is_loss(error: Exception) -> bool:
    """True for an error of a sum over processes; JAX also raises them as ValueError."""
    text = str(error).lower()
    signs = SIGNS_OF_LOSS if isinstance(error, JaxRuntimeError) else SIGNS_OF_LOSS[:2]
    return any(sign in text for sign in signs)


@contextlib.contextmanager
def fail_together(is_shared: bool) -> Iterator[None]:
    """Makes all processes fail if one does: the others hear of its error and do not wait.

    Args:
      is_shared: other processes take part, and all of them run this block.

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
    """Raises the fault of this process, or an error that names the process that failed.

    All processes call it; `failed` is true for each process with a fault."""
    if not np.any(failed):
        return
    message = ""
    if fault is not None:
        message = f"{type(fault).__name__}: {' '.join(str(fault).split())}"
    messages = texts(message, 1024)
    if fault is not None:
        raise fault
    process = int(np.argmax(failed))
    raise ProcessLostError(
        f"data: expected batches from every process, but process {process} failed and the fit "
        "ends in all of them. Its "
        f"own messages say why: {messages[process]}"
    )
