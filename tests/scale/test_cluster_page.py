"""What the page on many processes gives to Ray Train and to a Kubernetes JobSet goes on after a failure,
to the end of the unbroken run. Here the test plays the cluster."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.process_cases import ends, free_port, in_python, wait_for, write_inputs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "cluster.md").read_text(encoding="utf-8")

WORKER = """
import jax, json, numpy as np, vijax as vi
vi.scale.initialize(f"127.0.0.1:{port}", count, k)

def make_algorithm():
    return vi.svi(vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1)))

def read_data():
    return np.random.default_rng(0).normal(size=(4000, 1)) + 4.0 * (np.arange(4000) % 2)[:, None]

"""


def worker_code(folder):
    """The worker's function, and what it returns."""
    (block,) = [x for x in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "JaxTrainer" in x]
    body = block[block.index("def work") : block.index("failures =")]
    body = body.replace("/mnt/shared/checkpoints", str(folder)).replace("10_000", "2_000")
    end = 'fit = work()\nprint(json.dumps(np.asarray(fit.posterior["components"].mean()).tolist()))'
    return f"{WORKER}{body}\n{end}\n"


def last_line(processes):
    found = ends(processes)
    assert [code for code, *_ in found] == [0] * len(found), found[0][2][-2000:]
    return json.loads(found[0][1].splitlines()[-1])


@pytest.mark.slow
def test_the_worker_of_ray_train_goes_on_after_a_failure(tmp_path):
    unbroken = last_line(in_python(worker_code(tmp_path / "whole"), 2))
    folder = tmp_path / "killed"
    team = in_python(worker_code(folder), 2)
    wait_for(lambda: any(folder.glob("*.npz")), team)
    for process in team:  # Ray ends the others where one failed
        process.kill()
        process.communicate()
    first = max(path.name for path in folder.glob("*.npz"))
    assert first < "step_00002000.npz"
    again = last_line(in_python(worker_code(folder), 2))
    np.testing.assert_allclose(again, unbroken, rtol=1e-6)


def pods(config, run, count):
    """The pods of the JobSet: its shell command, with these paths and one machine's address."""
    yaml = pytest.importorskip("yaml")
    (text,) = [x for x in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "kind: JobSet" in x]
    job = yaml.safe_load(text)["spec"]["replicatedJobs"][0]["template"]["spec"]
    container = job["template"]["spec"]["containers"][0]
    assert container["command"] == ["bash", "-c"]
    (script,) = container["args"]
    script = script.replace("topics-w-0-0.topics:1234", f"127.0.0.1:{free_port()}")
    script = script.replace("--num-processes 4", f"--num-processes {count}")
    script = script.replace("/mnt/shared/run", str(run)).replace(
        "/mnt/shared/config.toml", str(config)
    )
    script = script.replace("vijax fit", f"{sys.executable} -m vijax.app.cli fit")
    script = script.replace("vijax resume", f"{sys.executable} -m vijax.app.cli resume")
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    return [
        subprocess.Popen(
            ["bash", "-c", script],
            env=environment | {"JOB_COMPLETION_INDEX": str(k)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for k in range(count)
    ]


def posterior(run):
    with np.load(run / "posterior.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.mark.slow
def test_the_pods_of_a_jobset_go_on_after_a_failure(tmp_path):
    config = write_inputs(tmp_path, 150)
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert [code for code, *_ in ends(pods(config, whole, 2))] == [0, 0]
    team = pods(config, run, 2)
    wait_for(lambda: any(run.glob("checkpoints/*.npz")), team)
    team[1].kill()
    team[1].communicate()
    ((failed, *_),) = ends(team[:1], 90)  # it says which was lost, and the job has failed
    assert failed == 5
    found = ends(pods(config, run, 2))
    assert [code for code, *_ in found] == [0, 0], found
    assert "Going on with" in found[0][2]
    for name, x in posterior(whole).items():
        np.testing.assert_allclose(posterior(run)[name], x, rtol=1e-4, atol=1e-4 * np.abs(x).max())
