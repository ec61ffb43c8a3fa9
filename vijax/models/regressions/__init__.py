"""Regressions and classifications: Gaussian processes, generalised linear models, hierarchical ones."""
