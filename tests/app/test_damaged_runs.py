"""Damaged files of a run folder: each is written again, or the error says what to do, and that
works."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")

import vijax as vi
from tests.app.small_runs import write_inputs
from tests.naming import check_names
from vijax.app.cli import main
from vijax.app.folder.run_folder import read_json, read_run_config

DAMAGES = {
    "gone": lambda whole: None,
    "empty": lambda whole: b"",
    "cut": lambda whole: whole[: len(whole) // 2],
    "noise": lambda whole: b"\x00\xffnonsense\x80",
    "other": lambda whole: b"[]\n",
}
OF_ROWS = (
    "config.toml",
    "data.json",
    "columns.json",
    "metrics.jsonl",
    "checkpoints",
    "result.json",
    "posterior.npz",
)
MORE_OF_ROWS = ("versions.json", "transformed.csv", "summary.txt", "report.html")
OF_DOCUMENTS = ("vocabulary.txt", "posterior.npz", "doc_topics.csv", "excerpts.json", "result.json")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A finished run of a mixture."""
    folder = write_inputs(tmp_path_factory.mktemp("rows"))
    assert main(["fit", str(folder / "small.toml"), "--out", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """A run of LDA that has converged: to go on with it is to have its pages written again."""
    folder = tmp_path_factory.mktemp("documents")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice([f"w{c}x" for c in "abcdefghijkl"], 20)) for _ in range(30)]
    (folder / "docs.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    said = [
        "num_topics=2",
        "data.held_out=0",
        "data.max_df=1.0",
        "fit.num_epochs=400",
        "fit.convergence=0.1",
    ]
    data, out = str(folder / "docs.jsonl"), folder / "run"
    assert main(["fit", "lda", "--data", data, "--out", str(out), "--set", *said]) == 0
    assert read_json(out / "result.json", "")["status"].startswith("converged")
    return out


def damage(run, name, kind, tmp_path):
    """A copy of a run, a file of which (all checkpoints) is damaged."""
    copy = shutil.copytree(run, tmp_path / "run")
    for path in [copy / name] if (copy / name).is_file() else list((copy / name).iterdir()):
        left = DAMAGES[kind](path.read_bytes())
        path.unlink()
        if left is not None:
            path.write_bytes(left)
    return copy


def follow(message):
    """Does what an error says: removes what is to be removed, and runs the command."""
    for name in re.findall(r"remove (\S+?)[,;]", message):
        path = Path(re.search(r"vijax: (\S+?):", message)[1] if name == "it" else name)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    commands = re.findall(r"vijax ((?:resume|fit|transform|report) [^();]*)", message)
    for command in commands:
        words = command.strip().removesuffix(".").split()
        name = f"runs/again-{len(list(Path().glob('runs/*')))}"  # FOLDER stands for a new one
        assert main([name if word == "FOLDER" else word for word in words]) == 0
    return commands


def check_that_it_can_be_mended(copy, capsys, monkeypatch):
    monkeypatch.chdir(copy.parent)
    told = ""
    for command in ("report", "resume"):
        capsys.readouterr()
        status = main([command, str(copy)])
        if status:
            said = capsys.readouterr().err
            told += said
            assert "pickle" not in said
            message = said.strip().splitlines()[-1]
            assert follow(message) or "does without" in message, message
    again = sorted(copy.parent.glob("runs/*"))  # where no more could be done than to fit it again
    whole = again[0] if again else copy
    for command in ("summary", "report", "resume"):
        assert main([command, str(whole)]) == 0
    assert vi.load(whole).fit.posterior
    return told


@pytest.mark.parametrize("name", OF_ROWS + MORE_OF_ROWS)
@pytest.mark.parametrize("kind", DAMAGES)
def test_what_an_error_says_of_a_damaged_file_mends_it(
    rows, name, kind, tmp_path, capsys, monkeypatch
):
    check_that_it_can_be_mended(damage(rows, name, kind, tmp_path), capsys, monkeypatch)


@pytest.mark.parametrize("name", OF_DOCUMENTS)
@pytest.mark.parametrize("kind", DAMAGES)
def test_also_of_documents_and_of_a_run_at_its_end(
    documents, name, kind, tmp_path, capsys, monkeypatch
):
    check_that_it_can_be_mended(damage(documents, name, kind, tmp_path), capsys, monkeypatch)


def one_character_changed(whole: bytes) -> bytes:
    """Another text of the same form: the last digit or letter is another one."""
    place = max(i for i, byte in enumerate(whole) if bytes([byte]).isalnum())
    return whole[:place] + (b"7" if whole[place : place + 1] != b"7" else b"8") + whole[place + 1 :]


@pytest.mark.parametrize(
    ("which", "name"), [("rows", "columns.json"), ("documents", "vocabulary.txt")]
)
def test_one_character_is_damage(which, name, tmp_path, request, capsys):
    """It would be another scale, or another word, without a word about it."""
    copy = shutil.copytree(request.getfixturevalue(which), tmp_path / "run")
    before = (copy / name).read_bytes()
    (copy / name).write_bytes(one_character_changed(before))
    data, out = read_run_config(copy).data.path, str(tmp_path / "out.csv")
    of_new_data = ["transform", str(copy), "--data", data, "--out", out]
    assert main(of_new_data) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert f"{name}: damaged: it is not as the run wrote it" in said
    assert follow(said)
    assert (copy / name).read_bytes() == before
    assert main(of_new_data) == 0


