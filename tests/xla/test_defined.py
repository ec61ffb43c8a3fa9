"""The compiled E-steps do nothing that C++ leaves undefined."""

import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import pytest

from vijax.xla import native

ROOT = Path(__file__).parents[2]
CHECKS = "shift,float-cast-overflow,integer-divide-by-zero,signed-integer-overflow,bounds"
RUNS = """
import sys, pathlib, pytest
from vijax.xla import native
native.LIBRARY = pathlib.Path(sys.argv[1])
sys.exit(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not native.is_available(), reason="vijax was installed without a C++ compiler")
def test_shifts_casts_and_indices_are_defined(tmp_path, monkeypatch):
    """The tests of the E-steps on a library that stops its process where one is not."""
    base = "hatchling.builders.hooks.plugin.interface"  # is there while a wheel is built
    monkeypatch.setitem(sys.modules, base, types.SimpleNamespace(BuildHookInterface=object))
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    flags = [f"-fsanitize={CHECKS}", "-fsanitize-undefined-trap-on-error", "-O1"]
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, *flags))
    library = tmp_path / "esteps.so"
    assert build.compile_to(library) == ""
    tests = [str(path) for path in sorted((ROOT / "tests" / "xla").glob("test_native*.py"))]
    command = [sys.executable, "-c", RUNS, str(library), "-m", "not slow", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
