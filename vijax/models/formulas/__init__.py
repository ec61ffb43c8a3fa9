"""Regressions that are written as a formula: reading it, laws of the response, priors, integrals over group effects."""
