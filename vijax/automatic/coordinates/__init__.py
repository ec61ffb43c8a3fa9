"""Coordinates in which a posterior is nearer to a normal: coordinates of hierarchies, which are
learnt before a normal is fitted, with their trends; and bent coordinates, after it.

A coordinate is a map with its log determinant, in `vijax.models.energies`; here it is learnt for
one density."""
