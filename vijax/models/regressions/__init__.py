"""Regressions and classifications: Gaussian processes, generalised linear models, hierarchical
ones.

Regressions that are written as a formula are in `formulas`. Laws of the response are in
`vijax.inference.likelihood`."""
