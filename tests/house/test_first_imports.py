"""What other packages say of themselves when they are first imported fails nothing of ours."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from vijax.extras import require_extra

ROOT = Path(__file__).parents[2]
REQUIRED = r'require_extra\("([\w.]+)"'
NOT_TRIED = {"json"}  # the example of its docstring
BY_OTHER_MEANS = {
    "vijax.adapters.tfp",
    "vijax.fitting.to_arviz",
    "flowjax.flows",
    "flowjax.distributions",
}
IMPORT_EACH = """
import sys
from vijax.extras import require_extra

for name in sys.argv[1:]:
    try:
        require_extra(name)
    except ImportError as error:
        absent = isinstance(error.__cause__ or error, ModuleNotFoundError) or "not installed" in str(error)
        print("absent" if absent else f"FAILED {error!r}", name)
    except Warning as warning:
        print(f"FAILED {warning!r}", name)
    else:
        print("imported", name)
"""


@pytest.fixture
def noisy(tmp_path, monkeypatch):
    (tmp_path / "noisy_package.py").write_text(
        "import warnings\nfor level in 1, 2: warnings.warn('a new version', FutureWarning, "
        "stacklevel=level)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "noisy_package"
    sys.modules.pop("noisy_package", None)


@pytest.mark.filterwarnings("error")
def test_warnings_of_a_first_import_are_the_packages_own(noisy):
    with pytest.raises(FutureWarning):
        __import__(noisy)
    assert require_extra(noisy) is sys.modules[noisy]
    with pytest.raises(UserWarning, match="ours"):  # the filters are as they were
        warnings.warn("ours", stacklevel=1)


def optional():
    """All that vijax imports where it is used."""
    sources = (path.read_text() for path in (ROOT / "vijax").rglob("*.py"))
    found = {name for source in sources for name in re.findall(REQUIRED, source)}
    return sorted(found - NOT_TRIED | BY_OTHER_MEANS)


def test_the_package_is_imported_without_slow_packages():
    """They are imported where they are used: SciPy's statistics alone take half a second and 38 MB."""
    slow = ["scipy.stats", "pandas", "sklearn", "matplotlib", "numpyro"]
    code = f"import sys, vijax; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_every_optional_package_is_imported_on_a_machine_that_remembers_nothing(tmp_path):
    """Warnings being errors. ArviZ 0.23 gives one once a day, and remembers it in the user's
    cache."""
    forgotten = {"PYTHONWARNINGS", "MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"}
    environ = {name: value for name, value in os.environ.items() if name not in forgotten}
    command = [sys.executable, "-W", "error", "-c", IMPORT_EACH, "vijax", *optional()]
    environ |= {"HOME": str(tmp_path)}
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "FAILED" not in done.stdout, done.stdout
    assert done.stdout.count("imported") >= 2
