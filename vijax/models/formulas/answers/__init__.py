"""Answers in the units of the response, from draws of a fitted regression: predictions of grids,
comparisons, slopes, marginal means, variance explained, effects by group.

They read draws and columns. The density, its draws and predictors are in the folder above; checks
of the fit itself, and of its priors, in `vijax.trust`."""
