"""A run that was stopped in any way and resumed equals one that never was, bit for bit."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from vijax import files
from vijax.app.cli import main
from vijax.app.runs import run
from vijax.fitting import checkpoint

CONFIG = """
[model]
num_topics = 3
eta = 0.5
learn = ["alpha"]

[algorithm]
name = "ssvi_a"
estep.name = "cvb0"

[fit]
batch_size = 20
checkpoint_every_s = 0
evaluate_every = 25
"""
NUM_WORDS, NUM_DOCUMENTS, HELD_OUT = 24, 66, 6


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A configuration on disk, of 60 documents of 8 words each (one length: one shape, quick to
    compile)."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    counts = np.zeros((NUM_DOCUMENTS, NUM_WORDS), int)
    for row in counts:
        row[rng.choice(NUM_WORDS, 8, replace=False)] = rng.integers(1, 4, 8)
    vi.data.Corpus.from_counts(counts, [f"w{i}" for i in range(NUM_WORDS)]).save(folder / "corpus")
    data = (
        f"\n[data]\npath = {json.dumps(str(folder / 'corpus'))}\nheld_out = "
        f"{HELD_OUT / NUM_DOCUMENTS}\n"
    )
    (folder / "small.toml").write_text(CONFIG + data)
    return folder / "small.toml"


def fit(config, out, epochs):
    return main(["fit", str(config), "--out", str(out), "--set", f"num_epochs={epochs}"])


def left(folder):
    """What a run came to: the posterior's bytes, and every metric but the times."""
    with np.load(folder / "posterior.npz") as file:
        posterior = {name: file[name].tobytes() for name in file.files}
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return posterior, [{k: v for k, v in record.items() if k != "seconds"} for record in records]


class Killed(BaseException):
    """Not an `Exception`: nothing may catch it."""


