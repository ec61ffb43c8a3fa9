"""Families of sequences: discrete Markov chains and linear-Gaussian ones."""
