"""Log densities on the command line: what is executed and what is not, the verdict, the table,
resuming."""

import csv
import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from tests.naming import check_names, naming
from vijax.app.cli import main
from vijax.app.commands.endings import UNUSABLE
from vijax.app.plan.config import load_config
from vijax.app.settings.typed_toml import ConfigError
from vijax.verdict.target import Target

FILE = """
import jax.numpy as jnp
from jax.scipy.stats import norm

import vijax as vi


def model(data):
    prior = lambda v: norm.logpdf(v["slope"], 0, 10) + norm.logpdf(v["level"], 0, 10)
    lik = lambda v, row: norm.logpdf(row["y"], v["level"] + v["slope"] * row["x"][0], 0.5)
    return vi.density({"slope": vi.free(), "level": vi.free()}, log_prior=prior, log_lik=lik)
"""
CONFIG = """
[data]
path = {data}
target = "out"
held_out = 0.2

[model]
name = "density"
file = "line.py"

[fit]
checkpoint_every_s = 0
"""
SLOPE, LEVEL, SD = 2.0, -1.0, 0.5


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """The list of allowed code is that of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VIJAX_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def write(folder, file=FILE):
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    rows = np.c_[x, LEVEL + SLOPE * x + SD * rng.normal(size=50)]
    np.savetxt(folder / "rows.csv", rows, delimiter=",", header="in,out", comments="", fmt="%.6g")
    (folder / "line.py").write_text(
        file + f"\n# {folder}\n"
    )  # a file of its own: executed once in a process
    (folder / "line.toml").write_text(CONFIG.format(data=json.dumps(str(folder / "rows.csv"))))
    return folder / "line.toml"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def run(config, figures):
    with figures():
        assert main(["fit", str(config), "--out", str(config.parent / "run")]) == 0
    return config.parent / "run"


def left(folder):
    with np.load(folder / "posterior.npz") as file:
        return {name: file[name].tobytes() for name in file.files}


def exact(config):
    """The posterior of a linear model of known noise, by hand, on the training rows of the run."""
    from vijax.app.plan.assemble import load_data

    table = load_data(load_config(config)).train
    design = np.c_[np.ones(table.num_rows), table.x]
    cov = np.linalg.inv(design.T @ design / SD**2 + np.eye(2) / 100)
    return cov @ design.T @ table.y / SD**2, np.sqrt(np.diag(cov))


def test_the_table_is_the_posterior_and_the_verdict_is_where_the_user_looks(run, config, capsys):
    mean, sd = exact(config)
    with (run / "tables" / "variables.csv").open() as file:
        rows = {row[0]: [float(cell) for cell in row[1:]] for row in list(csv.reader(file))[1:]}
    for name, m, s in zip(("level", "slope"), mean, sd, strict=True):
        found = dict(zip(("mean", "sd", "low", "middle", "high"), rows[name], strict=True))
        assert abs(found["mean"] - m) < 0.1 * s
        assert found["sd"] == pytest.approx(s, rel=0.06)
        assert found["high"] - found["low"] == pytest.approx(2 * 1.645 * s, rel=0.1)
        assert abs(found["middle"] - m) < 0.12 * s
    assert main(["summary", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "verdict  " in shown
    assert "Converged. q is close to the posterior" in shown
    assert "Converged. q is close" in (run / "report.html").read_text()
    kinds = [block["title"] for block in json.loads((run / "result.json").read_text())["blocks"]]
    assert kinds == ["Verdict", "Variables", "Posterior", "Is it any good?"]
    assert (run / "figures" / "posterior.png").is_file()


def test_a_run_that_was_cut_off_ends_the_same_when_it_is_resumed(run, config, tmp_path, capsys):
    """It is begun again, and is a function of its seed."""
    out = tmp_path / "run"
    assert main(["fit", str(config), "--out", str(out)]) == 0
    (out / "result.json").unlink()
    (out / "posterior.npz").unlink()
    assert main(["resume", str(out)]) == 0
    assert left(out) == left(run)
    assert (out / "metrics.jsonl").read_text().count('"step"') == (
        run / "metrics.jsonl"
    ).read_text().count('"step"')
    capsys.readouterr()
    assert main(["resume", str(out)]) == 0
    assert "has ended" in capsys.readouterr().err
    assert main(["evaluate", str(out), "--data", str(config.parent / "rows.csv")]) == 0
    assert "nats per observation (50 observations)" in capsys.readouterr().out


def test_steps_are_resumed_bit_for_bit_and_judged(config, tmp_path, capsys):
    whole, half = tmp_path / "whole", tmp_path / "half"
    steps = [
        "--set",
        "algorithm.name=ngvi",
        "num_samples=8",
        "evaluate_every=0",
        "batch_size=10",
        "num_epochs=",
    ]
    for out, epochs, code in (
        (whole, 20, 0),
        (half, 10, 4),
    ):  # half way it is not at the posterior, and says so
        assert (
            main(["fit", str(config), "--out", str(out), *steps[:-1], f"num_epochs={epochs}"])
            == code
        )
    assert left(half) != left(whole)
    path = half / "config.toml"
    path.write_text(path.read_text().replace("num_epochs = 10", "num_epochs = 20"))
    assert main(["resume", str(half)]) == 0
    assert left(half) == left(whole)
    assert "nats from the posterior, at least" in capsys.readouterr().out


def test_a_file_that_has_changed_is_not_executed(run, config, capsys, tmp_path):
    ran = tmp_path / "ran"
    path = config.parent / "line.py"
    before = path.read_text()
    try:
        path.write_text(f"{before}\nopen({str(ran)!r}, 'w').close()\n")
        for command in (
            ["resume", str(run)],
            ["evaluate", str(run), "--data", str(config.parent / "rows.csv")],
        ):
            assert main(command) == 2
            said = capsys.readouterr().err
            assert "line.py has changed since the run began" in said
            assert "is not executed" in said
        assert main(["summary", str(run)]) == 0  # what was found needs no code
    finally:
        path.write_text(before)
    assert not ran.exists()


def test_code_of_a_folder_from_elsewhere_waits_until_it_is_allowed(
    run, config, tmp_path, monkeypatch, capsys
):
    """On another machine nobody has named the file."""
    from vijax.app.settings import user_code

    user_code._module.cache_clear()
    monkeypatch.setenv("VIJAX_CACHE", str(tmp_path / "elsewhere"))
    command = ["evaluate", str(run), "--data", str(config.parent / "rows.csv")]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "executing" not in said
    digest = user_code.read_code(str(config.parent / "line.py"), "model.file").sha256
    assert f"VIJAX_ALLOW_CODE={digest}" in said
    monkeypatch.setenv("VIJAX_ALLOW_CODE", digest)
    assert main(command) == 0
    assert f"Code: executing {config.parent / 'line.py'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (
            "def model(data):\n    return 3",
            r"line\.py: model: expected it to return a vijax\.density, got int",
        ),
        ("x = 3", r"line\.py: expected a function model\(data\)"),
        ("def model(data)\n    pass", r"line\.py, line 1: SyntaxError"),
        ("import nowhere_to_be_found", r"line\.py, line 1: ModuleNotFoundError"),
        (
            FILE.replace('row["y"]', 'row["why"]'),
            r"line\.py, line 10: .*data \['x', 'y'\]\), got 'why'",
        ),
        (
            FILE.replace('v["slope"] * row', 'v["slop"] * row'),
            r"variables \['level', 'slope'\].*got 'slop'",
        ),
        (
            FILE.replace('["x"][0]', '["x"]'),
            r"line\.py.*: log_lik: expected one number, got an array of shape \(1,\)",
        ),
        (
            FILE.replace('v["level"] + ', "level + "),
            r"line\.py, line 10: NameError: name 'level' is not defined",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(file, said, tmp_path, capsys):
    path = write(tmp_path, file)
    assert main(["fit", str(path), "--out", str(tmp_path / "run")]) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert re.search(said, errors[-1]), errors[-1]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["model.file=nowhere.py"],
            "model.file: expected a Python file that can be read, got .*nowhere.py",
        ),
        (
            ["fit.restarts=3"],
            "fit.restarts: not for algorithm.name = auto: auto has starts of its own",
        ),
        (["fit.convergence=1e-4"], "fit.convergence: not for algorithm.name = auto"),
        (
            ["algorithm.name=dadvi", "batch_size=5"],
            "fit.batch_size: not for algorithm.name = dadvi",
        ),
        (
            ["learning_rate=0.1"],
            'algorithm.name is "auto", which takes num_starts, max_draws, max_gradients',
        ),
        (
            ["algorithm.name=ngvi", "alpha=0"],
            'algorithm.name is "ngvi", which takes guide, rank, blocks, components, '
            ".*num_samples, nats",
        ),
        (
            ["algorithm.name=advi", "rank=3"],
            'algorithm.rank: expected algorithm.guide = "low_rank" beside it',
        ),
        (
            ["algorithm.name=advi", "guide=flow", "components=3"],
            'components: expected algorithm.guide = "mixture"',
        ),
        (
            ["algorithm.name=ngvi", "guide=block", 'blocks=[["slop"]]'],
            "names among the free variables .*got .*slop",
        ),
        (
            ["algorithm.name=ngvi", "guide=mixture"],
            "NormalMixture is no exponential family: vijax.advi fits it",
        ),
        (["data.group=in"], "data.group: a density knows the groups of its training rows alone"),
        (["data.hold_out=entries"], 'data.hold_out: expected "rows"'),
    ],
)
def test_settings_that_do_not_go_together_are_named(config, overrides, said, tmp_path, capsys):
    assert main(["fit", str(config), "--out", str(tmp_path / "run"), "--set", *overrides]) == 2
    assert re.search(said, capsys.readouterr().err)


def test_a_configuration_without_a_file_says_so(tmp_path):
    (tmp_path / "a.toml").write_text('[model]\nname = "density"\n')
    with pytest.raises(ConfigError, match=naming("model.file:", "Python")):
        load_config(tmp_path / "a.toml")


def test_the_file_is_beside_the_configuration_and_where_the_user_is_when_it_is_set(
    config, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    assert Path(load_config(config).model.file) == config.parent / "line.py"
    assert load_config(config, ["model.file=mine.py"]).model.file == "mine.py"


def test_a_density_may_read_no_data_or_all_of_them_at_once(tmp_path, capsys):
    free = "lambda v: -0.5 * jnp.sum((v['x'] - 3.0) ** 2)"
    head = (
        "import jax.numpy as jnp\nimport vijax as vi\ndef model(data):\n    return "
        "vi.density({'x': vi.free(2)}, "
    )
    write(tmp_path, f"{head}{free})")
    (tmp_path / "none.toml").write_text(
        '[data]\npath = "none"\n[model]\nname = "density"\nfile = "line.py"\n'
    )
    assert main(["fit", str(tmp_path / "none.toml"), "--out", str(tmp_path / "none")]) == 0
    assert "x[1]" in capsys.readouterr().out
    assert main(["summary", str(tmp_path / "none")]) == 0


def test_loading_executes_nothing_unless_it_is_asked_to(run, monkeypatch, tmp_path):
    import jax

    import vijax as vi
    from vijax.app.settings import user_code

    executed = []
    module = user_code._module
    monkeypatch.setattr(
        user_code, "_module", lambda code: executed.append(code.path) or module(code)
    )
    with pytest.raises(ConfigError, match=naming("Python", "line.py")):
        vi.load(run)
    assert (
        main(["transform", str(run), "--data", "x.csv"]) == 2
    )  # refused before anything of the run is made
    assert not executed
    loaded = vi.load(run, allow_code=True)
    assert executed
    assert set(loaded.sample(jax.random.key(0), 3)) == {"slope", "level"}
    with pytest.raises(ConfigError, match="cannot be applied to rows one by one: what it predicts"):
        loaded.transform()
    monkeypatch.setenv("VIJAX_CACHE", str(tmp_path))  # on another machine
    with pytest.raises(
        ConfigError, match="that you have not named in a `vijax fit` on this machine"
    ):
        vi.load(run, allow_code=True)


def funnel(folder):
    """A density whose fit takes more than one set of draws."""
    text = """
