"""Normals of full covariance for hundreds and thousands of variables, by second derivatives of the
density.

The pairs of variables with a second derivative belong here, and the fit that uses them. Fits by
slopes alone are in the folder above."""
