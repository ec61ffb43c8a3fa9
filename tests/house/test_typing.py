"""What a checker of types makes of a program that uses vijax."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

PROGRAM = Path(__file__).parents[1] / "typing" / "downstream.py"


@pytest.mark.slow
def test_a_program_passes_mypy_strict(tmp_path):
    """Elsewhere, with vijax as an installed package; and what is wrong in it is found."""
    wrong = "\n\nWRONG: int = density()\n"
    for text, code in (("", 0), (wrong, 1)):
        shutil.copyfile(PROGRAM, tmp_path / "program.py")
        with (tmp_path / "program.py").open("a") as program:
            program.write(text)
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "program.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout
    assert done.stdout.count("error:") == 1
    assert "Incompatible types in assignment" in done.stdout


@pytest.mark.slow
def test_the_program_runs():
    spec = importlib.util.spec_from_file_location("downstream", PROGRAM)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    rows = np.random.default_rng(0).normal(size=(40, 2))
    assert program.cluster(rows, 2).shape == (40, 2)
    assert np.isfinite(program.own(jnp.array([1.0, 0.0, 1.0])))
    assert "can be used" in program.density()
