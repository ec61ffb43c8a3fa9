"""Corpora: documents as bags of words, in memory or memory-mapped, and the formats that hold counts."""
