"""Normals of full covariance for hundreds and thousands of variables, by second derivatives of the
density.

Here belong which pairs of variables have a second derivative, and the fit that reads them. Fits
that know slopes alone lie beside this folder."""
