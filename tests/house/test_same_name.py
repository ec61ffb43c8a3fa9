"""The other project called vijax: an import that finds its files among ours says so."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.naming import naming
from vijax.same_name import FOLDER, check_no_other

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.3\n"


def add_record(site, folder, name, files):
    record = site / folder
    record.mkdir(parents=True)
    (record / "METADATA").write_text(METADATA.format(name=name))
    (record / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file in files:  # Python 3.12 and later list those that exist
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).touch()
    (site / "vijax").mkdir(exist_ok=True)
    return site / "vijax"


def test_the_other_is_named_with_what_to_do(tmp_path):
    add_record(tmp_path, "vijax_vi-0.1.0.dist-info", "vijax-vi", ["vijax/__init__.py"])
    package = add_record(
        tmp_path,
        "vijax-0.0.3.dist-info",
        "vijax",
        ["vijax/__init__.py", "vijax/models/Gaussian.py"],
    )
    with pytest.raises(
        ImportError, match=naming("vijax 0.0.3", "pip uninstall -y vijax vijax-vi")
    ) as error:
        check_no_other(package)
    assert str(package) in str(error.value)


@pytest.mark.parametrize(
    ("folder", "name", "files"),
    [
        ("vijax_vi-0.1.0.dist-info", "vijax-vi", ["vijax/__init__.py"]),
        ("vijax-0.0.3.dist-info", "vijax", ["vijax.pth"]),
        ("vijax-extra-1.0.dist-info", "vijax-extra", ["vijax_extra/__init__.py"]),
        ("vijax-stubs-1.0.dist-info", "vijax-stubs", ["vijax-stubs/__init__.pyi"]),
    ],
    ids=["this one alone", "installed from a clone", "another name", "stubs"],
)
def test_nothing_else_is_taken_for_it(tmp_path, folder, name, files):
    check_no_other(add_record(tmp_path, folder, name, files))


def test_an_archive_is_no_folder(tmp_path):
    check_no_other(tmp_path / "packages.zip" / "vijax")


@pytest.mark.parametrize("module", ["vijax.app.cli", "vijax.extras"])
def test_it_is_found_where_the_other_has_overwritten_the_package(tmp_path, module):
    """Its `__init__` is empty."""
    shutil.copytree(
        FOLDER, tmp_path / "vijax", ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    Path(tmp_path, "vijax", "__init__.py").write_text("")
    add_record(tmp_path, "vijax-0.0.3.dist-info", "vijax", ["vijax/__init__.py"])
    program = subprocess.run(
        [sys.executable, "-c", f"import {module}"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ImportError: Two packages have their files in" in program.stderr