def test_the_files_of_a_run_on_other_data_are_not_those_of_this_one(rows, tmp_path, capsys):
    """columns.json and data.json of another run agree with each other, and would move this run's
    columns."""
    other = write_inputs(tmp_path)
    text = (other / "rows.csv").read_text().splitlines()
    cells = [line.split(",") for line in text[1:]]
    moved = [f"{10 + 3 * float(a)},{b}" for a, b in cells]
    (other / "rows.csv").write_text("\n".join([text[0], *moved]) + "\n")
    assert main(["fit", str(other / "small.toml"), "--out", str(other / "moved")]) == 0
    copy = shutil.copytree(rows, tmp_path / "run")
    for name in ("columns.json", "data.json"):
        assert (copy / name).read_bytes() != (other / "moved" / name).read_bytes()
        shutil.copy(other / "moved" / name, copy / name)
    data, out = read_run_config(copy).data.path, str(tmp_path / "out.csv")
    capsys.readouterr()
    assert main(["transform", str(copy), "--data", data, "--out", out]) == 2
    assert (
        "data.json: the file of another run: the checkpoints here are of other data"
        in capsys.readouterr().err
    )
    for name in ("columns.json", "data.json"):
        shutil.copy(rows / name, copy / name)
    assert main(["transform", str(copy), "--data", data, "--out", out]) == 0


OTHERS = {
    "other data": [],
    "other settings": ["model.concentration=0.7"],
    "another seed": ["seed=7"],
}


@pytest.mark.parametrize("other", OTHERS)
def test_the_result_of_another_run_is_not_that_of_this_one(rows, other, tmp_path, capsys):
    """`vijax summary` showed the other table's components, and its posterior went with them."""
    folder = write_inputs(tmp_path)
    data = Path(read_run_config(rows).data.path)
    if other == "other data":
        header, *lines = data.read_text().splitlines()
        data = folder / "rows.csv"
        data.write_text("\n".join([header, *lines[::-1]]) + "\n")
    said = [f"data.path={data}", *OTHERS[other]]
    assert (
        main(["fit", str(folder / "small.toml"), "--out", str(folder / "other"), "--set", *said])
        == 0
    )
    copy = shutil.copytree(rows, tmp_path / "run")
    shutil.copy(folder / "other" / "result.json", copy / "result.json")
    capsys.readouterr()
    for command in (["summary"], ["report"], ["check"]):
        assert main([*command, str(copy)]) == 2
        assert "result.json: the file of another run: it" in capsys.readouterr().err
    assert main(["resume", str(copy)]) == 0
    assert "result.json: the file of another run: it" in capsys.readouterr().err
    assert main(["summary", str(copy)]) == 0
    before, after = (read_json(run / "result.json", "") for run in (rows, copy))
    assert {name: after[name] for name in ("step", "blocks")} == {
        name: before[name] for name in ("step", "blocks")
    }


def test_the_posterior_of_another_run_is_not_that_of_this_one(documents, tmp_path, capsys):
    copy = shutil.copytree(documents, tmp_path / "run")
    with np.load(copy / "posterior.npz") as arrays:
        turned = {name: arrays[name] + 1 for name in arrays.files}
    np.savez(copy / "posterior.npz", **turned)
    assert main(["report", str(copy)]) == 2
    check_names(capsys.readouterr().err, "posterior.npz:", "result.json")
    assert main(["resume", str(copy)]) == 0
    check_names(capsys.readouterr().err, "posterior.npz:", "result.json")
    assert main(["report", str(copy)]) == 0


def test_a_result_that_does_not_name_its_run_is_damaged(rows, tmp_path, capsys):
    copy = shutil.copytree(rows, tmp_path / "run")
    known = read_json(copy / "result.json", "")
    del known["run"]
    (copy / "result.json").write_text(json.dumps(known))
    assert main(["summary", str(copy)]) != 0
    assert "it does not say of which run it is" in capsys.readouterr().err


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("which", ["rows", "documents"])
def test_resume_takes_a_damaged_result_for_none_and_says_so(which, kind, tmp_path, request, capsys):
    run = request.getfixturevalue(which)
    copy = damage(run, "result.json", kind, tmp_path)
    assert main(["resume", str(copy)]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "result.json" in line]
    assert len(said) == (kind != "gone")
    assert all(
        line.startswith("Warning: ") and line.endswith("it is written again") for line in said
    )
    before, after = (read_json(folder / "result.json", "") for folder in (run, copy))
    assert {name: after[name] for name in ("status", "step", "blocks")} == {
        name: before[name] for name in ("status", "step", "blocks")
    }


def test_settings_that_are_lost_are_those_of_the_last_checkpoint(rows, tmp_path, capsys):
    copy = damage(rows, "config.toml", "empty", tmp_path)
    assert main(["resume", str(copy)]) == 0
    assert "config.toml was missing or empty; it is written again" in capsys.readouterr().err
    assert (copy / "config.toml").read_text() == (rows / "config.toml").read_text()


def test_settings_that_are_no_toml_are_left_to_their_user(rows, tmp_path):
    copy = damage(rows, "config.toml", "noise", tmp_path)
    before = (copy / "config.toml").read_bytes()
    assert main(["resume", str(copy)]) == 2
    assert (copy / "config.toml").read_bytes() == before


@pytest.mark.parametrize("change", ["unit", "place"])
def test_columns_in_another_unit_are_other_data(rows, change, capsys):
    """Standardised they are the same numbers: the run went on, with other results."""
    path = Path(read_run_config(rows).data.path)
    before = path.read_text()
    header, *lines = before.splitlines()
    turned = {"unit": lambda x: 4 * x, "place": lambda x: x + 1}[change]
    cells = [[float(cell) for cell in line.split(",")] for line in lines]
    try:
        path.write_text("\n".join([header, *(f"{turned(a)!r},{b!r}" for a, b in cells)]) + "\n")
        assert main(["resume", str(rows)]) == 2
    finally:
        path.write_text(before)
    assert "the data are not those the run began with" in capsys.readouterr().err
    assert main(["resume", str(rows)]) == 0
