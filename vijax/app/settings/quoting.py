"""Words of a shell within the commands that are printed, so that they can be pasted."""

import shlex
from pathlib import Path


def quote(word: Path | str) -> str:
    """A path or another argument, in quotes where a shell would not take it for one word.

    >>> print(quote("runs/lda"), quote("my runs/lda"))
    runs/lda 'my runs/lda'
    """
    return shlex.quote(str(word))
