"""Conjugate unknowns of a model of another library: integrated out before the fit, and drawn after
it.

No table of pairs of laws is here: whether an integral has a closed form is read off slopes of the
density. Discrete unknowns are not here: those of NumPyro are in `numpyro_discrete`, those of PyMC
in `pymc_discrete`."""