import jax.numpy as jnp
from jax.scipy.stats import norm

import vijax as vi


def model(data):
    inside = lambda v: norm.logpdf(v["x"], 0, jnp.exp(0.5 * v["s"])).sum()
    return vi.density({"s": vi.free(), "x": vi.free(3)}, lambda v: norm.logpdf(v["s"], 0, 0.7) + inside(v))
"""
    (folder / "funnel.py").write_text(f"{text}\n# {folder}\n")
    (folder / "funnel.toml").write_text(
        '[data]\npath = "none"\n[model]\nname = "density"\nfile = "funnel.py"\n'
    )
    return folder / "funnel.toml"


@pytest.mark.parametrize("name", ["auto", "dadvi"])
def test_a_run_that_is_stopped_goes_on_to_the_same_end(name, tmp_path, monkeypatch, capsys):
    config, more = funnel(tmp_path), ["richer=false"] * (name == "auto")
    fit = lambda out: main(
        ["fit", str(config), "--out", str(tmp_path / out), "--set", f"algorithm.name={name}", *more]
    )
    assert fit("whole") == 0
    with monkeypatch.context() as patch:
        presses(patch, after=200)
        assert fit("part") == 130
    printed = capsys.readouterr().out
    assert "Stopped early, by Ctrl-C" in printed
    assert f"vijax resume {tmp_path / 'part'}" in printed
    assert json.loads((tmp_path / "part" / "result.json").read_text())["status"].startswith(
        "interrupted"
    )
    assert main(["summary", str(tmp_path / "part")]) == 0
    assert (tmp_path / "part" / "stage").is_dir()
    calls = counted(monkeypatch)
    assert main(["resume", str(tmp_path / "part")]) == 0
    assert not (tmp_path / "part" / "stage").exists()
    again = sum(calls)
    calls.clear()
    assert fit("another") == 0
    assert again < sum(calls)  # its searches are not repeated
    one, other = (np.load(tmp_path / out / "posterior.npz") for out in ("whole", "part"))
    for key in one.files:
        np.testing.assert_array_equal(one[key], other[key])
    assert main(["resume", str(tmp_path / "part")]) == 0


BENT = """
import jax.numpy as jnp
from jax.scipy.stats import norm

