"""The gallery: a page and a picture for each program in `docs/gallery`, made when the documentation
is built.

A program begins with a docstring, its title and some sentences, and leaves one figure open. It runs
again only if it has changed; pictures and what was printed are kept in `build/gallery`.
"""

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PROGRAMS = HERE / "gallery"
KEPT = HERE.parent / "build" / "gallery"
RUN = """
import runpy, sys
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 140})
runpy.run_path(sys.argv[1])
assert len(plt.get_fignums()) == 1, "expected one figure"
plt.gcf().savefig(sys.argv[2], bbox_inches="tight")
"""
LIMIT_S = 900


class Program(NamedTuple):
    """A program of the gallery: its file, title and text, and the first line of its code."""

    path: Path
    title: str
    text: str
    first_line: int


def read_programs() -> list[Program]:
    """The programs, by name."""
    programs = []
    for path in sorted(PROGRAMS.glob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        title, _, text = (ast.get_docstring(module) or "").partition("\n")
        programs.append(Program(path, title, text.strip(), module.body[1].lineno))
    return programs


def run(program: Program) -> tuple[Path, str]:
    """The picture of a program, and what it has printed; from an earlier build if nothing has
    changed."""
    KEPT.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(program.path.read_bytes()).hexdigest()[:16]
    picture = KEPT / f"{program.path.stem}-{digest}.png"
    printed = picture.with_suffix(".txt")
    if not (picture.is_file() and printed.is_file()):
        command = [sys.executable, "-c", RUN, str(program.path), str(picture)]
        paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        process = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=LIMIT_S, check=False
        )
        if process.returncode:
            raise RuntimeError(f"{program.path}: {process.stderr[-2000:]}")
        printed.write_text(process.stdout, encoding="utf-8")
    return picture, printed.read_text(encoding="utf-8")


def page_text(program: Program, printed: str) -> str:
    """The page of a program, in Markdown."""
    name = program.path.stem
    output = ""
    if printed.strip():
        output = f"It prints\n\n```text\n{printed.strip()}\n```\n"
    return (
        f"# {program.title}\n\n{program.text}\n\n```{{image}} {name}.png\n:alt: {program.title}\n:width: 640px\n```\n\n"
        f"```{{literalinclude}} {name}.py\n:language: python\n:lines: {program.first_line}-\n```\n\n{output}\n"
        f"{{download}}`{name}.py`, a program that runs as it is. [All pictures](index.md)\n"
    )


def index_text(programs: list[Program]) -> str:
    """The page of all pictures."""
    cards = "\n".join(
        f":::{{grid-item-card}} {program.title}\n:link: {program.path.stem}\n:link-type: doc\n"
        f":img-top: {program.path.stem}.png\n:class-card: gallery-card\n:::\n"
        for program in programs
    )
    pages = "\n".join(program.path.stem for program in programs)
    return (
        "# Gallery\n\nEach picture is a click from the program that made it, when this site was built.\n\n"
        f"::::{{grid}} 1 2 3 3\n:gutter: 3\n\n{cards}::::\n\n```{{toctree}}\n:hidden:\n{pages}\n```\n"
    )


def make(runs: bool) -> None:
    """Writes the pages of the gallery into `docs/gallery`. Without `runs` a page that has no picture
    yet has one of a run's page."""
    programs = read_programs()
    for program in programs:
        picture, printed = (None, "")
        if runs:
            picture, printed = run(program)
        to = PROGRAMS / f"{program.path.stem}.png"
        if picture is not None:
            shutil.copyfile(picture, to)
        elif not to.is_file():
            shutil.copyfile(HERE / "images" / "topics-page.png", to)
        _write(PROGRAMS / f"{program.path.stem}.md", page_text(program, printed))
    _write(PROGRAMS / "index.md", index_text(programs))


def _write(path: Path, text: str) -> None:
    """Writes a file if its text is another, so that Sphinx reads it again only then."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
