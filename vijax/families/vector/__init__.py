"""Families of vectors and matrices: multivariate normals, Wisharts, and densities of free
coordinates.

Laws of vectors and matrices whose entries depend on each other, and the families that guides name.
"""
