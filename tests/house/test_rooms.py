"""The house: rooms import only rooms above them, no circle, few files in a room."""

import ast
import functools
import importlib
import runpy
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "vijax"
ROOMS = [
    "top",
    "xla",
    "families",
    "constrain",
    "contract",
    "data",
    "inference",
    "predict",
    "topics",
    "evaluate",
    "models",
    "scale",
    "verdict",
    "fitting",
    "algorithms",
    "growing",
    "reference",
    "automatic",
    "response",
    "trust",
    "adapters",
    "sklearn",
    "app",
]
"""In the order in which they may import: a room uses those before it."""
FLOORS = [
    "settings",
    "drawing",
    "sources",
    "rows",
    "catalogue",
    "plan",
    "folder",
    "answers",
    "report",
    "runs",
    "commands",
    "cli",
]
"""The floors of `vijax/app/`, from the lowest up: a floor uses those before it, and there are no
exceptions."""
CORE_OF_APP = Path(__file__).with_name("core_of_app.txt")
"""The modules outside `vijax/app/` that it imports."""
TOP = (
    "same_name",
    "tree",
    "checks",
    "arguments",
    "arrays",
    "extras",
    "files",
    "memory",
    "terminal",
    "numerals",
    "lbfgs",
    "result",
    "spreads",
)
MOST = 17
"""Files in a folder, the `__init__` among them."""
MORE: dict[str, int] = {}
"""Folders that have more."""
PATHS = {
    ".".join(("vijax", *p.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): p
    for p in sorted(PACKAGE.rglob("*.py"))
}


@functools.cache
def tree(name: str) -> ast.Module:
    return ast.parse(PATHS[name].read_text())


def imports(name: str) -> Iterator[tuple[str, bool]]:
    """Modules that a module imports, and whether inside a function; what types alone need counts
    too."""

    def walk(node: ast.AST, late: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ImportFrom) and (child.module or "").split(".")[0] == "vijax":
                yield from (
                    (defined(child.module or "", alias.name), late) for alias in child.names
                )
            if isinstance(child, ast.Import):
                yield from ((alias.name, late) for alias in child.names if alias.name in PATHS)
            yield from walk(
                child,
                late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda),
            )

    yield from walk(tree(name), False)


def all_imports(name: str) -> Iterator[str]:
    """Modules of vijax that a module imports anywhere: in functions and for types alone too."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vijax":
            yield from (defined(node.module or "", alias.name) for alias in node.names)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in PATHS)


def defined(package: str, name: str) -> str:
    """The module of a name that a package hands on."""
    if f"{package}.{name}" in PATHS:
        return f"{package}.{name}"
    for node in tree(package).body if PATHS[package].name == "__init__.py" else ():
        if isinstance(node, ast.ImportFrom) and name in {
            alias.asname or alias.name for alias in node.names
        }:
            return defined(node.module or "", name)
    return package


def room(name: str) -> str:
    """The folder at the top; the rows of algorithms are a room of two files."""
    first = name.split(".")[1]
    return (
        "algorithms"
        if first in ("algorithms", "free_algorithms", "row")
        else "top"
        if first in TOP
        else first
    )


@functools.cache
def graph() -> dict[str, list[tuple[str, bool]]]:
    """Imports of all modules but the front door, `vijax/__init__.py`."""
    return {name: list(imports(name)) for name in PATHS if name != "vijax"}


def circle_in(imports_of: Mapping[str, Iterable[tuple[str, bool]]]) -> tuple[str, ...]:
    """The first circle of modules that import each other, at the top or inside functions; empty
    where there is none."""
    seen: set[str] = set()

    def circle_from(name: str, path: tuple[str, ...]) -> tuple[str, ...]:
        if name in path:
            return (*path[path.index(name) :], name)
        if name in seen:
            return ()
        seen.add(name)
        targets = (target for target, _ in imports_of.get(name, ()) if target != name)
        return next(filter(None, (circle_from(target, (*path, name)) for target in targets)), ())

    return next(filter(None, (circle_from(name, ()) for name in imports_of)), ())


def test_rooms_import_those_before_them() -> None:
    """Inside functions too."""
    up = [
        (name, target)
        for name, targets in graph().items()
        for target, _ in targets
        if target != "vijax" and ROOMS.index(room(target)) > ROOMS.index(room(name))
    ]
    assert not up, f"imports that go up: {up}"


def height(name: str) -> tuple[int, int]:
    """The height of a module of `vijax/app/`: that of its floor; a folder within a floor stands
    below its rest."""
    parts = name.split(".")
    return FLOORS.index(parts[2]), -len(parts)


def test_floors_of_the_program_import_those_below_them() -> None:
    program = [name for name in PATHS if name.startswith("vijax.app.")]
    assert {name.split(".")[2] for name in program} == set(FLOORS)
    up = [
        f"{name}: {target}"
        for name in program
        for target in all_imports(name)
        if target.startswith("vijax.app.") and height(target) > height(name)
    ]
    assert not up, f"imports that go up, between floors of vijax/app: {up}"
    assert not list(all_imports("vijax.app")), "a floor that is below all others"


def test_the_program_imports_listed_modules_of_the_core() -> None:
    """A list that may only shrink, so that the program could leave the package one day."""
    listed = CORE_OF_APP.read_text().split()
    used = {
        target for name in PATHS if name.startswith("vijax.app.") for target in all_imports(name)
    }
    core = {name for name in used if not name.startswith("vijax.app.")}
    new, unused = sorted(core - set(listed)), sorted(set(listed) - core)
    remedy = (
        "Take what is needed from a listed one; or, where one was moved, write its new name in "
        f"{CORE_OF_APP.name}"
    )
    assert not new, f"core modules that vijax/app did not need so far: {new}. {remedy}"
    assert not unused, (
        f"core modules that vijax/app needs no more: {unused}. Strike them from {CORE_OF_APP.name}"
    )
    assert listed == sorted(set(listed)), "in order, each once"


def test_there_is_no_circle() -> None:
    """Of modules that import each other, at the top of a file, inside its functions, or for types
    alone."""
    circle = circle_in(graph())
    assert not circle, f"a circle: {' -> '.join(circle)}"


def test_a_circle_through_an_import_inside_a_function_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit that asks the verdict, and a verdict that asks the fit late; `asks` leads there, and is
    in no circle."""
    sources = {
        "vijax.asks": "from vijax.fits import fit",
        "vijax.fits": "from vijax.says import judge",
        "vijax.says": "def judge():\n    from vijax.fits import fit\n    return fit",
    }
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.setitem(PATHS, name, tmp_path / f"{name}.py")
    drawn = {name: list(imports(name)) for name in sources}
    tree.cache_clear()
    assert drawn["vijax.says"] == [("vijax.fits", True)]
    assert circle_in(drawn) == ("vijax.fits", "vijax.says", "vijax.fits")
    assert circle_in({**drawn, "vijax.says": []}) == ()


