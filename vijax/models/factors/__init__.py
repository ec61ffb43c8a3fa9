"""Matrices and graphs by few factors: factor analysis, gamma-process factorisation, stochastic
blocks.

Factors from neural networks are in `networks`; states that change in time in `series`.
"""
