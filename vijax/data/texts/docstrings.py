"""The built-in corpus: docstrings of the scientific Python packages installed beside vijax, as
prose.

Nothing is downloaded or imported: `ast` parses the modules, and runs no code. The strings that
calls of `add_newdoc` give to compiled functions count as docstrings."""

from __future__ import annotations

import ast
import dataclasses
import gc
import importlib.metadata
import importlib.util
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.cache import cached_corpus
from vijax.data.reading.checks import fail
from vijax.data.texts.text import TextSettings, corpus_from_texts
from vijax.extras import require_extra

PACKAGES = ("numpy", "scipy", "jax", "sklearn", "optax", "matplotlib")
# Tests, copies of other projects, and JAX's kernel languages, which are large, and written for
# their own developers.
LEFT_OUT = {
    "test",
    "tests",
    "testing",
    "internal_test_util",
    "conftest.py",
    "_vendor",
    "externals",
    "_lib",
}
LEFT_OUT |= {"pallas", "mosaic"}
# Version of the rules below: a corpus that another version put into the cache is made again.
VERSION = 1


def docstring_corpus(
    packages: Sequence[str] = PACKAGES, min_chars: int = 200, cache_dir: str | Path | None = None
) -> Corpus:
    """The docstrings of modules, classes and functions, one document each, without examples,
    signatures and markup.

    The first call parses the packages (some seconds); later ones open the cache.

    Args:
      packages: top-level packages; the notes name those that are not installed.
      min_chars: shorter docstrings are left out, and so are repeated ones.
      cache_dir: the cache folder; by default `vijax.data.reading.cache.cache_folder()`.

    Raises:
      ValueError: no package is installed.
    """
    versions = {name: _version(name) for name in packages if _root(name)}
    if not versions:
        remedy = "pip install numpy scipy scikit-learn"
        raise fail("packages", "an installed package", ", ".join(packages), remedy)
    missing = [name for name in packages if name not in versions]
    # Sorted, so that the settings, a part of the key in the cache, are the same in every process.
    english = sorted(require_extra("sklearn.feature_extraction.text").ENGLISH_STOP_WORDS)
    settings = TextSettings(stop_words=(*STOP_WORDS, *english))

    def build(folder: Path) -> Corpus:
        return corpus_from_texts(docstrings(tuple(versions), min_chars), settings, folder=folder)

    key = (VERSION, versions, min_chars, settings)
    corpus = cached_corpus("docstrings", key, build, Path(cache_dir) if cache_dir else None)
    notes = (f"Packages not installed, and so left out: {', '.join(missing)}.",) if missing else ()
    return dataclasses.replace(corpus, notes=corpus.notes + notes)


def docstrings(packages: Sequence[str], min_chars: int) -> Iterator[tuple[str, str]]:
    """(qualified name, cleaned docstring) pairs, each text once."""
    texts: set[str] = set()
    for path, module in itertools.chain.from_iterable(map(_modules, packages)):
        for name, text in _file_docstrings(path, module):
            prose = clean(text)
            if len(prose) >= min_chars and prose not in texts:
                texts.add(prose)
                yield _public(name), prose


def _public(name: str) -> str:
    """A dotted name without its private packages, as readers of a report would look it up.

    >>> _public("sklearn.decomposition._lda.LatentDirichletAllocation")
    'sklearn.decomposition.LatentDirichletAllocation'
    """
    *parents, last = name.split(".")
    return ".".join([*(part for part in parents if not part.startswith("_")), last])


def _root(package: str) -> Path | None:
    """The folder of a top-level package, None if it is not installed; the package is not
    imported."""
    spec = importlib.util.find_spec(package)
    if spec and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0])
    return None


def _version(package: str) -> str:
    names = importlib.metadata.packages_distributions().get(package, [package])
    try:
        return importlib.metadata.version(names[0])
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _modules(package: str) -> Iterator[tuple[Path, str]]:
    """The files of a package, without tests, with their dotted names."""
    root = _root(package)
    if root is None:
        return
    for path in sorted(root.rglob("*.py")):
        parts = (package, *path.relative_to(root).parts)
        if not LEFT_OUT.intersection(parts):
            yield path, ".".join(parts).removesuffix(".py").removesuffix(".__init__")


def _file_docstrings(path: Path, module: str) -> Iterator[tuple[str, str]]:
    """(qualified name, docstring) pairs of a file; none if it does not parse."""
    try:
        tree = _parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    yield from _visit(tree, module)
    yield from _newdoc_strings(tree, module)


