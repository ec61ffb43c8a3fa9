"""What SECURITY.md promises of files: each promise is tried, with a marker that must not appear.

Formulas have tests of their own, as have pages (`test_foreign_folder`), densities
(`test_density_runs`) and files of data alone (`tests/data/test_hostile_files.py`)."""

import io
import json
import os
import pickle
import shutil
import struct
import zipfile

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from tests.app.small_runs import write_inputs
from tests.naming import naming
from vijax.app.cli import main
from vijax.app.folder.run_end import read_posterior
from vijax.app.plan.config import load_config
from vijax.app.settings.typed_toml import DamagedError, flatten
from vijax.fitting import checkpoint

COMMANDS = {
    "load": lambda run: vi.load(run).transform(),
    "summary": lambda run: main(["summary", str(run)]),
    "report": lambda run: main(["report", str(run)]),
    "transform": lambda run: main(["transform", str(run), "--data", str(run / "new.csv")]),
    "evaluate": lambda run: main(["evaluate", str(run), "--data", str(run / "new.csv")]),
    "resume": lambda run: main(["resume", str(run)]),
}


class Touch:
    """Makes a file where it is taken out of a pickle."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run of a mixture, and rows for it."""
    folder = write_inputs(tmp_path_factory.mktemp("rows"))
    assert main(["fit", str(folder / "small.toml"), "--out", str(folder / "run")]) == 0
    shutil.copy(folder / "rows.csv", folder / "run" / "new.csv")
    return folder / "run"


@pytest.fixture
def run(whole, tmp_path, monkeypatch):
    """A copy, of somebody else, in which the user works."""
    copy = shutil.copytree(whole, tmp_path / "run")
    monkeypatch.chdir(copy)
    monkeypatch.setenv("VIJAX_CACHE", str(tmp_path / "cache"))
    return copy


@pytest.fixture
def marker(tmp_path):
    """A file that nothing may make, nor one of its name anywhere."""
    path = tmp_path / "marker"
    yield path
    assert not [found for found in tmp_path.rglob("*marker*") if found.is_file()]


def tried(command, run):
    """Runs a command on a folder, whatever comes of it but a fault of vijax."""
    try:
        code = COMMANDS[command](run)
    except ValueError:  # DataError and ConfigError are
        return
    assert not isinstance(code, int) or code in (0, 2, 3, 4)


def test_the_marker_is_made_by_a_pickle_that_is_loaded(tmp_path):
    """So that the tests below are of something."""
    pickle.loads(pickle.dumps(Touch(tmp_path / "marker"))).close()
    assert (tmp_path / "marker").exists()


# --- pickles --------------------------------------------------------------------------------------
def as_bytes(marker, whole):
    return pickle.dumps(Touch(marker))


def as_objects(marker, whole):
    """An .npz of the same names, with objects for arrays."""
    evil, names = np.array([Touch(marker)], object), ["x"]
    if zipfile.is_zipfile(io.BytesIO(whole)):
        with np.load(io.BytesIO(whole)) as arrays:
            names = arrays.files
    target = io.BytesIO()
    np.savez(target, **dict.fromkeys(names, evil))
    return target.getvalue()


def as_array(marker, whole):
    target = io.BytesIO()
    np.save(target, np.array([Touch(marker)], object), allow_pickle=True)
    return target.getvalue()


KINDS = {"bytes": as_bytes, "objects": as_objects, "array": as_array}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ["load", "report", "resume"])
def test_no_file_of_a_run_folder_is_read_as_a_pickle(command, kind, run, marker):
    """Each file in turn; those of text are bytes that are pickles once, and others are each
    kind."""
    for path in [
        path
        for path in run.rglob("*")
        if path.is_file() and (path.suffix == ".npz" or kind == "bytes")
    ]:
        whole = path.read_bytes()
        path.write_bytes(KINDS[kind](marker, whole))
        tried(command, run)
        path.write_bytes(whole)


def test_arrays_of_a_run_folder_that_say_they_are_larger_are_refused(run, capsys):
    """A damaged checkpoint is refused, and the one before is used: here all of them lie."""
    checkpoints = checkpoint.checkpoint_files(run / "checkpoints")
    for path in [*checkpoints, run / "posterior.npz"]:
        path.write_bytes(enlarged(path.read_bytes()))
    with pytest.raises(
        checkpoint.CheckpointError, match=r"'.*' is said to have the shape \(1000000000000,\)"
    ):
        checkpoint.load(checkpoints[0], {})
    with pytest.raises(DamagedError, match=r"posterior.npz: missing or damaged"):
        read_posterior(run)
    (run / "result.json").unlink()
    assert main(["resume", str(run)]) == 2
    assert "is said to have the shape" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no checkpoint"):
        vi.load(run)


