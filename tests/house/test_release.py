"""A release: the vendored headers are those of the oldest jaxlib, and what it says of itself agrees
with itself."""

import hashlib
import importlib.util
import re
import sys
import tomllib
import types
from pathlib import Path

import pytest

import vijax

ROOT = Path(__file__).parents[2]
HEADERS = ROOT / "third_party" / "xla"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture
def hatch_build(monkeypatch):
    base = "hatchling.builders.hooks.plugin.interface"  # is there while a wheel is built
    monkeypatch.setitem(sys.modules, base, types.SimpleNamespace(BuildHookInterface=object))
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_headers_are_unchanged_and_of_the_oldest_jaxlib():
    lines = (HEADERS / "SHA256SUMS").read_text().splitlines()
    checksums = dict(reversed(line.split()) for line in lines)
    headers = sorted(HEADERS.rglob("*.h"))
    assert [str(path.relative_to(HEADERS)) for path in headers] == sorted(checksums)
    for path in headers:
        assert (
            hashlib.sha256(path.read_bytes()).hexdigest()
            == checksums[path.relative_to(HEADERS).as_posix()]
        )
    oldest = next(name for name in PROJECT["dependencies"] if name.startswith("jaxlib>="))
    version = oldest.removeprefix("jaxlib>=")
    assert f"jaxlib {version}" in (HEADERS / "README.md").read_text()
    assert re.search(rf"jaxlib\s+{re.escape(version)}", (ROOT / "NOTICE").read_text())


def test_headers_are_those_of_jaxlib_where_it_is_the_oldest():
    jaxlib = pytest.importorskip("jaxlib")
    if f"jaxlib>={jaxlib.__version__}" not in PROJECT["dependencies"]:
        pytest.skip("jaxlib is not the oldest one here")
    include = Path(jaxlib.__file__).parent / "include"
    for path in HEADERS.rglob("*.h"):
        assert path.read_bytes() == (include / path.relative_to(HEADERS)).read_bytes()


def test_headers_include_only_each_other_and_the_standard_library():
    headers = list(HEADERS.rglob("*.h"))
    names = {path.relative_to(HEADERS).as_posix() for path in headers}
    for path in headers:
        included = re.findall(r'^#include "(.*)"', path.read_text(), flags=re.MULTILINE)
        assert set(included) <= names


@pytest.mark.parametrize(
    ("host", "release", "platform", "flags"),
    [
        ("linux-x86_64", None, "linux-x86_64", []),
        ("linux-aarch64", None, "linux-aarch64", []),
        (
            "macosx-14.0-arm64",
            None,
            "macosx-11.0-arm64",
            ["-arch", "arm64", "-mmacosx-version-min=11.0"],
        ),
        (
            "macosx-10.13-universal2",
            "12.0",
            "macosx-12.0-arm64",
            ["-arch", "arm64", "-mmacosx-version-min=12.0"],
        ),
    ],
)
def test_platforms_of_wheels(hatch_build, monkeypatch, host, release, platform, flags):
    monkeypatch.setattr("sysconfig.get_platform", lambda: host)
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.delenv("MACOSX_DEPLOYMENT_TARGET", raising=False)
    if release:
        monkeypatch.setenv("MACOSX_DEPLOYMENT_TARGET", release)
    assert hatch_build.target_platform() == platform
    assert hatch_build.platform_flags(platform) == flags


def test_a_compiler_may_have_arguments(hatch_build, monkeypatch):
    monkeypatch.setenv("CXX", f"{sys.executable} -m 'some compiler'")
    assert hatch_build.find_compiler() == [sys.executable, "-m", "some compiler"]
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    assert hatch_build.find_compiler() == []
    assert "no C++ compiler" in hatch_build.compile_to(Path("unused.so"))


@pytest.fixture(scope="module")
def workflows():
    yaml = pytest.importorskip("yaml")
    paths = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert [path.stem for path in paths] == ["tests", "wheels"]
    return {path.stem: yaml.safe_load(path.read_text()) for path in paths}


def test_workflows_run_what_is_run_here(workflows):
    """The same script builds wheels everywhere, and the oldest packages are those of .ci/run."""
    wheels = workflows["wheels"]["jobs"]
    for name in set(wheels) - {"publish"}:
        assert any("release/make.py" in step.get("run", "") for step in wheels[name]["steps"])
    assert set(wheels["publish"]["needs"]) == set(wheels) - {"publish"}
    oldest = " ".join(step.get("run", "") for step in workflows["tests"]["jobs"]["oldest"]["steps"])
    script = (ROOT / ".ci" / "run").read_text()
    for name in ("jax", "jaxlib"):
        version = re.search(rf'"{name}>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
        assert f" {name}=={version} " in oldest
    for name in ("numpy", "scikit-learn", "optax"):
        assert re.search(rf'"({name}==[\d.]+)"', script)[1] in oldest
    for command in ("ruff check .", "ruff format --check .", "mypy"):
        runs = [step.get("run") for step in workflows["tests"]["jobs"]["lint"]["steps"]]
        assert command in runs


def test_every_python_that_is_named_is_tested(workflows):
    tested = workflows["tests"]["jobs"]["tests"]["strategy"]["matrix"]["python"]
    named = [
        name.rsplit(" ", 1)[1]
        for name in PROJECT["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
    ]
    assert f">={named[0]}" == PROJECT["requires-python"]
    assert set(named) <= set(tested)


def test_issue_forms_have_what_they_need():
    yaml = pytest.importorskip("yaml")
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        if path.stem == "config":
            assert set(form) == {"blank_issues_enabled"}
            continue
        assert set(form) == {"name", "description", "labels", "body"}
        assert len({item["id"] for item in form["body"]}) == len(form["body"])
        for item in form["body"]:
            assert set(item) <= {"type", "id", "attributes", "validations"}
            assert set(item["attributes"]) <= {"label", "description", "render"}


def test_extras_for_accelerators_are_those_of_jax():
    extras = PROJECT["optional-dependencies"]
    for name in ("cuda12", "cuda13", "tpu"):
        bound = next(item for item in PROJECT["dependencies"] if item.startswith("jax>="))
        assert extras[name] == [bound.replace("jax", f"jax[{name}]")]
    unlisted = {
        "cuda12",
        "cuda13",
        "tpu",
        "pymc",
        "tfp",
        "all",
        "browser",
        "docs",
        "examples",
        "test",
    }
    assert set(re.findall(r"[\w]+(?=[,\]])", extras["all"][0])) == set(extras) - unlisted


def test_the_page_on_installing_lists_every_extra():
    page = (ROOT / "docs" / "install.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page, flags=re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == set(PROJECT["optional-dependencies"]) - {"browser", "docs", "examples", "test"}


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {vijax.__version__}\n" in citation
    assert PROJECT["version"] == vijax.__version__
    assert f"\n## {vijax.__version__} (" in (ROOT / "CHANGELOG.md").read_text()
