"""Joint draws of the discrete unknowns of a NumPyro model that were summed out.

The sum itself, and posterior probabilities of single unknowns, are in `numpyro_discrete`; PyMC's
discrete variables are drawn by pymc_extras."""
