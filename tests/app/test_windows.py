"""What Windows lacks is not needed: a fit, its checkpoints, a run that stops and goes on."""

import ctypes
import importlib
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

pytest.importorskip("fcntl")

from vijax import memory
from vijax.app.folder.claim import claim_folder
from vijax.app.plan.config import ConfigError
from vijax.fitting import interrupt
from vijax.xla.memory import total_memory

ROOT = Path(__file__).parents[2]
FIT = """
from tests import windows
windows.emulate()
import sys
from pathlib import Path
import jax
import numpy as np
import vijax as vi

model = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
y = np.array([[-5.0], [-4.0], [-4.5], [3.0], [3.5]])
key = jax.random.key(0)
half = vi.fit(vi.cavi(model), y, num_steps=10, key=key)
for step in 10, 10, 11:
    vi.checkpoint.save("checkpoints", step, half.state)
saved = vi.checkpoint.latest("checkpoints", half.state)
assert saved.step == 11
whole = vi.fit(vi.cavi(model), y, num_steps=20, key=key, state=saved.tree)
assert abs(np.sort(whole.posterior["components"].mean()[:, 0])[1] - 3.25) < 0.1
"""
RUN = """
from tests import windows
windows.emulate()
import re
import signal
from pathlib import Path
import numpy as np
import vijax as vi
from vijax.app.cli import main
from vijax.fitting import checkpoint

TABLE = Path("new\\\\table.csv")  # one name here, a folder's file there
rng = np.random.default_rng(0)
names = ["sun sea sand wave beach boat".split(), "snow ice ski cold frost sled".split()]
lines = [f'd{i},"{" ".join(rng.choice(names[i % 2], 30))} caf\u00e9"' for i in range(60)]
TABLE.write_text("title,text\\n" + "\\n".join(lines), encoding="utf-8")
fit = ["fit", "lda", "--data", str(TABLE.absolute()), "--set", "num_topics=2", "batch_size=20"]
assert main([*fit, "num_epochs=8", "--out", "whole"]) == 0

save = checkpoint.save
def interrupt(*args, **more):
    signal.raise_signal(signal.SIGTERM)
    return save(*args, **more)
checkpoint.save = interrupt
assert main([*fit, "num_epochs=8", "checkpoint_every_s=0", "--out", "run"]) == 130
checkpoint.save = save
assert not Path("run", "posterior.npz").exists()
assert main(["resume", "run"]) == 0
with np.load("whole/posterior.npz") as whole, np.load("run/posterior.npz") as run:
    assert all((whole[name] == run[name]).all() for name in whole.files)
for command in ["summary", "run"], ["transform", "run", "--data", str(TABLE), "--out", "new.csv"]:
    assert main(command) == 0
assert main(["fit", "lda", "--data", "absent.csv", "--out", "none"]) == 2
assert not Path("none").exists()
assert vi.load("run").fit.posterior["topics"].mean().shape[0] == 2
"""


def run_program(program, folder):
    """The program, as on Windows; what it prints is in the letters of a Western console."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "cp1252"}
    environment |= {"MPLBACKEND": "Agg", "PYTHONWARNDEFAULTENCODING": "1", "PYTHONUTF8": "0"}
    process = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="cp1252",
        check=False,
    )
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-6000:]
    ours = [x for x in process.stderr.splitlines() if "EncodingWarning" in x and "/vijax/" in x]
    assert ours == []


@pytest.mark.slow
def test_a_fit_and_its_checkpoints(tmp_path):
    run_program(FIT, tmp_path)


@pytest.mark.slow
def test_a_run_stops_and_goes_on(tmp_path):
    run_program(RUN, tmp_path)


@pytest.fixture
def without_posix(monkeypatch):
    """No fcntl and no resource, and Windows' locks of files and count of memory in their place."""
    windows = importlib.import_module("fcntl")

    def lock(descriptor, mode, size):
        try:
            windows.flock(descriptor, windows.LOCK_EX | windows.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None

    def count(pointer):
        status = pointer._obj
        assert status.length == ctypes.sizeof(status) == 64
        status.total, status.free = 16 << 30, 4 << 30
        return 1

    for name in ("fcntl", "resource"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(LK_NBLCK=2, locking=lock))
    for name in ("sysconf", "sysconf_names", "set_blocking"):
        monkeypatch.delattr(os, name)
    kernel = types.SimpleNamespace(GlobalMemoryStatusEx=count)
    monkeypatch.setattr(ctypes, "windll", types.SimpleNamespace(kernel32=kernel), raising=False)


@pytest.mark.usefixtures("without_posix")
def test_a_run_folder_has_one_owner(tmp_path):
    with claim_folder(tmp_path / "run", "x"), pytest.raises(ConfigError, match="another process"):
        claim_folder(tmp_path / "run", "x").__enter__()
    assert (tmp_path / "run").exists()


@pytest.mark.usefixtures("without_posix")
def test_a_folder_whose_lock_is_open_is_removed_when_it_is_closed(tmp_path, monkeypatch):
    unlink = os.unlink

    def refuse_once(path, *args, **more):
        if Path(path).name == ".lock":
            monkeypatch.setattr(os, "unlink", unlink)
            raise PermissionError(13, "Permission denied")
        return unlink(path, *args, **more)

    monkeypatch.setattr(os, "unlink", refuse_once)
    claim = claim_folder(tmp_path / "run", "x")
    (claim.__enter__() / "data.json").write_text("{}")
    assert not claim.__exit__(ValueError, ValueError("wrong"), None)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("without_posix")
def test_memory_is_what_windows_says(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "")  # no /proc
    assert memory.machine_memory() == (16 << 30, 4 << 30)
    assert memory.free_bytes() == 4 << 30
    assert total_memory() == 16 << 30


@pytest.mark.usefixtures("without_posix")
def test_interrupts_are_heard_through_a_pipe_that_blocks(monkeypatch):
    monkeypatch.setattr("signal.set_wakeup_fd", lambda *_, **__: -1)  # wants another pipe here
    with interrupt.heard_while_busy():
        pass