def test_the_picture_of_the_rooms_is_of_today() -> None:
    drawn = runpy.run_path(str(PACKAGE.parent / "docs" / "rooms.py"))
    assert drawn["PICTURE"].read_text() == drawn["picture"](), "python docs/rooms.py draws it anew"


def test_benchmarks_take_names_that_there_are() -> None:
    taken = {
        (node.module, alias.name)
        for path in (PACKAGE.parent / "benchmarks").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vijax"
        for alias in node.names
    }
    has = lambda module, name: (
        f"{module}.{name}" in PATHS or hasattr(importlib.import_module(module), name)
    )
    assert [f"{module}: {name}" for module, name in sorted(taken) if not has(module, name)] == []


def room_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir() and any(path.glob("*.py"))}


def test_tests_have_the_rooms_of_the_package() -> None:
    """`house` and `typing` beside them; within models too."""
    tests = Path(__file__).parents[1]
    assert room_names(tests) - {"house", "typing"} == room_names(PACKAGE)
    assert room_names(tests / "models") == room_names(PACKAGE / "models")


def test_no_name_of_a_later_jax_is_used() -> None:
    """`jax.enable_x64` is none of jax 0.7, where the tests define it: vijax has it from one
    place."""
    found = [path.name for path in PATHS.values() if "jax.enable_x64" in path.read_text()]
    assert not found


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in PATHS.values()}), ids=lambda p: p.name
)
def test_no_folder_has_more_files_than_one_can_hold_in_the_head(folder: Path) -> None:
    files = [path.name for path in folder.glob("*.py")]
    assert len(files) <= MORE.get(folder.name, MOST), files


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in PATHS.values()}), ids=lambda p: p.name
)
def test_a_folder_says_what_belongs_there_and_what_does_not(folder: Path) -> None:
    words = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    first, _, more = words.partition("\n\n")
    assert first, "no word on what belongs there"
    assert more, "no word on what does not belong there, or where that is"


AT_BIRTH = {
    "vijax/xla/by_value.py: _with_recipe",
    "vijax/xla/frozen.py: _object",
    "vijax/families/product.py: _rebuild",
    "vijax/families/chain/word_walks.py: prepare",
    "vijax/inference/sites/posterior.py: prepare",
}
"""Functions that fill a frozen object which they have just made, before anybody else has it."""


def test_frozen_objects_are_not_changed_after_birth() -> None:
    """What is computed of them later is kept by `vijax.xla.by_value.kept_with`."""
    setter = "object.__setattr__"
    texts = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    places = {
        f"{path.relative_to(PACKAGE.parent)}: {function.name}"
        for path, text in texts.items()
        if setter in text
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef) and function.name != "__post_init__"
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == setter
    }
    assert places == AT_BIRTH
