"""Agreement of processes before each chunk of steps: how many all can take, that their batches go
together, and that no source failed. Without it those that have a batch would wait for ever for
those that have none."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.experimental import multihost_utils

from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.data.reading.checks import listed
from vijax.data.streams.stream import READ_AGAIN
from vijax.scale.lost import raise_fault
from vijax.scale.processes import digest, form_text, require_alike, texts

LETTERS = 16
"""Letters of a digest by which batches are compared."""

OTHER_BATCHES = (
    "Have every process stream the same batches, of which each uses its share. Where each streams "
    "its own part of the "
    "data, say so: vijax.data.own_part(source, N), N being the number of groups of all together."
)
OTHER_FORM = "Have every process stream batches of one size and one form."


def require_alike_streams(loader: Any, first: Minibatch, is_part: bool) -> None:
    """Raises ValueError, in every process, where streams differ in what is said of them, in the
    columns of their tables or in their first batch; of own parts (`is_part`) these differ, and have
    one form."""
    source = loader.source
    of_all = (
        "Give the number of groups of all processes together, the same in each."
        if is_part
        else "Give one."
    )
    _require_one("num_groups", source.num_groups, "the same number in every process", of_all)
    _require_one("forget", source.forget, "the same share in every process", "Give one.")
    expected = "tables with the same columns, in one order, in every process"
    remedy = "Have each process select the columns by name, in one order."
    _require_one("data", _columns(getattr(loader, "leaf_columns", None) or ()), expected, remedy)
    told = form_text(first) if is_part else digest(first)
    require_alike("data", {"first batch": told}, OTHER_FORM if is_part else OTHER_BATCHES)


def _require_one(argument: str, value: Any, expected: str, remedy: str) -> None:
    """Raises ValueError where processes do not say the same."""
    heard = texts(str(value))
    other = next((k for k, said in enumerate(heard) if said != heard[0]), 0)
    got = f"{heard[other]} in process {other} and {heard[0]} in process 0"
    if other:
        raise ValueError(f"{argument}: expected {expected}, got {got}. {remedy}")


def _columns(leaves: Sequence[tuple[str, ...] | None]) -> str:
    """The names of columns in words, with letters that tell many from others."""
    shown = " and ".join(
        "no names" if names is None else f"the columns {listed(names)}" for names in leaves
    )
    return (
        shown
        if len(shown) < 400
        else f"{shown[:400]} ... ({digest(np.frombuffer(repr(leaves).encode(), 'u1'))})"
    )


class Announcement(NamedTuple):
    """The word of a process on its next chunk.

    Attributes:
      step: the first step of the chunk.
      asked: steps of the chunk; fewer digests than that: the source has ended.
      digests: one for each batch, (batches, LETTERS).
    """

    step: int
    asked: int
    digests: np.ndarray


def announce_batches(
    batches: Sequence[Minibatch], step: int, asked: int, is_same: bool
) -> Announcement:
    """The mark of batches; `is_same`: those of all processes are the same, and not only of one
    form."""
    to_letters = digest if is_same else _form_digest
    letters = "".join(map(to_letters, batches)).encode()
    return Announcement(
        step, asked, np.frombuffer(letters, np.uint8).reshape(len(batches), LETTERS)
    )


def _form_digest(batch: Minibatch) -> str:
    return hashlib.sha256(form_text(batch).encode()).hexdigest()[:LETTERS]


class Rules(NamedTuple):
    """The manner in which processes go together.

    Attributes:
      length: capacity of a chunk, the same in every process.
      total: steps of the whole run.
      is_same: the batches of all processes are the same.
      says_end: it is said too where all sources end at one step.
    """

    length: int
    total: int
    is_same: bool
    says_end: bool


def synchronize(source: Generator, begun: int, rules: Rules) -> Generator[tuple[Any, int, None]]:
    """Chunks, in every process as many and of as many steps, until one of the processes has no
    more.

    Args:
      source: gives batches, their number, and a `Announcement` with the first batches of a chunk, None with
          others.
      begun: the step at which it begins.
      rules: how the processes go together.

    Raises:
      ValueError: in every process, where batches do not go together, before their chunk.
      ProcessLostError: the source of another process failed.
    """
    left, is_last = 0, False
    with contextlib.closing(source):
        while not (is_last and left == 0):
            item, fault = _next(source)
            batches, count, told = item or (
                None,
                0,
                Announcement(begun, 1, np.zeros((0, LETTERS), np.uint8)),
            )
            if told is not None:
                left, has_ended = _agreed(told, fault, rules)
                begun += left
                is_last = has_ended or begun >= rules.total
            if left:
                count = min(count, left)
                left -= count
                yield batches, count, None


def _next(source: Iterator) -> tuple[Any, Exception | None]:
    """The next item, None at the end, or what was raised in making it."""
    try:
        return next(source, None), None
    except Exception as error:  # the others have to hear of it, whatever it is
        return None, error


def _agreed(told: Announcement, fault: Exception | None, rules: Rules) -> tuple[int, bool]:
    """The number of steps that all processes take next, and whether these are the last. Says so
    where a source ends."""
    count = len(told.digests)
    digests = np.zeros((rules.length, LETTERS), np.uint8)
    digests[:count] = told.digests
    head = np.array([fault is not None, told.step, told.asked, count], np.int32)
    heads, every = multihost_utils.process_allgather((head, digests))
    failed, steps, asked, counts = np.asarray(heads).T
    raise_fault(fault, failed)
    least = int(counts.min())
    _require_alike_batches(np.asarray(every)[:, :least], told.step, rules.is_same)
    has_ended = counts < asked
    if has_ended.any():
        _say_end(steps + counts, has_ended, rules)
    return least, bool(has_ended.any())


def _require_alike_batches(digests: np.ndarray, begun: int, is_same: bool) -> None:
    """Raises ValueError at the first step of which processes have batches that do not go
    together."""
    differ = np.argwhere((digests != digests[0]).any(2).T)  # (step, process) pairs, by steps
    place, process = differ[0] if len(differ) else (0, 0)
    expected = (
        "the same batches in every process"
        if is_same
        else "batches of one size and form in every process"
    )
    got = f"another batch of step {begun + place} in process {process} than in process 0"
    require(not len(differ), "data", expected, got, OTHER_BATCHES if is_same else OTHER_FORM)


def _say_end(ends: np.ndarray, has_ended: np.ndarray, rules: Rules) -> None:
    """Warns of the end of sources: after how many steps that of each process came."""
    first, last = int(ends.argmin()), int(ends.argmax())
    if ends[first] < ends[last] or not has_ended.all():
        more = "" if has_ended[last] else " or later"
        text = (
            f"data: the source of process {first} ended after {ends[first]} of {rules.total} "
            "steps, that of process "
            f"{last} after {ends[last]}{more}; the fit of all processes ends after {ends[first]}. "
            "For more, give "
            "every process as many batches, or a source that can be read again."
        )
        warnings.warn(text, stacklevel=2)
    elif rules.says_end:
        text = (
            f"data: the source ended after {ends[first]} of {rules.total} steps, and so does the "
            "fit."
        )
        warnings.warn(f"{text} {READ_AGAIN}", stacklevel=2)