import vijax as vi


def model(data):
    inside = lambda v: norm.logpdf(v["x"]) + norm.logpdf(v["y"], v["x"] ** 2, 0.3)
    return vi.density({"x": vi.free(), "y": vi.free()}, inside)
"""


@pytest.fixture(scope="module")
def bent(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bent")
    (folder / "bent.py").write_text(f"{BENT}\n# {folder}\n")
    (folder / "bent.toml").write_text(
        '[data]\npath = "none"\n[model]\nname = "density"\nfile = "bent.py"\n'
    )
    return folder / "bent.toml"


def test_a_mixture_that_is_kept_is_saved_and_read_again(bent, capsys):
    """As in Python: where one normal misfits. It has E[y] = 1, of which one normal finds a half at
    best."""
    import jax

    import vijax as vi

    out = bent.parent / "run"
    assert main(["fit", str(bent), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    count = json.loads((out / "mixture.json").read_text())["components"]
    assert f"A mixture of {count} normals was kept" in shown
    assert left(out).keys() == {f"free/{part}" for part in ("logits", "center", "triangle")} | {
        f"hyper/frame/{part}"
        for part in ("scale", "shift", "bend/amount", "bend/center", "bend/width")
    }
    y = vi.load(out, allow_code=True).sample(jax.random.key(0), 4000)["y"]
    assert float(y.mean()) == pytest.approx(1.0, abs=0.15)
    assert main(["resume", str(out)]) == 0
    (out / "mixture.json").write_text('{"components": "many"}')
    with pytest.raises(ConfigError, match=r"mixture\.json: damaged.*vijax resume"):
        vi.load(out, allow_code=True)
    before = left(out)
    assert main(["resume", str(out)]) == 0
    check_names(capsys.readouterr().err, "mixture.json:", "components")
    assert left(out) == before
    single = bent.parent / "single"
    assert main(["fit", str(bent), "--out", str(single), "--set", "richer=false"]) == 0
    assert not (single / "mixture.json").exists()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["guide=block", 'blocks=[["x", "y"]]'], {"parts/x+y/center", "parts/x+y/triangle"}),
        (["guide=mixture", "components=2"], {"logits", "center", "triangle"}),
        (["guide=low_rank", "rank=1"], {"center", "log_sd", "factor"}),
    ],
)
def test_guides_of_advi_are_settings(bent, given, names, tmp_path):
    out = tmp_path / "run"
    more = ["algorithm.name=advi", "num_epochs=5", "evaluate_every=0", *given]
    assert main(["fit", str(bent), "--out", str(out), "--set", *more]) in (
        0,
        UNUSABLE,
    )  # of so few steps
    assert left(out).keys() == {f"free/{name}" for name in names}
    assert main(["resume", str(out)]) in (0, UNUSABLE)


def presses(patch, after):
    """Ctrl-C after so many gradients."""
    plain = Target.slopes

    def slopes(self, x):
        before, found = self.num_gradients, plain(self, x)
        if before < after <= self.num_gradients:
            signal.raise_signal(signal.SIGINT)
        return found

    patch.setattr(Target, "slopes", slopes)


def counted(patch):
    """How many points are asked for at each call."""
    calls, plain = [], Target.slopes
    patch.setattr(Target, "slopes", lambda self, x: (calls.append(len(x)), plain(self, x))[1])
    return calls


def test_a_fit_that_must_not_be_used_has_an_exit_code_of_its_own(tmp_path, capsys):
    """Nothing depends on one variable: the density is improper."""
    text = """
import vijax as vi


def model(data):
    return vi.density({"x": vi.free(), "y": vi.free()}, lambda v: -0.5 * v["x"] ** 2)
"""
    (tmp_path / "bad.py").write_text(f"{text}\n# {tmp_path}\n")
    (tmp_path / "bad.toml").write_text(
        '[data]\npath = "none"\n[model]\nname = "density"\nfile = "bad.py"\n'
    )
    out = tmp_path / "run"
    assert main(["fit", str(tmp_path / "bad.toml"), "--out", str(out)]) == 4
    printed = capsys.readouterr().out
    assert "The density is improper" in printed
    assert "Do not use this fit: the verdict above says why." in printed
    assert (out / "report.html").is_file()
    assert (out / "posterior.npz").is_file()
    assert main(["resume", str(out)]) == 4  # it has ended, as it did
