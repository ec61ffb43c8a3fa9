"""What the page on many processes gives to Ray Train goes on after a failure, to the end of the
unbroken run. Here the test plays the cluster."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.process_cases import ends, in_python, wait_for

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
