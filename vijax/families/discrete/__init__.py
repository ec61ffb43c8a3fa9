"""Families of classes, counts and probabilities: categorical, multinomial, Dirichlet.

The forms in which tables of Dirichlets over many words are stored are here too."""
