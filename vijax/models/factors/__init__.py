"""Matrices and graphs by few factors: factor analysis, gamma-process factorisation, stochastic blocks."""
