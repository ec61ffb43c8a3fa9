"""What the page on many processes gives to Ray Train and to a Kubernetes JobSet goes on after a
failure, to the end of the unbroken run. Here the test plays the cluster."""

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


# --- JobSet ---------------------------------------------------------------------------------------
FIELDS = {
    "": {"apiVersion": str, "kind": str, "metadata": dict, "spec": dict},
    "spec": {
        "coordinator": dict, "failurePolicy": dict, "managedBy": str, "network": dict,
        "replicatedJobs": list, "startupPolicy": dict, "successPolicy": dict, "suspend": bool,
        "ttlSecondsAfterFinished": int, "volumeClaimPolicies": list,
    },
    "spec.failurePolicy": {"maxRestarts": int, "restartStrategy": str, "rules": list},
    "spec.replicatedJobs": {
        "dependsOn": list, "groupName": str, "name": str, "replicas": int, "template": dict,
    },
    "job": {
        "activeDeadlineSeconds": int, "backoffLimit": int, "backoffLimitPerIndex": int,
        "completionMode": str, "completions": int, "maxFailedIndexes": int, "parallelism": int,
        "podFailurePolicy": dict, "podReplacementPolicy": str, "successPolicy": dict,
        "suspend": bool, "template": dict, "ttlSecondsAfterFinished": int,
    },
    "pod": {
        "containers": list, "initContainers": list, "nodeSelector": dict, "restartPolicy": str,
        "serviceAccountName": str, "subdomain": str, "terminationGracePeriodSeconds": int,
        "tolerations": list, "volumes": list,
    },
    "container": {
        "args": list, "command": list, "env": list, "image": str, "name": str, "resources": dict,
        "volumeMounts": list, "workingDir": str,
    },
}  # fmt: skip
"""Fields and their types as jobset.x-k8s.io/v1alpha2 has them (the definition of 18 August 2026, by
which the whole of the page's text was checked by hand): of pods and containers only common ones."""


@pytest.fixture(scope="module")
def jobset():
    yaml = pytest.importorskip("yaml")
    (text,) = [x for x in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "kind: JobSet" in x]
    return yaml.safe_load(text)


def parts(jobset):
    """The parts of a JobSet by name, as in `FIELDS`."""
    spec = jobset["spec"]
    (replicated,) = spec["replicatedJobs"]
    job = replicated["template"]["spec"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    return {
        "": jobset,
        "spec": spec,
        "spec.failurePolicy": spec["failurePolicy"],
        "spec.replicatedJobs": replicated,
        "job": job,
        "pod": pod,
        "container": container,
    }


def test_the_jobset_is_one(jobset):
    """Fields of the interface; each pod is one process, and process 0 has the address that a JobSet
    gives to the first pod: SET-JOB-0-0.SET."""
    by_name = parts(jobset)
    for name, part in by_name.items():
        assert set(part) <= set(FIELDS[name]), name
        for field, value in part.items():
            assert isinstance(value, FIELDS[name][field]), (name, field)
    assert (jobset["apiVersion"], jobset["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    job, pod, container = (by_name[name] for name in ("job", "pod", "container"))
    assert job["completionMode"] == "Indexed"  # it sets JOB_COMPLETION_INDEX
    assert job["backoffLimit"] == 0  # one lost pod begins all again
    assert pod["restartPolicy"] == "Never"
    assert {x["name"] for x in container["volumeMounts"]} <= {x["name"] for x in pod["volumes"]}
    (script,) = container["args"]
    assert job["parallelism"] == job["completions"]
    assert f"--num-processes {job['completions']} " in script
    names = jobset["metadata"]["name"], by_name["spec.replicatedJobs"]["name"]
    assert f"--coordinator {names[0]}-{names[1]}-0-0.{names[0]}:" in script
    assert "--process-id $JOB_COMPLETION_INDEX" in script


def pods(jobset, config, run, count):
    """The pods of the JobSet: its shell command, with these paths and this machine's address."""
    container = parts(jobset)["container"]
    (script,) = container["args"]
    command = f"{sys.executable} -m vijax.app.cli"
    for old, new in (
        ("topics-w-0-0.topics:1234", f"127.0.0.1:{free_port()}"),
        ("--num-processes 4", f"--num-processes {count}"),
        ("/mnt/shared/run", str(run)),
        ("/mnt/shared/config.toml", str(config)),
        ("exec vijax", f"exec {command}"),
    ):
        assert old in script
        script = script.replace(old, new)
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    start = lambda k: subprocess.Popen(
        [*container["command"], script],
        env=environment | {"JOB_COMPLETION_INDEX": str(k)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return [start(k) for k in range(count)]


def posterior(run):
    with np.load(run / "posterior.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.mark.slow
def test_the_pods_of_a_jobset_go_on_after_a_failure(jobset, tmp_path):
    config = write_inputs(tmp_path, 150)
    whole, run = tmp_path / "whole", tmp_path / "run"
    unbroken = ends(pods(jobset, config, whole, 2))
    assert [code for code, *_ in unbroken] == [0, 0], unbroken[0][2][-2000:]
    team = pods(jobset, config, run, 2)
    wait_for(lambda: any(run.glob("checkpoints/*.npz")), team)
    assert team[1].poll() is None
    team[1].kill()  # the shell gave its place to vijax: no child lives on
    team[1].communicate()
    ((code, *_),) = ends(team[:1], 120)  # it says which was lost, and the job has failed
    assert code == 5
    assert not (run / "posterior.npz").exists()
    again = ends(pods(jobset, config, run, 2))
    assert [code for code, *_ in again] == [0, 0], again[0][2][-2000:]
    assert "Going on with" in again[0][2]
    for name, x in posterior(whole).items():
        np.testing.assert_allclose(posterior(run)[name], x, rtol=1e-4, atol=1e-4 * np.abs(x).max())
