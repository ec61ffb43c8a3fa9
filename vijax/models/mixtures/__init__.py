"""Mixtures: finite ones of any family, and Dirichlet-process mixtures."""
