"""SciPy's OpenBLAS is loaded with threads that sleep when they are idle."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vijax.xla.blas import VARIABLE, load

LOADED = """
import vijax, os
print(any("libscipy_openblas-" in line for line in open("/proc/self/maps")), "OPENBLAS_THREAD_TIMEOUT" in os.environ)
"""


def test_the_users_choice_stands():
    environ = {VARIABLE: "26"}
    load(environ)
    assert environ == {VARIABLE: "26"}


def test_what_is_set_is_taken_back():
    environ: dict[str, str] = {}
    load(environ)
    assert environ == {}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="says nothing of what is loaded")
def test_it_is_loaded_by_the_import():
    import scipy

    if not list(Path(scipy.__file__).parent.parent.glob("scipy.libs/libscipy_openblas-*")):
        pytest.skip("SciPy has another BLAS here")
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False"]
