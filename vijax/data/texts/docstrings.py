"""The embedded corpus: docstrings of the scientific Python packages installed beside vijax.

Nothing is downloaded and nothing imported: modules are parsed by `ast`, which is quick and runs no code. Some docs are
strings added to compiled functions by calls to `add_newdoc`; those count as docstrings.
"""

from __future__ import annotations

import ast
import dataclasses
import gc
import importlib.metadata
import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.cache import cached_corpus
from vijax.data.reading.checks import fail
from vijax.data.texts import docstring_text
from vijax.data.texts.text import TextSettings, corpus_from_texts

PACKAGES = ("numpy", "scipy", "jax", "sklearn", "optax", "matplotlib")
# Tests, copies of other projects, and jax's kernel languages, which are big, and written for their own developers.
LEFT_OUT = {"test", "tests", "testing", "internal_test_util", "conftest.py", "_vendor", "externals", "_lib"}
LEFT_OUT |= {"pallas", "mosaic"}
VERSION = 1  # of the rules below: what an older version of them made is not taken from the cache


def docstring_corpus(
    packages: Sequence[str] = PACKAGES, min_chars: int = 200, cache_dir: str | Path | None = None
) -> Corpus:
    """The docstrings of modules, classes and functions, one document each, without examples, signatures and markup.

    The first call parses the packages (some seconds); later ones open the cache.

    Args:
      packages: top-level packages; those that are not installed are left out, and named in the notes.
      min_chars: shorter docstrings are left out, and so are repeated ones.
      cache_dir: the cache folder; by default that of `vijax.data.reading.cache.cache_folder`.

    Raises:
      ValueError: no package is installed.
    """
    versions = {name: _version(name) for name in packages if _root(name)}
    if not versions:
        raise fail("packages", "an installed package", ", ".join(packages), "pip install numpy scipy scikit-learn")
    missing = [name for name in packages if name not in versions]
    settings = TextSettings(stop_words=(*docstring_text.STOP_WORDS, *docstring_text.english()))

    def build(folder: Path) -> Corpus:
        return corpus_from_texts(docstrings(tuple(versions), min_chars), settings, folder=folder)

    key = (VERSION, versions, min_chars, settings)
    corpus = cached_corpus("docstrings", key, build, Path(cache_dir) if cache_dir else None)
    notes = (f"Packages not installed, and so left out: {', '.join(missing)}.",) if missing else ()
    return dataclasses.replace(corpus, notes=corpus.notes + notes)


def docstrings(packages: Sequence[str], min_chars: int) -> Iterator[tuple[str, str]]:
    """(qualified name, cleaned docstring) pairs, each text once."""
    seen: set[str] = set()
    for path, module in itertools.chain.from_iterable(map(_modules, packages)):
        for name, text in _documented(path, module):
            clean = docstring_text.clean(text)
            if len(clean) >= min_chars and clean not in seen:
                seen.add(clean)
                yield _public(name), clean


def _public(name: str) -> str:
    """A dotted name without its private packages: what a reader of a report would look for.

    >>> _public("sklearn.decomposition._lda.LatentDirichletAllocation")
    'sklearn.decomposition.LatentDirichletAllocation'
    """
    *parents, last = name.split(".")
    return ".".join([*(part for part in parents if not part.startswith("_")), last])


def _root(package: str) -> Path | None:
    """The folder of a top-level package, None when it is not installed; nothing is imported to find it."""
    spec = importlib.util.find_spec(package)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _version(package: str) -> str:
    names = importlib.metadata.packages_distributions().get(package, [package])
    try:
        return importlib.metadata.version(names[0])
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _modules(package: str) -> Iterator[tuple[Path, str]]:
    """The files of a package that are no tests, with their dotted names."""
    root = _root(package)
    if root is None:
        return
    for path in sorted(root.rglob("*.py")):
        parts = (package, *path.relative_to(root).parts)
        if not LEFT_OUT.intersection(parts):
            yield path, ".".join(parts).removesuffix(".py").removesuffix(".__init__")


def _documented(path: Path, module: str) -> Iterator[tuple[str, str]]:
    """(qualified name, docstring) of all that is documented in a file; files that do not parse have none."""
    try:
        tree = _parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    yield from _visit(tree, module)
    yield from _added(tree, module)


def _parse(source: bytes) -> ast.Module:
    """The syntax tree; garbage collection pauses, as it takes a third of the time and finds nothing in a tree."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_on:
            gc.enable()


def _visit(node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str) -> Iterator[tuple[str, str]]:
    """Docstrings of a module, class or function and of the classes and functions right inside it."""
    if text := ast.get_docstring(node):
        yield name, text
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from _visit(child, f"{name}.{child.name}")


def _added(tree: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """Docstrings that top-level calls `add_newdoc("place", "name", "text")` give to compiled functions."""
    for statement in tree.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and getattr(call.func, "id", getattr(call.func, "attr", "")) == "add_newdoc":
            strings = [s.value for s in ast.walk(call) if isinstance(s, ast.Constant) and isinstance(s.value, str)]
            if len(strings) >= 2:
                yield ".".join([module.partition(".")[0], *strings[:-1][-2:][-1:]]), strings[-1]
