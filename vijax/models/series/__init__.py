"""Models of sequences: hidden Markov models (also factorial and autoregressive), linear-Gaussian
and switching state spaces.

Families of chains are in `vijax.families.chain`, observation models in `emission`.
"""
