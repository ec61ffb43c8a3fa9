"""Families of sequences: discrete Markov chains and linear-Gaussian chains.

A law describes a whole sequence of states. The observation at a step is an emission
(`vijax.models.emission`)."""
