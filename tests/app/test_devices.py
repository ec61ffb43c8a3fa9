"""`vijax fit --devices`: a setting like any other, refused before a run begins, free on resume."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.app.small_runs import write_inputs
from tests.naming import check_names, naming
from vijax.app.cli import main
from vijax.app.folder.team import Alone
from vijax.app.plan.config import load_config
from vijax.app.runs.run import resume
from vijax.app.settings.typed_toml import ConfigError


def test_a_run_on_devices(tmp_path, monkeypatch, capsys):
    """On the one that there is here; it goes on without."""
    write_inputs(tmp_path)
    run, config = tmp_path / "run", str(tmp_path / "small.toml")
    assert main(["fit", config, "--devices", "1000", "--out", str(run)]) == 2
    assert "devices: expected at most the " in capsys.readouterr().err
    assert not run.exists()
    assert main(["fit", config, "--devices", "1", "--out", str(run)]) == 0
    settings = run / "config.toml"
    assert "\ndevices = 1\n" in settings.read_text()
    changed = [line for line in settings.read_text().splitlines() if not line.startswith("devices")]
    settings.write_text("\n".join(changed).replace("num_epochs = 4", "num_epochs = 6"))
    assert main(["resume", str(run), "--devices", "1000"]) == 2
    assert "devices: expected at most the " in capsys.readouterr().err
    assert main(["resume", str(run)]) == 0
    assert "Going on with" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_goes_on_on_other_devices(tmp_path):
    """Half of it on two, half on eight: the end is that of a run on one."""
    write_inputs(tmp_path)
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    run, other = tmp_path / "run", tmp_path / "other"
    command = [sys.executable, "-m", "vijax.app.cli"]

    def vijax(*arguments):
        done = subprocess.run(
            [*command, *arguments],
            env=os.environ | {"XLA_FLAGS": flags},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    vijax("fit", tmp_path / "small.toml", "--out", other)
    vijax(
        "fit", tmp_path / "small.toml", "--devices", "2", "--out", run, "--set", "fit.num_epochs=2"
    )
    settings = run / "config.toml"
    settings.write_text(settings.read_text().replace("num_epochs = 2", "num_epochs = 4"))
    assert "Going on with" in vijax("resume", run, "--devices", "8")
    one, two = (np.load(folder / "posterior.npz") for folder in (other, run))
    for name in one.files:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-4)


def test_what_stops_by_itself_has_no_devices(tmp_path, capsys, monkeypatch):
    assert main(["fit", "density", "--devices", "2"]) == 2
    check_names(capsys.readouterr().err, "fit.devices:", "algorithm.name")
    monkeypatch.setattr("vijax.app.runs.run.read_run_config", lambda folder: load_config("density"))
    with pytest.raises(ConfigError, match=naming("devices:", "algorithm.name")):
        resume(tmp_path / "run", team=Alone(2))
