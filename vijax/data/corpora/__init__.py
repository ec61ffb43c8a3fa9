"""Corpora: documents as bags of words, in memory or memory-mapped, and the formats that hold
counts.

A corpus in memory is made by `build`; how texts become words is in `texts`, and batches are dealt
by `minibatch`."""
