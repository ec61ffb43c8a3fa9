"""What is built for others: installed into empty environments outside the clone, nothing of the
clone within reach."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.house.test_readme import BLOCKS

ROOT = Path(__file__).parents[2]
NEWEST_TRIED = 20
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def run(*command, where, **more):
    """A command that finds vijax only where it is installed."""
    hidden = {"PYTHONPATH", "XLA_FLAGS", "VIRTUAL_ENV"}
    environ = {name: value for name, value in os.environ.items() if name not in hidden} | {
        "MPLBACKEND": "Agg"
    }
    done = subprocess.run(
        list(map(str, command)),
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
        env=environ,
        **more,
    )
    assert done.returncode == 0, (
        f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    return done.stdout + done.stderr


def newest_python():
    """The newest interpreter of this machine, newer than 3.11; None where there is none."""
    places = sorted(
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.*/bin/python")
    )
    for minor in range(NEWEST_TRIED, 11, -1):
        found = [
            shutil.which(f"python3.{minor}"),
            *(p for p in places if p.parts[-3].startswith(f"3.{minor}.")),
        ]
        for python in filter(None, found):
            works = subprocess.run(
                [str(python), "-c", "import venv, ssl"], capture_output=True, check=False
            )
            if works.returncode == 0:
                return python
    return None


def environment(python, folder, *what):
    run(python, "-m", "venv", folder, where=folder.parent)
    run(folder / "bin/python", "-m", "pip", "install", "-q", *what, where=folder.parent)
    return folder / "bin"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source distribution, and the wheels that are made of it: what a package index would
    hold. `wheel` is the one that pip takes here."""
    folder = tmp_path_factory.mktemp("built")
    has_compiler = any(map(shutil.which, ("c++", "g++", "clang++")))
    kinds = () if has_compiler else ("--pure",)
    script = ROOT / "release" / "make.py"
    run(sys.executable, script, "--no-try", *kinds, "--out", folder, where=folder)
    (sdist,) = folder.glob("*.tar.gz")
    *kernels, pure = sorted(folder.glob("*.whl"), key=lambda path: "any" in path.name)
    return SimpleNamespace(sdist=sdist, wheel=[*kernels, pure][0], pure=pure)


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("outside"), random.Random(0)
    words = [
        ["sun", "sea", "sand", "wave", "beach", "boat"],
        ["snow", "ice", "ski", "cold", "frost", "sled"],
    ]
    lines = [f"d{i}," + " ".join(draw.choice(words[i % 2]) for _ in range(30)) for i in range(60)]
    (folder / "docs.csv").write_text("title,text\n" + "\n".join(lines) + "\n")
    return folder


def check_the_program(bin_folder, where):
    """The main job by its name, and that the help names nothing that is not there."""
    vijax = bin_folder / "vijax"
    assert str(ROOT) not in run(
        bin_folder / "python", "-c", "import vijax; print(vijax.__file__)", where=where
    )
    folder = f"run-{bin_folder.parent.parent.name}"
    given = ("--set", "num_topics=2", "num_epochs=5")
    said = run(vijax, "fit", "lda", "--data", "docs.csv", "--out", folder, *given, where=where)
    assert "Held-out score" in said
    run(vijax, "transform", folder, "--data", "docs.csv", "--out", f"{folder}.csv", where=where)
    rows = [line.split(",") for line in (where / f"{folder}.csv").read_text().splitlines()[1:]]
    of = {kind: {row[2] for row in rows[kind::2]} for kind in (0, 1)}
    assert len(of[0]) == len(of[1]) == 1
    assert of[0] != of[1]
    check_the_help(bin_folder, where)


def check_the_help(bin_folder, where):
    text = run(bin_folder / "vijax", "--help", where=where)
    names = sorted(set(re.findall(r"vijax fit ([a-z_]+)\b(?!\.toml|/)", text)))
    assert {"lda", "mixture"} <= set(names)
    load = (
        "import sys; from vijax.app.plan.config import load_config; [load_config(name) for name "
        "in sys.argv[1:]]"
    )
    run(bin_folder / "python", "-c", load, *names, where=where)
    commands = set(re.findall(r"^ +vijax ([a-z]+)", text, flags=re.MULTILINE))
    assert {"fit", "transform", "compare", "resume"} <= commands
    for command in commands:
        run(bin_folder / "vijax", command, "--help", where=where)
    assert "configs/" not in text


