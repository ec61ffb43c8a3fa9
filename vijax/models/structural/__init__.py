"""Topics with covariates of the documents: the structural topic model, and effects on shares.

Its formulas are parsed in `vijax.data.formulas`; topics without covariates are in `documents`.
"""
