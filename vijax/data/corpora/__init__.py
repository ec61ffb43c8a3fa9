"""Corpora: documents as bags of words, in memory or memory-mapped, and file formats of counts.

`build` makes a corpus. `texts` turns text into words, and `minibatch` deals batches."""
