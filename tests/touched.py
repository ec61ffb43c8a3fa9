"""Tests that a change touched, by the graph of imports: `python -m tests.touched COMMIT` prints the
test files that reach a module changed since that commit, the nearest first.

A test file imports modules, names of the front door (`vi.models.lda`) and helpers of the tests; each
imports others. A changed test file is nearest of all. `.ci/run` runs the slow cases of these files
as long as it has time (`--until`)."""

import ast
import functools
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def module_name(path: Path) -> str:
    """The dotted name of a file, from the root of the project."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def paths() -> dict[str, Path]:
    """All files of the package and of its tests, by module."""
    files = [*(ROOT / "vijax").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    return {module_name(path): path for path in sorted(files)}


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(paths()[module].read_text())


@functools.cache
def handed_on(package: str) -> dict[str, tuple[str, str]]:
    """Names that an `__init__.py` imports: the module and the name there."""
    names = {}
    for node in ast.walk(tree(package)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = (node.module or "", alias.name)
    return names


def resolve(package: str, names: list[str]) -> str:
    """The module that a chain of names leads to: `vijax`, [`models`, `lda`] to that of `lda`.

    >>> resolve("vijax", ["models", "lda", "name"]), resolve("vijax", ["svi"])
    ('vijax.models.documents.lda', 'vijax.algorithms')
    """
    if not names:
        return package
    first, *rest = names
    if f"{package}.{first}" in paths():
        return resolve(f"{package}.{first}", rest)
    is_package = paths()[package].name == "__init__.py"
    module, name = handed_on(package).get(first, ("", "")) if is_package else ("", "")
    if module not in paths():
        return package
    return resolve(module, [name, *rest])


def chain(node: ast.AST) -> list[str]:
    """`vi.models.lda` as names; empty for other expressions."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        before = chain(node.value)
        return [*before, node.attr] if before else []
    return []


@functools.cache
def imports(module: str) -> frozenset[str]:
    """Modules that a module reads, at the top or inside functions. Of the front door, and of other
    packages that hand names on, only what is named."""
    targets = set()
    doors = {"vijax"}
    chains = []
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module in paths():
            targets |= {resolve(node.module, [alias.name]) for alias in node.names}
        elif isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names if alias.name in paths()}
            doors |= {alias.asname or "" for alias in node.names if alias.name == "vijax"}
        elif isinstance(node, ast.Attribute):
            chains.append(chain(node))
    for names in chains:
        if names and names[0] in doors:
            targets.add(resolve("vijax", names[1:]))
    return frozenset(targets - {module, "vijax"})


def distances(changed: Iterable[str]) -> dict[str, int]:
    """Steps of imports from each module that reaches a changed one; 0 for the changed ones."""
    importers: dict[str, set[str]] = {}
    for module in paths():
        for target in imports(module):
            importers.setdefault(target, set()).add(module)
    steps = {module: 0 for module in changed if module in paths()}
    front = list(steps)
    while front:
        behind = []
        for module in front:
            for importer in importers.get(module, ()):
                if importer not in steps:
                    steps[importer] = steps[module] + 1
                    behind.append(importer)
        front = behind
    return steps


def test_files(changed: Iterable[str]) -> list[str]:
    """Files of tests that reach changed modules, the nearest first."""
    steps = distances(changed)
    files = [
        (number, str(paths()[module].relative_to(ROOT)))
        for module, number in steps.items()
        if re.search(r"(^|\.)test_\w+$", module) and module.startswith("tests.")
    ]
    return [file for _, file in sorted(files)]


test_files.__test__ = False  # type: ignore[attr-defined]


def changed_modules(commit: str) -> Iterator[str]:
    """Modules of the package and of its tests that differ from those of a commit."""
    command = ["git", "diff", "--name-only", commit, "--", "vijax", "tests"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        if line.endswith(".py"):
            yield module_name(ROOT / line)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A case that would begin too late is skipped, and says so."""
    until = item.config.option.until
    if until is not None and time.time() > until:
        pytest.skip("no time is left for it (--until)")


def main() -> None:
    (commit,) = sys.argv[1:]
    print("\n".join(test_files(changed_modules(commit))))


if __name__ == "__main__":
    main()
