"""The tests that a change touched, on a package of four modules."""

import subprocess

import pytest

from tests import touched

FILES = {
    "vijax/__init__.py": "from vijax.models import lda\nfrom vijax.fit import fit",
    "vijax/models/__init__.py": "from vijax.models.topics import lda",
    "vijax/models/topics.py": "from vijax.families import gamma\nlda = gamma",
    "vijax/families.py": "gamma = 1",
    "vijax/fit.py": "def fit():\n    from vijax.families import gamma",
    "tests/helpers.py": "import vijax as vi\nrun = vi.fit",
    "tests/test_families.py": "from vijax.families import gamma",
    "tests/test_topics.py": "import vijax as vi\nvi.models.lda()",
    "tests/test_fit.py": "from tests.helpers import run",
    "tests/test_alone.py": "import vijax as vi",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(touched, "ROOT", tmp_path)
    caches = (touched.paths, touched.tree, touched.handed_on, touched.imports)
    for function in caches:
        function.cache_clear()
    yield tmp_path
    for function in caches:
        function.cache_clear()


@pytest.mark.parametrize(
    ("changed", "files"),
    [
        ("vijax.families", ["test_families", "test_topics", "test_fit"]),
        ("vijax.models.topics", ["test_topics"]),
        ("vijax.fit", ["test_fit"]),
        ("tests.helpers", ["test_fit"]),
        ("tests.test_alone", ["test_alone"]),
        ("vijax.gone", []),
    ],
)
def test_files_that_reach_what_changed_come_nearest_first(project, changed, files):
    """Through a front door only what is named counts; through helpers of tests and imports inside
    functions too."""
    assert touched.test_files([changed]) == [f"tests/{name}.py" for name in files]


def test_what_changed_is_what_git_says(project):
    git = lambda *words: subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=project, check=True
    )
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "first")
    (project / "vijax/fit.py").write_text("def fit():\n    return 1")
    (project / "notes.md").write_text("no module")
    git("add", "-A")
    git("commit", "-qm", "second")
    assert list(touched.changed_modules("HEAD~1")) == ["vijax.fit"]