@pytest.fixture(scope="module", autouse=True)
def no_pages():
    """Pages are not what is tested here; drawing them takes as long as the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            run, "write_pages", lambda folder: (folder / "summary.txt").write_text("topics")
        )
        yield


@pytest.fixture(scope="module")
def unbroken(config, no_pages):
    out = config.parent / "unbroken"
    assert fit(config, out, 20) == 0  # 60 steps in chunks of ten: six checkpoints
    return left(out)


@pytest.mark.parametrize("survivors", [0, 3])
def test_a_run_that_died_while_saving_ends_as_if_it_had_not(
    config, unbroken, survivors, monkeypatch, tmp_path
):
    whole, saved = files.write_atomically, []

    def die(target, write):
        if target.parent.name == "checkpoints":
            if len(saved) == survivors:
                target.with_name(f".{target.name}.1.tmp").write_bytes(b"half a checkpoint")
                raise Killed
            saved.append(target)
        whole(target, write)

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_atomically", die)
        with pytest.raises(Killed):
            fit(config, out, 20)
    lines = (out / "metrics.jsonl").read_text()
    (out / "metrics.jsonl").write_text(lines + '{"kind": "st')  # and while writing a line
    assert main(["resume", str(out)]) == 0
    assert left(out) == unbroken
    assert not list((out / "checkpoints").glob(".*"))


@pytest.mark.parametrize(
    "more",
    [
        ["algorithm.name=svi", "algorithm.warm_starts=true"],
        ["algorithm.name=ssvi_a", "algorithm.lazy=true"],
    ],
    ids=["warm starts", "lazy"],
)
def test_what_some_choices_keep_goes_on_too(config, tmp_path, more):
    """The checkpoint holds the locals of every document, or the topics word by word; the posterior
    that is written is the plain one."""
    for name, epochs in (("whole", 6), ("half", 3)):
        assert (
            main(
                [
                    "fit",
                    str(config),
                    "--out",
                    str(tmp_path / name),
                    "--set",
                    *more,
                    f"num_epochs={epochs}",
                ]
            )
            == 0
        )
    path = tmp_path / "half" / "config.toml"
    path.write_text(path.read_text().replace("num_epochs = 3", "num_epochs = 6"))
    assert main(["resume", str(tmp_path / "half")]) == 0
    assert left(tmp_path / "half")[0] == left(tmp_path / "whole")[0]
    with np.load(tmp_path / "whole" / "posterior.npz") as arrays:
        assert "topics/concentration" in arrays.files


def test_a_corrupt_checkpoint_is_reported_and_the_one_before_gives_the_same_end(
    config, unbroken, tmp_path, capsys
):
    out = tmp_path / "run"
    assert fit(config, out, 15) == 0
    newest = checkpoint.checkpoint_files(out / "checkpoints")[0]
    newest.write_bytes(newest.read_bytes()[:-100])
    path = out / "config.toml"
    path.write_text(path.read_text().replace("num_epochs = 15", "num_epochs = 20"))
    assert main(["resume", str(out)]) == 0
    assert f"{newest}: the checkpoint is truncated or corrupt" in capsys.readouterr().err
    posterior, records = left(out)
    assert posterior == unbroken[0]
    steps = [record for record in records if record["kind"] == "step"]
    assert steps == [record for record in unbroken[1] if record["kind"] == "step"]


def test_a_full_disk_is_reported_and_the_run_goes_on(
    config, unbroken, monkeypatch, tmp_path, capsys
):
    real, calls = np.savez, []

    def full_twice(file, **arrays):
        calls.append(file)
        if len(calls) in (2, 3):
            raise OSError(28, "No space left on device")
        real(file, **arrays)

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full_twice)
        assert fit(config, tmp_path / "run", 20) == 0
    assert capsys.readouterr().err.count("the disk is full") == 2
    assert left(tmp_path / "run") == unbroken


# --- real signals to real processes ---------------------------------------------------------------
def spawn(arguments, config):
    environment = os.environ | {"VIJAX_CACHE": str(config.parent / "cache")}
    command = [sys.executable, "-m", "vijax.app.cli", *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(condition, process, seconds=1200.0):
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def long_unbroken(config):
    out = config.parent / "long"
    process = spawn(["fit", config, "--out", out, "--set", "num_epochs=1000"], config)
    _, errors = process.communicate(timeout=1200)
    assert process.returncode == 0, errors
    return left(out)


@pytest.mark.slow
def test_kill_9_at_random_moments(config, long_unbroken, tmp_path):
    """Kills a run, and each attempt to resume it, at moments drawn at random; the sixth attempt is
    let be."""
    rng, out = np.random.default_rng(0), tmp_path / "run"
    arguments = ["fit", config, "--out", out, "--set", "num_epochs=1000"]
    for _ in range(5):
        process = spawn(arguments, config)
        before = checkpoint.checkpoint_files(out / "checkpoints")[:1]
        wait_for(
            lambda before=before: checkpoint.checkpoint_files(out / "checkpoints")[:1] != before,
            process,
        )
        time.sleep(rng.uniform(0.0, 1.0))
        process.kill()
        process.communicate()
        arguments = ["resume", out]
    process = spawn(arguments, config)
    _, errors = process.communicate(timeout=1200)
    assert process.returncode == 0, errors
    assert left(out) == long_unbroken


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly_and_says_how_to_go_on(config, long_unbroken, number, tmp_path):
    for attempt in range(
        10
    ):  # a run may end before the signal comes, where the processor is another's
        out = tmp_path / f"run{attempt}"
        process = spawn(["fit", config, "--out", out, "--set", "num_epochs=1000"], config)
        wait_for(lambda out=out: checkpoint.checkpoint_files(out / "checkpoints"), process)
        process.send_signal(number)
        printed, errors = process.communicate(timeout=1200)
        if process.returncode:
            break
    assert process.returncode == 130, errors
    assert f"vijax resume {out}" in printed
    assert "Traceback" not in errors
    assert errors.count("interrupted: finishing what is under way") == 1
    process = spawn(["resume", out], config)
    _, errors = process.communicate(timeout=1200)
    assert process.returncode == 0, errors
    assert left(out) == long_unbroken
