"""The benchmark of one GPU runs, on a CPU and at toy size, and writes each figure as it comes."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "gpu.py"


def run(folder, *arguments):
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, SCRIPT, "--out", folder, "--toy", *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    figures = folder / "figures.jsonl"
    lines = figures.read_text().splitlines() if figures.exists() else []
    return done.stdout, [json.loads(line) for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(
    "sections", [["limits", "steps"], ["limits", "fits"], ["limits", "words", "topics"],
                 ["limits", "draws"], ["limits", "models"], ["limits", "peers"], ["limits", "auto"]]
)  # fmt: skip
def test_each_section_has_figures(sections, tmp_path):
    _, figures = run(tmp_path, *sections)
    assert {line["section"] for line in figures} == set(sections)
    peers = [line for line in figures if "failed" in line]
    assert all("ModuleNotFoundError" in line["failed"] for line in peers), peers
    assert all("left_out" not in line for line in figures)
    speed = next(line for line in figures if line["case"] == "speed")
    assert speed["bytes_a_s"] > 1e8
    for line in figures:
        if "limit_ms" in line:
            assert line["limit_ms"] > 0
            assert line["documents_a_s"] == pytest.approx(1e3 * 64 / line["ms"])
        if line["section"] in ("peers", "auto") and "failed" not in line:
            assert line.get("limit_us", line.get("limit_s")) > 0
            assert line.get("us_a_step", line.get("s")) > 0
    assert len((tmp_path / "figures.md").read_text().splitlines()) == len(figures)
    assert any((tmp_path / "cache").iterdir())


@pytest.mark.slow
def test_what_there_is_no_time_for_is_left_out_and_said(tmp_path):
    said, figures = run(tmp_path, "limits", "steps", "--minutes", "0.1")
    assert "limits: not begun: no time was left" in said
    assert figures == []


def module():
    spec = importlib.util.spec_from_file_location("gpu", SCRIPT)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_a_case_is_written_at_once_also_where_it_fails_or_time_is_over(tmp_path):
    gpu = module()
    section = gpu.Run("steps", tmp_path, False, 600.0)
    section.case("one", lambda: {"ms": 1.5})
    section.case("two", lambda: {}["nothing"])
    section.end = time.monotonic() + gpu.SPARE_S - 1
    section.case("three", lambda: pytest.fail("was begun"))
    one, two, three = map(json.loads, (tmp_path / "figures.jsonl").read_text().splitlines())
    assert (one["case"], one["ms"]) == ("one", 1.5)
    assert two["failed"] == "KeyError: 'nothing'"
    assert three == {"section": "steps", "case": "three", "left_out": "no time was left"}


def test_limits_are_those_of_bytes_or_of_operations(tmp_path):
    gpu = module()
    (tmp_path / "speed.json").write_text("[1000.0, 10.0]")
    section = gpu.Run("steps", tmp_path, True, 60)
    assert gpu.limit_s(section, 5000.0) == 5.0
    assert gpu.limit_s(section, 5000.0, 100.0) == 10.0


def test_limits_of_peers_by_hand():
    """784 -> 400 -> 100 and 50 -> 400 -> 784: 687,200 weights; of ten rows of 100 columns the bytes
    of two readings."""
    gpu = module()
    weights = 784 * 400 + 400 * 100 + 50 * 400 + 400 * 784
    assert gpu.autoencoder_work(10) == (4 * (7840 + 7 * weights), 60 * weights)
    assert gpu.regression_work(10) == (8000, 4000)


def test_the_limit_of_topics_by_hand():
    """Five pairs of a document and a word, three topics of seven words, each pair read four times."""
    gpu = module()
    words = [[0, 1], [2, 0]]
    docs = [
        gpu.vi.Documents(words, counts, [1.0, 1.0], 3)
        for counts in ([[1.0, 2.0], [1.0, 0.0]], [[1.0, 0.0], [3.0, 0.0]])
    ]
    batch = gpu.vi.Minibatch(tuple(docs), 4.0)
    assert gpu.topic_bytes(batch, 3, 7, 4.0) == 4 * 3 * (4 * 5 + gpu.PASSES * 7)
