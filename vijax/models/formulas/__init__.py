"""Regressions that are written as a formula: reading it, laws of the response, priors, integrals
over group effects.

A formula is parsed in `vijax.data.formulas`; here its columns become a model, with what its fits
can be asked."""
