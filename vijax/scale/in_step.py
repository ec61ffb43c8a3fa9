"""Agreement of processes before each chunk of steps.

They agree on the number of steps that all can take, on batches that go together, and that no source
failed. Without it a process with a batch would wait for ever for one that has none."""

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
"""Letters of the digest by which batches are compared."""

OTHER_BATCHES = (
    "Have every process stream the same batches, of which each uses its share. Where each streams "
    "its own part of the "
    "data, say so: vijax.data.own_part(source, N), N being the number of groups of all together."
)
OTHER_FORM = "Have every process stream batches of one size and one form."


def require_alike_streams(loader: Any, first: Minibatch, is_part: bool) -> None:
    """Raises ValueError, in every process, if the streams do not go together.

    They must have the same settings, the same columns and the same first batch; if each process
    streams its own part (`is_part`), first batches of one form."""
    source = loader.source
    remedy = "Give one."
    if is_part:
        remedy = "Give the number of groups of all processes together, the same in each."
    _require_same("num_groups", source.num_groups, "the same number in every process", remedy)
    _require_same("forget", source.forget, "the same share in every process", "Give one.")
    expected = "tables with the same columns, in one order, in every process"
    remedy = "Have each process select the columns by name, in one order."
    _require_same("data", _columns(getattr(loader, "leaf_columns", None) or ()), expected, remedy)
    text = form_text(first) if is_part else digest(first)
    require_alike("data", {"first batch": text}, OTHER_FORM if is_part else OTHER_BATCHES)


def _require_same(argument: str, value: Any, expected: str, remedy: str) -> None:
    """Raises ValueError if the value differs between processes."""
    values = texts(str(value))
    different = next((k for k, text in enumerate(values) if text != values[0]), 0)
    got = f"{values[different]} in process {different} and {values[0]} in process 0"
    if different:
        raise ValueError(f"{argument}: expected {expected}, got {got}. {remedy}")


def _columns(leaves: Sequence[tuple[str, ...] | None]) -> str:
    """The names of columns as text; a long one is cut and ends in a digest of all names."""
    text = " and ".join(
        "no names" if names is None else f"the columns {listed(names)}" for names in leaves
    )
    if len(text) < 400:
        return text
    return f"{text[:400]} ... ({digest(np.frombuffer(repr(leaves).encode(), 'u1'))})"


class Announcement(NamedTuple):
    """The announcement of a process about its next chunk.

    Attributes:
      step: the first step of the chunk.
      asked: steps of the chunk; with fewer digests than this the source has ended.
      digests: one for each batch, (batches, LETTERS).
    """

    step: int
    asked: int
    digests: np.ndarray


def announce_batches(
    batches: Sequence[Minibatch], step: int, asked: int, is_same: bool
) -> Announcement:
    """The announcement of batches: digests of their numbers if all processes have the same batches
    (`is_same`), else of their form alone."""
    to_letters = digest if is_same else _form_digest
    letters = "".join(map(to_letters, batches)).encode()
    digests = np.frombuffer(letters, np.uint8).reshape(len(batches), LETTERS)
    return Announcement(step, asked, digests)


def _form_digest(batch: Minibatch) -> str:
    return hashlib.sha256(form_text(batch).encode()).hexdigest()[:LETTERS]


class Rules(NamedTuple):
    """Rules by which the processes of a fit go together.

    Attributes:
      length: capacity of a chunk, the same in every process.
      total: steps of the whole run.
      is_same: the batches of all processes are the same.
      says_end: warn also if all sources end at one step.
    """

    length: int
    total: int
    is_same: bool
    says_end: bool


def synchronize(source: Generator, start: int, rules: Rules) -> Generator[tuple[Any, int, None]]:
    """Chunks, in every process equally many and with equally many steps, until one of the processes
    has no more.

    Args:
      source: gives batches, their number, and an `Announcement` with the first batches of a chunk,
          None with the others.
      start: the first step.
      rules: how the processes go together.

    Raises:
      ValueError: in every process, before a chunk whose batches do not go together.
      ProcessLostError: the source of another process failed.
    """
    remaining = 0
    is_last = False
    nothing = np.zeros((0, LETTERS), np.uint8)
    with contextlib.closing(source):
        while not (is_last and remaining == 0):
            item, fault = _next(source)
            batches, count, announcement = item or (None, 0, Announcement(start, 1, nothing))
            if announcement is not None:
                remaining, has_ended = _agree(announcement, fault, rules)
                start += remaining
                is_last = has_ended or start >= rules.total
            if remaining:
                count = min(count, remaining)
                remaining -= count
                yield batches, count, None


def _next(source: Iterator) -> tuple[Any, Exception | None]:
    """The next item, or None at the end; and the error that making it raised, or None."""
    try:
        return next(source, None), None
    except Exception as error:  # the other processes have to hear of it, whatever it is
        return None, error


def _agree(announcement: Announcement, fault: Exception | None, rules: Rules) -> tuple[int, bool]:
    """The number of steps that all processes take next, and whether these are the last. Warns if a
    source ends."""
    count = len(announcement.digests)
    digests = np.zeros((rules.length, LETTERS), np.uint8)
    digests[:count] = announcement.digests
    head = np.array([fault is not None, announcement.step, announcement.asked, count], np.int32)
    heads, all_digests = multihost_utils.process_allgather((head, digests))
    failed, steps, asked, counts = np.asarray(heads).T
    raise_fault(fault, failed)
    common = int(counts.min())
    _require_alike_batches(np.asarray(all_digests)[:, :common], announcement.step, rules.is_same)
    has_ended = counts < asked
    if has_ended.any():
        _warn_of_end(steps + counts, has_ended, rules)
    return common, bool(has_ended.any())


def _require_alike_batches(digests: np.ndarray, start: int, is_same: bool) -> None:
    """Raises ValueError at the first step whose batches do not go together."""
    differ = np.argwhere((digests != digests[0]).any(2).T)  # (step, process) pairs, by steps
    step, process = differ[0] if len(differ) else (0, 0)
    expected = "batches of one size and form in every process"
    remedy = OTHER_FORM
    if is_same:
        expected = "the same batches in every process"
        remedy = OTHER_BATCHES
    got = f"another batch of step {start + step} in process {process} than in process 0"
    require(not len(differ), "data", expected, got, remedy)


def _warn_of_end(ends: np.ndarray, has_ended: np.ndarray, rules: Rules) -> None:
    """Warns that sources ended; `ends` has the steps of each process."""
    first = int(ends.argmin())
    last = int(ends.argmax())
    if ends[first] < ends[last] or not has_ended.all():
        later = "" if has_ended[last] else " or later"
        text = (
            f"data: the source of process {first} ended after {ends[first]} of {rules.total} "
            "steps, that of process "
            f"{last} after {ends[last]}{later}; the fit of all processes ends after {ends[first]}. "
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
