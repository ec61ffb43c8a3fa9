"""Coordinates in which a posterior is nearer to a normal: of hierarchies, learnt before a normal is
fitted, with what moves them; and bent ones, after it.

A coordinate is a map with its log determinant, in `vijax.models.energies`; here it is learnt for
one density."""