def _parse(source: bytes) -> ast.Module:
    """The syntax tree. Garbage collection pauses: it takes a third of the time and finds nothing in
    a tree."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_on:
            gc.enable()


def _visit(
    node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str
) -> Iterator[tuple[str, str]]:
    """Docstrings of a module, class or function and of the classes and functions inside it."""
    if text := ast.get_docstring(node):
        yield name, text
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from _visit(child, f"{name}.{child.name}")


def _newdoc_strings(tree: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """Docstrings that top-level calls `add_newdoc("place", "name", "text")` give to compiled
    functions."""
    for statement in tree.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call):
            continue
        if getattr(call.func, "id", getattr(call.func, "attr", "")) != "add_newdoc":
            continue
        constants = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
        strings = [value for value in constants if isinstance(value, str)]
        if len(strings) >= 2:
            yield ".".join([module.partition(".")[0], *strings[:-1][-2:][-1:]]), strings[-1]


# Words of all documentation, whatever its subject; without them topics tell the subjects.
_CRAFT = """
args arg kwargs argument arguments param params parameter parameters attribute attributes attr return returns
returned returning raise raises raised yield yields note notes example examples usage warning warnings see also
reference references versionadded versionchanged deprecated deprecation version added changed default defaults
optional none true false bool boolean int integer integers float floats str string strings dict tuple list lists
object objects instance instances class classes method methods function functions callable module modules type
types value values array arrays ndarray like shape dtype input inputs output outputs result results data number
numbers use used uses using usually given gives give specified specify specifies corresponding following follows
set sets setting get gets new make makes want need needs case cases way different instead based available possible
possibly passed pass passing contains contain containing called calls call allows allow supported supports support
provided provide provides ignored required requires require equivalent respectively behavior details information
implementation implements implemented documentation docs doc docstring user users numpy scipy jax sklearn optax
matplotlib scikit learn jnp np plt axs lax pandas https http www org com doi html ref func math meth mod code self
cls init import api let does non
"""
STOP_WORDS = tuple(_CRAFT.split())

_SECTIONS = (
    "parameters|other "
    "parameters|returns?|yields?|raises|attributes|methods|notes?|references|examples?|"
)
_SECTIONS += "see also|warns|warnings|args|arguments|keyword arguments"
_CODE_BLOCKS = "code|code-block|plot|math|testcode|doctest|image|figure|autosummary|currentmodule"
_RULES = (  # in this order; a match of each pattern becomes the text beside it
    # Sections without prose, up to the next underlined heading or the end.
    (
        r"\n *(?:references|examples?|see also) *:?\n *(?:-{3,} *\n)?[\s\S]*?(?=\n *\w[\w ]*\n "
        r"*-{3,}|\Z)",
        "\n",
    ),
    (r"^ *(?:>>>|\.\.\.).*(?:\n(?! *\n| *>>>).*)*", ""),  # examples and what they print
    (rf"^( *)\.\. (?:{_CODE_BLOCKS})\b.*(?:\n *$|\n\1 +.*)*", ""),
    (r"```[\s\S]*?```", " "),
    (r"^ *\.\. *(?:\[\w+\]|\w+::)", " "),  # the marker of other directives and footnotes
    (r":(?:math|label):`[^`]*`|\$[^$]*\$", " "),
    (r":[\w:+-]+:`~?\.?([^`<]*)(?:<[^`]*>)?`", r"\1"),  # roles become their text
    (r"https?://\S+", " "),
    (r"^ *[\w*, ]+ : [^\n]*$", " "),  # "x : array_like, optional", NumPy's style
    (r"^ *[\w*]+(?: \([^)\n]*\))?: (?=\S)", " "),  # the name in "x: what it is", Google's style
    (rf"^ *(?:{_SECTIONS}) *:? *$", " "),
    (r"^ *[-=~^*#+|]{3,}[-=~^*#+| ]*$", " "),  # underlines and tables
    (r"^\w+\([^\n]*\)(?: *->.*)?$", " "),  # signatures
    (r"%\(\w+\)s|\{\w+\}|\|\w+\|", " "),  # templates not filled in
    (r"``[^`]*[=(\[][^`]*``", " "),  # inline code, but not names
    (r"[`*|<>]+", " "),
)
_COMPILED = tuple(
    (re.compile(pattern, re.MULTILINE | re.IGNORECASE), text) for pattern, text in _RULES
)


def clean(docstring: str) -> str:
    r"""The prose of a docstring.

    >>> clean("Sum of elements.\n\nParameters\n----------\na : array_like\n    What to sum.\n\n>>> sum([1])\n1")
    'Sum of elements. What to sum.'
    """
    text = docstring
    for pattern, replacement in _COMPILED:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())
