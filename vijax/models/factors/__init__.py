"""Matrices and graphs by few factors: factor analysis, gamma-process factorisation, stochastic
blocks.

Factors that a network gives are in `networks`; those of a state that moves in time in `series`.
"""
