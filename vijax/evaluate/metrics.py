"""metrics.jsonl: one line per step and one per held-out score; complete and in order, also after a
kill and a resume."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vijax.files import open_to_append, write_atomically

LONG = 20
"""The axis of a curve of more points leaves out a wild start."""


class Curves(NamedTuple):
    """The records as columns to plot; epochs are passes over the data."""

    epoch: np.ndarray
    elbo: np.ndarray
    held_out_epoch: np.ndarray
    held_out_score: np.ndarray
    held_out_error: np.ndarray


def append(path: Path, records: Sequence[Mapping[str, Any]], durably: bool = True) -> None:
    """Adds one line for each record; none if that fails.

    Args:
      path: the file.
      records: the records; numbers that are not finite, which JSON lacks, become null.
      durably: return only once the lines are on the disk, so that no later checkpoint can be ahead
          of them.

    Raises:
      OSError: the lines could not be written.
    """
    plain = [{name: _plain(value) for name, value in record.items()} for record in records]
    text = "".join(json.dumps(record, allow_nan=False) + "\n" for record in plain)
    with os.fdopen(open_to_append(path), "ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            view = memoryview(text.encode())
            # A raw file may write only a part, as when the disk fills up; then the next write
            # raises the error.
            while view:
                view = view[file.write(view) or 0 :]
            if durably:
                os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The records, without a last line that a kill or a power cut has damaged.

    Raises:
      ValueError: another line is damaged; the message gives its number.
    """
    if not path.exists():
        return
    damaged = ""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if damaged:
                raise ValueError(damaged)
            record = _record(line)
            if record is not None:
                yield record
                continue
            damaged = (
                f"{path}, line {number}: damaged: expected one step or score in JSON. Delete this "
                "line: only its point of the curves is lost."
            )


def _record(line: str) -> dict[str, Any] | None:
    """The record of a line; None if the line is damaged."""
    if not line.endswith("\n"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("kind") not in ("step", "held_out"):
        return None
    values = [value for name, value in record.items() if name != "kind"]
    if not all(_is_plain_number(value) for value in values):
        return None
    return record if isinstance(record.get("step"), int) else None


def _is_plain_number(value: Any) -> bool:
    """True for values that `append` can have written."""
    return value is None or (isinstance(value, int | float) and abs(value) < 1e300)


def truncate(path: Path, step: int) -> None:
    """Drops the lines of the steps after `step`: a resumed run repeats these steps."""
    lines = [json.dumps(record) + "\n" for record in read(path) if record["step"] <= step]
    write_atomically(path, lambda file: file.write("".join(lines).encode()))


def last_step(path: Path) -> int:
    """The last step with a record; 0 without records."""
    return max((record["step"] for record in read(path) if record["kind"] == "step"), default=0)


def seconds(path: Path) -> float:
    """The seconds of all recorded steps."""
    return max((record.get("seconds") or 0.0 for record in read(path)), default=0.0)


def read_curves(path: Path) -> Curves:
    """ELBO per word (or datum) of all steps, and held-out scores, against passes over the data."""
    records = list(read(path))
    steps = [record for record in records if record["kind"] == "step"]
    scores = [record for record in records if record["kind"] == "held_out"]
    has_words = any("elbo_per_word" in record for record in steps)
    elbo = "elbo_per_word" if has_words else "elbo_per_datum"
    return Curves(
        _column(steps, "epoch"),
        _column(steps, elbo),
        _column(scores, "epoch"),
        _column(scores, "score"),
        _column(scores, "standard_error"),
    )


def average_last_pass(curves: Curves) -> np.ndarray:
    """The ELBO at each step, averaged over the last pass up to the step: ELBOs of batches differ
    far more than those of steps, but passes have the same batches.

    >>> epoch = np.array([0.5, 1.0, 1.5, 2.0])
    >>> average_last_pass(Curves(epoch, np.array([-9.0, -8.0, -8.0, -7.0]), *(np.zeros(0),) * 3)).tolist()
    [-9.0, -8.5, -8.0, -7.5]
    """
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(curves.elbo))])
    number = np.concatenate([[0], np.cumsum(np.isfinite(curves.elbo))])
    first = np.searchsorted(curves.epoch, curves.epoch - 1.0 + 1e-9, side="right")
    last = np.arange(1, len(curves.epoch) + 1)
    count = number[last] - number[first]
    return np.where(count > 0, (total[last] - total[first]) / np.maximum(count, 1), np.nan)


def axis_low(values: np.ndarray) -> float:
    """The lower end of the axis of a curve: the lowest value. For a long curve it is the 4 %
    quantile, so that a wild start does not flatten the curve, unless the curve is flat after it.

    >>> axis_low(np.array([-9.0, -2.0, -1.0])), axis_low(np.array([-9.0] + [-1.0] * 99))
    (-9.0, -9.0)
    """
    low = float(np.quantile(values, 0.04 if len(values) > LONG else 0.0))
    flat = float(values.max()) - low < 0.01 * float(np.ptp(values))
    return float(values.min()) if flat else low


def widen_axis(
    low: float, high: float, least: float = 1e-6, reach: float = 0.05
) -> tuple[float, float]:
    """The ends of an axis, widened if the numbers on it may differ only by rounding.

    Args:
      low: the lower end.
      high: the upper end.
      least: the smallest length of an axis, as a share of the size of its numbers.
      reach: the distance by which each end of a shorter axis moves, as a share of that size.

    >>> widen_axis(2.0, 3.0), widen_axis(50.0, 50.0)
    ((2.0, 3.0), (47.5, 52.5))
    """
    size = max(abs(low), abs(high))
    if high - low > least * size:
        return low, high
    return low - reach * (size or 1.0), high + reach * (size or 1.0)


BOUND_AXIS = 1e-4, 5e-5
"""`least` and `reach` of an axis of a bound or score."""


def _column(records: list[dict[str, Any]], name: str) -> np.ndarray:
    """The numbers of this name; NaN for a number that cannot be drawn, because its square must be
    finite too."""
    values = [record.get(name) for record in records]
    is_drawable = lambda value: value is not None and abs(value) <= 1e150
    return np.array([value if is_drawable(value) else math.nan for value in values], float)


def _plain(value: Any) -> Any:
    """A value as a type of JSON."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
