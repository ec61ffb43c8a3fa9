"""Integrals over the effects of groups: of one grouping factor, of several, and of several under a
normal law.

They are functions of numbers that the model gives. What an effect is, and its prior, is said in the
folder above."""
