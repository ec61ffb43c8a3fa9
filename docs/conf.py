"""How the documentation is built; see `docs/README.md`."""

import importlib.util
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import gallery_pages
from docutils import nodes

import vijax

vijax.checkpoint, vijax.plots  # noqa: B018  (public names of modules that vijax imports on first use)

project = "vijax"
author = "the vijax developers"
version = release = vijax.__version__
html_title = f"vijax {release}"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "myst_nb",
    "sphinx_design",
]
exclude_patterns = ["README.md"]
templates_path = ["_templates"]
# Lines with `!` are no Python, as which a page that is not run is read.
suppress_warnings = ["mystnb.unknown_mime_type", "misc.highlighting_failure"]

# --- pages and notebooks --------------------------------------------------------------------------------------------
HERE = Path(__file__).parent
(HERE / "notebooks").mkdir(exist_ok=True)
for notebook in (HERE.parent / "notebooks").glob(
    "*.ipynb"
):  # Sphinx reads nothing from outside of its folder
    shutil.copyfile(notebook, HERE / "notebooks" / notebook.name)

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"  # in build/, so that a page runs again only when it has changed
# Notebooks hold their outputs, which the slow tests make again; PyMC is large.
nb_execution_excludepatterns = ["notebooks/*"]
if importlib.util.find_spec("pymc") is None:
    nb_execution_excludepatterns.append("how-to/pymc.md")
nb_execution_in_temp = True
nb_execution_cache_path = str(HERE.parent / "build" / "notebooks")
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_merge_streams = True

# --- the API --------------------------------------------------------------------------------------------------------
autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"  # signatures name shapes; the text says the rest
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": False, "undoc-members": False}
add_module_names = False
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": True,
    "secondary_sidebar_items": ["page-toc"],
    "logo": {
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
        "alt_text": "vijax",
    },
    "header_links_before_dropdown": 4,
}
html_static_path = ["_static"]
html_css_files = ["vijax.css"]
html_favicon = "_static/favicon.svg"
# Without a list of pages beside it the column has room for lines of code of 100 letters
html_sidebars = {
    page: []
    for page in (
        "index",
        "install",
        "five-minutes",
        "which-method",
        "gallery/*",
        "notebooks/*",
        "changelog",
        "examples",
    )
}
html_show_sourcelink = False
html_copy_source = False

_SPECIAL = re.compile(r"([*|]|(?<=\w)_(?=\W|$))")


def plain(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings here are plain text with code between backticks; to Sphinx stars, bars and final
    underscores outside of code would be markup."""
    del app, name, obj, options
    if what == "property" and lines:  # else "kappa: how strong" would be read as "type: what it is"
        lines[0] = lines[0].replace(": ", ", ", 1)
    if lines[:1] == ["Attributes:"]:  # a docstring that begins with them has lost their indentation
        lines[1:] = [f"  {line}" for line in lines[1:]]
    in_example = False
    for i, line in enumerate(lines):
        stripped = line.strip()
        in_example = stripped.startswith((">>>", "...")) or (in_example and stripped != "")
        if not in_example and not stripped.startswith((":", "..")):
            parts = line.split("`")
            parts[::2] = [_SPECIAL.sub(r"\\\1", part) for part in parts[::2]]
            lines[i] = "`".join(parts)


def skip(app: Any, what: str, name: str, obj: Any, skipped: bool, options: Any) -> bool | None:
    """Fields of named tuples are described by the docstring of the class; scikit-learn's
    `set_..._request` by its own documentation."""
    del app, what, options
    return True if type(obj).__name__ == "_tuplegetter" or name.endswith("_request") else None


LONG = 104  # characters, of a printed line that is wrapped


def wrap_sentences(app: Any, doctree: Any, page: str) -> None:
    """Sentences that a cell has printed fit the column; rows of tables stay lines."""
    del app, page
    for block in doctree.findall(nodes.literal_block):
        if "output" in block["classes"]:
            lines = [_wrapped(line) for line in block.astext().splitlines()]
            block.children = [nodes.Text("\n".join(lines))]


def _wrapped(line: str) -> str:
    """A long line of words in several lines."""
    words = line.strip()
    if len(line) <= LONG or "   " in words:
        return line
    return textwrap.fill(words, LONG - 10, break_long_words=False, break_on_hyphens=False)


def make_gallery(app: Any) -> None:
    """Runs the programs of the gallery, unless notebooks are not run either."""
    gallery_pages.make(runs=app.config.nb_execution_mode != "off")


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.connect("builder-inited", make_gallery)
    app.connect("autodoc-process-docstring", plain, priority=400)
    app.connect("autodoc-skip-member", skip)
    app.connect("doctree-resolved", wrap_sentences)
