"""Regressions by a formula: designs, laws of the response, priors, integrals over group effects.

A formula is parsed in `vijax.data.formulas`; here its columns become a model with queries of its
fits."""
