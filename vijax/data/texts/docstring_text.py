"""Docstrings as prose: what is code, signature or markup goes, what the reader reads stays."""

from __future__ import annotations

import re

from vijax.extras import require_extra

# Words of the craft of documenting, not of any subject: without them topics are about the subjects.
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

_SECTIONS = "parameters|other parameters|returns?|yields?|raises|attributes|methods|notes?|references|examples?|"
_SECTIONS += "see also|warns|warnings|args|arguments|keyword arguments"
_CODE_BLOCKS = "code|code-block|plot|math|testcode|doctest|image|figure|autosummary|currentmodule"
_RULES = (  # in order: what each pattern matches becomes the text beside it
    # Sections of no prose, up to the next underlined heading or the end.
    (r"\n *(?:references|examples?|see also) *:?\n *(?:-{3,} *\n)?[\s\S]*?(?=\n *\w[\w ]*\n *-{3,}|\Z)", "\n"),
    (r"^ *(?:>>>|\.\.\.).*(?:\n(?! *\n| *>>>).*)*", ""),  # examples and what they print
    (rf"^( *)\.\. (?:{_CODE_BLOCKS})\b.*(?:\n *$|\n\1 +.*)*", ""),
    (r"```[\s\S]*?```", " "),
    (r"^ *\.\. *(?:\[\w+\]|\w+::)", " "),  # other directives and footnotes: the marker only
    (r":(?:math|label):`[^`]*`|\$[^$]*\$", " "),
    (r":[\w:+-]+:`~?\.?([^`<]*)(?:<[^`]*>)?`", r"\1"),  # roles: their text
    (r"https?://\S+", " "),
    (r"^ *[\w*, ]+ : [^\n]*$", " "),  # "x : array_like, optional", NumPy's style
    (r"^ *[\w*]+(?: \([^)\n]*\))?: (?=\S)", " "),  # "x: what it is", Google's style: the name only
    (rf"^ *(?:{_SECTIONS}) *:? *$", " "),
    (r"^ *[-=~^*#+|]{3,}[-=~^*#+| ]*$", " "),  # underlines and tables
    (r"^\w+\([^\n]*\)(?: *->.*)?$", " "),  # signatures
    (r"%\(\w+\)s|\{\w+\}|\|\w+\|", " "),  # templates not filled in
    (r"``[^`]*[=(\[][^`]*``", " "),  # inline code; names stay
    (r"[`*|<>]+", " "),
)
_COMPILED = tuple((re.compile(pattern, re.MULTILINE | re.IGNORECASE), text) for pattern, text in _RULES)


def clean(docstring: str) -> str:
    r"""The prose of a docstring.

    >>> clean("Sum of elements.\n\nParameters\n----------\na : array_like\n    What to sum.\n\n>>> sum([1])\n1")
    'Sum of elements. What to sum.'
    """
    text = docstring
    for pattern, replacement in _COMPILED:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def english() -> tuple[str, ...]:
    """scikit-learn's English stop words, sorted so that a cache can be keyed by them."""
    return tuple(sorted(require_extra("sklearn.feature_extraction.text").ENGLISH_STOP_WORDS))
