"""metrics.jsonl stays whole: cut lines, truncation, failed writes."""

import json
import math

import numpy as np
import pytest

from tests.naming import naming
from vijax.evaluate import metrics


def step(number, **more):
    return {
        "kind": "step",
        "step": number,
        "epoch": number / 10,
        "elbo_per_word": -8.0 + number,
        **more,
    }


def test_records_come_back_and_numbers_that_json_lacks_are_null(tmp_path):
    path = tmp_path / "metrics.jsonl"
    metrics.append(path, [step(1, loss=np.float32(0.5)), step(2, loss=math.nan)])
    metrics.append(path, [step(3)], durably=False)
    assert [record["step"] for record in metrics.read(path)] == [1, 2, 3]
    assert [record.get("loss") for record in metrics.read(path)] == [0.5, None, None]


def test_a_line_cut_short_is_left_out_and_truncation_removes_it(tmp_path):
    path = tmp_path / "metrics.jsonl"
    metrics.append(path, [step(n) for n in (1, 2, 3, 4)])
    path.write_text(path.read_text() + '{"kind": "step", "st')
    assert [record["step"] for record in metrics.read(path)] == [1, 2, 3, 4]
    metrics.truncate(path, 2)
    metrics.append(path, [step(3)])
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3]


def test_a_missing_file_has_no_records_and_truncates_to_an_empty_one(tmp_path):
    assert list(metrics.read(tmp_path / "metrics.jsonl")) == []
    metrics.truncate(tmp_path / "metrics.jsonl", 0)
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_a_failed_append_leaves_no_part_of_it(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    metrics.append(path, [step(1)])

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(metrics.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        metrics.append(path, [step(2)])
    assert [record["step"] for record in metrics.read(path)] == [1]


def test_curves_tell_steps_from_scores(tmp_path):
    path = tmp_path / "metrics.jsonl"
    score = {"kind": "held_out", "step": 2, "epoch": 0.2, "score": -7.5, "standard_error": 0.1}
    metrics.append(path, [step(1, seconds=2.0), step(2, elbo_per_word=None), score])
    curves = metrics.read_curves(path)
    np.testing.assert_array_equal(curves.epoch, [0.1, 0.2])
    np.testing.assert_array_equal(curves.elbo, [-7.0, math.nan])
    np.testing.assert_array_equal(curves.held_out_score, [-7.5])
    assert metrics.seconds(path) == 2.0


@pytest.mark.parametrize(
    "line",
    [
        "\0" * 40,
        '{"kind": "step", "st',
        "[1, 2]",
        '{"kind": "step"}',
        '{"step": "x"}',
        "[" * 9999,
        '{"kind": "step", "step": 3, "elbo": 1e999}',
    ],
)
def test_a_damaged_line_is_named_and_the_last_one_is_left_out(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    metrics.append(path, [step(1), step(2)])
    path.write_bytes(path.read_bytes() + line.encode() + b"\n")
    assert [record["step"] for record in metrics.read(path)] == [1, 2]
    metrics.append(path, [step(3)])
    with pytest.raises(ValueError, match=naming("metrics.jsonl", "3")):
        list(metrics.read(path))


def test_the_last_step_is_known(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert metrics.last_step(path) == 0
    metrics.append(path, [step(1), step(2), {"kind": "held_out", "step": 9}])
    assert metrics.last_step(path) == 2
