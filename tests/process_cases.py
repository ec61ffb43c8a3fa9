"""Real processes on this machine that make one fit: how tests start them, and what they are
given."""

import json
import os
import socket
import subprocess
import sys
import time

import numpy as np

CONFIG = """
[model]
name = "mixture"
num_components = 2
emission.name = "diagonal_gaussian"
[data]
path = {path}
held_out = 0.0
[algorithm]
name = "svi"
[fit]
num_epochs = {epochs}
batch_size = 20
checkpoint_every_s = 1
"""


def write_inputs(folder, epochs):
    """Two clusters of rows, and the configuration of a run on them."""
    x = np.random.default_rng(0).normal(size=(200, 2)) + 4.0 * (np.arange(200) % 2)[:, None]
    np.savetxt(folder / "rows.csv", x, delimiter=",", header="a,b", comments="", fmt="%.6g")
    config = folder / "small.toml"
    config.write_text(CONFIG.format(path=json.dumps(str(folder / "rows.csv")), epochs=epochs))
    return config


TOPICS = """
[model]
name = "lda"
num_topics = 3
[data]
path = {path}
held_out = 0.0
[algorithm]
name = "svi"
warm_starts = true
[fit]
num_epochs = {epochs}
batch_size = 20
checkpoint_every_s = 1
"""


def write_documents(folder, epochs):
    """201 documents of two themes, and the configuration of a run with warm starts."""
    rng = np.random.default_rng(0)
    words = [[f"{theme}{letter}" for letter in "abcdefgh"] for theme in ("red", "sea")]
    lines = [" ".join(rng.choice(words[i % 2], 30)) for i in range(201)]
    (folder / "texts.txt").write_text("\n".join(lines))
    config = folder / "topics.toml"
    config.write_text(TOPICS.format(path=json.dumps(str(folder / "texts.txt")), epochs=epochs))
    return config


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _spawn(command, **environment):
    environment = os.environ | {"JAX_PLATFORMS": "cpu"} | environment
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def in_python(code, count, **environment):
    """Processes that run this code, with `k`, `count` and `port` as names."""
    port = free_port()
    line = lambda k: f"k, count, port = {k}, {count}, {port}\n{code}"
    return [_spawn([sys.executable, "-c", line(k)], **environment) for k in range(count)]


def vijax(arguments, count, **environment):
    """Processes that run `vijax ARGUMENTS --distributed`."""
    cluster = [
        "--distributed",
        "--coordinator",
        f"127.0.0.1:{free_port()}",
        "--num-processes",
        str(count),
    ]
    command = [
        sys.executable,
        "-m",
        "vijax.app.cli",
        *map(str, arguments),
        *cluster,
        "--process-id",
    ]
    return [_spawn([*command, str(k)], **environment) for k in range(count)]


def ends(processes, seconds=300.0):
    """Exit code, output and errors of each, within so many seconds; what has not ended then is
    killed: code None."""
    end, found = time.monotonic() + seconds, []
    for process in processes:
        try:
            said = process.communicate(timeout=max(0.1, end - time.monotonic()))
            found.append((process.returncode, *said))
        except subprocess.TimeoutExpired:
            process.kill()
            found.append((None, *process.communicate()))
    return found


def wait_for(condition, processes, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition() and all(process.poll() is None for process in processes):
        assert time.monotonic() < end
        time.sleep(0.01)