def test_the_source_distribution_has_what_building_and_testing_need(built):
    import tarfile

    with tarfile.open(built.sdist) as archive:
        names = {"/".join(name.split("/")[1:]) for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "vijax/py.typed",
        "configs/lda_ap.toml",
    } <= names
    assert not [name for name in names if name.startswith(("shared", ".venv", "build/", "runs/"))]


def test_the_wheel_has_compiled_esteps_where_there_is_a_compiler(built, tmp_path):
    """On any Python of this platform, and of this platform alone."""
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        pytest.skip("no C++ compiler on this machine")
    assert re.search(r"-py3-none-(manylinux|macosx)_", built.wheel.name)
    bin_folder = environment(sys.executable, tmp_path / "env", built.wheel)
    said = run(
        bin_folder / "python",
        "-c",
        "from vijax.xla import native; print(native.is_available())",
        where=tmp_path,
    )
    assert said.strip() == "True"


def test_the_wheel_for_all_platforms_fits_without_kernels(built, tmp_path):
    bin_folder = environment(sys.executable, tmp_path / "env", built.pure)
    program = shutil.copy(ROOT / "release" / "try_wheel.py", tmp_path)
    assert "kernels are not in use" in run(
        bin_folder / "python", program, "without", where=tmp_path
    )


def test_the_wheel_on_this_python_with_the_command_line(built, documents, tmp_path):
    check_the_program(
        environment(sys.executable, tmp_path / "env", f"{built.wheel}[cli]"), documents
    )


def test_the_wheel_on_the_newest_python_there_is(built, documents, tmp_path):
    newest = newest_python()
    if newest is None:
        pytest.skip(
            "no Python newer than 3.11 on this machine: the wheel was tried on this one alone"
        )
    bin_folder = environment(newest, tmp_path / "env", f"{built.wheel}[cli]")
    print(run(bin_folder / "python", "--version", where=documents))
    check_the_program(bin_folder, documents)


def test_the_levels_of_the_readme_need_the_core_alone(built, tmp_path):
    """The Python of README and examples, without any extra; but for the two blocks on estimators
    for scikit-learn."""
    bin_folder = environment(sys.executable, tmp_path / "env", built.wheel)
    absent = run(bin_folder / "python", "-m", "pip", "list", where=tmp_path)
    assert not re.search(r"^(scikit-learn|tyro|matplotlib|tinygp) ", absent, flags=re.MULTILINE)
    core = [block for block in BLOCKS if "vijax.sklearn" not in block]
    assert len(core) >= len(BLOCKS) - 2 > 7
    for i, block in enumerate(core):
        (tmp_path / f"block{i}.py").write_text(block)
        run(bin_folder / "python", f"block{i}.py", where=tmp_path)
    failed = subprocess.run(
        [bin_folder / "vijax", "--help"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert failed.returncode != 0
    assert "pip install" in failed.stderr + failed.stdout


def test_colab_keeps_its_packages_and_runs_a_notebook(built, tmp_path):
    """An environment as on Colab in August 2026, where the user uploads a wheel beside a notebook:
    the first cell replaces nothing, and the notebook runs from top to bottom."""
    newest = newest_python()
    if newest is None:
        pytest.skip("no Python newer than 3.11 on this machine, and Colab has 3.13")
    image = [
        "jax==0.7.2",
        "jaxlib==0.7.2",
        "numpy==2.1.3",
        "scikit-learn==1.6.1",
        "optax==0.2.8",
        "matplotlib",
    ]
    bin_folder = environment(newest, tmp_path / "env", *image)
    before = installed_packages(bin_folder, tmp_path)
    shutil.copy(built.wheel, tmp_path)
    shutil.copy(ROOT / "notebooks" / "any_density.py", tmp_path)
    said = run(bin_folder / "python", "any_density.py", where=tmp_path, timeout=900)
    assert "vijax computes on: 1 x cpu (jax 0.7.2)." in said
    after = installed_packages(bin_folder, tmp_path)
    assert {name: after[name] for name in before} == before
    assert "vijax-vi" in after


def installed_packages(bin_folder, where):
    listed = run(bin_folder / "python", "-m", "pip", "list", "--format=json", where=where)
    return {row["name"]: row["version"] for row in json.loads(listed.splitlines()[0])}
