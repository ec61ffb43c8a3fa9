"""Integrals over the effects of groups: for one grouping factor, for several, and for several under
a normal law.

They are functions of arrays. The effects and their priors are defined in the folder above."""
