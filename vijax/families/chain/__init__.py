"""Families of sequences: discrete Markov chains and linear-Gaussian ones.

Laws of whole sequences. What is observed at a step is an emission, in `vijax.models.emission`.
"""
