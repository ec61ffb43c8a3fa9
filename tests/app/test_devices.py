"""`vijax fit --devices`: a setting like any other, refused before a run begins, free on resume."""

from tests.app.small_runs import write_inputs
from vijax.app.cli import main


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
    assert main(["resume", str(run)]) == 0
    assert "Going on with" in capsys.readouterr().err


def test_what_stops_by_itself_has_no_devices(capsys):
    assert main(["fit", "density", "--devices", "2"]) == 2
    assert "fit.devices: not for algorithm.name = auto" in capsys.readouterr().err
