"""Warnings on intervals of effects that may be too narrow, from measurements of
benchmarks/stm.py."""

from __future__ import annotations

from vijax.data.corpora.corpus import Corpus

SHORT = 55
"""Words a document from which 90 % intervals covered as often as with known shares: 92 % and 89 %
at 55 words, 85 % and 88 % at 30."""
OF_SHORT = (
    "In simulated corpora of 30 words a document 90 % intervals covered 85 %, less where two "
    "topics were merged: "
    'fit again with start="documents" and restarts=4, and keep the fit with the higher bound.'
)
AT_FITTED = "At fitted topics (sweeps=0) they covered 80 %."
STUCK = 0.1
"""Share of accepted proposals below which a chain of a few hundred sweeps mixes too slowly."""


def interval_notes(corpus: Corpus, sweeps: int, accepted: float = 1.0) -> tuple[str, ...]:
    """Warnings on the intervals of effects; () if there are none.

    Args:
      corpus: the documents.
      sweeps: sweeps of the chain before the first draw; 0 if shares are drawn at fitted topics.
      accepted: share of the chain's proposals that were accepted.

    >>> interval_notes(Corpus.from_counts([[40, 60]]), 300)
    ()
    >>> print(*interval_notes(Corpus.from_counts([[10, 14]]), 300))
    Documents are short (24 words on average): intervals may be too narrow. ...
    """
    notes = []
    words = corpus.num_tokens / corpus.num_documents
    if words < SHORT:
        notes.append(
            f"Documents are short ({words:.0f} words on average): intervals may be too narrow. "
            f"{OF_SHORT}"
        )
        if not sweeps:
            notes.append(AT_FITTED)
    if accepted < STUCK:
        share = f"{100 * accepted:.0f} %"
        notes.append(
            f"The chain accepted {share} of its proposals: intervals may be too narrow. Take more "
            "sweeps."
        )
    return tuple(notes)
