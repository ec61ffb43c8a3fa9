import sys

import pytest

from tests.naming import naming
from vijax.data.texts.docstrings import PACKAGES, clean, docstring_corpus, docstrings

SOURCE = '''
"""Orchard: trees and the weather they need, in a module of some length, to be a document of the corpus."""
raise RuntimeError("this module must never run")

class Tree:
    """A tree bears fruit in autumn. Prune the branches in winter, water the roots in summer.

    Parameters
    ----------
    height : float, optional
        How tall the tree grows, in metres.

    Examples
    --------
    >>> Tree(3.0)
    Tree(secretoutput)
    """

    def shake(self):
        """Too short."""

def copy():
    """A tree bears fruit in autumn. Prune the branches in winter, water the roots in summer.

    How tall the tree grows, in metres.
    """

add_newdoc("orchard.core", "ufunc", """What a compiled function gets from elsewhere, about bees and honey.""")
'''


@pytest.fixture
def orchard(tmp_path, monkeypatch):
    for folder in ("orchard/_core", "orchard/tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "orchard" / "__init__.py").write_text("")
    (tmp_path / "orchard" / "_core" / "trees.py").write_text(SOURCE)
    (tmp_path / "orchard" / "broken.py").write_text("def (:")
    (tmp_path / "orchard" / "tests" / "test_trees.py").write_text(
        f'"""{"Tests are no documentation. " * 9}"""'
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "cache"


def test_docstrings_are_collected_without_running_anything(orchard):
    documents = dict(docstrings(["orchard"], min_chars=50))
    assert list(documents) == ["orchard.trees", "orchard.trees.Tree", "orchard.ufunc"]
    assert documents["orchard.trees.Tree"].endswith(
        "in summer. How tall the tree grows, in metres."
    )
    assert "orchard" not in sys.modules


def test_corpus_is_cached_and_names_what_is_missing(orchard):
    corpus = docstring_corpus(["orchard", "no_such_package"], min_chars=50, cache_dir=orchard)
    assert tuple(corpus.titles) == ("orchard.trees", "orchard.trees.Tree", "orchard.ufunc")
    assert {"fruit", "autumn", "honey"} <= set(corpus.vocabulary)
    assert not {"secretoutput", "parameters", "optional"} & set(corpus.vocabulary)
    assert corpus.notes == ("Packages not installed, and so left out: no_such_package.",)
    (orchard.parent / "orchard" / "_core" / "trees.py").unlink()
    assert docstring_corpus(["orchard"], min_chars=50, cache_dir=orchard).num_documents == 3


def test_no_package_at_all(tmp_path):
    with pytest.raises(ValueError, match=naming("packages:", "no_such_package")):
        docstring_corpus(["no_such_package"], cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("docstring", "prose"),
    [
        (
            "See :func:`~numpy.sum` and :class:`the tree <orchard.Tree>`.",
            "See numpy.sum and the tree .",
        ),
        ("Area :math:`\\pi r^2`.\n\n.. math::\n\n   \\int x\n\nEnd.", "Area . End."),
        (
            "Adds.\n\nArgs:\n  x (int): the first term.\n  y: the second.",
            "Adds. the first term. the second.",
        ),
        ("Title\n=====\n\n.. versionadded:: 1.2\n\nBody at https://x.org/a.", "Title 1.2 Body at"),
        ("f(a, b=1) -> c\n\nA function.", "A function."),
        (
            "Runs.\n\nReferences\n----------\n.. [1] A. Uthor, 1999.\n\nNotes\n-----\nFast.",
            "Runs. Fast.",
        ),
    ],
)
def test_markup_goes_and_prose_stays(docstring, prose):
    assert clean(docstring) == prose


@pytest.mark.slow
def test_embedded_corpus_is_as_large_as_promised(tmp_path):
    corpus = docstring_corpus(PACKAGES, cache_dir=tmp_path)
    assert corpus.num_documents > 6000
    assert corpus.num_tokens > 250_000
    assert corpus.vocab_size > 3000
