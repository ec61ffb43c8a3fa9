"""Models of sequences: hidden Markov models, factorial and autoregressive ones, linear-Gaussian
state spaces, switching ones.

Families of chains are in `vijax.families.chain`, laws of what is observed in `emission`.
"""
