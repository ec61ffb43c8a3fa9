"""Families of single numbers: normal, gamma, beta, Poisson and their like.

Laws of one number each, in batches. Vectors whose entries depend on each other are in `vector`.
"""
