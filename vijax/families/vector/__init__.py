"""Families of vectors and matrices with dependent entries: multivariate normals, Wisharts, and the
densities of free coordinates that guides use.

Entries that are independent of each other are in `vijax.families.scalar`."""