def enlarged(whole):
    """An .npz whose arrays say that they have 10^12 numbers."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as parts, zipfile.ZipFile(target, "w") as lying:
        for name in parts.namelist():
            head = io.BytesIO()
            said = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
            np.lib.format.write_array_header_1_0(head, said)
            lying.writestr(name, head.getvalue() + struct.pack("<d", 1.0))
    return target.getvalue()


# --- code in a folder -----------------------------------------------------------------------------
MODULES = (
    "vijax",
    "numpy",
    "json",
    "sitecustomize",
    "conftest",
    "mixture",
    "model",
    "callbacks",
    "__init__",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_python_file_of_a_run_folder_is_executed(command, run, marker):
    for name in MODULES:
        (run / f"{name}.py").write_text(f"open({str(marker)!r}, 'w')")
        (run / "checkpoints" / f"{name}.py").write_text(f"open({str(marker)!r}, 'w')")
    tried(command, run)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_density_of_a_run_folder_is_executed(command, run, marker):
    (run / "evil.py").write_text(f"open({str(marker)!r}, 'w')\ndef model(data): pass")
    data = json.dumps(str(run / "new.csv"))
    said = f'[model]\nname = "density"\nfile = "evil.py"\n\n[data]\npath = {data}\n'
    (run / "config.toml").write_text(said)
    with pytest.raises(ValueError, match=naming("Python", "evil.py")):
        vi.load(run)
    tried(command, run)


# --- configurations -------------------------------------------------------------------------------
CODE = (
    "__import__('os').system('touch {}')",
    "$(touch {})",
    "`touch {}`",
    "; touch {} #",
    "| touch {}",
    "{{{{ cycler.__init__.__globals__.os.system('touch {}') }}}}",
    "!!python/object/apply:os.system ['touch {}']",
    "%(touch {})s",
)


@pytest.mark.parametrize("name", ["lda", "mixture", "hmm", "gp", "hpf", "density"])
def test_settings_are_text(name, run, marker):
    """Of every setting that takes text, by itself."""
    settings = flatten(load_config(name))
    texts = [
        key
        for key, value in settings.items()
        if value is None or isinstance(value, str | tuple | list)
    ]
    assert "data.path" in texts
    for key in texts:
        for code in CODE[:3]:
            for value in (code.format(marker), [code.format(marker)]):
                try:
                    load_config(name, [f"{key}={json.dumps(value)}"])
                except ValueError:
                    continue


def paths_of(folder, marker):
    """Paths of data that would do more than be read, were they more than paths."""
    evil = pickle.dumps(Touch(marker))
    for ending in (
        ".pkl",
        ".pickle",
        ".joblib",
        ".npy",
        ".npz",
        ".parquet",
        ".csv",
        ".txt",
        ".xlsx",
        ".h5",
        ".pt",
    ):
        (folder / f"evil{ending}").write_bytes(evil)
        yield str(folder / f"evil{ending}")
    refs = {
        "version": 1,
        "templates": {"u": CODE[5].format(marker)},
        "refs": {"a.parquet": "{{u}}"},
    }
    (folder / "refs.json").write_text(json.dumps(refs))
    yield from (code.format(marker) for code in CODE)
    yield from (
        f"reference://::file://{folder / 'refs.json'}",
        "dask://x",
        "generic://x",
        f"python://{folder}/evil.py",
    )
    yield from (
        f"data:text/x-python,open({str(marker)!r},'w')",
        f"memory://{CODE[0].format(marker)}",
        "synthetic:os.system",
    )


@pytest.mark.parametrize("model", ["mixture", "lda"])
def test_the_path_of_data_is_read_and_not_run(model, run, marker, tmp_path, capsys):
    for path in paths_of(run, marker):
        assert main(["fit", model, "--data", path, "--out", str(tmp_path / "new")]) == 2
        assert "vijax: " in capsys.readouterr().err
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("command", ["load", "report", "resume"])
def test_the_path_in_a_run_folder_is_read_and_not_run(command, run, marker):
    whole = (run / "config.toml").read_text()
    path = next(line for line in whole.splitlines() if line.startswith("path = "))
    for other in paths_of(run, marker):
        (run / "config.toml").write_text(whole.replace(path, f"path = {json.dumps(other)}"))
        tried(command, run)


def test_a_store_that_says_what_else_is_read_is_no_source(tmp_path):
    pytest.importorskip("fsspec")
    for address in ("reference://x", "zip://a.parquet::reference://b", "Reference://x", "dask://x"):
        with pytest.raises(
            vi.data.DataError, match=r"expected an address of a store of files, got one of"
        ):
            vi.data.rows(address)


# --- paths ----------------------------------------------------------------------------------------
OUTSIDE = (
    "../marker",
    "../../marker",
    "/tmp/marker",
    "a/../../marker",
    "..\\marker",
    ".",
    "..",
    "",
    "~/marker",
    "C:marker",
)


@pytest.mark.parametrize("name", [*OUTSIDE, "\x1b[31m", "marker\n", "\0", ".marker", "x" * 300])
def test_the_name_of_a_run_leads_nowhere(name, run, marker, capsys):
    before = sorted(path for path in run.parent.rglob("*") if "cache" not in path.parts)
    said = [f"name={json.dumps(name)}", f"data.path={json.dumps(str(run / 'new.csv'))}"]
    assert main(["fit", "mixture", "--set", *said]) == 2
    assert "a name that a folder may have" in capsys.readouterr().err
    assert sorted(path for path in run.parent.rglob("*") if "cache" not in path.parts) == before


LINKED = (
    "summary.txt",
    "report.html",
    "result.json",
    "posterior.npz",
    "transformed.csv",
    "config.toml",
    "metrics.jsonl",
)


@pytest.mark.parametrize("command", ["resume", "report"])
def test_a_link_in_a_run_folder_leads_no_write_anywhere(command, run, tmp_path):
    """Each file in turn is a link to a file elsewhere of the same content."""
    for name in LINKED:
        copy = shutil.copytree(run, tmp_path / f"of {name}")
        precious = tmp_path / f"precious {name}"
        shutil.move(copy / name, precious)
        content = precious.read_bytes()
        (copy / name).symlink_to(precious)
        (copy / "config.toml.new").write_text("")
        tried(command, copy)
        assert precious.read_bytes() == content


@pytest.mark.parametrize("name", ["tables", "figures", "checkpoints", "processes", "stage"])
def test_a_folder_of_a_run_that_is_a_link_is_not_written_to(name, run, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    if (run / name).exists():
        shutil.move(run / name, elsewhere)
    elsewhere.mkdir(exist_ok=True)
    (run / name).symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    config = (run / "config.toml").read_text()
    (run / "config.toml").write_text(config.replace("num_epochs = 4", "num_epochs = 6"))
    for command in ("resume", "report"):
        tried(command, run)
    after = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    assert after == before


# --- headers and cells ----------------------------------------------------------------------------
def hostile(path, marker):
    """A table whose headers and cells are code, with numbers to learn from."""
    names = [json.dumps(code.format(marker)).replace('\\"', '""') for code in CODE]
    rng = np.random.default_rng(0)
    lines = [",".join(['"kind"', *names])]
    for row in range(40):
        code = CODE[row % len(CODE)].format(marker).replace('"', '""')
        lines.append(
            ",".join(
                [
                    f'"{code}"',
                    *(f"{value:.3f}" for value in rng.normal(4 * (row % 2), 1, len(CODE))),
                ]
            )
        )
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_headers_and_cells_of_a_table_are_text(run, marker, tmp_path, capsys):
    """From the look at it to the page, and back from what was written."""
    data, out = hostile(tmp_path / "hostile.csv", marker), tmp_path / "new"
    assert main(["init", "mixture", "--data", data, "--out", str(tmp_path / "new.toml")]) == 0
    assert main(
        ["fit", str(tmp_path / "new.toml"), "--out", str(out), "--set", "fit.num_epochs=2"]
    ) in (0, 4)
    for command in ("summary", "report"):
        assert main([command, str(out)]) == 0
    assert main(["transform", str(out), "--data", data, "--out", str(tmp_path / "told.csv")]) == 0
    loaded = vi.load(out)
    assert loaded.columns == tuple(code.format(marker) for code in CODE)
    assert CODE[0].format(marker) in (out / "config.toml").read_text()
    assert os.environ.get("HOME") is None or "marker" not in os.listdir(os.environ["HOME"])


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_texts_are_text(ending, run, marker, tmp_path):
    codes = [code.format(marker) for code in CODE]
    path = tmp_path / f"hostile{ending}"
    if ending == ".parquet":
        parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        parquet.write_table(
            arrow.table({"text": codes * 9, "title": codes * 9, codes[0]: codes * 9}), path
        )
    elif ending == ".jsonl":
        path.write_text(
            "\n".join(json.dumps({"text": code, "title": code, code: code}) for code in codes * 9)
        )
    else:
        path.write_text("text,title\n" + "\n".join(f'"{code}","{code}"' for code in codes * 9))
    corpus = vi.data.read(path)
    assert corpus.num_documents == 9 * len(codes)
    assert corpus.titles[0] == codes[0]
