"""Families of vectors and matrices: multivariate normals, Wisharts, and densities of free coordinates."""
